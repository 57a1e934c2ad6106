"""Matching rows of two snapshots by row id, the permanent identifier of a row.

Row positions change when other rows are deleted, and physical rows differ between branches; a row
id (transaction, offset) never changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.format import find_rows, row_ids, txid_of
from tensorlake.reading import Selection, Snapshot
from tensorlake.storage import runtime

__all__ = [
    "ids_of",
    "matched_by_row_id",
    "physical_of",
    "positions_by_row_id",
    "row_id_texts",
]

Int64Array = npt.NDArray[np.int64]
RowIds = npt.NDArray[Any]
"""Records (txid_high, txid_low, offset), as ``tensorlake.format.ROW_ID``."""


def positions_by_row_id(wanted: Selection, among: Selection) -> Int64Array:
    """Return positions in ``among`` of the rows of ``wanted``, in its order; skip missing ones."""
    return matched_by_row_id(wanted, among)[0]


def matched_by_row_id(wanted: Selection, among: Selection) -> tuple[Int64Array, Int64Array]:
    """Find the rows of ``wanted`` in ``among``.

    Returns:
        Positions in ``among``, and the positions of the same rows in ``wanted``; both in the order
        of ``wanted``, without missing rows.
    """
    physical = wanted.physical(wanted.all_positions())
    found = physical_of(ids_of(wanted.snapshot, physical), among.snapshot)
    rows = np.full(len(found), -1, dtype=np.int64)
    known = found >= 0
    rows[known] = among.snapshot.rows_of(found[known])
    kept = np.flatnonzero(rows >= 0)
    rows = rows[kept]
    if among.rows is None or len(rows) == 0:
        return rows, kept
    order = np.argsort(among.rows, kind="stable")
    at = np.searchsorted(among.rows, rows, sorter=order)
    is_inside = at < len(order)
    at, rows, kept = at[is_inside], rows[is_inside], kept[is_inside]
    is_there = among.rows[order[at]] == rows
    return order[at][is_there].astype(np.int64), kept[is_there]


def ids_of(snapshot: Snapshot, physical: Int64Array) -> RowIds:
    """Return the row ids of physical rows, in their order."""
    return runtime.run(row_ids(snapshot.state.row_ids, physical, snapshot.packs.pages))


def physical_of(ids: RowIds, snapshot: Snapshot) -> Int64Array:
    """Return the physical rows of row ids in a snapshot; -1 for unknown ones."""
    return runtime.run(find_rows(snapshot.state.row_ids, ids, snapshot.packs.pages))


def row_id_texts(selection: Selection) -> list[str]:
    """Return the row ids of a selection as strings ``<txid>:<offset>``."""
    ids = ids_of(selection.snapshot, selection.physical(selection.all_positions()))
    return [f"{txid_of(one)}:{int(one['offset'])}" for one in ids]
