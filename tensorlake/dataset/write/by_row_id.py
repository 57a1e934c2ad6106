"""Rows named by their ids: found, read as stored, updated and deleted.

An ingestion keeps the ids of the rows that it wrote, and brings these rows to their source later,
whatever has happened to the dataset since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.item_counts import check_batch, items_first
from tensorlake.dataset.core.row_identity import ids_of, physical_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.write.inputs import Batch
from tensorlake.dataset.write.staging import convert_columns, stage_values
from tensorlake.format import ROW_ID
from tensorlake.types import Column, take

__all__ = ["RowsById", "converted_rows", "next_row_ids", "row_ids_of"]

Int64Array = npt.NDArray[np.int64]
RowIds = npt.NDArray[Any]

CALL = "extend()"


def next_row_ids(session: Session, count: int) -> RowIds:
    """Return the ids of the next rows that are appended in this transaction."""
    transaction = session.staging()
    ids = np.empty(count, ROW_ID)
    ids["txid_high"] = int(transaction.txid[:16], 16)
    ids["txid_low"] = int(transaction.txid[16:], 16)
    ids["offset"] = transaction.appended_rows + np.arange(count)
    return ids


def row_ids_of(session: Session, rows: Int64Array) -> RowIds:
    """Return the ids of rows by their numbers."""
    snapshot = session.snapshot()
    return ids_of(snapshot, snapshot.physical(rows))


def converted_rows(session: Session, batch: Batch) -> dict[str, Column]:
    """Return values as they would be stored, by tensor name.

    Raises:
        TensorlakeError: The first value that its tensor does not take; nothing is staged.
    """
    schema = session.snapshot().schema
    columns, rows = convert_columns(schema, batch, session.packs.links, row_start=0, call=CALL)
    if len(columns) > 1:
        check_batch(schema, columns, range(rows), call=CALL)
    return {spec.name: columns[spec.id] for spec in schema.tensors if spec.id in columns}


class RowsById:
    """Rows of a dataset by position in a list of ids.

    Args:
        session: The session that stages.
        ids: The ids; those of rows that were compacted away or never published are known as gone.
    """

    def __init__(self, session: Session, ids: RowIds) -> None:
        self._session = session
        snapshot = session.snapshot()
        self._physical = physical_of(ids, snapshot) if len(ids) else np.empty(0, np.int64)
        known = np.flatnonzero(self._physical >= 0)
        rows = snapshot.rows_of(self._physical[known])
        self.is_shown = np.zeros(len(ids), np.bool_)
        self.is_shown[known[rows >= 0]] = True

    def rows(self, at: Int64Array) -> Int64Array:
        """Return the row numbers, now, of some ids, all shown."""
        return self._session.snapshot().rows_of(self._physical[at])

    def read(self, tensor: str, at: Int64Array) -> Column:
        """Read values as they are stored, staged changes included."""
        reader = self._session.reader(self._session.snapshot())
        return reader.read(tensor, self._physical[at], decode=False)

    def update(self, values: Mapping[str, tuple[Int64Array, Int64Array, Column]]) -> None:
        """Stage values for some rows.

        Args:
            values: By tensor: positions in the list of ids, positions in the column, the column.
        """
        with self._session.lock:
            self._session.staging()
            specs = {name: self._session.snapshot().spec(name) for name in values}
            types = {name: spec.type for name, spec in specs.items()}
            for name in items_first(values, types):
                at, places, column = values[name]
                rows = self.rows(at)
                stage_values(self._session, specs[name], rows, take(column, places), call=CALL)

    def delete(self, at: Int64Array) -> None:
        """Stage that some rows are no longer shown."""
        with self._session.lock:
            rows = np.sort(self.rows(at))
            if len(rows):
                snapshot = self._session.snapshot()
                self._session.staging().delete(rows, snapshot.physical(rows))
