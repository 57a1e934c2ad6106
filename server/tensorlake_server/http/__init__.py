"""HTTP: problem details, caching, ranges, content negotiation."""
