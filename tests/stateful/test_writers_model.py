"""Writers on a failing store against a model of what each of them means (format.md, test 32).

Every handle has a *net*: cells, rows and names it changed. The log tells in which order nets were
published (an entry is a transaction's, by txid), so the model applies them in that order and knows
what every version must show. It also says beforehand which commits conflict, and what each policy
makes of it. Faults of the store strike anywhere; a commit that failed is tried again, some time.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CommitOutcomeUnknownError, ConflictError, StorageError
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions import BranchLog
from tests.support.handles import create_on, open_on, wait_for_storage

T = TypeVar("T")

COLUMNS = ("x", "y")
TAGS = ("a", "b", "c")
FILL = -7

FAULTS = [
    (Fault.REFUSED, "put_if_absent", "packs/"),
    (Fault.REFUSED, "put_if_absent", "branches/"),
    (Fault.REFUSED, "get", "branches/main/0"),
    (Fault.REFUSED, "get_range", "packs/"),
    (Fault.REFUSED, "head", "packs/"),
    (Fault.TIMED_OUT, "put_if_absent", "branches/"),
    (Fault.TIMED_OUT, "get", "branches/"),
    (Fault.NOT_STORED, "put_if_absent", "packs/"),
    (Fault.NOT_STORED, "put_if_absent", "branches/"),
    (Fault.ANSWER_LOST, "put_if_absent", "packs/"),
    (Fault.ANSWER_LOST, "put_if_absent", "branches/"),
    (Fault.LANDS_LATER, "put_if_absent", "packs/"),
    (Fault.LANDS_LATER, "put_if_absent", "branches/"),
    (Fault.MISSING, "get", "HEAD"),
    (Fault.FLIPPED, "get", "HEAD"),
    (Fault.TORN, "put", "HEAD"),
    (Fault.REFUSED, "put", "HEAD"),
    (Fault.DELAYED, "put_if_absent", "branches/"),
    (Fault.DELAYED, "get", "branches/main/0"),
    (Fault.DELAYED, "get_range", "packs/"),
    (Fault.REORDERED, "list", "branches/"),
    (Fault.REORDERED, "list", "tags/"),
]

Cell = tuple[str, int]  # column id, key

kinds = st.sampled_from(
    ["update"] * 6 + ["append", "delete", "delete", "waver", "add_column", "rename"]
)
picks = st.integers(0, 50)
steps = st.lists(st.tuples(kinds, picks, picks), min_size=1, max_size=4)
Steps = list[tuple[str, int, int]]
POLICIES = ("error", "ours", "theirs")


@dataclass
class Net:
    """What a transaction means: cells and rows by column and key, for ever the same."""

    updates: dict[Cell, int] = field(default_factory=dict[Cell, int])
    appended: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    deleted: set[int] = field(default_factory=set[int])
    returned: set[int] = field(default_factory=set[int])
    added: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    names: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Content:
    """What a version shows: rows by key, those deleted as well, and the columns' names."""

    rows: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    shown: set[int] = field(default_factory=set[int])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def applied(self, net: Net) -> Content:
        """The content after a net."""
        rows = {key: dict(row) for key, row in self.rows.items()}
        new = Content(rows, set(self.shown), self.names | net.names)
        for column, cells in net.added.items():
            for key, row in new.rows.items():
                row[column] = cells.get(key, FILL)
        for (column, key), value in net.updates.items():
            new.rows[key][column] = value
        for key, row in net.appended.items():
            new.rows[key] = {column: row.get(column, FILL) for column in new.names}
        new.shown = (new.shown - net.deleted | net.returned) | net.appended.keys()
        return new

    def listed(self) -> dict[int, dict[str, int]]:
        """The rows that a reader sees, by key, cells by name."""
        return {
            key: {self.names[column]: value for column, value in self.rows[key].items()}
            for key in self.shown
        }


@dataclass
class Writer:
    """A handle, the version it stands on, and what it staged."""

    dataset: Dataset
    base: int
    net: Net = field(default_factory=Net)
    is_in_doubt: bool = False


@dataclass(frozen=True)
class Meeting:
    """What keeps a net from standing on later versions."""

    cells: frozenset[Cell]
    vanished: frozenset[int]
    touched: frozenset[int]
    renamed: frozenset[str]

    @property
    def conflicts(self) -> bool:
        return bool(self.cells or self.vanished or self.touched or self.renamed)


class WritersModel(RuleBasedStateMachine):
    """Several writers of one branch, each with its own handle."""

    writers: Bundle[Writer] = Bundle("writers")

    @initialize(target=writers)
    def create(self) -> Any:
        self.objects = MemoryStore()
        self.store = FaultyStore(self.objects)
        self.keys = itertools.count()
        self.numbers = itertools.count()
        create_on(self.objects, {"key": "int64", **dict.fromkeys(COLUMNS, "int64")})
        wait_for_storage()
        self.versions = [Content(names={name: name for name in COLUMNS})]
        self.published: list[Net] = [Net()]
        self.by_txid: dict[str, Net] = {}
        self.all: list[Writer] = []
        first = self.opened()
        for _ in range(4):
            self.append(first, 0, 0)
        self.commit(first)
        for name in TAGS:
            first.dataset.tag(name, at="main@1")
        return multiple(first, self.opened(), self.opened())

    def opened(self) -> Writer:
        writer = Writer(open_on(self.store), len(self.versions) - 1)
        self.all.append(writer)
        return writer

    # The log is the truth about the order

    def learn(self) -> None:
        """Take what was published since into the model."""
        wait_for_storage()
        log = BranchLog(self.objects, "main")
        while (entry := run(log.entry(len(self.versions)))) is not None:
            net = self.by_txid.pop(entry.txid)  # a txid that is known twice raises KeyError
            self.versions.append(self.versions[-1].applied(net))
            self.published.append(net)

    def meeting(self, writer: Writer, stop: int) -> Meeting:
        """Where a writer's net meets what was published after its base, before ``stop``."""
        net, head = writer.net, self.versions[stop - 1]
        base = self.versions[writer.base].rows
        theirs = self.published[writer.base + 1 : stop]
        named = {column for other in theirs for column in other.names.keys() - other.added.keys()}
        mine = self.changes(writer)
        back = net.returned.difference(*(other.deleted for other in theirs))
        return Meeting(
            cells=frozenset(
                (column, key)
                for (column, key), value in mine.items()
                if key in head.shown and head.rows[key][column] not in (value, base[key][column])
            ),
            vanished=frozenset(
                key
                for _, key in mine
                if key not in head.shown and key not in back and key not in net.deleted
            ),
            touched=frozenset(
                key
                for key in net.deleted
                if key in head.shown
                and any(head.rows[key][column] != value for column, value in base[key].items())
            ),
            renamed=frozenset((net.names.keys() - net.added.keys()) & named),
        )

    def changes(self, writer: Writer) -> dict[Cell, int]:
        """The updates of a net that are changes: a value that was there before is none."""
        base = self.versions[writer.base].rows
        return {
            (column, key): value
            for (column, key), value in writer.net.updates.items()
            if base[key][column] != value
        }

    def view(self, writer: Writer) -> Content:
        return self.versions[writer.base].applied(writer.net)

    def chosen(self, writer: Writer, pick: int) -> int | None:
        keys = sorted(self.view(writer).shown)
        return keys[pick % len(keys)] if keys else None

    def position(self, writer: Writer, key: int) -> int:
        return writer.dataset["key"][:].tolist().index(key)

    # Staging: on a healthy store

    @rule(writer=writers, steps=steps)
    def stage(self, writer: Writer, steps: Steps) -> None:
        if writer.is_in_doubt:
            return
        self.store.heal()
        for kind, pick, value in steps:
            getattr(self, kind)(writer, pick, value)

    def append(self, writer: Writer, pick: int, value: int) -> None:
        del pick
        names, key = self.view(writer).names, next(self.keys)
        writer.dataset.append({"key": key, **dict.fromkeys(names.values(), value)})
        writer.net.appended[key] = dict.fromkeys(names, value)

    def update(self, writer: Writer, pick: int, value: int) -> None:
        key = self.chosen(writer, pick)
        if key is None:
            return
        names = self.view(writer).names
        column = sorted(names)[pick // 7 % len(names)]
        value %= 3
        writer.dataset[names[column]][self.position(writer, key)] = value
        if key in writer.net.appended:
            writer.net.appended[key][column] = value
        elif column in writer.net.added:
            writer.net.added[column][key] = value
        else:
            writer.net.updates[column, key] = value

    def delete(self, writer: Writer, pick: int, value: int) -> None:
        del value
        key = self.chosen(writer, pick)
        if key is None:
            return
        writer.dataset.delete([self.position(writer, key)])
        if writer.net.appended.pop(key, None) is None:
            writer.net.deleted.add(key)
            writer.net.returned.discard(key)

    def waver(self, writer: Writer, pick: int, value: int) -> None:
        """Append two rows and delete the first again, so that a new row is not shown."""
        self.append(writer, pick, value)
        gone = max(writer.net.appended)
        self.append(writer, pick, value)
        writer.dataset.delete([self.position(writer, gone)])
        del writer.net.appended[gone]

    def add_column(self, writer: Writer, pick: int, value: int) -> None:
        del pick, value
        if len(self.view(writer).names) > 3:
            return
        column = f"c{next(self.numbers)}"
        writer.dataset.add_tensor(column, "int64", fill=FILL)
        writer.net.added[column] = {}
        writer.net.names[column] = column
        for row in writer.net.appended.values():
            row[column] = FILL

    def rename(self, writer: Writer, pick: int, value: int) -> None:
        del value
        names = self.view(writer).names
        column, new = sorted(names)[pick % len(names)], f"n{next(self.numbers)}"
        writer.dataset.rename_tensor(names[column], new)
        writer.net.names[column] = new

    # Publishing, with whatever the store does

    @rule(
        faults=st.lists(
            st.tuples(st.sampled_from(FAULTS), st.integers(0, 2), st.integers(0, 6)), max_size=3
        )
    )
    def break_things(self, faults: list[tuple[tuple[Fault, str, str], int, int]]) -> None:
        for (fault, call, path), skip, later in faults:
            self.store.inject(fault, call=call, path=path, skip=skip, later=later)

    @rule(writer=writers)
    def commit(self, writer: Writer) -> None:
        transaction = session_of(writer.dataset).transaction
        if transaction is None:
            return
        txid, base = transaction.txid, writer.base
        self.by_txid[txid] = replace(copy.deepcopy(writer.net), updates=self.changes(writer))
        before = len(self.versions)
        try:
            commit = writer.dataset.commit("step")
        except ConflictError:
            self.learn()
            assert self.meeting(writer, len(self.versions)).conflicts
            assert writer.dataset.has_changes
            del self.by_txid[txid]
            writer.is_in_doubt = False
        except CommitOutcomeUnknownError:
            self.learn()
            writer.is_in_doubt = True
        except StorageError:
            self.learn()
            if not writer.is_in_doubt and txid in self.by_txid:
                del self.by_txid[txid]
        else:
            self.learn()
            number = int(commit.version.partition("@")[2])
            assert txid not in self.by_txid or number < before  # nothing was left to publish
            self.by_txid.pop(txid, None)
            assert not self.meeting(Writer(writer.dataset, base, writer.net), number).conflicts
            writer.base, writer.net, writer.is_in_doubt = number, Net(), False
            self.look(writer)
        assert transaction.doubt.seq is not None or not writer.is_in_doubt

    @rule(writer=writers, policy=st.sampled_from(POLICIES))
    def refresh(self, writer: Writer, policy: Any) -> None:
        transaction = session_of(writer.dataset).transaction
        try:
            writer.dataset.refresh(keep_staged=True, on_conflict=policy)
        except ConflictError:
            self.learn()
            assert policy == "error"
            assert self.meeting(writer, len(self.versions)).conflicts
            return
        except StorageError:
            return
        self.learn()
        number = int(writer.dataset.version.partition("@")[2])
        if transaction is not None and session_of(writer.dataset).transaction is None:
            is_published = transaction.txid not in self.by_txid and writer.is_in_doubt
            if is_published:
                writer.net = Net()
        if not writer.is_in_doubt or transaction is None or transaction.doubt.seq is None:
            if writer.is_in_doubt and transaction is not None:
                self.by_txid.pop(transaction.txid, None)
            writer.is_in_doubt = False
        meeting = self.meeting(writer, number + 1)
        assert policy != "error" or not meeting.conflicts
        self.settle(writer, meeting, policy, number)
        self.store.heal()
        self.look(writer)

    def settle(self, writer: Writer, meeting: Meeting, policy: str, number: int) -> None:
        """What stays of a net after a refresh; a row that both deleted stays deleted here too.

        Not so a cell that both gave one value, or that only they gave another one: it is the base's
        now, and nothing is staged.
        """
        net, head, changes = writer.net, self.versions[number], self.changes(writer)
        theirs = self.published[writer.base + 1 : number + 1]
        theirs_updated = {cell for other in theirs for cell in other.updates}
        if policy == "ours":
            net.returned |= meeting.vanished
        else:
            lost = meeting.vanished
            net.updates = {
                cell: value
                for cell, value in net.updates.items()
                if cell not in meeting.cells and cell[1] not in lost
            }
            for cells in net.added.values():
                for key in lost:  # theirs' deletion stands: what was written to the row is void
                    cells.pop(key, None)
            net.deleted -= meeting.touched
            for column in meeting.renamed:
                del net.names[column]
        net.updates = {
            (column, key): value
            for (column, key), value in net.updates.items()
            if key in net.deleted
            or (column, key) not in theirs_updated
            or key not in head.shown
            or ((column, key) in changes and head.rows[key][column] != value)
        }
        kept = head.shown | net.returned | net.deleted
        gone = {key for _, key in net.updates if key not in kept}
        net.updates = {cell: value for cell, value in net.updates.items() if cell[1] not in gone}
        net.returned -= head.shown
        for cells in net.added.values():
            for key in [key for key in cells if key not in head.rows]:
                del cells[key]
        for row in net.appended.values():
            for column in head.names.keys() - row.keys():
                row[column] = FILL
        writer.base = number

    @rule(slow=writers, fast=writers, mine=steps, theirs=steps, policy=st.sampled_from(POLICIES))
    def race(self, slow: Writer, fast: Writer, mine: Steps, theirs: Steps, policy: str) -> None:
        """What the other rules come to seldom: both stage, one commits, the other meets it."""
        self.stage(slow, mine)
        self.stage(fast, theirs)
        self.commit(fast)
        if policy != "error":
            self.refresh(slow, policy)
        self.commit(slow)

    @rule(writer=writers)
    def discard(self, writer: Writer) -> None:
        writer.dataset.discard()
        writer.net, writer.is_in_doubt = Net(), False

    @rule(writer=writers)
    def look(self, writer: Writer) -> None:
        """A read under faults fails, or is right."""
        seen = self.tried(lambda: cells_of(writer.dataset))
        if seen is not None:
            found = {row.pop("key"): row for row in seen}
            assert len(found) == len(seen)
            assert found == self.view(writer).listed()

    @rule(writer=writers)
    def look_at_names(self, writer: Writer) -> None:
        """A listing fails, or names all there is in one order, whatever the store's."""
        dataset = writer.dataset
        seen = self.tried(lambda: [*dataset.branches, *dataset.tags])
        assert seen in (None, ["main", *TAGS])

    def tried(self, read: Callable[[], list[T]]) -> list[T] | None:
        try:
            return read()
        except StorageError:
            return None

    def teardown(self) -> None:
        self.store.heal()
        for _ in range(2):  # whatever was in doubt is known after another try
            for writer in self.all:
                self.commit(writer)
        for writer in self.all:
            writer.dataset.discard()
        for number, content in enumerate(self.versions):
            rows = cells_of(open_on(self.objects, f"main@{number}"))
            assert {row.pop("key"): row for row in rows} == content.listed()


def cells_of(dataset: Dataset) -> list[dict[str, int]]:
    """Read everything, a column at a time: a request of rows costs as much as one of a cell."""
    columns = {name: dataset[name][:].tolist() for name in dataset.schema}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


WritersModel.TestCase.settings = settings(
    max_examples=10,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestWritersModel = WritersModel.TestCase


@pytest.mark.soak
def test_the_model_of_writers_holds_for_long_runs_of_random_steps():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        WritersModel,
        settings=settings(
            max_examples=300,
            stateful_step_count=60,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
