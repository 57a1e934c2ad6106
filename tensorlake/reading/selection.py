"""Rows × columns of one snapshot: the basis of views, and the input of loaders.

A row has four numbers, never mixed: *position* in the selection, *row* of the version, *physical
row* in the branch's axis, and row id. A selection maps the first to the next two, vectorised, and
its digest identifies it permanently: equal digests mean equal rows of the same version in the same
    order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlake.reading.snapshot import Snapshot

__all__ = ["Int64Array", "Selection"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Rows of a snapshot, in an order, and some of its columns.

    Attributes:
        snapshot: The version of the rows.
        columns: Names of tensors; the digest does not depend on them.
        rows: Rows of the version by position, int64, may repeat; None for all rows in order.
    """

    snapshot: Snapshot
    columns: tuple[str, ...]
    rows: Int64Array | None = None

    @property
    def num_rows(self) -> int:
        """The number of selected rows."""
        return self.snapshot.num_rows if self.rows is None else len(self.rows)

    @property
    def digest(self) -> str:
        """Digest of (version, rows in order), 40 hex digits."""
        hasher = hashlib.blake2b(self.snapshot.digest.encode(), digest_size=20)
        if self.rows is not None:
            hasher.update(np.ascontiguousarray(self.rows, dtype="<i8").tobytes())
        return hasher.hexdigest()

    def row_numbers(self, positions: Int64Array) -> Int64Array:
        """Map positions in the selection to rows of the version."""
        return positions if self.rows is None else self.rows[positions]

    def physical(self, positions: Int64Array) -> Int64Array:
        """Map positions in the selection to physical rows."""
        return self.snapshot.physical(self.row_numbers(positions))

    @property
    def first_physical(self) -> int | None:
        """The physical row of position 0, if all others follow consecutively; else None."""
        return self.snapshot.first_physical if self.rows is None else None

    def all_positions(self) -> Int64Array:
        """List every position, in order."""
        return np.arange(self.num_rows, dtype=np.int64)

    def with_rows(self, positions: Int64Array) -> Selection:
        """Select among the selected rows."""
        return Selection(self.snapshot, self.columns, self.row_numbers(positions))

    def with_columns(self, columns: tuple[str, ...]) -> Selection:
        """Return the same rows with other columns."""
        return Selection(self.snapshot, columns, self.rows)
