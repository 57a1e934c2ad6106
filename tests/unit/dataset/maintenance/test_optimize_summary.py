"""What a handle says of optimizing: whether it would help, and what is stored."""

import numpy as np

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on
from tests.support.small_commits import (
    extents_of,
    many_small_commits,
)


def test_summary_says_when_optimizing_would_help_and_what_is_new_since():
    ds = many_small_commits(MemoryStore(), commits=10)
    ds.delete(range(10))
    ds.commit("delete")

    advice = ds.summary().advice
    ds.optimize()

    assert advice == "ds.optimize() would merge 50 small chunks and drop 10 deleted rows"
    assert advice in repr(ds.at("main@11").summary())
    assert ds.summary().advice == ""


def test_what_is_stored_is_counted_once_however_many_windows_it_has():
    ds = create_on(MemoryStore(), {"vector": tl.Embedding(96)})
    ds.extend({"vector": np.ones((200, 96), np.float32)})
    ds.commit("all")
    ds.delete(range(0, 200, 2))
    ds.commit("every other one")

    ds.optimize()

    (tensor,) = ds.summary().tensors
    assert len(extents_of(ds, "vector")) == 200  # a window and a hole each
    assert 100 * 384 < ds.nbytes < 100 * 384 + 1000
    assert tensor.stored_nbytes == ds.nbytes
    assert tensor.nulls == 0


def test_a_loader_sees_no_nulls_where_dead_rows_were_emptied():
    ds = create_on(MemoryStore(), {"number": "int64"})
    ds.extend({"number": np.arange(64)})
    ds.commit("all")
    ds.delete([5, 6, 40])
    ds.commit("fewer")
    ds.optimize()

    batches = [batch["number"] for batch in ds.loader(batch_size=61)]

    assert np.concatenate(batches).tolist() == [n for n in range(64) if n not in {5, 6, 40}]
