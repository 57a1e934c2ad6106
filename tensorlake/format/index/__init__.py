"""Chunk indexes: extents, row ids and row segments."""
