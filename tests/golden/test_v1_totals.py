"""Trees whose references say what the chunks below weigh stay readable for ever (format.md 34)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of

DATASET = Path(__file__).parent / "v1_totals"
ROWS = 1500


@pytest.fixture
def ds():
    return tl.open(DATASET.as_posix(), read_only=True)


def test_every_row_reads(ds):
    text = [f"row {row} " * (row % 9) for row in range(ROWS)]
    text[700] = "assigned"

    assert ds["text"][:] == text
    assert np.array_equal(ds["number"][:], np.arange(ROWS))


def test_what_a_row_weighs_is_in_the_root_and_is_what_its_chunks_weigh(ds):
    entry = json.loads((DATASET / "branches" / "main" / "0000000002.json").read_bytes())
    indexes = [rowset_of(ds).reader().index(name) for name in ("text", "number")]

    assert len(entry["roots"]) == len(indexes)
    assert all(root["children"] and all(root["stored"]) for root in entry["roots"].values())
    assert rowset_of(ds).reader().row_nbytes(["text", "number"]) == [
        int(index.extents.nbytes.sum()) // ROWS for index in indexes
    ]
