"""Columns that hold large arrays, taken a part at a time.

What a caller gives is copied before it is staged, for the caller may fill its array anew. Copied
whole, an array of a gigabyte takes another, all of it new memory; a part at a time it takes a few
blocks that are used again. Parts are whole chunks of the largest tensor, so nothing is cut twice.
An array that goes straight into packs of a folder takes no memory, and comes in larger parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorlake.format import ChunkKind, Schema, TensorSpec

__all__ = ["PART_NBYTES", "parts_of"]

PART_NBYTES = 8 << 20
COMPRESSED_PART_NBYTES = 32 << 20
"""Of a tensor that is compressed: its chunks are made in several threads, which wait at the end of
each part for the last of them, and while the next is copied."""
FILLED_PART_NBYTES = 256 << 20
"""Of what goes straight into packs: as much as may wait for a sync."""


def parts_of(
    batch: Mapping[str, Any], schema: Schema, *, fills_packs: bool = False
) -> Iterator[Mapping[str, Any]]:
    """Yield runs of a batch's rows, in order; the batch itself where no array of it is large.

    Args:
        batch: Columns of equal length.
        schema: What they are to become.
        fills_packs: Whether raw samples go straight into packs, where they need no conversion.
    """
    rows = _rows_a_part(batch, schema, fills_packs=fills_packs)
    if rows is None:
        yield batch
        return
    for start in range(0, len(next(iter(batch.values()))), rows):
        yield {name: values[start : start + rows] for name, values in batch.items()}


def _rows_a_part(batch: Mapping[str, Any], schema: Schema, *, fills_packs: bool) -> int | None:
    """Tell how many rows make a part; None where the batch is taken whole."""
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
