"""Merge byte ranges of one object into fewer, larger requests, and split the blocks received.

    requested  [0,4)   [6,9)        [90,99)        gap 4
    merged     [0,          9)      [90,99)        slices: where the requested ranges are in it
    returned   [0,4)   [6,9)        [90,99)        views of the blocks, in the requested order

A request costs about as much as the bytes transferred in its latency, so a gap of fewer than `gap`
bytes between two ranges is read as well. Ranges may come in any order, overlap and repeat.

A client may accept several requests per call, which costs less processor time than one call each:
`calls_of` groups them. Pure: the function that reads is an argument.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tensorlake.storage.api.store import Buffer
from tensorlake.storage.concurrency.runtime import gather_bounded

DEFAULT_GAP: Final = 32 * 1024
"""Four blocks of raw rows: a thousand random rows of 1 KiB in 200 MB are 11 MB in 800
requests; with 16 KiB they are 9 MB in 890, with 64 KiB 18 MB in 670 (docs/decisions/0023)."""
DEFAULT_MAX_NBYTES: Final = 8 * 1024 * 1024
"""Largest merged request: larger ones gain nothing, while concurrent ones share the bandwidth."""
CALL_REQUESTS: Final = 8
"""Requests per call: a client sends at most ten of a call concurrently."""
CALL_NBYTES: Final = 2 * 1024 * 1024
"""A call returns when all its requests are done, so larger requests get a call of their own."""


@dataclass(frozen=True, slots=True)
class MergedRange:
    """One request [start, stop), and the positions of the requested ranges in it."""

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


def scatter(
    merged: Sequence[MergedRange], blocks: Sequence[Buffer], ranges: Sequence[tuple[int, int]]
) -> list[Buffer]:
    """Split the blocks of merged requests into the requested ranges, in their order.

    >>> ranges = [(6, 9), (0, 4)]
    >>> [bytes(one) for one in scatter(merge_ranges(ranges), [b"abcdefghi"], ranges)]
    [b'ghi', b'abcd']
    """
    found: list[Buffer] = [b""] * len(ranges)
    for request, block in zip(merged, blocks, strict=True):
        view = memoryview(block)
        for position in request.positions:
            start, stop = ranges[position]
            found[position] = view[start - request.start : stop - request.start]
    return found


def calls_of(
    merged: Sequence[MergedRange],
    *,
    max_requests: int = CALL_REQUESTS,
    max_nbytes: int = CALL_NBYTES,
) -> list[list[tuple[int, int]]]:
    """Group requests, in their order, into calls.

    >>> [len(call) for call in calls_of(merge_ranges([(0, 4), (90, 99), (200, 900)], gap=4))]
    [3]
    """
    calls: list[list[tuple[int, int]]] = []
    room = 0
    for request in merged:
        nbytes = request.stop - request.start
        if not calls or len(calls[-1]) >= max_requests or nbytes > room:
            calls.append([])
            room = max_nbytes
        calls[-1].append((request.start, request.stop))
        room -= nbytes
    return calls


async def read_merged(
    read: Callable[[int, int], Awaitable[Buffer]],
    ranges: Sequence[tuple[int, int]],
    *,
    limit: int,
) -> list[Buffer]:
    """Read ranges of an object by merged requests, at most `limit` of them concurrently."""
    merged = merge_ranges(ranges)
    requests = [partial(read, one.start, one.stop) for one in merged]
    return scatter(merged, await gather_bounded(requests, limit=limit), ranges)
