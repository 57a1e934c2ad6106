"""References: branches, tags and pins, from creation to deletion."""
