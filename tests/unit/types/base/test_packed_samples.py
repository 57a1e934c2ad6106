"""Samples end to end behave as a list of them."""

import numpy as np
import pytest

from tensorlake.types import EncodedColumn, PackedSamples, concat, slice_rows, take

SAMPLES = [b"one", b"", b"three", b"4" * 300, b"five"]


def packed(samples):
    return PackedSamples(b"".join(samples), np.cumsum([0, *map(len, samples)]))


def test_packed_samples_are_a_sequence():
    made = packed(SAMPLES)

    assert list(made) == SAMPLES
    assert made == SAMPLES
    assert [made[at] for at in range(-5, 5)] == SAMPLES + SAMPLES
    assert made[1:3] == SAMPLES[1:3]
    assert made[::2] == SAMPLES[::2]
    assert made[3:1] == []
    assert made.lengths.tolist() == [3, 0, 5, 300, 4]


def test_a_position_outside_is_refused():
    with pytest.raises(IndexError, match="sample 5 of 5"):
        packed(SAMPLES)[5]


@pytest.mark.parametrize("rows", [[4, 0, 0], [], [3, 3, 1], [1, 2]])
def test_rows_are_taken_from_packed_samples(rows):
    column = EncodedColumn(packed(SAMPLES))

    assert take(column, np.array(rows, np.int64)).samples == [SAMPLES[row] for row in rows]


def test_slices_of_packed_samples_are_joined():
    column = EncodedColumn(packed(SAMPLES))
    other = EncodedColumn([b"x"])

    parts = slice_rows(column, 2, 4), slice_rows(column, 0, 1)

    assert concat(parts).samples == [*SAMPLES[2:4], SAMPLES[0]]
    assert isinstance(concat(parts).samples, PackedSamples)
    assert concat([*parts, other]).samples == [*SAMPLES[2:4], SAMPLES[0], b"x"]
