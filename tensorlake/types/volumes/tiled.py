"""The base of types of volumes: tiles of stored voxels, whose values are made on reading."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.quantities import human_nbytes
from tensorlake.types.base.mixins import Media
from tensorlake.types.base.parts import MemorySample, SampleParts
from tensorlake.types.tiles import (
    BLOSC_TILES,
    TiledSamples,
    TileHead,
    box_of,
    read_tiles,
    tile_map,
)

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer, SampleMap
    from tensorlake.types.base.region import Region

__all__ = ["MATRIX", "SPATIAL", "TiledVolume", "Voxels", "check_size", "stored_voxels"]

MATRIX: Final = (4, 4)
SPATIAL: Final = 3
_SIDE: Final = 32
_CHANNELS: Final = 4  # of a tile: those of one sample of tissue, not a whole series in time
_EXPANSION: Final = 20  # scans compress to a half; maps of labels, 100 times, are small


@dataclass(frozen=True, slots=True)
class Voxels:
    """A request for all voxels as they are stored, not scaled."""


def check_size(nbytes: int, stored: int, max_nbytes: int) -> None:
    """Refuse few bytes that promise many.

    Raises:
        ValueError: They do.
    """
    if nbytes > max(max_nbytes, _EXPANSION * stored):
        promised = f"{stored:,} bytes promise {human_nbytes(nbytes)} of voxels"
        raise ValueError(f"{promised}\nto accept it: give the type max_nbytes=")


def stored_voxels(content: Buffer, max_nbytes: int) -> tuple[TileHead, np.ndarray]:
    """Read a tiled sample, as it is exported: its head, and its voxels.

    Raises:
        ValueError: It is damaged, or too large.
    """
    sample = MemorySample(content, tile_map(content))
    head = TileHead.parse(sample.map.head)
    check_size(head.nbytes, len(content), max_nbytes)
    box = box_of(head.shape, (), InvalidInputError)
    parts = SampleParts(sample.map, sample.fetch(head.grid.over(box)))
    return head, read_tiles(parts, head, BLOSC_TILES, box)


class TiledVolume(Media, TiledSamples):
    """A type of volumes that are stored in tiles and read lazily, as [z, y, x, …]."""

    __slots__ = ()

    is_lazy: ClassVar[bool] = True

    @abstractmethod
    def values_of(self, part: np.ndarray, head: TileHead, region: Region) -> np.ndarray:
        """Return the values of the stored voxels of a region.

        Raises:
            ValueError: The head is damaged.
        """

    @abstractmethod
    def affine_of(self, head: TileHead) -> np.ndarray:
        """Return the matrix from voxels (x, y, z, 1) to millimetres right, anterior and superior.

        NaN where nothing tells them.

        Raises:
            ValueError: The head is damaged.
        """

    @property
    def mask_tiles(self) -> tuple[int, ...] | None:
        """Those of the volume along its axes in space; 32 where it has them by default, or none."""
        tiles: bool | tuple[int, ...] = getattr(self, "tiles", True)
        spatial = min(SPATIAL, len(self.shape))
        return (_SIDE,) * spatial if isinstance(tiles, bool) else tiles[:spatial]

    @property
    def drawn_as(self) -> str:
        """A volume, of which the viewer shows planes."""
        return "volume"

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the tiles over a region, by NumPy's indices."""
        region: Region = () if isinstance(request, Voxels) else request
        return super().wanted_parts(sample_map, region, tensor=tensor, row=row)

    def decode_parts(
        self, sample: SampleParts, request: Any, *, tensor: str, row: int
    ) -> np.ndarray | np.generic:
        """Decode a region from its tiles, and scale it."""
        head = self.head_of(sample.map, tensor=tensor, row=row)
        region: Region = () if isinstance(request, Voxels) else request
        part = self._region(sample, head, region, tensor, row)
        if isinstance(request, Voxels):
            return part
        try:
            values = self.values_of(np.asarray(part), head, region)
        except ValueError as error:
            raise self._corrupt(error, tensor, row) from error
        if self.dtype is not None:
            values = values.astype(self.dtype, copy=False)
        return values if isinstance(part, np.ndarray) else values[()]

    def _tiles_of(
        self, shape: tuple[int, ...], *, tiles: bool | tuple[int, ...]
    ) -> tuple[int, ...]:
        if tiles is False:
            return tuple(max(1, length) for length in shape)
        if tiles is True:
            spatial = min(SPATIAL, len(shape))
            return (_SIDE,) * spatial + (_CHANNELS,) * (len(shape) - spatial)
        return tiles
