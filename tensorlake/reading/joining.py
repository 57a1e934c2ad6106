"""Rows asked for in any order, read chunk by chunk, and put in the order asked for again.

asked       chunk 1 row 4   chunk 0 row 7   chunk 1 row 0
by chunk    chunk 0: [7]    chunk 1: [4, 0]                   ``rows_by_chunk``
joined      chunk 1 row 4   chunk 0 row 7   chunk 1 row 0     ``joined``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorlake.types import Column, concat, take

if TYPE_CHECKING:
    from tensorlake.reading.index.extent_table import Located

__all__ = ["Fetched", "joined", "rows_by_chunk", "run_of"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """What came of some chunks, by their places among all; ``columns`` verifies and decodes it."""

    places: Sequence[int]
    columns: Callable[[], list[Column]]


def run_of(physical: Int64Array) -> tuple[int, int] | None:
    """Say where rows start and stop that follow each other without a gap; None of any others."""
    start, stop = int(physical[0]), int(physical[-1]) + 1
    if stop - start != len(physical) or bool((physical[1:] <= physical[:-1]).any()):
        return None
    return start, stop


def rows_by_chunk(located: Located) -> tuple[list[Int64Array], Int64Array | None]:
    """Divide rows by the chunks they are in; None where they lie in the chunks' order already."""
    is_in_order = bool(np.all(located.chunk[1:] >= located.chunk[:-1]))
    order = None if is_in_order else np.argsort(located.chunk, kind="stable")
    counts = np.bincount(located.chunk, minlength=len(located.chunks))
    rows = located.row_in_chunk if order is None else located.row_in_chunk[order]
    return np.split(rows, np.cumsum(counts)[:-1]), order


def joined(
    parts: Sequence[Column | None], fetched: Sequence[Fetched], order: Int64Array | None
) -> Column:
    """Make what was fetched, and put all rows in the order asked for."""
    found = [*parts]
    for one in fetched:
        for place, column in zip(one.places, one.columns(), strict=True):
            found[place] = column
    column = concat([part for part in found if part is not None])
    if order is None:
        return column
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.arange(len(order))
    return take(column, inverse)
