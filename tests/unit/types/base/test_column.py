"""Columns: taking, slicing and joining them equals doing so with lists."""

import numpy as np
import pytest

from tensorlake.types import (
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    as_ragged,
    concat,
    null_count,
    slice_rows,
    take,
)

RAGGED = RaggedColumn(np.arange(8), np.array([[2], [0], [5], [1]]))
WIDE = RaggedColumn(np.arange(600), np.array([[100], [200], [0], [300]]))
ENCODED = EncodedColumn(
    [b"a", b"", b"ccc"], np.array([[1], [0], [3]]), np.array([True, False, True])
)


def as_lists(column):
    return [column.sample(position).tolist() for position in range(len(column))]


@pytest.mark.parametrize("column", [RAGGED, WIDE], ids=["short samples", "long samples"])
def test_take_of_a_ragged_column_gives_the_samples_in_the_order_asked_for(column):
    rows = [3, 1, 1, 0]

    taken = take(column, np.array(rows))

    assert as_lists(taken) == [as_lists(column)[row] for row in rows]


def test_take_of_an_ascending_run_copies_no_values():
    taken = take(UniformColumn(np.arange(10)), np.array([3, 4, 5]))

    assert taken.values.tolist() == [3, 4, 5]
    assert not taken.values.flags.owndata


def test_take_of_no_rows_keeps_dtype_and_shape():
    taken = take(UniformColumn(np.zeros((4, 2), np.float32)), np.array([], dtype=np.int64))

    assert taken.values.shape == (0, 2)
    assert taken.values.dtype == np.float32


@pytest.mark.parametrize("column", [RAGGED, ENCODED, UniformColumn(np.zeros(3))])
@pytest.mark.parametrize("row", [-1, 4])
def test_take_refuses_positions_outside(column, row):
    with pytest.raises(IndexError, match="outside"):
        take(column, np.array([0, row]))


def test_slice_of_a_ragged_column_shares_its_values():
    part = slice_rows(RAGGED, 1, 3)

    assert as_lists(part) == [[], [2, 3, 4, 5, 6]]
    assert np.shares_memory(part.values, RAGGED.values)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 1), (0, 5)])
def test_slice_refuses_ranges_outside(start, stop):
    with pytest.raises(IndexError, match="outside"):
        slice_rows(RAGGED, start, stop)


def test_a_part_without_nulls_has_no_validity():
    assert slice_rows(ENCODED, 2, 3).valid is None
    assert null_count(slice_rows(ENCODED, 0, 2)) == 1


def test_concat_keeps_nulls_of_each_part():
    joined = concat([ENCODED, slice_rows(ENCODED, 0, 1)])

    assert joined.samples == [b"a", b"", b"ccc", b"a"]
    assert joined.valid.tolist() == [True, False, True, True]
    assert joined.shapes.tolist() == [[1], [0], [3], [1]]


def test_concat_forgets_shapes_that_one_part_does_not_know():
    assert concat([ENCODED, EncodedColumn([b"x"])]).shapes is None


def test_concat_of_uniform_and_ragged_is_ragged():
    joined = concat([UniformColumn(np.array([[7, 8]])), RAGGED])

    assert as_lists(joined) == [[7, 8], *as_lists(RAGGED)]


def test_concat_of_uniform_columns_of_two_shapes_is_ragged():
    joined = concat([UniformColumn(np.zeros((1, 2))), UniformColumn(np.ones((1, 3)))])

    assert as_lists(joined) == [[0, 0], [1, 1, 1]]


def test_concat_refuses_nothing_at_all():
    with pytest.raises(ValueError, match="at least one"):
        concat([])


def test_concat_refuses_encoded_with_decoded():
    with pytest.raises(ValueError, match="decode"):
        concat([ENCODED, RAGGED])


def test_as_ragged_drops_the_zeros_under_nulls():
    column = as_ragged(UniformColumn(np.array([[1, 2], [0, 0]]), np.array([True, False])))

    assert as_lists(column) == [[1, 2], []]
    assert column.valid.tolist() == [True, False]


def test_offsets_of_samples_without_elements_do_not_move():
    assert RaggedColumn(np.zeros(0), np.array([[0, 4], [3, 0]])).offsets.tolist() == [0, 0, 0]
