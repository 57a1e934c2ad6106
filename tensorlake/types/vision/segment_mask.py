"""SegmentMask: a class for each pixel, or for each voxel of a volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.base import (
    MEDIA_CHUNK_NBYTES,
    NO_DEFAULT,
    Layout,
    QueryKind,
    initialise,
)
from tensorlake.types.base.casting import ragged_column
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.base.errors import listed
from tensorlake.types.scalar.array import Array
from tensorlake.types.scalar.labels import unknown_class
from tensorlake.types.tiles import TiledSamples, columns_in_tiles, parse_tiles
from tensorlake.types.vision.pixels import mask_array

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike

    from tensorlake.types.base.base import SampleType
    from tensorlake.types.base.column import Column
    from tensorlake.types.base.errors import Place

__all__ = ["SegmentMask"]

_PLANE_NDIM = 2


@dataclass(frozen=True, slots=True, init=False)
class SegmentMask(TiledSamples):
    """The code of a class for each pixel: uint8 or uint16 (height, width), compressed.

    Accepts arrays of integers, PNG files (also with a palette) and PIL images of one channel.

    A mask declared ``of=`` a volume, or another tensor in tiles, has the axes of its tiles: the
    mask of a CT is [z, y, x]. A loader's `RandomPatch` reads the same part of both.

    >>> SegmentMask(["road", "car"], ignore=255).convert([[[0, 255]]], tensor="mask").sample(0)
    array([[  0, 255]], dtype=uint8)

    Attributes:
        names: The class names; a class's position is its code. Without names every code is valid.
        of: The image tensor that it annotates.
        ignore: A code that means no class, such as 255.
        dtype: Dtype of the codes.
        tiles: Lengths of a tile along each axis, as many as the mask has axes; None for those of
            the tensor that it is of, or for whole masks of two axes.
    """

    kind: ClassVar[str] = "segment_mask"

    names: Sequence[str] = ()
    of: str | None = None
    ignore: int | None = None
    dtype: np.dtype = field(default=np.dtype(np.uint8))  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    tiles: tuple[int, ...] | None = None

    def __init__(
        self,
        names: Sequence[str] = (),
        of: str | None = None,
        *,
        ignore: int | None = None,
        dtype: DTypeLike = "uint8",
        tiles: Iterable[int] | None = None,
        nullable: bool = False,
        default: Any = NO_DEFAULT,
        personal: bool = False,
    ) -> None:
        found = listed(names)
        if found is None or not all(isinstance(name, str) and name for name in found):
            raise SchemaError(
                f"class names must be non-empty strings, got {shown(names)}"
                '\ngive a list: SegmentMask(["road", "car"])',
                actual=names,
            )
        names = found
        if ignore is not None and not is_whole_number(ignore):
            message = f"ignore is the code of a class, an integer, got {shown(ignore)}"
            raise SchemaError(message, actual=ignore)
        if len(set(names)) < len(names):
            twice = next(name for name in names if [*names].count(name) > 1)
            message = f"the class name {twice!r} is given twice\nnames must differ"
            raise SchemaError(message, actual=twice)
        codes = parse_dtype(dtype)
        largest = max(len(names) - 1, 0 if ignore is None else ignore)
        if codes.name not in ("uint8", "uint16") or largest > np.iinfo(codes).max:
            raise SchemaError(
                f"a segmentation of {len(names)} classes cannot be {codes.name}"
                "\nuse dtype='uint8' (up to 256 codes) or 'uint16'",
                actual=codes.name,
            )
        if ignore is not None and not 0 <= ignore <= np.iinfo(codes).max:
            message = f"ignore={shown(ignore)} is not a code of {codes.name}\ngive one, such as 255"
            raise SchemaError(message, actual=ignore)
        initialise(
            self,
            names=tuple(names),
            of=of,
            ignore=ignore,
            dtype=codes,
            tiles=_parse_tiles(tiles, codes),
            nullable=nullable,
            default=default,
            personal=personal,
        )

    @property
    def layout(self) -> Layout:
        """Each row has a mask of its own size, in tiles or whole."""
        return "ragged" if self.tiles is None else "encoded"

    @property
    def is_media(self) -> bool:
        """Whether masks are decoded from tiles."""
        return self.tiles is not None

    @property
    def has_parts(self) -> bool:
        """Whether masks are tiles."""
        return self.tiles is not None

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Height and width, or the axes of the volume."""
        return (None,) * (_PLANE_NDIM if self.tiles is None else len(self.tiles))

    @property
    def drawn_as(self) -> str:
        """A segmentation; with more axes than an image has, a volume."""
        return self.kind if len(self.shape) == _PLANE_NDIM else "volume"

    @property
    def mask_tiles(self) -> tuple[int, ...] | None:
        """Those of the mask."""
        return self.tiles

    @property
    def untiled(self) -> SampleType:
        """Arrays of codes."""
        return self if self.tiles is None else Array(self.dtype, self.shape, nullable=self.nullable)

    def tiled_as(self, other: TiledSamples) -> SegmentMask:
        """Return the mask of a tensor in tiles, in its tiles unless it has its own."""
        is_given = self.tiles is not None or other.mask_tiles is None
        return self if is_given else replace(self, tiles=other.mask_tiles)

    @property
    def query_kind(self) -> QueryKind:
        """An array of codes."""
        return "number"

    @property
    def chunk_nbytes(self) -> int:
        """The same as for images: a mask has as many pixels, and compresses to a fraction."""
        return MEDIA_CHUNK_NBYTES

    def describe(self) -> str:
        """Show the number of classes: ``SegmentMask(19)``."""
        given = [str(len(self.names))] if self.names else []
        given += [f"tiles={self.tiles}"] if self.tiles else []
        return f"SegmentMask({', '.join(given)})" if given else "SegmentMask"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept masks in any of the forms above; codes without a class are errors."""
        masks: list[np.ndarray] = []
        for position, sample in enumerate(samples):
            mask = mask_array(sample, place, position, ndim=len(self.shape))
            self._check_codes(mask, place, position)
            masks.append(mask)
        column = ragged_column(masks, self.dtype, self.shape, place)
        if self.tiles is None:
            return column
        shrink = "pick" if len(self.tiles) == _PLANE_NDIM else None
        return columns_in_tiles(column, self.tiles, place, has_classes=True, shrink=shrink)

    def _check_codes(self, mask: np.ndarray, place: Place, position: int) -> None:
        if not self.names or not mask.size:
            return
        outside = mask >= len(self.names)
        if self.ignore is not None:
            outside &= mask != self.ignore
        if bool(outside.any()):
            row = place.row(position)
            where = f"  ({place.at(position)}; nothing was staged)"
            code = int(mask[outside][0])
            raise unknown_class(code, self.names, tensor=place.tensor, where=where, row=row)


def _parse_tiles(tiles: Iterable[int] | None, dtype: np.dtype) -> tuple[int, ...] | None:
    """Check the lengths of a tile, of which there are as many as the mask has axes."""
    if tiles is None:
        return None
    lengths = listed(tiles)
    ndim = max(_PLANE_NDIM, len(lengths or ()))
    return parse_tiles(lengths or (), ndim, dtype, "SegmentMask")
