"""An epoch of windows that continues with other rows, against a plain model of lists."""

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
FILTERS = {"": lambda x: True, "x % 5 != 2": lambda x: x % 5 != 2, "x > 9": lambda x: x > 9}
ORDERS = (
    {"shuffle": False},
    {"shuffle": True},
    {"shuffle": "window"},
    {"stratify": "kind", "shuffle": True},
    {"group": "kind", "shuffle": True},
    {"group": "kind", "shuffle": False},
)


@st.composite
def programs(draw, tails=("drop", "pad", "keep", "shift")):
    """Draw rows, windows, an order, and breaks with an edit or a filter at each."""
    breaks = draw(
        st.lists(
            st.tuples(
                st.integers(0, 4),  # global batches before it
                st.sampled_from([0, 0, 1, 4, 9]),  # rows added
                st.sampled_from([0, 0, 1, 2, 6]),  # rows deleted
                st.sampled_from([0, 0, 1, 3]),  # rows changed
                st.sampled_from([None, None, *FILTERS]),
                st.sampled_from([1, 2, 3]),  # world after it
            ),
            min_size=1,
            max_size=4,
        )
    )
    steps = {
        "size": draw(st.integers(1, 4)),
        "stride": draw(st.sampled_from([1, 1, 2])),
        "step": draw(st.integers(1, 4)),
        "tail": draw(st.sampled_from(tails)),
    }
    lengths = st.sampled_from([{}, {}, {"repeat": 2}, {"limit": 12}, {"repeat": 2, "limit": 30}])
    own = draw(st.sampled_from(ORDERS)) | draw(lengths)
    return draw(st.integers(1, 30)), steps, own, breaks, draw(st.integers(0, 3))


def _starts(length, size, stride, step, tail):
    """The starts and counts of the windows of a group."""
    extent = (size - 1) * stride + 1
    starts = [*range(0, length, step)]
    if tail == "drop":
        starts = [one for one in starts if one + extent <= length]
    if tail == "shift":
        whole = [one for one in starts if one + extent <= length]
        is_short = bool(whole) and whole[-1] + extent < length
        starts = whole + [length - extent] * is_short
    return [(one, min(size, -(-(length - one) // stride))) for one in starts]


class Rows:
    """Rows of five groups (of arrays: of five lengths), in a dataset."""

    def __init__(self, steps, *, is_arrays):
        self.steps, self.is_arrays, self.now, self.fresh = steps, is_arrays, {}, 0
        name = f"memory://window-splices-{next(_names)}"
        array = tl.Array("int64", (None,))
        self.ds = tl.create(
            name,
            {"x": "int64", "of": "int64", "kind": "int64", **({"own": array} if is_arrays else {})},
        )

    def add(self, count):
        ids = range(self.fresh, self.fresh + count)
        if count:
            of = [self._of(x, 0) for x in ids]
            columns = {"x": list(ids), "of": of, "kind": [x % 3 for x in ids]}
            if self.is_arrays:
                columns["own"] = [self._own(x, of) for x, of in zip(ids, of, strict=True)]
            self.ds.extend(columns)
            self.ds.commit("added")
            self.now |= dict(zip(ids, of, strict=True))
        self.fresh += count

    def delete(self, count):
        gone = sorted(self.now)[:: max(1, len(self.now) // count)][:count] if count else []
        if gone and len(gone) < len(self.now):
            self.ds.delete(self._rows(gone))
            self.ds.commit("deleted")
            self.now = {x: of for x, of in self.now.items() if x not in gone}

    def change(self, count):
        changed = {x: self._of(x, self.now[x] + 1) for x in sorted(self.now)[2::3][:count]}
        for x, of in changed.items():
            (row,) = self._rows([x])
            self.ds["of"][row] = of
            if self.is_arrays:
                self.ds["own"][row] = self._own(x, of)
        if changed:
            self.ds.commit("changed")
        self.now |= changed

    def _of(self, x, shift):
        """A group, in runs of rows; the length of an array that a window fits."""
        of = (x // 4 + shift) % 5
        least = (self.steps["size"] - 1) * self.steps["stride"] + 1
        return of + least * (self.steps["tail"] == "shift") if self.is_arrays else of

    @staticmethod
    def _own(x, length):
        return np.arange(length) + 100 * x

    def _rows(self, ids):
        return np.flatnonzero(np.isin(self.ds["x"][:], ids)).tolist()

    def view(self, where):
        return {x: of for x, of in self.now.items() if FILTERS[where](x)}

    def windows(self, view):
        """The elements of each window of a view: rows, or (row, its element) of arrays."""
        stride = self.steps["stride"]
        if self.is_arrays:
            groups = [[(x, at) for at in range(length)] for x, length in view.items()]
        else:
            groups = {}
            for x, of in view.items():
                groups.setdefault(of, []).append(x)
            groups = groups.values()
        return [
            tuple(group[start + stride * at] for at in range(count))
            for group in groups
            for start, count in _starts(len(group), **self.steps)
        ]

    def has_short(self, where):
        """Whether a window that is shifted does not fit a group."""
        view, extent = self.view(where), (self.steps["size"] - 1) * self.steps["stride"] + 1
        lengths = [*view.values()] if self.is_arrays else np.bincount([*view.values(), 0])
        return self.steps["tail"] == "shift" and any(
            0 < one - (at == 0 and not self.is_arrays) < extent for at, one in enumerate(lengths)
        )


class Passes:
    """The windows that an epoch gives from now on, pass by pass."""

    def __init__(self, rows, where, repeat=1, limit=None):
        self.rows, self.view, self.limit = rows, rows.view(where), limit
        self.left_passes = repeat
        self.next()

    def next(self):
        self.left_passes -= 1
        self.left, self.given = self.rows.windows(self.view), []

    @property
    def num_left(self):
        later = len(self.rows.windows(self.view)) * self.left_passes
        count = len(self.left) + later
        return count if self.limit is None else min(count, self.limit)

    def give(self, windows, *, in_order):
        for one in windows:
            if not self.left:
                self.next()
            assert one in self.left
            if in_order:
                assert one == self.left[0]
            self.left.remove(one)
            self.given.append(one)
        if self.limit is not None:
            self.limit -= len(windows)

    def change(self, where):
        if not self.left and self.left_passes:
            self.next()
        old, new = self.view, self.rows.view(where)
        windows = self.rows.windows(new)
        if not self.given:  # the pass has not begun
            left, added = windows, []
        elif self.rows.is_arrays:
            before = self.rows.windows(old)
            left = [one for one in self.left if one in windows]
            added = [one for one in windows if one not in before and one not in self.given]
        else:
            left = [one for one in self.left if len({new.get(x, f"gone {x}") for x in one}) == 1]
            left = [
                one
                for one in left
                if all(x in new for x in one)
                and not any(own[: len(one)] == one and len(own) > len(one) for own in windows)
            ]
            added = [
                one
                for one in windows
                if one not in self.given
                and one not in left
                and (any(x not in old for x in one) or len({old[x] for x in one}) > 1)
            ]
        self.left, self.view = left + added, new


def _given(loaders, rows, batches=None):
    """Return the windows of the next global batches, without those that a rank repeats."""
    parts = []
    for loader in loaders:
        with closing(iter(loader)) as passed:
            parts.append([list(_windows(one, rows)) for one in islice(passed, batches)])
    return [one for number in zip(*parts, strict=True) for own in number for one in own]


def _windows(batch, rows):
    valid = batch.get("_valid", np.ones(len(batch["_row"]), np.bool_))
    values = batch["own" if rows.is_arrays else "x"]
    for at in np.flatnonzero(valid).tolist():
        one = values[at].tolist()
        if rows.steps["tail"] == "pad":
            count = int(batch["_mask"][at].sum())
            assert one[count:] == [one[count - 1]] * (len(one) - count)
            one = one[:count]
        if rows.is_arrays:
            assert one[0] % 100 == batch["_start"][at]
            one = [divmod(value, 100) for value in one]
            assert one[0][0] == batch["x"][at]
        yield tuple(one)


def _check(program, *, is_arrays):
    count, steps, own, breaks, seed = program
    rows = Rows(steps, is_arrays=is_arrays)
    rows.add(count)
    if rows.has_short(""):
        return
    options = dict(own) if own["shuffle"] is False else {**own, "seed": seed}
    columns = {"columns": ["x", "own"]} if is_arrays else {"columns": ["x"], "by": "of"}
    make = partial(
        rows.ds.windows(**columns, **steps).loader, **options, global_batch_size=4, workers=1
    )
    take = partial(_given, rows=rows)
    in_order = own["shuffle"] is False and "group" not in own
    lengths = {name: own[name] for name in ("repeat", "limit") if name in own}
    where, epoch = "", 0
    whole, loaders = make(rank=0, world_size=1), [make(rank=0, world_size=1)]
    passes = Passes(rows, where, **lengths)
    for batches, added, deleted, changed, condition, world in breaks:
        if loaders[0].epoch == epoch:
            windows = take(loaders, batches=batches)
            assert windows == take([whole], batches=batches)
            passes.give(windows, in_order=in_order)
        rows.delete(deleted)
        rows.change(changed)
        rows.add(added)
        where = where if condition is None else condition
        if rows.has_short(where):
            return
        for loader in (whole, *loaders):
            loader.advance(rows.ds.version, where=condition)
        state = whole.state_dict()
        assert all(loader.state_dict() == state for loader in loaders)
        if whole.epoch != epoch:
            assert not passes.num_left
            epoch, passes = whole.epoch, Passes(rows, where, **lengths)
        else:
            passes.change(where)
        loaders = [make(rank=rank, world_size=world) for rank in range(world)]
        for loader in loaders:
            loader.load_state_dict(state)
        if not passes.num_left:
            break
    if passes.num_left:
        windows = take(loaders)
        assert windows == take([whole])
        assert len(windows) == passes.num_left
        if "group" in own and not lengths:
            groups = [group for group, _ in groupby(_kind(one) for one in windows)]
            assert len(groups) == len(set(groups))
        passes.give(windows, in_order=in_order)
        assert not passes.num_left
    if rows.windows(rows.view(where)):
        passes = Passes(rows, where, **lengths)
        passes.give(take(loaders), in_order=in_order)
        assert not passes.num_left


def _kind(window):
    first = window[0][0] if isinstance(window[0], tuple) else window[0]
    return first % 3


@pytest.mark.slow
@pytest.mark.parametrize("is_arrays", [False, True])
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=12, deadline=None)
@given(program=programs())
def test_windows_come_as_the_model_says(program, is_arrays):
    _check(program, is_arrays=is_arrays)


@pytest.mark.soak
@pytest.mark.parametrize("is_arrays", [False, True])
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=200, deadline=None)
@given(program=programs())
def test_windows_come_as_the_model_says_in_many_programs(program, is_arrays):
    _check(program, is_arrays=is_arrays)
