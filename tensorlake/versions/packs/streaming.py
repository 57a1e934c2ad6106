"""Packs of a folder that are written while they are filled, and never held in memory.

    caller's array ──copy──► one chunk, in the cache ──hash──► scratch file ──named──► pack
                                  ▲  refilled  │
                                  └───────────────┘

For large arrays of raw samples: each byte is copied once, and hashed and written from the
processor's cache; no new memory is allocated, and no thread waits for another. The copy is needed
because another thread may modify the caller's array meanwhile: a chunk must have the bytes of its
checksum. A pack has one thread from start to end (``tensorlake.storage.concurrency.parallel_map``),
so several are written at once. Until it is published it has no name: after any failure, nothing of
it is left.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tensorlake.format import (
    ChunkKind,
    PackId,
    PackWriter,
    PlacedChunk,
    TensorSpec,
    encode_chunk,
)
from tensorlake.storage import Buffer, LocalStore, ScratchFile, parallel_map, usable_cores
from tensorlake.types import Column, UniformColumn

__all__ = ["FilledPack", "is_large_and_raw", "shares_of", "written"]

FILLED_NBYTES = 16 << 20
"""Arrays from this size on have packs of their own; smaller ones share one with later data."""
SHARE_NBYTES = 8 << 20
"""One pack per core, but none smaller than this."""


@dataclass(slots=True)
class FilledPack:
    """A pack of one tensor's raw samples, of which one chunk at a time is in memory.

    Attributes:
        id: Its name.
        spec: The tensor.
        values: Samples, which may be the caller's array.
        cuts: Starts and ends of its chunks among them.
        chunks: The chunks written.
    """

    id: PackId
    spec: TensorSpec
    values: np.ndarray
    cuts: Sequence[int]
    writer: PackWriter = field(init=False)
    chunks: list[PlacedChunk] = field(default_factory=list[PlacedChunk])

    def __post_init__(self) -> None:
        self.writer = PackWriter(self.id.txid, self.id.n)

    def parts(self) -> Generator[Iterable[Buffer]]:
        """Lay out its chunks; the bytes of each must be written before the next is requested."""
        values, spec = self.values, self.spec
        rows = max(stop - start for start, stop in pairwise(self.cuts))
        copied = np.empty((rows, *values.shape[1:]), values.dtype)
        for start, stop in pairwise(self.cuts):
            chunk = copied[: stop - start]
            np.copyto(chunk, values[start:stop])
            has_bounds = not spec.type.personal
            blob = encode_chunk(UniformColumn(chunk), spec.layout, has_bounds=has_bounds)
            offset = self.writer.add(blob.pieces, what=spec.id, checksum=blob.checksum)
            self.chunks.append(PlacedChunk.of(blob, self.id, offset, read_as=spec.read_as))
            yield self.writer.take()


def written(packs: Sequence[FilledPack], store: LocalStore) -> Generator[FilledPack]:
    """Write packs, several at once; yield each as it is stored, in order, to be synced later."""
    begun: list[ScratchFile] = []  # appended to by all threads, each time in one atomic step

    def write(pack: FilledPack) -> ScratchFile:
        file = store.write_unseen(pack.id.path, pack.parts())
        begun.append(file)
        return file

    try:
        with closing(parallel_map(write, packs)) as files:
            for pack, file in zip(packs, files, strict=True):
                # The last bytes also in order: no pack may seem older than the transaction's first.
                store.show(pack.id.path, file, pack.writer.finish())
                yield pack
    finally:
        for file in begun:
            file.remove()


def is_large_and_raw(spec: TensorSpec, column: Column) -> bool:
    """Return whether a column is large enough for packs of its own, and stored raw."""
    return (
        isinstance(column, UniformColumn)
        and column.valid is None
        and column.values.nbytes >= max(FILLED_NBYTES, spec.chunk_nbytes)
        and spec.layout.kind is ChunkKind.UNIFORM
        and spec.layout.is_raw
    )


def shares_of(cuts: Sequence[int], nbytes: int, *, pack_nbytes: int) -> list[Sequence[int]]:
    """Divide chunks evenly among packs: the same number per core, and none too large.

    Args:
        cuts: Starts and ends of the chunks.
        nbytes: Bytes of all chunks together.
        pack_nbytes: Maximum size of a pack.

    >>> shares_of([0, 3, 6, 9, 10], nbytes=1 << 20, pack_nbytes=1 << 20)
    [[0, 3, 6, 9, 10]]
    """
    chunks, cores = len(cuts) - 1, usable_cores()
    packs = -(-nbytes // pack_nbytes)
    packs = min(-(-packs // cores) * cores, max(packs, nbytes // SHARE_NBYTES), chunks)
    ends = [chunks * one // packs for one in range(packs + 1)]
    return [cuts[start : stop + 1] for start, stop in pairwise(ends)]
