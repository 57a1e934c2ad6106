"""Rows as Arrow: a dataset that scans with conditions, and batches of a stream."""
