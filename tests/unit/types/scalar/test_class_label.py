"""ClassLabel, and the labels that reading gives."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
    UnknownClassError,
)
from tensorlake.types import ClassLabel, Label, LabelArray, Ragged

PETS = ClassLabel(["cat", "dog"])
TAGS = ClassLabel(["cat", "dog"], multi=True)


@pytest.mark.parametrize(
    "samples",
    [
        ["cat", "dog", "dog"],
        [0, 1, 1],
        np.array([0, 1, 1], dtype=np.uint8),
        np.array(["cat", "dog", "dog"]),
        pa.array(["cat", "dog", "dog"]).dictionary_encode(),
        ["cat", 1, np.int8(1)],
        [Label(1, ("dog", "cat")), Label(0, ("dog", "cat")), "dog"],
        LabelArray(np.array([1, 0, 0]), ("dog", "cat")),
    ],
    ids=["names", "codes", "uint8", "texts", "arrow", "mixed", "labels", "other codes"],
)
def test_names_codes_and_labels_of_other_tensors_become_codes(samples):
    column = PETS.convert(samples, tensor="label")

    assert column.values.tolist() == [0, 1, 1]
    assert column.values.dtype == np.int64


def test_an_unknown_name_reads_as_in_the_handbook():
    with pytest.raises(UnknownClassError) as caught:
        PETS.convert(["cat"] * 17 + ["dgo"], tensor="label")

    assert str(caught.value).splitlines() == [
        "'label' has no class 'dgo' (2 classes: 'cat', 'dog'); did you mean 'dog'?",
        "to add it: ds['label'].add_names(['dgo'])  (row 17 of extend(); nothing was staged)",
    ]
    assert caught.value.row == 17


@pytest.mark.parametrize(
    "samples", [[0, 2], [0, -1], np.array([1, 7]), [0, np.int8(9)], ["cat", 5]], ids=repr
)
def test_a_code_without_a_class_is_refused(samples):
    with pytest.raises(UnknownClassError) as caught:
        PETS.convert(samples, tensor="label")

    assert caught.value.row == 1


@pytest.mark.parametrize("samples", [[0, 0.0], [0, True], [0, b"cat"], ["cat", [0]], [0, 2**70]])
def test_what_is_neither_name_nor_code_is_refused(samples):
    with pytest.raises(DTypeMismatchError) as caught:
        PETS.convert(samples, tensor="label")

    assert caught.value.row == 1


def test_floats_are_no_codes_even_when_whole():
    with pytest.raises(DTypeMismatchError):
        PETS.convert(np.array([0.0, 1.0]), tensor="label")


def test_one_label_per_box_is_ragged():
    column = TAGS.convert([["cat"], [], [1, 0], np.array([1])], tensor="label")

    assert column.shapes.tolist() == [[1], [0], [2], [1]]
    assert column.values.tolist() == [0, 1, 0, 1]
    assert ClassLabel(["a"], per="boxes").layout == "ragged"


def test_an_unknown_name_among_many_is_told_with_its_row():
    with pytest.raises(UnknownClassError) as caught:
        TAGS.convert([["cat", "dog"], [], ["dog", "cow"]], tensor="label")

    assert caught.value.row == 2


def test_a_bare_name_is_not_a_list_of_letters():
    with pytest.raises(DTypeMismatchError, match="a list of"):
        TAGS.convert(["cat"], tensor="label")


def test_a_table_of_codes_is_no_list_of_classes():
    with pytest.raises(ShapeMismatchError):
        TAGS.convert([np.zeros((2, 2), np.int64)], tensor="label")


@pytest.mark.parametrize("names", ["cat", ["cat", "cat"], ["", "a"], [1, 2]])
def test_names_that_cannot_be_are_refused(names):
    with pytest.raises(SchemaError):
        ClassLabel(names)


def test_a_default_is_kept_as_a_code():
    label = ClassLabel(["cat", "dog"], default="dog")

    assert label.default == 1
    assert ClassLabel.from_json(label.to_json()) == label


def test_reading_gives_labels_that_compare_with_names():
    labels = PETS.present(PETS.convert(["cat", "dog"], tensor="label"))

    assert isinstance(labels, LabelArray)
    assert (labels == "dog").tolist() == [False, True]
    assert (labels != "dog").tolist() == [True, False]
    assert (labels == 1).tolist() == [False, True]
    assert (labels == ["dog", "dog"]).tolist() == [False, True]
    assert labels.as_names() == ["cat", "dog"]


def test_comparing_with_an_unknown_class_raises():
    labels = PETS.present(PETS.convert(["cat"], tensor="label"))

    with pytest.raises(UnknownClassError, match="did you mean 'dog'"):
        _ = labels == "dgo"
    with pytest.raises(UnknownClassError):
        np.isin(labels, ["cow"])


def test_isin_takes_names():
    labels = PETS.present(PETS.convert(["cat", "dog"], tensor="label"))

    assert np.isin(labels, ["dog"]).tolist() == [False, True]
    assert labels.isin(["cat", 1]).tolist() == [True, True]


def test_arithmetic_with_labels_gives_plain_arrays():
    labels = LabelArray(np.array([0, 1]), ("cat", "dog"))

    assert type(labels + 1) is np.ndarray
    assert type(labels == 1) is np.ndarray
    assert int(labels.sum()) == 1


def test_labels_keep_their_names_when_sliced_and_pickled():
    labels = LabelArray(np.array([0, 1]), ("cat", "dog"))

    assert labels[1:].names == ("cat", "dog")
    assert pickle.loads(pickle.dumps(labels)).names == ("cat", "dog")
    assert pickle.loads(pickle.dumps(Label(1, ("cat", "dog")))) == "dog"


def test_one_label_is_an_integer_that_equals_its_name():
    label = PETS.present_one(PETS.convert(["dog"], tensor="label"), 0)

    assert label == "dog"
    assert label != "cat"
    assert label == 1
    assert repr(label) == "1 'dog'"
    assert {1: "found"}[label] == "found"


def test_many_labels_a_row_read_as_ragged_labels():
    column = TAGS.convert([["cat"], ["dog", "cat"]], tensor="label")

    shown = TAGS.present(column)

    assert isinstance(shown, Ragged)
    assert (shown[1] == "dog").tolist() == [True, False]
    assert (TAGS.present_one(column, 0) == "cat").tolist() == [True]


def test_nulls_refuse_bulk_reading_and_name_the_way_out():
    pets = ClassLabel(["cat", "dog"], nullable=True)
    column = pets.convert(["cat", None], tensor="label")

    with pytest.raises(InvalidInputError, match=r"ds\['label'\].read\(rows, null=0\)"):
        pets.present(column, tensor="label")
    assert (pets.present(column, null="dog") == "dog").tolist() == [False, True]
    assert pets.present_one(column, 1) is None


def test_a_null_among_lists_of_classes_may_be_read_as_any_list():
    tags = ClassLabel(["cat", "dog"], multi=True, nullable=True)
    column = tags.convert([["cat"], None], tensor="tags")

    for null, expected in ((["dog", "cat"], ["dog", "cat"]), ("dog", [])):
        shown = tags.present(column, null=null)

        assert isinstance(shown[1], LabelArray)
        assert shown[1].names == ("cat", "dog")
        assert shown[1].as_names() == expected


def test_describe_lists_few_names_and_counts_many():
    assert PETS.describe() == "ClassLabel(2: cat, dog)"
    assert ClassLabel([str(number) for number in range(1000)]).describe() == "ClassLabel(1000)"
