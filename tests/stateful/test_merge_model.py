"""Three branches that append, update, delete, grow and merge, against dictionaries.

Rows are known by a number of their own, kept in a tensor nobody updates. The oracle knows nothing
of version vectors or physical rows: it remembers the content of every commit and which commits each
contains, finds the merge bases in that graph, and merges cell by cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on

Rows = dict[int, dict[str, object]]
NAMES = ["cat", "dog", "emu", "owl", "yak"]
BRANCHES = ("main", "left", "right")


@dataclass(frozen=True)
class Known:
    """A commit as the oracle remembers it."""

    number: int
    rows: Rows
    tensors: Mapping[str, object]  # name → fill
    contains: frozenset[int]


class Merging(RuleBasedStateMachine):
    """Handles on three branches, and what each of their commits holds."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()
        self.uids = itertools.count()
        self.handles: dict[str, Dataset] = {}
        self.heads: dict[str, Known] = {}
        self.known: dict[int, Known] = {}

    @initialize()
    def begin(self) -> None:
        ds = create_on(
            MemoryStore(), {"uid": "int64", "x": "int64", "label": tl.ClassLabel(NAMES[:2])}
        )
        self.handles["main"] = ds
        rows: Rows = {}
        for _ in range(6):
            self._append(ds, rows, 0, "cat")
        ds.commit("six")
        self._remember("main", rows, {})
        for name in BRANCHES[1:]:
            self.handles[name] = ds.branch(name)
            self._remember(name, rows, {}, self.heads["main"].contains)

    @rule(
        branch=st.sampled_from(BRANCHES),
        values=st.lists(st.integers(0, 3), min_size=1, max_size=3),
        name=st.sampled_from(NAMES),
    )
    def append(self, branch: str, values: list[int], name: str) -> None:
        """Rows at the end; a class that is new to the branch is added."""
        ds, rows = self.handles[branch], self._copy(branch)
        self._know_class(ds, name)
        for value in values:
            self._append(ds, rows, value, name)
        self._commit(branch, rows)

    @rule(
        branch=st.sampled_from(BRANCHES),
        which=st.integers(0, 20),
        value=st.integers(0, 3),
        tensor=st.integers(0, 9),
        name=st.sampled_from(NAMES),
    )
    def update(self, branch: str, which: int, value: int, tensor: int, name: str) -> None:
        """One cell of any tensor, maybe to the value it has."""
        ds, rows = self.handles[branch], self._copy(branch)
        if not rows:
            return
        row = which % len(rows)
        columns = ["x", "label", *self.heads[branch].tensors]
        column = columns[tensor % len(columns)]
        uid = list(rows)[row]
        if column == "label":
            self._know_class(ds, name)
        ds[column][row] = rows[uid][column] = name if column == "label" else value
        self._commit(branch, rows)

    @rule(branch=st.sampled_from(BRANCHES), which=st.integers(0, 20))
    def delete(self, branch: str, which: int) -> None:
        """One row."""
        ds, rows = self.handles[branch], self._copy(branch)
        if rows:
            ds.delete([which % len(rows)])
            del rows[list(rows)[which % len(rows)]]
            self._commit(branch, rows)

    @rule(branch=st.sampled_from(BRANCHES), fill=st.integers(0, 3))
    @precondition(lambda self: sum(len(known.tensors) for known in self.heads.values()) < 9)
    def add_tensor(self, branch: str, fill: int) -> None:
        """A tensor under a name of its own, every row with its fill."""
        ds, rows = self.handles[branch], self._copy(branch)
        name = f"extra{next(self.numbers)}"
        ds.add_tensor(name, "int64", fill=fill)
        for cells in rows.values():
            cells[name] = fill
        self._commit(branch, rows, {**self.heads[branch].tensors, name: fill})

    @rule(branch=st.sampled_from(BRANCHES), which=st.integers(0, 9))
    def drop_tensor(self, branch: str, which: int) -> None:
        """One of the added tensors."""
        ds, rows, tensors = self.handles[branch], self._copy(branch), self.heads[branch].tensors
        if tensors:
            name = list(tensors)[which % len(tensors)]
            ds.drop_tensor(name)
            for cells in rows.values():
                del cells[name]
            self._commit(branch, rows, {one: tensors[one] for one in tensors if one != name})

    @rule(
        into=st.sampled_from(BRANCHES),
        other=st.sampled_from(BRANCHES),
        prefer=st.sampled_from(["ours", "theirs"]),
    )
    def merge(self, into: str, other: str, prefer: str) -> None:
        """Either way; refused exactly where both changed the same."""
        ds, ours, theirs = self.handles[into], self.heads[into], self.heads[other]
        if theirs.contains <= ours.contains:
            assert ds.merge(other).how == "nothing"
            return
        bases = self._bases(ours, theirs)
        expected, disputed = _merged(bases, ours, theirs, prefer)
        tensors = _kept(bases, ours, theirs, prefer, disputed)
        expected = {
            uid: {name: cells[name] for name in cells if name in ("x", "label", *tensors)}
            for uid, cells in expected.items()
        }
        if ours.contains <= theirs.contains:
            assert ds.merge(other).how == "fast-forward"
            expected, tensors = theirs.rows, theirs.tensors
        elif not disputed:
            ds.merge(other)
        else:
            try:
                ds.merge(other)
            except ConflictError:
                ds.merge(other, on_conflict=prefer)
            else:
                raise AssertionError(f"no conflict, but both changed {disputed}")
        both = ours.contains | theirs.contains
        self._remember(into, expected, tensors, both)

    @invariant()
    def every_branch_reads_as_remembered(self) -> None:
        for branch, known in self.heads.items():
            ds = self.handles[branch]
            uids = ds["uid"][:].tolist()
            assert uids == list(known.rows)
            label = ds["label"]
            columns = {name: ds[name][:].tolist() for name in ("x", *known.tensors)}
            columns["label"] = [label.names[code] for code in label[:]]
            found = {
                uid: {name: column[at] for name, column in columns.items()}
                for at, uid in enumerate(uids)
            }
            assert found == known.rows

    def teardown(self) -> None:
        """Whoever opens a branch again sees the same, and nothing that is stored contradicts it."""
        for branch, known in self.heads.items():
            again = self.handles[branch].at(branch)
            assert again["uid"][:].tolist() == list(known.rows)
        report = self.handles["main"].check()
        assert report.ok, report

    def _append(self, ds: Dataset, rows: Rows, value: int, name: str) -> None:
        uid = next(self.uids)
        head = self.heads.get("main")
        branch = next((one for one, handle in self.handles.items() if handle is ds), "main")
        tensors = {} if head is None else self.heads[branch].tensors
        cells: dict[str, object] = {"x": value, "label": name, **dict.fromkeys(tensors, value)}
        ds.append({"uid": uid, **cells})
        rows[uid] = cells

    def _know_class(self, ds: Dataset, name: str) -> None:
        if name not in ds["label"].names:
            ds["label"].add_names([name])

    def _copy(self, branch: str) -> Rows:
        return {uid: dict(cells) for uid, cells in self.heads[branch].rows.items()}

    def _commit(self, branch: str, rows: Rows, tensors: Mapping[str, object] | None = None) -> None:
        self.handles[branch].commit("change")
        head = self.heads[branch]
        self._remember(branch, rows, head.tensors if tensors is None else tensors, head.contains)

    def _remember(
        self,
        branch: str,
        rows: Rows,
        tensors: Mapping[str, object],
        contains: frozenset[int] = frozenset(),
    ) -> None:
        number = next(self.numbers)
        self.heads[branch] = self.known[number] = Known(number, rows, tensors, contains | {number})

    def _bases(self, ours: Known, theirs: Known) -> list[Known]:
        """Common commits that no other common commit contains, newest first."""
        common = ours.contains & theirs.contains
        newest = [
            number
            for number in common
            if not any(number in self.known[other].contains for other in common - {number})
        ]
        return [self.known[number] for number in sorted(newest, reverse=True)]


def _merged(
    bases: list[Known], ours: Known, theirs: Known, prefer: str
) -> tuple[Rows, list[object]]:
    """Merge by the rules of docs/reference/format.md; also what both changed."""
    disputed: list[object] = []
    result: Rows = {}
    back: Rows = {}
    for uid in ours.rows:
        base = next((known.rows[uid] for known in bases if uid in known.rows), None)
        mine, other = ours.rows[uid], theirs.rows.get(uid)
        if other is not None:
            result[uid] = _cells(uid, bases, (ours, theirs), prefer, disputed)
        elif base is None:
            result[uid] = {**theirs.tensors, **mine}
        elif _differ(base, mine):
            disputed.append(uid)
            if prefer == "ours":
                result[uid] = {**theirs.tensors, **mine}
    for uid, other in theirs.rows.items():
        if uid in ours.rows:
            continue
        base = next((known.rows[uid] for known in bases if uid in known.rows), None)
        if base is None:
            back[uid] = {**ours.tensors, **other}
        elif _differ(base, other):
            disputed.append(uid)
            if prefer == "theirs":
                back[uid] = {**ours.tensors, **other}
    return result | back, disputed


def _differ(base: Mapping[str, object], cells: Mapping[str, object]) -> bool:
    return any(name in cells and cells[name] != value for name, value in base.items())


def _kept(
    bases: list[Known], ours: Known, theirs: Known, prefer: str, disputed: list[object]
) -> dict[str, object]:
    """Tensors of the result: one that a side dropped goes, unless the other wrote to it."""
    kept: dict[str, object] = {}
    for name, fill in {**ours.tensors, **theirs.tensors}.items():
        sides = [side for side in (ours, theirs) if name in side.tensors]
        was_there = any(name in base.tensors for base in bases)
        if len(sides) == 1 and was_there:
            if not _wrote(bases, sides[0], name):
                continue
            disputed.append(name)
            if (prefer == "ours") is not (sides[0] is ours):
                continue
        kept[name] = fill
    return kept


def _wrote(bases: list[Known], side: Known, name: str) -> bool:
    for uid, cells in side.rows.items():
        base = next((known.rows[uid] for known in bases if uid in known.rows), None)
        if base is None or (name in base and base[name] != cells[name]):
            return True
    return False


def _cells(
    uid: int, bases: list[Known], sides: tuple[Known, Known], prefer: str, disputed: list[object]
) -> dict[str, object]:
    mine, other = (side.rows[uid] for side in sides)
    befores = [known.rows[uid] for known in bases if uid in known.rows]
    found: dict[str, object] = {}
    for name in {**mine, **other}:
        if name not in mine or name not in other:
            found[name] = mine[name] if name in mine else other[name]
            continue
        x, y = mine[name], other[name]
        values = [before[name] for before in befores if name in before]
        is_crossed = any(value != values[0] for value in values)
        if x == y:
            found[name] = x
        elif values and not is_crossed and x == values[0]:
            found[name] = y
        elif values and not is_crossed and y == values[0]:
            found[name] = x
        else:
            disputed.append((uid, name))
            found[name] = x if prefer == "ours" else y
    return found


TestMerging = Merging.TestCase
TestMerging.settings = settings(
    max_examples=10,
    stateful_step_count=16,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.soak
class TestMergingAtLength(Merging.TestCase):
    """The same, longer."""

    settings = settings(TestMerging.settings, max_examples=200, stateful_step_count=40)
