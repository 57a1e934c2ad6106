"""Addresses of chunks, and a bounded cache of decoded ones."""

from __future__ import annotations

from dataclasses import dataclass

from tensorlake.format import ChunkHeader, ChunkKind, PackId
from tensorlake.storage import ForkLock, LruCache
from tensorlake.types import Column, EncodedColumn, PackedSamples, RaggedColumn, UniformColumn

__all__ = ["NOWHERE", "ChunkCache", "ChunkKey", "nbytes_in_memory"]

NOWHERE = PackId("0" * 32, 0)
"""The pack of chunks without bytes: fills."""

CACHE_NBYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """One stored chunk: equal keys always mean equal bytes.

    Attributes:
        pack: The pack that holds it; ``NOWHERE`` for a fill.
        offset: Its offset in the pack.
        nbytes: Its length, header included; 0 for a fill.
        header_nbytes: Length of its header.
        checksum: xxh3-64 of all its bytes.
        kind: The kind of its payload.
        read_as: Which of the tensor's encodings it has.
    """

    pack: PackId
    offset: int
    nbytes: int
    header_nbytes: int
    checksum: int
    kind: ChunkKind
    read_as: int

    @property
    def is_fill(self) -> bool:
        """Whether every row has the tensor's fill and nothing is stored."""
        return self.kind in {ChunkKind.FILL, ChunkKind.HOLE}

    def __hash__(self) -> int:
        # Caches look keys up by the thousand. Small commits have equal bytes at one offset.
        return hash((self.offset, self.checksum, self.pack.txid))

    def __str__(self) -> str:
        return f"chunk {self.pack.path}[{self.offset}:{self.offset + self.nbytes}]"


class ChunkCache:
    """Decoded chunks and headers, least recently used first out. Thread-safe.

    Also remembers which memory-mapped chunks were verified: once per process is enough, their files
    never change.
    """

    def __init__(self, nbytes_max: int = CACHE_NBYTES) -> None:
        self._columns = LruCache[ChunkKey, Column](nbytes_max)
        self._headers = LruCache[ChunkKey, ChunkHeader](HEADERS_MAX)
        self._verified: set[ChunkKey] = set()
        self._verified_nbytes: dict[PackId, int] = {}
        self._lock = ForkLock()
        self.column = self._columns.get
        """Return a decoded chunk, if it is cached."""
        self.header = self._headers.get
        """Return a chunk's header, if it is cached."""
        self.keep_header = self._headers.put
        """Cache a chunk's header."""

    @property
    def nbytes_max(self) -> int:
        """Most bytes of decoded chunks."""
        return self._columns.budget

    @property
    def nbytes(self) -> int:
        """Bytes of the cached decoded chunks."""
        return self._columns.used

    def keep(self, key: ChunkKey, column: Column) -> None:
        """Cache a decoded chunk, unless it would take half of the cache."""
        nbytes = nbytes_in_memory(column)
        if nbytes <= self.nbytes_max // 2:
            self._columns.put(key, column, nbytes)

    def is_verified(self, key: ChunkKey) -> bool:
        """Whether the chunk's mapped bytes were checked before."""
        return key in self._verified

    def set_verified(self, key: ChunkKey) -> None:
        """Remember that the chunk's mapped bytes were checked."""
        with self._lock:
            self._verified.add(key)
        self.count_verified(key.pack, key.nbytes)

    def verified_nbytes(self, pack: PackId) -> int:
        """Return the bytes of a mapped pack checked so far, including repeated checks."""
        return self._verified_nbytes.get(pack, 0)

    def count_verified(self, pack: PackId, nbytes: int) -> None:
        """Add bytes of a pack that were checked in a partial read."""
        with self._lock:
            self._verified_nbytes[pack] = self._verified_nbytes.get(pack, 0) + nbytes


def nbytes_in_memory(column: Column) -> int:
    """Return the memory that a column takes, which may be much more than its compressed chunk."""
    match column:
        case UniformColumn():
            return column.values.nbytes
        case RaggedColumn():
            return column.values.nbytes + column.shapes.nbytes
        case EncodedColumn(samples=PackedSamples() as samples):
            return samples.nbytes
        case EncodedColumn():
            return sum(map(len, column.samples)) + SAMPLE_OBJECT_NBYTES * len(column)


SAMPLE_OBJECT_NBYTES = 96
"""Python's overhead per sample: a memoryview of a chunk."""

HEADERS_MAX = 4096
"""Cached headers: about 10 KiB each for a chunk of images."""
