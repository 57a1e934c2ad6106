"""Stores: local folders, object storage, memory, fsspec and tensorlake servers."""
