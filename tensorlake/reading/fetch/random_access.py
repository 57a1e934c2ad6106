"""Random access in a local folder: read and verify only parts, in the caller's thread.

    rows      90 061   17   40 002   3 …   in any order
    parts     3 · 17 · 40 002 · 90 061 …   found for all rows at once, by the arrays of the index
    batches   as many parts of one pack as a small buffer holds
              read, verified, and their rows copied to their places; the buffer is reused

A mapped chunk is verified as a whole before any row of it is used: right for most of its rows, far
too much for one. But it happens once per process, while parts are verified on each read. So, as in
the ski-rental problem, parts of a pack are read until they add up to the size of the requested
chunks; from then on its chunks are mapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from tensorlake.format import ChunkKind, ChunkLayout, Extents, PackId, TensorSpec, Units, tree
from tensorlake.reading.fetch.partial_chunks import Parts
from tensorlake.reading.index.chunk_cache import ChunkCache
from tensorlake.reading.index.extent_table import ChunkKeys, Located
from tensorlake.reading.index.index import ChunkIndex
from tensorlake.storage import Buffer, MissingObjectError
from tensorlake.types import Column, EncodedColumn, UniformColumn
from tensorlake.versions import PackReader

__all__ = [
    "SPARSE_ROWS",
    "WHOLE_CHUNK_NBYTES_MAX",
    "RandomRows",
    "is_sparse_in",
    "read_random_rows",
]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

WHOLE_CHUNK_NBYTES_MAX: Final = 256 << 10
"""A chunk up to this size is read whole: its bytes cost less than a second request."""

SPARSE_ROWS: Final = 4
"""Parts are used where at most one row in this many is requested: more would fill chunks."""

CHUNKS_NBYTES_MIN: Final = 8 << 20
"""Chunks that are smaller together are verified whole: 2 ms, once per process."""


@dataclass(frozen=True, slots=True, eq=False)
class RandomRows:
    """Rows that were read by parts, and their positions among the requested rows, ascending."""

    places: Int64Array
    column: Column


def is_sparse_in(located: Located, wanted: list[Int64Array], at: int) -> bool:
    """Return whether so few rows of a chunk are requested that it is not read whole."""
    is_small = located.chunks[at].nbytes <= WHOLE_CHUNK_NBYTES_MAX
    return not is_small and 2 * len(wanted[at]) <= int(located.rows[at])


def read_random_rows(
    spec: TensorSpec,
    index: ChunkIndex,
    packs: PackReader,
    cache: ChunkCache,
    physical: Int64Array,
) -> RandomRows | None:
    """Read by parts the rows for which that costs least; None where there are none.

    Raises:
        CorruptionError: A part is damaged; the message names the place.
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
    try:
        column = _read(plan, layout, packs, cache, (np.cumsum(is_asked) - 1)[places])
    except MissingObjectError:
        return None  # reading the pack in the other way raises the error
    return RandomRows(np.flatnonzero(is_asked), column)


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Parts of some extents' chunks, and which extents these are."""

    table: Extents
    is_chosen: BoolArray
    parts: Parts

    def by_pack(self) -> Iterator[tuple[PackId, list[tuple[int, int]]]]:
        """Yield the byte ranges of the parts, pack by pack."""
        number = self.table.pack[self.is_chosen][self.parts.chunk_of_wanted]
        firsts = np.flatnonzero(np.diff(number, prepend=~number[:1]))
        ranges: list[tuple[int, int]] = self.parts.ranges.tolist()
        stops = [*firsts.tolist(), len(number)]
        for pack, (start, stop) in zip(number[firsts].tolist(), pairwise(stops), strict=True):
            yield self.table.packs[pack], ranges[start:stop]


def _planned(
    spec: TensorSpec, found: tree.Located[Extents], packs: PackReader, cache: ChunkCache
) -> _Plan | None:
    """Choose the chunks for which reading parts costs less than reading all."""
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
    """Return for which chunks parts are still cheaper, and can be read from a file."""
    numbers, first, pack = np.unique(table.pack[entries], return_index=True, return_inverse=True)
    nbytes = np.bincount(pack, weights=table.nbytes[entries])
    offsets = table.offset[entries[first]]
    is_rented = [
        cache.verified_nbytes(name) < whole and packs.is_stored_here(name, offset)
        for name, offset, whole in zip(
            [table.packs[number] for number in numbers.tolist()],
            offsets.tolist(),
            nbytes.tolist(),
            strict=True,
        )
    ]
    return np.array(is_rented, np.bool_)[pack]


def _read(
    plan: _Plan, layout: ChunkLayout, packs: PackReader, cache: ChunkCache, places: Int64Array
) -> Column:
    """Read and verify parts one after another, and copy each row to its place of a column.

    A part is hashed, and its rows are taken, while it is in the processor's first cache.
    """
    parts = plan.parts
    is_uniform = layout.kind is ChunkKind.UNIFORM
    target = _Rows(layout, parts, places) if is_uniform else _Samples(parts, places)
    first_row: list[int] = np.searchsorted(
        parts.unit_of_row, np.arange(len(parts.wanted) + 1)
    ).tolist()
    hashes: list[int] = []
    for pack, ranges in plan.by_pack():
        for data in packs.read_in_turn(pack, ranges):
            unit = len(hashes)
            hashes.append(xxh3_64_intdigest(data))
            target.put(range(first_row[unit], first_row[unit + 1]), data)
            del data  # its memory is reused for the next
        cache.count_verified(pack, sum(stop - start for start, stop in ranges))
    return target.column(parts.check(hashes))


class _Rows:
    """Rows of one shape, copied out of their parts one after another."""

    def __init__(self, layout: ChunkLayout, parts: Parts, places: Int64Array) -> None:
        shape = tuple(length or 0 for length in layout.shape)
        self._values = np.empty((len(places), *shape), layout.element_dtype.newbyteorder("<"))
        self._bytes = self._values.reshape(-1).view(np.uint8).data
        self._nbytes = layout.row_nbytes
        self._starts: list[int] = (parts.row_in_unit() * self._nbytes).tolist()
        self._targets: list[int] = (places * self._nbytes).tolist()

    def put(self, rows: range, part: bytes) -> None:
        """Copy some rows, by their numbers, out of the part that holds them."""
        nbytes = self._nbytes
        for row in rows:
            start, target = self._starts[row], self._targets[row]
            self._bytes[target : target + nbytes] = part[start : start + nbytes]

    def column(self, is_valid: BoolArray) -> Column:
        """Return all rows, in their places; without NULLs, since such chunks have no parts."""
        del is_valid
        return UniformColumn(self._values)


class _Samples:
    """Samples that are one part each."""

    def __init__(self, parts: Parts, places: Int64Array) -> None:
        self._unit_of_row = parts.unit_of_row
        self._places = places
        self._targets: list[int] = places.tolist()
        self._samples: list[Buffer] = [b""] * len(places)

    def put(self, rows: range, part: bytes) -> None:
        """Store a part as a sample, at each of its requested positions."""
        for row in rows:
            self._samples[self._targets[row]] = part

    def column(self, is_valid: BoolArray) -> Column:
        """Return all samples, in their places."""
        if is_valid.all():
            return EncodedColumn(self._samples, None, None)
        valid = np.empty(len(self._places), np.bool_)
        valid[self._places] = is_valid[self._unit_of_row]
        return EncodedColumn(self._samples, None, valid)
