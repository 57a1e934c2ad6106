"""Collate: what becomes of samples whose shapes differ."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlake.errors import (
    InvalidInputError,
    RaggedBatchError,
    ShapeMismatchError,
    UnsupportedFeatureError,
)
from tensorlake.loader.config.collate import (
    Pad,
    check_collate,
    check_fill,
    collate_ragged,
    parse_collate,
    split_ragged,
)
from tensorlake.types import RaggedColumn

FLOAT = np.dtype("float32")
BOXES = [np.full((count, 4), count, FLOAT) for count in (2, 0, 3)]


def check(shape, collate=None, *, is_image=False, framework="numpy"):
    return check_collate("x", shape, collate, is_image=is_image, framework=framework)


def test_a_list_keeps_the_arrays_as_they_are():
    batch = collate_ragged("x", BOXES, (None, 4), "list", FLOAT)

    assert [one is other for one, other in zip(batch["x"], BOXES, strict=True)] == [True] * 3


def test_padding_fills_up_to_the_longest_and_masks_what_is_data():
    batch = collate_ragged("x", BOXES, (None, 4), "pad", FLOAT)

    assert batch["x"].shape == (3, 3, 4)
    assert batch["x_mask"].tolist() == [[True, True, False], [False] * 3, [True] * 3]
    assert (batch["x"][batch["x_mask"]] == np.concatenate(BOXES)).all()
    assert (batch["x"][~batch["x_mask"]] == 0).all()


def test_padding_takes_another_value_and_a_multiple():
    batch = collate_ragged("x", BOXES, (None, 4), Pad(value=-1, multiple_of=8), FLOAT)

    assert batch["x"].shape == (3, 8, 4)
    assert (batch["x"][~batch["x_mask"]] == -1).all()


def test_padding_of_images_masks_both_axes():
    pictures = [np.ones((2, 3, 3), np.uint8), np.ones((4, 1, 3), np.uint8)]

    batch = collate_ragged("x", pictures, (None, None, 3), "pad", np.dtype("uint8"))

    assert batch["x"].shape == (2, 4, 3, 3)
    assert batch["x_mask"].shape == (2, 4, 3)
    assert (batch["x"].any(axis=-1) == batch["x_mask"]).all()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("uint8", -1), ("int64", float("nan")), ("int32", 0.5), ("bool", 2), ("float32", 1j)],
)
def test_padding_with_what_the_dtype_does_not_hold_is_refused(dtype, value):
    with pytest.raises(InvalidInputError, match=f"{dtype} does not hold"):
        check_fill("x", Pad(value), np.dtype(dtype))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", -1), ("uint8", 255.0), ("float16", float("nan")), ("bool", True), ("complex64", 1j)],
)
def test_padding_with_what_the_dtype_holds_is_taken(dtype, value):
    check_fill("x", Pad(value), np.dtype(dtype))


def test_padding_never_truncates():
    with pytest.raises(ShapeMismatchError, match="length 3"):
        collate_ragged("x", BOXES, (None, 4), Pad(to=2), FLOAT)


def test_concatenation_gives_the_items_and_their_offsets():
    batch = collate_ragged("x", BOXES, (None, 4), "concat", FLOAT)

    assert batch["x"].shape == (5, 4)
    assert batch["x_offsets"].tolist() == [0, 2, 2, 5]
    assert batch["x_offsets"].dtype == np.int64


def test_concatenating_nothing_keeps_shape_and_dtype():
    batch = collate_ragged("x", [], (None, 4), "concat", FLOAT)

    assert batch["x"].shape == (0, 4)
    assert batch["x"].dtype == FLOAT


def test_a_function_gets_the_rows_and_gives_the_entry():
    batch = collate_ragged("x", BOXES, (None, 4), lambda rows: [len(row) for row in rows], FLOAT)

    assert batch == {"x": [2, 0, 3]}


@pytest.mark.parametrize("collate", ["pad", "concat"])
def test_null_is_refused_where_an_array_has_no_place_for_it(collate):
    with pytest.raises(InvalidInputError, match="IS NOT NULL"):
        collate_ragged("x", [BOXES[0], None], (None, 4), collate, FLOAT)


def test_splitting_a_ragged_column_gives_its_samples_and_none_for_null():
    column = RaggedColumn(
        np.arange(8, dtype=FLOAT), np.array([[1, 4], [0, 4], [1, 4]]), np.array([True, False, True])
    )

    first, null, last = split_ragged(column)

    assert null is None
    assert first.tolist() == [[0, 1, 2, 3]]
    assert last.tolist() == [[4, 5, 6, 7]]


def test_fixed_shapes_are_stacked_and_ragged_ones_listed_by_default():
    assert check((224, 224, 3)) is None
    assert check((None, 4)) == "list"


def test_images_of_different_shapes_are_refused_with_both_ways_out():
    with pytest.raises(RaggedBatchError, match=r"tl\.decode\.Resize\(224, 224\)") as caught:
        check((None, None, 3), is_image=True)

    assert "collate={'x': 'list'}" in str(caught.value)
    assert caught.value.tensor == "x"


def test_concatenation_of_what_varies_twice_is_refused():
    with pytest.raises(RaggedBatchError, match="'pad'"):
        check((None, None, 3), "concat", is_image=True)


def test_nested_is_torchs_alone():
    assert check((None, 4), "nested", framework="torch") == "nested"
    with pytest.raises(UnsupportedFeatureError, match="'concat'"):
        check((None, 4), "nested", framework="jax")


@pytest.mark.parametrize("collate", ["stack", 3])
def test_unknown_words_are_refused(collate):
    with pytest.raises(InvalidInputError, match="'list', 'pad'"):
        check((None, 4), collate)


def test_padding_what_has_one_shape_is_refused():
    with pytest.raises(InvalidInputError, match="stacked"):
        check((4,), "pad")


def test_collating_a_column_that_is_not_read_is_refused():
    with pytest.raises(InvalidInputError, match="'box'"):
        parse_collate({"box": "pad"}, ["boxes", "image"])
