"""Groups: rows with equal keys, numbered in the order in which they first appear.

NULL is a group of its own, and so is NaN. Without keys there is one group, also of no rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorlake_query.source import IntArray
from tensorlake_query.vectors import Vector, take, valid_of


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group each row is in, how many there are, and the keys of each."""

    of_row: IntArray
    count: int
    keys: tuple[Vector, ...]


def group_rows(keys: Sequence[Vector], num_rows: int) -> Groups:
    """Group rows by equal keys."""
    if not keys:
        return Groups(np.zeros(num_rows, np.int64), 1, ())
    codes = np.zeros(num_rows, np.int64)
    for key in keys:
        distinct, ranks = np.unique(key.values, return_inverse=True)
        ranks = np.where(valid_of(key), ranks.reshape(-1), len(distinct))
        # renumbered after each key, so that the product stays below rows × distinct values
        _, codes = np.unique(codes * (len(distinct) + 1) + ranks, return_inverse=True)
        codes = codes.reshape(-1)
    _, first = np.unique(codes, return_index=True)
    by_appearance = np.argsort(first, kind="stable")
    number_of = np.empty(len(first), np.int64)
    number_of[by_appearance] = np.arange(len(first))
    firsts = first[by_appearance].astype(np.int64)
    return Groups(number_of[codes], len(first), tuple(take(key, firsts) for key in keys))
