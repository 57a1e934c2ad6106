"""Data written by a released format version stays readable for ever (format.md, test 34)."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl

HERE = Path(__file__).parent
DATASET = HERE / "v1"


def _contents():
    spec = importlib.util.spec_from_file_location("golden_contents", HERE / "contents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def golden():
    return _contents()


def test_the_first_commit_reads_as_it_was_written(golden):
    ds = tl.open(DATASET.as_posix(), "main@1")
    batch = golden.BATCHES[0]

    assert len(ds) == 3
    assert dict(ds.schema) == golden.SCHEMA
    assert ds["image"].bytes(0) == golden.JPEG
    assert ds[1]["image"] is None
    assert ds[0]["image"].shape == (8, 8, 3)
    assert (ds["label"][:] == ["cat", "cat", "dog"]).all()
    assert [len(boxes) for boxes in ds["boxes"][:]] == [0, 1, 2]
    assert ds["boxes"][2].tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert ds["score"].read(null=-1.0)[:2].tolist() == [0.5, -1.0]
    assert np.isnan(ds["score"][2])
    assert np.array_equal(ds["vector"][:], batch["vector"])
    assert ds["count"][:].tolist() == batch["count"]
    assert ds["note"][:] == batch["note"]
    assert [row["meta"] for row in ds] == batch["meta"]
    assert ds["blob"][:] == batch["blob"]
    for read, written in zip(ds["cube"][:], batch["cube"], strict=True):
        assert np.array_equal(read, written)
    assert ds["flag"][:].tolist() == [True, False, True]


def test_many_small_commits_read_in_order(golden):
    ds = tl.open(DATASET.as_posix(), "main@21")

    assert ds["count"][3:].tolist() == list(range(20))
    assert set(ds["note"][3:]) == {"small"}
    assert np.array_equal(ds["vector"][20], golden.BATCHES[1]["vector"][0])


def test_updates_deletes_tags_and_branches_read_as_they_were_written():
    ds = tl.open(DATASET.as_posix(), "v1")

    assert ds.version == "main@22"
    assert len(ds) == 22
    assert (ds["label"][:2] == ["cat", "dog"]).all()
    assert [ds[row]["score"] for row in (0, 4)] == [None, 0.25]
    assert 2**63 - 1 not in ds["count"][:]
    side = tl.open(DATASET.as_posix(), "side/größe", read_only=True)
    assert len(side) == 23
    assert side["label"][22] == "cat"
    assert [commit.message for commit in side.log()[:2]] == ["beside", "branch from main@22"]


def test_the_changed_schema_reads_with_its_fill_and_new_names():
    ds = tl.open(DATASET.as_posix(), read_only=True)

    assert ds["added"][:5].tolist() == [7, 7, 7, -1, 7]
    assert ds["label"].names == ("cat", "dog", "cow")
    assert "note" not in ds.schema
    assert ds["remark"][1] == "größe"
    assert len(ds.query("WHERE label = 'dog' AND count >= 10")) == 10


def test_a_copy_can_still_be_written(tmp_path):
    shutil.copytree(DATASET, tmp_path / "copy")
    ds = tl.open((tmp_path / "copy").as_posix())
    before = len(ds)

    ds.extend(ds.take(2))
    ds.commit("written by a later version")

    assert len(tl.open((tmp_path / "copy").as_posix())) == before + 2
