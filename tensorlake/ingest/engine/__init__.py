"""The engine of every importer: sources, the ledger, comparison, read-ahead, commits."""
