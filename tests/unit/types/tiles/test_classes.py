"""The table of classes of a mask: counted as NumPy counts, and drawn from without its tiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensorlake.types.tiles import ClassTable, TileGrid

SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9)
MASKS = st.sampled_from(["uint8", "int16", "bool", "int64"]).flatmap(
    lambda dtype: arrays.arrays(dtype, SHAPES, elements=st.integers(0, 1 if dtype == "bool" else 3))
)


@settings(max_examples=40, deadline=None)
@given(MASKS, st.integers(1, 5))
def test_a_table_counts_classes_and_draws_their_elements(mask, side):
    grid = TileGrid(mask.shape, (side,) * mask.ndim)
    made = ClassTable.of(mask, grid)
    assert made is not None

    table = ClassTable.parse(made.to_text(), grid)

    codes, counts = np.unique(mask, return_counts=True)
    assert table.classes == dict(zip(codes.tolist(), counts.tolist(), strict=True))
    rng = np.random.default_rng(0)
    for code in range(4):
        if code in codes:
            drawn = table.draw(table.code == code, 9, rng)
            assert (mask[tuple(drawn.T)] == code).all()


def test_all_elements_of_a_class_are_drawn_alike():
    mask = np.random.default_rng(1).integers(0, 3, (7, 9, 8)).astype(np.uint8)
    mask[:4, :4, :4] = 1  # a tile of one class
    table = ClassTable.of(mask, TileGrid(mask.shape, (4, 4, 4)))
    rng = np.random.default_rng(2)

    drawn = np.zeros(mask.shape)
    np.add.at(drawn, tuple(table.draw(table.code == 1, 20_000, rng).T), 1)

    expected = 20_000 / (mask == 1).sum()
    assert not drawn[mask != 1].any()
    squares = ((drawn[mask == 1] - expected) ** 2 / expected).sum()
    freedom = (mask == 1).sum() - 1
    assert squares < freedom + 4 * np.sqrt(2 * freedom)


def test_single_elements_of_several_tiles_are_all_drawn():
    mask = np.zeros((8, 8), np.uint8)
    mask[[0, 3, 7], [0, 4, 7]] = 1
    table = ClassTable.of(mask, TileGrid(mask.shape, (4, 4)))

    drawn = table.draw(table.code == 1, 200, np.random.default_rng(0))

    assert set(map(tuple, drawn.tolist())) == {(0, 0), (3, 4), (7, 7)}


def test_a_table_of_a_large_mask_stays_small_and_tiles_are_drawn_by_their_counts():
    rng = np.random.default_rng(3)
    mask = rng.integers(0, 4, (64, 64, 64)).astype(np.uint8)
    mask[:32] *= rng.random((32, 64, 64)) < 0.25
    grid = TileGrid(mask.shape, (8, 8, 8))
    table = ClassTable.of(mask, grid)

    drawn = table.draw(table.code > 0, 4000, rng)

    assert len(table.to_text()) < 150_000  # of 262,144 bytes of noise, which no mask is
    assert (mask[tuple(drawn.T)] > 0).all()
    share = (mask[:32] > 0).sum() / (mask > 0).sum()
    assert abs((drawn[:, 0] < 32).mean() - share) < 4 * np.sqrt(share * (1 - share) / 4000)


def test_values_that_are_no_classes_have_no_table():
    values = np.arange(2048).reshape(2, 32, 32)

    assert ClassTable.of(values, TileGrid(values.shape, (1, 32, 32))) is None
    assert ClassTable.of(values - (1 << 40), TileGrid(values.shape, (2, 32, 32))) is None


@pytest.mark.parametrize("place", [0, 4, 8, 60, 84, -4])
def test_a_damaged_table_is_refused(place):
    import base64
    import zlib

    mask = np.eye(12, dtype=np.uint8)
    grid = TileGrid(mask.shape, (8, 8))
    data = bytearray(zlib.decompress(base64.b64decode(ClassTable.of(mask, grid).to_text())))
    data[place : place + 4 or None] = b"\xff\xff\xff\x7f"

    for text in (base64.b64encode(zlib.compress(data)).decode(), "x", "AAAA"):
        with pytest.raises(ValueError, match="table of classes is damaged"):
            ClassTable.parse(text, grid)
