"""Caches: rows that coming batches use, kept where they are near."""
