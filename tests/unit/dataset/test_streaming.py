"""A dataset's loader goes back to the version that its state recorded."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.loader import NewerVersionWarning


@pytest.fixture
def ds():
    made = tl.create("memory://streaming-" + np.random.default_rng().bytes(6).hex(), {"x": "int64"})
    made.extend({"x": np.arange(100)})
    made.commit("a hundred")
    return made


def test_a_stream_goes_on_at_its_version_after_the_branch_moved(ds):
    loader = ds.loader(batch_size=8, shuffle=True, seed=2)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    state = loader.state_dict()
    rest = [batch["x"] for batch in batches]
    ds.extend({"x": np.arange(50)})
    ds.commit("fifty more")

    resumed = ds.loader(batch_size=8, shuffle=True, seed=2)
    with pytest.warns(NewerVersionWarning, match="main@1"):
        resumed.load_state_dict(state)
    again = [batch["x"] for batch in resumed]

    assert len(again) == len(rest)
    for one, other in zip(rest, again, strict=True):
        assert np.array_equal(one, other)


def test_a_view_cannot_go_on_with_the_state_of_other_rows(ds):
    state = ds.where("x < 50").loader(batch_size=8, shuffle=True).state_dict()

    with pytest.raises(tl.StateMismatchError):
        ds.where("x < 60").loader(batch_size=8, shuffle=True).load_state_dict(state)
