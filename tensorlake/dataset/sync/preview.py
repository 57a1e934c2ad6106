"""A sync that is counted, and not staged: what a dry run reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.sync.comparison import Action
from tensorlake.dataset.sync.rows import Columns, Rows
from tensorlake.dataset.write.by_row_id import RowsById
from tensorlake.types import Column

__all__ = ["RowsPreview"]

Int64Array = npt.NDArray[np.int64]


class _UnchangedRows(RowsById):
    """Rows that are read, and never changed."""

    def update(self, values: Mapping[str, tuple[Int64Array, Int64Array, Column]]) -> None:
        """Stage nothing."""

    def delete(self, at: Int64Array) -> None:
        """Stage nothing."""


class RowsPreview(Rows):
    """`Rows` that reports changes and stages none: new items are not read."""

    rows_type = _UnchangedRows

    def work(self, *, verify: bool = False) -> npt.NDArray[np.uint8]:
        """Decide as `Rows` does; new items are counted, and need no work."""
        work = super().work(verify=verify)
        is_new = work == Action.ADD
        self._count(np.flatnonzero(is_new))
        work[is_new] = Action.NOTHING
        return work

    def add(self, columns: Columns, items: Int64Array, counts: Int64Array | None = None) -> int:
        """Count new items."""
        del columns, counts
        self._count(items)
        return 0

    def _count(self, items: Int64Array) -> None:
        self._report.added += len(items)
        self._report.name("added", self._names_of(items))

    def _replace(self, *args: Any, **kwargs: Any) -> None:
        """Stage nothing."""
