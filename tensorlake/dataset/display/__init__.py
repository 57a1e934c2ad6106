"""What handles show of themselves: in text, in a notebook, in the viewer."""
