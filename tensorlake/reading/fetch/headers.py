"""Read chunk headers without samples: shapes, NULLs, and units.

A header is a few hundred bytes at a chunk's start: from a folder it is viewed in memory, from
remote stores those that are not cached are requested together, and each only once for all
concurrent readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChunkHeader, TensorSpec, header_rows, read_header
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.reading.index.extent_table import ChunkRun, Located
from tensorlake.storage import Buffer, SingleFlight, runtime
from tensorlake.versions import PackReader

__all__ = ["ChunkHeaders", "header_nulls", "header_shapes", "run_shapes"]

Int64Array = npt.NDArray[np.int64]

HEADERS_IN_FLIGHT = 64


class ChunkHeaders:
    """Headers of chunks, with a cache. Thread-safe."""

    def __init__(self, packs: PackReader, cache: ChunkCache) -> None:
        self._packs = packs
        self._cache = cache
        # Several threads read rows of one chunk at a time: its header is requested once.
        self._under_way = SingleFlight[ChunkKey, ChunkHeader]()

    def of(self, keys: Sequence[ChunkKey]) -> list[ChunkHeader | None]:
        """Read the headers of some chunks, in order; None for fills."""
        found = [None if key.is_fill else self._cached_header(key) for key in keys]
        missing = [at for at, key in enumerate(keys) if found[at] is None and not key.is_fill]
        if missing:
            fetches = [partial(self.fetch, keys[at]) for at in missing]
            fetched = runtime.run(runtime.gather_bounded(fetches, limit=HEADERS_IN_FLIGHT))
            for at, header in zip(missing, fetched, strict=True):
                found[at] = header
        return found

    async def fetch(self, key: ChunkKey) -> ChunkHeader:
        """Read a chunk's header, on the storage loop."""
        header = self._cache.header(key)
        if header is None:
            header = await self._under_way.read(key, partial(self._read, key))
        return header

    def _cached_header(self, key: ChunkKey) -> ChunkHeader | None:
        header = self._cache.header(key)
        if header is None:
            data = self._packs.map_range(key.pack, key.offset, key.header_nbytes)
            header = None if data is None else self._parsed(key, data)
        return header

    async def _read(self, key: ChunkKey) -> ChunkHeader:
        data = await self._packs.read_range(key.pack, key.offset, key.header_nbytes)
        return self._parsed(key, data)

    def _parsed(self, key: ChunkKey, data: Buffer) -> ChunkHeader:
        header = read_header(
            data, header_nbytes=key.header_nbytes, rows=header_rows(data), where=str(key)
        )
        self._cache.keep_header(key, header)
        return header


def header_shapes(
    spec: TensorSpec, located: Located, headers: Sequence[ChunkHeader | None]
) -> Int64Array:
    """Return shapes of samples, int64 (n, ndim), from their chunks' headers; -1 where NULL."""
    shapes = np.empty((len(located.chunk), len(spec.type.shape)), dtype=np.int64)
    for at, (key, header) in enumerate(zip(located.chunks, headers, strict=True)):
        rows = np.flatnonzero(located.chunk == at)
        shapes[rows] = _shapes_of(spec, key, header, located.row_in_chunk[rows])
    return shapes


def run_shapes(
    spec: TensorSpec, runs: Sequence[ChunkRun], headers: Sequence[ChunkHeader | None]
) -> Int64Array:
    """Return shapes of consecutive rows as `header_shapes` does, without work per row."""
    count = sum(run.stop - run.start for run in runs)
    shapes = np.empty((count, len(spec.type.shape)), dtype=np.int64)
    first = 0
    for run, header in zip(runs, headers, strict=True):
        stop = first + run.stop - run.start
        shapes[first:stop] = _shapes_of(spec, run.chunk, header, slice(run.start, run.stop))
        first = stop
    return shapes


def _shapes_of(
    spec: TensorSpec, key: ChunkKey, header: ChunkHeader | None, rows: Int64Array | slice
) -> Int64Array:
    """Return shapes of rows of one chunk; of rows that all have one shape it alone."""
    if header is None:
        column = spec.type.fill_column(spec.fill, 1)
        own = getattr(column, "shapes", None)
        fixed = np.array([spec.type.shape]) if own is None else own
        is_null = column.valid is not None and not column.valid[0]
        return np.full_like(fixed, -1) if is_null else fixed
    if header.shapes is None:
        shapes = np.array([spec.encoding(key.read_as).shape], dtype=np.int64)
    else:
        shapes = header.shapes[rows]
    return shapes if header.valid is None else np.where(header.valid[rows][:, None], shapes, -1)


def header_nulls(
    spec: TensorSpec, located: Located, headers: Sequence[ChunkHeader | None]
) -> npt.NDArray[np.bool_]:
    """Return which samples are NULL, from their chunks' headers."""
    found = np.zeros(len(located.chunk), dtype=np.bool_)
    for at, (key, header) in enumerate(zip(located.chunks, headers, strict=True)):
        rows = np.flatnonzero(located.chunk == at)
        if header is None:
            found[rows] = key.is_fill and spec.fill is None
        elif header.valid is not None:
            found[rows] = ~header.valid[located.row_in_chunk[rows]]
    return found
