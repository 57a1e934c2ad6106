"""Outlines to runs: bit by bit what the COCO API's own program makes of them, and no bombs."""

import numpy as np
import pytest
from pycocotools import mask as coco

from tensorlake.types import (
    InstanceMask,
    decode_run_lengths,
    fill_polygons,
    polygon_runs,
    run_table,
    store_masks,
)


def random_objects(seed: int, count: int) -> tuple[list[list[list[float]]], list[tuple[int, int]]]:
    """Objects of one to three outlines: crossing themselves, beyond the borders, on the grid."""
    random = np.random.default_rng(seed)
    objects, sizes = [], []
    for _ in range(count):
        height, width = random.integers(1, 60, 2).tolist()
        outlines = []
        for _ in range(int(random.integers(1, 4))):
            points = random.uniform(-5, 65, (int(random.integers(3, 9)), 2))
            points = np.round(points, int(random.integers(0, 3)))
            outlines.append(points.reshape(-1).tolist())
        objects.append(outlines)
        sizes.append((height, width))
    return objects, sizes


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
@pytest.mark.parametrize("seed", range(3))
def test_objects_are_filled_together_as_the_coco_api_fills_each(seed):
    objects, sizes = random_objects(seed, 150)

    made = polygon_runs(objects, sizes)

    for outlines, (height, width), runs in zip(objects, sizes, made, strict=True):
        theirs = coco.decode(coco.merge(coco.frPyObjects(outlines, height, width)))
        ours = decode_run_lengths({"size": [height, width], "counts": runs})
        assert np.array_equal(ours, theirs.astype(bool)), outlines
        assert (runs[1:] > 0).all()  # no run but the first is empty


def test_objects_drawn_in_many_passes_are_the_same(monkeypatch):
    objects, sizes = random_objects(7, 40)
    together = polygon_runs(objects, sizes)
    monkeypatch.setattr("tensorlake.types.vision.raster._CROSSINGS_AT_ONCE", 1)

    apart = polygon_runs(objects, sizes)
    monkeypatch.setattr("tensorlake.types.vision.raster._NUMBERS_AT_ONCE", 1)
    read_apart = polygon_runs(objects, sizes)

    assert [one.tolist() for one in apart] == [one.tolist() for one in together]
    assert [one.tolist() for one in read_apart] == [one.tolist() for one in together]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_outlines_on_an_image_with_more_places_than_32_bits_count_are_the_same():
    height, width = 32_000, 30_000
    outlines = [[5, 5, 29_990, 70, 20_000, 31_990], [100, 100, 29_000, 31_000, 100.5, 31_000]]

    runs = next(iter(polygon_runs([outlines], [(height, width)])))

    theirs = coco.merge(coco.frPyObjects(outlines, height, width))
    assert np.array_equal(runs, run_table([theirs]).runs)


def test_points_in_pairs_are_the_same_outline():
    flat, pairs = [1, 1, 5, 1, 5, 4], [[1, 1], [5, 1], [5, 4]]

    assert np.array_equal(fill_polygons([flat], 8, 8), fill_polygons([pairs], 8, 8))
    assert np.array_equal(fill_polygons([np.array(pairs)], 8, 8), fill_polygons([flat], 8, 8))


def test_no_outline_covers_nothing():
    assert [runs.tolist() for runs in polygon_runs([[], []], [(2, 3), (0, 3)])] == [[6], []]
    assert len(polygon_runs([], [])) == 0


@pytest.mark.parametrize(
    ("outline", "told"),
    [
        ([1, 2], "a polygon of 1 points"),
        ([1, 2, 3, 4, 5, 6, 7], "a polygon of 3.5 points"),
        ([], "a polygon of 0 points"),
        ([0, 0, float("nan"), 1, 2, 2], "not a number"),
        ([0, 0, float("inf"), 1, 2, 2], "not a number"),
        ([0, 0, 1e15, 0, 1e15, 1e15], "pixels long"),
        ([0, 0] + [1e6, 0, 0, 1e6] * 50, "pixels long"),
    ],
)
def test_outline_that_is_none_is_refused_before_it_takes_memory(outline, told):
    square = [0, 0, 2, 0, 2, 2]

    with pytest.raises(ValueError, match=told) as refused:
        polygon_runs([[square], [square, outline]], [(3, 3), (3, 3)])
    assert refused.value.args[1] == 1


@pytest.mark.parametrize("size", [(1 << 16, 1 << 16), (-1, 3)])
def test_outlines_on_an_impossible_image_are_refused(size):
    with pytest.raises(ValueError, match="an image of") as refused:
        polygon_runs([[], []], [(3, 3), size])
    assert refused.value.args[1] == 1


def test_points_far_beyond_the_image_change_nothing_but_their_edges():
    """Their coordinates are no numbers that pixels are counted with."""
    far = [[1e300, 1e300, 1e300, 1e300, 1e300, 1e300]]

    assert [runs.tolist() for runs in polygon_runs([far], [(2, 2)])] == [[4]]


@pytest.mark.parametrize("seed", range(3))
def test_masks_stored_together_are_those_that_are_given_one_by_one(seed):
    objects, _ = random_objects(seed, 40)
    counts = np.random.default_rng(seed).integers(1, 5, 12)
    of_row = np.repeat(np.arange(12), counts)
    objects = objects[: len(of_row)]
    sizes = [(30 + row, 50 - row) for row in of_row.tolist()]
    table = polygon_runs(objects, sizes)
    given = [{"size": size, "counts": runs} for size, runs in zip(sizes, table, strict=True)]
    rows = [
        given[stop - count : stop] for stop, count in zip(np.cumsum(counts), counts, strict=True)
    ]

    stored = InstanceMask().convert(store_masks(table, counts), tensor="mask")

    wanted = InstanceMask().convert(rows, tensor="mask")
    assert stored.samples == wanted.samples
    assert np.array_equal(stored.shapes, wanted.shapes)
