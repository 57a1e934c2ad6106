"""The whole SDK against plain Python lists (format.md, test 32).

The model is a list of rows (dicts) beside each handle, and a dict from version to a copy of the
rows it had. After every step the handle shows what its list says; at the end every version still
shows what it showed when it was made.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on, plain, rows_of

CLASSES = ["cat", "dog", "bird"]

FIXED: dict[str, tl.SampleType | str] = {
    "x": "int32",
    "score": tl.Scalar("float32", nullable=True),
    "label": tl.ClassLabel(CLASSES),
    "tokens": tl.Array("uint16", shape=(3,)),
    "boxes": tl.Array("int16", shape=(None, 2)),
    "text": tl.Text(nullable=True),
    "info": tl.Json(),
}
ADDED = {
    "float": (tl.Scalar("float64"), 0.5),
    "words": (tl.Text(nullable=True), None),
    "flag": (tl.Bool(), True),
}

integers = st.integers(-1000, 1000)
values: dict[str, st.SearchStrategy[Any]] = {
    "x": integers,
    "score": st.none() | st.integers(-64, 64).map(lambda n: n / 4),
    "label": st.integers(0, len(CLASSES) - 1),
    "tokens": st.lists(st.integers(0, 2**16 - 1), min_size=3, max_size=3),
    "boxes": st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(list), max_size=3),
    "text": st.none() | st.text(max_size=4),
    "info": st.booleans() | st.dictionaries(st.text(max_size=2), integers, max_size=2),
    "float": st.integers(-64, 64).map(lambda n: n / 8),
    "words": st.none() | st.text(max_size=3),
    "flag": st.booleans(),
}
picks = st.lists(st.integers(0, 10**6), max_size=6)
Row = dict[str, Any]


def given(name: str, value: Any) -> Any:
    """A value as a user would give it: arrays need their dtype where a list is empty."""
    if name == "boxes":
        return np.array(value, dtype=np.int16).reshape(-1, 2)
    return value


class Handle:
    """A dataset handle, and what it must show."""

    def __init__(self, dataset: Dataset, rows: list[Row], kinds: dict[str, str]) -> None:
        self.dataset = dataset
        self.rows = rows  # what the handle shows, staged changes included
        self.kinds = kinds  # tensor name -> key of `values`
        self.base = (copy.deepcopy(rows), dict(kinds))

    def commit(self) -> None:
        self.base = (copy.deepcopy(self.rows), dict(self.kinds))

    def discard(self) -> None:
        self.rows, self.kinds = copy.deepcopy(self.base[0]), dict(self.base[1])


class DatasetModel(RuleBasedStateMachine):
    """Handles on branches of one dataset, and a list beside each."""

    handles: Bundle[Handle] = Bundle("handles")

    @initialize(target=handles)
    def create(self) -> Handle:
        self.store = MemoryStore()
        self.names = (f"n{number}" for number in itertools.count())
        self.published: dict[str, tuple[list[Row], dict[str, str]]] = {}
        self.heads: dict[str, str] = {}
        self.all: list[Handle] = []
        handle = Handle(create_on(self.store, FIXED), [], {name: name for name in FIXED})
        return self.opened(handle)

    def opened(self, handle: Handle) -> Handle:
        self.all.append(handle)
        self.note(handle)
        return handle

    def note(self, handle: Handle) -> None:
        """Remember what a version shows, for ever."""
        version = handle.dataset.version
        self.published.setdefault(version, (copy.deepcopy(handle.base[0]), handle.base[1]))
        branch, _, number = version.partition("@")
        known = self.heads.get(branch, f"{branch}@-1")
        if int(number) > int(known.partition("@")[2]):
            self.heads[branch] = version

    def chosen(self, handle: Handle, picked: list[int]) -> list[int]:
        count = len(handle.rows)
        return list(dict.fromkeys(pick % count for pick in picked)) if count else []

    def row_of(self, handle: Handle, data: st.DataObject) -> Row:
        return {name: data.draw(values[kind]) for name, kind in handle.kinds.items()}

    # Staging

    @rule(handle=handles, data=st.data())
    def append(self, handle: Handle, data: st.DataObject) -> None:
        row = self.row_of(handle, data)
        handle.dataset.append({name: given(handle.kinds[name], row[name]) for name in row})
        handle.rows.append(row)

    @rule(handle=handles, count=st.integers(0, 12), data=st.data(), way=st.integers(0, 2))
    def extend(self, handle: Handle, count: int, data: st.DataObject, way: int) -> None:
        rows = [self.row_of(handle, data) for _ in range(count)]
        shown = [{n: given(handle.kinds[n], value) for n, value in row.items()} for row in rows]
        match way:
            case 0:
                handle.dataset.extend(shown)
            case 1:
                handle.dataset.extend({n: [row[n] for row in shown] for n in handle.kinds})
            case _:
                handle.dataset.extend(iter(shown))
        handle.rows += rows

    @rule(handle=handles, picked=picks)
    def extend_by_own_rows(self, handle: Handle, picked: list[int]) -> None:
        rows = self.chosen(handle, picked)
        handle.dataset.extend(handle.dataset[rows])
        handle.rows += [copy.deepcopy(handle.rows[row]) for row in rows]

    @rule(handle=handles, picked=picks, data=st.data())
    def assign(self, handle: Handle, picked: list[int], data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(handle.kinds)))
        kind = handle.kinds[name]
        rows = self.chosen(handle, picked)
        new = [data.draw(values[kind]) for _ in rows]
        if rows or kind != "boxes":
            handle.dataset[name][rows] = [given(kind, value) for value in new]
        for row, value in zip(rows, new, strict=True):
            handle.rows[row][name] = value

    @rule(
        handle=handles, start=st.integers(-9, 9), step=st.sampled_from([1, 2, -1]), data=st.data()
    )
    def assign_one_value_to_a_slice(
        self, handle: Handle, start: int, step: int, data: st.DataObject
    ) -> None:
        name = data.draw(st.sampled_from(sorted(handle.kinds)))
        kind = handle.kinds[name]
        value = data.draw(values[kind])
        single = np.array(value, dtype=np.uint16) if kind == "tokens" else given(kind, value)
        handle.dataset[name][slice(start, None, step)] = single
        for row in range(len(handle.rows))[slice(start, None, step)]:
            handle.rows[row][name] = value

    @rule(handle=handles, bound=integers, label=st.sampled_from(CLASSES))
    def relabel_where(self, handle: Handle, bound: int, label: str) -> None:
        if "x" not in handle.kinds or "label" not in handle.kinds:
            return
        handle.dataset["label"][handle.dataset["x"] > bound] = label
        for row in handle.rows:
            if row["x"] > bound:
                row["label"] = CLASSES.index(label)

    @rule(handle=handles, picked=picks)
    def delete(self, handle: Handle, picked: list[int]) -> None:
        rows = self.chosen(handle, picked)
        assert handle.dataset.delete(rows) == len(rows)
        for row in sorted(rows, reverse=True):
            del handle.rows[row]

    # Schema

    @rule(handle=handles, kind=st.sampled_from(sorted(ADDED)))
    def add_tensor(self, handle: Handle, kind: str) -> None:
        sample_type, fill = ADDED[kind]
        name = next(self.names)
        handle.dataset.add_tensor(name, sample_type, fill=fill)
        handle.kinds[name] = kind
        for row in handle.rows:
            row[name] = fill

    @rule(handle=handles, data=st.data())
    def drop_tensor(self, handle: Handle, data: st.DataObject) -> None:
        if len(handle.kinds) < 2:
            return
        name = data.draw(st.sampled_from(sorted(handle.kinds)))
        handle.dataset.drop_tensor(name)
        del handle.kinds[name]
        for row in handle.rows:
            del row[name]

    @rule(handle=handles, data=st.data())
    def rename_tensor(self, handle: Handle, data: st.DataObject) -> None:
        old, new = data.draw(st.sampled_from(sorted(handle.kinds))), next(self.names)
        handle.dataset.rename_tensor(old, new)
        handle.kinds[new] = handle.kinds.pop(old)
        for row in handle.rows:
            row[new] = row.pop(old)

    # Publishing

    @rule(handle=handles)
    def commit(self, handle: Handle) -> None:
        """Commit; a handle that another overtook starts over from the head."""
        branch = handle.dataset.version.partition("@")[0]
        if self.heads[branch] == handle.dataset.version:
            handle.dataset.commit("step")
            handle.commit()
            self.note(handle)
            return
        if not handle.dataset.has_changes:
            handle.dataset.commit("nothing")
            return
        try:
            handle.dataset.commit("rebased")
        except ConflictError:
            assert handle.dataset.has_changes
            handle.dataset.discard()
            handle.dataset.refresh()
            handle.rows, handle.kinds = copy.deepcopy(self.published[self.heads[branch]])
        else:
            # What combining gives is checked by the tests of concurrency; here: it stays so.
            handle.rows = [
                {name: plain(value) for name, value in row.items()}
                for row in rows_of(handle.dataset)
            ]
            known = {**self.published[self.heads[branch]][1], **handle.kinds}
            handle.kinds = {name: known[name] for name in handle.dataset.schema}
        handle.commit()
        self.note(handle)

    @rule(handle=handles)
    def discard(self, handle: Handle) -> None:
        handle.dataset.discard()
        handle.discard()

    @rule(handle=handles)
    def refresh(self, handle: Handle) -> None:
        if handle.dataset.has_changes:
            return
        handle.dataset.refresh()
        branch = handle.dataset.version.partition("@")[0]
        assert handle.dataset.version == self.heads[branch]
        handle.rows, handle.kinds = copy.deepcopy(self.published[self.heads[branch]])
        handle.commit()

    @rule(target=handles, handle=handles)
    def reopen(self, handle: Handle) -> Any:
        if len(self.all) > 4:
            return multiple()
        branch = handle.dataset.version.partition("@")[0]
        rows, kinds = copy.deepcopy(self.published[self.heads[branch]])
        return self.opened(Handle(open_on(self.store, branch), rows, kinds))

    @rule(target=handles, handle=handles, data=st.data())
    def branch(self, handle: Handle, data: st.DataObject) -> Any:
        if len(self.all) > 4:
            return multiple()
        version = data.draw(st.sampled_from(sorted(self.published)))
        rows, kinds = copy.deepcopy(self.published[version])
        branched = handle.dataset.branch(next(self.names), at=version)
        return self.opened(Handle(branched, rows, kinds))

    @rule(handle=handles)
    def close_and_open_again(self, handle: Handle) -> None:
        handle.dataset.discard()
        handle.dataset.close()
        branch = handle.dataset.version.partition("@")[0]
        handle.dataset = open_on(self.store, branch)
        handle.rows, handle.kinds = copy.deepcopy(self.published[self.heads[branch]])
        handle.commit()

    # Looking

    @rule(handle=handles, data=st.data())
    def tag_and_read_back(self, handle: Handle, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.published)))
        name = next(self.names)
        handle.dataset.tag(name, at=version)
        assert shown(handle.dataset.at(name), self.published[version][1]) == listed(
            *self.published[version]
        )

    @rule(handle=handles, bound=integers)
    def query(self, handle: Handle, bound: int) -> None:
        if "x" not in handle.kinds or "label" not in handle.kinds:
            return
        found = handle.dataset.query("WHERE x <= $bound AND label != 'dog'", bound=bound)

        expected = [
            at for at, row in enumerate(handle.rows) if row["x"] <= bound and row["label"] != 1
        ]
        assert found.rows.tolist() == expected

    @rule(handle=handles)
    def query_nulls(self, handle: Handle) -> None:
        if "score" not in handle.kinds:
            return
        found = handle.dataset.where(handle.dataset["score"].is_null())

        expected = [at for at, row in enumerate(handle.rows) if row["score"] is None]
        assert found.rows.tolist() == expected

    @rule(handle=handles)
    def staged_diff_is_what_differs(self, handle: Handle) -> None:
        """Test 26, by counts: rows added and removed, cells updated."""
        diff = handle.dataset.diff()
        before = dict(enumerate(handle.base[0]))
        assert len(handle.rows) == len(before) + len(diff.added) - len(diff.removed)
        for name, cells in diff.updated.items():
            assert len(cells) > 0
            assert name in handle.kinds

    @invariant()
    def every_handle_shows_its_list(self) -> None:
        for handle in self.all:
            assert len(handle.dataset) == len(handle.rows)
            assert set(handle.dataset.schema) == set(handle.kinds)

    @rule(handle=handles)
    def read_all(self, handle: Handle) -> None:
        assert shown(handle.dataset, handle.kinds) == listed(handle.rows, handle.kinds)

    def teardown(self) -> None:
        for handle in self.all:
            self.read_all(handle)
            handle.dataset.discard()
        for version, (rows, kinds) in self.published.items():
            assert shown(open_on(self.store, version), kinds) == listed(rows, kinds)


def shown(dataset: Dataset, kinds: dict[str, str]) -> list[list[Any]]:
    """What a handle shows, column by column, in the order of names."""
    names = sorted(kinds)
    columns = [[plain(value) for value in dataset[name]] for name in names]
    return [list(row) for row in zip(*columns, strict=True)]


def listed(rows: list[Row], kinds: dict[str, str]) -> list[list[Any]]:
    return [[row[name] for name in sorted(kinds)] for row in rows]


DatasetModel.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestDatasetModel = DatasetModel.TestCase


@pytest.mark.soak
def test_the_model_holds_for_long_runs_of_random_steps():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        DatasetModel,
        settings=settings(
            max_examples=300,
            stateful_step_count=80,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
