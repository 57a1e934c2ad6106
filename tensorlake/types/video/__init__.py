"""Video: files stored as ingested, read frame by frame."""
