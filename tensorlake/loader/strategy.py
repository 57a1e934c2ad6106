"""How each tensor is read: by whole chunks, or by row; from the index alone.

Whole chunks are right nearly always: they are few requests, they are verified and decoded once,
and a local dataset maps them for nothing. A tensor of a remote dataset is read by row when its
chunks do not fit the cache, its rows are large enough to be worth a request each, and the order
is shuffled, so that a chunk would be fetched for a row or two, again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorlake.loader.plan import Order
    from tensorlake.loader.source import Reader

__all__ = ["row_nbytes_of", "sparse_tensors"]

# Chunk indexes record units, which can be read and verified alone, from this mean size on.
UNIT_NBYTES = 4 << 10
# A selection with fewer of the rows than this touches most chunks for little of each.
SPARSE_SHARE = 1 / 16


def row_nbytes_of(reader: Reader, tensors: tuple[str, ...]) -> int:
    """Return the stored bytes a row of the version has in some tensors, rounded down."""
    total = 0
    for tensor in tensors:
        extents = reader.index(tensor).extents
        total += int(extents.nbytes.sum()) // max(1, extents.num_rows)
    return total


def sparse_tensors(
    reader: Reader,
    tensors: tuple[str, ...],
    *,
    order: Order,
    num_rows: int,
    cache_nbytes: int,
) -> tuple[str, ...]:
    """Choose the tensors that are read by row."""
    if reader.store.is_local:
        return ()
    chosen: list[str] = []
    left = cache_nbytes
    for tensor in tensors:
        extents = reader.index(tensor).extents
        stored = int(extents.nbytes.sum())
        row_nbytes = stored // max(1, extents.num_rows)
        is_few = num_rows < SPARSE_SHARE * extents.num_rows
        misses = order.kind != "none" and stored > left
        if row_nbytes >= UNIT_NBYTES and (misses or is_few):
            chosen.append(tensor)
        else:
            left -= min(left, stored)
    return tuple(chosen)
