"""`updates="overlay"`: new values of scattered rows lie together, and nothing else is written."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.format import Schema, TensorSpec
from tensorlake.storage import open_store, runtime
from tensorlake.versions import create_dataset

ROWS = 4000


def table(url, updates="overlay", rows_a_chunk=64):
    values = np.random.default_rng(0).random((ROWS, 64), np.float32)
    kind = tl.Array("float32", (64,), updates=updates)
    specs = (
        TensorSpec.new("w", kind, chunk_nbytes=rows_a_chunk * 256),
        TensorSpec.new("id", tl.Scalar("int64")),
    )
    described = Schema(specs).to_json()
    runtime.run(create_dataset(open_store(url), described, grace_s=86_400, exist_ok=False))
    ds = tl.open(url)
    ds.extend({"w": values, "id": range(ROWS)})
    ds.commit("all")
    return ds, values


def stored(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("updates", "least", "most"), [("overlay", 0.01, 0.03), ("rewrite", 0.3, 1)]
)
def test_a_commit_of_one_row_in_a_hundred_writes_a_share_of_the_table(
    tmp_path, updates, least, most
):
    ds, values = table(tmp_path / "w", updates)
    whole = stored(tmp_path / "w")
    ids = np.random.default_rng(1).choice(ROWS, ROWS // 100, replace=False)

    ds["w"][ids] = values[ids] + 1
    ds.commit("one in a hundred")

    values[ids] += 1
    assert np.array_equal(tl.open(tmp_path / "w")["w"][:], values)
    assert least <= (stored(tmp_path / "w") - whole) / whole <= most


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "update",
                    "update",
                    "update",
                    "delete",
                    "append",
                    "commit",
                    "reopen",
                    "branch",
                    "optimize",
                ]
            ),
            st.integers(0, 2**32),
        ),
        max_size=14,
    )
)
@settings(max_examples=15, deadline=None)
def test_any_history_equals_that_of_an_array(steps):
    url = f"memory://overlay-{uuid4()}"
    ds, values = table(url, rows_a_chunk=32)
    side = 0
    for what, seed in steps:
        rng = np.random.default_rng(seed)
        if what == "update":
            ids = rng.choice(len(values), int(rng.integers(1, 300)), replace=False)
            new = rng.random((len(ids), 64), np.float32)
            ds["w"][ids] = new
            values[ids] = new
        elif what == "delete":
            ids = rng.choice(len(values), 20, replace=False)
            ds.delete(ids)
            values = np.delete(values, ids, axis=0)
        elif what == "append":
            new = rng.random((30, 64), np.float32)
            ds.extend({"w": new, "id": range(30)})
            values = np.concatenate([values, new])
        elif what == "branch":
            ds.commit("before the branch")
            side += 1
            branch = ds.branch(f"side-{side}")
            ids = rng.choice(len(values), 50, replace=False)
            branch["w"][ids] = values[ids] = rng.random((50, 64), np.float32)
            branch.commit("side")
            ds.merge(f"side-{side}")
        else:
            ds.commit(what)
            if what == "optimize":
                ds.optimize()
            elif what == "reopen":
                ds = tl.open(url)
        assert np.array_equal(ds["w"][:], values)
    ds.commit("end")
    assert np.array_equal(tl.open(url)["w"][:], values)
    assert tl.open(url).check().ok
    assert ds.query("WHERE w[0] > 0.5").rows.tolist() == np.flatnonzero(values[:, 0] > 0.5).tolist()


@pytest.mark.parametrize("rows", [1, 3, 300])
def test_a_table_of_one_chunk(rows):
    url = f"memory://overlay-{uuid4()}"
    ds = tl.create(url, {"w": tl.Array("float32", (2,), updates="overlay")})
    ds.extend({"w": np.zeros((rows, 2), np.float32)})
    expected = np.zeros((rows, 2), np.float32)
    for _ in range(3):
        ds["w"][::2] = ds["w"][::2] + 1
        expected[::2] += 1
    ds.commit("thrice")
    ds["w"][[rows - 1]] = expected[[rows - 1]] = np.full((1, 2), 9, np.float32)
    ds.commit("the last")

    assert np.array_equal(tl.open(url)["w"][:], expected)


def test_writers_of_other_rows_are_combined_and_of_the_same_conflict(tmp_path):
    ds, values = table(tmp_path / "w.tl")
    other = tl.open(tmp_path / "w.tl")
    mine, theirs = np.arange(0, ROWS, 50), np.arange(1, ROWS, 50)
    ds["w"][mine] = values[mine] = values[mine] + 1
    other["w"][theirs] = values[theirs] = values[theirs] + 2
    other.commit("theirs")
    ds.commit("mine")
    assert np.array_equal(ds["w"][:], values)

    other = tl.open(tmp_path / "w.tl")
    ds["w"][[3, 9]] = np.zeros((2, 64), np.float32)
    other["w"][[9, 12]] = np.ones((2, 64), np.float32)
    other.commit("theirs")
    with pytest.raises(tl.ConflictError):
        ds.commit("mine")
    ds.discard()


def test_optimize_joins_the_new_rows_with_the_others(tmp_path):
    ds, values = table(tmp_path / "w.tl")
    ids = np.arange(0, ROWS, 7)
    ds["w"][ids] = values[ids] = values[ids] + 1
    ds.commit("every seventh")

    ds.optimize()

    assert np.array_equal(tl.open(tmp_path / "w.tl")["w"][:], values)
    assert "optimal already" in str(ds.optimize())


def test_other_words_are_refused_and_the_type_is_kept(tmp_path):
    with pytest.raises(tl.SchemaError, match="'rewrite' or 'overlay'"):
        tl.Array("float32", (2,), updates="delta")
    ds, _ = table(tmp_path / "w.tl")

    ds.alter_tensor("w", dtype="float64")

    assert ds["w"].type == tl.Array("float64", (64,), updates="overlay")
    assert "updates" in repr(ds["w"].type)
