"""RLE packed for many masks at once is what pycocotools packs for each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco_mask

from tensorlake.types import encode_run_lengths, pack_runs, run_table


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32 - 1)), max_size=5)
)
def test_many_masks_are_packed_as_pycocotools_packs_each(sizes):
    masks = [
        np.random.default_rng(seed).random((height, width)) > seed % 7 / 7
        for height, width, seed in sizes
    ]
    runs = [encode_run_lengths(mask)["counts"] for mask in masks]
    plain = run_table(
        [{"size": [*mask.shape], "counts": one} for mask, one in zip(masks, runs, strict=True)]
    )

    characters, lengths = pack_runs(plain.runs, plain.counts)

    stops = np.cumsum(lengths).tolist()
    packed = [
        characters.tobytes()[stop - n : stop]
        for n, stop in zip(lengths.tolist(), stops, strict=True)
    ]
    assert [one.decode() for one in packed] == runs
    for mask, one in zip(masks, packed, strict=True):
        if mask.size:
            assert one == coco_mask.encode(np.asfortranarray(mask, np.uint8))["counts"]
