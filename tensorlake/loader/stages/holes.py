"""Holes: rows of a batch that are left out without moving the others.

A hole has zeros of the row's shape (an empty text, no items) and is False in ``_valid``, so that
batches, ranks, steps and random numbers of all other rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.loader.config.column_plan import HOLE, ROW, SKIPPED, VALID

__all__ = ["empty_units", "make_holes"]

SOURCE, START = "_source", "_start"


def make_holes(batch: dict[str, Any], rows: Sequence[npt.NDArray[np.int64]]) -> None:
    """Make holes of the rows of a batch that are left out, or are not there any more.

    Args:
        batch: NumPy arrays and lists by name, of as many rows each; ``_row`` and ``_valid`` too.
        rows: The numbers of those that are left out of each source, ascending.
    """
    forgotten = batch.pop(HOLE, None)
    own = batch[ROW]
    is_hole = np.zeros(len(own), dtype=np.bool_)
    for number, left_out in enumerate(rows):
        if len(left_out):
            at = np.minimum(np.searchsorted(left_out, own), len(left_out) - 1)
            is_of = batch[SOURCE] == number if len(rows) > 1 else True
            is_hole |= (left_out[at] == own) & is_of
    if forgotten is not None:
        is_hole |= forgotten
        batch[ROW] = np.where(forgotten, -1, own)
    if is_hole.any():
        empty_units(batch, is_hole)
    batch[VALID] = batch[VALID] & ~is_hole


def empty_units(batch: dict[str, Any], is_hole: npt.NDArray[np.bool_]) -> None:
    """Make some rows of a batch zeros, or other units of it; not their numbers and starts."""
    for name, values in batch.items():
        if name in (ROW, SKIPPED, SOURCE, START, VALID):
            continue
        if isinstance(values, list):
            for place in np.flatnonzero(is_hole).tolist():
                values[place] = _empty(values[place])
        else:
            if not values.flags.writeable:
                values = batch[name] = values.copy()  # noqa: PLW2901 - mapped, or of a cache
            values[is_hole] = 0


def _empty(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.zeros_like(value)
    if isinstance(value, list):
        return []
    return value if value is None else type(value)()
