"""Versions that runs keep: one tag, which outlives expiry."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl


def test_runs_of_a_version_share_a_tag_that_keeps_it(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"x": "int64"})
    ds.extend({"x": np.arange(20)})
    ds.commit("twenty")
    for name in ("a", "b"):
        with ds.run(name, keep=True) as run:
            seen = [batch["x"].tolist() for batch in run.loader(batch_size=6, shuffle=True, seed=1)]
    ds["x"][:] = 0
    ds.commit("zeros")
    ds.expire(keep_last=1)
    ds.gc()

    assert {name: tag.version for name, tag in ds.tags.items()} == {"runs-main-1": "main@1"}
    assert ds.runs["a"].batch(2)["x"].tolist() == seen[2]


def test_a_tag_of_another_version_is_named(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"x": "int64"})
    ds.tag("runs-main-1")
    ds.extend({"x": [1]})
    ds.commit("one")

    with pytest.raises(tl.InvalidInputError, match="'runs-main-1', which is a tag of main@0 here"):
        ds.run("a", keep=True)
    with pytest.raises(tl.InvalidInputError):
        ds.run("a", keep="yes")
