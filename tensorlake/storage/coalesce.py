"""Merge byte ranges of one object into fewer, larger requests. Pure: no I/O.

    asked   [0,4)   [6,9)        [90,99)        gap 4
    merged  [0,          9)      [90,99)        slices of each: where the asked ranges lie in it

A request costs about as much as the bytes that pass in its latency, so bytes between two ranges are
read along while they are fewer than `gap`.  Ranges may come in any order, overlap and repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_GAP: Final = 64 * 1024
"""Bytes read along rather than asked for again: under 1 ms of one connection to S3 (90 MB/s)."""
DEFAULT_MAX_NBYTES: Final = 8 * 1024 * 1024
"""Merging stops here: larger requests gain nothing, while several at once share the bandwidth."""


@dataclass(frozen=True, slots=True)
class MergedRange:
    """One request [start, stop), and which of the ranges asked for lie in it."""

    start: int
    stop: int
    positions: tuple[int, ...]


def merge_ranges(
    ranges: Sequence[tuple[int, int]],
    *,
    gap: int = DEFAULT_GAP,
    max_nbytes: int = DEFAULT_MAX_NBYTES,
) -> list[MergedRange]:
    """Merge ranges at most `gap` apart into requests of at most `max_nbytes`, sorted by start.

    A range larger than `max_nbytes` stays whole.

    >>> merge_ranges([(6, 9), (0, 4), (90, 99)], gap=4)
    [MergedRange(start=0, stop=9, positions=(1, 0)), MergedRange(start=90, stop=99, positions=(2,))]
    """
    merged: list[MergedRange] = []
    positions: list[int] = []
    first = last = 0
    for position in sorted(range(len(ranges)), key=ranges.__getitem__):
        start, stop = ranges[position]
        end = max(last, stop)
        if positions and start - last <= gap and (end == last or end - first <= max_nbytes):
            last = end
        else:
            if positions:
                merged.append(MergedRange(first, last, tuple(positions)))
            positions = []
            first, last = start, stop
        positions.append(position)
    if positions:
        merged.append(MergedRange(first, last, tuple(positions)))
    return merged
