"""Overviews of large samples: made once, read alone, checked like tiles."""

import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError
from tensorlake.types import MemorySample, Overview, SampleMap, read_request
from tensorlake.types.tiles import BLOSC_TILES, store_tiles, tile_map
from tensorlake.types.tiles.overview import shrunk
from tensorlake.types.tiles.sample import TileHead

RNG = np.random.default_rng(5)


def sample_of(kind, values):
    return MemorySample.of(kind, kind.convert([values], tensor="image", call="append"), 0)


@pytest.mark.parametrize("shape", [(1200, 700), (700, 1200), (1, 5000), (5000, 1), (1025, 3)])
def test_a_mean_is_that_of_the_pixels_of_its_box(shape):
    values = RNG.integers(0, 60_000, (*shape, 3), dtype=np.uint16)

    small = shrunk(values, "mean")

    height, width = small.shape[:2]
    assert max(height, width) == 512
    rows = np.arange(height + 1) * shape[0] // height
    columns = np.arange(width + 1) * shape[1] // width
    for row, column in [(0, 0), (height - 1, width - 1), (height // 2, width // 3)]:
        box = values[rows[row] : rows[row + 1], columns[column] : columns[column + 1]]
        np.testing.assert_array_equal(small[row, column], np.rint(box.mean(axis=(0, 1))))


def test_pixels_of_masks_are_pixels_of_the_mask():
    mask = np.zeros((3000, 10), np.uint8)
    mask[::2] = 255

    assert set(np.unique(shrunk(mask, "pick"))) <= {0, 255}


@pytest.mark.parametrize("shape", [(1024, 1024), (1, 1), (0, 0), (0, 5000)])
def test_small_and_empty_samples_have_none(shape):
    sample, own = store_tiles(np.zeros(shape), (256, 256), BLOSC_TILES, shrink="mean")

    assert TileHead.parse(own.head).overview is None
    assert tile_map(sample).num_parts == own.num_parts == TileHead.parse(own.head).num_parts


@pytest.mark.parametrize(
    "kind",
    [
        tl.Image("png", tiles=(400, 400)),
        tl.Image("png", mode="L16", tiles=(400, 400)),
        tl.Array("float32", (None, None), tiles=(400, 400)),
        tl.SegmentMask(["a", "b"], tiles=(400, 400)),
    ],
    ids=str,
)
def test_an_overview_reads_its_part_alone_and_regions_are_as_before(kind):
    pytest.importorskip("imagecodecs")
    shape = tuple(one or side for one, side in zip(kind.shape, (1100, 60, 1), strict=False))
    values = RNG.integers(0, 2, shape).astype(kind.dtype)
    source = sample_of(kind, values)

    small = read_request(kind, source, Overview())

    shrink = "pick" if isinstance(kind, tl.SegmentMask) else "mean"
    wanted = kind.wanted_parts(source.map, Overview(), tensor="image", row=0)
    np.testing.assert_array_equal(small, shrunk(values, shrink))
    assert wanted.tolist() == [source.map.num_parts - 2]
    np.testing.assert_array_equal(read_request(kind, source, ()), values)
    assert tile_map(source.sample).cuts.tolist() == source.map.cuts.tolist()


def test_a_sample_without_an_overview_refuses_it_in_words():
    kind = tl.SegmentMask(["a"], tiles=(4, 4))
    source = sample_of(kind, np.zeros((9, 9), np.uint8))

    with pytest.raises(InvalidInputError, match="stored without an overview"):
        read_request(kind, source, Overview())


@pytest.mark.parametrize("sides", [[0, 5], [513, 2000], [9, 9, 9], ["9", 9], [-1, 5], 7])
def test_a_head_that_promises_another_overview_is_damaged(sides):
    _, own = store_tiles(np.zeros((1100, 600), np.uint8), (256, 256), BLOSC_TILES, shrink="mean")
    head = json.loads(own.head) | {"overview": sides}

    with pytest.raises(ValueError, match="overview"):
        TileHead.parse(json.dumps(head).encode())


def test_an_overview_of_another_size_than_promised_is_damaged():
    kind = tl.Array("uint8", (None, None), tiles=(256, 256))
    source = sample_of(kind, RNG.integers(0, 9, (1100, 600), dtype=np.uint8))
    head = json.loads(source.map.head)
    head["overview"][0] -= 1
    other = MemorySample(source.sample, SampleMap(json.dumps(head).encode(), source.map.cuts))

    with pytest.raises(CorruptSampleError, match="cannot be decoded"):
        read_request(kind, other, Overview())
