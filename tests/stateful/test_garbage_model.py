"""Random histories with collections in between: what may be read never changes, what may not goes.

The model remembers what each version held when it was made. After every collection all versions of
live branches from their expired_before on, and all tags and views, must hold the same, and no
pack older than the grace time may be left that none of these needs.
"""

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import (
    ConflictError,
    InvalidStateError,
    SnapshotExpiredError,
    TransactionExpiredError,
)
from tensorlake.storage import MemoryStore, ObjectMeta, run
from tensorlake.versions import create_tag
from tests.support.garbage import (
    GRACE,
    Clock,
    content_of,
    needed_paths,
    objects_of,
    pack_paths,
    readable,
)
from tests.support.handles import create_on, open_on

BRANCHES = ("main", "one", "two", "three")
HOURS = st.sampled_from([0, 1, 11, 23, 25, 49])


class Lake(RuleBasedStateMachine):
    """A dataset, a clock, and what each version held."""

    versions = Bundle("versions")

    @initialize(target=versions)
    def create(self) -> str:
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock)
        self.lake = create_on(self.store, {"x": "int64", "text": "str"})
        self.held: dict[str, Any] = {}
        self.seen: set[ObjectMeta] = set()
        self.views: dict[str, Any] = {}
        self.names = 0
        self.asleep: list[Dataset] = []
        return self.remember(open_on(self.store))

    def remember(self, handle: Dataset) -> str:
        self.held[handle.version] = content_of(handle)
        return handle.version

    def branch(self, data: st.DataObject) -> Dataset:
        return open_on(self.store, data.draw(st.sampled_from(self.main().branches)))

    def main(self) -> Dataset:
        """What asks nothing of its own version, and need not be opened again."""
        return self.lake

    def name(self) -> str:
        self.names += 1
        return f"name {self.names}"

    @rule(target=versions, data=st.data(), values=st.lists(st.integers(0, 9), min_size=1))
    def append(self, data, values):
        handle = self.branch(data)
        handle.extend({"x": values, "text": [str(value) for value in values]})
        handle.commit("append")
        return self.remember(handle)

    @rule(target=versions, data=st.data(), value=st.integers(10, 19))
    def update(self, data, value):
        handle = self.branch(data)
        if len(handle):
            handle["x"][: data.draw(st.integers(1, len(handle)))] = value
            handle.commit("update")
        return self.remember(handle)

    @rule(target=versions, data=st.data(), value=st.integers(20, 29))
    def replace_everything(self, data, value):
        """No chunk of the version before is needed any more."""
        handle = self.branch(data)
        if len(handle):
            handle["x"][:] = value
            handle["text"][:] = str(value)
            handle.commit("replace")
        return self.remember(handle)

    @rule(target=versions, data=st.data())
    def delete(self, data):
        handle = self.branch(data)
        if len(handle):
            handle.delete([data.draw(st.integers(0, len(handle) - 1))])
            handle.commit("delete")
        return self.remember(handle)

    @rule(target=versions, data=st.data())
    def optimize(self, data):
        handle = self.branch(data)
        handle.optimize()
        return self.remember(handle)

    @rule(target=versions, version=versions, name=st.sampled_from(BRANCHES[1:]))
    def start_branch(self, version, name):
        try:
            made = self.main().branch(name, at=version)
        except (SnapshotExpiredError, ValueError):
            return version
        return self.remember(made)

    @rule(name=st.sampled_from(BRANCHES[1:]))
    def end_branch(self, name):
        if name in self.main().branches:
            self.main().delete_branch(name)

    @rule(target=versions, version=versions, data=st.data())
    def restore(self, version, data):
        handle = self.branch(data)
        try:
            handle.restore(version)
        except SnapshotExpiredError:
            return version
        return self.remember(handle)

    @rule(target=versions, data=st.data())
    def merge(self, data):
        handle, other = self.branch(data), self.branch(data)
        try:
            handle.merge(session_of(other).branch, on_conflict="theirs")
        except (ConflictError, SnapshotExpiredError):
            return self.remember(open_on(self.store))
        return self.remember(handle)

    @rule(version=versions, hours=st.none() | HOURS)
    def tag(self, version, hours):
        expires = None if hours is None else self.clock.now + dt.timedelta(hours=hours)
        name = self.name()
        try:
            session = session_of(self.main().at(version))
            # Below the handle, which compares with the time of this machine.
            run(create_tag(self.store, name, session.head, session.branch, expires=expires))
        except SnapshotExpiredError:
            return
        self.held[name] = self.held[version]

    @rule(version=versions, data=st.data())
    def save_view(self, version, data):
        name = self.name()
        try:
            handle = self.main().at(version)
            rows = data.draw(st.lists(st.integers(0, max(len(handle) - 1, 0)), max_size=3))
            view = handle[rows if len(handle) else []].save(name)
        except SnapshotExpiredError:
            return
        self.views[name] = content_of(view)

    @rule(data=st.data())
    def withdraw(self, data):
        tags = [*self.main().tags, *self.main().views]
        if tags:
            self.main().delete_tag(data.draw(st.sampled_from(tags)))

    @rule(data=st.data())
    def fall_asleep(self, data):
        """Stage rows, store their packs, and sleep before the entry."""
        handle = self.branch(data)
        handle.extend({"x": [100], "text": ["asleep"]})
        session_of(handle).transaction.stage.send_open()
        session_of(handle).transaction.working()
        session_of(handle).transaction.stage.send_open()
        session_of(handle).transaction.stage.settle()
        self.asleep.append(handle)

    @precondition(lambda self: self.asleep)
    @rule(target=versions)
    def wake_up(self):
        handle = self.asleep.pop(0)
        try:
            handle.commit("woken up")
        except (TransactionExpiredError, InvalidStateError):
            handle.discard()
            return self.remember(open_on(self.store))
        return self.remember(handle)

    @precondition(lambda self: self.asleep)
    @rule()
    def die(self):
        self.asleep.pop().discard()

    @rule(hours=HOURS)
    def sleep(self, hours):
        self.clock.now += dt.timedelta(hours=hours)

    @rule(keep=st.integers(1, 3))
    def collect_what_is_given_up(self, keep):
        self.main().expire(keep_last=keep)
        self.clock.pass_grace()
        self.collect()

    @rule(hours=HOURS)
    def collect_later(self, hours):
        self.clock.now += dt.timedelta(hours=hours)
        self.collect()

    def collect(self) -> None:
        self.main().gc()

        self.everything_is_held()
        needed = needed_paths(self.store)
        for path in pack_paths(self.store) - needed:
            stored = run(self.store.head(path)).modified
            assert self.clock.now - stored < GRACE + dt.timedelta(seconds=2), path

    def everything_is_held(self) -> None:
        for name in run(readable(self.store)):
            assert content_of(open_on(self.store, name)) == self.held[name], name
        views = self.main().views
        for name in views:
            assert content_of(views[name]) == self.views[name], name

    @invariant()
    def heads_are_readable(self):
        """Whatever changed in the store; a step that changed nothing cannot have broken it."""
        if hasattr(self, "store") and (objects := objects_of(self.store)) != self.seen:
            self.seen = objects
            for name in self.main().branches:
                content_of(open_on(self.store, name))

    def teardown(self):
        for handle in getattr(self, "asleep", ()):
            handle.discard()


@pytest.mark.parametrize(
    ("examples", "steps"), [(6, 30), pytest.param(150, 50, marks=pytest.mark.soak)]
)
def test_collections_change_nothing_that_may_be_read(examples, steps):
    run_state_machine_as_test(
        Lake,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
