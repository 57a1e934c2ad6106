"""Places of an epoch that are made of several rows: packed sequences, and windows of rows."""
