"""Holes: rows of a batch that are left out without moving the others.

A hole has zeros of the row's shape (an empty text, no items) and is False in ``_valid``, so that
batches, ranks, steps and random numbers of all other rows stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.loader.config.column_plan import ROW, VALID

__all__ = ["make_holes"]


def make_holes(batch: dict[str, Any], rows: npt.NDArray[np.int64]) -> None:
    """Make holes of the rows of a batch that are among some row numbers, ascending.

    Args:
        batch: NumPy arrays and lists by name, of as many rows each; ``_row`` and ``_valid`` too.
        rows: The numbers.
    """
    own = batch[ROW]
    at = np.minimum(np.searchsorted(rows, own), max(len(rows) - 1, 0))
    is_hole = rows[at] == own if len(rows) else np.zeros(len(own), dtype=np.bool_)
    if not is_hole.any():
        return
    for name, values in batch.items():
        if name == ROW:
            continue
        if isinstance(values, list):
            for place in np.flatnonzero(is_hole).tolist():
                values[place] = _empty(values[place])
        else:
            if not values.flags.writeable:
                values = batch[name] = values.copy()  # noqa: PLW2901 - mapped, or of a cache
            values[is_hole] = 0
    batch[VALID] = batch[VALID] & ~is_hole


def _empty(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.zeros_like(value)
    if isinstance(value, list):
        return []
    return value if value is None else type(value)()
