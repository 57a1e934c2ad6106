"""Columns: many samples of one tensor in memory, passed between all layers.

There are three kinds; a tensor's kind follows from its type, never from its values:

    UniformColumn   samples of one shape          values (n, *shape)
    RaggedColumn    samples of varying shape      values (elements,) + shapes (n, ndim)
    EncodedColumn   samples as stored bytes       n buffers (+ decoded shapes and maps where known)

Short encoded samples of a chunk, such as texts, are `PackedSamples`: bytes end to end and offsets,
Arrow's layout. Scans read them as arrays; a sample is cut out only where one is asked for.

Invariants: columns are values and are not changed after construction; arrays are in native
byte order and C-contiguous (a uniform column may be a broadcast or memory-mapped view); `valid` is
None when no sample is NULL. A NULL is stored as zeros, zero elements or ``b""``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, cast, overload

import numpy as np

__all__ = [
    "Buffer",
    "Column",
    "EncodedColumn",
    "PackedSamples",
    "RaggedColumn",
    "SampleMap",
    "UniformColumn",
    "as_ragged",
    "concat",
    "null_count",
    "offsets_of",
    "sizes_of",
    "slice_rows",
    "take",
]

Buffer = bytes | bytearray | memoryview

# Below this mean length one gather by element index beats a copy per sample
# (the index costs 8 bytes per element; a slice copy about 0.3 µs per sample).
_GATHER_BELOW_ELEMENTS = 64
_MANY_SAMPLES = 4096  # of fewer, NumPy copies them in less time than pyarrow takes to import


@dataclass(frozen=True, slots=True, eq=False)
class UniformColumn:
    """Samples of one shape, stacked along the first axis."""

    values: np.ndarray
    valid: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class RaggedColumn:
    """Samples of varying shape: their elements in C order, one sample after another."""

    values: np.ndarray
    shapes: np.ndarray
    valid: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def lengths(self) -> np.ndarray:
        """Number of elements of each sample."""
        return sizes_of(self.shapes)

    @property
    def offsets(self) -> np.ndarray:
        """Where each sample starts in `values`, and the end of the last: n + 1 numbers."""
        return offsets_of(self.lengths)

    def sample(self, position: int) -> np.ndarray:
        """Return one sample as an array; costs a pass over the shapes, so not for loops."""
        start = int(sizes_of(self.shapes[:position]).sum())
        shape = tuple(self.shapes[position].tolist())
        return self.values[start : start + math.prod(shape)].reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class SampleMap:
    """The map of one encoded sample, by which its parts are read; made once, at ingestion.

    Attributes:
        head: Bytes that the sample's type wrote, such as the shape and key frames of a video.
        cuts: Where each part of the stored sample ends, int64, ascending; the last is its length.
            An empty sample has no parts.

    Raises:
        ValueError: The cuts do not ascend from above 0.
    """

    head: bytes
    cuts: np.ndarray

    def __post_init__(self) -> None:
        cuts = np.asarray(self.cuts, dtype=np.int64)
        if cuts.ndim != 1 or bool((np.diff(cuts, prepend=0) <= 0).any()):
            raise ValueError(f"cuts of a sample ascend from above 0, got {cuts[:8].tolist()}")
        object.__setattr__(self, "cuts", cuts)

    @property
    def num_parts(self) -> int:
        """Number of parts."""
        return len(self.cuts)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored sample."""
        return int(self.cuts[-1]) if len(self.cuts) else 0

    def span(self, part: int) -> tuple[int, int]:
        """Return the bytes [start, stop) of a part in the sample."""
        return (int(self.cuts[part - 1]) if part else 0), int(self.cuts[part])

    def parts_between(self, start: int, stop: int) -> np.ndarray:
        """Return the numbers of the parts that hold the bytes [start, stop), int64.

        >>> SampleMap(b"", np.array([10, 20, 30])).parts_between(10, 21).tolist()
        [1, 2]
        """
        if start >= stop:
            return np.zeros(0, np.int64)
        first, last = np.searchsorted(self.cuts, [start, stop - 1], side="right").tolist()
        return np.arange(first, min(last + 1, len(self.cuts)))


@dataclass(frozen=True, slots=True, eq=False)
class EncodedColumn:
    """Samples as they are stored.

    Attributes:
        samples: The bytes of each.
        shapes: Shapes of the decoded samples, int64 (n, ndim), where known.
        valid: Which are not NULL.
        maps: The map of each, of types that read parts; None for NULL.
    """

    samples: Sequence[Buffer]
    shapes: np.ndarray | None = None
    valid: np.ndarray | None = None
    maps: Sequence[SampleMap | None] | None = None

    def __len__(self) -> int:
        return len(self.samples)


class PackedSamples(Sequence[Buffer]):
    """Samples end to end: sample i is ``content[offsets[i]:offsets[i + 1]]``.

    A slice shares the content, whose other bytes stay in memory with it.

    >>> packed = PackedSamples(b"acatadog", np.array([1, 4, 8]))
    >>> list(packed), packed[-1]
    ([b'cat', b'adog'], b'adog')
    """

    __slots__ = ("content", "offsets")

    def __init__(self, content: bytes, offsets: np.ndarray) -> None:
        self.content = content
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Buffer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Buffer]: ...
    def __getitem__(self, index: int | slice) -> Buffer | Sequence[Buffer]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[at] for at in range(start, stop, step)]
            return PackedSamples(self.content, self.offsets[start : max(stop, start) + 1])
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self.content[self.offsets.item(at) : self.offsets.item(at + 1)]

    def __iter__(self) -> Iterator[Buffer]:
        content = self.content
        return (content[start:stop] for start, stop in pairwise(self.offsets.tolist()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as that of a list

    @property
    def lengths(self) -> np.ndarray:
        """Number of bytes of each sample."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of the samples and their offsets."""
        return int(self.offsets[-1] - self.offsets[0]) + self.offsets.nbytes

    def take(self, rows: np.ndarray) -> PackedSamples:
        """Return the samples at these positions, copied end to end; many by pyarrow."""
        lengths = self.lengths[rows]
        starts, targets = self.offsets[:-1][rows], offsets_of(lengths)
        if len(rows) >= _MANY_SAMPLES:
            return PackedSamples(self._taken(rows), targets)
        if int(targets[-1]) >= _GATHER_BELOW_ELEMENTS * len(rows):
            pairs = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
            return PackedSamples(b"".join([self.content[a:b] for a, b in pairs]), targets)
        content = np.frombuffer(self.content, np.uint8)
        places = np.repeat(starts - targets[:-1], lengths) + np.arange(int(targets[-1]))
        return PackedSamples(content[places].tobytes(), targets)

    def _taken(self, rows: np.ndarray) -> bytes:
        import pyarrow as pa

        array = cast("Any", pa.LargeBinaryArray)  # Any: pyarrow ships no types
        offsets = np.ascontiguousarray(self.offsets, np.int64)
        buffers = None, pa.py_buffer(offsets), pa.py_buffer(self.content)
        samples = array.from_buffers(pa.large_binary(), len(self), buffers)
        # not `pa.array`, whose first call imports pandas for 0.3 s
        places = None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))
        taken = samples.take(cast("Any", pa.Array).from_buffers(pa.int64(), len(rows), places))
        content = taken.buffers()[2]
        return b"" if content is None else content.to_pybytes()


def joined_samples(parts: Sequence[Sequence[Buffer]]) -> Sequence[Buffer]:
    """Return the samples of several columns, one column after another."""
    packed = [part for part in parts if isinstance(part, PackedSamples)]
    if len(packed) < len(parts):
        return list(chain.from_iterable(parts))
    bounds = [(int(part.offsets[0]), int(part.offsets[-1])) for part in packed]
    views = zip((memoryview(part.content) for part in packed), bounds, strict=True)
    content = b"".join([view[start:stop] for view, (start, stop) in views])
    return PackedSamples(content, offsets_of(np.concatenate([part.lengths for part in packed])))


Column = UniformColumn | RaggedColumn | EncodedColumn


def take(column: Column, rows: np.ndarray) -> Column:
    """Return the samples at these positions, in this order; positions may repeat.

    Raises:
        IndexError: A position is below 0 or not below ``len(column)``.
    """
    rows = np.asarray(rows, dtype=np.int64)
    if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= len(column)):
        raise IndexError(f"position outside of a column of {len(column)} samples")
    if rows.size and rows[-1] - rows[0] == rows.size - 1 and bool(np.all(np.diff(rows) == 1)):
        return slice_rows(column, int(rows[0]), int(rows[-1]) + 1)
    valid = _narrow(None if column.valid is None else column.valid[rows])
    match column:
        case UniformColumn():
            return UniformColumn(column.values[rows], valid)
        case RaggedColumn():
            return RaggedColumn(_gather(column, rows), column.shapes[rows], valid)
        case EncodedColumn():
            shapes = None if column.shapes is None else column.shapes[rows]
            maps = column.maps and [column.maps[row] for row in rows.tolist()]
            if isinstance(column.samples, PackedSamples):
                return EncodedColumn(column.samples.take(rows), shapes, valid, maps)
            samples = [column.samples[row] for row in rows.tolist()]
            return EncodedColumn(samples, shapes, valid, maps)


def slice_rows(column: Column, start: int, stop: int) -> Column:
    """Return samples start … stop − 1 without copying any.

    Raises:
        IndexError: The range is not inside the column.
    """
    if not 0 <= start <= stop <= len(column):
        raise IndexError(f"[{start}, {stop}) is outside of a column of {len(column)} samples")
    if column.valid is None and stop - start == len(column):
        return column
    valid = _narrow(None if column.valid is None else column.valid[start:stop])
    match column:
        case UniformColumn():
            return UniformColumn(column.values[start:stop], valid)
        case RaggedColumn():
            lengths = column.lengths
            first = int(lengths[:start].sum())
            last = first + int(lengths[start:stop].sum())
            return RaggedColumn(column.values[first:last], column.shapes[start:stop], valid)
        case EncodedColumn():
            shapes = None if column.shapes is None else column.shapes[start:stop]
            maps = column.maps and column.maps[start:stop]
            return EncodedColumn(column.samples[start:stop], shapes, valid, maps)


def concat(columns: Sequence[Column]) -> Column:
    """Join columns of one tensor; uniform ones become ragged where the others are.

    Raises:
        ValueError: No column was given, or they are of different tensors.
    """
    if not columns:
        raise ValueError("concat() needs at least one column: an empty one has a dtype and a shape")
    if len(columns) == 1:
        return columns[0]
    valid = _concat_valid(columns)
    encoded = [column for column in columns if isinstance(column, EncodedColumn)]
    if encoded:
        if len(encoded) < len(columns):
            raise ValueError("encoded and decoded columns cannot be joined; decode() them first")
        samples = joined_samples([column.samples for column in encoded])
        shapes = [column.shapes for column in encoded if column.shapes is not None]
        known = len(shapes) == len(encoded)
        maps = _concat_maps(encoded)
        return EncodedColumn(samples, np.concatenate(shapes) if known else None, valid, maps)
    uniform = [column for column in columns if isinstance(column, UniformColumn)]
    if len(uniform) == len(columns) and len({column.values.shape[1:] for column in uniform}) == 1:
        return UniformColumn(np.concatenate([column.values for column in uniform]), valid)
    ragged = [as_ragged(column) for column in columns if not isinstance(column, EncodedColumn)]
    return RaggedColumn(
        np.concatenate([column.values for column in ragged]),
        np.concatenate([column.shapes for column in ragged]),
        valid,
    )


def as_ragged(column: UniformColumn | RaggedColumn) -> RaggedColumn:
    """Return the same samples as a ragged column; NULLs lose their zeros.

    >>> as_ragged(UniformColumn(np.zeros((2, 3)))).shapes.tolist()
    [[3], [3]]
    """
    if isinstance(column, RaggedColumn):
        return column
    shape = column.values.shape[1:]
    shapes = np.empty((len(column), len(shape)), dtype=np.int64)
    shapes[:] = shape
    if column.valid is None:
        return RaggedColumn(column.values.reshape(-1), shapes)
    shapes[~column.valid] = 0
    return RaggedColumn(column.values[column.valid].reshape(-1), shapes, column.valid)


def null_count(column: Column) -> int:
    """Count the samples that are NULL."""
    return 0 if column.valid is None else len(column) - int(np.count_nonzero(column.valid))


def sizes_of(shapes: np.ndarray) -> np.ndarray:
    """Convert shapes, one per row, to numbers of elements."""
    sizes = np.ones(len(shapes), dtype=np.int64)
    for axis in range(shapes.shape[1]):  # NumPy's product of short rows takes five times as long
        sizes *= shapes[:, axis]
    return sizes


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Convert n lengths to n + 1 offsets, the first being 0."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _gather(column: RaggedColumn, rows: np.ndarray) -> np.ndarray:
    all_lengths = column.lengths
    starts = offsets_of(all_lengths)[rows]
    lengths = all_lengths[rows]
    targets = offsets_of(lengths)
    total = int(targets[-1])
    if total < _GATHER_BELOW_ELEMENTS * len(rows):
        return column.values[np.repeat(starts - targets[:-1], lengths) + np.arange(total)]
    values = np.empty(total, dtype=column.values.dtype)
    pairs = zip(starts.tolist(), targets[:-1].tolist(), lengths.tolist(), strict=True)
    for start, target, length in pairs:
        values[target : target + length] = column.values[start : start + length]
    return values


def _narrow(valid: np.ndarray | None) -> np.ndarray | None:
    return None if valid is None or bool(valid.all()) else valid


def _concat_maps(columns: Sequence[EncodedColumn]) -> list[SampleMap | None] | None:
    if all(column.maps is None for column in columns):
        return None
    return [one for column in columns for one in column.maps or [None] * len(column)]


def _concat_valid(columns: Sequence[Column]) -> np.ndarray | None:
    if all(column.valid is None for column in columns):
        return None
    return np.concatenate(
        [
            np.ones(len(column), dtype=np.bool_) if column.valid is None else column.valid
            for column in columns
        ]
    )
