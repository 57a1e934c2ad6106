"""tl.trajectories.align: streams of different rates at common times."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

TIMES = st.lists(st.integers(0, 12), max_size=8)


@pytest.fixture
def stream():
    with tl.create("memory://stream", {"t": "float64", "x": tl.Array("float32", (2,))}) as ds:
        yield ds
        ds.discard()
    tl.delete("memory://stream", confirm="memory://stream")


def expected(own, grid, how, tolerance):
    """The value at one time, which is that time in rows of value = 3 t; None without one."""
    before = [t for t in own if t <= grid]
    after = [t for t in own if t >= grid]
    near = float("inf") if tolerance is None else tolerance
    if how == "last":
        used = [max(before)] if before else []
    elif how == "nearest":
        used = [min(own, key=lambda t: (abs(t - grid), t))] if own else []
    else:
        used = [max(before), min(after)] if before and after else []
    if not used or any(abs(t - grid) > near for t in used):
        return None
    return 3 * grid if how == "linear" else 3 * used[0]


@given(TIMES, TIMES, st.sampled_from(["last", "nearest", "linear"]), st.none() | st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_values_are_those_of_a_search_time_by_time(own, grid, how, tolerance):
    own = list(dict.fromkeys(own))
    with tl.create(f"memory://aligned-{uuid4()}", {"t": "int64", "x": "float64"}) as ds:
        ds.extend({"t": own, "x": np.multiply(own, 3.0)})

        found = tl.trajectories.align(ds, grid, how=how, tolerance=tolerance)
        ds.discard()

    wanted = [expected(own, one, how, tolerance) for one in grid]
    assert found["_valid"].tolist() == [one is not None for one in wanted]
    assert np.allclose(found["x"], [one or 0 for one in wanted])
    assert ((found["_row"] >= 0) == found["_valid"]).all()


def test_streams_of_two_rates_meet_on_one_grid(stream):
    stream.extend({"t": np.arange(0, 1, 0.01), "x": np.arange(200).reshape(100, 2)})
    with tl.create("memory://camera", {"at": "float64", "image": tl.Image("png")}) as camera:
        camera.extend({"at": [0.0, 0.4], "image": [np.full((2, 2, 3), n, "uint8") for n in (1, 2)]})
        grid = np.arange(0, 1, 0.25)

        with pytest.raises(tl.UnsupportedFeatureError, match="'image' is Image"):
            tl.trajectories.align(camera, grid, by="at")
        places = tl.trajectories.align(camera, grid, [], by="at", tolerance=0.3)
        motion = tl.trajectories.align(stream, grid, ["x"], how="linear")
        camera.discard()

    assert places["_row"].tolist() == [0, 0, 1, -1]
    assert np.allclose(motion["x"], np.stack([200 * grid, 200 * grid + 1], 1), atol=1e-3)
    assert motion["x"].dtype == np.float32


def test_timestamps_have_a_timedelta_as_tolerance():
    start = np.datetime64("2026-01-01T00:00:00", "us")
    with tl.create("memory://clock", {"at": tl.Timestamp(), "x": "int64"}) as ds:
        ds.extend({"at": [start + np.timedelta64(2 * n, "s") for n in range(3)], "x": [0, 20, 40]})
        times = np.array(["2026-01-01T00:00:01", "2026-01-01T00:00:09"], "datetime64[us]")

        found = tl.trajectories.align(
            ds, times, by="at", how="nearest", tolerance=timedelta(seconds=1)
        )
        between = tl.trajectories.align(ds, times[:1], by="at", how="linear")
        with pytest.raises(tl.InvalidInputError, match="give a timedelta"):
            tl.trajectories.align(ds, times, by="at", tolerance=1.0)
        ds.discard()

    assert found["x"].tolist() == [0, 0]
    assert found["_valid"].tolist() == [True, False]
    assert between["x"].tolist() == [10.0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda ds: tl.trajectories.align(ds, [[1]]), tl.ShapeMismatchError, r"\(k,\)"),
        (lambda ds: tl.trajectories.align(ds, [float("nan")]), tl.InvalidInputError, "NaN"),
        (lambda ds: tl.trajectories.align(ds, ["a"]), tl.DTypeMismatchError, "times= are"),
        (lambda ds: tl.trajectories.align(ds, [1], how="next"), tl.InvalidInputError, "'nearest'"),
        (lambda ds: tl.trajectories.align(ds, [1], tolerance=-1), tl.InvalidInputError, "0 or"),
        (lambda ds: tl.trajectories.align(ds, [1], by="z"), tl.TensorNotFoundError, "z"),
        (lambda ds: tl.trajectories.align(ds, [1], "x"), tl.InvalidInputError, r"\['x'\]"),
        (lambda ds: tl.trajectories.align([1], [1]), tl.InvalidInputError, "got list"),
    ],
)
def test_wrong_arguments_are_named(stream, call, error, words):
    with pytest.raises(error, match=words):
        call(stream)
