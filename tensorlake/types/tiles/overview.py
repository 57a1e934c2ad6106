"""The overview of a large sample in tiles: a smaller image of the whole, which is read alone.

    6,000 × 4,000 pixels in tiles of 512   96 tiles, and an overview of 512 × 341

It is a part behind the tiles, encoded by their codec, so that a thumbnail reads and decodes some
kilobytes. Pixels of images are means; those of masks are elements of the mask, since the mean of
two classes is neither. Samples of at most twice its side have none: their tiles are as quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np

__all__ = ["OVERVIEW_SIDE", "Overview", "Shrink", "is_overview_of", "shrunk"]

OVERVIEW_SIDE: Final = 512
"""Pixels of its longer side."""

Shrink = Literal["mean", "pick"]
"""How pixels of an overview are made: means, or the pixel in the middle."""

_MAX_SIDE: Final = 4096  # accepted when reading
_MAX_DEPTH: Final = 64  # values of a pixel
_AXES: Final = 2


@dataclass(frozen=True, slots=True)
class Overview:
    """Asks a sample in tiles for its overview, where indices ask for a region."""


def shrunk(values: np.ndarray, shrink: Shrink) -> np.ndarray | None:
    """Return the overview of an image (height, width, …) in its dtype; None where it is small."""
    height, width = values.shape[:_AXES]
    if max(height, width) <= 2 * OVERVIEW_SIDE or not values.size:
        return None
    scale = OVERVIEW_SIDE / max(height, width)
    rows, columns = (_cuts(length, max(1, round(length * scale))) for length in (height, width))
    if shrink == "pick":
        return values[np.ix_(_middles(rows), _middles(columns))]
    total = np.uint64 if values.dtype.kind in "bu" else np.float64
    if values.dtype == np.uint8:
        total = np.uint32  # enough for boxes of 4,000 pixels a side, and four times as fast
    small = np.empty((len(rows) - 1, len(columns) - 1, *values.shape[_AXES:]), values.dtype)
    for at, (start, stop) in enumerate(zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True)):
        sums = np.add.reduceat(values[start:stop].sum(axis=0, dtype=total), columns[:-1])
        counts = (stop - start) * np.diff(columns)
        mean = sums / counts.reshape(-1, *(1,) * (sums.ndim - 1))
        small[at] = np.rint(mean) if values.dtype.kind in "iu" else mean
    return small


def is_overview_of(sides: Any, shape: tuple[int, ...]) -> bool:
    """Whether a head may promise an overview of these sides for an array of this shape."""
    if not isinstance(sides, list) or len(shape) not in (_AXES, _AXES + 1):
        return False
    given = cast("list[Any]", sides)
    good = all(type(one) is int and 0 < one <= _MAX_SIDE for one in given)
    if not good or len(given) != _AXES or max(shape[_AXES:], default=1) > _MAX_DEPTH:
        return False
    return all(one <= length for one, length in zip(given, shape, strict=False))


def _cuts(length: int, pieces: int) -> np.ndarray:
    return np.arange(pieces + 1) * length // pieces


def _middles(cuts: np.ndarray) -> np.ndarray:
    return (cuts[:-1] + cuts[1:]) // 2
