"""Arrays in tiles: every region equals NumPy's, from the tiles over it alone."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError
from tensorlake.types import Array, SampleParts, box_of
from tensorlake.types.tiles import BLOSC_TILES, TileGrid, read_tiles, store_tiles, tile_map
from tensorlake.types.tiles.sample import BloscTiles, TileHead
from tests.support.examples import examples


def refused(reason):
    return InvalidInputError(reason)


@st.composite
def tiled(draw):
    shape = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple))
    tiles = draw(st.tuples(*[st.integers(1, 5)] * len(shape)))
    dtype = draw(st.sampled_from(["uint8", "int16", "float32", "bool", "complex64", "bfloat16"]))
    values = np.arange(np.prod(shape)).reshape(shape)
    return (values % 2 if dtype == "bool" else values).astype(tl.types.parse_dtype(dtype)), tiles


@given(tiled(), st.data())
def test_a_region_is_decoded_from_the_tiles_over_it(case, data):
    values, tiles = case
    region = data.draw(npst.basic_indices(values.shape, allow_newaxis=True, allow_ellipsis=True))
    region = region if isinstance(region, tuple) else (region,)
    sample, own = store_tiles(values, tiles, BLOSC_TILES)
    head = TileHead.parse(own.head)
    box = box_of(values.shape, region, refused)
    wanted = head.grid.over(box).tolist()
    view = memoryview(sample)
    parts = {number: view[slice(*own.span(number))] for number in wanted}

    read = read_tiles(SampleParts(own, parts), head, BLOSC_TILES, box)[box.inside]

    np.testing.assert_array_equal(read, values[region])
    assert read.dtype == values.dtype


@pytest.mark.parametrize(
    ("values", "level"),
    [
        (np.random.default_rng(0).normal(0, 12, (64, 96, 96)).astype(np.int16), 1),
        (sum(axis * axis for axis in np.ogrid[:64, :96, :96]).astype(np.int16) // 7, 5),
        (np.random.default_rng(0).normal(0, 12, (64, 32, 32)).astype(np.int16), 5),  # too few
    ],
    ids=["noise", "smooth", "few"],
)
def test_many_tiles_of_noise_are_compressed_at_the_fast_level(values, level):
    sample, own = store_tiles(values, (32, 32, 32), BLOSC_TILES)

    again, _ = store_tiles(values.copy(), (32, 32, 32), BLOSC_TILES)
    head, first = TileHead.parse(own.head), values[:32, :32, :32]
    parts = {number: sample[slice(*own.span(number))] for number in range(own.num_parts)}
    read = read_tiles(SampleParts(own, parts), head, BLOSC_TILES, box_of(values.shape, (), refused))

    assert sample == again
    assert parts[0] == BloscTiles(level).encode(first)
    np.testing.assert_array_equal(read, values)


def test_tiles_are_decoded_in_pieces_that_threads_can_share():
    values = np.arange(800 * 700, dtype=np.float64).reshape(800, 700)  # encoded in threads, too
    sample, own = store_tiles(values, (256, 256), BLOSC_TILES)
    parts = {number: sample[slice(*own.span(number))] for number in range(own.num_parts)}
    box = box_of(values.shape, (slice(100, 590), slice(3, 699)), refused)
    given = []

    def each(work, pieces):
        with ThreadPoolExecutor(4) as threads:
            for piece in pieces:
                given.append(piece.tolist())
                yield threads.submit(work, piece).result()

    read = read_tiles(SampleParts(own, parts, each), TileHead.parse(own.head), BLOSC_TILES, box)

    np.testing.assert_array_equal(read, values[100:590, 3:699])
    assert sorted(chain.from_iterable(given)) == TileHead.parse(own.head).grid.over(box).tolist()
    assert len(given) > 1


@given(tiled())
def test_the_table_at_the_end_makes_the_map_again(case):
    sample, own = store_tiles(*case, BLOSC_TILES)

    again = tile_map(sample)

    assert (again.head, again.cuts.tolist()) == (own.head, own.cuts.tolist())


@given(tiled(), st.data())
def test_a_changed_table_is_refused_or_names_other_tiles(case, data):
    """Bytes without the checksums of a chunk: an error of one kind, and never more memory."""
    sample, own = store_tiles(*case, BLOSC_TILES)
    changed = bytearray(sample)
    start = own.span(own.num_parts - 1)[0]
    changed[data.draw(st.integers(start, len(sample) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = tile_map(bytes(changed))
    except ValueError:
        return
    assert found.nbytes == len(sample)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple))
def test_tiles_along_the_curve_hold_each_element_once(shape):
    grid = TileGrid(shape, (2,) * len(shape))
    seen = np.zeros(shape, np.int64)
    for number in range(len(grid)):
        starts, stops = grid.corners(np.array([number]))
        seen[tuple(map(slice, starts[:, 0], stops[:, 0]))] += 1
    assert (seen == 1).all()


def test_a_square_of_tiles_is_one_run_along_the_curve():
    grid = TileGrid((1024, 1024), (64, 64))
    box = box_of((1024, 1024), (slice(512, 1024), slice(0, 512)), refused)

    assert grid.over(box).tolist() == list(range(128, 192))


@pytest.mark.parametrize(
    "region",
    [([0, 3, 1],), (slice(2, 4), [0, 3]), (np.array([True, False, True, False, True]),), (None, 2)],
)
def test_lists_and_masks_are_numpys(region):
    values = np.arange(35).reshape(5, 7)
    box = box_of((5, 7), region, refused)
    sides = tuple(slice(a, b) for a, b in zip(box.starts, box.stops, strict=True))

    np.testing.assert_array_equal(values[sides][box.inside], values[region])


@pytest.mark.parametrize("region", [(5,), (0, 7), (0, -8), ([0, 9],), (0, 0, 0), ("a",)])
def test_a_region_beyond_the_array_is_refused(region):
    kind = Array("int64", (5, 7), tiles=(2, 2))
    column = kind.convert([np.arange(35).reshape(5, 7)], tensor="x")

    with pytest.raises(InvalidInputError, match=r"row 4 of 'x'.*no such region"):
        kind.present_region(column, region, tensor="x", row=4)


@pytest.mark.parametrize("tiles", [(2,), (2, 0), (2, "a"), 5, (1 << 20, 1 << 20), (True, 2)])
def test_tiles_are_a_length_for_each_axis(tiles):
    with pytest.raises(SchemaError, match="tiles"):
        Array("int64", (5, 7), tiles=tiles)


@given(st.data())
@examples(20)
def test_a_damaged_tile_is_an_error_or_numbers(data):
    kind = Array("uint16", (None, None), tiles=(4, 4))
    column = kind.convert([np.arange(35).reshape(5, 7)], tensor="x")
    changed = bytearray(column.samples[0])
    at = data.draw(st.integers(0, int(column.maps[0].cuts[-2]) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    column.samples[0] = bytes(changed)
    with suppress(CorruptSampleError):  # without the checksum, Blosc may find numbers in it
        assert kind.decode(column, tensor="x").values.shape == (35,)


def test_a_tile_that_blosc_refuses_is_a_corrupt_sample():
    kind = Array("uint16", (None, None), tiles=(64, 64))
    column = kind.convert([np.arange(4096).reshape(64, 64)], tensor="x")
    changed = bytearray(column.samples[0])
    changed[20:60] = b"\xff" * 40
    column.samples[0] = bytes(changed)
    with pytest.raises(CorruptSampleError, match="a tile cannot be decompressed"):
        kind.decode(column, tensor="x")


def test_a_dataset_of_tiles_reads_and_updates_arrays(tmp_path):
    rng = np.random.default_rng(0)
    first, second = (rng.integers(0, 999, shape, np.uint16) for shape in ((300, 200), (70, 131)))
    kind = tl.Array("uint16", (None, None), tiles=(64, 64), nullable=True)
    ds = tl.create(str(tmp_path / "ds"), {"x": kind, "y": "int64"})
    ds.extend({"x": [first, None, second], "y": [0, 1, 2]})
    ds.commit()
    ds = tl.open(ds.url)

    assert ds.schema["x"] == kind
    assert ds["x"].shapes().tolist() == [[300, 200], [-1, -1], [70, 131]]
    np.testing.assert_array_equal(ds["x"][0], first)
    np.testing.assert_array_equal(ds["x"][2, -5:, 3], second[-5:, 3])
    assert ds["x"][1] is None
    assert ds["x"].read([0, 1], null=0)[1].shape == (0, 0)

    ds["x"][1] = second[:9]
    ds.commit()
    np.testing.assert_array_equal(ds["x"][1, 2:4], second[2:4])
    assert len(tl.open(ds.url).query("WHERE x[0, 0] >= 0")) == 3
    assert ds.check().ok


@pytest.mark.parametrize("tiles", [None, (16, 16)])
def test_a_region_is_assigned(tiles):
    ds = tl.create(f"memory://region-{tiles}", {"x": tl.Array("uint8", (40, 40), tiles=tiles)})
    expected = np.arange(1600, dtype=np.int64).reshape(40, 40) % 251
    ds.extend({"x": [expected, expected]})
    ds.commit()

    ds["x"][1, 10:20, 5] = 7
    ds.commit()

    np.testing.assert_array_equal(ds["x"][0], expected)
    expected[10:20, 5] = 7
    np.testing.assert_array_equal(ds["x"][1], expected)


@pytest.mark.parametrize(
    ("region", "value", "message"),
    [
        ((0, 50), 1, "no such region"),
        ((0, slice(2, 4), 1), [1, 2, 3], "no such region"),
        ((0, 3), 300, "integers must fit"),
        ((0, 3), 0.5, "float"),
        ((slice(0, 1), 3), 1, "a region is of one row"),
    ],
)
def test_a_region_that_cannot_be_assigned_changes_nothing(region, value, message):
    name = f"memory://region-refused-{message}-{value}"
    ds = tl.create(name, {"x": tl.Array("uint8", (40, 40), tiles=(16, 16))})
    ds.extend({"x": np.zeros((1, 40, 40), np.uint8)})
    ds.commit()

    with pytest.raises(InvalidInputError, match=message):
        ds["x"][region] = value
    assert not ds["x"][0].any()
