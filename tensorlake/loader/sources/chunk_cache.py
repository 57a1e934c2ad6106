"""The memory tier: chunks of the loader's tensors, decoded once, bounded, never thrashing.

    kept     fill until ``capacity`` bytes, then never evict: an ordinary epoch uses every chunk
             once, so evicting one for another only moves the cache miss
    spare    chunks that no longer fit: held while pinned; unpinned ones in order of last use, as
             long as both together take no more than ``spare`` bytes
    planned  where chunks come back and their next uses are known (``caches/next_uses.py``), all are
             spare, with the room of both; those that are used latest are dropped first
    rows     read alone, each as if it were a chunk; its ordinal is used again when the row is
             dropped and no next use of it is known
    blocks   rows of a window that are read together (``sources/windows.py``): pinned from the first
             batch that uses them to the last, then dropped, and their ordinals are used again

Chunks mapped from a local file cost nothing and are all kept. A chunk of a tensor has a small
number, its *ordinal*; operations of a batch on many chunks (loaded? pin, unpin) are single array
operations. One lock guards everything; nothing is read or decoded under it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.caches.future import UNKNOWN, ranks_of
from tensorlake.reading import nbytes_in_memory
from tensorlake.types import Buffer, Column, EncodedColumn, RaggedColumn, UniformColumn, take

if TYPE_CHECKING:
    from tensorlake.loader.plan.selection import Int64Array

__all__ = [
    "ChunkCache",
    "GroupRows",
    "LoadedChunk",
    "TensorChunks",
    "loaded_chunk",
    "loaded_row",
]

FIRST_SIZE = 64
MOST_STALE = 1024  # entries of chunks that are not loose any more
ANY_ROW = np.iinfo(np.int64).max
ARRAYS = (
    *("is_loaded", "is_kept", "is_block", "is_held", "pins", "addresses", "strides", "lengths"),
    *("is_row", "turns", "counts"),
)


@dataclass(frozen=True, slots=True)
class LoadedChunk:
    """A decoded chunk with the values that gathering needs."""

    column: Column
    values: NDArray[np.generic] | None  # rows of a uniform column, C-contiguous
    offsets: Int64Array | None  # of a ragged column
    nbytes: int  # of memory; 0 when mapped
    is_constant: bool  # a fill: its one sample applies to all rows
    lost: NDArray[np.bool_] | None = None  # damaged rows, which are left out


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Locations of a group's rows, for one tensor."""

    chunk: Int64Array  # ordinals of the cache
    row_in_chunk: Int64Array
    used: Int64Array  # the distinct ordinals

    def part(self, rows: Int64Array) -> GroupRows:
        """Select some rows; ``used`` stays unchanged."""
        return GroupRows(self.chunk[rows], self.row_in_chunk[rows], self.used)


@dataclass(slots=True)
class TensorChunks:
    """The chunks of one tensor seen so far, by ordinal."""

    tensor: str
    keys: list[Any] = field(default_factory=list[Any])  # Any: the reader's own key class
    ordinals: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    by_identity: dict[int, int] = field(default_factory=dict[int, int])
    loaded: list[LoadedChunk | None] = field(default_factory=list[LoadedChunk | None])
    is_loaded: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.bool_))
    is_kept: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.bool_))
    is_block: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.bool_))
    is_held: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.bool_))
    is_row: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.bool_))
    free: list[int] = field(default_factory=list[int])  # ordinals that are used again
    pins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.int64))
    addresses: NDArray[np.int64] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.int64))
    strides: NDArray[np.int64] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.int64))
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.int64))
    turns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.int64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(FIRST_SIZE, np.int64))
    has_null: bool = False
    has_lost: bool = False

    def ordinal(self, key: Any) -> int:
        """Return the ordinal of a chunk, assigning one when it is first seen."""
        found = self.ordinals.get(key)
        if found is not None:
            return found
        number = self._another(key)
        self.ordinals[key] = number
        self.by_identity[id(key)] = number  # permanently: `keys` references the key
        return number

    def hold(self, key: Any) -> int:
        """Return an ordinal for a block until it is dropped."""
        number = self._reused(key)
        self.is_block[number] = self.is_held[number] = True
        return number

    def row(self, physical: int, key_of: Callable[[int], Any]) -> int:
        """Return the ordinal of a row that is read alone."""
        number = self.ordinals.get(physical)
        if number is None:
            number = self.ordinals[physical] = self._reused(key_of(physical))
            self.is_row[number], self.turns[number], self.counts[number] = True, 0, 0
        return number

    def forget(self, number: int) -> None:
        """Free the ordinal of a row that is not in memory."""
        del self.ordinals[self.keys[number].offset]
        self.is_row[number], self.keys[number] = False, None
        self.free.append(number)

    def drop(self, number: int) -> int:
        """Drop a loaded chunk, or a block; return the bytes of memory freed."""
        chunk, self.loaded[number] = self.loaded[number], None
        self.is_loaded[number] = False
        if self.is_block[number]:
            self.is_block[number] = self.is_held[number] = False
            self.keys[number] = None
            self.free.append(number)
        elif self.is_row[number] and self.turns[number] <= -UNKNOWN:
            self.forget(number)
        return 0 if chunk is None else chunk.nbytes

    def _reused(self, key: Any) -> int:
        if not self.free:
            return self._another(key)
        number = self.free.pop()
        self.keys[number], self.lengths[number] = key, 0
        return number

    def _another(self, key: Any) -> int:
        number = len(self.keys)
        self.keys.append(key)
        self.loaded.append(None)
        if number == len(self.pins):
            for name in ARRAYS:
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        return number

    def numbers(self, keys: Iterable[Any]) -> list[int]:
        """Return the ordinals of chunks; keys seen before are recognised by object identity.

        Readers return the same key objects with every segment of a plan, and hashing them would be
        most of the cost.
        """
        known = self.by_identity
        return [
            self.ordinal(key) if number is None else number
            for key, number in [(key, known.get(id(key))) for key in keys]
        ]

    def put(self, number: int, chunk: LoadedChunk) -> None:
        """Store a loaded chunk."""
        self.loaded[number] = chunk
        self.is_loaded[number] = True
        self.lengths[number] = ANY_ROW if chunk.is_constant else len(chunk.column)
        if chunk.values is not None and len(chunk.values):
            self.addresses[number] = address_of(chunk.values)
            self.strides[number] = 0 if chunk.is_constant else chunk.values[0].nbytes
        valid = chunk.column.valid
        self.has_null |= valid is not None and not bool(valid.all())
        self.has_lost |= chunk.lost is not None


class ChunkCache:
    """The memory tier of one loader; see the module docstring for its policy."""

    def __init__(self, tensors: tuple[str, ...], *, capacity: int, spare: int) -> None:
        self.capacity = capacity
        self.spare = spare
        self.tensors = {tensor: TensorChunks(tensor) for tensor in tensors}
        self.kept_nbytes = 0
        self.hits = 0
        self.misses = 0
        self.refetched_nbytes = 0  # of chunks that had been in memory and were dropped
        self._is_planned = False
        self._loose: list[tuple[int, int, str]] = []  # a heap: turn to be dropped, −number, tensor
        self._turn = 0  # of the last released
        self._loaded = 0
        self._spare_nbytes = 0  # of all chunks not kept, pinned or not
        self.block_nbytes = 0  # of blocks that are requested or loaded
        self._lock = threading.Lock()

    def counts(self) -> dict[str, int]:
        """Return the counters of ``LoaderStats`` that the cache keeps."""
        return {
            "cache_hits": self.hits,
            "cache_misses": self.misses,
            "cache_nbytes": self.nbytes,
            "cache_capacity": self.capacity,
            "refetched_nbytes": self.refetched_nbytes,
        }

    def ordinals(self, tensor: str, chunk: NDArray[Any], keys: Iterable[Any]) -> Int64Array:
        """Translate a reader's chunk indices to this cache's ordinals."""
        with self._lock:
            numbers = self.tensors[tensor].numbers(keys)
        return np.asarray(numbers, dtype=np.int64)[chunk]

    def hold(self, tensor: str, keys: Iterable[Any]) -> Int64Array:
        """Return ordinals of blocks, which are pinned until ``unpin`` ends their window."""
        with self._lock:
            chunks = self.tensors[tensor]
            return np.array([chunks.hold(key) for key in keys], dtype=np.int64)

    def begin_pass(self, *, is_planned: bool) -> None:
        """Begin a pass, for which next uses are known or not."""
        with self._lock:
            if not is_planned and not self._is_planned:
                return
            self._is_planned = is_planned
            for chunks in self.tensors.values():
                chunks.is_kept[:] = chunks.is_loaded & (not is_planned)
                chunks.turns[:] = -ranks_of(np.full(len(chunks.turns), UNKNOWN), chunks.counts)
            held = self.kept_nbytes + self._spare_nbytes
            self.kept_nbytes, self._spare_nbytes = (0, held) if is_planned else (held, 0)
            self._list_loose()

    @property
    def room(self) -> float:
        """The number of chunks that fit, by the mean of those in memory; 0: unknown."""
        with self._lock:
            return (self.capacity + self.spare) * self._loaded / max(self._spare_nbytes, 1)

    def expect(self, tensor: str, numbers: Int64Array, places: Int64Array) -> None:
        """Receive the next uses of chunks, which have just become known."""
        with self._lock:
            chunks = self.tensors[tensor]
            chunks.turns[numbers] = -places
            for number in numbers[self._are_loose(chunks, numbers)].tolist():
                self._release(chunks, number)

    def rows(self, tensor: str, physical: Int64Array, key_of: Callable[[int], Any]) -> Int64Array:
        """Return ordinals of rows that are read alone, whose next uses are then received."""
        distinct, which = np.unique(physical, return_inverse=True)
        with self._lock:
            chunks = self.tensors[tensor]
            numbers = np.array([chunks.row(one, key_of) for one in distinct.tolist()], np.int64)
            # until `expect` has the use they are planned for, nothing may drop them
            chunks.turns[numbers[chunks.turns[numbers] <= -UNKNOWN]] = 0
        return numbers[which]

    def pin(self, tensor: str, used: Int64Array, following: Int64Array | None = None) -> list[int]:
        """Pin chunks until ``unpin``; return those that must be loaded.

        ``following`` are the places of the next uses after this one, where they are known.
        """
        with self._lock:
            chunks = self.tensors[tensor]
            chunks.pins[used] += 1
            if following is not None:
                chunks.counts[used] += chunks.is_loaded[used]  # see ``PlannedCache``
                chunks.turns[used] = -ranks_of(following, chunks.counts[used])
                chunks.counts[used] += ~chunks.is_loaded[used]
            missing: list[int] = used[~chunks.is_loaded[used]].tolist()
            self.block_nbytes += sum(
                chunks.keys[number].nbytes
                for number in missing
                if chunks.is_block[number] and chunks.pins[number] == 1
            )
            self.misses += len(missing)
            self.hits += len(used) - len(missing)
            return missing

    def finds(self, used: Mapping[str, Int64Array]) -> bool:
        """Return whether all of some chunks are in memory; if so, they count as hits."""
        with self._lock:
            if not all(
                bool(self.tensors[name].is_loaded[some].all()) for name, some in used.items()
            ):
                return False
            self.hits += sum(map(len, used.values()))
            return True

    def keeps_all(self, tensor: str, num_rows: int = 0) -> bool:
        """Return whether all chunks seen of a tensor are kept, with ``num_rows`` rows or more."""
        with self._lock:
            chunks = self.tensors[tensor]
            count = len(chunks.keys)
            rows = np.minimum(chunks.lengths[:count], num_rows).sum()
            return count > 0 and bool(chunks.is_kept[:count].all()) and bool(rows >= num_rows)

    def unpin(self, tensor: str, used: Int64Array, last: Int64Array | None = None) -> None:
        """Release chunks; those that do not fit are dropped, least recently used first.

        Args:
            tensor: The chunks' tensor.
            used: The chunks.
            last: Blocks of which this is the last use.
        """
        with self._lock:
            chunks = self.tensors[tensor]
            chunks.pins[used] -= 1
            if last is not None:
                chunks.is_held[last] = False
                ended = np.union1d(used, last)
                ended = ended[chunks.is_block[ended] & ~chunks.is_held[ended]]
                self._drop_blocks(chunks, ended[chunks.pins[ended] == 0].tolist())
            for number in used[self._are_loose(chunks, used)].tolist():
                if not self._is_planned:
                    self._turn += 1
                    chunks.turns[number] = self._turn
                self._release(chunks, number)
            self._shrink()

    def add(self, tensor: str, number: int, chunk: LoadedChunk) -> None:
        """Add a loaded chunk."""
        with self._lock:
            chunks = self.tensors[tensor]
            if chunks.is_loaded[number]:
                return
            if chunks.lengths[number]:
                self.refetched_nbytes += chunk.nbytes
            chunks.put(number, chunk)
            if chunks.is_block[number]:
                return  # counted since it was pinned
            self._loaded += 1
            if not self._is_planned and self.kept_nbytes + chunk.nbytes <= self.capacity:
                self.kept_nbytes += chunk.nbytes
                chunks.is_kept[number] = True
            else:
                self._spare_nbytes += chunk.nbytes
                self._shrink()

    def is_loaded(self, tensor: str, number: int) -> bool:
        """Return whether a chunk is in memory now."""
        with self._lock:
            return bool(self.tensors[tensor].is_loaded[number])

    def end_pass(self) -> None:
        """Drop all pins and the chunks held only by them: no batch is in use any more."""
        with self._lock:
            for chunks in self.tensors.values():
                chunks.pins[:] = 0
                for number in np.flatnonzero(chunks.is_block).tolist():
                    chunks.drop(number)
            self.block_nbytes = 0
            self._list_loose()
            self._shrink(self.capacity if self._is_planned else -1)
            for chunks in self.tensors.values():
                for number in np.flatnonzero(chunks.is_row & ~chunks.is_loaded).tolist():
                    chunks.forget(number)  # it was planned for a batch that is not made

    def clear(self) -> None:
        """Drop every chunk."""
        with self._lock:
            self.tensors = {tensor: TensorChunks(tensor) for tensor in self.tensors}
            self._loose.clear()
            self._loaded = self._spare_nbytes = self.kept_nbytes = self.block_nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held by chunks, including those used by batches in progress."""
        return self.kept_nbytes + self._spare_nbytes + self.block_nbytes

    def _are_loose(
        self, chunks: TensorChunks, numbers: Int64Array | slice = slice(None)
    ) -> NDArray[np.bool_]:
        """Return which chunks may be dropped."""
        is_held = chunks.is_kept[numbers] | chunks.is_block[numbers] | (chunks.pins[numbers] > 0)
        return chunks.is_loaded[numbers] & ~is_held

    def _release(self, chunks: TensorChunks, number: int) -> None:
        """List a chunk as loose, with its turn; earlier entries of it do not count any more."""
        heappush(self._loose, (int(chunks.turns[number]), -number, chunks.tensor))
        if len(self._loose) > 2 * self._loaded + MOST_STALE:
            self._list_loose()

    def _list_loose(self) -> None:
        self._loose = [
            (turn, -number, chunks.tensor)
            for chunks in self.tensors.values()
            for number in np.flatnonzero(self._are_loose(chunks)).tolist()
            for turn in (int(chunks.turns[number]),)
        ]
        heapify(self._loose)

    def _shrink(self, room: int | None = None) -> None:
        if room is None:
            room = self.spare + (self.capacity if self._is_planned else 0)
        while self._spare_nbytes > room and self._loose:
            turn, negative, tensor = heappop(self._loose)
            chunks, number = self.tensors[tensor], -negative
            is_current = chunks.turns[number] == turn and not chunks.pins[number]
            if is_current and chunks.is_loaded[number] and not chunks.is_kept[number]:
                self._spare_nbytes -= chunks.drop(number)
                self._loaded -= 1

    def _drop_blocks(self, chunks: TensorChunks, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.block_nbytes -= chunks.keys[number].nbytes if chunks.is_loaded[number] else 0
            chunks.drop(number)


def loaded_chunk(column: Column, blob: Buffer, *, is_constant: bool = False) -> LoadedChunk:
    """Prepare a decoded chunk for gathering.

    Args:
        column: Its samples.
        blob: The mapped bytes it was decoded from; arrays inside them take no memory.
        is_constant: The column's one sample applies to any number of rows.
    """
    match column:
        case UniformColumn(values=values):
            rows = np.ascontiguousarray(values)
            nbytes = 0 if _lies_in(rows, blob) else rows.nbytes
            return LoadedChunk(column, rows, None, nbytes, is_constant)
        case RaggedColumn(values=values):
            nbytes = 0 if _lies_in(values, blob) else nbytes_in_memory(column)
            return LoadedChunk(column, None, column.offsets, nbytes, is_constant)
        case EncodedColumn():
            nbytes = 0 if len(blob) else nbytes_in_memory(column)
            return LoadedChunk(column, None, None, nbytes, is_constant)


def loaded_row(column: Column, row: int) -> LoadedChunk:
    """Return one row of those that were read together, in memory of its own."""
    own = take(column, np.array([row]))
    if isinstance(own, EncodedColumn) and isinstance(own.samples[0], memoryview):
        own = replace(own, samples=[bytes(own.samples[0])])  # without the others of its request
    return loaded_chunk(own, b"")


def _lies_in(values: NDArray[np.generic], blob: Buffer) -> bool:
    return len(blob) > 0 and np.may_share_memory(values, np.frombuffer(blob, dtype=np.uint8))


def address_of(values: NDArray[np.generic]) -> int:
    """Return the memory address of a C-contiguous array of rows."""
    return values.ctypes.data
