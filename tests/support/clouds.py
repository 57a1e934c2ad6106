"""Point clouds for tests, in the files of other libraries where they write them."""

from __future__ import annotations

import io
import struct
from typing import Any

import imagecodecs
import laspy
import numpy as np

__all__ = ["as_set", "las_file", "pcd_file", "ply_file", "records", "scan"]


def scan(points: int = 3_000, *, seed: int = 0) -> np.ndarray:
    """Return a surface with an intensity and a class: structured (points,)."""
    rng = np.random.default_rng(seed)
    made = np.empty(points, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("i", "<u2"), ("c", "u1")])
    made["x"], made["y"] = rng.uniform(-50, 50, points), rng.uniform(-20, 20, points)
    made["z"] = np.sin(made["x"] / 9) + np.cos(made["y"] / 7) + rng.normal(0, 0.02, points)
    made["i"], made["c"] = rng.integers(0, 4_096, points), rng.integers(0, 20, points)
    return made


def as_set(records: np.ndarray) -> list[bytes]:
    """Return the bytes of each point, sorted: equal for the same points in any order."""
    return sorted(row.tobytes() for row in records)


def las_file(
    points: int = 2_000, *, compressed: bool = False, version: str = "1.2", point_format: int = 3
) -> bytes:
    """Return a LAS or LAZ file in a map projection, far from zero, that laspy wrote."""
    given = scan(points)
    header = laspy.LasHeader(version=version, point_format=point_format)
    header.scales, header.offsets = np.array([0.01] * 3), np.array([600_000.0, 4_000_000.0, 0.0])
    header.add_extra_dim(laspy.ExtraBytesParams(name="score", type=np.float32))
    header.add_extra_dim(laspy.ExtraBytesParams(name="normal", type="3f4"))
    header.add_extra_dim(
        laspy.ExtraBytesParams(
            name="height", type=np.uint16, scales=np.array([0.5]), offsets=np.array([10.0])
        )
    )
    las: Any = laspy.LasData(header)
    las.x, las.y = given["x"] + 637_000.0, given["y"] + 4_850_000.0
    las.z = given["z"]
    las.intensity, las.classification = given["i"], given["c"]
    las.return_number = np.arange(points) % 5
    las.score, las.normal = given["x"] / 3, np.stack([given["x"]] * 3, axis=1)
    las.height = given["c"] * 0.5 + 10
    if "gps_time" in las.point_format.dimension_names:
        las.gps_time = np.arange(points) / 7
    file = io.BytesIO()
    las.write(file, do_compress=compressed, laz_backend=laspy.LazBackend.Lazrs)
    return file.getvalue()


_PLY_NAMES = {"<f4": "float", "<f8": "double", "<u2": "ushort", "|u1": "uchar", "<i4": "int"}


def ply_file(points: np.ndarray, form: str = "binary_little_endian", *, faces: int = 2) -> bytes:
    """Return a PLY file of records, with an element before its vertices and faces behind."""
    assert points.dtype.names is not None
    fields = [(name, points.dtype[name]) for name in points.dtype.names]
    lines = ["ply", f"format {form} 1.0", "comment of tests", "element camera 2", "property int id"]
    lines += [f"element vertex {len(points)}"]
    lines += [f"property {_PLY_NAMES[dtype.str]} {name}" for name, dtype in fields]
    lines += [f"element face {faces}", "property list uchar int vertex_indices", "end_header", ""]
    head = "\n".join(lines).encode()
    if form == "ascii":
        rows = [" ".join(repr(one.item()) for one in row) for row in points]
        return head + "\n".join(["7", "8", *rows, *["3 0 1 2"] * faces, ""]).encode()
    order = "<" if form == "binary_little_endian" else ">"
    swapped = points.astype([(name, dtype.newbyteorder(order)) for name, dtype in fields])
    body = np.array([7, 8], f"{order}i4").tobytes() + swapped.tobytes()
    return head + body + struct.pack(f"{order}Biii", 3, 0, 1, 2) * faces


_PCD_KINDS = {"f": "F", "u": "U", "i": "I"}


def pcd_file(points: np.ndarray, data: str = "binary") -> bytes:
    """Return a PCD file of records, of which a field may have several numbers."""
    assert points.dtype.names is not None
    fields = [(name, points.dtype[name]) for name in points.dtype.names]
    bases = [dtype.base for _, dtype in fields]
    counts = [int(np.prod(dtype.shape)) for _, dtype in fields]
    lines = [
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        f"FIELDS {' '.join(name for name, _ in fields)}",
        f"SIZE {' '.join(str(one.itemsize) for one in bases)}",
        f"TYPE {' '.join(_PCD_KINDS[one.kind] for one in bases)}",
        f"COUNT {' '.join(map(str, counts))}",
        f"WIDTH {len(points)}",
        "HEIGHT 1",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {len(points)}",
        f"DATA {data}",
        "",
    ]
    head = "\n".join(lines).encode()
    if data == "ascii":
        rows = [
            " ".join(repr(number) for one in row for number in np.ravel(one).tolist())
            for row in points
        ]
        return head + "\n".join([*rows, ""]).encode()
    if data == "binary":
        return head + points.tobytes()
    plain = b"".join(np.ascontiguousarray(points[name]).tobytes() for name, _ in fields)
    packed = bytes(imagecodecs.lzf_encode(plain))
    return head + struct.pack("<II", len(packed), len(plain)) + packed


def records(sample: Any) -> np.ndarray:
    """Return all points of a handle as packed records."""
    made = np.asarray(sample)
    return made.astype(made.dtype.newbyteorder("="))
