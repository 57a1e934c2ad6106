"""Coordinate systems of LAS files: kept with the points, and given back as records of LAS."""

from __future__ import annotations

import io
import struct

import laspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.types.points.files.las import las_projection
from tests.support.clouds import las_file
from tests.support.examples import examples


def projected_las(
    version: str = "1.2", *, extended: bool = False
) -> tuple[bytes, dict[int, bytes]]:
    """Return a file with the records of a coordinate system, and those by number."""
    las = laspy.read(io.BytesIO(las_file(500, version=version, point_format=3)))
    keys = struct.pack("<8H", 1, 1, 0, 1, 3072, 0, 1, 32632)
    records = {2112: b'PROJCS["WGS 84 / UTM zone 32N"]\0', 34735: keys, 34737: b"WGS 84|\0"}
    made = [laspy.VLR("LASF_Projection", number, "", data) for number, data in records.items()]
    made.append(laspy.VLR("of another", 2112, "", b"something else"))
    if extended:
        las.evlrs = laspy.vlrs.vlrlist.VLRList(made)
    else:
        las.vlrs.extend(made)
    file = io.BytesIO()
    las.write(file)
    return file.getvalue(), records


@pytest.mark.parametrize(("version", "extended"), [("1.2", False), ("1.4", False), ("1.4", True)])
def test_the_coordinate_system_of_a_las_file_is_kept(version: str, extended: bool) -> None:  # noqa: FBT001 - of pytest
    content, records = projected_las(version, extended=extended)
    ds = tl.create(f"memory://projected-{version}-{extended}", {"points": tl.PointCloud()})
    ds.append({"points": content})
    ds.append({"points": las_file(500)})
    ds.commit()
    cloud = ds[0]["points"]
    ds.append({"points": cloud})
    ds.append({"points": cloud.content})
    ds.commit()

    for row in (0, 2, 3):
        assert ds[row]["points"].projection == records
        assert ds[row]["points"].crs == 'PROJCS["WGS 84 / UTM zone 32N"]'
    assert ds[1]["points"].projection == {}
    assert ds[1]["points"].crs is None
    few = tl.PointCloud(("x", "y", "z"), index=True).convert([content], tensor="points")
    assert tl.PointCloud().present_one(few, 0).projection == records


def test_a_las_file_written_from_a_cloud_has_its_coordinate_system() -> None:
    content, records = projected_las()
    cloud = tl.PointCloud().present_one(tl.PointCloud().convert([content], tensor="p"), 0)
    header = laspy.LasHeader(version="1.2", point_format=3)
    header.vlrs.extend(
        laspy.VLR("LASF_Projection", number, "", data) for number, data in cloud.projection.items()
    )
    las, file = laspy.LasData(header), io.BytesIO()
    las.x, las.y, las.z = cloud["x"], cloud["y"], cloud["z"]
    las.write(file)

    again = tl.PointCloud().convert([file.getvalue()], tensor="p")

    assert tl.PointCloud().present_one(again, 0).projection == records


def test_coordinates_in_degrees_keep_the_scales_of_their_file() -> None:
    header, written = laspy.LasHeader(version="1.4", point_format=6), io.BytesIO()
    header.scales, header.offsets = [1e-7, 1e-7, 0.001], [8.5, 47.0, 0.0]
    degrees = laspy.LasData(header)
    degrees.x, degrees.y, degrees.z = np.random.default_rng(0).uniform(8.5, 8.501, (3, 900))
    degrees.write(written)
    stored = tl.PointCloud().convert([written.getvalue()], tensor="p")
    cloud = tl.PointCloud().present_one(stored, 0)

    assert cloud.scaling == {"x": (1e-7, 8.5), "y": (1e-7, 47.0), "z": (0.001, 0.0)}
    copied = laspy.LasHeader(version="1.4", point_format=6)
    copied.scales, copied.offsets = zip(*(cloud.scaling[axis] for axis in "xyz"), strict=True)
    las = laspy.LasData(copied)
    las.x, las.y, las.z = cloud["x"], cloud["y"], cloud["z"]
    for axis in "xyz":
        assert np.array_equal(np.sort(las[axis]), np.sort(degrees[axis]))
    plain = tl.PointCloud().convert([np.zeros((3, 3), np.float32)], tensor="p")
    assert tl.PointCloud().present_one(plain, 0).scaling == {}


@given(st.data())
@examples(40)
def test_a_changed_header_is_an_error_or_a_coordinate_system(data: st.DataObject) -> None:
    content = bytearray(projected_las("1.4", extended=True)[0])
    places = [*range(94, 104), *range(235, 247), *range(len(content) - 300, len(content))]
    content[data.draw(st.sampled_from(places))] ^= data.draw(st.integers(1, 255))
    try:
        found = las_projection(bytes(content))
    except ValueError:
        return
    assert all(len(one) <= 1 << 16 for one in found.values())
