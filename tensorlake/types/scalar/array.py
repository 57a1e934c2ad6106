"""Array: samples that are arrays of one dtype, of fixed or varying shape."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.base import NO_DEFAULT, Layout, QueryKind, SampleType, initialise
from tensorlake.types.base.casting import joined_column, ragged_column, uniform_values
from tensorlake.types.base.column import (
    Buffer,
    Column,
    EncodedColumn,
    SampleMap,
    UniformColumn,
    as_ragged,
)
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.base.errors import unreadable
from tensorlake.types.tiles import (
    BLOSC_TILES,
    TileHead,
    box_of,
    parse_tiles,
    read_region,
    store_tiles,
    tile_map,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike

    from tensorlake.types.base.errors import Place
    from tensorlake.types.base.parts import SampleParts
    from tensorlake.types.base.ragged import Ragged

__all__ = ["Array", "untiled"]

_MAX_NDIM = 32  # NumPy 1's limit
_MAX_LENGTH = 2**48  # no sample comes near; keeps products of hostile shapes inside int64


@dataclass(frozen=True, slots=True, init=False)
class Array(SampleType):
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
    """

    kind: ClassVar[str] = "array"

    dtype: np.dtype = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    shape: tuple[int | None, ...] = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    per: str | None = None
    tiles: tuple[int, ...] | None = None

    def __init__(
        self,
        dtype: DTypeLike,
        shape: Iterable[int | None],
        *,
        per: str | None = None,
        tiles: Iterable[int] | None = None,
        nullable: bool = False,
        default: Any = NO_DEFAULT,
    ) -> None:
        elements, lengths = parse_dtype(dtype), _parse_shape(shape)
        what = f"Array({elements.name}, {lengths})"
        box = None if tiles is None else parse_tiles(tiles, len(lengths), elements, what)
        if box is not None and per is not None:
            raise SchemaError(f"{what}: per= and tiles= exclude each other\ngive one of them")
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
            nullable=nullable,
            default=default,
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
    def query_kind(self) -> QueryKind:
        """Elements are numbers or bools."""
        return "bool" if self.dtype == np.bool_ else "number"

    def describe(self) -> str:
        """Name the dtype and the shape: ``Array(uint16, (512,))``."""
        more = f", per={self.per}" if self.per else ""
        more += f", tiles={self.tiles}" if self.tiles else ""
        return f"Array({self.dtype.name}, {self.shape}{more})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept arrays, nested lists, and tensors of other libraries."""
        if self.tiles is not None:
            plain = replace(self, tiles=None)  # refuses what does not fit
            return self._in_tiles(plain.convert_values(samples, place), self.tiles, place)
        if self.layout == "ragged":
            return ragged_column(samples, self.dtype, self.shape, place)
        fixed = tuple(length or 0 for length in self.shape)
        return UniformColumn(uniform_values(samples, self.dtype, fixed, place))

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Cast contiguous samples at once, where lengths may vary."""
        if self.layout != "ragged":
            return self.convert_values(list(samples), place)
        return joined_column(samples, self.dtype, self.shape, place)

    # ---- tiles

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a sample from the table at its end."""
        try:
            return tile_map(sample)
        except ValueError as error:
            raise self._corrupt(error, tensor, row) from error

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the tiles over a region, by NumPy's indices."""
        head = self._head(sample_map, tensor, row)
        return head.grid.over(box_of(head.shape, request, self.refusal(tensor, row)))

    def decode_parts(
        self, sample: SampleParts, request: Any, *, tensor: str, row: int
    ) -> np.ndarray | np.generic:
        """Decode a region from its tiles."""
        head = self._head(sample.map, tensor, row)
        try:
            part = read_region(sample, head, request, self.refusal(tensor, row))
        except InvalidInputError:
            raise
        except (ValueError, RuntimeError) as error:
            raise self._corrupt(error, tensor, row) from error
        return part.astype(self.dtype, copy=False)

    def _in_tiles(self, column: Column, tiles: tuple[int, ...], place: Place) -> EncodedColumn:
        """Encode arrays, checked and cast, by their tiles."""
        assert not isinstance(column, EncodedColumn)
        ragged = as_ragged(column)  # a view
        offsets, shapes = ragged.offsets.tolist(), ragged.shapes.tolist()
        samples: list[Buffer] = []
        maps: list[SampleMap | None] = []
        for position, shape in enumerate(shapes):
            values = ragged.values[offsets[position] : offsets[position + 1]].reshape(shape)
            try:
                sample, own = store_tiles(values, tiles, BLOSC_TILES)
            except ValueError as error:
                raise unreadable(place, position, f"cannot be tiled: {error}") from error
            samples.append(sample)
            maps.append(own)
        return EncodedColumn(samples, ragged.shapes, None, maps)

    def _head(self, sample_map: SampleMap, tensor: str, row: int) -> TileHead:
        try:
            head = TileHead.parse(sample_map.head)
        except ValueError as error:
            raise self._corrupt(error, tensor, row) from error
        if head.codec != BLOSC_TILES.name or len(head.shape) != len(self.shape):
            why = f"it has tiles of {head.codec!r} and of the shape {head.shape}"
            raise self._corrupt(why, tensor, row)
        return head

    def _corrupt(self, error: Exception | str, tensor: str, row: int) -> CorruptSampleError:
        return CorruptSampleError(
            f"row {row} of {tensor!r} ({self.describe()}) cannot be decoded: {error}"
            "\nrestore the object from a copy, or update the row",
            tensor=tensor,
            row=row,
        )


def untiled(sample_type: SampleType) -> SampleType:
    """Return the type that has the same values stored whole; other types than arrays unchanged.

    >>> untiled(Array("uint8", (None,), tiles=(256,))).describe()
    'Array(uint8, (None,))'
    """
    if isinstance(sample_type, Array) and sample_type.tiles is not None:
        return replace(sample_type, tiles=None)
    return sample_type


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
