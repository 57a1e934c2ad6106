"""Column groups against a dictionary, while everything else happens to the dataset.

Two branches append to groups, replace and drop them, among ordinary commits, merges, restores,
optimizations, expiries and collections. After each step every handle reads what its dictionary
says; at the end a copy and a mirror of the dataset read it too, and a check finds nothing.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError, SnapshotExpiredError
from tensorlake.storage import MemoryStore, run
from tensorlake.versions import check_dataset, copy_dataset
from tests.support.column_groups import Item, append_to_group, groups_of, replace_group
from tests.support.garbage import Clock
from tests.support.handles import create_on, open_on

BRANCHES = ("main", "side")
branches = st.sampled_from(BRANCHES)
names = st.sampled_from(["files", "labels", "größe/1"])
items = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), st.integers(0, 99)))
Groups = dict[str, list[Item]]


class ColumnGroups(RuleBasedStateMachine):
    """A handle on each of two branches, and the groups that it must show."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock)
        self.handles: dict[str, Dataset] = {}
        self.groups: dict[str, Groups] = {name: {} for name in BRANCHES}
        self.staged: dict[str, Groups] = {name: {} for name in BRANCHES}
        self.versions: dict[str, Groups] = {}

    @initialize()
    def begin(self) -> None:
        main = create_on(self.store, {"x": "int64"})
        main.extend({"x": [3, 1, 2]})
        main.commit()
        self.handles = {"main": main, "side": main.branch("side")}
        for branch in BRANCHES:
            self.note(branch)

    def note(self, branch: str) -> None:
        """The handle stands on a published version with what was staged."""
        self.groups[branch] = deepcopy(self.staged[branch])
        self.versions[self.handles[branch].version] = deepcopy(self.staged[branch])

    @rule(branch=branches, name=names, new=items)
    def append(self, branch: str, name: str, new: list[Item]) -> None:
        known = self.staged[branch]
        if name in known:
            append_to_group(self.handles[branch], name, new)
        else:
            replace_group(self.handles[branch], name, new)
        known[name] = known.get(name, []) + new

    @rule(branch=branches, name=names, new=items)
    def replace(self, branch: str, name: str, new: list[Item]) -> None:
        replace_group(self.handles[branch], name, new)
        self.staged[branch][name] = list(new)

    @rule(branch=branches, name=names)
    def drop(self, branch: str, name: str) -> None:
        self.handles[branch].__session__.drop_group(name)
        self.staged[branch].pop(name, None)

    @rule(branch=branches, what=st.sampled_from(["append", "update", "delete", "add"]))
    def change(self, branch: str, what: str) -> None:
        dataset = self.handles[branch]
        match what:
            case "append":
                dataset.extend({name: [7, 8] for name in dataset.schema})
            case "update" if len(dataset):
                dataset["x"][0] = 5
            case "delete" if len(dataset):
                dataset.delete([0])
            case "add" if "y" not in dataset.schema:
                dataset.add_tensor("y", "int64", fill=1)
            case _:
                return

    @rule(branch=branches)
    def commit(self, branch: str) -> None:
        self.handles[branch].commit()
        self.note(branch)

    @rule(branch=branches)
    def discard(self, branch: str) -> None:
        self.handles[branch].discard()
        self.staged[branch] = deepcopy(self.groups[branch])

    @rule(branch=branches, name=names, new=items)
    def race(self, branch: str, name: str, new: list[Item]) -> None:
        """Another handle publishes a group first: the commit here keeps both, or conflicts."""
        other = open_on(self.store, branch)
        replace_group(other, name, new)
        other.append(dict.fromkeys(other.schema, 9))
        other.commit()
        theirs = deepcopy(self.groups[branch]) | {name: list(new)}
        self.versions[other.version] = theirs
        dataset, mine, was = self.handles[branch], self.staged[branch], self.groups[branch]
        # Staged content may equal the old one by value, and be another.
        try:
            dataset.commit()
        except ConflictError:
            dataset.discard()
            dataset.refresh()
            self.staged[branch] = deepcopy(theirs)
        else:
            dataset.refresh()
            assert mine.get(name) == was.get(name)
            self.staged[branch] = mine | {name: list(new)}
        self.note(branch)

    @rule(ours=branches)
    def merge(self, ours: str) -> None:
        theirs = "side" if ours == "main" else "main"
        for branch in BRANCHES:
            self.commit(branch)
        try:
            report: Any = self.handles[ours].merge(theirs, on_conflict="theirs")
        except SnapshotExpiredError:
            return  # every common version was collected
        if report.how == "fast-forward":
            self.staged[ours] = deepcopy(self.groups[theirs])
        self.note(ours)

    @rule(branch=branches, order_by=st.none() | st.just("x"))
    def optimize(self, branch: str, order_by: str | None) -> None:
        self.commit(branch)
        self.handles[branch].optimize(order_by=order_by)
        self.note(branch)

    @rule(branch=branches, data=st.data())
    def restore(self, branch: str, data: st.DataObject) -> None:
        self.commit(branch)
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.handles[branch].restore(version)
        self.staged[branch] = deepcopy(self.versions[version])
        self.note(branch)

    @rule()
    def collect(self) -> None:
        for branch in BRANCHES:
            self.commit(branch)
        self.clock.pass_grace()
        for branch in BRANCHES:
            self.handles[branch] = open_on(self.store, branch)
        self.handles["main"].expire(keep_last=2)
        self.clock.pass_grace()
        self.handles["main"].gc()
        self.versions = {}
        for branch in BRANCHES:
            self.handles[branch] = open_on(self.store, branch)
            self.note(branch)

    @invariant()
    def each_handle_reads_its_groups(self) -> None:
        for branch, dataset in self.handles.items():
            assert groups_of(dataset) == self.staged[branch]

    def teardown(self) -> None:
        if not self.handles:
            return
        for branch in BRANCHES:
            self.handles[branch].discard()
        copied, mirrored = MemoryStore(), MemoryStore()
        run(copy_dataset(self.store, copied))
        run(copy_dataset(self.store, mirrored, mirror=True))
        for store in (self.store, copied, mirrored):
            assert run(check_dataset(store, full=True)).findings == ()
            for version, groups in self.versions.items():
                assert groups_of(open_on(store, version)) == groups


ColumnGroups.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestColumnGroups = ColumnGroups.TestCase


@pytest.mark.soak
class TestColumnGroupsAtLength(ColumnGroups.TestCase):
    """The same, longer."""

    settings = settings(TestColumnGroups.settings, max_examples=40, stateful_step_count=30)
