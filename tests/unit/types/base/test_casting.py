"""Casting: floats may narrow, integers must fit, kinds never change silently."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from tensorlake.errors import DTypeMismatchError, InvalidInputError, ShapeMismatchError
from tensorlake.types import Array, BBox, Bool, Embedding, Scalar


def convert(sample_type, samples, **place):
    return sample_type.convert(samples, tensor="x", **place)


@pytest.mark.parametrize(
    ("dtype", "samples"),
    [
        ("float32", [0.1, 1e-50]),
        ("float32", np.array([0.1, np.inf, np.nan])),
        ("float32", [1, 2]),
        ("float64", [1, 2.5]),
        ("float16", np.array([1, 2], dtype=np.int64)),
        ("uint8", np.array([0, 255], dtype=np.int64)),
        ("int64", np.array([1, 2], dtype=">i4")),
        ("uint64", [2**64 - 1, 0]),
        ("bool", [True, False]),
        ("complex64", [1, 2.0, 3j]),
    ],
)
def test_what_loses_nothing_but_rounding_is_taken(dtype, samples):
    column = convert(Scalar(dtype), samples)

    assert column.values.dtype == np.dtype(dtype)
    np.testing.assert_allclose(column.values, np.asarray(samples), rtol=1e-6, atol=1e-45)


@pytest.mark.parametrize(
    ("dtype", "samples", "row"),
    [
        ("int8", [1, 300], 1),
        ("int8", np.array([1, 2, -129]), 2),
        ("uint8", [-1], 0),
        ("int64", [0, 2**64 - 1], 1),
        ("int64", [0, 2**70], 1),
        ("int32", [1, 1.5], 1),
        ("int32", [1.0], 0),
        ("int32", np.array([1.0]), 0),
        ("int32", ["3"], 0),
        ("int32", np.array(["3"]), 0),
        ("int32", [1, True], 1),
        ("float32", [1.5, True], 1),
        ("bool", [1, 0], 0),
        ("bool", np.array([1.0]), 0),
        ("float32", [1.0, 1e300], 1),
        ("float32", [0, 2**24 + 1], 1),
        ("float64", np.array([0, 2**53 + 1]), 1),
        ("float16", [1, 100_000], 1),
        ("float32", [1j], 0),
        ("float32", [0.0, None], 1),
        ("float32", [0.0, "nan"], 1),
        ("float32", [0.0, {}], 1),
    ],
)
def test_what_would_lose_something_is_refused_with_its_row(dtype, samples, row):
    with pytest.raises(DTypeMismatchError, match=f"row {row} of extend") as caught:
        convert(Scalar(dtype), samples)

    assert caught.value.row == row
    assert caught.value.tensor == "x"
    assert caught.value.code == "dtype-mismatch"


def test_large_integers_among_floats_are_not_rounded_on_the_way():
    with pytest.raises(DTypeMismatchError, match="9007199254740993"):
        convert(Scalar("float64"), [0.5, 2**53 + 1])


def test_rows_are_counted_from_the_start_of_the_call():
    with pytest.raises(DTypeMismatchError, match="row 101 of append") as caught:
        convert(Scalar("int8"), [1, 300], row_start=100, call="append()")

    assert caught.value.row == 101


def test_rows_are_counted_with_the_nulls_before_them():
    with pytest.raises(DTypeMismatchError) as caught:
        convert(Scalar("int8", nullable=True), [None, 1, None, 300])

    assert caught.value.row == 3


def test_a_wrong_shape_reads_as_in_the_handbook():
    good = [[0, 0, 9, 9]]
    with pytest.raises(ShapeMismatchError) as caught:
        BBox("xyxy", of="image").convert(
            [good, good, good, np.zeros((2, 5))], tensor="boxes", call="extend()"
        )

    assert str(caught.value).splitlines() == [
        (
            "row 3 of extend(): 'boxes' expects float32 of shape (None, 4) "
            "(BBox(xyxy, of=image)), got float64 (2, 5)"
        ),
        "nothing was staged; the 4 rows of this call were rejected together",
    ]
    assert caught.value.actual == "float64 (2, 5)"


@pytest.mark.parametrize(
    "samples",
    [
        [[[1, 2], [3, 4]], [[1, 2]]],
        [[[1, 2], [3, 4]], [[1, 2], [3]]],
        [[[1, 2], [3, 4]], np.zeros(4)],
        [[[1, 2], [3, 4]], 7],
    ],
)
def test_a_sample_of_another_shape_is_named(samples):
    with pytest.raises(ShapeMismatchError) as caught:
        convert(Array("float32", (2, 2)), samples)

    assert caught.value.row == 1


def test_an_array_whose_samples_have_another_shape_is_refused_at_once():
    with pytest.raises(ShapeMismatchError, match=r"got float64 \(4,\)"):
        convert(Embedding(3), np.zeros((1000, 4)))


@pytest.mark.parametrize(
    "samples",
    [
        torch.ones(2, 3),
        [torch.ones(3, requires_grad=True), torch.ones(3)],
        [torch.ones(3, dtype=torch.bfloat16), np.ones(3, np.float16)],
        pa.array([[1, 1, 1], [1, 1, 1]], type=pa.list_(pa.float32(), 3)),
        pa.array([[1, 1, 1], [1, 1, 1]]),
        pa.chunked_array([[[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]]]),
        ((1, 1, 1), (1, 1, 1)),
        (row for row in [[1, 1, 1], [1, 1, 1]]),
        np.array([[1, 1, 1], [1, 1, 1]], dtype=object),
    ],
    ids=lambda samples: type(samples).__name__,
)
def test_arrays_of_any_library_are_taken(samples):
    column = convert(Embedding(3), samples)

    assert column.values.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert column.values.dtype == np.float32


def test_arrow_nulls_are_nulls_and_not_nan():
    column = convert(Scalar("int32", nullable=True), pa.array([1, None, 3], type=pa.int32()))

    assert column.values.tolist() == [1, 0, 3]
    assert column.valid.tolist() == [True, False, True]


def test_masked_arrays_give_nulls():
    samples = np.ma.MaskedArray([1, 2], mask=[False, True])

    assert convert(Scalar("int8", nullable=True), samples).valid.tolist() == [True, False]


def test_boxes_come_as_lists_arrays_and_nothing():
    column = convert(BBox(), [[[0, 0, 9, 9]], [], np.array([]), np.ones((2, 4))])

    assert column.shapes.tolist() == [[1, 4], [0, 4], [0, 4], [2, 4]]
    assert column.values.tolist() == [0, 0, 9, 9, *[1] * 8]


def test_an_element_that_does_not_fit_is_found_in_a_ragged_column():
    samples = [np.array([1]), np.array([], dtype=np.int64), np.array([2, 999])]

    with pytest.raises(DTypeMismatchError) as caught:
        convert(Array("uint8", (None,)), samples)

    assert caught.value.row == 2


def test_samples_of_different_dtypes_are_cast_one_by_one():
    samples = [np.array([1.5], np.float64), np.array([2], np.int8), [3]]

    assert convert(Array("float32", (None,)), samples).values.tolist() == [1.5, 2, 3]


def test_nested_lists_that_mix_bools_and_numbers_are_refused():
    with pytest.raises(DTypeMismatchError, match="bools mixed"):
        convert(Array("int32", (2,)), [[1, 2], [1, True]])


@pytest.mark.parametrize("value", ["abc", b"abc", 7, {"a": 1}, np.array(7)])
def test_one_sample_in_place_of_many_is_refused(value):
    with pytest.raises(InvalidInputError, match="sequence of samples"):
        convert(Scalar("int32"), value)


@pytest.mark.parametrize("sample_type", [Scalar("int8"), Bool(), BBox(), Embedding(3)])
def test_no_samples_give_an_empty_column_of_the_dtype(sample_type):
    column = convert(sample_type, [])

    assert len(column) == 0
    assert column.values.dtype == sample_type.dtype


def test_the_result_does_not_alias_a_list_but_may_alias_an_array():
    given = np.arange(3, dtype=np.float32)

    assert convert(Scalar("float32"), given).values.dtype == np.float32
    assert convert(Scalar("float64"), given).values.base is None


def test_what_reading_gave_can_be_written_again():
    boxes = BBox()
    column = boxes.convert([[[0, 0, 9, 9]], []], tensor="boxes")

    again = boxes.convert(boxes.present(column), tensor="boxes")

    assert again.shapes.tolist() == column.shapes.tolist()
    assert again.values.tolist() == column.values.tolist()
