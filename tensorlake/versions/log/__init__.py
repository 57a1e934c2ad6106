"""Logs: the numbered entries of a branch, and how the next one is put."""
