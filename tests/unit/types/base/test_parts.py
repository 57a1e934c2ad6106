"""Bytes of a sample by their offsets, out of the parts that were fetched."""

import numpy as np
import pytest

from tensorlake.types import SampleMap, SampleParts

MAP = SampleMap(b"", np.array([3, 5, 9]))
PARTS = SampleParts(MAP, {0: b"abc", 1: b"de", 2: b"fghi"})


@pytest.mark.parametrize("start", range(10))
def test_bytes_are_read_within_a_part_and_across(start):
    for stop in range(10):
        assert bytes(PARTS.read(start, stop)) == b"abcdefghi"[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 10), (8, 12), (20, 30)])
def test_bytes_beyond_the_sample_are_refused(start, stop):
    with pytest.raises(ValueError, match="of a sample of 9"):
        PARTS.read(start, stop)


def test_parts_that_were_not_fetched_are_named():
    with pytest.raises(ValueError, match="part 1, not fetched"):
        SampleParts(MAP, {0: b"abc"}).read(2, 4)
