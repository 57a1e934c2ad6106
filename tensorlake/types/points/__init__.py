"""Point clouds: their columns, in blocks that are read alone."""
