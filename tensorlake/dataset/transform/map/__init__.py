"""``map``: a user's function over rows, in threads, in processes or on a Ray cluster."""
