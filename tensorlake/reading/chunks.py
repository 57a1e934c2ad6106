"""Chunks by address: where one is, a bounded cache of decoded ones, and rows located in them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlake.errors import RowNotFoundError
from tensorlake.format import ChunkHeader, ChunkKind, Extents, PackId
from tensorlake.storage import ForkLock
from tensorlake.types import Column, EncodedColumn, RaggedColumn, UniformColumn

__all__ = ["NOWHERE", "ChunkCache", "ChunkIndex", "ChunkKey", "Located"]

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]

NOWHERE = PackId("0" * 32, 0)
"""The pack of chunks that have no bytes: fills."""

CACHE_NBYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """One stored chunk: equal keys are equal bytes, for ever.

    Attributes:
        pack: The pack that holds it; ``NOWHERE`` for a fill.
        offset: Where it begins in the pack.
        nbytes: Its length, header included; 0 for a fill.
        header_nbytes: Length of its header.
        checksum: xxh3-64 of all its bytes.
        kind: What its payload is.
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

    def __str__(self) -> str:
        return f"chunk {self.pack.path}[{self.offset}:{self.offset + self.nbytes}]"


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where rows are: row i is row ``row_in_chunk[i]`` of ``chunks[chunk[i]]``.

    Attributes:
        chunk: int32 (n,), index into ``chunks``.
        row_in_chunk: int64 (n,).
        chunks: The chunks touched, each once, in physical order of their first row.
        extents: Entry of the tensor's index for each chunk, where its units are found.
    """

    chunk: Int32Array
    row_in_chunk: Int64Array
    chunks: tuple[ChunkKey, ...]
    extents: Int64Array


class ChunkIndex:
    """The extents of one tensor, ready to be searched by physical row."""

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self._stops = extents.stops
        # Added to a physical row it gives the row in the chunk.
        self._shift = extents.skip.astype(np.int64) - (
            extents.stops - extents.rows.astype(np.int64)
        )
        self._keys: dict[int, ChunkKey] = {}
        self._canonical = _first_of_chunk(extents)

    def locate(self, physical: Int64Array) -> Located:
        """Find rows, in any order, repeats allowed.

        Raises:
            RowNotFoundError: A row is beyond the axis.
        """
        entry = np.searchsorted(self._stops, physical, side="right")
        if len(entry) and int(entry.max()) >= len(self._stops):
            message = (
                f"physical row {int(physical.max())} is beyond the index; run tensorlake check"
            )
            raise RowNotFoundError(message, row=int(physical.max()))
        touched, chunk = _distinct(self._canonical[entry], len(self._canonical))
        return Located(
            chunk=chunk.astype(np.int32),
            row_in_chunk=physical + self._shift[entry],
            chunks=tuple(self.key(one) for one in touched.tolist()),
            extents=touched,
        )

    def key(self, entry: int) -> ChunkKey:
        """Address of the chunk that an entry of the index is a window of."""
        key = self._keys.get(entry)
        if key is None:
            extents = self.extents
            kind = ChunkKind(int(extents.kind[entry]))
            has_bytes = kind not in {ChunkKind.FILL, ChunkKind.HOLE}
            key = self._keys[entry] = ChunkKey(
                pack=extents.packs[int(extents.pack[entry])] if has_bytes else NOWHERE,
                offset=int(extents.offset[entry]),
                nbytes=int(extents.nbytes[entry]),
                header_nbytes=int(extents.header_nbytes[entry]),
                checksum=int(extents.checksum[entry]),
                kind=kind,
                read_as=int(extents.read_as[entry]),
            )
        return key


def _distinct(entries: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
    """The different entries (each below ``count``), sorted, and which of them each one is."""
    if len(entries) < count:  # sorting few is faster than marking all
        return np.unique(entries, return_inverse=True)
    is_touched = np.zeros(count, dtype=np.bool_)
    is_touched[entries] = True
    return np.flatnonzero(is_touched), (np.cumsum(is_touched) - 1)[entries]


def _first_of_chunk(extents: Extents) -> Int64Array:
    """For each entry, the first entry that is a window of the same chunk."""
    if len(extents) == 0:
        return np.empty(0, dtype=np.int64)
    place = np.stack((extents.pack.astype(np.uint64), extents.offset), axis=1)
    _, first, inverse = np.unique(place, axis=0, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)].astype(np.int64)


class ChunkCache:
    """Decoded chunks and headers, least recently used first out. Thread-safe.

    Also remembers which memory-mapped chunks were verified: once a process is enough, their files
    never change.
    """

    def __init__(self, nbytes_max: int = CACHE_NBYTES) -> None:
        self._nbytes_max = nbytes_max
        self._nbytes = 0
        self._columns: OrderedDict[ChunkKey, Column] = OrderedDict()
        self._headers: OrderedDict[ChunkKey, ChunkHeader] = OrderedDict()
        self._verified: set[ChunkKey] = set()
        self._lock = ForkLock()

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded chunks that are kept."""
        return self._nbytes

    def column(self, key: ChunkKey) -> Column | None:
        """A decoded chunk, if it is kept."""
        with self._lock:
            column = self._columns.get(key)
            if column is not None:
                self._columns.move_to_end(key)
            return column

    def keep(self, key: ChunkKey, column: Column) -> None:
        """Keep a decoded chunk; what was used longest ago goes."""
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
        """A chunk's header, if it is kept."""
        return self._headers.get(key)

    def keep_header(self, key: ChunkKey, header: ChunkHeader) -> None:
        """Keep a chunk's header."""
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


def nbytes_in_memory(column: Column) -> int:
    """How much memory a column takes: what compresses well is much larger than its chunk."""
    match column:
        case UniformColumn():
            return column.values.nbytes
        case RaggedColumn():
            return column.values.nbytes + column.shapes.nbytes
        case EncodedColumn():
            return sum(map(len, column.samples)) + SAMPLE_OBJECT_NBYTES * len(column)


SAMPLE_OBJECT_NBYTES = 96
"""What Python keeps for one sample beside its bytes: a memoryview of a chunk."""

HEADERS_MAX = 4096
"""Headers kept: some 10 KiB each for a chunk of pictures."""
