"""Join the items of a row into one sample, and split it again.

    count     u32, how many items
    then      uniform   elements                                       (count, *shape)
              ragged    shapes, u32 (count, ndim); elements
              encoded   lengths, u32 (count,); of media their shapes,  u32 (count, ndim); bytes

All numbers are little-endian, the elements in C order. Splitting validates everything: a sample
that is not exactly the result of a join raises an error before anything is allocated.
"""

from __future__ import annotations

import math
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.types.base.column import (
    Buffer,
    Column,
    EncodedColumn,
    PackedSamples,
    RaggedColumn,
    UniformColumn,
    offsets_of,
)

if TYPE_CHECKING:
    from tensorlake.types.base.base import SampleType

__all__ = ["count_items", "join_items", "split_items", "split_uniform"]

_U32 = np.dtype("<u4")
LONG_NBYTES = 256  # of samples in the mean: copied one by one in less time than by a mask


def join_items(items: Column) -> bytes:
    """Return a column of items, none of them NULL, as one sample."""
    count = len(items).to_bytes(_U32.itemsize, "little")
    match items:
        case UniformColumn():
            return count + _little(items.values)
        case RaggedColumn():
            return count + items.shapes.astype(_U32).tobytes() + _little(items.values)
        case EncodedColumn():
            lengths = np.fromiter(map(len, items.samples), _U32, len(items))
            shapes = b"" if items.shapes is None else items.shapes.astype(_U32).tobytes()
            return b"".join(chain((count, lengths.tobytes(), shapes), items.samples))


def split_items(sample: Buffer, item: SampleType) -> Column:
    """Return the items of a sample as a column of their type.

    Raises:
        CorruptSampleError: It is not a joined sample of that type.
    """
    head = _Head(memoryview(sample))
    count = int(head.numbers(1)[0])
    match item.layout:
        case "uniform":
            assert item.dtype is not None
            shape = tuple(length or 0 for length in item.shape)
            values = head.rest(item.dtype, count * math.prod(shape))
            return UniformColumn(values.reshape(count, *shape))
        case "ragged":
            assert item.dtype is not None
            shapes = head.table(count, len(item.shape))
            elements = sum(map(math.prod, shapes.tolist()))
            return RaggedColumn(head.rest(item.dtype, elements), shapes)
        case "encoded":
            lengths = head.table(count, 1)[:, 0]
            shapes = head.table(count, len(item.shape)) if item.is_media else None
            content = head.rest(np.dtype(np.uint8), int(lengths.sum())).data
            bounds = pairwise(offsets_of(lengths).tolist())
            return EncodedColumn([content[start:stop] for start, stop in bounds], shapes)


def split_uniform(column: EncodedColumn, item: SampleType) -> tuple[np.ndarray, np.ndarray]:
    """Split samples of uniform items all at once; NULL has none.

    Returns:
        The items of all samples end to end, (n, *shape), and how many each has, int64.

    Raises:
        CorruptSampleError: One is not a joined sample of that type.
    """
    assert item.dtype is not None
    assert item.layout == "uniform"
    samples, dtype = column.samples, item.dtype
    shape = tuple(length or 0 for length in item.shape)
    item_nbytes = math.prod(shape) * dtype.itemsize
    if not isinstance(samples, PackedSamples):
        samples = PackedSamples(b"".join(samples), offsets_of(np.array([*map(len, samples)])))
    first = int(samples.offsets[0])
    content = np.frombuffer(samples.content, np.uint8)[first : int(samples.offsets[-1])]
    starts, lengths = samples.offsets[:-1] - first, samples.lengths
    known = lengths > 0
    if column.valid is not None:
        known &= column.valid
    counts = np.where(known, (lengths - _U32.itemsize) // max(item_nbytes, 1), 0).astype(np.int64)
    is_right = ~known
    is_right |= lengths == _U32.itemsize + counts * item_nbytes
    heads = starts[known & is_right][:, None] + np.arange(_U32.itemsize)
    stated = content[heads].view(_U32).reshape(-1) if len(heads) else np.zeros(0, _U32)
    is_right[known & is_right] = stated == counts[known & is_right]
    for wrong in np.flatnonzero(~is_right).tolist():
        split_items(samples[wrong], item)  # which raises
    if len(content) > LONG_NBYTES * len(heads):
        stretches = zip(
            (heads[:, 0] + _U32.itemsize).tolist(), lengths[known].tolist(), strict=True
        )
        joined = b"".join([content[at : at + n - _U32.itemsize].data for at, n in stretches])
        numbers = np.frombuffer(joined, np.uint8)
    else:
        kept = np.ones(len(content), np.bool_)
        kept[heads.reshape(-1)] = False
        for at in np.flatnonzero(~known & (lengths > 0)).tolist():
            kept[int(starts[at]) : int(starts[at] + lengths[at])] = False
        numbers = content[kept]
    values = numbers.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
    return values.reshape(-1, *shape), counts


def count_items(sample: Buffer) -> int:
    """Return the number of items that a joined sample records.

    Raises:
        CorruptSampleError: It is too short to be one.
    """
    return int(_Head(memoryview(sample)).numbers(1)[0])


class _Head:
    """The unread part of a sample."""

    def __init__(self, sample: memoryview) -> None:
        self._sample = sample
        self._at = 0

    def numbers(self, count: int) -> np.ndarray:
        stop = self._at + count * _U32.itemsize
        if stop > len(self._sample):
            raise self._damaged(f"{len(self._sample)} bytes, where {stop} or more were joined")
        numbers = np.frombuffer(self._sample[self._at : stop], _U32)
        self._at = stop
        return numbers

    def table(self, count: int, width: int) -> np.ndarray:
        return self.numbers(count * width).astype(np.int64).reshape(count, width)

    def rest(self, dtype: np.dtype, count: int) -> np.ndarray:
        remaining = len(self._sample) - self._at
        if remaining != count * dtype.itemsize:
            raise self._damaged(f"{remaining} bytes of items, where {count} × {dtype} were joined")
        little = np.frombuffer(self._sample[self._at :], dtype.newbyteorder("<"))
        return little.astype(dtype, copy=False)

    def _damaged(self, reason: str) -> CorruptSampleError:
        return CorruptSampleError(
            f"a sample of joined items has {reason}\n"
            "it was written by another program, or is damaged: run tensorlake check",
            actual=reason,
        )


def _little(values: np.ndarray) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
