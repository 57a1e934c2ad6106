"""Nifti: volumes of NIfTI files, stored in tiles.

    {"scan": "sub-01/T1w.nii.gz"}                        a file, by its path or its bytes
    {"scan": {"voxels": array, "affine": matrix}}        an array [z, y, x], or [z, y, x, channel]
    {"scan": nibabel.load("T1w.nii.gz")}                 an image of nibabel

A volume is not stored as its file, which can only be decompressed from its start, but in tiles,
beside its header. Voxels are stored as in the file, and scaled when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np

from tensorlake.errors import (
    InvalidInputError,
    SchemaError,
    TensorlakeError,
    shown,
)
from tensorlake.quantities import checked_integer
from tensorlake.types.base.base import check_default
from tensorlake.types.base.casting import to_array
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, SampleMap
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.base.errors import (
    Place,
    describe_value,
    dtype_mismatch,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import File, given_bytes
from tensorlake.types.base.parts import MemorySample, SampleHandle
from tensorlake.types.tiles import (
    BLOSC_TILES,
    TileHead,
    check_of,
    is_tiled,
    parse_tiles,
    store_tiles,
)
from tensorlake.types.volumes.nifti_file import (
    NiftiFile,
    NiftiHeader,
    file_of_image,
    header_of,
    nibabel,
    read_file,
    type_of_voxels,
)
from tensorlake.types.volumes.tiled import (
    MATRIX,
    SPATIAL,
    TiledVolume,
    Voxels,
    stored_voxels,
)
from tensorlake.types.volumes.volume import NiftiVolume

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike

    from tensorlake.types.base.region import Region

__all__ = ["Nifti"]

_MAX_NDIM: Final = 8
_MAX_LENGTH: Final = 32_767  # along an axis, of NIfTI-1


@dataclass(frozen=True, slots=True)
class Nifti(TiledVolume):
    """Volumes of NIfTI-1 and NIfTI-2 files, stored in tiles and read as [z, y, x, …].

    A sample is a path, the bytes or a file object of ``.nii`` or ``.nii.gz``; a mapping
    ``{"voxels": array, "affine": matrix}``; or an image of nibabel. The first three axes of a file
    (x, y, z) are reversed. Values are those that nibabel gives: the stored voxels, or float64 where
    the header scales them. Texts and extensions of the header are not stored.

    >>> Nifti("float32").describe(), Nifti("int16", ndim=4).shape
    ('Nifti(float32)', (None, None, None, None))

    Attributes:
        dtype: Dtype of the values; None for that of each file. Floats may be narrowed; other
            values must be exact in it.
        ndim: Number of axes: 3, or 4 with channels or times.
        tiles: Lengths of a tile along each axis; True for 32 along z, y and x, 4 along others;
            False for one tile a volume.
        max_nbytes: Bytes of voxels up to which a file may be any fraction of them. A larger volume
            is refused if its file has less than a twentieth.
        of: The volume that samples are registered with, voxel by voxel: a loader reads the same
            part of both.
    """

    kind: ClassVar[str] = "nifti"

    dtype: np.dtype | None = None  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    ndim: int = 3
    tiles: bool | tuple[int, ...] = True
    max_nbytes: int = 1 << 30
    of: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            dtype: DTypeLike | None = None,
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
        limits = {"ndim": (1, _MAX_NDIM), "max_nbytes": (1, 1 << 62)}
        for name, (least, most) in limits.items():
            try:
                plain = checked_integer(
                    getattr(self, name), name=f"Nifti: {name}", least=least, most=most
                )
            except InvalidInputError as error:
                raise SchemaError(str(error), actual=getattr(self, name)) from error
            object.__setattr__(self, name, plain)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", parse_dtype(self.dtype))
        if not isinstance(self.tiles, bool):
            widest = np.dtype(np.complex128)
            tiles = parse_tiles(self.tiles, self.ndim, self.dtype or widest, "Nifti")
            object.__setattr__(self, "tiles", tiles)
        check_of(self.of, "Nifti")
        check_default(self)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Any length along each axis."""
        return (None,) * self.ndim

    @property
    def handle_class(self) -> type[SampleHandle]:
        """Handles with `affine`, `zooms` and `header`."""
        return NiftiVolume

    def describe(self) -> str:
        """Show the dtype, and the number of axes unless it is 3: ``Nifti(int16, ndim=4)``."""
        given = [] if self.dtype is None else [self.dtype.name]
        given += [] if self.ndim == SPATIAL else [f"ndim={self.ndim}"]
        return f"Nifti({', '.join(given)})" if given else "Nifti"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"a NIfTI file of {self.ndim} axes, or an array with its affine ({self.describe()})"

    # ---- writing

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept paths, bytes, files, arrays with an affine, images of nibabel, and handles."""
        stored: list[Buffer] = []
        maps: list[SampleMap | None] = []
        shapes: list[tuple[int, ...]] = []
        for position, sample in enumerate(samples):
            file = self._file(sample, place, position)
            self._check(file, _named(sample), place, position)
            tiles = self._tiles_of(file.voxels.shape, tiles=self.tiles)
            more = file.header.to_bytes()
            try:
                encoded, own = store_tiles(
                    file.voxels,
                    tiles,
                    BLOSC_TILES,
                    more=more,
                    has_classes=self.of is not None and not file.header.is_scaled,
                )
            except ValueError as error:
                raise unreadable(place, position, f"cannot be tiled: {error}") from error
            stored.append(encoded)
            maps.append(own)
            shapes.append(file.voxels.shape)
        return EncodedColumn(stored, np.array(shapes, np.int64).reshape(-1, self.ndim), None, maps)

    def _file(self, sample: Any, place: Place, position: int) -> NiftiFile:
        if isinstance(sample, NiftiVolume):
            head = TileHead.parse(sample.head)
            return NiftiFile(NiftiHeader.parse(head.more), sample.read(Voxels()))
        content = given_bytes(sample, place, position)
        try:
            if content is not None and is_tiled(content):  # as exported
                head, voxels = stored_voxels(content, self.max_nbytes)
                return NiftiFile(NiftiHeader.parse(head.more), voxels)
            if content is not None:
                return read_file(content, self.max_nbytes)
            if isinstance(sample, Mapping):
                return self._of_mapping(cast("Mapping[str, Any]", sample), place, position)
            return _of_image(sample, place, position)
        except TensorlakeError:
            raise
        except ValueError as error:
            reason, _, hint = str(error).partition("\n")
            reason = f"cannot take {_named(sample)}, not a whole NIfTI file: {reason}"
            raise unreadable(place, position, reason, hint=hint) from error

    @classmethod
    def of_file(cls, content: Buffer) -> Nifti:
        """Return the type of a file's values.

        Raises:
            ValueError: It is not a whole NIfTI file.
        """
        dtype, ndim = type_of_voxels(content)
        made = cls(dtype, ndim)
        read_file(content, made.max_nbytes)
        return made

    def _of_mapping(self, given: Mapping[str, Any], place: Place, position: int) -> NiftiFile:
        if set(given) != {"voxels", "affine"}:
            described = f"a mapping with the keys {shown(sorted(map(str, given)))}"
            hint = 'give {"voxels": array, "affine": matrix}'
            raise dtype_mismatch(place, position, described, hint=hint)
        try:
            voxels, affine = to_array(given["voxels"]), to_array(given["affine"])
        except ValueError as error:
            raise shape_mismatch(place, position, describe_value(given["voxels"])) from error
        if voxels.ndim != self.ndim:
            raise shape_mismatch(place, position, describe_value(voxels))
        is_matrix = affine.shape == MATRIX and affine.dtype.kind in "iuf"
        if not is_matrix or not bool(np.isfinite(affine).all()):
            hint = "it maps voxels (x, y, z, 1) to millimetres; without one, give np.eye(4)"
            described = f"the affine {describe_value(affine)}"
            if is_matrix:
                described = "an affine with NaN or infinite numbers"
                raise unreadable(place, position, f"cannot take {described}", hint=hint)
            raise shape_mismatch(place, position, described, hint=hint)
        spatial = min(SPATIAL, voxels.ndim)
        lengths = (*reversed(voxels.shape[:spatial]), *voxels.shape[spatial:])
        library = nibabel()
        kind = library.Nifti1Image
        if max(lengths, default=0) > _MAX_LENGTH:
            kind = library.Nifti2Image
        voxels = voxels.astype(np.uint8) if voxels.dtype == np.bool_ else voxels
        try:
            image = kind(np.broadcast_to(voxels.dtype.type(0), lengths), affine, dtype=voxels.dtype)
        except library.spatialimages.HeaderDataError as error:
            hint = "cast it to float32, or store it as tl.Array"
            raise dtype_mismatch(place, position, describe_value(voxels), hint=hint) from error
        return NiftiFile(header_of(image.header, np.asarray(affine, np.float64)), voxels)

    def _check(self, file: NiftiFile, name: str, place: Place, position: int) -> None:
        """Refuse another number of axes, and values that are not exact in the declared dtype."""
        if file.voxels.ndim != self.ndim:
            hint = f"use tl.Nifti(ndim={file.voxels.ndim}), or ingest it into another tensor"
            described = f"{name} of shape {file.voxels.shape}"
            raise shape_mismatch(place, position, described, hint=hint)
        stored = file.voxels.dtype.newbyteorder("=")
        values = file.header.scaled_dtype(stored)
        if self.dtype in (None, values):
            return
        assert self.dtype is not None
        narrows = values.kind == self.dtype.kind and values.kind in "fc"
        if not narrows and not np.can_cast(values, self.dtype, "safe"):
            scaled = ", which its header scales" if file.header.is_scaled else ""
            hint = f"use tl.Nifti({values.name!r}), or tl.Nifti() for files of several dtypes"
            described = f"{name} with {stored.name} voxels{scaled}"
            raise dtype_mismatch(place, position, described, hint=hint)

    # ---- reading

    def file_of(self, sample: Buffer, *, tensor: str = "", row: int = 0) -> bytes:
        """Return a stored sample as a file, ``.nii``."""
        own = self.map_of(sample, tensor=tensor, row=row)
        return NiftiVolume(self, MemorySample(sample, own, None, tensor, row)).file()

    def values_of(self, part: np.ndarray, head: TileHead, region: Region) -> np.ndarray:
        """Return the values of stored voxels, scaled as the header asks."""
        del region
        return NiftiHeader.parse(head.more).scaled(part)

    def affine_of(self, head: TileHead) -> np.ndarray:
        """Return the affine of the file."""
        return NiftiHeader.parse(head.more).affine


def _of_image(sample: Any, place: Place, position: int) -> NiftiFile:
    """Read an image of nibabel: its stored voxels if it is a file, else its array."""
    if not hasattr(sample, "dataobj") or not hasattr(sample, "affine"):
        is_array = hasattr(sample, "__array__")
        hint = "an array needs its affine: {'voxels': array, 'affine': np.eye(4)}"
        raise dtype_mismatch(place, position, describe_value(sample), hint=hint if is_array else "")
    library = nibabel()
    if not isinstance(sample, library.Nifti1Image):  # NIfTI-2's is derived from it
        described = f"an image of nibabel, {type(sample).__name__}"
        hint = "convert it: nibabel.Nifti1Image(image.get_fdata(), image.affine)"
        raise dtype_mismatch(place, position, described, hint=hint)
    return file_of_image(sample)


def _named(sample: Any) -> str:
    if isinstance(sample, (str, File)) or hasattr(sample, "__fspath__"):
        return repr(str(sample.path if isinstance(sample, File) else sample))
    return "a sample"
