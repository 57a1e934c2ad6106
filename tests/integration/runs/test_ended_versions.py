"""Versions of ended branches: what copies of them answer, and the names of what is left."""

from __future__ import annotations

import pytest

import tensorlake as tl


def test_a_copy_names_the_ended_tag_and_forgotten_tags_keep_their_name(tmp_path):
    ds = tl.create(tmp_path / "z.tl", {"name": tl.Text(personal=True)})
    ds.extend({"name": ["Ana", "Cem", "Eva"]})
    ds.commit("three")
    ds.branch("fix")
    with tl.open(tmp_path / "z.tl", version="fix") as fix:
        fix.append({"name": "Zoe"})
        fix.commit("more")
        fix.tag("kept")
    ds.delete_branch("fix")

    with pytest.raises(tl.SnapshotExpiredError, match=r"copy\(version='kept'\): fix@2 of"):
        tl.copy(ds.url, tmp_path / "one.tl", version="kept")
    tl.copy(ds.url, tmp_path / "all.tl")
    assert len(tl.open(tmp_path / "all.tl", version="kept")) == 4

    with ds.run("r") as run:
        for _ in run.loader(batch_size=1):
            run.log(loss=1.0)
    tags = []
    for name in ("Ana", "Eva"):
        ds.forget(f"name = '{name}'")
        tags += [sorted(tl.open(ds.url).tags)]
    assert tags == [["main-1.forgotten"], ["main-1.forgotten-2"]]  # "kept" had Ana too
