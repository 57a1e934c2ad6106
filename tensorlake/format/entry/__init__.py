"""Log entries: commits, schemas, and summaries of changes."""
