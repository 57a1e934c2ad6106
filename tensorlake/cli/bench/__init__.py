"""``tensorlake bench``: runs, reports and comparisons."""
