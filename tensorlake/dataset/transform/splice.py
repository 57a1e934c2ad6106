"""The rows of a loader that is advanced: of another version, by a condition, without some rows.

Rows are the same in two versions if they have one row id. Nothing is read but row ids, and what
the condition names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import ids_of, matched_ids, rows_of_ids
from tensorlake.dataset.query.run import run_where
from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.format import ROW_ID
from tensorlake.loader import Changes, Edit, SelectedRows
from tensorlake.reading import Selection, Snapshot
from tensorlake.storage import runtime
from tensorlake.versions import table_of

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["RowEdits", "ids_from_arrow", "ids_to_arrow"]

Int64Array = npt.NDArray[np.int64]
LISTED_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class RowEdits:
    """Finds the rows of a view in other versions, and by other conditions.

    Attributes:
        base: The view.
        at: Returns it at another version; None: it has only this one.
        made: Makes a loader's rows.
    """

    base: RowSet
    at: Callable[[str], RowSet] | None
    made: Callable[[RowSet], SelectedRows]
    _found: dict[Edit, SelectedRows] = field(default_factory=dict[Edit, SelectedRows])
    _changes: dict[tuple[str, str], Changes] = field(default_factory=dict[tuple[str, str], Changes])

    def rows(self, edit: Edit) -> SelectedRows:
        """Return the rows; they are found once.

        Raises:
            InvalidInputError: The view exists at its version only.
            CorruptionError: A list of rows is damaged or missing.
        """
        if edit not in self._found:
            self._found[edit] = self.made(self._edited(edit))
        return self._found[edit]

    def moved(self, old: Selection, new: Selection) -> Callable[[Int64Array], Int64Array]:
        """Return how positions of rows move from one selection to another; −1 for none."""
        return _Moves(old, new)

    def changes(self, old: Selection, new: Selection) -> Changes:
        """Compare two selections by the identity of rows; they are compared once."""
        key = old.digest, new.digest
        if key not in self._changes:
            there = _Moves(old, new)
            back = _Moves(new, old, _known=there.has_same_axis)
            self._changes[key] = Changes(_missing(there), _missing(back), there, back)
        return self._changes[key]

    def _edited(self, edit: Edit) -> RowSet:
        rows = self.base
        if edit.version != rows.version:
            if self.at is None:
                raise InvalidInputError(
                    f"advance({edit.version!r}): this view is of {rows.version} only: it was saved,"
                    " or its rows were chosen by hand\nmake the loader of a dataset or a query"
                )
            rows = self.at(edit.version)
        if edit.where is not None:
            rows = run_where(rows, edit.where, {})
        for path in edit.without:
            positions, _ = matched_ids(self._listed(path), rows.selection)
            kept = np.ones(len(rows), dtype=np.bool_)
            kept[positions] = False
            rows = rows.take(np.flatnonzero(kept))
        return rows

    def _listed(self, path: str) -> npt.NDArray[Any]:
        store = self.base.session.store
        data = runtime.run(store.get(path))
        if data is None:
            raise CorruptionError(
                f"{store.url!r} lacks {path!r}, the rows that the state leaves out: the run that"
                " left them out was deleted\nstart over without load_state_dict()",
                object=path,
            )
        return ids_from_arrow(data, path)


class _Moves:
    """Maps positions in one selection to those of the same rows in another; −1 for none."""

    def __init__(self, old: Selection, new: Selection, *, _known: bool | None = None) -> None:
        self.old = old
        self.new = new
        self.has_same_axis = _have_same_axis(old, new) if _known is None else _known

    def __call__(self, positions: Int64Array) -> Int64Array:
        old, new = self.old, self.new
        if old.snapshot.digest == new.snapshot.digest:
            rows = old.row_numbers(positions)
        elif self.has_same_axis:
            rows = new.snapshot.rows_of(old.physical(positions))
        else:
            rows = rows_of_ids(ids_of(old.snapshot, old.physical(positions)), new.snapshot)
        if new.rows is None:
            return rows
        ranked, sorted_rows = self._ranked
        if not len(sorted_rows):
            return np.full_like(rows, -1)
        at = np.minimum(np.searchsorted(sorted_rows, rows), len(sorted_rows) - 1)
        return np.where(sorted_rows[at] == rows, at if ranked is None else ranked[at], -1)

    @cached_property
    def _ranked(self) -> tuple[Int64Array | None, Int64Array]:
        """The new selection's positions by ascending row, and these rows."""
        rows = self.new.rows
        assert rows is not None, "asked for selected rows only"
        if (np.diff(rows) >= 0).all():
            return None, rows
        ranked = np.argsort(rows, kind="stable")
        return ranked, rows[ranked]


def _missing(moves: _Moves) -> Int64Array:
    """Return the positions whose rows the other selection lacks, ascending."""
    old, new = moves.old, moves.new
    if moves.has_same_axis and old.rows is None and new.rows is None:
        return np.sort(old.snapshot.rows_of(_without(old.snapshot, new.snapshot)))
    count = old.num_rows
    found = [np.zeros(0, dtype=np.int64)]
    for start in range(0, count, LISTED_ROWS):
        positions = np.arange(start, min(start + LISTED_ROWS, count))
        found.append(positions[moves(positions) < 0])
    return np.concatenate(found)


def _have_same_axis(old: Selection, new: Selection) -> bool:
    """Whether the physical rows that two versions both have are the same rows.

    So it is on a branch, and between branches until both append; not after rows were sorted.
    """
    one, other = old.snapshot, new.snapshot
    if one.url != other.url:
        return False
    roots = one.state.row_ids, other.state.row_ids
    common = min(root.rows for root in roots)
    runs, others = (
        runtime.run(table_of(root, snapshot.packs.pages)).slice_rows(0, common).united()
        for root, snapshot in zip(roots, (one, other), strict=True)
    )
    columns = zip(runs.to_columns().values(), others.to_columns().values(), strict=True)
    return all(np.array_equal(*pair) for pair in columns)


def _without(old: Snapshot, new: Snapshot) -> Int64Array:
    """Return the physical rows that a version shows and another of the same axis does not."""
    borders, changes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for snapshot, step in ((old, 1), (new, -2)):
        rows = runtime.run(table_of(snapshot.state.rows, snapshot.packs.pages))
        starts, stops = rows.to_ranges()
        borders += [starts, stops]
        changes += [np.full(len(starts), step), np.full(len(stops), -step)]
    at, change = np.concatenate(borders), np.concatenate(changes)
    order = np.argsort(at, kind="stable")
    at, shown = at[order], np.cumsum(change[order])
    is_only_old = np.flatnonzero((shown[:-1] == 1) & (at[1:] > at[:-1]))
    parts = [np.arange(at[one], at[one + 1]) for one in is_only_old.tolist()]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def ids_to_arrow(ids: npt.NDArray[Any]) -> bytes:
    """Return row ids as a compressed Arrow stream."""
    import pyarrow as pa

    table = pa.table({name: pa.array(ids[name]) for name in ROW_ID.names or ()})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def ids_from_arrow(data: bytes, path: str) -> npt.NDArray[Any]:
    """Return the row ids of an Arrow stream.

    Raises:
        CorruptionError: It is not one.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(data).read_all()
        ids = np.empty(len(table), ROW_ID)
        for name in ROW_ID.names or ():
            ids[name] = table.column(name).to_numpy()
    except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
        raise CorruptionError(f"{path!r} is damaged: {error}", object=path) from error
    return ids
