"""Best fit, decreasing: pieces of given lengths into as few bins of one size as it finds.

Pieces are placed from the longest to the shortest, each into the bin with the least room that it
fits; equal ones in their order, and of bins with equal room into the one that got it last. Bins are
kept by room, and all pieces of one length are placed together, so that the work grows with the
number of different lengths and rooms.

A state counts sequences of bins made here: the result for given lengths never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tensorlake.loader.plan.selection import Int64Array

__all__ = ["best_fit"]


def best_fit(lengths: Int64Array, size: int) -> Int64Array:
    """Return the bin of each piece, numbered from 0 by their first piece.

    Args:
        lengths: Lengths of pieces, each from 1 to ``size``.
        size: The size of a bin.
    """
    if not len(lengths):
        return np.empty(0, dtype=np.int64)
    ranked = np.argsort(-lengths, kind="stable")
    descending = lengths[ranked]
    firsts = np.flatnonzero(np.diff(descending, prepend=-1)).tolist()
    bins = np.empty(len(lengths), dtype=np.int64)  # by rank
    by_room: dict[int, list[int]] = {}
    rooms = 0  # a bit for each room that some bin has
    count = 0
    for first, stop in zip(firsts, [*firsts[1:], len(lengths)], strict=True):
        length = int(descending[first])
        at = first
        while at < stop:
            fitting = rooms >> length
            if not fitting:  # new bins, each for as many as fit
                each = size // length
                made = -(-(stop - at) // each)
                numbers = np.repeat(np.arange(count, count + made), each)[: stop - at]
                bins[at:stop] = numbers
                last = stop - at - (made - 1) * each  # pieces of the last bin
                for number in range(count, count + made):
                    own = each if number < count + made - 1 else last
                    rooms = _put(by_room, rooms, size - own * length, number)
                count += made
                break
            room = length + (fitting & -fitting).bit_length() - 1
            own = by_room[room]
            number = own.pop()
            if not own:
                rooms &= ~(1 << room)
            taken = min(room // length, stop - at)
            bins[at : at + taken] = number
            at += taken
            rooms = _put(by_room, rooms, room - taken * length, number)
    found = np.empty_like(bins)
    found[ranked] = bins
    _, first_piece, numbered = np.unique(found, return_index=True, return_inverse=True)
    order = np.empty_like(first_piece)
    order[np.argsort(first_piece)] = np.arange(len(first_piece))
    return order[numbered]


def _put(by_room: dict[int, list[int]], rooms: int, room: int, number: int) -> int:
    """Add a bin to those of equal room, unless it is full; return the rooms that there are."""
    if not room:
        return rooms
    by_room.setdefault(room, []).append(number)
    return rooms | 1 << room
