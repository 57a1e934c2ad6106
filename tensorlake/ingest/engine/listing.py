"""The items of a source: listed by name, or compared by position, and cut into batches to read.

Items known by name have one row each, and are compared by their stamps. Items known by position are
pieces with any number of rows: those that were ingested must be the first, and unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Action, Entries, Listing, stamp_of
from tensorlake.ingest.engine.row_cuts import cut_at_rows
from tensorlake.ingest.engine.source import Item, Source

__all__ = [
    "batches_of",
    "count_same_pieces",
    "cut_as_known",
    "file_stamps",
    "listing_of",
    "runs_of",
]


def listing_of(source: Source[Item]) -> Listing:
    """List a source whose items are known by name."""
    items = source.items
    names = _distinct(list(map(source.file or source.name, items)))
    states = source.sizes if source.stamp is None else map(source.stamp, items)
    stamps = map(stamp_of, map(str, states))
    return Listing(
        names,
        np.fromiter(source.sizes, np.int64, len(names)),
        np.fromiter(stamps, np.uint64, len(names)),
    )


def count_same_pieces(source: Source[Item], known: Entries) -> tuple[int, int | None]:
    """Compare pieces by position.

    Returns:
        The number of items that the entries cover; and the first item of the entry that differs
        from the source, None if there is none.
    """
    start = 0
    for stamp, span in zip(known.stamps.tolist(), known.spans.tolist(), strict=True):
        stop = start + span
        if stop > len(source.items) or source.stamp_of_pieces(range(start, stop)) != stamp:
            return start, start
        start = stop
    return start, None


def cut_as_known(source: Source[Item], known: Entries) -> Source[Item]:
    """Cut items by position where pieces that are known end: rows were added behind them."""
    source = cut_at_rows(source, known)
    if source.cut_item is None or not len(known):
        return source
    items, sizes = [*source.items], [*source.sizes]
    stop = 0
    for size, span in zip(known.sizes.tolist(), known.spans.tolist(), strict=True):
        start, stop = stop, stop + span
        if stop > len(items):
            break
        nbytes = size - sum(sizes[start : stop - 1])
        if not 0 < nbytes < sizes[stop - 1]:
            continue
        parts = source.cut_item(items[stop - 1], nbytes)
        if parts is None:
            break
        first, rest, rest_nbytes = parts
        items[stop - 1 : stop] = [first, rest]
        sizes[stop - 1 : stop] = [nbytes, rest_nbytes]
    return replace(source, items=items, sizes=sizes)


def file_stamps(source: Source[Item], items: range) -> dict[str, int]:
    """Return the stamps of the files of some items by position, by which they are known anywhere.

    There are none where the content of items identifies them, or nothing does.
    """
    stamps: dict[str, int] = {}
    if source.file is None or source.fingerprint is not None or not source.has_identity:
        return stamps
    at = items.start
    while at < items.stop:
        file = source.file_of(at)
        own = source.name(source.items[at]).rpartition("[")[0]
        stamps[file] = stamp_of(f"{own}\0{source.state_of(at)}")

        def is_next(one: int, file: str = file) -> int:
            return source.file_of(one) != file

        at = bisect_left(range(items.stop), 1, lo=at, key=is_next)
    return stamps


def runs_of(work: npt.NDArray[np.uint8]) -> Iterator[range]:
    """Yield runs of consecutive items with the same work to do, without those with none."""
    if not len(work):
        return
    bounds = [0, *(np.flatnonzero(np.diff(work)) + 1).tolist(), len(work)]
    for start, stop in pairwise(bounds):
        if work[start] != Action.NOTHING:
            yield range(start, stop)


def batches_of(source: Source[Item], runs: Iterator[range], size: int) -> Iterator[list[range]]:
    """Gather runs into batches of about ``size`` bytes, deterministically."""
    batch: list[range] = []
    nbytes = 0
    for run in runs:
        start = run.start
        for at in run:
            if nbytes and nbytes + source.sizes[at] > size:
                if start < at:
                    batch.append(range(start, at))
                yield batch
                batch, nbytes, start = [], 0, at
            nbytes += source.sizes[at]
        batch.append(range(start, run.stop))
    if batch:
        yield batch


def _distinct(names: list[str]) -> list[str]:
    """Number the names that occur more than once, in order."""
    if len(set(names)) == len(names):
        return names
    seen: dict[str, int] = {}
    made: list[str] = []
    for name in names:
        count = seen[name] = seen.get(name, 0) + 1
        made.append(name if count == 1 else f"{name}\0{count}")
    return made
