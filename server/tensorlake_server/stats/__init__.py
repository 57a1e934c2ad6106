"""Statistics: class counts and histograms."""
