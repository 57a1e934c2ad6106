"""Altered types, united classes and saved views stay readable for ever (format.md 34)."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of

DATASET = Path(__file__).parent / "v1_evolved"
ROWS = 3000


@pytest.fixture(scope="module")
def ds():
    return tl.open(DATASET.as_posix(), read_only=True)


def test_widened_numbers_read_with_what_was_assigned_since(ds):
    count, ratio = ds["count"][:ROWS], ds["ratio"][:ROWS]

    assert (count.dtype, ratio.dtype) == (np.int32, np.float32)
    assert count[:3].tolist() == [70_000, 1, 2]
    assert np.array_equal(count[1:], np.arange(1, ROWS) % 256)
    assert ratio[:3].tolist() == [-1500.0, 0.5, -1498.0]
    assert ds["count"].metadata == {"unit": "animals"}
    assert ds.query("WHERE count > 255").rows.tolist() == [0]
    assert ds.query("WHERE ratio = 0.5").rows.tolist() == [1]


def test_what_had_one_shape_reads_ragged(ds):
    assert ds[0]["tokens"] is None
    assert [ds["tokens"][row].tolist() for row in (1, 2, 3, ROWS)] == [
        [1, 2],
        [9, 9, 9],
        [3, 4],
        [],
    ]
    assert ds["tokens"].shapes()[:4].tolist() == [[-1], [2], [3], [2]]


def test_what_lost_its_nulls_has_none(ds):
    assert not ds.schema["note"].nullable
    assert ds["note"][:4] == ["none", "", "none", ""]


def test_classes_of_two_writers_are_told_apart(ds):
    assert ds["label"].names == ("cat", "dog", "", "owl", "hen", "emu")
    assert ds["label"][ROWS:].as_names() == ["hen", "emu", "hen"]
    assert ds["label"][:2].as_names() == ["cat", "dog"]
    assert ds.query("WHERE label = 'hen'").rows.tolist() == [ROWS, ROWS + 2]
    assert ds.query("WHERE label = 'emu'").rows.tolist() == [ROWS + 1]


def test_the_first_version_has_the_types_it_was_declared_with():
    then = tl.open(DATASET.as_posix(), "main@1")

    assert then["count"].dtype == np.uint8
    assert then["ratio"].dtype == np.int16
    assert then["tokens"][1].tolist() == [1, 2]
    assert then["tokens"].read(null=[0, 0]).shape == (ROWS, 2)
    assert then["label"].names == ("cat", "dog", "cow")


def test_saved_views_open_with_their_rows_and_query(ds):
    order = np.random.Generator(np.random.Philox(7)).permutation(ROWS)[:2000]

    assert list(ds.views) == ["largest", "scattered"]
    assert np.array_equal(ds.views["scattered"].rows, order)
    largest = ds.views["largest"]
    assert largest.rows.tolist() == list(range(2999, 2989, -1))
    assert np.asarray(largest["twice"]).tolist() == list(range(2998, 2978, -2))
    assert rowset_of(largest).steps[0].params == {"low": 1490}
    assert len(largest.rerun()) == 10


def test_a_copy_can_still_be_written(tmp_path):
    shutil.copytree(DATASET, tmp_path / "copy")
    ds = tl.open((tmp_path / "copy").as_posix())

    ds.extend(ds.take(2))
    ds["label"][0] = "emu"
    ds.alter_tensor("count", dtype="int64")
    ds.commit("written by a later version")

    again = tl.open((tmp_path / "copy").as_posix())
    assert again["label"][[0, 1, -2, -1]].as_names() == ["emu", "dog", "cat", "dog"]
    assert again["count"][-2:].tolist() == [70_000, 1]
