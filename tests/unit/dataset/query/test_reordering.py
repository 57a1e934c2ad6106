"""Putting rows in another order: values and ids stay, what others do meanwhile is carried over."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of, session_of
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore
from tests.support.handles import create_on, open_on, reopened
from tests.support.small_commits import content, extend, many_small_commits


def test_rows_in_another_order_keep_their_ids_and_values():
    ds = many_small_commits(MemoryStore())
    ds.delete([4])
    ds.commit("delete")
    before = dict(zip(*content(ds), strict=True))

    report = ds.optimize(order_by="label DESC")

    ids, rows = content(ds)
    assert dict(zip(ids, rows, strict=True)) == before
    assert [one["label"] for one in rows] == sorted((r["label"] for r in rows), reverse=True)
    assert session_of(ds).head.changes.rewrite
    assert report.commits == 1
    assert content(reopened(ds)) == (ids, rows)
    assert ds.check().ok


def test_another_order_puts_what_belongs_together_into_one_chunk():
    ds = create_on(MemoryStore(), {"side": "int64", "data": tl.Bytes()})
    ds.extend({"side": np.arange(64) % 2, "data": [bytes([n]) * 60_000 for n in range(64)]})
    ds.commit("mixed")

    ds.optimize(order_by="side")

    located = (
        rowset_of(ds)
        .reader()
        .locate("data", rowset_of(ds).selection.snapshot.physical(np.arange(32)))
    )
    assert len(located.chunks) == 2  # 32 of 64 rows, in half of the chunks
    assert ds["side"][:].tolist() == [0] * 32 + [1] * 32


def test_what_is_changed_while_rows_are_put_in_order_is_carried_over():
    store = FaultyStore(MemoryStore())
    ds = many_small_commits(store)

    def change() -> None:
        other = open_on(store)
        other["text"][[3]] = ["changed"]
        other.delete([7])
        extend(other, 900, 902)
        other.commit("meanwhile")

    store.before("put_if_absent", change, path="branches/main/")
    ds.optimize(order_by="label DESC")

    labels = ds["label"][:].tolist()
    assert labels == [*(n for n in range(35, -1, -1) if n != 7), 900, 901]
    assert ds[labels.index(3)]["text"] == "changed"
    assert ds.check().ok


def test_putting_in_order_begins_again_when_the_schema_changed_meanwhile():
    store = FaultyStore(MemoryStore())
    ds = many_small_commits(store, commits=3)

    def change() -> None:
        other = open_on(store)
        other.add_tensor("extra", "int64", fill=7)
        other.commit("meanwhile")

    store.before("put_if_absent", change, path="branches/main/")
    ds.optimize(order_by="label DESC")

    assert ds["label"][:].tolist() == list(range(8, -1, -1))
    assert ds["extra"][:].tolist() == [7] * 9


def test_an_order_that_is_no_tql_is_refused_before_anything_is_written():
    ds = many_small_commits(MemoryStore(), commits=2)

    with pytest.raises(tl.errors.QueryError):
        ds.optimize(order_by="lable")
    with pytest.raises(tl.errors.InvalidInputError, match="keeps every row"):
        ds.optimize(order_by="label LIMIT 2")
    assert ds.version == "main@2"


def test_a_dry_run_of_an_order_says_how_many_rows_would_move():
    """It had said that all was optimal already."""
    ds = many_small_commits(MemoryStore())
    head, rows = ds.version, content(ds)[1]

    told = ds.optimize(order_by="label DESC", dry_run=True)

    wanted = sorted(range(len(rows)), key=lambda at: (-rows[at]["label"], at))
    assert told.rows_moved == sum(at != was for at, was in enumerate(wanted)) > 0
    assert f"{told.rows_moved} rows would come to another place" in repr(told)
    assert (ds.version, content(ds)[1]) == (head, rows)
    ds.optimize(order_by="label DESC")
    assert ds.optimize(order_by="label DESC", dry_run=True).rows_moved == 0
