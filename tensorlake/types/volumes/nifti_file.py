"""NIfTI files: a header of 348 or 540 bytes, and voxels in Fortran order, perhaps compressed.

    .nii       header │ extensions │ voxels        NIfTI-1.1 and NIfTI-2 of nifti.nimh.nih.gov
    .nii.gz    the same, as gzip

    array      [z, y, x, …]: the first three axes of the file (x, y, z, t, …) reversed
    colours    the bytes of RGB and RGBA are a last axis

nibabel parses headers. The size of the voxels follows from the header alone, is bounded before
anything is decompressed, and no more than that is. Texts of the header and its extensions, which
may name a patient, are left out.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import struct
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, cast

import numpy as np

from tensorlake.errors import SchemaError, missing_extra
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.volumes.tiled import MATRIX, SPATIAL, check_size

if TYPE_CHECKING:
    from types import ModuleType

    from tensorlake.types.base.column import Buffer

__all__ = [
    "NiftiFile",
    "NiftiHeader",
    "file_of_image",
    "header_of",
    "nibabel",
    "read_file",
    "type_of_voxels",
    "write_file",
]

_FIRST: Final = 348
_SIZES: Final = {_FIRST: b"n+1\0", 540: b"n+2\0"}
_MAGIC_AT: Final = {348: 344, 540: 4}
_TEXTS: Final = ("descrip", "aux_file", "intent_name", "db_name", "data_type")
_GZIP: Final = b"\x1f\x8b"
_MAX_OFFSET: Final = 1 << 26  # after extensions of the header
_BLOCK_NBYTES: Final = 1 << 22
_TRAILING_NBYTES: Final = 1 << 20  # beyond the voxels, until a checksum can be verified


@dataclass(frozen=True, slots=True, eq=False)
class NiftiHeader:
    """The part of a header that is stored beside the tiles.

    Attributes:
        block: The header as in a file, little-endian, without its texts.
        slope: Factor of stored voxels, applied first.
        inter: Summand of stored voxels.
        affine: Maps voxels (x, y, z, 1) to millimetres: float64 (4, 4).
        zooms: Lengths of a voxel along the axes of the array.
    """

    block: bytes
    slope: float
    inter: float
    affine: np.ndarray
    zooms: tuple[float, ...]

    @property
    def is_scaled(self) -> bool:
        """Whether the values are other than the stored voxels."""
        return (self.slope, self.inter) != (1.0, 0.0)

    def scaled_dtype(self, stored: np.dtype) -> np.dtype:
        """Return the dtype of values: float64 or complex128 where they are scaled."""
        return np.result_type(stored, np.float64) if self.is_scaled else stored

    def scaled(self, voxels: np.ndarray) -> np.ndarray:
        """Return the values of stored voxels, in double precision, as nibabel computes them."""
        if not self.is_scaled:
            return voxels
        values = voxels.astype(self.scaled_dtype(voxels.dtype))
        if self.slope != 1.0:
            values *= self.slope
        if self.inter != 0.0:
            values += self.inter
        return values

    def to_bytes(self) -> bytes:
        """Write it, for the head of a tiled sample."""
        made = {
            "header": b64encode(self.block).decode(),
            "scaling": [self.slope, self.inter],
            "affine": self.affine.tolist(),
            "zooms": list(self.zooms),
        }
        return json.dumps(made, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: It is not such a header.
        """
        try:
            read = json.loads(data)
            slope, inter = map(float, read["scaling"])
            affine = np.array(read["affine"], np.float64)
            zooms = tuple(map(float, read["zooms"]))
            block = b64decode(read["header"], validate=True)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"its head has no header of NIfTI ({error})") from error
        if affine.shape != MATRIX or len(block) not in _SIZES:
            raise ValueError("its head has a damaged header of NIfTI")
        return cls(block, slope, inter, affine, zooms)


@dataclass(frozen=True, slots=True, eq=False)
class NiftiFile:
    """A volume.

    Attributes:
        header: The part of its header that is stored.
        voxels: Stored voxels [z, y, x, …], perhaps a view in another order of bytes.
    """

    header: NiftiHeader
    voxels: np.ndarray


def nibabel() -> ModuleType:
    """Import nibabel.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import nibabel as library
    except ImportError as error:
        raise missing_extra("reading NIfTI files", "medical") from error
    return cast("ModuleType", library)


def read_file(content: Buffer, max_nbytes: int) -> NiftiFile:
    """Read a file.

    Args:
        content: The file.
        max_nbytes: Bytes of voxels up to which a file may be any fraction of them.

    Raises:
        ValueError: It is not a whole NIfTI file, or too large.
    """
    view, file = memoryview(content).cast("B"), _opened(content)
    is_zipped = isinstance(file, gzip.GzipFile)
    try:
        parsed = _parse_header(file)
        dtype, shape = _voxels_of(parsed)
        nbytes = math.prod(shape) * dtype.itemsize
        check_size(nbytes, len(view), max_nbytes)
        offset = _offset_of(parsed)
        if is_zipped:
            plain = _unzipped(view, offset + nbytes)
            voxels = (
                _read_voxels(file, offset, nbytes) if plain is None else plain[offset:][:nbytes]
            )
        else:
            voxels = view[offset:][:nbytes]
    except (EOFError, OverflowError, zlib.error, gzip.BadGzipFile, struct.error) as error:
        raise ValueError(f"it was cut or is damaged ({error})") from error
    if len(voxels) != nbytes:
        raise ValueError(f"it was cut: {len(voxels):,} of {nbytes:,} bytes of voxels are there")
    return NiftiFile(_kept(parsed), _in_order(voxels, dtype, shape))


def type_of_voxels(content: Buffer) -> tuple[np.dtype, int]:
    """Return the dtype of a file's values and their number of axes, from its header alone.

    Raises:
        ValueError: It is not a NIfTI file.
    """
    try:
        parsed = _parse_header(_opened(content))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"it is damaged ({error})") from error
    dtype, shape = _voxels_of(parsed)
    if dtype.names is not None:
        return np.dtype(np.uint8), len(shape) + 1
    return _kept(parsed).scaled_dtype(dtype.newbyteorder("=")), len(shape)


def header_of(header: Any, affine: np.ndarray | None = None) -> NiftiHeader:
    """Return the part of a header of nibabel that is stored."""
    return _kept(header, affine)


def file_of_image(image: Any) -> NiftiFile:
    """Return an image of nibabel: the stored voxels where it is of a file, else its array.

    Raises:
        ValueError: Its header is damaged.
    """
    library, data, header = nibabel(), image.dataobj, image.header.copy()
    slope, inter = 1.0, 0.0
    if library.is_proxy(data):
        slope, inter, data = data.slope, data.inter, data.get_unscaled()
    voxels = np.asanyarray(data)
    header.set_data_dtype(voxels.dtype)
    header.set_data_shape(voxels.shape)
    header.set_slope_inter(slope, inter)
    ordered = _in_order(voxels.tobytes(order="F"), voxels.dtype, voxels.shape)
    return NiftiFile(_kept(header, image.affine), ordered)


def write_file(header: NiftiHeader, voxels: np.ndarray) -> bytes:
    """Write a file of stored voxels [z, y, x, …], uncompressed, without scaling them."""
    parsed = _header_class(len(header.block))(header.block, check=False)
    parsed["vox_offset"] = start = -(-(len(header.block) + 4) // 16) * 16
    block = parsed.binaryblock
    stored = np.dtype(parsed.get_data_dtype())
    if stored.names is not None:
        voxels = np.ascontiguousarray(voxels).view(stored)[..., 0]
    spatial = min(SPATIAL, voxels.ndim)
    turned = voxels.transpose(*reversed(range(spatial)), *range(spatial, voxels.ndim))
    data = turned.astype(stored, copy=False).tobytes(order="F")
    return block + bytes(start - len(block)) + data


def _opened(content: Buffer) -> io.BufferedIOBase:
    file = io.BytesIO(memoryview(content))
    is_zipped = bytes(memoryview(content)[:2]) == _GZIP
    return cast("io.BufferedIOBase", gzip.GzipFile(fileobj=file)) if is_zipped else file


def _header_class(nbytes: int) -> Any:
    library = nibabel()
    return library.Nifti1Header if nbytes == _FIRST else library.Nifti2Header


def _parse_header(file: io.BufferedIOBase) -> Any:
    start = file.read(4)
    sizes = {int.from_bytes(start, order): order for order in ("little", "big")}
    nbytes = next((size for size in _SIZES if size in sizes), None)
    block = start + (b"" if nbytes is None else file.read(nbytes - 4))
    if nbytes is None or len(block) != nbytes:
        raise ValueError("its first bytes are not those of a NIfTI file")
    magic = block[_MAGIC_AT[nbytes] :][:4]
    if magic[:2] == b"ni":
        raise ValueError("it is one of a pair of files\nconvert the pair into one: .nii")
    if magic != _SIZES[nbytes]:
        raise ValueError("it has no mark of NIfTI: its header is Analyze's, or damaged")
    library = nibabel()
    try:
        return _header_class(nbytes)(block)
    except (library.spatialimages.HeaderDataError, ValueError, KeyError) as error:
        raise ValueError(f"its header is damaged ({error})") from error


def _voxels_of(parsed: Any) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the dtype and the shape in the file."""
    library = nibabel()
    try:
        dtype, shape = np.dtype(parsed.get_data_dtype()), tuple(parsed.get_data_shape())
        if dtype.names is None:
            parse_dtype(dtype.newbyteorder("="))
    except (library.spatialimages.HeaderDataError, SchemaError, KeyError, ValueError) as error:
        known = "integers, float32, float64, complex64, complex128, RGB and RGBA are read"
        raise ValueError(f"its voxels are of an unsupported type: {known}") from error
    if not shape or any(length < 0 for length in shape):
        raise ValueError(f"its shape is {shape}")
    return dtype, tuple(map(int, shape))


def _offset_of(parsed: Any) -> int:
    """Return where voxels begin."""
    given = float(parsed["vox_offset"])
    if not len(parsed.binaryblock) <= given <= _MAX_OFFSET:  # neither is NaN
        raise ValueError(f"its voxels begin at byte {given:,.0f}: its header is damaged")
    return int(given)


def _unzipped(content: memoryview, nbytes: int) -> memoryview | None:
    """Decompress a whole gzip file at once; None where that cannot be done, whatever the reason.

    libdeflate takes two fifths of the time of zlib, and needs the size. The end of a file with one
    member has it; what does not agree with the header is read, or refused, block by block.

    Args:
        content: The file.
        nbytes: Bytes that its header promises: the header, and the voxels.
    """
    try:
        import imagecodecs
    except ImportError:
        return None
    size = int.from_bytes(content[-4:], "little")
    if not nbytes <= size < nbytes + _TRAILING_NBYTES:
        return None
    try:
        plain = cast("Any", imagecodecs).gzip_decode(content, out=np.empty(size, np.uint8))
    except (imagecodecs.GzipError, ValueError):
        return None
    return memoryview(plain) if len(plain) == size else None


def _read_voxels(file: io.BufferedIOBase, offset: int, nbytes: int) -> memoryview:
    """Decompress voxels, and the rest of the file for its checksum."""
    skipped = offset - file.tell()
    while skipped > 0:
        block = file.read(min(skipped, _BLOCK_NBYTES))
        if not block:
            raise EOFError("the header is followed by nothing")
        skipped -= len(block)
    voxels = np.empty(nbytes, np.uint8)  # no memory is used before it is written to
    done = 0
    while done < nbytes:
        count = file.readinto(voxels.data[done : done + _BLOCK_NBYTES])
        if not count:
            break
        done += count
    if len(file.read(_TRAILING_NBYTES)) == _TRAILING_NBYTES:
        raise ValueError("it is longer than its header promises")
    return voxels.data[:done]


def _in_order(data: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """View voxels as [z, y, x, …], colours last."""
    colours = () if dtype.names is None else (len(dtype.names),)
    plain = np.dtype(np.uint8) if colours else dtype
    voxels = np.frombuffer(data, plain).reshape(colours + shape, order="F")
    first = len(colours)
    spatial = min(SPATIAL, len(shape))
    turned = [*reversed(range(first, first + spatial)), *range(first + spatial, voxels.ndim)]
    return voxels.transpose(*turned, *range(first))


def _kept(parsed: Any, affine: np.ndarray | None = None) -> NiftiHeader:
    library = nibabel()
    try:
        slope, inter = parsed.get_slope_inter()
        matrix = parsed.get_best_affine() if affine is None else affine
        zooms = [float(one) for one in parsed.get_zooms()]
    except (library.spatialimages.HeaderDataError, ValueError) as error:
        raise ValueError(f"its header is damaged ({error})") from error
    if not np.isfinite(matrix).all():
        raise ValueError("its affine has NaN or infinite numbers")
    kept = parsed.as_byteswapped("<")
    for name in _TEXTS:
        if name in kept.keys():  # noqa: SIM118 - nibabel's header is not a mapping
            kept[name] = b""
    spatial = min(SPATIAL, len(zooms))
    dtype = np.dtype(parsed.get_data_dtype())
    colours = [] if dtype.names is None else [1.0]
    return NiftiHeader(
        block=kept.binaryblock,
        slope=1.0 if slope is None else float(slope),
        inter=0.0 if inter is None else float(inter),
        affine=np.asarray(matrix, np.float64),
        zooms=(*reversed(zooms[:spatial]), *zooms[spatial:], *colours),
    )
