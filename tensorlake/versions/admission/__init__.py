"""Admission: whether an entry or a tag written by another process is accepted into a log."""
