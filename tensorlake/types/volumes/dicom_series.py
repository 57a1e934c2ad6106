"""DICOM series: files of one series are sorted into a volume.

    files, any order ─► parse ─► one series, one geometry ─► sort along the normal ─► [z, y, x]

pydicom parses files and decodes pixels, with the decoders that are installed. Only the voxels and
what `dicom_head.py` names leave this module: other attributes may identify a person, as may
overlays and comments of a codestream, which go with the encoded pixels.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from tensorlake.errors import missing_extra
from tensorlake.types.volumes.dicom_head import DicomHead
from tensorlake.types.volumes.tiled import check_size

if TYPE_CHECKING:
    from types import ModuleType

    from tensorlake.types.base.column import Buffer

__all__ = [
    "DicomFacts",
    "DicomSeries",
    "dicom_facts",
    "parse_file",
    "pydicom",
    "read_series",
    "series_of",
]

_DEFLATED: Final = "1.2.840.10008.1.2.1.99"
_PREAMBLE: Final = 132
_META_NBYTES: Final = 1 << 12
_SAME: Final = 1e-3  # of directions
_EVEN: Final = 0.02  # of the distance of slices: scanners round positions
_ROUNDED_MM: Final = 0.02
_FRAMES_MAX: Final = 1 << 16
_BROKEN: Final = (
    *(ValueError, KeyError, AttributeError, TypeError, IndexError, EOFError, OverflowError),
    *(NotImplementedError, RuntimeError, RecursionError, struct.error, OSError),
)
"""Errors of pydicom and its decoders for damaged files, less those of its own classes."""


@dataclass(frozen=True, slots=True, eq=False)
class DicomSeries:
    """A volume.

    Attributes:
        head: The attributes that are stored.
        voxels: Stored voxels [z, y, x], or [z, y, x, 3] of colours.
    """

    head: DicomHead
    voxels: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    """A frame of a file, with its place."""

    file: Any
    frame: int
    position: tuple[float, ...] | None
    orientation: tuple[float, ...] | None
    spacing: tuple[float, float, float]
    slope: float
    intercept: float


def pydicom() -> ModuleType:
    """Import pydicom.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import pydicom as library
    except ImportError as error:
        raise missing_extra("reading DICOM files", "medical") from error
    return cast("ModuleType", library)


def _broken() -> tuple[type[Exception], ...]:
    """Return the errors of pydicom and its decoders for damaged files."""
    errors = pydicom().errors
    return (*_BROKEN, errors.BytesLengthException, errors.InvalidDicomError)


def parse_file(content: Buffer, *, has_pixels: bool = True) -> Any:
    """Parse a file into pydicom's dataset.

    Raises:
        ValueError: It is not a DICOM file, or one that is compressed as a whole.
    """
    library = pydicom()
    start = bytes(memoryview(content)[: _PREAMBLE + _META_NBYTES])
    if start[128:_PREAMBLE] != b"DICM":
        raise ValueError("its first bytes are not those of a DICOM file")
    if _DEFLATED.encode() in start:
        raise ValueError(
            "it is compressed as a whole, of which the size is not known"
            "\nconvert it: dcmconv +te FILE NEW"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            file = library.dcmread(io.BytesIO(content), stop_before_pixels=not has_pixels)
            str(file.get("SeriesInstanceUID"))
    except _broken() as error:
        raise ValueError(f"it was cut or is damaged ({error})") from error
    return file


@dataclass(frozen=True, slots=True)
class DicomFacts:
    """The facts of a file by which ingestion groups files and chooses a type.

    Attributes:
        series: The unique name of its series; "" without one.
        frames: Number of its frames.
        dtype: Dtype of its pixels.
        is_coloured: Whether a pixel has several samples.
    """

    series: str
    frames: int
    dtype: np.dtype
    is_coloured: bool


def dicom_facts(content: Buffer) -> DicomFacts | None:
    """Return the facts of a file, without decoding it; None where it has no pixels.

    Raises:
        ValueError: It is not a DICOM file, or damaged.
    """
    file = parse_file(content, has_pixels=False)
    if "Rows" not in file or "BitsAllocated" not in file:
        return None
    try:
        nbytes = max(1, int(file.BitsAllocated) // 8)
        dtype = np.dtype(f"{'i' if int(file.get('PixelRepresentation', 0)) else 'u'}{nbytes}")
        frames = int(file.get("NumberOfFrames", 1) or 1)
        is_coloured = int(file.get("SamplesPerPixel", 1)) > 1
    except _broken() as error:
        raise ValueError(f"it is damaged ({error})") from error
    return DicomFacts(series_of(file), frames, dtype, is_coloured)


def series_of(file: Any) -> str:
    """Return the unique name of a file's series; "" without one."""
    return str(file.get("SeriesInstanceUID", ""))


def read_series(
    contents: Sequence[Buffer],
    headers: Sequence[str],
    max_nbytes: int,
    paths: Sequence[str | None] = (),
) -> DicomSeries:
    """Read the files of one series, in any order.

    Args:
        contents: The files.
        headers: Keywords of attributes to store.
        max_nbytes: Bytes of voxels up to which files may be any fraction of them.
        paths: Path of each file, for errors.

    Raises:
        ValueError: A file is damaged, or they are not a volume.
    """
    named = paths if len(contents) > 1 and paths else [None] * len(contents)
    files: list[Any] = []
    for content, path in zip(contents, named, strict=True):
        try:
            files.append(parse_file(content))
            _frame_shape(files[-1])
        except _broken() as error:
            raise _refusal(error, path) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _volume(files, headers, max_nbytes, sum(map(len, contents)))
    except _broken() as error:
        raise _refusal(error, None) from error


def _refusal(error: Exception, path: str | None) -> ValueError:
    """Return the error that names the damage of a file; pydicom's own are of many classes."""
    reason = str(error)
    if type(error) is not ValueError:
        reason = f"it was cut or is damaged ({type(error).__name__}: {error})"
    return ValueError(reason if path is None else f"of {path!r}: {reason}")


def _volume(
    files: Sequence[Any], headers: Sequence[str], max_nbytes: int, nbytes: int
) -> DicomSeries:
    shapes = {_frame_shape(file) for file in files}
    series = {series_of(file) for file in files}
    if len(series) != 1:
        raise ValueError(f"they are of {len(series)} series\ngive the files of one")
    if len(shapes) != 1:
        raise ValueError(f"its slices have different sizes: {sorted(shapes)[:2]}")
    (shape,) = shapes
    slices = [one for file in files for one in _slices(file)]
    most = len(slices) * math.prod(shape) * max(8, *(int(one.BitsAllocated) for one in files)) // 8
    check_size(most, nbytes, max_nbytes)
    slices, distance = _sorted(slices)
    decoded: dict[int, np.ndarray] = {}
    voxels: np.ndarray | None = None
    for at, one in enumerate(slices):
        if id(one.file) not in decoded:
            decoded = {id(one.file): _decoded(one.file, shape)}
        frame = decoded[id(one.file)][one.frame]
        if voxels is None:
            voxels = np.empty((len(slices), *frame.shape), frame.dtype)
        if frame.dtype != voxels.dtype:
            raise ValueError(f"its slices are {voxels.dtype} and {frame.dtype}")
        voxels[at] = frame
    assert voxels is not None
    first = slices[0]
    scales = np.array([(one.slope, one.intercept) for one in slices]).T
    if bool((scales == scales[:, :1]).all()):
        scales = scales[:, :1]
    depth = first.spacing[0] if distance is None else distance
    head = DicomHead(
        (depth, *first.spacing[1:]),
        first.orientation,
        first.position,
        scales[0].copy(),
        scales[1].copy(),
        _named(files, headers),
    )
    return DicomSeries(head, voxels)


def _frame_shape(file: Any) -> tuple[int, ...]:
    if "PixelData" not in file:
        raise ValueError("it has no pixels")
    rows, columns = int(file.Rows), int(file.Columns)
    samples = int(file.get("SamplesPerPixel", 1))
    if min(rows, columns, samples) < 1:
        raise ValueError(f"its frames have {rows} rows of {columns} pixels")
    return (rows, columns) if samples == 1 else (rows, columns, samples)


def _slices(file: Any) -> list[_Slice]:
    """Describe the frames of a file."""
    count = int(file.get("NumberOfFrames", 1) or 1)
    if not 1 <= count <= _FRAMES_MAX:
        raise ValueError(f"it has {count:,} frames; 1 to {_FRAMES_MAX:,} are read")
    each: Any = file.get("PerFrameFunctionalGroupsSequence") or [None] * count
    if len(each) != count:
        raise ValueError(f"it describes {len(each)} of {count} frames")
    offsets = file.get("GridFrameOffsetVector")  # of doses
    found = [_slice(file, number, group) for number, group in enumerate(each)]
    if offsets is not None and len(offsets) == count and found[0].position is not None:
        normal = _normal(found[0].orientation)
        starts = np.array(found[0].position) + np.outer(np.array(offsets, np.float64), normal)
        return [
            _Slice(file, one.frame, tuple(start), one.orientation, one.spacing, one.slope, 0.0)
            for one, start in zip(found, starts.tolist(), strict=True)
        ]
    return found


def _slice(file: Any, number: int, group: Any) -> _Slice:
    shared: Any = (file.get("SharedFunctionalGroupsSequence") or [None])[0]

    def value(sequence: str, keyword: str) -> Any:
        for one in (group, shared):
            items = None if one is None else one.get(sequence)
            if items and items[0].get(keyword) is not None:
                return items[0].get(keyword)
        return file.get(keyword)

    position = value("PlanePositionSequence", "ImagePositionPatient")
    orientation = value("PlaneOrientationSequence", "ImageOrientationPatient")
    spacing = value("PixelMeasuresSequence", "PixelSpacing") or (math.nan, math.nan)
    depth = value("PixelMeasuresSequence", "SpacingBetweenSlices")
    depth = value("PixelMeasuresSequence", "SliceThickness") if depth is None else depth
    slope = value("PixelValueTransformationSequence", "RescaleSlope")
    slope = file.get("DoseGridScaling", 1.0) if slope is None else slope
    intercept = value("PixelValueTransformationSequence", "RescaleIntercept") or 0.0
    y, x = map(float, spacing)
    return _Slice(
        file,
        number,
        None if position is None else tuple(map(float, position)),
        None if orientation is None else tuple(map(float, orientation)),
        (math.nan if depth is None else float(depth), y, x),
        float(slope),
        float(intercept),
    )


def _sorted(slices: list[_Slice]) -> tuple[list[_Slice], float | None]:
    """Sort slices along their normal; return their distance, too.

    Raises:
        ValueError: They are not parallel, or not at even distances: some are missing.
    """
    if len(slices) == 1:
        return slices, None
    is_one_file = all(one.file is slices[0].file for one in slices)
    are_placed = all(one.position is not None and one.orientation is not None for one in slices)
    if is_one_file and (not are_placed or len({one.position for one in slices}) == 1):
        return slices, None  # frames of a film, in their order
    if not are_placed:
        raise ValueError(
            "its slices have no position\ngive each file as a row of its own, or a multi-frame file"
        )
    turned = np.array([one.orientation for one in slices]) - np.array(slices[0].orientation)
    if float(np.abs(turned).max()) > _SAME:
        raise ValueError(
            "its slices have different orientations\ngive the slices of each in a row of its own"
        )
    across = {one.spacing[1:] for one in slices}
    if len(across) > 1 and not any(math.isnan(x) for _, x in across):
        raise ValueError(f"its slices have different spacings: {sorted(across)[:2]}")
    places = np.array([one.position for one in slices]) @ _normal(slices[0].orientation)
    order = np.argsort(places, kind="stable")
    steps = np.diff(places[order])
    usual = float(np.median(steps))
    if usual <= _ROUNDED_MM:
        raise ValueError(
            "several slices are at one position: times or echoes of a series"
            "\ngive each volume as a row of its own"
        )
    wrong = np.flatnonzero(np.abs(steps - usual) > _EVEN * usual + _ROUNDED_MM)
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(
            f"slices {at} and {at + 1} are {steps[at]:.3f} mm apart, others {usual:.3f} mm:"
            " slices are missing, or there twice\ngive a whole series"
        )
    return [slices[at] for at in order.tolist()], usual


def _normal(orientation: tuple[float, ...] | None) -> np.ndarray:
    along_row, along_column = np.reshape(np.array(orientation, np.float64), (2, 3))
    return np.cross(along_row, along_column)


def _decoded(file: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Decode the frames of a file: (frames, rows, columns[, samples]), bits beyond pixels unset."""
    from pydicom.pixels.utils import pixel_array

    try:
        pixels = np.asarray(pixel_array(file))
    except _broken() as error:
        syntax = file.file_meta.TransferSyntaxUID.name
        why = " ".join(str(error).split())
        raise ValueError(f"its pixels, {syntax}, cannot be decoded ({why})") from error
    pixels = pixels.reshape(-1, *shape)
    spare = int(file.BitsAllocated) - int(file.BitsStored)
    is_native = not file.file_meta.TransferSyntaxUID.is_compressed
    if spare > 0 and is_native and pixels.dtype.itemsize * 8 == int(file.BitsAllocated):
        pixels = (pixels << spare) >> spare  # old overlays are there
    return pixels


def _named(files: Sequence[Any], headers: Sequence[str]) -> dict[str, Any]:
    """Return the values of named attributes, which have to be those of the whole series.

    Raises:
        ValueError: A keyword is not one of DICOM, or slices differ in it.
    """
    library = pydicom()
    found: dict[str, Any] = {}
    for keyword in headers:
        if library.datadict.tag_for_keyword(keyword) is None:
            raise ValueError(f"{keyword!r} is not a keyword of DICOM\nuse such as 'Modality'")
        values = [_plain(file.get(keyword), keyword) for file in files]
        if any(one != values[0] for one in values):
            raise ValueError(
                f"its slices differ in {keyword}\nname attributes of the whole series in headers="
            )
        if values[0] is not None:
            found[keyword] = values[0]
    return found


def _plain(value: Any, keyword: str) -> Any:
    """Return the value of an attribute as JSON holds it."""
    if value is None or isinstance(value, str):
        return value if value is None else str(value)
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float) or hasattr(value, "real"):
        return float(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        items = cast("Sequence[Any]", value)
        if not any(hasattr(one, "walk") for one in items):
            return [_plain(one, keyword) for one in items]
    if type(value).__name__ in ("PersonName", "DA", "DT", "TM"):
        return str(value)
    raise ValueError(f"{keyword} is not a text or a number\nleave it out of headers=")
