"""Admission: checks whether an entry or a tag of another process is accepted into a log."""
