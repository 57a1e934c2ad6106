"""The rows that ``map(to=)`` reads, as items of a ledger: their names and stamps.

An item is a row, or with ``batch_size`` the rows that the function gets at once. Its name is the
ids of these rows, which never change. Its stamp is a digest of the columns that the function gets,
as they are stored. The rows of a batch that was mapped stay together: without those that were
deleted it has another stamp, and rows that are new make batches of their own.

Nothing is read where the versions that items were made from still exist: what differs between
them and this one is known from the index, and other rows have not changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from tensorlake.dataset.core.row_identity import ids_of, physical_of
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.history.diff import diff_snapshots
from tensorlake.dataset.history.versions import snapshot_at
from tensorlake.dataset.sync.comparison import Comparison, Listing
from tensorlake.dataset.sync.digests import row_digests, text_digests
from tensorlake.dataset.sync.ledger import Entries
from tensorlake.errors import ExpiredError, NotFoundError
from tensorlake.format import ROW_ID, txid_of
from tensorlake.types import (
    ClassLabel,
    Column,
    EncodedColumn,
    RaggedColumn,
    SampleType,
    UniformColumn,
)

__all__ = [
    "MapItems",
    "compared_items",
    "row_numbers_of",
    "row_stamps",
    "rows_named",
    "stamps_of",
    "version_text",
]

Int64Array = npt.NDArray[np.int64]
U64Array = npt.NDArray[np.uint64]
RowIds = npt.NDArray[Any]

DIGESTED_AT_ONCE = 4096
"""Rows whose columns are read together, to compare them with the ledger."""


@dataclass(frozen=True, slots=True)
class MapItems:
    """The items of some rows.

    Attributes:
        view: The rows.
        columns: The columns that the function gets.
        names: The name of each item.
        positions: Positions in the view, one item after the other.
        starts: Where each item begins in them.
        is_whole: Whether all rows of an item are there.
    """

    view: RowSet
    columns: tuple[str, ...]
    names: list[str]
    positions: Int64Array
    starts: Int64Array
    is_whole: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, view: RowSet, columns: tuple[str, ...], known: Entries, *, batch_size: int | None
    ) -> MapItems:
        """List the items; with ``batch_size``, batches that are known come first."""
        rows = np.arange(len(view), dtype=np.int64)
        ids = ids_of(view.selection.snapshot, view.selection.physical(rows))
        if batch_size is None:
            is_whole = np.ones(len(view), np.bool_)
            return cls(view, columns, [*_names_of_rows(ids)], rows, np.arange(len(view)), is_whole)
        batches = [rows_named(name) for name in known.items]
        at = _positions(view, np.concatenate([np.empty(0, ROW_ID), *batches]))
        stops = np.cumsum([0, *map(len, batches)])
        names, parts, whole = list[str](), list[Int64Array](), list[bool]()
        is_new = np.ones(len(view), np.bool_)
        for name, (start, stop) in zip(known.items, pairwise(stops.tolist()), strict=True):
            there = at[start:stop][at[start:stop] >= 0]
            if len(there):
                names.append(name)
                parts.append(there)
                whole.append(len(there) == stop - start)
                is_new[there] = False
        new = np.flatnonzero(is_new)
        for start in range(0, len(new), batch_size):
            part = new[start : start + batch_size]
            names.append(_name_of(ids[part]))
            parts.append(part)
            whole.append(True)
        starts = np.cumsum([0, *map(len, parts)])[:-1].astype(np.int64)
        all_of_them = np.concatenate([np.empty(0, np.int64), *parts])
        return cls(view, columns, names, all_of_them, starts, np.array(whole, np.bool_))

    @property
    def counts(self) -> Int64Array:
        """The rows of each item."""
        return np.diff(self.starts, append=len(self.positions))

    def rows_of(self, item: int) -> Int64Array:
        """Return the positions of one item."""
        stop = self.starts[item + 1] if item + 1 < len(self.starts) else len(self.positions)
        return self.positions[self.starts[item] : stop]

    def stamp(self, digests: U64Array) -> int:
        """Return the stamp of an item from the digests of its rows; never 0."""
        return int(digests[0]) if len(digests) == 1 else xxh3_64_intdigest(digests.tobytes()) or 1

    def stamps(self, items: Int64Array) -> U64Array:
        """Read some items, and return their stamps."""
        counts = self.counts[items]
        stops = np.cumsum(counts)
        rows = np.concatenate([np.empty(0, np.int64), *(self.rows_of(one) for one in items)])
        digests = np.empty(len(rows), np.uint64)
        for start in range(0, len(rows), DIGESTED_AT_ONCE):
            part = slice(start, start + DIGESTED_AT_ONCE)
            digests[part] = row_stamps(self.view, self.columns, rows[part])
        bounds = zip((stops - counts).tolist(), stops.tolist(), strict=True)
        return np.fromiter((self.stamp(digests[a:b]) for a, b in bounds), np.uint64, len(items))

    def _read_from(self) -> set[str]:
        """Return the stored columns that the columns are read or computed from."""
        schema = self.view.selection.snapshot.schema
        read = {schema[name].id for name in self.columns}
        for spec in map(schema.__getitem__, self.columns):
            if spec.compute is not None and spec.is_virtual:
                read |= {*spec.compute.inputs}
        return {spec.name for spec in schema.tensors if spec.id in read}

    def unchanged_since(self, versions: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which items have not changed since any of these versions, without reading them.

        Args:
            versions: As `version_text` gave them.
        """
        nothing_known = np.zeros(len(self.names), np.bool_)
        if not versions or "_row" in self.columns:  # a row's number changes without its cells
            return nothing_known
        session, after = self.view.session, self.view.selection.snapshot
        has_changed = np.zeros(after.num_rows, np.bool_)
        for text in versions:
            version, digest, types = text.split(" ")
            if types != _types_text(self.view, self.columns):
                return nothing_known
            try:
                before = snapshot_at(session, version)
            except (NotFoundError, ExpiredError):
                return nothing_known
            if before.digest != digest:
                return nothing_known
            difference = diff_snapshots(session, before, after, names=self._read_from())
            has_changed[difference.added.rows] = True
            for updated in difference.updated.values():
                has_changed[updated.after.rows] = True
        of_positions = has_changed[self.view.selection.row_numbers(self.positions)]
        changed = np.zeros(len(self.names), np.bool_)
        changed[np.repeat(np.arange(len(self.names)), self.counts)[of_positions]] = True
        return ~changed & self.is_whole


def compared_items(
    items: MapItems, known: Entries, versions: Sequence[str]
) -> tuple[Listing, Comparison]:
    """Compare items with their entries of a ledger; those that may have changed are read.

    Args:
        items: The items.
        known: The entries.
        versions: The versions that entries were made from, as `version_text` gave them.
    """
    count = len(items.names)
    listing = Listing(items.names, np.zeros(count, np.int64), np.zeros(count, np.uint64))
    compared = Comparison.of(listing, known)
    is_known = compared.entry_of >= 0
    stamps = np.zeros(count, np.uint64)
    stamps[is_known] = known.stamps[compared.entry_of[is_known]]
    may_differ = is_known & ~(items.unchanged_since(versions) & (stamps != 0))
    some = np.flatnonzero(may_differ)
    listing.stamps[is_known] = stamps[is_known]
    listing.stamps[some] = items.stamps(some)
    is_same = is_known & (listing.stamps == stamps)
    return listing, replace(compared, is_same=is_same)


def version_text(view: RowSet, columns: Sequence[str]) -> str | None:
    """Describe the version of rows for the ledger; None for staged changes, which may go."""
    snapshot = view.selection.snapshot
    if snapshot.is_staged:
        return None
    return f"{snapshot.version} {snapshot.digest} {_types_text(view, columns)}"


def row_stamps(view: RowSet, columns: Sequence[str], positions: Int64Array) -> U64Array:
    """Return a digest of the columns of rows, as they are stored; never 0."""
    snapshot = view.selection.snapshot
    read: dict[str, tuple[SampleType | None, Column]] = {
        name: (None, UniformColumn(view.selection.row_numbers(positions)))
        if name == "_row"
        else (snapshot.spec(name).type, view.read(name, positions, decode=False))
        for name in columns
    }
    return stamps_of(read, len(positions))


def stamps_of(columns: Mapping[str, tuple[SampleType | None, Column]], rows: int) -> U64Array:
    """Return a digest of rows, given their columns as they are stored, with types; never 0."""
    described: list[str] = []
    read: list[Column] = []
    for name in sorted(columns):
        kind, column = columns[name]
        described.append(name if kind is None else f"{name} {_kind_text(kind)}")
        read.append(column if kind is None else _in_names(column, kind))
    found = row_digests(read, text_digests(described), rows)
    found[found == 0] = 1
    return found


def rows_named(name: str) -> RowIds:
    """Return the ids of the rows of an item."""
    parts: list[RowIds] = []
    high = low = 0
    for piece in name.split(","):
        txid, colon, offsets = piece.rpartition(":")
        if colon:
            high, low = int(txid[:16], 16), int(txid[16:], 16)
        first, dash, last = offsets.partition("-")
        ids = np.empty(int(last if dash else first) - int(first) + 1, ROW_ID)
        ids["txid_high"], ids["txid_low"] = high, low
        ids["offset"] = np.arange(int(first), int(first) + len(ids))
        parts.append(ids)
    return np.concatenate(parts)


def _name_of(ids: RowIds) -> str:
    """Name rows by ranges of their ids: ``<txid>:<first>-<last>,…``."""
    return ",".join(_ranges(ids))


def _ranges(ids: RowIds) -> Iterable[str]:
    offsets = ids["offset"].astype(np.int64)
    follows = (ids[1:]["txid_high"] == ids[:-1]["txid_high"]) & (
        ids[1:]["txid_low"] == ids[:-1]["txid_low"]
    )
    is_next = follows & (np.diff(offsets) == 1)
    bounds = [0, *(np.flatnonzero(~is_next) + 1).tolist(), len(ids)]
    for start, stop in pairwise(bounds):
        is_same = start > 0 and bool(follows[start - 1])
        txid = "" if is_same else f"{txid_of(ids[start])}:"
        last = f"-{offsets[stop - 1]}" if stop - start > 1 else ""
        yield f"{txid}{offsets[start]}{last}"


def _names_of_rows(ids: RowIds) -> Iterator[str]:
    """Name each row alone."""
    if not len(ids):
        return
    is_other = (ids[1:]["txid_high"] != ids[:-1]["txid_high"]) | (
        ids[1:]["txid_low"] != ids[:-1]["txid_low"]
    )
    for start, stop in pairwise([0, *(np.flatnonzero(is_other) + 1).tolist(), len(ids)]):
        txid = txid_of(ids[start])
        yield from (f"{txid}:{offset}" for offset in ids["offset"][start:stop].tolist())


def row_numbers_of(view: RowSet, ids: RowIds) -> Int64Array:
    """Return the numbers of rows in the version of a view; -1 for those that are not there."""
    snapshot = view.selection.snapshot
    numbers = np.full(len(ids), -1, np.int64)
    if len(ids):
        physical = physical_of(ids, snapshot)
        is_known = physical >= 0
        numbers[is_known] = snapshot.rows_of(physical[is_known])
    return numbers


def _positions(view: RowSet, ids: RowIds) -> Int64Array:
    """Return the positions of rows in a view; -1 for those that are not there."""
    places = np.full(view.selection.snapshot.num_rows + 1, -1, np.int64)  # the last: no such row
    places[view.rows] = np.arange(len(view))
    return places[row_numbers_of(view, ids)]


def _types_text(view: RowSet, columns: Sequence[str]) -> str:
    schema = view.schema
    types = {name: schema[name].to_json() for name in sorted(columns) if name in schema}
    for name in sorted({*columns} & view.computed.keys()):  # of expressions of the schema
        types[name] = {"tql": view.computed[name].expression}
    return xxh3_64_hexdigest(json.dumps(types, sort_keys=True).encode())


def _kind_text(kind: SampleType) -> str:
    """Describe a type, but not its classes, whose names are digested with the cells."""
    described = dict(kind.to_json())
    if isinstance(kind, ClassLabel):
        described = {key: one for key, one in described.items() if key not in ("names", "dropped")}
    return json.dumps({key: one for key, one in described.items() if key != "nullable"})


def _in_names(column: Column, kind: SampleType) -> Column:
    """Replace the codes of classes by digests of their names."""
    if not isinstance(kind, ClassLabel) or isinstance(column, EncodedColumn) or not kind.names:
        return column
    values = text_digests(kind.names).take(column.values, mode="clip")
    if isinstance(column, UniformColumn):
        return UniformColumn(values, column.valid)
    return RaggedColumn(values, column.shapes, column.valid)
