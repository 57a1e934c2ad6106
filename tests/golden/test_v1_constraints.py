"""A dataset with constraints stays readable for ever, and keeps them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tensorlake as tl

DATASET = Path(__file__).parent / "v1_constraints"


def test_rows_and_constraints_read():
    ds = tl.open(DATASET.as_posix(), read_only=True)

    report = ds.validate()

    assert ds["count"].to_list() == [5, 3, None]
    assert list(report.violations) == ["at least four"]
    assert report.violations["at least four"]["id"][:].tolist() == [2]
    assert "at least four" not in tl.open(DATASET.as_posix(), version="main@1").checks


def test_what_breaks_one_is_refused(tmp_path):
    ds = tl.open(shutil.copytree(DATASET, tmp_path / "orders.tl"))

    ds["sent"][0] = 6
    with pytest.raises(tl.ConstraintError, match="not more than ordered"):
        ds.commit("too many")
    ds.discard()
    ds.append({"id": 2, "count": 9, "sent": 0})
    with pytest.raises(tl.ConstraintError) as caught:
        ds.commit("again")
    assert caught.value.rows == (3,)


def test_the_entries_need_the_feature_to_be_written():
    entry = (DATASET / "branches" / "main" / "0000000001.json").read_text(encoding="utf-8")

    assert '"constraints"' in entry
