"""Warnings of queries, filters and splits."""

__all__ = [
    "EmptySideWarning",
    "QueryWarning",
    "RunsHereWarning",
    "SkippedRowsWarning",
    "SlowFilterWarning",
]


class QueryWarning(UserWarning):
    """A query is valid, but probably not what was intended."""

    __module__ = "tensorlake"


class RunsHereWarning(UserWarning):
    """A query of a dataset behind a server runs in this process, and reads columns through it."""

    __module__ = "tensorlake"


class SlowFilterWarning(UserWarning):
    """A filter in Python looks at every row by itself; a condition in TQL does not."""

    __module__ = "tensorlake"


class SkippedRowsWarning(UserWarning):
    """A function given to ``map(on_error="skip")`` raised for some rows, which were left out."""

    __module__ = "tensorlake"


class EmptySideWarning(UserWarning):
    """A side of a split got no row: too few rows, or groups, for its share."""

    __module__ = "tensorlake"
