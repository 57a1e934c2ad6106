"""What was read on somebody's behalf is counted, across the storage loop, and for nobody else."""

from __future__ import annotations

import numpy as np

import tensorlake as tl
from tensorlake.storage import counted, note_read


def test_what_a_read_takes_is_counted_through_the_storage_loop():
    ds = tl.create("memory://tally", {"x": "int64"})
    ds.extend({"x": np.random.default_rng(0).integers(2**60, size=1000)})
    ds.commit("a thousand")
    fresh = tl.open("memory://tally")

    with counted() as tally:
        fresh["x"][:]

    assert tally.requests > 0
    assert tally.nbytes >= 8000


def test_what_an_inner_tally_counted_is_the_outer_ones_too_and_nobody_is_none():
    note_read(1, requests=1)

    with counted() as outer:
        note_read(10, requests=1)
        with counted() as inner:
            note_read(100, requests=2)
        note_read(1000, requests=1)

    assert (outer.nbytes, outer.requests) == (1110, 4)
    assert (inner.nbytes, inner.requests) == (100, 2)
