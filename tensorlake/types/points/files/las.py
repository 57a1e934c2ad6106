"""LAS and LAZ (ASPRS LAS 1.0 to 1.4), read by laspy, with LAZ decompressed by lazrs.

Header, variable length records and, of LAZ, chunks (`laz`) are checked against the file before
laspy sees it: each of their counts would otherwise be allocated or looped over as promised.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import missing_extra
from tensorlake.quantities import human_nbytes
from tensorlake.types.points.files.laz import check_chunks

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["las_projection", "read_las_columns"]

_LEAST_HEADER = 227
_HEADER_1_4 = 375
_VLR_NBYTES = 54
_LASZIP_RECORD = 22_204
_FORMAT_BITS = 0x3F
_MAX_RECORD = 1 << 13
_EVLR_NBYTES, _MAX_EVLRS = 60, 1 << 10
_PROJECTION_USER = b"LASF_Projection"
_PROJECTION_RECORDS = frozenset({2111, 2112, 34735, 34736, 34737})  # WKT, and GeoTIFF's three
_MAX_PROJECTION = 1 << 16  # of one, as a variable length record has at most


def las_projection(content: Buffer) -> dict[int, bytes]:
    """Return the records of a file's coordinate reference system, by number: WKT, GeoTIFF keys.

    Raises:
        ValueError: The header is cut, or records are beyond the file.
    """
    view = memoryview(content)
    header, _, records = struct.unpack_from("<HII", view, 94)
    found = _projection(view, header, records, _VLR_NBYTES, "<H", _MAX_PROJECTION)
    if view[25] >= 4 and len(view) >= _HEADER_1_4:  # noqa: PLR2004 - of version 1.4
        start, records = struct.unpack_from("<QI", view, 235)
        extended = min(records, _MAX_EVLRS) if start else 0
        found = _projection(view, start, extended, _EVLR_NBYTES, "<Q", _MAX_PROJECTION) | found
    return found


def _projection(
    view: memoryview, at: int, records: int, head_nbytes: int, length: str, most: int
) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for _ in range(records):
        if at + head_nbytes > len(view):
            raise ValueError("its variable length records are beyond the file")
        user = bytes(view[at + 2 : at + 18]).rstrip(b"\0")
        (number,) = struct.unpack_from("<H", view, at + 18)
        (nbytes,) = struct.unpack_from(length, view, at + 20)
        at += head_nbytes
        if at + nbytes > len(view):
            raise ValueError("its variable length records are beyond the file")
        if user == _PROJECTION_USER and number in _PROJECTION_RECORDS and nbytes <= most:
            found.setdefault(number, bytes(view[at : at + nbytes]))
        at += nbytes
    return found


def read_las_columns(
    content: Buffer, *, limit: int
) -> tuple[dict[str, np.ndarray], dict[str, tuple[float, float]]]:
    """Return the dimensions of a file by name, and the scale and offset of those scaled.

    Args:
        content: The file.
        limit: Bytes of points that it may decompress to.

    Raises:
        ValueError: It is damaged or cut, or promises more.
    """
    count, is_compressed = _check(memoryview(content), limit)
    try:
        import laspy
    except ModuleNotFoundError as error:
        raise missing_extra("reading LAS and LAZ", "points") from error

    opened: Any = laspy.open

    try:
        with opened(
            io.BytesIO(content), laz_backend=laspy.LazBackend.Lazrs, read_evlrs=False
        ) as file:
            points: Any = file.read_points(count)
    except Exception as error:
        raise ValueError(f"laspy cannot read it: {error}") from error
    except BaseException as error:  # a panic of Rust code derives from it alone
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError("lazrs cannot read its compressed points") from error
    if len(points) != count:
        what = "compressed points" if is_compressed else "points"
        raise ValueError(f"its header promises {count:,} {what}, and it has {len(points):,}")
    columns: dict[str, np.ndarray] = {}
    scaled: dict[str, tuple[float, float]] = {}
    for name in points.point_format.dimension_names:
        if name in ("X", "Y", "Z"):
            at, own = "XYZ".index(name), name.lower()
            scaled[own] = (float(points.scales[at]), float(points.offsets[at]))
            columns[own] = np.asarray(points.array[name])
            continue
        dimension = points[name]
        if hasattr(dimension, "scale"):  # extra bytes with a scale of their own
            columns |= _scaled(name, dimension, scaled)
        else:
            columns[name] = np.asarray(dimension)
    return columns, scaled


def _scaled(
    name: str, dimension: Any, scaled: dict[str, tuple[float, float]]
) -> dict[str, np.ndarray]:
    """Return a dimension with a scale; one of several numbers, each with its own, as values."""
    stored = np.asarray(dimension.array)
    if stored.ndim > 1:
        return {name: np.asarray(dimension.scaled_array(), np.float64)}
    scale, offset = (float(np.ravel(one)[0]) for one in (dimension.scale, dimension.offset))
    scaled[name] = (scale, offset)
    return {name: stored}


def _check(view: memoryview, limit: int) -> tuple[int, bool]:
    """Return the number of points, and whether they are compressed, of a plausible header."""
    if len(view) < _LEAST_HEADER:
        raise ValueError(f"it has {len(view)} bytes, less than a header")
    minor = view[25]
    header, start, records = struct.unpack_from("<HII", view, 94)
    kind, record_nbytes, count = struct.unpack_from("<BHI", view, 104)
    if minor >= 4 and len(view) >= _HEADER_1_4:  # noqa: PLR2004 - of version 1.4
        (count,) = struct.unpack_from("<Q", view, 247)
    if not _LEAST_HEADER <= header <= start <= len(view):
        raise ValueError(f"points begin at byte {start:,} of {len(view):,}")
    is_compressed = kind & ~_FORMAT_BITS != 0
    if not 0 < record_nbytes <= _MAX_RECORD:
        raise ValueError(f"a point has {record_nbytes:,} bytes")
    laszip = _check_records(view, header, start, records)
    promised = count * record_nbytes
    if promised > limit:
        raise ValueError(f"{len(view):,} bytes promise {human_nbytes(promised)} of points")
    if not is_compressed and start + promised > len(view):
        has = (len(view) - start) // record_nbytes
        raise ValueError(f"its header promises {count:,} points, and it has {has:,}")
    if is_compressed:
        if laszip is None:
            raise ValueError("its points are compressed, and it does not have how")
        check_chunks(view, start, count, laszip, record_nbytes=record_nbytes)
    return count, is_compressed


def _check_records(view: memoryview, at: int, stop: int, records: int) -> memoryview | None:
    """Check that variable length records are before the points; return LASzip's."""
    if records * _VLR_NBYTES > stop - at:
        raise ValueError(f"its header promises {records:,} variable length records")
    laszip = None
    for _ in range(records):
        if at + _VLR_NBYTES > stop:
            raise ValueError("its variable length records reach into its points")
        number, nbytes = struct.unpack_from("<HH", view, at + 18)
        at += _VLR_NBYTES
        if at + nbytes > stop:
            raise ValueError("its variable length records reach into its points")
        if number == _LASZIP_RECORD:
            laszip = view[at : at + nbytes]
        at += nbytes
    return laszip
