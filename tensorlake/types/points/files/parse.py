"""Read a file of points, by its first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorlake.types.points.cloud import Cloud
from tensorlake.types.points.files.las import las_projection, read_las_columns
from tensorlake.types.points.files.npz import read_npy_columns, read_npz_columns
from tensorlake.types.points.files.pcd import is_pcd, read_pcd_columns
from tensorlake.types.points.files.ply import read_ply_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.base.column import Buffer

__all__ = ["form_of", "parse_points", "parse_raw"]


def form_of(content: Buffer) -> str | None:
    """Return the name of a file's format: las, ply, pcd, npz or npy; None for others."""
    first = bytes(memoryview(content)[:6])
    if is_pcd(content):
        return "pcd"
    forms = {
        b"LASF": "las",
        b"ply\n": "ply",
        b"ply\r": "ply",
        b"PK\x03\x04": "npz",
        b"PK\x05\x06": "npz",
    }
    return "npy" if first == b"\x93NUMPY" else forms.get(first[:4])


def parse_points(content: Buffer, form: str, names: Sequence[str] | None, *, limit: int) -> Cloud:
    """Read the points of a file.

    Args:
        content: The file.
        form: Its format, as `form_of` gives it.
        names: Names of the columns of an array without names.
        limit: Bytes that it may decompress to.

    Raises:
        ValueError: It is damaged or cut, or promises more than it has.
    """
    scaled: dict[str, tuple[float, float]] = {}
    projection: dict[int, bytes] = {}
    match form:
        case "las":
            columns, scaled = read_las_columns(content, limit=limit)
            projection = las_projection(content)
        case "ply":
            columns = read_ply_columns(content)
        case "pcd":
            columns = read_pcd_columns(content, limit=limit)
        case "npz":
            columns = read_npz_columns(content, names, limit=limit)
        case _:
            columns = read_npy_columns(content, names, limit=limit)
    return Cloud.of(columns, scaled, projection)


def parse_raw(content: Buffer, dtype: np.dtype, names: Sequence[str]) -> Cloud:
    """Read records of numbers of one dtype, as of KITTI.

    Raises:
        ValueError: The last record is cut.
    """
    nbytes = dtype.itemsize * len(names)
    if len(content) % nbytes:
        raise ValueError(
            f"its {len(content):,} bytes are not records of {nbytes}: {len(names)} × {dtype}"
        )
    table = np.frombuffer(content, dtype.newbyteorder("<")).reshape(-1, len(names))
    return Cloud.of({name: table[:, at] for at, name in enumerate(names)})
