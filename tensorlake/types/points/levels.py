"""The order of stored points: random levels, each along a Morton curve.

    level 0   1/64 of the points, chosen at random    ┐ level 1: 1/8   ┐
    level 1   those that make it 1/8                  ┘                │ level 2: all
    level 2   the rest                                                 ┘

Points of a level are sorted along the curve (G. M. Morton, 1966), so that those close in space are
in the same blocks. The choice depends on the number of points alone: the same file gives the same
bytes.
"""

from __future__ import annotations

import numpy as np

__all__ = ["LEVEL_SHARES", "arrange", "bounds_of", "level_counts"]

LEVEL_SHARES = (64, 8, 1)
"""Each level and those before it have one point in N."""
_BITS = 20  # an axis: 60 of the 64 bits of a sort key, the two highest the level
_SPREAD = (
    (32, 0x1F00000000FFFF),
    (16, 0x1F0000FF0000FF),
    (8, 0x100F00F00F00F00F),
    (4, 0x10C30C30C30C30C3),
    (2, 0x1249249249249249),
)


def level_counts(points: int) -> tuple[int, ...]:
    """Return the number of points of each level and those before it.

    >>> level_counts(1000)
    (16, 125, 1000)
    """
    return tuple(-(-points // share) for share in LEVEL_SHARES)


def arrange(coordinates: np.ndarray) -> np.ndarray:
    """Return the order in which points (n, 3) are stored: their numbers, int64."""
    points = len(coordinates)
    key = _curve(coordinates)
    ranks = np.random.default_rng(points).permutation(points)
    for number, count in enumerate(level_counts(points)[:-1]):
        key[ranks[count:]] = (key[ranks[count:]] & _CODES) | np.uint64(number + 1 << 3 * _BITS)
    return np.argsort(key, kind="stable")


def bounds_of(coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and greatest coordinates of points that have no NaN; of none, ∞ and -∞."""
    known = coordinates[~np.isnan(coordinates).any(axis=1)]
    return known.min(axis=0, initial=np.inf), known.max(axis=0, initial=-np.inf)


_CODES = np.uint64((1 << 3 * _BITS) - 1)


def _curve(coordinates: np.ndarray) -> np.ndarray:
    """Return the place of each point along the curve, uint64; cells are cubes."""
    if not len(coordinates):
        return np.zeros(0, np.uint64)
    finite = coordinates[np.isfinite(coordinates).all(axis=1)]
    low = finite.min(axis=0) if len(finite) else np.zeros(3)
    with np.errstate(invalid="ignore", over="ignore"):
        side = float((finite.max(axis=0) - low).max()) if len(finite) else 0.0
        share = (coordinates - low) / (side or 1.0)
    cells = (np.clip(np.nan_to_num(share), 0, 1) * ((1 << _BITS) - 1)).astype(np.uint64)
    code = np.zeros(len(cells), np.uint64)
    for axis in range(3):
        spread = cells[:, axis]
        for shift, mask in _SPREAD:
            spread = (spread | spread << np.uint64(shift)) & np.uint64(mask)
        code |= spread << np.uint64(axis)
    return code
