"""Ragged: a list of arrays that is one array."""

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError, RaggedBatchError
from tensorlake.types import Array, BBox, ClassLabel, Image, Ragged, RaggedColumn


@pytest.fixture
def boxes():
    column = BBox().convert([np.zeros((2, 4)), np.ones((1, 4)), []], tensor="boxes")
    return BBox().present(column)


def test_repr_shows_the_shapes(boxes):
    assert repr(boxes) == "Ragged(3 arrays, float32, shapes (2, 4) (1, 4) (0, 4))"


def test_values_keep_the_axes_that_do_not_vary(boxes):
    assert boxes.values.shape == (3, 4)
    assert boxes.offsets.tolist() == [0, 2, 3, 3]
    assert boxes.lengths.tolist() == [2, 1, 0]


def test_values_are_flat_where_several_axes_vary():
    pictures = Ragged(RaggedColumn(np.arange(10), np.array([[2, 3], [4, 1]])))

    assert pictures.values.shape == (10,)
    assert pictures.lengths.tolist() == [6, 4]
    assert pictures[-1].tolist() == [[6], [7], [8], [9]]


@pytest.mark.parametrize(
    ("key", "shapes"),
    [
        (slice(1, None), [[1, 4], [0, 4]]),
        (slice(None, None, -1), [[0, 4], [1, 4], [2, 4]]),
        ([2, 0, 0], [[0, 4], [2, 4], [2, 4]]),
        (np.array([True, False, True]), [[2, 4], [0, 4]]),
        (slice(2, 1), []),
    ],
)
def test_slices_lists_and_masks_choose_arrays(boxes, key, shapes):
    assert boxes[key].shapes.tolist() == shapes


def test_a_position_outside_is_an_index_error(boxes):
    with pytest.raises(IndexError):
        boxes[3]


def test_iteration_gives_every_array(boxes):
    assert [array.shape for array in boxes] == [(2, 4), (1, 4), (0, 4)]


def test_pad_fills_up_to_the_largest():
    tokens = Ragged(RaggedColumn(np.array([1, 2, 3]), np.array([[1], [0], [2]])))

    assert tokens.pad(-1).tolist() == [[1, -1], [-1, -1], [2, 3]]


def test_pad_fills_every_axis(boxes):
    padded = boxes.pad(7)

    assert padded.shape == (3, 2, 4)
    assert padded[1].tolist() == [[1] * 4, [7] * 4]


def test_stack_needs_one_shape(boxes):
    assert boxes[:1].stack().shape == (1, 2, 4)
    with pytest.raises(RaggedBatchError, match=r"from \(0, 4\) to \(2, 4\)"):
        boxes.stack()
    with pytest.raises(RaggedBatchError):
        np.asarray(boxes)


def test_nothing_stacks_and_pads_to_nothing(boxes):
    nothing = boxes[:0]

    assert len(nothing.stack()) == 0
    assert nothing.pad(0).shape == (0, 0, 0)


def test_what_reading_gives_follows_from_the_schema_not_the_values():
    same = Array("float32", (None,)).convert([[1], [2]], tensor="x")

    assert isinstance(Array("float32", (None,)).present(same), Ragged)
    assert (
        Image().present(RaggedColumn(np.zeros(0, np.uint8), np.zeros((0, 3), np.int64))).inner
        is None
    )


def test_ragged_is_stored_as_the_list_of_its_arrays():
    boxes = Ragged(RaggedColumn(np.arange(12.0), np.array([[2, 4], [0, 4], [1, 4]])), inner=(4,))

    column, listed = (BBox().convert(one, tensor="boxes") for one in (boxes, list(boxes)))

    assert np.array_equal(column.values, listed.values)
    assert column.values.dtype == np.float32
    assert column.shapes.tolist() == listed.shapes.tolist()


@pytest.mark.parametrize(
    ("values", "shapes", "kind", "row"),
    [
        (np.arange(8.0), [[1, 4], [2, 2]], BBox(), 1),
        (np.arange(9.0), [[1, 4], [1, 5]], BBox(), 1),
        (np.array([1, 2, 300]), [[2], [1]], Array("uint8", (None,)), 1),
        (np.array([0.5, 1.5]), [[1], [1]], Array("uint8", (None,)), 0),
        (np.array([0, 1, 2]), [[2], [1]], ClassLabel(["a", "b"], multi=True), 1),
    ],
)
def test_ragged_that_does_not_fit_names_its_row(values, shapes, kind, row):
    ragged = Ragged(RaggedColumn(values, np.array(shapes)))

    with pytest.raises(InvalidInputError) as caught:
        kind.convert(ragged, tensor="x")

    assert caught.value.facts["row"] == row


def test_ragged_labels_go_by_name():
    theirs = ClassLabel(["b", "a"], multi=True)
    column = theirs.convert([["b", "a"], []], tensor="label")

    taken = ClassLabel(["a", "b"], per="boxes").convert(theirs.present(column), tensor="label")

    assert taken.values.tolist() == [1, 0]
    assert taken.shapes.tolist() == [[2], [0]]
