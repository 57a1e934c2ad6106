"""Reading ahead: the same values in any order, fewer waits in a walk, no bytes for random reads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import StorageError
from tensorlake.reading import ReadAhead
from tensorlake.storage import open_store, runtime
from tensorlake.testing import ThrottledStore
from tensorlake.versions import resolve

ROWS, WIDTH = 400, 512


class Counted(ThrottledStore):
    """Counts reads and bytes of packs, and fails when told to."""

    reads = nbytes = 0
    fails = False

    async def get_range(self, path, start, stop):
        self.reads, self.nbytes = self.reads + 1, self.nbytes + stop - start
        if self.fails:
            raise StorageError("the store is gone")
        return await super().get_range(path, start, stop)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Rows in many chunks that are not read whole for one row."""
    url = str(tmp_path_factory.mktemp("ahead") / "rows.tl")
    values = np.random.default_rng(0).integers(0, 9, (ROWS, WIDTH), np.int64)
    with tl.create(url, {"x": tl.Array("int64", (WIDTH,)), "label": "int64"}) as ds:
        ds.extend({"x": values, "label": range(ROWS)})
        ds.commit("rows")
    return open_store(url), values


def opened(stored, depth=None):
    store = Counted(stored[0])
    session = Session(store, runtime.run(resolve(store, None)))
    session.ahead = ReadAhead(depth)
    ds = Dataset(session)
    _ = ds["x"][0], ds["x"][ROWS - 1]  # pages of the index
    store.reads = store.nbytes = 0
    return ds, store


WALKS = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.integers(-5, 5), st.integers(1, 30)), max_size=5
)


@settings(max_examples=12, deadline=None)
@given(WALKS, st.booleans())
def test_any_order_gives_the_same_values(stored, walks, is_batch):
    rows = [
        at
        for start, stride, count in walks
        for at in range(start, start + stride * count, stride or 1)
        if 0 <= at < ROWS
    ]
    ds, _ = opened(stored)
    view = ds.query("ORDER BY label DESC")
    with ds:
        for row in rows:
            assert ds["x"][row].tolist() == stored[1][row].tolist()
            if is_batch:
                read = view.__getitems__([row, row // 2])
                expected = [stored[1][ROWS - 1 - at].tolist() for at in (row, row // 2)]
                assert [one["x"].tolist() for one in read] == expected


@pytest.mark.parametrize(
    "rows", [range(40, 240), range(390, 10, -3), [at for at in range(150) if at % 7]]
)
def test_a_walk_is_read_ahead(stored, rows):
    ds, _ = opened(stored)

    with ds:
        for row in rows:
            assert ds[row]["x"].tolist() == stored[1][row].tolist()
        shown = ds.explain()

    ((hits,),) = [re.findall(r"read ahead of x: .* of ([\d,]+) reads", shown)]
    assert int(hits) > 0.85 * len(rows)


def test_the_rows_of_a_view_are_a_walk(stored):
    ds, _ = opened(stored)
    order = np.random.default_rng(1).permutation(ROWS)[:200]

    with ds:
        view = ds[order]
        found = [row["x"].tolist() for row in view]
        assert "read ahead of x" in view.explain()
        assert "read ahead" not in ds.explain()  # other rows

    assert found == stored[1][order].tolist()


def test_random_reads_request_nothing_ahead(stored):
    rows = np.random.default_rng(2).permutation(ROWS)[:150].tolist()
    nbytes = []
    for depth in (0, None):
        ds, store = opened(stored, depth)
        with ds:
            for row in rows:
                ds["x"][row]
        nbytes.append(store.nbytes)

    assert nbytes[1] <= 1.1 * nbytes[0]


def test_an_error_is_raised_where_it_is_read_and_a_read_later_succeeds(stored):
    ds, store = opened(stored)
    with ds:
        for row in range(8):
            ds["x"][row]
        store.fails = True
        with pytest.raises(StorageError, match="the store is gone"):
            list(map(ds["x"].__getitem__, range(8, ROWS)))
        store.fails = False
        for row in range(8, 60):
            assert ds["x"][row].tolist() == stored[1][row].tolist()


def test_memory_ahead_is_bounded(stored, monkeypatch):
    monkeypatch.setattr("tensorlake.reading.fetch.read_ahead.NBYTES_MAX", 20 * WIDTH * 8)
    ds, _ = opened(stored, None)

    with ds:
        for row in range(100):
            ds["x"][row]
            walks = ds.__session__.ahead._walks
            ahead = sum(block.count for walk in walks for block in walk.blocks)
            assert ahead <= 40  # the window, and the block that is being read
