"""Functions of arrays, vectors, boxes and masks."""
