"""Execution: plans over batches of rows."""
