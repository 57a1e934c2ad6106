"""Columns that hold large arrays, taken a part at a time.

What a caller gives is copied before it is staged, for the caller may fill its array anew. Copied
whole, an array of a gigabyte takes another, all of it new memory; a part at a time it takes a few
blocks that are used again. Parts are whole chunks of the largest tensor, so nothing is cut twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorlake.format import ChunkKind, Schema

__all__ = ["PART_NBYTES", "parts_of"]

PART_NBYTES = 8 << 20
COMPRESSED_PART_NBYTES = 32 << 20
"""Of a tensor that is compressed: its chunks are made in several threads, which wait at the end of
each part for the last of them, and while the next is copied."""


def parts_of(batch: Mapping[str, Any], schema: Schema) -> Iterator[Mapping[str, Any]]:
    """Yield runs of a batch's rows, in order; the batch itself where no array of it is large."""
    rows = _rows_a_part(batch, schema)
    if rows is None:
        yield batch
        return
    for start in range(0, len(next(iter(batch.values()))), rows):
        yield {name: values[start : start + rows] for name, values in batch.items()}


def _rows_a_part(batch: Mapping[str, Any], schema: Schema) -> int | None:
    """Tell how many rows make a part; None where the batch is taken whole."""
    arrays = {name: one for name, one in batch.items() if type(one) is np.ndarray and one.ndim}
    if not arrays or not all(name in arrays or type(one) is list for name, one in batch.items()):
        return None
    name = max(arrays, key=lambda one: arrays[one].nbytes)
    largest, count = arrays[name], len(arrays[name])
    if largest.nbytes < 2 * PART_NBYTES or any(len(one) != count for one in batch.values()):
        return None  # columns of different lengths are refused together
    spec = schema[name] if name in schema.names else None
    is_compressed = spec is not None and not spec.layout.is_raw
    part_nbytes = COMPRESSED_PART_NBYTES if is_compressed else PART_NBYTES
    rows = max(1, part_nbytes * count // largest.nbytes)
    if spec is None or spec.layout.kind is not ChunkKind.UNIFORM:
        return rows
    a_chunk = max(1, spec.chunk_nbytes // max(1, spec.layout.row_nbytes))
    return max(a_chunk, rows - rows % a_chunk)
