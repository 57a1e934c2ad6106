"""The life of a request: access, limits, metrics, audit, deadlines."""
