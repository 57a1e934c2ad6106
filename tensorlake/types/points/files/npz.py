"""NumPy's files of points: ``.npy`` and ``.npz``, without pickles, and without more than they have.

The arrays of an ``.npz`` file are columns by name; one of shape (n, 3) that is called ``xyz``,
``points``, ``pos`` or ``positions`` is x, y and z. A file of one array is read as that array.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.quantities import human_nbytes
from tensorlake.types.points.cloud import AXES, MAX_FIELDS, columns_of_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.base.column import Buffer

__all__ = ["read_npy_columns", "read_npz_columns", "write_npz"]

_COORDINATES = frozenset(("xyz", "points", "pos", "positions"))
_MAX_HEADER = 1 << 16
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_VERSIONS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npy_columns(
    content: Buffer, names: Sequence[str] | None, *, limit: int
) -> dict[str, np.ndarray]:
    """Return the columns of an ``.npy`` file.

    Raises:
        ValueError: It is damaged, or its array is not one of points.
    """
    del limit  # which is more than the file; an array has no more bytes than its file
    return columns_of_table(_read_array(io.BytesIO(content), len(content)), names)


def read_npz_columns(
    content: Buffer, names: Sequence[str] | None, *, limit: int
) -> dict[str, np.ndarray]:
    """Return the columns of an ``.npz`` file; it may decompress to at most `limit` bytes.

    Raises:
        ValueError: It is damaged or larger, or its arrays are not those of points.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            total = sum(one.file_size for one in members)
            if len(members) > MAX_FIELDS:
                raise ValueError(f"it has {len(members):,} arrays")
            packed = next((one for one in members if one.compress_type not in _PACKINGS), None)
            if packed is not None:  # zipfile decompresses bzip2 and LZMA without a bound
                raise ValueError(
                    f"{packed.filename!r} is compressed by method {packed.compress_type} of zip"
                    "\nwrite it by np.savez or np.savez_compressed"
                )
            if total > limit:
                raise ValueError(
                    f"{len(content):,} bytes promise {human_nbytes(total)} of arrays"
                    "\nto accept it: tl.PointCloud(max_nbytes=…)"
                )
            arrays: dict[str, np.ndarray] = {}
            for one in members:
                with archive.open(one) as member:
                    arrays[one.filename.removesuffix(".npy")] = _read_array(member, one.file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise ValueError(f"it is not a whole zip file: {error}") from error
    except RuntimeError as error:  # a password
        raise ValueError(f"it is not readable: {error}") from error
    if len(arrays) == 1:
        (only,) = arrays.values()
        if only.ndim != 1 or only.dtype.names is not None:
            return columns_of_table(only, names)
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        is_xyz = name in _COORDINATES and array.ndim == 2 and array.shape[1] == len(AXES)  # noqa: PLR2004 - (n, 3)
        columns |= columns_of_table(array, AXES) if is_xyz else {name: array}
    return columns


def _read_array(file: Any, nbytes: int) -> np.ndarray:
    """Read an array from the bytes of an ``.npy`` file, which are all there are."""
    version = np.lib.format.read_magic(file)
    if version not in _VERSIONS:
        raise ValueError(f"an array of version {version} of the format")
    shape, is_fortran, dtype = _VERSIONS[version](file, max_header_size=_MAX_HEADER)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which would run as code")
    size = math.prod(shape)
    promised = size * dtype.itemsize
    if dtype.itemsize == 0 or promised > nbytes:
        raise ValueError(f"{nbytes:,} bytes promise {shape} of {dtype}")
    data = file.read(promised + 1)
    if len(data) != promised:
        raise ValueError(f"an array {dtype} {shape} of {promised:,} bytes, where {len(data):,} are")
    made = np.frombuffer(data, dtype, size)
    return made.reshape(shape[::-1]).T if is_fortran else made.reshape(shape)


def write_npz(records: np.ndarray) -> bytes:
    """Return structured records as an ``.npz`` file with an array per field."""
    file = io.BytesIO()
    assert records.dtype.names is not None
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in records.dtype.names:
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(records[name]), version=(1, 0))
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED
            )
    return file.getvalue()
