"""A fork stays readable for ever, as long as its base is where it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore, runtime
from tests.golden.make_v1_fork import STORE

DATASET = Path(__file__).parent / "v1_fork"


@pytest.fixture(scope="module")
def ds() -> tl.Dataset:
    for part in ("base", "fork"):
        store = MemoryStore(STORE, prefix=part)
        for path in (DATASET / part).rglob("*"):
            if path.is_file():
                name = path.relative_to(DATASET / part).as_posix()
                runtime.run(store.put(name, path.read_bytes()))
    return tl.open(f"memory://{STORE}/fork")


def test_its_rows_and_those_of_its_branch_read(ds):
    assert ds["x"][:].tolist() == [0, 1, 2, -3, *range(4, 51)]
    assert ds["name"][[0, 49, 50]] == ["row 0", "row 49", "row 50"]
    assert ds.at("fix")["x"][:6].tolist() == [0, 1, 2, -3, -4, 5]
    assert [(one.url, one.version) for one in ds.bases] == [(f"memory://{STORE}/base", "main@1")]


def test_it_is_whole_and_can_be_written(ds):
    assert ds.check().ok
    ds["x"][5] = -5
    ds.commit("more")
    assert tl.open(ds.url)["x"][3:6].tolist() == [-3, 4, -5]


def test_every_entry_with_a_version_needs_the_feature_to_be_read():
    entries = [
        json.loads(path.read_bytes())
        for path in sorted((DATASET / "fork/branches").rglob("*.json"))
    ]

    forks = [entry for entry in entries if entry["kind"] != "begin"]
    assert len(forks) == 4
    assert all(entry["features"]["read"] == ["pack-bases"] for entry in forks)
    assert all(len(entry["bases"]) == 1 for entry in forks)
