"""Images in tiles: each tile is a file of the tensor's codec.

An image given as pixels is cut and encoded. A file is decoded first, of whatever codec: it is not
kept, so its codec is of no importance. Only files that were compressed with loss are refused where
the tiles would lose a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.errors import CorruptSampleError, SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.column import RaggedColumn
from tensorlake.types.base.errors import unreadable
from tensorlake.types.tiles import parse_tiles
from tensorlake.types.vision.codecs import CODECS, codec_of, too_many_pixels
from tensorlake.types.vision.image_file import file_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.base.base import SampleType
    from tensorlake.types.base.column import Buffer
    from tensorlake.types.base.errors import Place
    from tensorlake.types.vision.codecs import ImageCodec, PixelCodec

__all__ = ["ImageTiles", "parse_image_tiles", "pixels_of_file"]

_SIDES = 2


@dataclass(frozen=True, slots=True)
class ImageTiles:
    """Tiles as image files.

    Attributes:
        name: Name of their codec.
        quality: The quality with which they are encoded; None for the codec's.
    """

    name: ImageCodec
    quality: int | None = None

    def suited(self, tiles: Sequence[np.ndarray]) -> ImageTiles:
        """Return the codec itself."""
        del tiles
        return self

    def encode(self, tile: np.ndarray) -> bytes:
        """Encode one tile (height, width, channels)."""
        return CODECS[self.name].encode(np.ascontiguousarray(tile), self.quality)

    def decode(self, data: Buffer, tile: np.ndarray) -> None:
        """Decode one tile, of which the header has to promise what the tile holds.

        Raises:
            ValueError: It does not, or the data are damaged.
        """
        codec = CODECS[self.name]
        header = codec.parse_header(data)
        sides = (header.height, header.width)
        excess = too_many_pixels(self.name, len(data), *sides)
        if sides != tile.shape[:_SIDES] or excess is not None:
            raise ValueError(f"a tile of {sides}, where {tile.shape[:_SIDES]} should be")
        pixels = tile if tile.flags.c_contiguous else np.empty(tile.shape, tile.dtype)
        codec.decode(data, pixels)
        if pixels is not tile:
            tile[...] = pixels


def parse_image_tiles(
    tiles: object, codec: ImageCodec, shape: tuple[int | None, ...], dtype: np.dtype
) -> tuple[int, int]:
    """Check the height and width of a tile that a user declared.

    Raises:
        SchemaError: They are not two lengths above 0, or too large; or the codec is "any".
    """
    what = f"Image({codec})"
    if codec == "any":
        raise SchemaError(
            f"tiles={shown(tiles)} of Image(any): tiles are encoded by one codec"
            '\nname it: tl.Image("png", tiles=(512, 512)); files of the others are decoded',
            actual=tiles,
        )
    given = [*cast("tuple[int, ...]", tiles)] if isinstance(tiles, tuple | list) else []
    if len(given) != _SIDES or not all(is_whole_number(one) and one > 0 for one in given):
        raise SchemaError(
            f"tiles={shown(tiles)} of {what}: give the height and width of a tile, such as"
            " (512, 512)",
            actual=tiles,
        )
    height, width, _ = parse_tiles((*given, shape[-1] or 1), len(shape), dtype, what)
    limit = CODECS[codec].max_side
    if limit is not None and max(height, width) > limit:
        raise SchemaError(
            f"tiles={shown(tiles)} of {what}: its sides are 1 … {limit:,}\ngive smaller tiles",
            actual=tiles,
        )
    return height, width


def pixels_of_file(
    content: Buffer,
    whole: SampleType,
    codec: PixelCodec,
    sample: Any,
    place: Place,
    position: int,
) -> np.ndarray:
    """Decode a file, whose pixels are to be encoded in tiles.

    Args:
        content: The file.
        whole: The type that stores images of any codec whole, of the same mode.
        codec: That of the tiles.
        sample: The file as it was given, for errors.
        place: Where samples are given.
        position: That of the sample among them.

    Raises:
        InvalidInputError: It is not a whole image of the mode, or would lose a second time.
    """
    name = file_name(sample) or "the sample "
    own = codec_of(content)
    if own is not None and not codec.is_lossless and _has_lost(CODECS[own], content):
        reason = f"stores tiles of {codec.format}, and {name}is {CODECS[own].format}:"
        reason += " its pixels would be compressed with loss a second time"
        hint = 'use tl.Image("png", tiles=…), or give its pixels as an array to accept that'
        raise unreadable(place, position, reason, hint=hint)
    row = position if place.positions is None else int(place.positions[position])
    alone = replace(place, positions=np.array([row]))  # errors show the type in tiles
    column = whole.convert_values([sample if file_name(sample) else content], alone)
    try:
        decoded = whole.decode(column, tensor=place.tensor)
    except CorruptSampleError as error:
        reason = f"cannot take {name}({len(content):,} bytes): {error.actual}"
        raise unreadable(place, position, reason) from error
    assert isinstance(decoded, RaggedColumn)
    return decoded.sample(0)


def _has_lost(codec: PixelCodec, content: Buffer) -> bool:
    try:
        return codec.is_lossy(content)
    except ValueError:  # damaged, which its decoder describes
        return False
