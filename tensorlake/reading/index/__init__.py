"""Index lookups: from rows of a version to chunks, with caches."""
