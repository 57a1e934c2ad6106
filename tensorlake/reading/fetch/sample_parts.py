"""Read parts of samples: of each chunk its header, then the byte ranges that are wanted.

    sample    chunk [header │ … │ p0 p1 p2 p3 p4 │ … ]     its map and checksums are in the header
    wanted                        p1 p2    p4
    read                         [p1 p2]  [p4]             merged like rows, in one call a pack

A folder's parts are views of the file in memory, others are requested together. Every part is
verified each time that it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChunkHeader, PackId
from tensorlake.reading.index.chunk_cache import ChunkKey
from tensorlake.reading.index.extent_table import Located
from tensorlake.storage import Buffer, parallel_map, runtime
from tensorlake.types import Column, Each, EncodedColumn, PartSource, SampleMap
from tensorlake.versions import PackReader

__all__ = ["PartReader", "StoredSample", "part_column", "whole_samples"]

Int64Array = npt.NDArray[np.int64]
PACKS_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True, eq=False)
class StoredSample:
    """One sample of a stored chunk, as a `PartSource`.

    Attributes:
        tensor: Name of its tensor, for errors.
        row: Its row in the version, for errors.
        map: Its map.
        shape: Shape of the decoded sample, where recorded.
    """

    tensor: str
    row: int
    map: SampleMap
    shape: tuple[int, ...] | None
    key: ChunkKey = field(repr=False)
    header: ChunkHeader = field(repr=False)
    position: int
    reader: PartReader = field(repr=False)

    @property
    def each(self) -> Each:
        """Independent pieces are decoded in several threads."""
        return parallel_map

    @property
    def offset(self) -> int:
        """Where the sample begins in its pack."""
        assert self.header.lengths is not None
        before = int(self.header.lengths[: self.position].sum())
        return self.key.offset + self.key.header_nbytes + before

    def ranges(self, parts: Int64Array) -> list[tuple[int, int]]:
        """Return the byte ranges of parts in the pack."""
        spans = np.array([self.map.span(part) for part in parts.tolist()], np.int64)
        return [(start, stop) for start, stop in (spans.reshape(-1, 2) + self.offset).tolist()]

    def verified(self, parts: Int64Array, buffers: Sequence[Buffer]) -> dict[int, Buffer]:
        """Verify the bytes of parts; return them by their numbers.

        Raises:
            CorruptionError: A part is damaged.
        """
        assert self.header.parts is not None
        self.header.parts.verify(self.position, parts, buffers, where=str(self.key))
        return dict(zip(parts.tolist(), buffers, strict=True))

    def fetch(self, parts: Int64Array) -> Mapping[int, Buffer]:
        """Read and verify parts."""
        return self.reader.fetch([(self, parts)])[0]


Wanted = tuple[StoredSample, Int64Array]


class PartReader:
    """Reads parts of samples. Thread-safe."""

    def __init__(self, packs: PackReader) -> None:
        self._packs = packs

    def describe(
        self, tensor: str, key: ChunkKey, header: ChunkHeader, where: Int64Array, rows: Int64Array
    ) -> list[StoredSample | None]:
        """Describe samples of a chunk that has parts; None for NULL.

        Args:
            tensor: Name of the tensor.
            key: The chunk.
            header: Its header.
            where: Positions of the samples in it.
            rows: The row of each, for errors.
        """
        assert header.parts is not None
        found: list[StoredSample | None] = []
        for position, row in zip(where.tolist(), rows.tolist(), strict=True):
            if header.valid is not None and not header.valid[position]:
                found.append(None)
                continue
            shape = None if header.shapes is None else tuple(header.shapes[position].tolist())
            own = header.parts.map(position)
            found.append(StoredSample(tensor, row, own, shape, key, header, position, self))
        return found

    def located(
        self, tensor: str, located: Located, headers: Sequence[ChunkHeader | None]
    ) -> list[StoredSample | None]:
        """Describe located rows, in their order; None for NULL, as all fills are."""
        found: list[StoredSample | None] = [None] * len(located.chunk)
        for at, (key, header) in enumerate(zip(located.chunks, headers, strict=True)):
            if header is not None:
                here = np.flatnonzero(located.chunk == at)
                where = located.row_in_chunk[here]
                described = self.describe(tensor, key, header, where, where)
                for place, one in zip(here.tolist(), described, strict=True):
                    found[place] = one
        return found

    def fetch(self, wanted: Sequence[Wanted]) -> list[Mapping[int, Buffer]]:
        """Read and verify parts of several samples; waits for all of them.

        Raises:
            CorruptionError: A part is damaged.
        """
        found = [self._mapped(sample, parts) for sample, parts in wanted]
        missing = [at for at, one in enumerate(found) if one is None]
        if missing:
            read = runtime.run(self._requested([wanted[at] for at in missing]))
            for at, buffers in zip(missing, read, strict=True):
                found[at] = buffers
        columns = zip(wanted, found, strict=True)
        return [one.verified(parts, buffers or ()) for (one, parts), buffers in columns]

    async def read(self, wanted: Sequence[Wanted]) -> list[list[Buffer]]:
        """Request parts of several samples on the storage loop; `StoredSample.verified` verifies.

        Parts of samples that are here already are views.
        """
        found = [self._mapped(sample, parts) for sample, parts in wanted]
        missing = [at for at, one in enumerate(found) if one is None]
        read = iter(await self._requested([wanted[at] for at in missing]))
        return [next(read) if one is None else one for one in found]

    def _mapped(self, sample: StoredSample, parts: Int64Array) -> list[Buffer] | None:
        """View parts in memory; None where they need a request."""
        pack, buffers = sample.key.pack, list[Buffer]()
        for start, stop in sample.ranges(parts):
            view = self._packs.map_range(pack, start, stop - start)
            if view is None:
                return None
            buffers.append(view)
        return buffers

    async def _requested(self, wanted: Sequence[Wanted]) -> list[list[Buffer]]:
        ranges: dict[PackId, list[tuple[int, int]]] = {}
        for sample, parts in wanted:
            ranges.setdefault(sample.key.pack, []).extend(sample.ranges(parts))
        reads = [partial(self._packs.read_ranges, *one) for one in ranges.items() if one[1]]
        read = await runtime.gather_bounded(reads, limit=PACKS_IN_FLIGHT)
        asked = [pack for pack, those in ranges.items() if those]
        coming = dict(zip(asked, map(iter, read), strict=True))
        return [[next(coming[one.key.pack]) for _ in range(len(parts))] for one, parts in wanted]


class VerifiedSample(PartSource, Protocol):
    """A sample whose parts are verified when they have been read."""

    def verified(self, parts: Int64Array, buffers: Sequence[Buffer]) -> Mapping[int, Buffer]:
        """Verify the bytes of parts; return them by their numbers."""
        ...


def part_column(
    samples: Sequence[VerifiedSample | None],
    asked: Sequence[tuple[VerifiedSample, Int64Array]],
    buffers: Sequence[Sequence[Buffer]],
    shape: tuple[int | None, ...],
) -> Column:
    """Verify parts of samples, and return them as a column with the maps of the whole samples.

    Args:
        samples: The samples; None is NULL.
        asked: Those that are not NULL, and which parts of each.
        buffers: The bytes of these parts.
        shape: Shape of the tensor's samples.

    Raises:
        CorruptionError: A part is damaged.
    """
    read = (one.verified(parts, own) for (one, parts), own in zip(asked, buffers, strict=True))
    joined: list[Buffer] = [
        b"" if one is None else b"".join(next(read).values()) for one in samples
    ]
    valid = np.array([one is not None for one in samples], np.bool_)
    shapes = None
    if any(one is not None and one.shape is not None for one in samples):
        nothing = tuple(length or 0 for length in shape)
        each = [nothing if one is None or one.shape is None else one.shape for one in samples]
        shapes = np.array(each, np.int64).reshape(len(samples), len(shape))
    maps = [None if one is None else one.map for one in samples]
    return EncodedColumn(joined, shapes, None if bool(valid.all()) else valid, maps)


def whole_samples(
    header: ChunkHeader,
    rows: Int64Array,
    samples: Sequence[StoredSample | None],
    buffers: Sequence[Sequence[Buffer]],
) -> Column:
    """Verify all parts of samples of a chunk, and return the samples as a column.

    Args:
        header: The chunk's header.
        rows: Positions of the samples in the chunk.
        samples: The samples, as `PartReader.describe` does them.
        buffers: The bytes of all parts of each that is not NULL.

    Raises:
        CorruptionError: A part is damaged.
    """
    read = iter(buffers)
    joined: list[Buffer] = []
    for sample in samples:
        parts = {}
        if sample is not None:
            parts = sample.verified(np.arange(sample.map.num_parts), next(read))
        joined.append(b"".join(parts.values()))
    maps = [None if one is None else one.map for one in samples]
    shapes = None if header.shapes is None else header.shapes[rows]
    valid = None if header.valid is None else header.valid[rows]
    return EncodedColumn(joined, shapes, valid, maps)
