"""Fetch rows of chunks that need requests, on the storage loop.

    many rows of a chunk     the chunk, by one request; cached
    few, units in the index  only the units that hold them, of all chunks of a pack together
    few, units elsewhere     the chunk's header, which records them too, and with it those of raw
                             numbers, whose places are known; else then the units of several chunks
                             together, whatever packs they are in
    few, samples in parts    the same; all parts of the samples

Bytes are verified and decoded in a worker thread, so that the loop can receive other answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import chain, compress
from operator import not_
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.errors import CorruptionError
from tensorlake.format import ChunkHeader, PackId, TensorSpec, header_units, usual_units
from tensorlake.reading.decode import Fetched, adapted, decoded_and_kept, verified
from tensorlake.reading.fetch.headers import ChunkHeaders
from tensorlake.reading.fetch.partial_chunks import ChunkRows, Parts
from tensorlake.reading.fetch.random_access import is_sparse_in
from tensorlake.reading.fetch.sample_parts import PartReader, whole_samples
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.reading.index.extent_table import Located
from tensorlake.reading.index.index import ChunkIndex
from tensorlake.storage import Buffer, SingleFlight, runtime
from tensorlake.types import Column, take
from tensorlake.versions import PackReader

__all__ = ["CHUNKS_IN_FLIGHT", "RowFetches"]

Int64Array = npt.NDArray[np.int64]
Ranges = dict[PackId, list[tuple[int, int]]]
Early = Mapping[tuple[PackId, int, int], Buffer]  # the bytes of ranges that were read already

CHUNKS_IN_FLIGHT = 64

HEADERS_TOGETHER = 8
"""Chunks whose units are planned together once all their headers have arrived: planning costs as
much for one as for several, and the slowest of a few headers is not much later than the others."""

ASIDE_UNITS_MIN = 32
"""Least number of parts that are verified and decoded in a thread; fewer once all are here."""


class RowFetches:
    """Reads rows of chunks by requests. Thread-safe; its coroutines run on the storage loop."""

    def __init__(self, packs: PackReader, cache: ChunkCache, headers: ChunkHeaders) -> None:
        self._packs = packs
        self._cache = cache
        self._headers = headers
        self._samples = PartReader(packs)
        # Several threads read rows of one chunk at a time: it is requested once for all.
        self._under_way = SingleFlight[ChunkKey, Column]()

    async def chunk(self, key: ChunkKey) -> Buffer:
        """Read a chunk's bytes by one request, and verify them."""
        return verified(key, await self._packs.read_range(key.pack, key.offset, key.nbytes))

    async def rows(
        self,
        spec: TensorSpec,
        index: ChunkIndex,
        located: Located,
        wanted: list[Int64Array],
        which: list[int],
    ) -> list[Fetched]:
        """Request the given rows of some chunks, and wait for them.

        Args:
            spec: The tensor.
            index: Its chunk index.
            located: All chunks that contain the rows.
            wanted: The requested rows of each.
            which: The chunks to request.
        """
        is_sparse = [is_sparse_in(located, wanted, at) for at in which]
        sparse = [at for at, is_one in zip(which, is_sparse, strict=True) if is_one]
        recorded = await index.units(located.starts[sparse]) if sparse else []
        units = dict(zip(sparse, recorded, strict=True))
        together: dict[tuple[PackId, int], tuple[list[int], list[ChunkRows]]] = {}
        unknown: list[tuple[int, ChunkKey, Int64Array]] = []
        factories: list[Callable[[], Coroutine[Any, Any, list[Fetched]]]] = []
        for at in which:
            key = located.chunks[at]
            if at not in units:
                factories.append(partial(self._whole, spec, at, key, wanted[at]))
            elif (found := units[at]) is None:
                unknown.append((at, key, wanted[at]))
            else:
                places, chunks = together.setdefault((key.pack, key.read_as), ([], []))
                places.append(at)
                chunks.append(ChunkRows(key, wanted[at], found))
        for start in range(0, len(unknown), HEADERS_TOGETHER):
            some = unknown[start : start + HEADERS_TOGETHER]
            factories.append(partial(self._by_headers, spec, some))
        for places, chunks in together.values():
            factories.append(partial(self._parts, spec, places, chunks))
        return await _all(factories)

    async def _whole(
        self, spec: TensorSpec, at: int, key: ChunkKey, rows: Int64Array
    ) -> list[Fetched]:
        whole = self._cache.column(key)
        if whole is None:
            read = partial(self._read_whole, spec, key)
            whole = await self._under_way.read(key, read)
        column = whole

        def taken() -> list[Column]:
            return [adapted(spec, key, take(column, rows))]

        return [Fetched([at], taken)]

    async def _read_whole(self, spec: TensorSpec, key: ChunkKey) -> Column:
        return decoded_and_kept(self._cache, spec, key, await self.chunk(key))

    async def _by_headers(
        self, spec: TensorSpec, unknown: Sequence[tuple[int, ChunkKey, Int64Array]]
    ) -> list[Fetched]:
        """Read rows of chunks whose units the index does not record: their headers do."""
        likely = _likely_ranges(spec, unknown)
        fetches: list[Callable[[], Awaitable[Any]]] = [
            *(partial(self._headers.fetch, key) for _, key, _ in unknown),
            *(partial(self._packs.read_ranges, *one) for one in likely.items()),
        ]
        fetched = await runtime.gather_bounded(fetches, limit=len(fetches))
        headers: list[ChunkHeader] = fetched[: len(unknown)]
        early = {
            (pack, *place): buffer
            for (pack, places), buffers in zip(likely.items(), fetched[len(unknown) :], strict=True)
            for place, buffer in zip(places, buffers, strict=True)
        }
        together: dict[int, tuple[list[int], list[ChunkRows]]] = {}
        factories: list[Callable[[], Coroutine[Any, Any, list[Fetched]]]] = []
        for (at, key, rows), header in zip(unknown, headers, strict=True):
            if header.parts is not None:
                factories.append(partial(self._in_parts, spec, at, key, rows, header))
                continue
            units = header_units(header, layout=spec.encoding(key.read_as), where=str(key))
            if units is None:
                factories.append(partial(self._whole, spec, at, key, rows))
                continue
            places, chunks = together.setdefault(key.read_as, ([], []))
            places.append(at)
            chunks.append(ChunkRows(key, rows, units))
        for places, chunks in together.values():
            factories.append(partial(self._parts, spec, places, chunks, early))
        return await _all(factories)

    async def _in_parts(
        self, spec: TensorSpec, at: int, key: ChunkKey, rows: Int64Array, header: ChunkHeader
    ) -> list[Fetched]:
        """Read all parts of some samples of a chunk, or the whole chunk if that costs less."""
        samples = self._samples.describe(spec.name, key, header, rows, rows)
        known = [one for one in samples if one is not None]
        if 2 * sum(one.map.nbytes for one in known) > key.nbytes:
            return await self._whole(spec, at, key, rows)
        wanted = [(one, np.arange(one.map.num_parts)) for one in known]
        buffers = await self._samples.read(wanted)

        def made() -> list[Column]:
            return [adapted(spec, key, whole_samples(header, rows, samples, buffers))]

        return [Fetched([at], made)]

    async def _parts(
        self,
        spec: TensorSpec,
        places: list[int],
        chunks: list[ChunkRows],
        early: Early = MappingProxyType({}),
    ) -> list[Fetched]:
        """Read only the parts of chunks that hold some rows, or whole chunks if that costs less."""
        layout = spec.encoding(chunks[0].key.read_as)
        parts = Parts.of(chunks, layout)
        nbytes = parts.nbytes_by_chunk().tolist()
        is_part = [2 * part <= one.key.nbytes for part, one in zip(nbytes, chunks, strict=True)]
        if all(is_part):
            return [await self._read_units(spec, places, parts, early)]
        whole = [
            partial(self._whole, spec, at, one.key, one.rows)
            for at, one in compress(zip(places, chunks, strict=True), map(not_, is_part))
        ]
        if any(is_part):
            rest = [*compress(places, is_part)], [*compress(chunks, is_part)]
            whole.append(partial(self._parts, spec, *rest, early))
        return await _all(whole)

    async def _read_units(
        self, spec: TensorSpec, places: list[int], parts: Parts, early: Early
    ) -> Fetched:
        keys = parts.keys
        wanted = [
            (keys[chunk].pack, start, stop)
            for chunk, (start, stop) in zip(
                parts.chunk_of_wanted.tolist(), parts.ranges.tolist(), strict=True
            )
        ]
        ranges: Ranges = {}
        for pack, start, stop in wanted:
            if (pack, start, stop) not in early:
                ranges.setdefault(pack, []).append((start, stop))
        reads = [partial(self._packs.read_ranges, *one) for one in ranges.items()]
        read = await runtime.gather_bounded(reads, limit=len(reads)) if reads else []
        # of each pack they came in the order in which the parts name it
        coming = dict(zip(ranges, map(iter, read), strict=True))
        buffers = [early[one] if one in early else next(coming[one[0]]) for one in wanted]

        def made() -> list[Column]:
            columns = zip(keys, parts.columns(buffers), strict=True)
            return [adapted(spec, key, column) for key, column in columns]

        if len(buffers) < ASIDE_UNITS_MIN:
            return Fetched(places, made)
        # while those of other packs are in flight
        columns = await asyncio.get_running_loop().run_in_executor(None, made)
        return Fetched(places, lambda: columns)


def _likely_ranges(spec: TensorSpec, unknown: Sequence[tuple[int, ChunkKey, Int64Array]]) -> Ranges:
    """Return where the units of some rows are, by pack, of chunks whose header need not say it."""
    ranges: Ranges = {}
    for _, key, rows in unknown:
        layout = spec.encoding(key.read_as)
        units = usual_units(layout, key.nbytes - key.header_nbytes)
        if units is None or spec.type.nullable:
            continue
        try:
            own = Parts.of([ChunkRows(key, rows, units)], layout)
        except CorruptionError:
            continue  # the header will tell what is damaged
        if 2 * int(own.nbytes_by_chunk()[0]) <= key.nbytes:
            ranges.setdefault(key.pack, []).extend(map(tuple, own.ranges.tolist()))
    return ranges


async def _all(
    factories: Sequence[Callable[[], Coroutine[Any, Any, list[Fetched]]]],
) -> list[Fetched]:
    if len(factories) == 1:
        return await factories[0]()  # most pieces of a batch are single: no task needed
    fetched = await runtime.gather_bounded(factories, limit=CHUNKS_IN_FLIGHT)
    return [*chain.from_iterable(fetched)]
