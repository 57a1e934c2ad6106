"""Chunks: columns to bytes and back, and codecs."""
