"""Datasets made of views: as stored, or encoded in another form to train from, and kept so."""

from tensorlake.dataset.transform.materialize.materialize import materialize
from tensorlake.dataset.transform.materialize.refresh import refresh_copy

__all__ = ["materialize", "refresh_copy"]
