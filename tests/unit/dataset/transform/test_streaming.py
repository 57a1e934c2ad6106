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


def test_row_ids_come_when_asked_for_and_are_of_the_rows(ds):
    assert "_row_id" not in next(iter(ds.loader(batch_size=8)))

    ids: list[str] = []
    values: list[int] = []
    for batch in ds.loader(batch_size=8, shuffle=True, columns=["x", "_row_id"]):
        ids += batch["_row_id"]
        values += batch["x"].tolist()

    assert dict(zip(values, ids, strict=True)) == dict(zip(range(100), ds.row_ids, strict=True))


def test_row_ids_go_back_with_the_rows_to_the_version_of_a_state(ds):
    """By position in the newer version they would be the ids of other rows."""
    known = dict(zip(ds["x"][:].tolist(), ds.row_ids, strict=True))
    state = ds.loader(batch_size=8).state_dict()
    ds.delete([0, 1, 2])
    ds.commit("three fewer")

    resumed = ds.loader(batch_size=8, columns=["x", "_row_id"])
    with pytest.warns(NewerVersionWarning):
        resumed.load_state_dict(state)
    batch = next(iter(resumed))

    assert batch["_row_id"] == [known[value] for value in batch["x"].tolist()]


def test_row_ids_of_a_mix_are_refused(ds):
    with pytest.raises(tl.TensorNotFoundError, match="'_row_id' \\(not of a mix\\)"):
        tl.mix({"one": (ds, 1)}).loader(batch_size=2, columns=["x", "_row_id"])
