"""A dataset with computed columns stays readable for ever, and knows its stale rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensorlake as tl

DATASET = Path(__file__).parent / "v1_computed"


@pytest.fixture
def ds():
    return tl.open(DATASET.as_posix(), read_only=True)


def test_results_expressions_and_reasons_read(ds):
    assert ds["characters"][:].tolist() == [13, 17, 0, 4, 8]
    assert ds["initials"].to_list() == ["atl", "tw", None, "m", None]
    assert ds["lengths"].to_list() == [*([1, 6, 4], [3, 5], [], [4], None)]
    assert ds["initials.error"].to_list() == [None, None, "ValueError: no words", None, None]


def test_rows_that_changed_are_stale_and_earlier_versions_are_fresh(ds):
    before = tl.open(DATASET.as_posix(), version="main@1")

    assert ds.stale("lengths").rows.tolist() == [1, 4]
    assert ds.query("WHERE FRESH(initials)").rows.tolist() == [0, 2, 3]
    assert before.stale("lengths").rows.tolist() == []
    assert before["characters"][:].tolist() == [13, 9, 0, 4]


def test_the_entries_name_what_only_the_expression_needs():
    entry = (DATASET / "branches" / "main" / "0000000001.json").read_text(encoding="utf-8")

    assert entry.count('"expression"') >= 1
    assert '"initials.error"' in entry
