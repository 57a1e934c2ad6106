"""Random histories, optimized at random moments: the same values, ids and order, and always whole.

The oracle is a plain list of rows (format.md 11): what a branch shows after each step.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.examples import examples
from tests.support.handles import create_on, open_on, rows_of

SCHEMA = {
    "number": "int64",
    "vector": tl.Array("float32", shape=(80,)),  # raw: dead rows become holes
    "text": tl.Text(nullable=True),
    "ragged": tl.Array("uint8", shape=(None,)),
    "data": tl.Bytes(),
}

Row = dict[str, Any]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 12)),
        st.tuples(st.just("update"), st.sets(st.integers(0, 59), min_size=1, max_size=6)),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 59), min_size=1, max_size=20)),
        st.tuples(st.just("optimize"), st.none()),
        st.tuples(st.just("order"), st.booleans()),
        st.tuples(st.just("both"), st.integers(1, 3)),
    ),
    min_size=2,
    max_size=9,
)


def made(number: int) -> Row:
    return {
        "number": number,
        "vector": [float(number)] * 80,
        "text": None if number % 4 == 0 else f"text {number}",
        "ragged": [number % 256] * (number % 3),
        "data": bytes([number % 256]) * (number % 50),
    }


class World:
    """A dataset and the list that it should show, kept in step."""

    def __init__(self) -> None:
        self.ds = create_on(MemoryStore(), SCHEMA)
        self.rows: list[Row] = []
        self.made = 0

    def append(self, count: int) -> None:
        new = [made(self.made + at) for at in range(count)]
        self.made += count
        self.ds.extend({name: [row[name] for row in new] for name in SCHEMA})
        self.rows += new

    def update(self, chosen: set[int]) -> None:
        at = sorted(one for one in chosen if one < len(self.rows))
        if at:
            new = [made(self.made + one) for one in range(len(at))]
            self.made += len(at)
            for name in ("text", "data", "ragged"):
                self.ds[name][at] = [one[name] for one in new]
            for position, one in zip(at, new, strict=True):
                self.rows[position] = {
                    **self.rows[position],
                    **{name: one[name] for name in ("text", "data", "ragged")},
                }

    def delete(self, chosen: set[int]) -> None:
        at = sorted(one for one in chosen if one < len(self.rows))
        self.ds.delete(at)
        self.rows = [row for position, row in enumerate(self.rows) if position not in set(at)]

    def both(self, count: int) -> None:
        """Rows appended and deleted in the same commit: dead from the beginning."""
        self.append(count)
        self.delete({len(self.rows) - 1})

    def order(self, is_descending: bool) -> None:  # noqa: FBT001 drawn
        self.ds.optimize(order_by="number DESC" if is_descending else "number")
        self.rows.sort(key=lambda row: row["number"], reverse=is_descending)

    def optimize(self, _: None) -> None:
        before = self.ds.row_ids
        self.ds.optimize()
        assert self.ds.row_ids == before
        assert self.ds.optimize().commits == 0

    def check(self) -> None:
        assert rows_of(self.ds) == self.rows
        assert len(set(self.ds.row_ids)) == len(self.rows)
        assert self.ds.check().ok


def plain_rows(ds: Dataset) -> list[Row]:
    return rows_of(ds)


@pytest.mark.slow
@examples(6)
@given(steps)
def test_optimizing_at_any_moment_of_any_history_changes_nothing(history):
    """format.md 11; and every version that there was reads as it did (10)."""
    world = World()
    versions: dict[str, list[Row]] = {}

    for what, how in history:
        getattr(world, what)(how)
        if what in ("append", "update", "delete", "both"):
            world.ds.commit(what)
        world.check()
        versions[world.ds.version] = list(world.rows)
    world.optimize(None)
    world.check()

    store = session_of(world.ds).store
    for version, expected in versions.items():
        assert plain_rows(open_on(store, version)) == expected


@examples(5)
@given(
    st.sets(st.integers(0, 29), max_size=30),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
)
def test_rows_are_told_dead_or_alive_however_they_were_deleted(deleted, sizes):
    world = World()
    for size in sizes:
        world.append(size)
        world.ds.commit()
    world.delete(deleted)
    world.ds.commit()

    report = world.ds.optimize()

    gone = sum(sizes) - len(world.rows)
    assert report.dead_rows == (gone if report.commits else 0)
    world.check()
    assert np.array_equal(world.ds["number"][:], [row["number"] for row in world.rows])
