"""``tensorlake bench``: a run, its opponent and its page."""
