"""ClassTable: which classes each tile of a mask has, and where; kept in the map of the sample.

    tile 0   all of class 0                 no places: any element is of the class
    tile 7   class 0 30,000 · class 2 2,768     places of some elements of each

An element of a class is drawn from the table alone, before any tile is read: first the tile, by how
many elements of the class it has, then one of the places that the table has of them. All places of
a class in a tile are kept while there is room; else a random part of them, chosen at ingestion, as
nnU-Net keeps ``class_locations`` (Isensee et al., 2021).
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

import numpy as np

if TYPE_CHECKING:
    from tensorlake.types.tiles.grid import TileGrid

__all__ = ["MAX_CLASSES", "ClassTable"]

MAX_CLASSES: Final = 1024
"""Different values of a sample; samples with more are not masks."""

_MIXED: Final = 2  # classes of a tile that has several
_MAX_ENTRIES: Final = 1 << 16
_PLACES: Final = 1 << 14  # of a sample: some 30 kB of a header, as the table of 4,096 tiles
_COUNTED_DTYPES: Final = ("bool", "uint8", "uint16")  # whose values are counted by position
_HEAD = struct.Struct("<II")
_ENTRY_NBYTES: Final = 16
_MAX_NBYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class ClassTable:
    """The classes of the tiles of a sample: an entry for each class in each tile.

    Attributes:
        grid: The tiles.
        tile: Number of each entry's tile, int64 (entries,).
        code: Its class.
        count: How many elements of the tile are of the class.
        stops: Where its places end.
        places: Flat positions of elements in their tiles, ascending for each entry, int64.
    """

    grid: TileGrid
    tile: np.ndarray
    code: np.ndarray
    count: np.ndarray
    stops: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, grid: TileGrid) -> Self | None:
        """Count the classes of an array of integers or booleans; None with too many values."""
        tiles = _tiles_of(values, grid)
        counted = [_counted(tile) for tile in tiles]
        codes = np.unique(np.concatenate([one for one, _ in counted])) if counted else np.zeros(1)
        entries = sum(len(one) for one, _ in counted)
        is_mask = len(codes) <= MAX_CLASSES and entries <= _MAX_ENTRIES
        if not is_mask or int(codes[0]) < -(1 << 31) or int(codes[-1]) >= 1 << 31:
            return None
        mixed = sum(len(one) for one, _ in counted if len(one) > 1)
        most = max(1, _PLACES // max(1, mixed))
        none = np.zeros(0, np.int64)
        kept = [
            [none] if len(one) < _MIXED else _places(tile, counts, most)
            for tile, (one, counts) in zip(tiles, counted, strict=True)
        ]
        flat = [one for own in kept for one in own]
        return cls(
            grid,
            np.repeat(np.arange(len(tiles)), [len(one) for one, _ in counted]),
            np.concatenate([none, *(one for one, _ in counted)]),
            np.concatenate([none, *(counts for _, counts in counted)]),
            np.cumsum([len(one) for one in flat], dtype=np.int64),
            np.concatenate([none, *flat]),
        )

    @property
    def classes(self) -> dict[int, int]:
        """Number of elements of each class, by its code."""
        codes, inverse = np.unique(self.code, return_inverse=True)
        counts = np.bincount(inverse, self.count, len(codes)).astype(np.int64)
        return dict(zip(codes.tolist(), counts.tolist(), strict=True))

    def draw(self, chosen: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw elements of the chosen entries, each with equal probability.

        Args:
            chosen: Which entries, bool (entries,); one at least.
            count: How many elements.
            rng: Random numbers; two are taken for each.

        Returns:
            Their positions along each axis, int64 (count, axes).
        """
        entries = np.flatnonzero(chosen)
        ends = np.cumsum(self.count[entries])
        entry = entries[np.searchsorted(ends, rng.integers(ends[-1], size=count), side="right")]
        first, last = self.grid.corners(self.tile[entry])
        lengths = last - first
        begins = np.concatenate([[0], self.stops])[entry]
        kept = self.stops[entry] - begins
        number = rng.integers(np.where(kept > 0, kept, np.prod(lengths, axis=0)))
        flat = number.copy()
        flat[kept > 0] = self.places[(begins + number)[kept > 0]]
        inside = np.empty_like(first)
        for axis in reversed(range(len(lengths))):
            flat, inside[axis] = np.divmod(flat, lengths[axis])
        return (first + inside).T

    def to_text(self) -> str:
        """Write the table."""
        lengths = np.diff(self.stops, prepend=0)
        entries = (self.tile, self.code, self.count, lengths)
        parts = (_HEAD.pack(len(self.tile), len(self.places)), *(_stored(one) for one in entries))
        return b64encode(zlib.compress(b"".join((*parts, _stored(self.places))))).decode()

    @classmethod
    def parse(cls, text: str, grid: TileGrid) -> Self:
        """Read what `to_text` wrote.

        Raises:
            ValueError: It is not such a table, or not one of these tiles.
        """
        try:
            data = zlib.decompressobj().decompress(b64decode(text, validate=True), _MAX_NBYTES)
            entries, count = _HEAD.unpack_from(data)
        except (zlib.error, struct.error, ValueError) as error:
            raise ValueError(f"its table of classes is damaged ({error})") from error
        if len(data) != _HEAD.size + entries * _ENTRY_NBYTES + 4 * count:
            raise ValueError("its table of classes is damaged (its length)")
        read = np.frombuffer(data, "<i4", offset=_HEAD.size).astype(np.int64)
        tile, code, counts, lengths = read[: 4 * entries].reshape(4, entries)
        places = read[4 * entries :]
        made = cls(grid, tile, code, counts, np.cumsum(lengths), places)
        if not made._is_sound():
            raise ValueError("its table of classes is damaged (its numbers)")
        return made

    def _is_sound(self) -> bool:
        """Whether all positions are in their tiles."""
        tile, lengths = self.tile, np.diff(self.stops, prepend=0)
        if bool((tile < 0).any()) or bool((tile >= len(self.grid)).any()):
            return False
        starts, stops = self.grid.corners(tile)
        sizes = np.prod(stops - starts, axis=0)
        counted = bool((self.count > 0).all() and (self.count <= sizes).all())
        kept = bool((lengths >= 0).all()) and int(lengths.sum()) == len(self.places)
        if not counted or not kept or bool((lengths > self.count).any()):
            return False
        return bool((self.places >= 0).all() and (self.places < np.repeat(sizes, lengths)).all())


def _tiles_of(values: np.ndarray, grid: TileGrid) -> list[np.ndarray]:
    starts, stops = (one.T.tolist() for one in grid.corners(np.arange(len(grid))))
    return [values[tuple(map(slice, a, b))] for a, b in zip(starts, stops, strict=True)]


def _counted(tile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a tile, ascending, and how often it has each, int64."""
    if tile.dtype.name in _COUNTED_DTYPES:
        counts = np.bincount(tile.reshape(-1))
        codes = np.flatnonzero(counts)
        return codes, counts[codes]
    codes, counts = np.unique(tile, return_counts=True)
    return codes.astype(np.int64), counts


def _places(tile: np.ndarray, counts: np.ndarray, most: int) -> list[np.ndarray]:
    """Return where elements of each class are, up to ``most`` of each, in one random order.

    The order is the same for all tiles of a size, so that equal masks have equal bytes.
    """
    order = _shuffled(tile.size)
    by_class = order[np.argsort(tile.reshape(-1)[order], kind="stable")]
    return [np.sort(one[:most]) for one in np.split(by_class, np.cumsum(counts)[:-1])]


@lru_cache(maxsize=16)
def _shuffled(size: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(size)


def _stored(numbers: np.ndarray) -> bytes:
    return np.asarray(numbers, "<i4").tobytes()
