"""What a query, or a filter, warns of."""

__all__ = ["QueryWarning", "SlowFilterWarning"]


class QueryWarning(UserWarning):
    """A query does what it says, which is probably not what was meant."""


class SlowFilterWarning(UserWarning):
    """A filter in Python looks at every row by itself; a condition in TQL does not."""
