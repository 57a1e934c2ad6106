"""What holds a row: equal to a look at every version, tag, view and step."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl


@pytest.fixture
def lake(tmp_path):
    """A dataset with a branch, a tag, views and two runs, of which a row is deleted."""
    ds = tl.create(tmp_path / "lake.tl", {"x": "int64"})
    ds.extend({"x": np.arange(20)})
    ds.commit("twenty")
    ds.tag("v1")
    ds.query("WHERE x < 5").save("small")
    ds.query("WHERE x >= 5").save("large")
    ds.branch("side").close()
    with ds.run("early") as run:
        list(run.loader(batch_size=6, shuffle=True, seed=1))
    ds.delete([3, 4])
    ds.commit("without two")
    ds["x"][0] = 100
    ds.commit("changed")
    with ds.run("late") as run:
        list(run.loader(batch_size=6, shuffle=True, seed=1))
    ds.restore("main@1")
    ds.commit("back")
    return ds


@pytest.mark.parametrize("x", [3, 7])
def test_a_trace_equals_a_look_at_everything(lake, x):
    row = int(np.flatnonzero(lake["x"][:] == x)[0])

    found = lake.trace(row)

    def shown(version):
        return x in tl.open(lake.url, version=version)["x"][:]

    held = {f"{one.branch}@{at}" for one in found.versions for at in range(one.first, one.last + 1)}
    commits = {commit.version for commit in lake.log()} | {
        tl.open(lake.url, version="side").version
    }
    assert held & commits == {version for version in commits if shown(version)}
    assert found.tags == ("v1",)
    assert found.views == ("small" if x == 3 else "large",)
    for name in ("early", "late"):
        run = lake.runs[name]
        steps = [step for step in range(4) if _has(run, step, x)]
        assert list(found.runs.get(name, ())) == steps


def _has(run, step, x):
    try:
        return x in run.batch(step)["x"]
    except tl.InvalidInputError:
        return False


def test_a_row_that_is_no_longer_shown_is_named_by_its_id(lake):
    old = tl.open(lake.url, version="main@1")
    name = old.row_ids[3]
    lake.restore("main@3")
    lake.commit("without it again")

    assert lake.trace(name) == old.trace(3)
    assert lake.trace(name).row_ids == (name,)


def test_what_is_no_row_is_refused(lake):
    with pytest.raises(tl.RowNotFoundError):
        lake.trace(99)
    for given in ("a", "0:1", 1.5, None, "z" * 32 + ":1"):
        with pytest.raises(tl.InvalidInputError):
            lake.trace(given)


def test_a_run_that_cannot_tell_says_so(lake):
    with lake.run("mixed") as run:
        list(run.loader(tl.mix({"a": (lake, 1.0)}), batch_size=3))

    assert "mixed" in lake.trace(0).unknown
