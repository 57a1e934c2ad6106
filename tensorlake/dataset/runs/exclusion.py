"""Rows that the rest of a run leaves out, as an object of its record that states refer to."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlake.dataset.core.row_identity import ids_of
from tensorlake.dataset.core.rowset import HasRows, rowset_of
from tensorlake.dataset.runs.record import Record
from tensorlake.dataset.transform.splice import ids_to_arrow
from tensorlake.errors import InvalidInputError, shown

__all__ = ["put_exclusion"]


def put_exclusion(record: Record, view: Any, dataset: HasRows | None) -> str:
    """Store the row ids of a view beside a run's record; return the path.

    Raises:
        InvalidInputError: It has no rows of the run's dataset.
    """
    if not hasattr(view, "__rowset__"):
        raise InvalidInputError(
            f"skip() takes the rows as a view, such as ds.query(…), got {shown(view)}"
        )
    rows = rowset_of(view)
    if dataset is None:
        raise InvalidInputError(
            f"skip() is for runs that are recorded beside their dataset: ds.run({record.name!r})"
        )
    own = rowset_of(dataset).url
    if own != rows.url:
        raise InvalidInputError(
            f"run {record.name!r} is recorded beside {own!r}, and skip() got rows of {rows.url!r}"
            "\ngive a view of the run's dataset"
        )
    physical = np.unique(rows.selection.physical(rows.selection.all_positions()))
    if not len(physical):
        raise InvalidInputError("skip() got a view without rows\ngive the rows to leave out")
    return record.put_skipped(ids_to_arrow(ids_of(rows.selection.snapshot, physical)))
