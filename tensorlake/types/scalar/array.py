"""Array: samples that are arrays of one dtype, of fixed or varying shape."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.base import NO_DEFAULT, Layout, QueryKind, initialise
from tensorlake.types.base.casting import joined_column, ragged_column, uniform_values
from tensorlake.types.base.column import Column, UniformColumn
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.tiles import TiledSamples, check_of, columns_in_tiles, parse_tiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike

    from tensorlake.types.base.base import SampleType
    from tensorlake.types.base.errors import Place
    from tensorlake.types.base.ragged import Ragged
    from tensorlake.types.tiles.overview import Shrink

__all__ = ["Array", "Updates"]

Updates: TypeAlias = Literal["rewrite", "overlay"]

_CHANNELS = 4
_PLANE_NDIM = 2
_COLOURS = (1, 3, 4)
_MAX_NDIM = 32  # NumPy 1's limit
_MAX_LENGTH = 2**48  # no sample comes near; keeps products of hostile shapes inside int64


@dataclass(frozen=True, slots=True, init=False)
class Array(TiledSamples):
    """Arrays of one dtype; a None in the shape is any length.

    >>> Array("uint16", shape=(512,)).layout, Array("float32", shape=(None, 3)).layout
    ('uniform', 'ragged')

    With ``tiles`` each sample is stored as boxes of that size, compressed one by one: a region
    reads only the tiles that hold it. Meant for samples of many megabytes.

    >>> Array("uint16", (None, None), tiles=(256, 256)).layout
    'encoded'

    Attributes:
        dtype: Dtype of the elements.
        shape: Length of each axis.
        per: The tensor whose items (boxes) have one element each, along the first axis.
        tiles: Length of a tile along each axis; None where samples are stored whole.
        of: The tensor in parts that samples belong to, voxel by voxel or frame by frame: a loader
            reads the same part of both. For arrays in tiles.
        updates: How new values of some rows are stored: "rewrite" writes small chunks again,
            "overlay" only the new rows, in a chunk of each call, until ``optimize`` joins them with
            the others: for tables of which every commit changes rows here and there.
    """

    kind: ClassVar[str] = "array"

    dtype: np.dtype = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    shape: tuple[int | None, ...] = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    per: str | None = None
    tiles: tuple[int, ...] | None = None
    of: str | None = None
    updates: Updates = "rewrite"

    def __init__(
        self,
        dtype: DTypeLike,
        shape: Iterable[int | None],
        *,
        per: str | None = None,
        tiles: Iterable[int] | None = None,
        of: str | None = None,
        updates: Updates = "rewrite",
        nullable: bool = False,
        default: Any = NO_DEFAULT,
        personal: bool = False,
    ) -> None:
        elements, lengths = parse_dtype(dtype), _parse_shape(shape)
        what = f"Array({elements.name}, {lengths})"
        if not isinstance(updates, str) or updates not in get_args(Updates):
            raise SchemaError(
                f"{what}: updates={shown(updates)}\ngive 'rewrite' or 'overlay'", actual=updates
            )
        box = None if tiles is None else parse_tiles(tiles, len(lengths), elements, what)
        if box is not None and per is not None:
            raise SchemaError(f"{what}: per= and tiles= exclude each other\ngive one of them")
        check_of(of, what)
        if of is not None and box is None:
            raise SchemaError(
                f"{what}: of={shown(of)} is for arrays in tiles, of which parts are read"
                f"\ngive tiles=, such as {(32,) * len(lengths)}, or leave of= out"
            )
        if per is not None and lengths[:1] != (None,):
            raise SchemaError(
                f"Array of shape {lengths}: per={shown(per)} means one"
                f" element for each item of {shown(per)},"
                " and the first axis has a fixed length"
                "\ngive a shape whose first length varies: (None,)",
                actual=lengths,
            )
        initialise(
            self,
            dtype=elements,
            shape=lengths,
            per=per,
            tiles=box,
            of=of,
            updates=updates,
            nullable=nullable,
            default=default,
            personal=personal,
        )

    @property
    def layout(self) -> Layout:
        """Encoded in tiles; ragged when a length may vary."""
        if self.tiles is not None:
            return "encoded"
        return "ragged" if None in self.shape else "uniform"

    @property
    def is_media(self) -> bool:
        """Whether samples are decoded from tiles."""
        return self.tiles is not None

    @property
    def has_parts(self) -> bool:
        """Whether samples are tiles."""
        return self.tiles is not None

    @property
    def mask_tiles(self) -> tuple[int, ...] | None:
        """Those of the array; its last axis is channels if it has up to four of them."""
        if self.tiles is None or (self.shape[-1] or _CHANNELS + 1) > _CHANNELS:
            return self.tiles
        return self.tiles[:-1]

    @property
    def _shrink(self) -> Shrink | None:
        """How overviews of its samples are made; None where they are not images."""
        is_plane = len(self.shape) == _PLANE_NDIM
        is_image = len(self.shape) == _PLANE_NDIM + 1 and (self.shape[-1] or 0) in _COLOURS
        if not (is_plane or is_image) or self.dtype.kind not in "buif":
            return None
        return "pick" if self.of is not None or self.dtype.kind == "b" else "mean"

    @property
    def untiled(self) -> SampleType:
        """Arrays stored whole, of the same dtype and shape."""
        return self if self.tiles is None else replace(self, tiles=None, of=None)

    @property
    def query_kind(self) -> QueryKind:
        """Elements are numbers or bools."""
        return "bool" if self.dtype == np.bool_ else "number"

    def describe(self) -> str:
        """Name the dtype and the shape: ``Array(uint16, (512,))``."""
        more = f", per={self.per}" if self.per else ""
        more += f", tiles={self.tiles}" if self.tiles else ""
        more += f", of={self.of}" if self.of else ""
        return f"Array({self.dtype.name}, {self.shape}{more})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept arrays, nested lists, and tensors of other libraries."""
        if self.tiles is not None:
            plain = replace(self, tiles=None, of=None)  # refuses what does not fit
            column = plain.convert_values(samples, place)
            is_mask = self.of is not None
            return columns_in_tiles(
                column, self.tiles, place, has_classes=is_mask, shrink=self._shrink
            )
        if self.layout == "ragged":
            return ragged_column(samples, self.dtype, self.shape, place)
        fixed = tuple(length or 0 for length in self.shape)
        return UniformColumn(uniform_values(samples, self.dtype, fixed, place))

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Cast contiguous samples at once, where lengths may vary."""
        if self.layout != "ragged":
            return self.convert_values(list(samples), place)
        return joined_column(samples, self.dtype, self.shape, place)


def _parse_shape(shape: Iterable[int | None]) -> tuple[int | None, ...]:
    try:
        lengths = tuple(shape)
    except TypeError:
        lengths = ("?",)
    good = all(
        length is None or (is_whole_number(length) and 0 <= length < _MAX_LENGTH)
        for length in lengths
    )
    if not good or len(lengths) > _MAX_NDIM:
        raise SchemaError(
            f"{shown(shape)} is not a shape of samples"
            "\ngive a tuple of lengths, None where they vary: (512,) or (None, 4)",
            actual=shape,
        )
    return tuple(None if length is None else int(length) for length in lengths)
