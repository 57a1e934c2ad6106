"""Volumes: NIfTI files, stored in tiles."""
