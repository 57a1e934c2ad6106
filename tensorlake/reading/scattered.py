"""Rows far apart in a folder: the parts that hold them, read and verified in the caller's thread.

    rows      90 061   17   40 002   3 …   in any order
    parts     3 · 17 · 40 002 · 90 061 …   found for all rows at once, by the arrays of the index
    batches   as many parts of one pack as a small buffer holds
              read, verified, and their rows put where they belong; the buffer serves again

A mapped chunk is verified whole before any row of it is used: right for most of its rows, far too
much for one. But it is done once a process, and parts are verified each time. So this rents before
it buys: of a pack whose chunks are asked for again and again, parts are read until they weigh as
much as those chunks; from then on its chunks are mapped.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChunkKind, Extents, TensorSpec, Units, tree
from tensorlake.reading.chunks import ChunkCache
from tensorlake.reading.flat import ChunkKeys, Located
from tensorlake.reading.index import ChunkIndex
from tensorlake.reading.parts import Parts, gathered
from tensorlake.storage import Buffer, MissingObjectError
from tensorlake.types import Column, EncodedColumn, RaggedColumn, UniformColumn, offsets_of
from tensorlake.versions import PackReader

__all__ = [
    "SPARSE_ROWS",
    "WHOLE_CHUNK_NBYTES_MAX",
    "ScatteredRows",
    "is_sparse_in",
    "read_scattered",
]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

WHOLE_CHUNK_NBYTES_MAX: Final = 256 << 10
"""A chunk this small is read whole: its bytes cost less than a second request would."""

SPARSE_ROWS: Final = 4
"""Rows are looked up by parts where they are at most one in so many: more fill their chunks."""

CHUNKS_NBYTES_MIN: Final = 8 << 20
"""Chunks that are together smaller are verified whole: 2 ms, once a process."""

BATCH_NBYTES: Final = 256 << 10
"""Read and verified at a time: it stays in the processor's cache, and new memory costs as much as
reading into it (docs/decisions/0035)."""


@dataclass(frozen=True, slots=True, eq=False)
class ScatteredRows:
    """Rows that were read by parts: their places among those asked for, ascending."""

    places: Int64Array
    column: Column


def is_sparse_in(located: Located, wanted: list[Int64Array], at: int) -> bool:
    """Tell whether so few rows of a chunk are wanted that it is not read whole."""
    is_small = located.chunks[at].nbytes <= WHOLE_CHUNK_NBYTES_MAX
    return not is_small and 2 * len(wanted[at]) <= int(located.rows[at])


def read_scattered(
    spec: TensorSpec,
    index: ChunkIndex,
    packs: PackReader,
    cache: ChunkCache,
    physical: Int64Array,
) -> ScatteredRows | None:
    """Read by parts those of some rows where that is least; None where it is of none.

    Raises:
        CorruptionError: A part is damaged; the message says where.
    """
    if not packs.store.is_local:
        return None
    layout = spec.layout
    if not layout.is_raw or layout.kind not in (ChunkKind.UNIFORM, ChunkKind.ENCODED):
        return None
    if len(physical) * SPARSE_ROWS > index.num_rows:
        return None
    order = np.argsort(physical, kind="stable")
    found = index.with_units(physical[order])
    if found is None:
        return None
    plan = _planned(spec, found, packs, cache)
    if plan is None:
        return None
    places = order[plan.is_chosen[found.entry]]
    is_asked = np.zeros(len(physical), np.bool_)
    is_asked[places] = True
    target = _Target((np.cumsum(is_asked) - 1)[places])
    try:
        _read(plan, packs, cache, target)
    except MissingObjectError:
        return None  # reading the pack otherwise says why
    return ScatteredRows(np.flatnonzero(is_asked), target.column())


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Parts of some extents' chunks, and which extents these are."""

    table: Extents
    is_chosen: BoolArray
    parts: Parts


def _planned(
    spec: TensorSpec, found: tree.Located[Extents], packs: PackReader, cache: ChunkCache
) -> _Plan | None:
    """Choose the chunks of which parts are less to read than all."""
    table = found.table
    nbytes = table.nbytes.astype(np.int64)
    is_chosen = (table.units.counts > 0) & (table.read_as == spec.read_as)
    is_chosen &= (table.kind == spec.layout.kind) & (nbytes > WHOLE_CHUNK_NBYTES_MAX)
    is_chosen[is_chosen] = _is_rented(table, np.flatnonzero(is_chosen), packs, cache)
    if int(nbytes[is_chosen].sum()) < CHUNKS_NBYTES_MIN:
        return None
    parts = _parts(spec, found, is_chosen)
    is_less = 2 * parts.nbytes_by_chunk() <= nbytes[is_chosen]
    if not is_less.all():
        is_chosen[is_chosen] = is_less
        if int(nbytes[is_chosen].sum()) < CHUNKS_NBYTES_MIN:
            return None
        parts = _parts(spec, found, is_chosen)
    return _Plan(table, is_chosen, parts)


def _parts(spec: TensorSpec, found: tree.Located[Extents], is_chosen: BoolArray) -> Parts:
    table = found.table
    entries = np.flatnonzero(is_chosen)
    is_all = len(entries) == len(table)
    recorded = table.units if is_all else table.units.take(entries)
    rows = slice(None) if is_all else is_chosen[found.entry]
    entry = found.entry[rows]
    return Parts.found(
        ChunkKeys(table, entries, {}),
        spec.layout,
        units=Units(recorded.lengths, recorded.checksums),
        counts=recorded.counts.astype(np.int64),
        payload=(table.offset + table.header_nbytes)[entries].astype(np.int64),
        chunk=entry if is_all else (np.cumsum(is_chosen) - 1)[entry],
        rows=found.offset[rows] + table.skip[entry],
    )


def _is_rented(
    table: Extents, entries: Int64Array, packs: PackReader, cache: ChunkCache
) -> BoolArray:
    """Tell of which chunks parts are still cheaper, and can be read from a file."""
    numbers, first, pack = np.unique(table.pack[entries], return_index=True, return_inverse=True)
    nbytes = np.bincount(pack, weights=table.nbytes[entries])
    is_rented = [
        cache.verified_nbytes(table.packs[number]) < whole
        and packs.is_stored_here(table.packs[number], int(table.offset[entries[at]]))
        for number, at, whole in zip(numbers.tolist(), first.tolist(), nbytes.tolist(), strict=True)
    ]
    return np.array(is_rented, np.bool_)[pack]


def _read(plan: _Plan, packs: PackReader, cache: ChunkCache, target: _Target) -> None:
    parts = plan.parts
    nbytes = parts.ranges[:, 1] - parts.ranges[:, 0]
    buffer = np.empty(max(BATCH_NBYTES, int(nbytes.max())), np.uint8).data
    ends: list[int] = offsets_of(nbytes).tolist()
    places, starts = parts.places()
    first_row: list[int] = np.searchsorted(parts.unit_of_row, np.arange(len(ends))).tolist()
    number = plan.table.pack[plan.is_chosen][parts.chunk_of_wanted]
    borders = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    for start, stop in pairwise(borders):
        pack, at = plan.table.packs[int(number[start])], start
        ranges: list[tuple[int, int]] = parts.ranges[start:stop].tolist()
        with closing(packs.read_through(pack, ranges, buffer)) as batches:
            for views in batches:
                end = at + len(views)
                decoded = parts.decoded(at, views, buffer[: ends[end] - ends[at]])
                rows = slice(first_row[at], first_row[end])
                target.put(rows, gathered(decoded, places[rows] - starts[at]))
                at = end
        cache.count_verified(pack, ends[stop] - ends[start])


class _Target:
    """Where rows go, one after another, to the places that each has among all."""

    def __init__(self, places: Int64Array) -> None:
        self._places = places
        self._values: npt.NDArray[np.generic] | None = None
        self._samples: list[Buffer] = [b""] * len(places)
        self._valid = np.ones(len(places), np.bool_)

    def put(self, rows: slice, column: Column) -> None:
        """Copy rows out of what they were decoded from."""
        places = self._places[rows]
        match column:
            case UniformColumn(values=values):
                if self._values is None:
                    shape = (len(self._places), *values.shape[1:])
                    self._values = np.empty(shape, values.dtype)
                self._values[places] = values
            case EncodedColumn(samples=samples):
                for place, sample in zip(places.tolist(), samples, strict=True):
                    self._samples[place] = bytes(sample)
                if column.valid is not None:
                    self._valid[places] = column.valid
            case RaggedColumn():
                raise AssertionError("chunks of ragged rows have no parts")

    def column(self) -> Column:
        """All rows, in the order of their places."""
        if self._values is not None:
            return UniformColumn(self._values)
        return EncodedColumn(self._samples, None, None if self._valid.all() else self._valid)
