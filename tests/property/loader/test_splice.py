"""An epoch that goes on with other rows gives each of them once, and rows that are gone never."""

from __future__ import annotations

import itertools
from contextlib import closing
from functools import partial
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

_names = itertools.count()
FILTERS = ("", "x % 3 != 1", "x > 12", "label = 2 OR label = 1")


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
                st.integers(1, 4),  # world after it
            ),
            min_size=1,
            max_size=4,
        )
    )
    order = draw(
        st.sampled_from(
            [
                {"shuffle": False},
                {"shuffle": True},
                {"shuffle": "window"},
                {"stratify": "label", "shuffle": True},
            ]
        )
    )
    return draw(st.integers(1, 60)), order, draw(st.integers(0, 3)), breaks, draw(st.integers(4, 9))


def _rows(batch):
    """Return the rows of a batch, without those that a rank repeats."""
    return batch["x"][batch.get("_valid", np.ones(len(batch["x"]), np.bool_))].tolist()


def _check(program):
    count, order, seed, breaks, size = program
    ds = tl.create(f"memory://splices-{next(_names)}", {"x": "int64", "label": "int64"})
    ds.extend({"x": np.arange(count), "label": np.arange(count) % 4})
    ds.commit("rows")
    own = {} if order == {"shuffle": False} else {"seed": seed}
    make = partial(ds.loader, **order, **own, global_batch_size=size, workers=1)
    loaders, now, where, fresh = [make()], set(range(count)), "", count
    epoch, begun, given = 0, set(now), []
    for batches, added, deleted, condition, world in breaks:
        for loader in loaders:
            with closing(iter(loader)) as passed:
                given += [x for batch in islice(passed, batches) for x in _rows(batch)]
        assert len(given) == len(set(given))
        assert begun.issuperset(given)
        is_over = begun == set(given)
        gone = set(sorted(now)[:: max(1, len(now) // deleted)][:deleted]) if deleted else set()
        if gone:
            ds.delete(np.flatnonzero(np.isin(ds["x"][:], list(gone))).tolist())
        if added:
            new = range(fresh, fresh + added)
            ds.extend({"x": new, "label": np.asarray(new) % 4})
            fresh, now = fresh + added, now | set(new)
        now -= gone
        if gone or added:
            ds.commit("an edit")
        where = where if condition is None else condition
        for loader in loaders:
            loader.advance(ds.version, where=condition)
        if loaders[0].epoch != epoch:
            assert is_over
            epoch, given = loaders[0].epoch, []
        begun = set(given) | _of(now, where)
        state = loaders[0].state_dict()
        assert all(loader.state_dict() == state for loader in loaders)
        loaders = [make(rank=rank, world_size=world) for rank in range(world)]
        for loader in loaders:
            loader.load_state_dict(state)
        if begun == set(given):  # nothing is left of the epoch
            epoch, given, begun = loaders[0].epoch, [], _of(now, where)
    left = _of(now, where) - set(given)
    if left and given:
        rest = [x for loader in loaders for batch in loader for x in _rows(batch)]
        assert sorted(rest) == sorted(left)
    following = [x for loader in loaders for batch in loader for x in _rows(batch)]
    assert sorted(following) == sorted(_of(now, where))


@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=12, deadline=None)
@given(programs())
def test_none_is_lost_and_none_comes_twice(program):
    _check(program)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=300, deadline=None)
@given(programs())
def test_none_is_lost_and_none_comes_twice_in_many_programs(program):
    _check(program)
