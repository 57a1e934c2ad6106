"""The grid of tiles over an array, and their order: along a Z-curve.

    shape (5, 9), tiles (2, 4)       number of each tile      stored end to end
      ┌────┬────┬─┐                       0  1  4
      ├────┼────┼─┤                       2  3  5                 0 1 2 3 4 5 6 7 8
      ├────┼────┼─┤                       6  7  8
      └────┴────┴─┘
    The last tile along an axis holds the rest.

On the curve, the tiles of a box are in few runs, whatever its shape (G. M. Morton, 1966).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tensorlake.types.tiles.box import Box

__all__ = ["MAX_TILES", "TileGrid"]

MAX_TILES = 1 << 22
"""Tiles of one sample: their lengths are 16 MiB of a header."""


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Tiles of one size over an array.

    Attributes:
        shape: Shape of the array.
        tiles: Lengths of a tile along each axis.
    """

    shape: tuple[int, ...]
    tiles: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of tiles along each axis."""
        return tuple(-(-n // tile) for n, tile in zip(self.shape, self.tiles, strict=True))

    def __len__(self) -> int:
        return math.prod(self.counts)

    def corners(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where tiles start and stop along each axis: int64 (axes, tiles), two of them."""
        tiles = np.array(self.tiles, np.int64)[:, None]
        starts = _curve(self.counts)[0][:, numbers] * tiles
        return starts, np.minimum(starts + tiles, np.array(self.shape, np.int64)[:, None])

    def over(self, box: Box) -> np.ndarray:
        """Return the numbers of the tiles over a box, int64, ascending."""
        if 0 in box.shape or not len(self):
            return np.zeros(0, np.int64)
        sides = zip(box.starts, box.stops, self.tiles, strict=True)
        spans = [np.arange(a // tile, (b - 1) // tile + 1) for a, b, tile in sides]
        if not spans:
            return np.zeros(1, np.int64)
        places = np.ravel_multi_index(np.ix_(*spans), self.counts)
        return np.sort(_curve(self.counts)[1][places.reshape(-1)])


@lru_cache(maxsize=16)
def _curve(counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each tile by its number (axes, n), and its number by flat place (n,)."""
    total = math.prod(counts)
    places = np.stack(np.unravel_index(np.arange(total), counts)) if counts else np.zeros((0, 1))
    code, width = np.zeros(total, np.int64), 0
    for bit in range(max(counts, default=1).bit_length()):
        for axis in reversed(range(len(counts))):
            if (counts[axis] - 1) >> bit:  # bits that no place has would only widen the code
                code |= ((places[axis].astype(np.int64) >> bit) & 1) << width
                width += 1
    order = np.argsort(code, kind="stable")
    numbers = np.empty(total, np.int64)
    numbers[order] = np.arange(total)
    return places[:, order].astype(np.int64), numbers
