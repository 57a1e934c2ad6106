"""Concurrency: the bridge to asynchronous I/O, retries, limits and locks."""
