"""Freshness of computed columns against a model, whatever happened to the dataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import unchanged_rows
from tensorlake.indexes import within
from tensorlake.storage import MemoryStore, runtime
from tests.support.examples import examples
from tests.support.handles import create_on

BY_HAND = -1
_numbers = itertools.count()


@dataclass(frozen=True)
class Cell:
    """A row of the model: its inputs, and what its computed value was made from.

    ``is_restored``: a revert stored a value again, which is another cell of equal value.
    """

    x: int
    t: str
    y: int | None = None
    made: tuple[int, str, str] | None = None
    is_restored: bool = False


@dataclass
class Model:
    """The rows of a branch, by uid, and the version of the function."""

    rows: dict[int, Cell] = field(default_factory=dict[int, Cell])
    version: str = "1"

    def copy(self) -> Model:
        return Model(dict(self.rows), self.version)

    def fresh(self) -> set[int]:
        return {
            uid
            for uid, cell in self.rows.items()
            if cell.made == (cell.x, cell.t, self.version) and cell.y != BY_HAND
        }


def value(x: int, t: str) -> int:
    return 1000 * x + len(t)


def computed(row: dict[str, Any]) -> int:
    return 1000 * row["x"] + len(row["t"])


def following(row: dict[str, Any]) -> int | None:
    return None if row["y"] is None else row["y"] + 1


class History:
    """Does the same to a dataset and to the model."""

    def __init__(self) -> None:
        store = MemoryStore(f"computed-history-{next(_numbers)}")
        types = {"uid": "int64", "x": "int64", "t": "str"}
        self.ds: Dataset = create_on(store, types)
        self.model = Model()
        self.uids = itertools.count()
        self.values = itertools.count(1)
        self.append(6, 0)
        self.ds.add_tensor("y", "int64", compute=computed, inputs=["x", "t"])
        self.ds.add_tensor("z", "int64", compute=following, inputs=["y"])
        self.ds.commit("declared")

    def append(self, count: int, _: int) -> None:
        for _row in range(1 + count % 4):
            uid, x = next(self.uids), next(self.values)
            self.ds.append({"uid": uid, "x": x, "t": "a" * (x % 7)})
            self.model.rows[uid] = Cell(x, "a" * (x % 7))

    def update(self, which: int, parity: int) -> None:
        for uid in self.chosen(which, parity):
            x = next(self.values)
            self.ds["x"][self.row(uid)] = x
            self.model.rows[uid] = replace(self.model.rows[uid], x=x)

    def update_text(self, which: int, parity: int) -> None:
        for uid in self.chosen(which, parity):
            t = "b" * next(self.values)
            self.ds["t"][self.row(uid)] = t
            self.model.rows[uid] = replace(self.model.rows[uid], t=t)

    def assign(self, which: int, parity: int) -> None:
        for uid in self.chosen(which, parity)[:1]:
            self.ds["y"][self.row(uid)] = BY_HAND
            self.model.rows[uid] = replace(self.model.rows[uid], y=BY_HAND, made=None)

    def delete(self, which: int, parity: int) -> None:
        for uid in self.chosen(which, parity)[:1]:
            self.ds.delete([self.row(uid)])
            del self.model.rows[uid]

    def refresh(self, which: int, _: int) -> None:
        where = None if which % 2 else f"uid % 3 = {which % 3}"
        self.ds.refresh_columns(where=where)
        for uid, cell in self.model.rows.items():
            if where is None or uid % 3 == which % 3:
                made = cell.x, cell.t, self.model.version
                self.model.rows[uid] = replace(
                    cell, y=value(cell.x, cell.t), made=made, is_restored=False
                )

    def change_code(self, _: int, parity: int) -> None:
        if parity == 0:  # of two branches, one changes it
            self.model.version += "1"
            self.ds.alter_tensor("y", version=self.model.version)

    def commit(self, _: int, __: int) -> None:
        self.ds.commit("a step")

    def revert(self, _: int, __: int) -> None:
        """Change rows in one commit, and revert that."""
        if not self.chosen(5, 0):
            return  # there would be nothing to revert
        self.ds.commit("before")
        before = self.model.copy()
        self.update(5, 0)
        commit = self.ds.commit("to be reverted")
        self.ds.revert(commit.version)
        for uid, cell in before.rows.items():
            if cell != self.model.rows[uid]:
                before.rows[uid] = replace(cell, is_restored=True)
        self.model = before

    def optimize(self, which: int, _: int) -> None:
        self.ds.commit("before")
        self.ds.optimize(order_by="x DESC" if which % 2 else None)

    def chosen(self, which: int, parity: int) -> list[int]:
        return [uid for uid in self.model.rows if (uid >> 1) % 4 == which % 4 and uid % 2 == parity]

    def row(self, uid: int) -> int:
        return list(self.ds["uid"][:]).index(uid)

    def merge(self, ours: list[Step], theirs: list[Step]) -> None:
        """Do steps on two branches, to other rows, and merge them."""
        self.ds.commit("the base")
        base, main = self.model.copy(), self.ds
        other = main.branch(f"b{next(self.values)}")
        self.run(ours, 0)
        main.commit("ours")
        mine, self.model, self.ds = self.model, base.copy(), other
        self.run(theirs, 1)
        other.commit("theirs")
        main.merge(other.__session__.branch)
        self.model, self.ds = merged(base, mine, self.model), main

    def run(self, steps: list[Step], parity: int) -> None:
        for name, which in steps:
            step: Callable[[int, int], None] = getattr(self, name)
            step(which, parity)

    def noted(self) -> int:
        """Compare what commits noted with the trees; return how many comparisons there are."""
        snapshot = session_of(self.ds).committed
        shown = snapshot.physical(np.arange(snapshot.num_rows))
        count = 0
        for group in snapshot.state.groups.values():
            for id_, one in group.covers.items():
                now = snapshot.state.roots[id_]
                if one.compared is not None and one.compared.is_of(one.state, now):
                    pages, spec = snapshot.packs.pages, snapshot.schema.by_id(id_)
                    if one.is_read_as(spec.to_json()):
                        rows = runtime.run(one.rows(spec.to_json(), now, pages))
                        same = runtime.run(unchanged_rows(one.state, now, pages))
                        assert within(rows, shown).tolist() == within(same, shown).tolist()
                    count += 1
        return count

    def check(self) -> None:
        """Compare the rows that are fresh, and the values of all."""
        self.noted()
        ds, rows = self.ds, self.model.rows
        uids = ds["uid"][:].tolist()
        assert sorted(uids) == sorted(rows)
        found = {uids[row] for row in range(len(ds))} - {uids[row] for row in ds.stale("y").rows}
        known = self.model.fresh()
        restored = {uid for uid, cell in rows.items() if cell.is_restored}
        assert found <= known
        assert known - restored <= found
        queried = {uids[row] for row in ds.query("WHERE FRESH(y)").rows}
        assert queried == found
        y, z = ds["y"].to_list(), ds["z"].to_list()
        late = {uids[row] for row in ds.stale("z").rows}
        for at, uid in enumerate(uids):
            cell = rows[uid]
            if uid in found:
                assert y[at] == value(cell.x, cell.t)
            if uid not in late:
                assert uid in found
                assert z[at] == y[at] + 1


def merged(base: Model, ours: Model, theirs: Model) -> Model:
    """Combine cells as a merge does: a computed one stays ours' where both have another."""
    rows: dict[int, Cell] = {}
    for uid in {*ours.rows, *theirs.rows}:
        mine, other, old = ours.rows.get(uid), theirs.rows.get(uid), base.rows.get(uid)
        if mine is None or other is None:
            kept = mine or other
            if old is None and kept is not None:
                rows[uid] = kept
            elif old is not None and kept is not None and (kept.x, kept.t) != (old.x, old.t):
                rows[uid] = kept  # changed on one side: the row stays
            continue
        if old is None:
            continue
        x = other.x if mine.x == old.x else mine.x
        t = other.t if mine.t == old.t else mine.t
        y, made = (other.y, other.made) if mine.y == old.y else (mine.y, mine.made)
        if mine.y == other.y and mine.made != other.made:
            version = ours.version if theirs.version == base.version else theirs.version
            made = next((one for one in (mine.made, other.made) if one == (x, t, version)), made)
        is_restored = mine.is_restored or other.is_restored
        rows[uid] = Cell(x, t, y, made, is_restored)
    version = ours.version if theirs.version == base.version else theirs.version
    return Model(rows, version)


Step = tuple[str, int]

EDITS = ["append", "update", "update_text", "assign", "refresh", "change_code", "commit"]
ALONE = [*EDITS, "delete", "revert", "optimize"]


def steps(names: list[str], most: int) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), max_size=most)


def parts() -> Iterator[Any]:
    yield steps(ALONE, 6)
    yield st.tuples(steps(EDITS, 4), steps(EDITS, 4))
    yield steps(ALONE, 3)


@examples(12)
@given(*parts())
def test_fresh_rows_are_those_whose_inputs_are_as_they_were(
    before: list[Step], branches: tuple[list[Step], list[Step]], after: list[Step]
) -> None:
    history = History()

    history.run(before, 0)
    history.check()
    history.merge(*branches)
    history.check()
    history.run(after, 0)
    history.check()

    history.append(0, 0)
    history.ds.refresh_columns()
    history.ds.commit("all of it")
    assert len(history.ds.stale("y")) == len(history.ds.stale("z")) == 0
    assert history.noted() == 5
    history.ds.close()
