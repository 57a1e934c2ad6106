"""The engine of every importer: sources, read-ahead, batches, commits, resumption."""
