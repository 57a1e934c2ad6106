"""Media: stored images and masks for browsers."""
