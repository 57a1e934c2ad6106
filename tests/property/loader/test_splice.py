"""An epoch that goes on with other rows gives each of them once, and rows that are gone never."""

from __future__ import annotations

import itertools
from contextlib import closing
from functools import partial
from itertools import groupby, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

_names = itertools.count()
FILTERS = ("", "x % 3 != 1", "x > 12", "label = 2 OR label = 1")
ORDERS = (
    {"shuffle": False},
    {"shuffle": True},
    {"shuffle": "window"},
    {"stratify": "label", "shuffle": True},
    {"group": "five", "shuffle": True},
    {"group": "five", "shuffle": False},
)
WHOLE = {"repeat": 1, "limit": None}


def _of(rows, where):
    kept = {
        "": lambda _: True,
        "x % 3 != 1": lambda x: x % 3 != 1,
        "x > 12": lambda x: x > 12,
        "label = 2 OR label = 1": lambda x: x % 4 in (1, 2),
    }[where]
    return {x for x in rows if kept(x)}


@st.composite
def programs(draw):
    """Draw a dataset, an order, and breaks with an edit of the dataset or a filter at each."""
    breaks = draw(
        st.lists(
            st.tuples(
                st.integers(0, 5),  # global batches before it
                st.sampled_from([0, 0, 1, 5, 17]),  # rows added
                st.sampled_from([0, 0, 1, 6, 20]),  # rows deleted
                st.sampled_from([None, None, *FILTERS]),
                st.sampled_from([1, 2, 3, 8]),  # world after it
            ),
            min_size=1,
            max_size=4,
        )
    )
    order = draw(st.sampled_from(ORDERS))
    order |= draw(st.sampled_from([WHOLE, WHOLE, {"repeat": 3}, {"limit": 25}]))
    order |= draw(st.sampled_from([WHOLE, WHOLE, {"repeat": 2, "limit": 70}]))
    return draw(st.integers(1, 60)), order, draw(st.integers(0, 3)), breaks, draw(st.integers(8, 9))


class Passes:
    """What an epoch may give: in each pass every row of it once, and no row that is gone."""

    def __init__(self, rows, repeat=1, limit=None):
        self.rows, self.given = set(rows), []
        self.left, self.limit = repeat - 1, limit

    def give(self, rows):
        for x in rows:
            if len(self.given) == len(self.rows) and self.left:
                self.next()
            assert x in self.rows
            assert x not in self.given
            self.given.append(x)
        if self.limit is not None:
            self.limit -= len(rows)

    def next(self):
        self.rows = self.later if hasattr(self, "later") else self.rows
        self.given, self.left = [], self.left - 1

    def change(self, rows):
        if len(self.given) == len(self.rows) and self.left:
            self.next()
        self.rows, self.later = set(self.given) | rows, rows

    @property
    def num_left(self):
        later = getattr(self, "later", self.rows)
        left = len(self.rows) - len(self.given) + self.left * len(later)
        return left if self.limit is None else min(left, self.limit)


def _given(loaders, batches=None):
    """Return the rows of the next global batches, without those that a rank repeats."""
    parts = []
    for loader in loaders:
        with closing(iter(loader)) as passed:
            parts.append([_rows(batch) for batch in islice(passed, batches)])
    return [x for number in zip(*parts, strict=True) for rows in number for x in rows]


def _rows(batch):
    return batch["x"][batch.get("_valid", np.ones(len(batch["x"]), np.bool_))].tolist()


def _check(program):
    count, order, seed, breaks, size = program
    ds = tl.create(
        f"memory://splices-{next(_names)}", {"x": "int64", "label": "int64", "five": "int64"}
    )

    def extend(rows):
        ds.extend({"x": rows, "label": rows % 4, "five": rows // 5 % 7})
        ds.commit("rows")

    extend(np.arange(count))
    own = {} if order["shuffle"] is False else {"seed": seed}
    make = partial(ds.loader, **order, **own, global_batch_size=size, workers=1)
    whole, loaders = make(rank=0, world_size=1), [make(rank=0, world_size=1)]
    now, where, fresh, length = (
        set(range(count)),
        "",
        count,
        {k: order.get(k, v) for k, v in WHOLE.items()},
    )
    epoch, passes = 0, Passes(now, **length)
    for batches, added, deleted, condition, world in breaks:
        if loaders[0].epoch == epoch:
            rows = _given(loaders, batches)
            assert rows == _given([whole], batches)
            passes.give(rows)
        gone = set(sorted(now)[:: max(1, len(now) // deleted)][:deleted]) if deleted else set()
        if gone:
            ds.delete(np.flatnonzero(np.isin(ds["x"][:], list(gone))).tolist())
        if added:
            extend(np.arange(fresh, fresh + added))
            fresh, now = fresh + added, now | set(range(fresh, fresh + added))
        now -= gone
        if gone:
            ds.commit("an edit")
        where = where if condition is None else condition
        for loader in (whole, *loaders):
            loader.advance(ds.version, where=condition)
        state = whole.state_dict()
        assert all(loader.state_dict() == state for loader in loaders)
        if whole.epoch != epoch:
            assert not passes.num_left
            epoch, passes = whole.epoch, Passes(_of(now, where), **length)
        else:
            passes.change(_of(now, where))
        loaders = [make(rank=rank, world_size=world) for rank in range(world)]
        for loader in loaders:
            loader.load_state_dict(state)
        if not passes.num_left:
            break
    if passes.num_left:
        rows = _given(loaders)
        assert rows == _given([whole])
        if "group" in order and passes.left == 0 and order.get("repeat", 1) == 1:
            groups = [group for group, _ in groupby(x // 5 % 7 for x in rows)]
            assert len(groups) == len(set(groups))
        left = passes.num_left
        assert len(rows) == left
        passes.give(rows)
        assert not passes.num_left
    if _of(now, where):
        following, passes = _given(loaders), Passes(_of(now, where), **length)
        passes.give(following)
        assert not passes.num_left


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=12, deadline=None)
@given(programs())
def test_none_is_lost_and_none_comes_twice(program):
    _check(program)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=100, deadline=None)
@given(programs())
def test_none_is_lost_and_none_comes_twice_in_many_programs(program):
    _check(program)
