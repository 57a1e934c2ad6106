"""Packed samples taken by their places, few and many, are those of a list."""

import numpy as np
import pytest

from tensorlake.types import Text
from tensorlake.types.base.column import PackedSamples


def packed(samples):
    lengths = [len(sample) for sample in samples]
    content = b"before" + b"".join(samples) + b"after"
    return PackedSamples(content, np.cumsum([6, *lengths]))


@pytest.mark.parametrize("count", [0, 3, 5000])
@pytest.mark.parametrize("longest", [0, 9, 200])
def test_samples_at_any_places_are_those_of_a_list(count, longest):
    random = np.random.default_rng(count + longest)
    samples = [random.bytes(int(size)) for size in random.integers(0, longest + 1, 700)]
    rows = random.integers(3, len(samples) - 2, count)

    taken = packed(samples)[3:-2].take(rows - 3)

    assert list(taken) == [samples[row] for row in rows.tolist()]


@pytest.mark.parametrize("letters", ["abc", "é🐕\0"])
def test_many_strings_are_those_of_few(letters):
    texts = [letters * (row % 5) + str(row) for row in range(70_000)]
    samples = packed([text.encode() for text in texts])

    assert Text().present_samples(samples) == texts
    assert Text().present_samples(samples[5:9]) == texts[5:9]
    assert Text().present_samples(samples[5:]) == texts[5:]
