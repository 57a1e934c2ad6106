"""Dicom: volumes of DICOM series, stored in tiles.

    {"ct": "study/series-3"}                  a folder of the files of one series, in any order
    {"ct": ["1.dcm", "2.dcm", …]}             files, by their paths or bytes
    {"ct": "multi-frame.dcm"}                 one file, of one frame or of several

Slices are decoded, sorted along their normal, and stored in tiles beside their geometry. No other
attribute is stored unless the type names it, since attributes may identify a person.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np

from tensorlake.errors import InvalidInputError, SchemaError, TensorlakeError, shown
from tensorlake.quantities import check_flags, checked_integer
from tensorlake.types.base.base import check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, SampleMap
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.base.errors import (
    Place,
    describe_value,
    dtype_mismatch,
    listed,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import File, given_bytes
from tensorlake.types.base.parts import SampleHandle
from tensorlake.types.tiles import (
    BLOSC_TILES,
    TileHead,
    check_of,
    is_tiled,
    parse_tiles,
    store_tiles,
)
from tensorlake.types.volumes.dicom_head import DicomHead
from tensorlake.types.volumes.dicom_series import DicomSeries, read_series
from tensorlake.types.volumes.dicom_volume import DicomVolume
from tensorlake.types.volumes.tiled import SPATIAL, TiledVolume, Voxels, stored_voxels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike

    from tensorlake.types.base.region import Region

__all__ = ["Dicom"]

_COLOURED: Final = 4


@dataclass(frozen=True, slots=True)
class Dicom(TiledVolume):
    """Volumes of DICOM series, stored in tiles and read as [z, y, x].

    A sample is a folder with the files of one series, a list of files, or one file; its slices are
    sorted by their position along the normal of their orientation, ascending. Values are the stored
    integers, or with ``rescale`` those of the modality: Hounsfield units of CT.

    >>> Dicom(("Modality",), "int16").describe(), Dicom(rescale=True).dtype
    ('Dicom(int16)', dtype('float32'))

    Attributes:
        headers: Keywords of attributes of the whole series that are stored, such as "Modality".
            All others are left out.
        dtype: Dtype of the values; None for that of each series. Every stored integer must be exact
            in it. With ``rescale`` it is a float, float32 unless given.
        rescale: Whether values are scaled by the slope and the intercept of each slice.
        ndim: 3, or 4 for series in colours, read as [z, y, x, 3].
        tiles: Lengths of a tile along each axis; True for 32; False for one tile a volume.
        max_nbytes: Bytes of voxels up to which files may be any fraction of them.
        of: The volume that samples are registered with, voxel by voxel: a loader reads the same
            part of both.
    """

    kind: ClassVar[str] = "dicom"

    headers: tuple[str, ...] = ()
    dtype: np.dtype | None = None  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    rescale: bool = False
    ndim: int = 3
    tiles: bool | tuple[int, ...] = True
    max_nbytes: int = 1 << 30
    of: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            headers: Iterable[str] = (),
            dtype: DTypeLike | None = None,
            rescale: bool = False,  # noqa: FBT001, FBT002 - as the schema has it
            ndim: int = 3,
            tiles: bool | Iterable[int] = True,  # noqa: FBT001, FBT002 - as the schema has it
            max_nbytes: int = 1 << 30,
            of: str | None = None,
            *,
            nullable: bool = False,
            default: Any = None,
            personal: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        names = listed(self.headers)
        if names is None or not all(isinstance(one, str) and one.isidentifier() for one in names):
            raise SchemaError(
                f"headers={shown(self.headers)} is not a list of keywords of DICOM"
                '\nwrite tl.Dicom(headers=("Modality", "PatientAge"))',
                actual=self.headers,
            )
        object.__setattr__(self, "headers", names)
        check_flags(rescale=self.rescale)
        limits = {"ndim": (SPATIAL, _COLOURED), "max_nbytes": (1, 1 << 62)}
        for name, (least, most) in limits.items():
            try:
                value = getattr(self, name)
                plain = checked_integer(value, name=f"Dicom: {name}", least=least, most=most)
            except InvalidInputError as error:
                raise SchemaError(str(error), actual=getattr(self, name)) from error
            object.__setattr__(self, name, plain)
        dtype = "float32" if self.dtype is None and self.rescale else self.dtype
        if dtype is not None:
            object.__setattr__(self, "dtype", parse_dtype(dtype))
        if self.rescale and self.dtype is not None and self.dtype.kind != "f":
            raise SchemaError(
                f"Dicom: rescaled values are floats, got dtype={self.dtype.name}"
                '\nwrite tl.Dicom(rescale=True, dtype="float32")',
                actual=self.dtype.name,
            )
        if not isinstance(self.tiles, bool):
            widest = np.dtype(np.float64)
            tiles = parse_tiles(self.tiles, self.ndim, self.dtype or widest, "Dicom")
            object.__setattr__(self, "tiles", tiles)
        check_of(self.of, "Dicom")
        check_default(self)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Any length along each axis."""
        return (None,) * self.ndim

    @property
    def handle_class(self) -> type[SampleHandle]:
        """Handles with `spacing`, `orientation` and `rescale`."""
        return DicomVolume

    def describe(self) -> str:
        """Show the dtype: ``Dicom(int16)``."""
        given = [] if self.dtype is None else [self.dtype.name]
        given += ["rescale"] if self.rescale else []
        given += [] if self.ndim == SPATIAL else [f"ndim={self.ndim}"]
        return f"Dicom({', '.join(given)})" if given else "Dicom"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"the files of one DICOM series, or their folder ({self.describe()})"

    # ---- writing

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept folders, lists of files, files, and handles."""
        stored: list[Buffer] = []
        maps: list[SampleMap | None] = []
        shapes: list[tuple[int, ...]] = []
        for position, sample in enumerate(samples):
            series = self._series(sample, place, position)
            self._check(series, place, position)
            tiles = self._tiles_of(series.voxels.shape, tiles=self.tiles)
            more = series.head.to_bytes()
            try:
                encoded, own = store_tiles(series.voxels, tiles, BLOSC_TILES, more=more)
            except ValueError as error:
                raise unreadable(place, position, f"cannot be tiled: {error}") from error
            stored.append(encoded)
            maps.append(own)
            shapes.append(series.voxels.shape)
        return EncodedColumn(stored, np.array(shapes, np.int64).reshape(-1, self.ndim), None, maps)

    def _series(self, sample: Any, place: Place, position: int) -> DicomSeries:
        if isinstance(sample, DicomVolume):
            head = TileHead.parse(sample.head)
            return DicomSeries(DicomHead.parse(head.more), sample.read(Voxels()))
        name = repr(str(sample.path)) if isinstance(sample, File) else "a sample"
        if isinstance(sample, str | os.PathLike):
            name = repr(str(sample))
            if Path(sample).is_dir():
                sample = [one for one in sorted(Path(sample).iterdir()) if _is_file(one)]
                if not sample:
                    raise unreadable(place, position, f"cannot take {name}: it has no files")
        given = cast("list[Any]", sample if isinstance(sample, list | tuple) else [sample])
        contents = [given_bytes(one, place, position) for one in given]
        if not contents or any(one is None for one in contents):
            raise dtype_mismatch(place, position, describe_value(sample))
        files = [one for one in contents if one is not None]
        try:
            if len(files) == 1 and is_tiled(files[0]):  # as exported
                head, voxels = stored_voxels(files[0], self.max_nbytes)
                return DicomSeries(DicomHead.parse(head.more), voxels)
            return read_series(files, self.headers, self.max_nbytes, [_path(one) for one in given])
        except TensorlakeError:
            raise
        except ValueError as error:
            reason, _, hint = str(error).partition("\n")
            reason = f"cannot take {name}, not a whole DICOM series: {reason}"
            raise unreadable(place, position, reason, hint=hint) from error

    def _check(self, series: DicomSeries, place: Place, position: int) -> None:
        """Refuse colours or greys where others are declared, and integers that are not exact."""
        stored = series.voxels.dtype
        if series.voxels.ndim != self.ndim:
            hint = f"use tl.Dicom(ndim={series.voxels.ndim}), or ingest it into another tensor"
            raise shape_mismatch(place, position, f"{series.voxels.shape}", hint=hint)
        if self.rescale or self.dtype is None or np.can_cast(stored, self.dtype, "safe"):
            return
        hint = f"use tl.Dicom(dtype={stored.name!r}), or tl.Dicom() for series of several dtypes"
        raise dtype_mismatch(place, position, f"a series with {stored.name} voxels", hint=hint)

    # ---- reading

    def values_of(self, part: np.ndarray, head: TileHead, region: Region) -> np.ndarray:
        """Return the values of stored voxels, scaled if the type asks for it."""
        if not self.rescale:
            return part
        return DicomHead.parse(head.more).rescaled(part, head.shape, region)

    def affine_of(self, head: TileHead) -> np.ndarray:
        """Return the affine of the series, whose patients are seen as NIfTI sees them."""
        return np.diag([-1.0, -1.0, 1.0, 1.0]) @ DicomHead.parse(head.more).affine


def _path(sample: Any) -> str | None:
    """Return the path of a given file; None for bytes."""
    if isinstance(sample, File):
        return str(sample.path)
    return str(sample) if isinstance(sample, str | os.PathLike) else None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and path.name != "DICOMDIR"
