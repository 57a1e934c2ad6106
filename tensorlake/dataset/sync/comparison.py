"""Comparison of a source's items with the ledger: which are new, changed, gone. Nothing is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import repeat

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.sync.ledger import Entries

__all__ = ["Action", "Comparison", "Listing"]

Int64Array = npt.NDArray[np.int64]


class Action(IntEnum):
    """The work that an item needs."""

    NOTHING = 0
    ADD = 1
    MOVE = 2  # new, unless its content is that of an item that vanished
    COMPARE = 3  # known: read it, and update what differs


@dataclass(frozen=True, slots=True)
class Listing:
    """The items of a source: names, each once, sizes and stamps.

    Where these are known only when an item is read, they are filled in before its rows are staged.
    """

    names: list[str]
    sizes: Int64Array
    stamps: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A listing against the entries of its source.

    Attributes:
        entry_of: The entry of each item; -1: it is new.
        is_same: Whether an item has the stamp of its entry.
        vanished: The entries without an item.
    """

    entry_of: Int64Array
    is_same: npt.NDArray[np.bool_]
    vanished: Int64Array

    @classmethod
    def of(cls, listing: Listing, known: Entries) -> Comparison:
        """Compare names, and stamps where names are equal."""
        if not len(known):
            count = len(listing.names)
            nothing = np.empty(0, np.int64)
            return cls(np.full(count, -1, np.int64), np.zeros(count, np.bool_), nothing)
        places = dict(zip(known.items, range(len(known)), strict=True))
        found = map(places.get, listing.names, repeat(-1))
        entry_of = np.fromiter(found, np.int64, len(listing.names))
        is_known = entry_of >= 0
        is_same = is_known & (known.stamps[entry_of] == listing.stamps)
        is_listed = np.zeros(len(known), np.bool_)
        is_listed[entry_of[is_known]] = True
        return cls(entry_of, is_same, np.flatnonzero(~is_listed))
