"""A mix that changes in its epoch: each source gives each row once before any of them again."""

from __future__ import annotations

import itertools
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

_names = itertools.count()
STREAM = 1000  # rows of a source are numbered from it on
FILTERS = {"": lambda x: True, "x % 3 != 1": lambda x: x % 3 != 1, "x % 5 > 1": lambda x: x % 5 > 1}


class Source:
    """A dataset, and what it may give: in each pass every row once, and none that is gone."""

    def __init__(self, number, count):
        self.ds = tl.create(f"memory://mix-splices-{next(_names)}", {"x": "int64"})
        self.fresh = number * STREAM
        self.now = set()
        self.add(count)
        self.rows, self.given = set(self.now), set()

    def add(self, count):
        new = range(self.fresh, self.fresh + count)
        self.ds.extend({"x": np.asarray(new)})
        self.ds.commit("added")
        self.fresh += count
        self.now |= set(new)

    def delete(self, count):
        gone = sorted(self.now)[:: max(1, len(self.now) // count)][:count]
        if len(self.now) - len(gone) > 15:
            self.ds.delete(np.flatnonzero(np.isin(self.ds["x"][:], gone)).tolist())
            self.ds.commit("deleted")
            self.now -= set(gone)

    def kept(self, where):
        return {x for x in self.now if FILTERS[where](x)}

    def start(self, where):
        self.rows, self.given, self.later = self.kept(where), set(), self.kept(where)

    def give(self, x):
        if self.given == self.rows:
            self.rows, self.given = self.later, set()
        assert x in self.rows
        assert x not in self.given
        self.given.add(x)

    def change(self, where):
        self.later = self.kept(where)
        if self.given == self.rows:
            self.given = set()
        self.rows = self.given | self.later


@st.composite
def programs(draw):
    """Draw sizes, the end of an epoch, and breaks with edits of sources and of the mix."""
    edit = st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 9]), st.sampled_from([0, 4, 11]))
    breaks = draw(
        st.lists(
            st.tuples(
                st.integers(0, 6),  # global batches before it
                st.lists(edit, max_size=2),
                st.sampled_from([None, None, *FILTERS]),
                st.sampled_from([None, (0, 1), (1, 0), (0, 1, 2), (2, 1), (1,)]),  # another mix
                st.integers(1, 5),  # world after it
            ),
            min_size=1,
            max_size=4,
        )
    )
    sizes = draw(st.tuples(*[st.integers(30, 60)] * 3))
    stop, limit = draw(
        st.sampled_from([("first", None), ("all", None), ("never", 150), ("first", 70)])
    )
    shuffle = draw(st.sampled_from([False, True, "window"]))
    return sizes, (stop, draw(st.booleans())), limit, shuffle, draw(st.integers(0, 1)), breaks


def _next(loaders, batches=None):
    """Return the rows of the next global batches, without those that a rank repeats."""
    parts = []
    for loader in loaders:
        with closing(iter(loader)) as passed:
            parts.append([_rows(batch) for batch in islice(passed, batches)])
    return [x for number in zip(*parts, strict=True) for rows in number for x in rows]


def _rows(batch):
    return batch["x"][batch.get("_valid", np.ones(len(batch["x"]), np.bool_))].tolist()


def _check(program):
    sizes, (stop, is_nested), limit, shuffle, epoch, breaks = program
    sources = [Source(number, size) for number, size in enumerate(sizes)]

    def mixed(numbers):
        weights = {0: 0.5, 1: 0.3, 2: 0.2}
        given = {"abc"[n]: (sources[n].ds, weights[n]) for n in numbers}
        if is_nested and len(numbers) > 1:  # all but the first are in a mix of their own
            first, *others = given
            inner = tl.mix({name: given[name] for name in others}, stop=stop)
            given = {first: given[first], "in": (inner, 0.5)}
        return tl.mix(given, stop=stop)

    def name_of(number):
        is_inner = is_nested and numbers.index(number) > 0
        return "in/" * is_inner + "abc"[number]

    def make(mix, **rank):
        own = {"seed": 3} if shuffle else {}
        return mix.loader(
            shuffle=shuffle, **own, limit=limit, global_batch_size=8, workers=1, **rank
        )

    def taken(batches=None):
        """Take the next rows of both; a windowed order deals its blocks to ranks."""
        rows, others = _next([whole], batches), _next(loaders, batches)
        ordered = sorted if shuffle == "window" else list
        assert ordered(rows) == ordered(others)
        return rows

    def give(rows):
        for x in rows:
            sources[x // STREAM].give(x)

    alone = {"rank": 0, "world_size": 1}
    numbers, where = (0, 1), ""
    mix = mixed(numbers)
    whole, loaders = make(mix, **alone), [make(mix, **alone)]
    for source in sources:
        source.start(where)
    for _ in range(epoch):  # passes of sources do not end with it
        give(taken())
    for batches, edits, condition, another, world in breaks:
        give(taken(batches))
        for number, added, deleted in edits:
            if added:
                sources[number].add(added)
            if deleted:
                sources[number].delete(deleted)
        where = where if condition is None else condition
        asked = {"where": condition}
        if another is None:
            asked["version"] = {name_of(n): sources[n].ds.version for n in numbers}
        else:
            before = {name_of(number) for number in numbers}
            numbers = another
            for number in numbers:
                if name_of(number) not in before:  # another source, which begins
                    sources[number].given = None
            mix = mixed(numbers)
            asked["mix"] = mix
        for loader in (whole, *loaders):
            loader.advance(**asked)
        state = whole.state_dict()
        is_new = state["position"] == 0
        for number in numbers:
            if is_new or sources[number].given is None:
                sources[number].start(where)
            else:
                sources[number].change(where)
        assert all(loader.state_dict() == state for loader in loaders)
        loaders = [make(mix, rank=rank, world_size=world) for rank in range(world)]
        for loader in loaders:
            loader.load_state_dict(state)
        if is_new and whole.epoch:
            break  # a new epoch begins inside passes
        if not whole.remaining:
            return
    else:
        give(taken())
        if stop == "first" and limit is None and epoch == 0:
            assert any(sources[n].given == sources[n].rows for n in numbers)
    taken()


LATER_PASSES = [  # a source is spliced in its second pass, and again in its third
    (5, [(0, 1, 4), (1, 1, 0)], None, None, 2),
    (3, [(0, 9, 4)], None, (0, 1, 2), 1),
]
OTHER_ORDER = [  # the sources change places, and are spliced after that
    (2, [(0, 9, 4)], None, (1, 0), 2),
    (1, [(0, 1, 4), (1, 9, 0)], "x % 3 != 1", None, 1),
]


@pytest.mark.parametrize(
    ("end", "limit", "breaks"),
    [("all", None, LATER_PASSES), ("first", None, OTHER_ORDER), ("never", 70, OTHER_ORDER)],
)
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
def test_sources_go_on_where_they_were(end, limit, breaks):
    _check(((20, 60, 30), (end, False), limit, True, 0, breaks))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=25, deadline=None)
@given(programs())
def test_each_source_gives_each_row_once_before_any_again(program):
    _check(program)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=300, deadline=None)
@given(programs())
def test_each_source_gives_each_row_once_before_any_again_in_many_programs(program):
    _check(program)
