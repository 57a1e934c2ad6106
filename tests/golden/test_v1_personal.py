"""A dataset with a personal tensor stays readable for ever, and has no statistics of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensorlake as tl

DATASET = Path(__file__).parent / "v1_personal"


@pytest.fixture
def ds():
    return tl.open(DATASET.as_posix(), read_only=True)


def test_every_version_reads(ds):
    assert ds["name"].to_list() == ["Ada", "", None, "Grace", "Alan"]
    assert tl.open(DATASET.as_posix(), version="main@1")["name"].to_list()[4] == "Ada"
    assert ds.query("WHERE name = 'Grace'")["x"][:].tolist() == [4]


def test_the_entries_need_the_feature_to_be_written(ds):
    entry = (DATASET / "branches" / "main" / "0000000001.json").read_text(encoding="utf-8")

    assert '"personal"' in entry
    assert "Grace" not in entry
