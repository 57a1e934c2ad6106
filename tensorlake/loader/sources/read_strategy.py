"""Read strategy of each tensor, by whole chunks or by row; chosen from the index alone.

Whole chunks are nearly always best: they need few requests, are verified and decoded once, and a
local dataset maps them at no cost. A tensor of a remote dataset is read by row when its
chunks do not fit the cache, its rows are large enough to be worth a request each, and the order
is shuffled, so that a chunk would be fetched for a row or two, again and again.

The first group of a pass differs: no work overlaps with waiting for it. A shuffled first group
needs a few rows of many chunks, and its large samples are read by row; the chunks follow, for later
groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake.loader.plan.order import UNIT_NBYTES

if TYPE_CHECKING:
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.selection import Reader
    from tensorlake.loader.sources.batch_group import Group
    from tensorlake.loader.sources.chunk_cache import ChunkCache

__all__ = ["cache_short_nbytes", "early_by_row", "row_nbytes_of", "sparse_tensors"]

# A selection with a smaller fraction of the rows uses only a small part of most chunks.
SPARSE_SHARE = 1 / 16
# The first group does not wait for chunks with more rows than this multiple of its own.
EARLY_RATIO = 4


def row_nbytes_of(reader: Reader, tensors: tuple[str, ...]) -> int:
    """Return the mean stored bytes per row of the version in some tensors, rounded down."""
    return sum(reader.row_nbytes(tensors))


def cache_short_nbytes(reader: Reader, cache: ChunkCache) -> int:
    """Return the stored bytes, approximately, that a cache lacks for all rows of its tensors.

    Those of a folder are cached by the system.
    """
    if reader.store.is_local:
        return 0
    tensors = tuple(cache.tensors)
    sizes = zip(tensors, reader.row_nbytes(tensors), strict=True)
    stored = sum(row_nbytes * reader.index(tensor).num_rows for tensor, row_nbytes in sizes)
    return max(0, stored - cache.capacity)


def sparse_tensors(
    reader: Reader,
    tensors: tuple[str, ...],
    *,
    order: AnyOrder,
    num_rows: int,
    cache_nbytes: int,
) -> tuple[str, ...]:
    """Choose the tensors that are read by row."""
    if reader.store.is_local:
        return ()
    chosen: list[str] = []
    left = cache_nbytes
    for tensor, row_nbytes in zip(tensors, reader.row_nbytes(tensors), strict=True):
        all_rows = reader.index(tensor).num_rows
        stored = row_nbytes * all_rows
        is_few = num_rows < SPARSE_SHARE * all_rows
        misses = order.is_shuffled and stored > left
        if row_nbytes >= UNIT_NBYTES and (misses or is_few):
            chosen.append(tensor)
        else:
            left -= min(left, stored)
    return tuple(chosen)


def early_by_row(
    group: Group, cache: ChunkCache, reader: Reader, tensors: tuple[str, ...]
) -> tuple[str, ...]:
    """Choose the tensors that the first group of a pass reads by row, and not by chunk."""
    chosen: list[str] = []
    for tensor in tensors:
        chunks, used = cache.tensors[tensor], group.tensors[tensor].used
        missing = [chunks.keys[number] for number in used.tolist() if not chunks.is_loaded[number]]
        if len(missing) < len(used) or any(key.is_fill for key in missing):
            continue
        row_nbytes = row_nbytes_of(reader, (tensor,))
        stored = sum(int(key.nbytes) for key in missing)
        if row_nbytes >= UNIT_NBYTES and stored > EARLY_RATIO * row_nbytes * len(group.rows):
            chosen.append(tensor)
    return tuple(chosen)
