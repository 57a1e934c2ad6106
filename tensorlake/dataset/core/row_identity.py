"""Row ids, the permanent identifiers of rows; matching of rows, and of ingested items, by them.

Row positions change when other rows are deleted, and physical rows differ between branches; a row
id (transaction, offset) never changes. The ledger of ingestions (`dataset/sync/ledger.py`) has the
row id of each item, so ``_source``, the item that a row came from, is stored nowhere else.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError, shown
from tensorlake.format import ROW_ID, find_rows, row_ids, txid_of
from tensorlake.reading import Reader, Selection, Snapshot
from tensorlake.storage import runtime
from tensorlake.types import EncodedColumn, UniformColumn

__all__ = [
    "id_of_text",
    "ids_of",
    "is_id_text",
    "matched_by_row_id",
    "matched_ids",
    "physical_of",
    "positions_by_row_id",
    "row_id_texts",
    "rows_in",
    "rows_of_ids",
    "source_texts",
    "text_of_id",
]

TXID_DIGITS = 32
ID_TEXT = re.compile(r"[0-9a-f]{32}:[0-9]+")
WORD_DIGITS = 16

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
    return matched_ids(ids_of(wanted.snapshot, physical), among)


def matched_ids(ids: RowIds, among: Selection) -> tuple[Int64Array, Int64Array]:
    """Find rows by their ids; return as ``matched_by_row_id`` does."""
    rows = rows_of_ids(ids, among.snapshot)
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


def rows_of_ids(ids: RowIds, snapshot: Snapshot) -> Int64Array:
    """Return the rows of row ids in a version, in their order; -1 where it shows none."""
    physical = physical_of(ids, snapshot)
    rows = np.full(len(physical), -1, dtype=np.int64)
    known = physical >= 0
    rows[known] = snapshot.rows_of(physical[known])
    return rows


def rows_in(snapshot: Snapshot, rows: Int64Array, other: Snapshot) -> Int64Array:
    """Return the rows of another version that rows are; -1 where it does not show one."""
    if snapshot.digest == other.digest:
        return rows
    return rows_of_ids(ids_of(snapshot, snapshot.physical(rows)), other)


def text_of_id(row_id: Any) -> str:
    """Return a row id as text ``<txid>:<offset>``."""
    return f"{txid_of(row_id)}:{int(row_id['offset'])}"


def is_id_text(text: str) -> bool:
    """Whether a text is that of a row id."""
    return ID_TEXT.fullmatch(text) is not None


def id_of_text(text: str) -> npt.NDArray[Any]:
    """Return the row id of its text ``<txid>:<offset>``, as ``view.row_ids`` lists it.

    Raises:
        InvalidInputError: It is not one.
    """
    txid, colon, offset = text.partition(":")
    ids = np.zeros(1, ROW_ID)
    try:
        if len(txid) != TXID_DIGITS or not colon:
            raise ValueError(text)  # noqa: TRY301 - as of the digits below
        words = int(txid[:WORD_DIGITS], 16), int(txid[WORD_DIGITS:], 16), int(offset)
        ids["txid_high"], ids["txid_low"], ids["offset"] = words
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"a row is a number, or a row id as row_ids lists them, got {shown(text)}",
            actual=text,
        ) from error
    return ids


def row_id_texts(selection: Selection) -> list[str]:
    """Return the row ids of a selection as strings ``<txid>:<offset>``."""
    ids = ids_of(selection.snapshot, selection.physical(selection.all_positions()))
    return list(map(text_of_id, ids))


def source_texts(selection: Selection, reader: Reader) -> list[str | None]:
    """Return the items that rows were ingested from, such as ``"photos/cat/1.jpg"``.

    The second item of one name is ``"name#2"``. Rows that are known by position have the name of
    their file, if they are from one; None: the row was not ingested, or its source has no name.

    Args:
        selection: The rows.
        reader: A reader of their version.
    """
    snapshot = selection.snapshot
    index = _INDEXES.get(snapshot)
    if index is None:
        index = _INDEXES[snapshot] = _ItemIndex(reader)
    return index.texts(ids_of(snapshot, selection.physical(selection.all_positions())))


class _ItemIndex:
    """The ledger of a version, by row id."""

    def __init__(self, reader: Reader) -> None:
        self._items, self._sources = reader.group("ledger/items"), reader.group("ledger/sources")

    def texts(self, ids: RowIds) -> list[str | None]:
        """Return the item of each row id."""
        texts = np.full(len(ids), None, object)
        starts, entries = self._sorted
        at = np.searchsorted(starts, _sortable(ids), side="right") - 1
        places = np.flatnonzero(at >= 0)  # rows before the first entry are of none
        if self._items is None or not len(places):
            return texts.tolist()
        of, first = entries[at[places]], starts[at[places]].view(">u8").reshape(-1, 3)
        wanted = _sortable(ids[places]).view(">u8").reshape(-1, 3)
        count = self._numbers("rows", of).astype(np.uint64)
        is_in = (first[:, :2] == wanted[:, :2]).all(axis=1)
        is_in &= wanted[:, 2] - first[:, 2] < count
        places, of = places[is_in], of[is_in]
        names = cast("EncodedColumn", self._items.read("item", of, decode=False)).samples
        # What is known by position has no hashes of cells; nor have cells in conflict, by name.
        is_named = self._numbers("cells", of).any(axis=1) | (self._numbers("stamp", of) == 0)
        for place, source, name, has_name in zip(
            places.tolist(), self._numbers("source", of).tolist(), names, is_named, strict=True
        ):
            above = self._places[source]
            item = bytes(name).decode(errors="replace") if has_name else ""
            item = item.replace("\0", "#")  # the ledger's mark of a name that is there again
            texts[place] = "/".join(part for part in (above, item) if part) or None
        return texts.tolist()

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[Any], Int64Array]:
        """Row ids at which items begin, in order, and their entries; of equal ones the newest."""
        if self._items is None:
            return np.zeros(0, _SORTABLE), np.zeros(0, np.int64)
        entries = np.arange(self._items.snapshot.num_rows)
        entries = entries[self._numbers("rows", entries) > 0]
        ids = np.empty(len(entries), ROW_ID)
        for name in ROW_ID.names or ():
            ids[name] = self._numbers(name, entries)
        keys = _sortable(ids)
        order = np.argsort(keys, kind="stable")
        return keys[order], entries[order]

    @cached_property
    def _places(self) -> list[str]:
        if self._sources is None:
            return []
        rows = np.arange(self._sources.snapshot.num_rows)
        column = cast("EncodedColumn", self._sources.read("place", rows, decode=False))
        return [bytes(one).decode() for one in column.samples]

    def _numbers(self, name: str, entries: Int64Array) -> npt.NDArray[Any]:
        assert self._items is not None, "there are entries"
        return cast("UniformColumn", self._items.read(name, entries, decode=False)).values


_SORTABLE = np.dtype("S24")
_INDEXES: WeakKeyDictionary[Snapshot, _ItemIndex] = WeakKeyDictionary()


def _sortable(ids: RowIds) -> npt.NDArray[Any]:
    """Return row ids as bytes, which NumPy sorts and searches as it does not records."""
    parts = np.stack([ids[name] for name in ROW_ID.names or ()], axis=1).astype(">u8")
    return np.ascontiguousarray(parts).reshape(-1).view(_SORTABLE)
