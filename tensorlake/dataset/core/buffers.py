"""Large memory blocks that are reused, because allocating memory is expensive.

A fresh page of 4 KiB costs the kernel about as long as copying it, and many times that where a
virtual machine must first get it from its host. So data that is read or copied to be stored is
in a few blocks with huge pages, where the system has them, and a block is reused as soon as nothing
references its contents: once a pack is stored, the next one uses its memory.

Columns of large arrays are processed in parts: a caller's values are copied before they are
staged, because the caller may refill its array. Copied whole, an array of a gigabyte needs another
gigabyte; in parts, a few blocks. Parts are whole chunks of the largest tensor, so
nothing is cut twice. An array that goes straight into packs of a folder takes no memory, and comes
in larger parts.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorlake.format import ChunkKind, Schema, TensorSpec
from tensorlake.types import OwnedBlock

__all__ = ["PART_NBYTES", "MemoryBlocks", "parts_of"]

PART_NBYTES = 8 << 20
COMPRESSED_PART_NBYTES = 32 << 20
"""Part size of a compressed tensor: its chunks are made in several threads, which wait at the end
of each part for the last of them, and while the next is copied."""
FILLED_PART_NBYTES = 256 << 20
"""Part size of data that goes straight into packs: as much as may wait for a sync."""

HUGE_PAGE_NBYTES = 2 << 20
BLOCK_NBYTES = 8 << 20
"""Size of the smallest block of huge pages, so that the next request fits. Unused pages take no
memory."""


class MemoryBlocks:
    """Blocks for one ingestion, or one call; taken and given back from any number of threads."""

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []  # taken and given back in one atomic step each

    def __reduce__(self) -> tuple[type[MemoryBlocks], tuple[()]]:
        return type(self), ()  # another process has blocks of its own

    def take(self, nbytes: int) -> OwnedBlock:
        """Return a block of at least ``nbytes`` bytes, reserved while it or a view of it lives."""
        mapping = self._used_before(nbytes) or _mapping(nbytes)
        block = np.frombuffer(mapping, np.uint8).view(OwnedBlock)
        given_back = weakref.finalize(block, self._free.append, mapping)
        given_back.atexit = False
        return block

    def copy_of(self, values: np.ndarray) -> np.ndarray:
        """Copy an array's values to a block; to newly allocated memory if they are few.

        >>> MemoryBlocks().copy_of(np.arange(3)).tolist()
        [0, 1, 2]
        """
        if values.nbytes < HUGE_PAGE_NBYTES:
            return values.copy()
        block = self.take(values.nbytes)
        copied = np.frombuffer(block.data, values.dtype, values.size).reshape(values.shape)
        np.copyto(copied, values)
        return copied

    def _used_before(self, nbytes: int) -> mmap.mmap | None:
        while self._free:
            try:
                mapping = self._free.pop()
            except IndexError:  # another thread took the last
                return None
            if len(mapping) >= nbytes:
                return mapping
        return None


def _mapping(nbytes: int) -> mmap.mmap:
    if nbytes < HUGE_PAGE_NBYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, nbytes)
    # Whole huge pages: Linux aligns only these to them. Private: memory that a child may share has
    # small pages.
    whole = -(-max(nbytes, BLOCK_NBYTES) // HUGE_PAGE_NBYTES) * HUGE_PAGE_NBYTES
    mapping = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def parts_of(
    batch: Mapping[str, Any], schema: Schema, *, fills_packs: bool = False
) -> Iterator[Mapping[str, Any]]:
    """Yield runs of a batch's rows, in order; the batch itself where no array of it is large.

    Args:
        batch: Columns of equal length.
        schema: Types of the tensors.
        fills_packs: Whether raw samples go straight into packs, where they need no conversion.
    """
    rows = _rows_a_part(batch, schema, fills_packs=fills_packs)
    if rows is None:
        yield batch
        return
    for start in range(0, len(next(iter(batch.values()))), rows):
        yield {name: values[start : start + rows] for name, values in batch.items()}


def _rows_a_part(batch: Mapping[str, Any], schema: Schema, *, fills_packs: bool) -> int | None:
    """Return the number of rows in a part; None if the batch is not divided."""
    arrays = {name: one for name, one in batch.items() if type(one) is np.ndarray and one.ndim}
    if not arrays or not all(name in arrays or type(one) is list for name, one in batch.items()):
        return None
    name = max(arrays, key=lambda one: arrays[one].nbytes)
    largest, count = arrays[name], len(arrays[name])
    if largest.nbytes < 2 * PART_NBYTES or any(len(one) != count for one in batch.values()):
        return None  # columns of different lengths are refused together
    fills_packs = fills_packs and len(arrays) == len(batch)
    specs = {other: schema[other] for other in arrays if other in schema.names}
    rows = min(
        _part_nbytes(specs.get(other), one, fills_packs=fills_packs) * count // one.nbytes
        for other, one in arrays.items()
        if one.nbytes
    )
    spec = specs.get(name)
    if spec is None or spec.layout.kind is not ChunkKind.UNIFORM:
        return max(1, rows)
    a_chunk = max(1, spec.chunk_nbytes // max(1, spec.layout.row_nbytes))
    return max(a_chunk, rows - rows % a_chunk)


def _part_nbytes(spec: TensorSpec | None, values: np.ndarray, *, fills_packs: bool) -> int:
    if spec is not None and not spec.layout.is_raw:
        return COMPRESSED_PART_NBYTES
    is_converted = spec is None or values.dtype != spec.layout.element_dtype
    if is_converted or not values.flags.c_contiguous or not fills_packs:
        return PART_NBYTES
    return FILLED_PART_NBYTES
