"""Merging: three-way merges by row id, merge bases, and restores."""
