"""Addresses of chunks, and a bounded cache of decoded ones."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from tensorlake.format import ChunkHeader, ChunkKind, PackId
from tensorlake.storage import ForkLock
from tensorlake.types import Column, EncodedColumn, RaggedColumn, UniformColumn

__all__ = ["NOWHERE", "ChunkCache", "ChunkKey"]

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
        # Caches look keys up by the thousand; two bytes-equal chunks at one offset are rare.
        return hash((self.offset, self.checksum))

    def __str__(self) -> str:
        return f"chunk {self.pack.path}[{self.offset}:{self.offset + self.nbytes}]"


class ChunkCache:
    """Decoded chunks and headers, least recently used first out. Thread-safe.

    Also remembers which memory-mapped chunks were verified: once per process is enough, their files
    never change.
    """

    def __init__(self, nbytes_max: int = CACHE_NBYTES) -> None:
        self._nbytes_max = nbytes_max
        self._nbytes = 0
        self._columns: OrderedDict[ChunkKey, Column] = OrderedDict()
        self._headers: OrderedDict[ChunkKey, ChunkHeader] = OrderedDict()
        self._verified: set[ChunkKey] = set()
        self._verified_nbytes: dict[PackId, int] = {}
        self._lock = ForkLock()

    @property
    def nbytes_max(self) -> int:
        """Most bytes of decoded chunks."""
        return self._nbytes_max

    @property
    def nbytes(self) -> int:
        """Bytes of the cached decoded chunks."""
        return self._nbytes

    def column(self, key: ChunkKey) -> Column | None:
        """Return a decoded chunk, if it is cached."""
        with self._lock:
            column = self._columns.get(key)
            if column is not None:
                self._columns.move_to_end(key)
            return column

    def keep(self, key: ChunkKey, column: Column) -> None:
        """Cache a decoded chunk; evict the least recently used."""
        nbytes = nbytes_in_memory(column)
        if nbytes > self._nbytes_max // 2:
            return
        with self._lock:
            if key in self._columns:
                return
            self._columns[key] = column
            self._nbytes += nbytes
            while self._nbytes > self._nbytes_max:
                _, dropped = self._columns.popitem(last=False)
                self._nbytes -= nbytes_in_memory(dropped)

    def header(self, key: ChunkKey) -> ChunkHeader | None:
        """Return a chunk's header, if it is cached."""
        return self._headers.get(key)

    def keep_header(self, key: ChunkKey, header: ChunkHeader) -> None:
        """Cache a chunk's header."""
        with self._lock:
            self._headers[key] = header
            while len(self._headers) > HEADERS_MAX:
                self._headers.popitem(last=False)

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
        case EncodedColumn():
            return sum(map(len, column.samples)) + SAMPLE_OBJECT_NBYTES * len(column)


SAMPLE_OBJECT_NBYTES = 96
"""Python's overhead per sample: a memoryview of a chunk."""

HEADERS_MAX = 4096
"""Cached headers: about 10 KiB each for a chunk of images."""
