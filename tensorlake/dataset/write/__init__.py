"""Writing: inputs, staging, updates, upserts and schema changes."""
