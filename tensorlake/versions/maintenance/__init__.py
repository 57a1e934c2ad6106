"""Maintenance: garbage collection, expiry, compaction and sorting."""
