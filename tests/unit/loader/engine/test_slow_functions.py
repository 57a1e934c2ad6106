"""Groups of a pass whose functions are slow: a batch does not wait for those after it."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.loader.runtime.counters import Counters
from tensorlake.loader.sources.batch_group import shares_by_segment

ROWS, BATCH, WAITS = 400, 4, 30.0


def groups(rows_each, *, most_rows):
    shares = [range(count) for count in rows_each]
    segments = shares_by_segment(shares, row_nbytes=1, most_rows=most_rows)
    return [[len(share) for share in group] for segment in segments for group in segment]


def test_a_group_has_the_rows_it_may_and_at_least_a_batch():
    assert groups([4] * 7, most_rows=lambda: 0) == [[4]] * 7
    assert groups([4] * 7, most_rows=lambda: 8) == [[4], [4, 4], [4, 4], [4, 4]]
    assert groups([4, 9, 1, 1, 1], most_rows=lambda: 3) == [[4], [9], [1], [1, 1]]


def test_the_rows_of_some_seconds_follow_from_those_so_far():
    counters = Counters()
    assert counters.rows_within(10) == 0

    counters.add(rows=100, transform_s=4.0, collate_s=1.0)

    assert counters.rows_within(10) == pytest.approx(200)


@pytest.mark.parametrize("by", ["transform", "collate"])
def test_a_batch_of_a_slow_function_does_not_wait_for_the_next(by):
    ds = tl.create("memory://slow-functions-" + by, {"x": "int64", "text": "text"})
    ds.extend({"x": np.arange(ROWS), "text": ["a"] * ROWS})
    ds.commit("rows")
    has_second = threading.Event()

    def slow(batch):
        time.sleep(0.2)  # known to be slow, once the first is handed out
        assert batch < 2 or has_second.wait(WAITS)

    def transform(row):
        slow(int(row["x"]) // BATCH)
        return dict(row)

    def collate(rows):
        slow(int(np.asarray(rows[0]).reshape(-1)[0]) // BATCH)
        return rows

    given = {"transform": transform, "columns": ["x"]}
    if by == "collate":
        given = {"collate": {"x": collate}, "columns": ["x"]}
    with ds.loader(batch_size=BATCH, workers=2, timeout=WAITS, **given) as loader:
        batches = iter(loader)
        next(batches)
        next(batches)  # while the third cannot be made
        has_second.set()
        assert [int(one) for one in np.asarray(next(batches)["x"]).reshape(-1)] == [8, 9, 10, 11]
