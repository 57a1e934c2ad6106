"""The chunk index of one tensor: its tree of extents, searched by leaf or as a flat table.

Opening, committing and refreshing each create a new index, so creating one costs nothing: it holds
the root, and reads pages on demand. There are two kinds of search:

    in the tree   reads the pages above the requested rows, in as many round trips as its height;
                  pages are immutable and cached, so nearby lookups need no request
    flat          all extents as arrays in memory, searched row by row, or for a run of consecutive
                  rows by its two ends

The tree suits few rows, the flat form a loader's epoch. As the use is not known in advance, the
index follows the ski-rental rule: it becomes flat once as many leaves were requested from the tree
as it has, so at most twice the necessary bytes are read. The flat part covers the root's children
only and is passed on to the next version's index where those are the same; the tail is in memory
anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.errors import CorruptionError, RowNotFoundError
from tensorlake.format import (
    LIMITS,
    ChunkKind,
    Extents,
    PageReader,
    PageRef,
    Parts,
    Root,
    StatisticsTable,
    Summaries,
    Units,
    UnitTable,
    tree,
)
from tensorlake.reading.index.extent_table import (
    ChunkRun,
    FlatExtents,
    Located,
    canonical,
    first_of_chunk,
)
from tensorlake.reading.index.prefetch import FoundAhead, located_in
from tensorlake.storage import runtime
from tensorlake.versions import distinct

__all__ = ["ChunkIndex", "leaf_count", "leaves_touched"]

Int64Array = npt.NDArray[np.int64]

FLAT_EXTENTS_MAX = 1 << 24
"""An index of more extents is never flat: 16 M are about 600 MB as arrays."""

LEAVES_WITH_UNITS_MAX = 64
"""On remote stores, up to this many leaves are read with their units: one request each serves
both; above, the units outweigh the flat index."""

UNITS_NBYTES_MAX = 8 << 20
"""On remote stores, a lookup reads at most this many bytes of units with its leaves, 10 full ones;
above, as in the first batch of 10⁹ rows, reading units from the headers of the rows' own chunks
costs one more round trip and a hundredth of the bytes."""

UNIT_NBYTES = 6
"""Bytes of a unit in a leaf: its length and its checksum (docs/explanation/scale.md)."""

PAGES_ABOVE_NBYTES_MAX = 1 << 20
"""Pages of 10⁷ extents; reading them together with a sample of the leaves saves a round trip."""

LOADED_LEAVES_MAX = 64
"""At most this number of leaves is read ahead of lookups in a whole column: 3 MB without units."""

SAMPLED_WINDOWS = 3
"""Where a tree has inner pages, the mean size of a row is estimated from this many leaves."""


class ChunkIndex:
    """The extents of one tensor of one version. Thread-safe.

    Attributes:
        num_rows: Rows of the axis.
    """

    def __init__(
        self,
        root: Root[Extents],
        pages: PageReader,
        *,
        is_local: bool = True,
        before: ChunkIndex | None = None,
    ) -> None:
        self._root = root
        self._pages = pages
        self._is_local = is_local
        self._tail = FlatExtents.of(root.tail, first_row=root.body_rows)
        self.num_rows = self._tail.first_row + self._tail.extents.num_rows
        self._body: FlatExtents | None = None
        self._ahead: FoundAhead | None = None
        self._extents: Extents | None = None
        self._mean_row_nbytes: int | None = None
        self._leaves = leaf_count(root.children)
        self._leaves_read = 0
        self._can_be_flat = True
        self._has_units = not is_local  # in a local folder they are mapped: no prefetch
        self._is_loaded = False  # without units, which then are not read from the index at all
        if before is not None and before._root.children == root.children:  # noqa: SLF001 its own class
            self._body = before._body  # noqa: SLF001 its own class
            self._leaves_read = before._leaves_read  # noqa: SLF001 its own class
            self._can_be_flat = before._can_be_flat  # noqa: SLF001 its own class
            self._is_loaded = before._is_loaded  # noqa: SLF001 its own class

    @property
    def root(self) -> Root[Extents]:
        """The root of its tree."""
        return self._root

    @property
    def extents(self) -> Extents:
        """All extents with their statistics, without units."""
        if self._extents is None:
            tail = self._root.tail
            self._extents = (
                replace(tail, units=UnitTable.none(len(tail)))
                if not self._root.children
                else runtime.run(self._all(self.num_rows, Parts.STATISTICS))
            )
        return self._extents

    @property
    def known_row_nbytes(self) -> int | None:
        """The mean stored bytes of a row, if the root records them, or pages were read for it."""
        if self._mean_row_nbytes is None and (stored := self._root.stored_nbytes) is not None:
            self._mean_row_nbytes = stored // max(1, self.num_rows)
        return self._mean_row_nbytes

    async def row_nbytes(self) -> int:
        """Return the mean stored bytes of a row, rounded down: from the root if it records them."""
        known = self.known_row_nbytes
        if known is None:
            known = self._mean_row_nbytes = await self._sampled_row_nbytes()
        return known

    @property
    def bounds(self) -> StatisticsTable | None:
        """The statistics of all samples, as one row, from the root alone; None where unknown."""
        unknown = Summaries[Any].unknown(1)
        known = [child.summary or unknown for child in self._root.children]
        if len(self._root.newest):
            known.append(self._root.tail.summary())
        return Summaries[Any].concat(known).merge_upward().table

    @property
    def is_cached(self) -> bool:
        """Whether any row can be found without reading pages."""
        return self._tail.first_row == 0 or self._body is not None

    async def look_ahead(self, physical: Int64Array) -> None:
        """Read the pages that ``row_nbytes`` and ``locate`` of some rows need, concurrently."""
        reads = [self.row_nbytes, partial(self._read_pages, physical)]
        await runtime.gather_bounded(reads, limit=len(reads))

    async def load(self) -> None:
        """Read where all chunks are, for lookups in any rows; but not very many pages.

        Units are left out: they are most of the bytes of an index, and a read of few rows of raw
        numbers takes them with the chunks' headers.
        """
        if not self.is_cached and self._can_be_flat and self._leaves <= LOADED_LEAVES_MAX:
            self._is_loaded = True
            self._body = await self._flattened()

    def locate(self, physical: Int64Array) -> Located:
        """Find rows, in any order, repeats allowed.

        Raises:
            RowNotFoundError: A row is beyond the axis.
        """
        found = self._find_cached(physical)
        return runtime.run(self.find(physical)) if found is None else found

    async def find(self, physical: Int64Array) -> Located:
        """Do what ``locate`` does, on the storage loop."""
        found = self._find_cached(physical)
        if found is not None:
            return found
        if self._is_flat_due(physical):
            try:
                self._body = await self._flattened()
            except CorruptionError:
                self._can_be_flat = False  # rows are still found in the tree
            found = self._find_cached(physical)
        return await self._find_in_tree(physical) if found is None else found

    def _find_cached(self, physical: Int64Array) -> Located | None:
        """Find rows without reading; None where pages are missing."""
        first_of_tail = self._tail.first_row
        highest = int(physical.max()) if len(physical) else 0
        if len(physical) and highest >= self.num_rows:
            message = f"physical row {highest} is beyond the index; run tensorlake check"
            raise RowNotFoundError(message, row=highest)
        if first_of_tail == 0 or (len(physical) and int(physical.min()) >= first_of_tail):
            return self._tail.locate(physical)
        body = self._body or self._ahead
        if body is None:
            return None
        if highest < first_of_tail:
            return body.locate(physical)
        is_in_tail = physical >= first_of_tail
        in_body = body.locate(physical[~is_in_tail])
        if in_body is None:
            return None
        return _both(in_body, self._tail.locate(physical[is_in_tail]), is_in_tail)

    def runs(self, start: int, stop: int) -> list[ChunkRun] | None:
        """Find physical rows ``start`` … ``stop`` - 1; None where that needs ``locate``.

        It does where they are beyond the axis, or the part of the tree they are in is not flat.
        """
        first_of_tail = self._tail.first_row
        if not 0 <= start < stop <= self.num_rows:
            return None
        if start >= first_of_tail:
            return self._tail.runs(start, stop)
        if self._body is None:
            return None
        if stop <= first_of_tail:
            return self._body.runs(start, stop)
        return [*self._body.runs(start, first_of_tail), *self._tail.runs(first_of_tail, stop)]

    def find_runs(self, start: int, stop: int) -> list[ChunkRun] | None:
        """Do what ``runs`` does, reading pages if needed; None for rows beyond the axis."""
        found = self.runs(start, stop)
        if found is not None or not 0 <= start < stop <= self.num_rows:
            return found
        return runtime.run_here(self._read_runs(start, stop))

    def stored(self, ranges: Int64Array) -> tuple[int, int]:
        """Count the chunks that hold ranges of physical rows, and their bytes; fills have none.

        No work per row. Windows of one chunk count once where one leaf has them: of
        a chunk that an update cut at the border of two leaves, both may count.

        Args:
            ranges: (k, 2), [start, stop) each, ascending and apart.
        """
        return runtime.run(self._stored(ranges)) if len(ranges) else (0, 0)

    async def units(self, starts: Int64Array) -> list[Units | None]:
        """Read the units of the extents that hold some physical rows, ascending.

        None where the index does not record or did not read them: the chunk's header has them.
        """
        if not len(self._root.tail.units.lengths) and int(starts[0]) >= self._root.body_rows:
            return [None] * len(starts)  # most of a young dataset: its tail records none
        ahead = self._ahead if self._body is None else None  # read with units, if few
        entries = None if ahead is None else ahead.entries(starts)
        if ahead is not None and entries is not None:
            return _each(ahead.found.table.units, entries)
        is_with_leaves = self._is_local or (self._body is not None and not self._is_loaded)
        parts = Parts.UNITS if is_with_leaves else Parts.LOCATIONS
        found = await tree.locate(self._root, starts, self._pages, parts=parts)
        return _each(found.table.units, found.entry)

    def with_units(self, rows: Int64Array) -> tree.Located[Extents] | None:
        """Find physical rows, ascending, in extents with their units; in the caller's own thread.

        None where no leaf records units, or reading them costs too much for the rows.
        """
        if not self._leaves or int(rows[-1]) >= self.num_rows:
            return None
        if self._units_nbytes(rows) > UNITS_NBYTES_MAX:
            return None
        return runtime.run_here(tree.locate(self._root, rows, self._pages, parts=Parts.UNITS))

    def windows(self, physical: Int64Array) -> tuple[Int64Array, Extents]:
        """Return the extents that hold some rows, each once in order, and where each begins."""
        rows = distinct(physical)
        found = runtime.run(tree.locate(self._root, rows, self._pages, parts=Parts.LOCATIONS))
        return found.starts, found.table

    def stretches(self, physical: Int64Array) -> tuple[Int64Array, Extents]:
        """Return the extents that hold some rows, ascending, with all columns, as ``windows`` does.

        Where most leaves between the first row and the last have to be read, the extents between
        these rows are returned too: they are adjoining then, which spares an edit for each.
        """
        start, stop = int(physical[0]), int(physical[-1]) + 1
        body, leaves = self._root.body_rows, self._leaves
        is_far = leaves > 0 and 2 * leaves_touched(physical, leaves, body) < (
            leaves * (stop - start) / body
        )
        if is_far:
            found = runtime.run(tree.locate(self._root, physical, self._pages, parts=Parts.ALL))
            return found.starts, found.table
        table = runtime.run(self._between(start, stop))
        return start + table.stops - table.rows, table

    async def _between(self, start: int, stop: int) -> Extents:
        scanned = tree.scan(self._root, self._pages, start, stop, parts=Parts.ALL)
        return Extents.concat([table async for _, table in scanned])

    async def _read_runs(self, start: int, stop: int) -> list[ChunkRun]:
        step = max(1, self._root.body_rows // self._leaves)
        if self._is_flat_due(np.append(np.arange(start, stop, step), stop - 1)):
            self._body = await self._flattened()
            found = self.runs(start, stop)
            if found is not None:
                return found
        scanned = tree.scan(self._root, self._pages, start, stop, parts=Parts.LOCATIONS)
        tables = [table async for _, table in scanned]
        return FlatExtents.of(Extents.concat(tables), first_row=start).runs(start, stop)

    async def _read_pages(self, physical: Int64Array) -> None:
        rows = distinct(physical[physical < self._tail.first_row])
        if not len(rows) or self.is_cached:
            return
        if self._is_flat_due(rows) and not self._is_flat_heavy():
            self._body = await self._flattened()
        if self._body is None:
            parts = self._parts_of_rows(rows)
            found = await tree.locate(self._root, rows, self._pages, parts=parts)
            self._ahead = FoundAhead(rows, found)

    def _is_flat_due(self, physical: Int64Array) -> bool:
        """Count the leaves that the tree must read; return whether reading all costs no more."""
        if not self._can_be_flat:
            return False
        self._leaves_read += leaves_touched(physical, self._leaves, self._root.body_rows)
        return self._leaves_read >= self._leaves

    async def _flattened(self) -> FlatExtents | None:
        extents = await self._all(
            self._root.body_rows, self._parts_of_all(), at_most=FLAT_EXTENTS_MAX
        )
        if extents.num_rows < self._root.body_rows:
            self._can_be_flat = False
            return None
        return FlatExtents.of(_compact(extents), first_row=0)

    async def _all(self, stop: int, parts: Parts, *, at_most: int | None = None) -> Extents:
        tables: list[Extents] = []
        count = 0
        async with aclosing(tree.scan(self._root, self._pages, 0, stop, parts=parts)) as scanned:
            async for _, table in scanned:
                count += len(table)
                if at_most is not None and count > at_most:
                    break
                tables.append(replace(table, units=UnitTable.none(len(table))))
        return Extents.concat(tables)

    async def _stored(self, ranges: Int64Array) -> tuple[int, int]:
        chunks = nbytes = 0
        first, last = int(ranges[0, 0]), int(ranges[-1, 1])
        scanned = tree.scan(self._root, self._pages, first, last, parts=Parts.LOCATIONS)
        async for start, table in scanned:
            stops = table.stops + start
            # no entry begins after the last range, for the scan ends there
            next_range = np.searchsorted(ranges[:, 1], stops - table.rows, side="right")
            is_wanted = ranges[next_range, 0] < stops
            is_wanted &= ~np.isin(table.kind, [ChunkKind.FILL, ChunkKind.HOLE])
            wanted = np.flatnonzero(is_wanted)
            entries = distinct(canonical(first_of_chunk(table), wanted))
            chunks += len(entries)
            nbytes += int(table.nbytes[entries].sum())
        return chunks, nbytes

    def _parts_of_rows(self, physical: Int64Array) -> Parts:
        """Choose the parts of leaves to read: on remote stores units too, unless too many.

        Once there were too many, they are skipped from then on: the same rows are looked up
        again, in parts, and no leaf should be read twice.
        """
        if self._has_units and self._leaves:
            self._has_units = self._units_nbytes(physical) <= UNITS_NBYTES_MAX
        return Parts.UNITS if self._has_units else Parts.LOCATIONS

    def _is_flat_heavy(self) -> bool:
        """Whether the flat part has too many units for the first lookup to wait for it.

        It is built, with its units, at the next lookup.
        """
        nbytes = self._leaves * self._units_nbytes_of_leaf()
        return Parts.UNITS in self._parts_of_all() and nbytes > UNITS_NBYTES_MAX

    def _units_nbytes(self, physical: Int64Array) -> int:
        leaves = leaves_touched(physical, self._leaves, self._root.body_rows)
        return leaves * self._units_nbytes_of_leaf()

    def _units_nbytes_of_leaf(self) -> int:
        """Estimate the bytes of the units in a leaf, at most one per row."""
        return min(self._root.body_rows // self._leaves, LIMITS.leaf_units) * UNIT_NBYTES

    def _parts_of_all(self) -> Parts:
        is_large = self._is_local or self._is_loaded or self._leaves > LEAVES_WITH_UNITS_MAX
        return Parts.LOCATIONS if is_large else Parts.UNITS

    async def _sampled_row_nbytes(self) -> int:
        """Read the mean bytes of a row; for a large tree from a few leaves."""
        rows = self.num_rows
        if all(child.height == 0 for child in self._root.children):
            # the next lookup searches these pages, and finds them cached
            parts = Parts.LOCATIONS if self._is_flat_heavy() else self._parts_of_all()
            return _mean([await self._all(rows, parts)])
        step = self._root.body_rows // self._leaves
        last = SAMPLED_WINDOWS - 1
        starts = [window * (rows - step) // last for window in range(SAMPLED_WINDOWS)]
        windows = [partial(self._window, start, start + step) for start in starts]
        reads = [self._pages_above, *windows]
        sampled = await runtime.gather_bounded(reads, limit=len(reads))
        return _mean([table for tables in sampled for table in tables])

    async def _pages_above(self) -> list[Extents]:
        """Read the pages below the root if they are few: the next lookups need them."""
        inner = [child for child in self._root.children if child.height]
        if not self._is_local and sum(child.nbytes for child in inner) <= PAGES_ABOVE_NBYTES_MAX:
            await self._pages.inners(inner, Extents)
        return []

    async def _window(self, start: int, stop: int) -> list[Extents]:
        scanned = tree.scan(self._root, self._pages, start, stop, parts=Parts.LOCATIONS)
        return [table async for _, table in scanned]

    async def _find_in_tree(self, physical: Int64Array) -> Located:
        is_sorted = bool((physical[1:] >= physical[:-1]).all())
        rows, order = (physical, None) if is_sorted else np.unique(physical, return_inverse=True)
        parts = self._parts_of_rows(rows)
        found = await tree.locate(self._root, rows, self._pages, parts=parts)
        if order is None:
            return located_in(found, found.entry, found.offset)
        return located_in(found, found.entry[order], found.offset[order])


def leaf_count(children: Sequence[PageRef]) -> int:
    """Return the number of leaves below some pages, or an upper bound above two inner levels."""
    return sum(
        child.entries * LIMITS.fan_out ** (child.height - 1) if child.height else 1
        for child in children
    )


def leaves_touched(rows: Int64Array, leaves: int, num_rows: int) -> int:
    """Estimate the number of leaves that contain some rows, assuming leaves of equal size."""
    step = max(1, num_rows // leaves)
    return min(leaves, len(distinct(rows // step))) if leaves > 1 else 1


def _each(units: UnitTable, entries: Int64Array) -> list[Units | None]:
    return [None if one is None else Units(*one) for one in units.each(entries)]


def _both(body: Located, tail: Located, is_in_tail: npt.NDArray[np.bool_]) -> Located:
    """Merge the locations of rows in the body and in the tail."""
    chunk = np.empty(len(is_in_tail), np.int32)
    row_in_chunk = np.empty(len(is_in_tail), np.int64)
    chunk[~is_in_tail], row_in_chunk[~is_in_tail] = body.chunk, body.row_in_chunk
    chunk[is_in_tail] = tail.chunk + len(body.chunks)
    row_in_chunk[is_in_tail] = tail.row_in_chunk
    return Located(
        chunk,
        row_in_chunk,
        (*body.chunks, *tail.chunks),
        np.concatenate([body.starts, tail.starts]),
        np.concatenate([body.rows, tail.rows]),
    )


def _compact(extents: Extents) -> Extents:
    """Store columns of one value as that value, and 64-bit ones that fit in 32 bits."""

    def compact(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not len(column):
            return column
        low, high = column.min(), column.max()
        if low == high:
            return np.broadcast_to(column[:1], column.shape)
        is_wide = column.dtype == np.uint64 and high <= np.iinfo(np.uint32).max
        return column.astype(np.uint32) if is_wide else column

    names = ("rows", "skip", "kind", "read_as", "offset", "nbytes", "header_nbytes")
    return replace(extents, **{name: compact(getattr(extents, name)) for name in names})


def _mean(tables: Sequence[Extents]) -> int:
    nbytes = sum(int(table.nbytes.sum()) for table in tables)
    return nbytes // max(1, sum(table.num_rows for table in tables))
