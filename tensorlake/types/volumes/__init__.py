"""Volumes of medical imaging, of which a region is read alone."""
