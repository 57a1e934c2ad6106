"""TiledSamples: how types read samples that are stored in tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import (
    CorruptSampleError,
    InvalidInputError,
    SchemaError,
    did_you_mean,
    shown,
)
from tensorlake.types.base.base import SampleType
from tensorlake.types.base.column import EncodedColumn, as_ragged
from tensorlake.types.base.errors import unreadable
from tensorlake.types.tiles.box import box_of
from tensorlake.types.tiles.overview import Overview
from tensorlake.types.tiles.sample import (
    BLOSC_TILES,
    TileHead,
    read_overview,
    read_region,
    store_tiles,
    tile_map,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.types.base.column import Buffer, Column, SampleMap
    from tensorlake.types.base.errors import Place
    from tensorlake.types.base.parts import SampleParts
    from tensorlake.types.base.region import Region
    from tensorlake.types.tiles.overview import Shrink
    from tensorlake.types.tiles.sample import TileCodec

__all__ = [
    "TiledSamples",
    "check_of",
    "columns_in_tiles",
    "tiled_sample",
    "untiled",
    "untiled_column",
    "with_tiles_of",
]


class TiledSamples(SampleType):
    """A type whose samples are, or may be, arrays in tiles, of which a region is read alone."""

    __slots__ = ()

    @property
    def mask_tiles(self) -> tuple[int, ...] | None:
        """Lengths of a tile of masks that are declared ``of=`` the tensor; None for whole masks."""
        return None

    def tiled_as(self, other: TiledSamples) -> SampleType:
        """Return the type as it is declared ``of=`` a tensor in tiles."""
        del other
        return self

    @property
    def tile_codec(self) -> TileCodec:
        """The codec of the tiles."""
        return BLOSC_TILES

    @property
    def untiled(self) -> SampleType:
        """The type that has the same values stored whole; itself where it has no other."""
        return self

    def untile(self, column: Column, *, tensor: str = "") -> Column:
        """Return stored samples as those of `untiled`.

        Raises:
            CorruptSampleError: A tile cannot be decoded.
        """
        return self.decode(column, tensor=tensor)

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a sample from the table at its end."""
        try:
            return tile_map(sample)
        except ValueError as error:
            raise self._corrupt(error, tensor, row) from error

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the tiles over a region, by NumPy's indices; or the part that is the overview."""
        head = self.head_of(sample_map, tensor=tensor, row=row)
        if isinstance(request, Overview):
            self._check_overview(head, tensor, row)
            return np.array([len(head.grid)])
        return head.grid.over(box_of(head.shape, request, self.refusal(tensor, row)))

    def decode_parts(
        self, sample: SampleParts, request: Any, *, tensor: str, row: int
    ) -> np.ndarray | np.generic:
        """Decode a region from its tiles, or the overview."""
        head = self.head_of(sample.map, tensor=tensor, row=row)
        if isinstance(request, Overview):
            self._check_overview(head, tensor, row)
            try:
                return read_overview(sample, head, self.tile_codec)
            except (ValueError, RuntimeError) as error:
                raise self._corrupt(error, tensor, row) from error
        part = self._region(sample, head, request, tensor, row)
        return part if self.dtype is None else part.astype(self.dtype, copy=False)

    def head_of(self, sample_map: SampleMap, *, tensor: str, row: int) -> TileHead:
        """Read the head of a sample.

        Raises:
            CorruptSampleError: It is damaged, or not one of the type.
        """
        try:
            head = TileHead.parse(sample_map.head)
        except ValueError as error:
            raise self._corrupt(error, tensor, row) from error
        if head.codec != self.tile_codec.name or len(head.shape) != len(self.shape):
            why = f"it has tiles of {head.codec!r} and of the shape {head.shape}"
            raise self._corrupt(why, tensor, row)
        return head

    def _region(
        self, sample: SampleParts, head: TileHead, region: Region, tensor: str, row: int
    ) -> np.ndarray | np.generic:
        """Decode a region as it is stored."""
        try:
            return read_region(sample, head, region, self.tile_codec, self.refusal(tensor, row))
        except InvalidInputError:
            raise
        except (ValueError, RuntimeError) as error:
            raise self._corrupt(error, tensor, row) from error

    def _check_overview(self, head: TileHead, tensor: str, row: int) -> None:
        if head.overview is None:
            refused = self.refusal(tensor, row)
            raise refused(f"its shape is {head.shape}: it is stored without an overview")

    def _corrupt(self, error: Exception | str, tensor: str, row: int) -> CorruptSampleError:
        return CorruptSampleError(
            f"row {row} of {tensor!r} ({self.describe()}) cannot be decoded: {error}"
            "\nrestore the object from a copy, or update the row",
            tensor=tensor,
            row=row,
        )


def columns_in_tiles(
    column: Column,
    tiles: tuple[int, ...],
    place: Place,
    *,
    has_classes: bool = False,
    shrink: Shrink | None = None,
) -> EncodedColumn:
    """Encode the arrays of a column, checked and cast, by their tiles.

    Raises:
        InvalidInputError: A sample has too many tiles.
    """
    assert not isinstance(column, EncodedColumn)
    ragged = as_ragged(column)  # a view
    offsets, shapes = ragged.offsets.tolist(), ragged.shapes.tolist()
    samples: list[Buffer] = []
    maps: list[SampleMap | None] = []
    for position, shape in enumerate(shapes):
        values = ragged.values[offsets[position] : offsets[position + 1]].reshape(shape)
        sample, own = tiled_sample(
            values,
            tiles,
            BLOSC_TILES,
            place,
            position,
            has_classes=has_classes,
            shrink=shrink,
        )
        samples.append(sample)
        maps.append(own)
    return EncodedColumn(samples, ragged.shapes, None, maps)


def tiled_sample(
    values: np.ndarray,
    tiles: tuple[int, ...],
    codec: TileCodec,
    place: Place,
    position: int,
    *,
    has_classes: bool = False,
    shrink: Shrink | None = None,
) -> tuple[bytes, SampleMap]:
    """Encode an array by its tiles; see `store_tiles`.

    Raises:
        InvalidInputError: It has too many tiles.
    """
    try:
        return store_tiles(values, tiles, codec, has_classes=has_classes, shrink=shrink)
    except ValueError as error:
        raise unreadable(place, position, f"cannot be tiled: {error}") from error


def untiled(sample_type: SampleType) -> SampleType:
    """Return the type that has the same values stored whole; types without tiles unchanged."""
    return sample_type.untiled if isinstance(sample_type, TiledSamples) else sample_type


def untiled_column(sample_type: SampleType, column: Column, *, tensor: str = "") -> Column:
    """Return samples, as they are stored, as those of the `untiled` type.

    Raises:
        CorruptSampleError: A tile cannot be decoded.
    """
    if not isinstance(sample_type, TiledSamples):
        return column
    return sample_type.untile(column, tensor=tensor)


def with_tiles_of(
    types: Mapping[str, SampleType], there: Mapping[str, SampleType]
) -> dict[str, SampleType]:
    """Return new types; a mask ``of=`` a volume is a volume in the same tiles.

    Args:
        types: The types by tensor.
        there: Those of tensors that exist already.

    Raises:
        SchemaError: A type in parts is declared ``of=`` itself, a tensor whose samples are not in
            parts, or nearly the name of one.
    """
    known, made = {**there, **types}, dict(types)
    for name, one in types.items():
        of = getattr(one, "of", None)
        other = known.get(of) if isinstance(of, str) else None
        if isinstance(one, TiledSamples) and isinstance(other, TiledSamples):
            known[name] = made[name] = one.tiled_as(other)
    for name, one in made.items():
        of = getattr(one, "of", None)
        if one.has_parts and isinstance(of, str):
            _check_lead(name, one, of, known)
    return made


def _check_lead(name: str, one: SampleType, of: str, known: Mapping[str, SampleType]) -> None:
    """Refuse a type in parts that is not declared ``of=`` another tensor in parts."""
    if of == name:
        reason = "itself\nleave of= out"
    elif of not in known:  # left out of a copy, unless it is a typing error
        if not (hint := did_you_mean(of, [*known])):
            return
        reason = f"not a tensor{hint}\nwrite its name, or leave of= out"
    elif not known[of].has_parts and known[of].drawn_as != "image":
        reason = f"{known[of].describe()}, which is not in parts\nleave of= out"
    else:
        return
    raise SchemaError(f"{name!r} ({one.describe()}) is of={of!r}, {reason}", tensor=name, actual=of)


def check_of(of: object, what: str) -> None:
    """Refuse an ``of=`` that is not the name of a tensor.

    Raises:
        SchemaError: It is not.
    """
    if of is not None and not (isinstance(of, str) and of):
        raise SchemaError(
            f"{what}: of= is the name of a tensor, got {shown(of)}\nwrite of='ct', or leave it out",
            actual=of,
        )
