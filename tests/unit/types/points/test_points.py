"""Points read by level, box and number equal those of the whole, and cost their parts alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorlake as tl
from tensorlake.errors import (
    CorruptSampleError,
    DTypeMismatchError,
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
)
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types import EncodedColumn, PointCloudHandle, PointRequest, SampleMap
from tensorlake.types.base.parts import MemorySample
from tensorlake.types.points.levels import level_counts
from tests.support.clouds import as_set, scan
from tests.support.handles import create_on, open_on, wait_for_storage


def handle_of(sample: object, kind: tl.PointCloud | None = None) -> PointCloudHandle:
    kind = kind or tl.PointCloud()
    column = kind.convert([sample], tensor="points")
    assert isinstance(column, EncodedColumn)
    return PointCloudHandle(kind, MemorySample.of(kind, column, 0))


def test_points_are_those_given_in_another_order() -> None:
    points = scan(70_001)

    cloud = handle_of(points)

    assert cloud.shape == (70_001,)
    assert list(cloud.fields) == ["x", "y", "z", "i", "c"]
    assert np.asarray(cloud).dtype == points.dtype
    assert as_set(np.asarray(cloud)) == as_set(points)
    assert not np.array_equal(np.asarray(cloud), points)
    assert np.array_equal(cloud.bounds[0], [points[axis].min() for axis in "xyz"])


def test_index_restores_the_order_of_the_file() -> None:
    points = scan(5_000)

    whole = np.asarray(handle_of(points, tl.PointCloud(index=True)))

    again = whole[np.argsort(whole["index"])]
    assert all(np.array_equal(again[name], points[name]) for name in points.dtype.names or ())


def test_levels_are_the_first_points_and_spread_over_the_whole() -> None:
    points = scan(64_000)
    cloud = handle_of(points)
    whole = np.asarray(cloud)

    for level, count in enumerate((1_000, 8_000, 64_000)):
        assert np.array_equal(cloud.level(level), whole[:count])
    middle = np.median(cloud.level(0)["x"])
    assert abs(middle - np.median(points["x"])) < 5


@pytest.mark.parametrize("level", [None, 0, 1])
def test_a_box_has_the_points_within_it(level: int | None) -> None:
    points = scan(40_000)
    cloud = handle_of(points)
    low, high = (-10.0, -5.0, -1.5), (14.0, 6.0, 1.0)
    known = np.asarray(cloud) if level is None else cloud.level(level)
    xyz = np.stack([known[axis] for axis in "xyz"], axis=1)

    found = cloud.box(low, high, level=level)

    assert len(found) > 3
    assert as_set(found) == as_set(known[((xyz >= low) & (xyz <= high)).all(axis=1)])
    faces = cloud.box(*cloud.bounds)
    assert len(faces) == 40_000


@given(data=st.data(), dtype=st.sampled_from(["<f4", "<f8", "<i4", "<i8", "<u2"]))
@settings(max_examples=30)
def test_any_points_and_boxes_are_found(data: st.DataObject, dtype: str) -> None:
    xyz = data.draw(hnp.arrays(dtype, st.tuples(st.integers(0, 12), st.just(3))))
    many = np.random.default_rng(len(xyz)).normal(0, 500, (data.draw(st.integers(0, 4_000)), 3))
    xyz = np.concatenate([xyz, np.abs(many).astype(dtype)])
    cloud = handle_of(xyz)
    records = np.asarray(cloud)

    assert as_set(records) == as_set(xyz)
    region = data.draw(st.slices(len(xyz)))
    assert cloud[region].tobytes() == records[region].tobytes()
    corners = np.sort(data.draw(hnp.arrays("<f8", (2, 3), elements=st.floats(-1e6, 1e6))), axis=0)
    values = np.stack([records[axis].astype(np.float64) for axis in "xyz"], axis=1)
    inside = ((values >= corners[0]) & (values <= corners[1])).all(axis=1)
    assert as_set(cloud.box(*corners)) == as_set(records[inside])


def test_points_that_are_not_numbers_are_kept_and_in_no_box() -> None:
    points = scan(1_000)
    points["x"][::7] = np.nan
    points["y"][3] = np.inf

    cloud = handle_of(points)

    assert as_set(np.asarray(cloud)) == as_set(points)
    assert np.isfinite(cloud.bounds).all()
    everywhere = cloud.box((-np.inf,) * 3, (np.inf,) * 3)
    assert len(everywhere) == np.count_nonzero(~np.isnan(points["x"]))


def test_a_cloud_without_points_is_one() -> None:
    cloud = handle_of(np.zeros((0, 3)))

    assert (len(cloud), cloud.xyz.shape, len(cloud.level(0))) == (0, (0, 3), 0)
    assert len(cloud.box((0, 0, 0), (1, 1, 1))) == 0


def test_float32_coordinates_are_exact_or_from_an_origin() -> None:
    near, far = np.float64([[1.25, 2.5, 3]]), np.float64([[637_012.34, 4_851_234.56, 400.12]])
    spread = np.random.default_rng(0).uniform(0, 100, (500, 3))
    wide = handle_of(far + spread)
    records = np.asarray(wide)

    assert handle_of((near + spread).astype(np.float32)).origin.tolist() == [0, 0, 0]
    assert handle_of((far + spread).astype(np.float32)).origin.tolist() == [0, 0, 0]
    assert handle_of(near + spread).origin.tolist() == [0, 0, 0]
    assert wide.origin.tolist() == np.floor((far + spread).min(axis=0)).tolist()
    exact = np.stack([records[axis] for axis in "xyz"], axis=1)
    assert np.abs(wide.xyz + wide.origin - exact).max() < 1e-5
    assert wide.xyz.dtype == np.float32


def test_regions_are_as_of_an_array() -> None:
    points = scan(9_000)
    cloud = handle_of(points)
    whole = np.asarray(cloud)
    numbers = np.array([8_999, 0, -5, 4_000, 4_000])

    assert cloud[17] == whole[17]
    assert cloud[-1] == whole[-1]
    assert np.array_equal(cloud[numbers], whole[numbers])
    assert np.array_equal(cloud[5_000:100:-7], whole[5_000:100:-7])
    assert np.array_equal(cloud[...], whole)
    assert np.array_equal(cloud[whole["c"] == 3], whole[whole["c"] == 3])
    assert np.array_equal(cloud["i"], whole["i"])


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda cloud: cloud[3_000], "3,000 is not one of them"),
        (lambda cloud: cloud[0, 1], "one axis"),
        (lambda cloud: cloud["w"], "no field 'w'"),
        (lambda cloud: cloud[None], "got None"),
        (lambda cloud: cloud[[1.5]], "list of numbers"),
        (lambda cloud: cloud[[5_000]], "out of bounds"),
        (lambda cloud: cloud.level(3), "levels are 0 to 2, got 3"),
        (lambda cloud: cloud.level("fine"), "levels are 0 to 2"),
        (lambda cloud: cloud.box((0, 0), (1, 1)), "three numbers"),
        (lambda cloud: cloud.box("abc", (1, 1, 1)), "three numbers"),
        (lambda cloud: cloud.box((0, 0, np.nan), (1, 1, 1)), "three numbers"),
        (lambda cloud: cloud.box((2, 0, 0), (1, 1, 1)), "low corner first"),
        (lambda cloud: cloud.level(0, fields=["x", "w"]), "no field 'w'"),
    ],
)
def test_other_requests_are_refused(read: Callable[[PointCloudHandle], Any], message: str) -> None:
    cloud = handle_of(scan())

    with pytest.raises(InvalidInputError, match=message):
        read(cloud)


def test_fields_are_chosen_and_named() -> None:
    points = scan()
    some = handle_of(points, tl.PointCloud(("z", "y", "x", "c")))
    table = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    named = handle_of(table, tl.PointCloud(("x", "y", "z", "intensity")))
    columns = handle_of({"x": [1, 2], "y": [3, 4], "z": [5, 6], "color": np.ones((2, 3), "u1")})

    assert list(some.fields) == ["z", "y", "x", "c"]
    assert sorted(named["intensity"].tolist()) == sorted(table[:, 3].tolist())
    assert columns["color"].shape == (2, 3)
    assert columns.fields["color"].shape == (3,)
    stacked = some.level(0, fields=["c", "x"], stacked=True)
    assert np.array_equal(stacked[:, 1], some.level(0)["x"])


@pytest.mark.parametrize(
    ("sample", "kind", "error", "message"),
    [
        (np.zeros((5, 4)), tl.PointCloud(), InvalidInputError, "4 columns.*\nname them"),
        (np.zeros((5, 3), "c8"), tl.PointCloud(), InvalidInputError, "complex64"),
        (np.zeros((2, 5, 3)), tl.PointCloud(), InvalidInputError, r"arrays of points are \(n, k\)"),
        ({"x": [1], "y": [2]}, tl.PointCloud(), InvalidInputError, "no field z"),
        ({"x": [1], "y": [2], "z": [3, 4]}, tl.PointCloud(), InvalidInputError, r"'z' is \(2,\)"),
        (scan(5), tl.PointCloud(("x", "y", "z", "w")), InvalidInputError, "no field 'w': x, y"),
        ([[1, 2, 3], [4]], tl.PointCloud(), ShapeMismatchError, "expects a file of LAS"),
        ("nothing.las", tl.PointCloud(), InvalidInputError, "No such file"),
        (b"%PDF-1.7", tl.PointCloud(), InvalidInputError, "not LAS, LAZ, PLY, PCD, NPZ or NPY"),
    ],
)
def test_other_samples_are_refused(
    sample: object, kind: tl.PointCloud, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        kind.convert([sample], tensor="points")
    assert isinstance(caught.value, InvalidInputError | DTypeMismatchError)


def test_headerless_files_need_their_fields() -> None:
    kind = tl.PointCloud(("x", "y", "z", "intensity"), raw="float32")
    table = np.random.default_rng(0).normal(size=(500, 4)).astype("<f4")

    cloud = handle_of(table.tobytes(), kind)

    assert as_set(np.asarray(cloud)) == as_set(table)
    with pytest.raises(InvalidInputError, match="not records of 16"):
        handle_of(table.tobytes()[:-3], kind)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tl.PointCloud("xyz"),
        lambda: tl.PointCloud(("x", "y")),
        lambda: tl.PointCloud(("x", "y", "z", "x")),
        lambda: tl.PointCloud(("x", "y", "z", 3)),
        lambda: tl.PointCloud(raw="float32"),
        lambda: tl.PointCloud(max_nbytes=0),
        lambda: tl.PointCloud(index="yes"),
        lambda: tl.PointCloud(default=np.zeros((1, 3))),
    ],
)
def test_other_parameters_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises((SchemaError, InvalidInputError)):
        make()


def test_a_dataset_keeps_points_by_bytes() -> None:
    kind = tl.PointCloud(("x", "y", "z", "i", "c"), nullable=True)
    store = MemoryStore()
    made = create_on(store, {"points": kind})
    made.extend({"points": [scan(900), None, scan(0)]})
    made.append({"points": made["points"][0]})
    made.append({"points": made["points"].bytes(0)})
    made.commit()
    wait_for_storage()

    ds = open_on(store)

    assert [ds["points"].bytes(0) == ds["points"].bytes(row) for row in (3, 4)] == [True, True]
    assert ds["points"][1] is None
    assert ds["points"].type == kind
    assert "float32" not in repr(ds)
    assert repr(ds["points"][0]).startswith("PointCloud 900 points · x, y, z, i, c")
    counts = ds.query("SELECT SHAPE(points)[0] AS n WHERE points IS NOT NULL")["n"][:]
    assert counts.tolist() == [900, 0, 900, 900]
    assert as_set(ds["points"][0, 100:200]) == as_set(np.asarray(ds["points"][0])[100:200])
    again = pickle.loads(pickle.dumps(ds["points"][0]))
    assert np.array_equal(np.asarray(again), np.asarray(ds["points"][0]))


def test_a_level_and_a_box_read_their_parts_only() -> None:
    store = CountingStore(MemoryStore())
    made = create_on(store, {"points": tl.PointCloud()})
    made.append({"points": scan(400_000)})
    made.commit()
    wait_for_storage()
    cloud = open_on(store)["points"][0]
    len(cloud)
    store.reset()

    cloud.level(0)
    level_nbytes = store.bytes_read
    store.reset()
    cloud.box((-5, -5, -3), (5, 5, 3))  # a fortieth of the area

    assert level_nbytes < cloud.nbytes / 64 * 2
    assert store.bytes_read < cloud.nbytes / 40 * 7


def test_the_map_is_made_again_of_the_bytes() -> None:
    kind = tl.PointCloud()
    column = kind.convert([scan(30_000)], tensor="points")
    assert isinstance(column, EncodedColumn)
    assert column.maps is not None
    (own,) = column.maps
    assert own is not None

    again = kind.map_of(column.samples[0], tensor="points", row=0)

    assert (again.head, again.cuts.tolist()) == (own.head, own.cuts.tolist())
    for cut in (5, 20, len(own.head), own.nbytes - 1):
        with pytest.raises(CorruptSampleError, match="not a whole point cloud"):
            kind.map_of(bytes(column.samples[0])[:cut], tensor="points", row=0)


def test_a_damaged_block_is_an_error_with_its_row() -> None:
    kind = tl.PointCloud()
    column = kind.convert([scan(30_000)], tensor="points")
    assert isinstance(column, EncodedColumn)
    content = bytearray(column.samples[0])
    own = kind.map_of(bytes(content), tensor="points", row=0)
    start, _ = own.span(2)
    content[start + 30 : start + 60] = bytes(30)

    with pytest.raises(CorruptSampleError, match="row 7 of 'points'"):
        PointCloudHandle(kind, MemorySample(bytes(content), own, None, "points", 7)).read()
    with pytest.raises(InvalidInputError, match="cannot take a sample"):
        kind.convert([bytes(content)], tensor="points")


def test_a_request_may_be_made_by_others() -> None:
    cloud = handle_of(scan(2_000))
    request = PointRequest(region=(np.array([5, 1]),), fields=("c",), stacked=True)

    assert np.array_equal(cloud.read(request)[:, 0], cloud["c"][[5, 1]])
    assert isinstance(cloud.map, SampleMap)
    assert level_counts(1) == (1, 1, 1)
