"""Ingestion as a sync, against a dictionary of items.

Between runs, items are added, edited, touched, renamed and removed, and a hand changes and deletes
rows. Some runs are killed after a few items, and called again. After each run the dataset has the
rows, in the order, and the report the counts, that a plain dictionary says.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import tensorlake as tl
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source

CELLS = ("x", "y")
COUNTED = ("added", "updated", "renamed", "unchanged", "vanished", "deleted")
numbers = itertools.count()


class Killed(BaseException):
    """The end of a run."""


@dataclass
class Entry:
    """An item as it was ingested: its values, its stamp, and the cells in conflict."""

    row: int
    then: dict[str, int]
    stamp: int
    conflicts: set[str] = field(default_factory=set)


class Syncs(RuleBasedStateMachine):
    """A source, the rows that the dataset must have, and the ledger that explains them."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"memory://ingest-model-{next(numbers)}"
        self.items: dict[str, dict[str, int]] = {}
        self.stamps: dict[str, int] = {}
        self.values = itertools.count(1)
        self.rows: dict[int, dict[str, int]] = {}  # in the order in which they were appended
        self.ledger: dict[str, Entry] = {}
        self.is_made = False

    # The source

    @rule(count=st.integers(1, 4))
    def add(self, count: int) -> None:
        for _ in range(count):
            value = next(self.values)
            self.items[f"{value * 7 % 10}/{value}"] = {"x": value, "y": value % 3}
            self.stamps[f"{value * 7 % 10}/{value}"] = next(self.values)

    @precondition(lambda self: self.items)
    @rule(data=st.data(), cell=st.sampled_from(CELLS), is_seen=st.booleans())
    def edit(self, data: Any, cell: str, *, is_seen: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.items)))
        self.items[name] = self.items[name] | {cell: next(self.values)}
        if is_seen:
            self.stamps[name] = next(self.values)

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def touch(self, data: Any) -> None:
        self.stamps[data.draw(st.sampled_from(sorted(self.items)))] = next(self.values)

    @precondition(lambda self: self.items)
    @rule(data=st.data(), is_edited=st.booleans())
    def rename(self, data: Any, *, is_edited: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.items)))
        new = f"{next(self.values) % 10}/renamed{next(self.values)}"
        self.items[new] = self.items.pop(name)
        self.stamps[new] = self.stamps.pop(name)
        if is_edited:
            self.items[new] = self.items[new] | {"y": next(self.values)}

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.items)))
        del self.items[name], self.stamps[name]

    # The hand

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), cell=st.sampled_from(CELLS))
    def correct(self, data: Any, cell: str) -> None:
        row = data.draw(st.sampled_from(sorted(self.rows)))
        self.rows[row] = self.rows[row] | {cell: next(self.values)}
        with tl.open(self.url) as ds:
            ds[cell][[*self.rows].index(row)] = self.rows[row][cell]
            ds.commit("by hand")

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        row = data.draw(st.sampled_from(sorted(self.rows)))
        with tl.open(self.url) as ds:
            ds.delete([[*self.rows].index(row)])
            ds.commit("by hand")
        del self.rows[row]

    @precondition(lambda self: self.is_made)
    @rule()
    def optimize(self) -> None:
        with tl.open(self.url) as ds:
            ds.optimize()

    # The sync

    @precondition(lambda self: self.items)
    @rule(
        killed_after=st.none() | st.integers(0, 5),
        delete=st.booleans(),
        verify=st.booleans(),
        on_conflict=st.sampled_from(["keep", "source"]),
    )
    def sync(
        self, *, killed_after: int | None, delete: bool, verify: bool, on_conflict: Any
    ) -> None:
        arguments: dict[str, Any] = {
            "delete": delete,
            "verify": verify,
            "on_conflict": on_conflict,
            "commit_every": 3,
            "workers": 1,
        }
        if killed_after is not None:
            with suppress(Killed):
                run_ingest(self.source(killed_after), self.url, **arguments)
        ds = run_ingest(self.source(None), self.url, **arguments)
        counts = self.expect(delete=delete, verify=verify, takes=on_conflict == "source")
        report = ds.ingest_report
        assert report is not None
        columns = (ds[cell][:].tolist() for cell in CELLS)
        found = [dict(zip(CELLS, values, strict=True)) for values in zip(*columns, strict=True)]
        assert found == [*self.rows.values()]
        items = {entry.row: name for name, entry in self.ledger.items()}
        assert ds.query("SELECT _source")["_source"][:] == [items.get(row) for row in self.rows]
        if killed_after is None:
            assert {name: getattr(report, name) for name in counts} == counts
        self.is_made = True
        ds.close()

    def source(self, killed_after: int | None) -> Source[str]:
        names = sorted(self.items)
        loaded = itertools.count()

        def load(some: Sequence[str]) -> dict[str, Any]:
            for _ in some:
                if next(loaded) == killed_after:
                    raise Killed
            return {cell: [self.items[name][cell] for name in some] for cell in CELLS}

        return Source(
            kind="model",
            schema=dict.fromkeys(CELLS, "int64"),
            items=names,
            sizes=[1] * len(names),
            name=lambda name: name,
            stamp=self.stamps.__getitem__,
            load=load,
            content=("x",),
            where="here",
        )

    def expect(self, *, delete: bool, verify: bool, takes: bool) -> dict[str, int]:
        """Do to the dictionaries what the run did to the dataset; return the counts."""
        counts = dict.fromkeys(COUNTED, 0)
        gone = {name: entry for name, entry in self.ledger.items() if name not in self.items}
        for name in sorted(self.items):
            entry = self.ledger.get(name)
            if entry is not None and entry.row not in self.rows:
                if takes:
                    self.append(name)
                    counts["added"] += 1
            elif entry is not None:
                is_compared = verify or entry.stamp != self.stamps[name]
                outcome = self.bring(name, entry, takes=takes) if is_compared else "unchanged"
                if outcome in counts:
                    counts[outcome] += 1
            else:
                x = self.items[name]["x"]
                alike = [known for known, one in gone.items() if one.then["x"] == x]
                old = min(alike, key=lambda known: gone[known].row not in self.rows, default=None)
                is_there = old is not None and gone[old].row in self.rows
                if old is not None:
                    self.ledger[name] = gone.pop(old)
                    del self.ledger[old]
                if is_there:
                    counts["renamed"] += 1
                    self.bring(name, self.ledger[name], takes=takes)
                elif old is None or takes:
                    self.append(name)
                    counts["added"] += 1
                else:  # a row that a hand deleted stays deleted under another name
                    self.ledger[name].stamp = self.stamps[name]
        counts["vanished"] = sum(entry.row in self.rows for entry in gone.values())
        for name in [n for n in self.ledger if n not in self.items] if delete else ():
            entry = self.ledger[name]
            here = self.rows.get(entry.row)
            if here is None or (here == entry.then and not entry.conflicts) or takes:
                counts["deleted"] += self.rows.pop(entry.row, None) is not None
                del self.ledger[name]
        return counts

    def append(self, name: str) -> None:
        row = next(self.values)
        self.rows[row] = dict(self.items[name])
        self.ledger[name] = Entry(row, dict(self.items[name]), self.stamps[name])

    def bring(self, name: str, entry: Entry, *, takes: bool) -> str:
        """Bring a row to its item; say how it counts."""
        now, here, then = self.items[name], self.rows[entry.row], entry.then
        pending, entry.conflicts = entry.conflicts, set()
        entry.then, entry.stamp = dict(now), self.stamps[name]
        if now == then and not pending:
            return "unchanged"
        made = dict(here)
        for cell in CELLS:
            is_by_hand = here[cell] != then[cell] or cell in pending
            if here[cell] != now[cell] and (takes or not is_by_hand):
                made[cell] = now[cell]
            elif here[cell] != now[cell]:
                entry.conflicts.add(cell)
                entry.stamp = 0
        self.rows[entry.row] = made
        return "updated" if made != here else "kept"


Syncs.TestCase.settings = settings(
    max_examples=10,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestSyncs = Syncs.TestCase


@pytest.mark.soak
class TestSyncsAtLength(Syncs.TestCase):
    """The same, longer."""

    settings = settings(TestSyncs.settings, max_examples=150, stateful_step_count=40)
