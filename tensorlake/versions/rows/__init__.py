"""Rows and schemas of several versions: alignment by row id, and rules for combining changes."""
