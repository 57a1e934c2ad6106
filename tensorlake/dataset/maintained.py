"""Keeping a dataset healthy, as its handle offers it: compaction, verification, giving up the old.

Nothing here changes a value that a version shows; what it costs and finds is a report that prints.
"""

from __future__ import annotations

from tensorlake.dataset.session import Session

__all__ = ["Maintained"]


class Maintained:
    """What a ``Dataset`` does to stay small, fast and whole."""

    session: Session
