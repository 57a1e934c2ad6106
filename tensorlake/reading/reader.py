"""Read samples of a snapshot: rows → chunks → bytes → columns.

In a local folder chunks are memory-mapped; on remote stores a chunk is one ranged GET, or, for few
of its rows, only the parts that contain them (units). All bytes are verified on arrival; a mapped
chunk once per process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import compress
from operator import not_

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError
from tensorlake.format import Extents, Root, TensorSpec
from tensorlake.reading.bulk_read import Filling, Piece, is_filled, pieces_of, pieces_of_runs
from tensorlake.reading.decode import (
    adapted,
    as_handed_out,
    decoded,
    decoded_and_kept,
    joined,
    rows_by_chunk,
    salvaged,
    verified,
)
from tensorlake.reading.fetch.fetch import CHUNKS_IN_FLIGHT, RowFetches
from tensorlake.reading.fetch.headers import (
    ChunkHeaders,
    header_nulls,
    header_shapes,
    run_shapes,
)
from tensorlake.reading.fetch.links import fetch_linked, linked_samples, opened_links
from tensorlake.reading.fetch.random_access import SPARSE_ROWS, is_sparse_in, read_random_rows
from tensorlake.reading.fetch.sample_parts import PartReader, StoredSample, part_column
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.reading.index.extent_table import ChunkRun, Located, run_of
from tensorlake.reading.index.index import ChunkIndex
from tensorlake.reading.snapshot import Snapshot
from tensorlake.storage import Buffer, Store, runtime
from tensorlake.types import (
    Column,
    EncodedColumn,
    Link,
    MemorySample,
    PartSource,
    SampleMap,
    concat,
    slice_rows,
    take,
)
from tensorlake.versions import Hedging, NearPacks

__all__ = ["Reader"]

Int64Array = npt.NDArray[np.int64]


class Reader:
    """Reads columns of one snapshot. Thread-safe; cheap to create."""

    def __init__(self, snapshot: Snapshot, cache: ChunkCache | None = None) -> None:
        self.snapshot = snapshot
        self._cache = cache or ChunkCache()

    @cached_property
    def _headers(self) -> ChunkHeaders:
        return ChunkHeaders(self.snapshot.packs, self._cache)

    @cached_property
    def _fetches(self) -> RowFetches:
        return RowFetches(self.snapshot.packs, self._cache, self._headers)

    @cached_property
    def _parts(self) -> PartReader:
        return PartReader(self.snapshot.packs)

    def through(self, near: NearPacks | None, hedge: Hedging | None = None) -> Reader:
        """Make a reader that looks for chunks near first, and hedges, with the same cache."""
        return Reader(self.snapshot.through(near, hedge), self._cache)

    @property
    def store(self) -> Store:
        """The store of the bytes."""
        return self.snapshot.packs.store

    def group(self, name: str) -> Reader | None:
        """Make a reader of a column group, with the same cache; None without one."""
        found = self.snapshot.group(name)
        return None if found is None else Reader(found, self._cache)

    def cells(self, tensor: str, root: Root[Extents]) -> Reader:
        """Make a reader of a tensor's cells as another tree has them, with the same cache."""
        return Reader(self.snapshot.cells(self.snapshot.spec(tensor).id, root), self._cache)

    def locate(self, tensor: str, physical: Int64Array) -> Located:
        """Find the chunks of physical rows, in any order."""
        return self.index(tensor).locate(physical)

    def index(self, tensor: str) -> ChunkIndex:
        """Return the tensor's chunk index.

        Raises:
            UnsupportedFeatureError: This version cannot read the tensor.
        """
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        if not spec.is_supported:
            spec.check_supported()
        return self.snapshot.chunk_index(spec.id)

    def row_nbytes(self, tensors: Sequence[str]) -> list[int]:
        """Return the mean stored bytes of a row of each tensor; all are looked up concurrently."""
        indexes = [*map(self.index, tensors)]
        known = [size for one in indexes if (size := one.known_row_nbytes) is not None]
        if len(known) == len(indexes):
            return known
        sizes = [one.row_nbytes for one in indexes]
        return runtime.run(runtime.gather_bounded(sizes, limit=CHUNKS_IN_FLIGHT))

    def look_ahead(self, tensors: Sequence[str], physical: Int64Array) -> None:
        """Read the pages that ``row_nbytes`` and ``locate`` of some rows need, concurrently."""
        indexes = [index for index in map(self.index, tensors) if not index.is_cached]
        if indexes:
            reads = [partial(index.look_ahead, physical) for index in indexes]
            runtime.run(runtime.gather_bounded(reads, limit=CHUNKS_IN_FLIGHT))

    def map_chunk(self, key: ChunkKey) -> Buffer | None:
        """View a chunk of a local folder (or a staged one) in memory; None on remote stores."""
        blob = self.snapshot.packs.map_range(key.pack, key.offset, key.nbytes)
        if blob is not None and not self._cache.is_verified(key):
            verified(key, blob)
            self._cache.set_verified(key)
        return blob

    def decode_chunk(
        self, tensor: str, key: ChunkKey, blob: Buffer, rest: Sequence[Buffer] = ()
    ) -> Column:
        """Turn a chunk's verified bytes into a column of stored samples, of the tensor's type.

        Where it was read in parts, ``rest`` follows ``blob``.
        """
        spec = self.snapshot.spec(tensor)
        column = spec.adapt(decoded(spec, key, blob, rest), key.read_as, where=str(key))
        if column.valid is None or spec.type.nullable:
            return column
        return replace(column, valid=None)  # only dead rows are NULL: optimize() emptied them

    def salvage_chunk(
        self, tensor: str, key: ChunkKey, pieces: Sequence[Buffer] = ()
    ) -> tuple[Column, npt.NDArray[np.bool_]] | None:
        """Return the rows of a damaged chunk that can be verified, and which rows cannot.

        Args:
            tensor: The chunk's tensor.
            key: Its address.
            pieces: Its bytes, one after another, if they were fetched.

        Returns:
            Its rows, with lost ones as NULL, and a mask of these; None where no row can be
            verified.
        """
        blob = b"".join(pieces) if pieces else None
        if blob is None:
            blob = self.snapshot.packs.map_range(key.pack, key.offset, key.nbytes)
        spec = self.snapshot.spec(tensor)
        found = None if blob is None else salvaged(spec, key, blob)
        if found is None:
            return None
        column, is_lost = found
        column = spec.adapt(column, key.read_as, where=str(key))
        valid = column.valid if spec.type.nullable else None
        return replace(column, valid=~is_lost if valid is None else ~is_lost & valid), is_lost

    def fill_column(self, tensor: str, rows: int) -> Column:
        """Return the stored samples of rows that have the tensor's fill."""
        spec = self.snapshot.spec(tensor)
        return spec.type.fill_column(spec.fill, rows)

    def read(self, tensor: str, physical: Int64Array, *, decode: bool = True) -> Column:
        """Read samples of physical rows, in their order; media decoded unless `decode` is False.

        Raises:
            CorruptionError: Stored bytes are damaged; the message names the place.
        """
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        if len(physical) == 0:
            column = spec.type.convert([], tensor=tensor)
        else:
            is_bulk = len(physical) > 1 and is_filled(spec, len(physical))
            filled = self._filled(spec, physical) if is_bulk else None
            column = self._joined(spec, physical) if filled is None else filled
        if decode and spec.type.is_media:
            rows = self.snapshot.rows_of(physical)
            if isinstance(spec.type, Link):
                column = opened_links(self.snapshot.packs.links, column, tensor, rows)
            return spec.type.decode(column, tensor=tensor, rows=rows)
        return column

    async def fetch(self, tensor: str, physical: Int64Array) -> Callable[[], Column]:
        """Fetch the bytes that ``read`` needs for some rows, on the storage loop.

        Returns:
            A function that verifies them and returns ``read``'s column, with media as stored: for
            another thread, since the loop's has other answers to receive.
        """
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        index = self.index(tensor)
        located = await index.find(physical)
        wanted, order = rows_by_chunk(located)
        parts = self._cached_parts(spec, located, wanted)
        missing = [at for at, part in enumerate(parts) if part is None]
        reads = self._fetches.rows(spec, index, located, wanted, missing) if missing else None
        return partial(joined, parts, [] if reads is None else await reads, order)

    async def fetch_parts(
        self,
        tensor: str,
        physical: Int64Array,
        wanted: Sequence[Callable[[SampleMap, tuple[int, ...] | None], Int64Array]],
    ) -> Callable[[], Column]:
        """Fetch parts of samples, on the storage loop.

        Args:
            tensor: A tensor whose type has parts.
            physical: The rows.
            wanted: Returns the parts to fetch of each, from its map and its recorded shape.

        Returns:
            A function that verifies them and returns the samples' wanted parts, joined, with the
            maps and shapes of the whole samples. Samples of chunks without parts are whole.
        """
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        located = await self.index(tensor).find(physical)
        reads = [partial(self._headers.fetch, key) for key in located.chunks if not key.is_fill]
        headers = iter(await runtime.gather_bounded(reads, limit=CHUNKS_IN_FLIGHT))
        known = [None if key.is_fill else next(headers) for key in located.chunks]
        if any(header is not None and header.parts is None for header in known):
            return await self.fetch(tensor, physical)
        samples = self._parts.located(tensor, located, known)
        if isinstance(spec.type, Link):
            links, rows = self.snapshot.packs.links, self.snapshot.rows_of(physical)
            return await fetch_linked(links, tensor, samples, rows, wanted, spec.type.shape)
        asked = [
            (one, choose(one.map, one.shape))
            for one, choose in zip(samples, wanted, strict=True)
            if one is not None
        ]
        return partial(part_column, samples, asked, await self._parts.read(asked), spec.type.shape)

    def read_run(self, tensor: str, start: int, stop: int) -> Column:
        """Read samples of physical rows ``start`` … ``stop`` - 1; media decoded.

        Raises:
            CorruptionError: Stored bytes are damaged; the message names the place.
        """
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        column = None if spec.type.is_media else self._cached_run(spec, start, stop)
        if column is None:
            return self.read(tensor, np.arange(start, stop))
        return as_handed_out(spec, column)

    def read_codes(self, tensor: str, start: int, stop: int) -> Column:
        """Read the classes of physical rows ``start`` … ``stop`` - 1, in any unsigned dtype.

        Raises:
            CorruptionError: Stored bytes are damaged; the message names the place.
        """
        self.snapshot.check_alive()
        column = self._cached_run(self.snapshot.spec(tensor), start, stop)
        return self.read(tensor, np.arange(start, stop)) if column is None else column

    def shapes(self, tensor: str, physical: Int64Array) -> Int64Array:
        """Return shapes of samples, int64 (n, ndim), from headers alone; −1 where NULL.

        Raises:
            InvalidInputError: The type's samples have no shape.
        """
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        spec.check_supported()
        if spec.type.dtype is None and not (spec.type.is_media and spec.type.shape):
            raise InvalidInputError(
                f"{tensor!r} ({spec.type.describe()}) has no shape; read it: ds[{tensor!r}][:]",
                tensor=tensor,
            )
        run = run_of(physical) if len(physical) else None
        runs = None if run is None else self.index(tensor).find_runs(*run)
        if runs is not None:
            return run_shapes(spec, runs, self._headers.of([each.chunk for each in runs]))
        located = self.locate(tensor, physical)
        return header_shapes(spec, located, self._headers.of(located.chunks))

    def samples(self, tensor: str, physical: Int64Array) -> list[PartSource | None]:
        """Find samples by headers alone; None for NULL. Whole, if an earlier type wrote them."""
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        located, rows = self.locate(tensor, physical), self.snapshot.rows_of(physical)
        found: list[PartSource | None] = [None] * len(physical)
        headers = self._headers.of(located.chunks)
        for at, (key, header) in enumerate(zip(located.chunks, headers, strict=True)):
            here = np.flatnonzero(located.chunk == at)
            where = located.row_in_chunk[here]
            if header is not None and header.parts is not None:
                those = self._parts.describe(tensor, key, header, where, rows[here])
            else:
                those = self._whole_samples(spec, physical[here], rows[here])
            for place, one in zip(here.tolist(), those, strict=True):
                found[place] = one
        if isinstance(spec.type, Link):
            return [*linked_samples(self.snapshot.packs.links, tensor, found, rows)]
        return found

    def read_parts(
        self, wanted: Sequence[tuple[PartSource, Int64Array]]
    ) -> list[Mapping[int, Buffer]]:
        """Read and verify parts of several samples together.

        Raises:
            CorruptionError: A part is damaged.
        """
        stored = [(one, parts) for one, parts in wanted if isinstance(one, StoredSample)]
        read = iter(self._parts.fetch(stored))
        return [
            next(read) if isinstance(one, StoredSample) else one.fetch(parts)
            for one, parts in wanted
        ]

    def _whole_samples(
        self, spec: TensorSpec, physical: Int64Array, rows: Int64Array
    ) -> list[PartSource | None]:
        column = self.read(spec.name, physical, decode=False)
        assert isinstance(column, EncodedColumn)
        valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        return [
            MemorySample.of(spec.type, column, at, tensor=spec.name, row=row) if own else None
            for at, (row, own) in enumerate(zip(rows.tolist(), valid.tolist(), strict=True))
        ]

    def is_null(self, tensor: str, physical: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which samples are NULL, from chunk headers alone."""
        self.snapshot.check_alive()
        spec = self.snapshot.spec(tensor)
        located = self.locate(tensor, physical)
        return header_nulls(spec, located, self._headers.of(located.chunks))

    def chunks(self, tensor: str, physical: Int64Array) -> Sequence[ChunkKey]:
        """Return the stored chunks that contain these rows, each once."""
        if len(physical) == 0:
            return ()
        return [key for key in self.locate(tensor, physical).chunks if not key.is_fill]

    def stored_nbytes(self, tensor: str, physical: Int64Array) -> int:
        """Return the bytes of the chunks that contain these rows."""
        return sum(key.nbytes for key in self.chunks(tensor, physical))

    def _filled(self, spec: TensorSpec, physical: Int64Array) -> Column | None:
        """Read many rows of one shape into one array; None where one chunk contains them all."""
        run = run_of(physical) if self.store.is_local else None
        runs = None if run is None else self.index(spec.name).find_runs(*run)
        located, wanted = None, []
        if runs is None:
            located = self.locate(spec.name, physical)
            if self.store.is_local and len(physical) * SPARSE_ROWS <= int(located.rows.sum()):
                return None  # by parts
            wanted, order = rows_by_chunk(located)
            pieces = pieces_of(located.chunks, wanted, order)
        else:
            pieces = pieces_of_runs(runs)
        if len(pieces) == 1:
            return None
        filling = Filling(spec, len(physical), self.snapshot.packs, self._cache)
        missing = filling.place_cached(pieces)
        is_sparse = [located is not None and is_sparse_in(located, wanted, at) for at in missing]
        fetches = [
            partial(self._fetch_into, filling, pieces[at])
            for at in compress(missing, map(not_, is_sparse))
        ]
        sparse = [*compress(missing, is_sparse)]
        if located is not None and sparse:
            fetches.append(
                partial(self._fetch_parts_into, filling, pieces, located, wanted, sparse)
            )
        if fetches:
            runtime.run(runtime.gather_bounded(fetches, limit=CHUNKS_IN_FLIGHT))
        return filling.column()

    async def _fetch_into(self, filling: Filling, piece: Piece) -> None:
        """Read a whole chunk; others arrive while a thread copies its rows."""
        key = piece.key
        blob = await self.snapshot.packs.read_range(key.pack, key.offset, key.nbytes)
        await asyncio.get_running_loop().run_in_executor(None, filling.place, piece, blob)

    async def _fetch_parts_into(
        self,
        filling: Filling,
        pieces: list[Piece],
        located: Located,
        wanted: list[Int64Array],
        which: list[int],
    ) -> None:
        """Read the parts that few rows of chunks need, and copy them into place."""
        spec, index = filling.spec, self.index(filling.spec.name)
        for fetched in await self._fetches.rows(spec, index, located, wanted, which):
            for at, column in zip(fetched.places, fetched.columns(), strict=True):
                filling.put(pieces[at], column)

    def _joined(self, spec: TensorSpec, physical: Int64Array) -> Column:
        """Return rows of chunks joined in the requested order; of one chunk a view if possible."""
        run = run_of(physical)
        cached = None if run is None else self._cached_run(spec, *run)
        if cached is None:
            return self._gather(spec, physical)
        return as_handed_out(spec, cached) if spec.holds_codes else cached

    def _cached_run(self, spec: TensorSpec, start: int, stop: int) -> Column | None:
        """Return consecutive rows of chunks that need no request; None for any others.

        Class codes stay in their cached dtype. There is no work per row: a scan costs as much as
        its chunks.
        """
        runs = self.index(spec.name).runs(start, stop)
        if runs is None:
            return None
        parts: list[Column] = []
        for run in runs:
            part = self._cached_slice(spec, run)
            if part is None:
                return None
            parts.append(part)
        return concat(parts)

    def _cached_slice(self, spec: TensorSpec, run: ChunkRun) -> Column | None:
        if run.chunk.is_fill:
            return self.fill_column(spec.name, run.stop - run.start)
        whole = self._cached_chunk(spec, run.chunk)
        if whole is None:
            return None
        part = slice_rows(whole, run.start, run.stop)
        return part if run.chunk.read_as == spec.read_as else adapted(spec, run.chunk, part)

    def _gather(self, spec: TensorSpec, physical: Int64Array) -> Column:
        """Read random rows by the parts that contain them where that pays, others by chunk."""
        packs, index = self.snapshot.packs, self.index(spec.name)
        found = read_random_rows(spec, index, packs, self._cache, physical)
        if found is None:
            return self._gather_chunks(spec, index.locate(physical))
        if len(found.places) == len(physical):
            return found.column
        others = np.delete(np.arange(len(physical)), found.places)
        rest = self._gather_chunks(spec, index.locate(physical[others]))
        order = np.argsort(np.concatenate([found.places, others]))
        return take(concat([found.column, rest]), order)

    def _gather_chunks(self, spec: TensorSpec, located: Located) -> Column:
        """Take each chunk's requested rows, then restore the requested order."""
        wanted, order = rows_by_chunk(located)
        parts = self._cached_parts(spec, located, wanted)
        missing = [at for at, part in enumerate(parts) if part is None]
        index = self.index(spec.name)
        reads = self._fetches.rows(spec, index, located, wanted, missing) if missing else None
        return joined(parts, [] if reads is None else runtime.run(reads), order)

    def _cached_parts(
        self, spec: TensorSpec, located: Located, wanted: list[Int64Array]
    ) -> list[Column | None]:
        return [
            self._cached_rows(spec, key, rows)
            for key, rows in zip(located.chunks, wanted, strict=True)
        ]

    def _cached_rows(self, spec: TensorSpec, key: ChunkKey, rows: Int64Array) -> Column | None:
        """Return rows of a chunk that needs no request; None when it does."""
        if key.is_fill:
            return self.fill_column(spec.name, len(rows))
        whole = self._cached_chunk(spec, key)
        return None if whole is None else adapted(spec, key, take(whole, rows))

    def _cached_chunk(self, spec: TensorSpec, key: ChunkKey) -> Column | None:
        whole = self._cache.column(key)
        if whole is None:
            blob = self.map_chunk(key)
            if blob is None:
                return None
            whole = decoded_and_kept(self._cache, spec, key, blob)
        return whole
