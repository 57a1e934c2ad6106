"""Shares of a mix by elements of a column, such as tokens: weight ÷ mean length of a row.

Exact running counts would not be a function of the place, so each source is given rows in
proportion to its weight divided by its mean length. Lengths are read from the headers of chunks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.loader.plan.mix_order import Weight
    from tensorlake.loader.sources.mix.reader import MixSource

__all__ = ["divided", "mean_length", "token_column"]

PART_ROWS = 1 << 20
PREFERRED = "tokens"


def token_column(source: MixSource, names: tuple[str, ...]) -> str:
    """Choose the column of tokens: "tokens", or the only lists of integers.

    Raises:
        InvalidInputError: There is no such column, or more than one.
    """
    found = [name for name in names if _is_list_of_integers(source, name)]
    if PREFERRED in found:
        return PREFERRED
    if len(found) != 1:
        raise InvalidInputError(
            "mix(by='tokens') needs a column 'tokens', or one column of lists of integers that all"
            f" sources have, found {', '.join(map(repr, found)) or 'none'}"
            "\nselect the columns of each source: view.select('tokens')",
            actual=found,
        )
    return found[0]


def mean_length(source: MixSource, name: str) -> float:
    """Return the mean number of elements of a row.

    Raises:
        InvalidInputError: No row has any.
    """
    selection, reader = source.selection, source.reader
    sample_type: Any = selection.snapshot.spec(name).type
    if sample_type.shape[0] is not None:
        return float(sample_type.shape[0])
    total = 0
    for start in range(0, selection.num_rows, PART_ROWS):
        positions = np.arange(start, min(start + PART_ROWS, selection.num_rows))
        lengths = reader.shapes(name, selection.physical(positions))[:, 0]
        total += int(np.maximum(lengths, 0).sum())  # −1 where NULL
    if not total:
        raise InvalidInputError(
            f"no row of source {source.name!r} has elements in {name!r}\nleave the source out"
        )
    return total / selection.num_rows


def divided(weight: Weight, mean: float) -> Weight:
    """Return a weight, or function of the place, divided by the mean length of a row."""
    return partial(_divided_at, weight, mean) if callable(weight) else weight / mean


def _divided_at(weight: Any, mean: float, place: int) -> Any:
    value = weight(place)
    return value / mean if isinstance(value, int | float) else value


def _is_list_of_integers(source: MixSource, name: str) -> bool:
    sample_type: Any = source.selection.snapshot.spec(name).type
    shape, dtype = getattr(sample_type, "shape", None), getattr(sample_type, "dtype", None)
    if dtype is None or shape is None or len(shape) != 1:
        return False
    return np.dtype(dtype).kind in "iu" and not getattr(sample_type, "names", None)
