"""``map(to=)`` as a sync, against a dictionary of what each row was mapped to.

Between calls, rows are added, edited, hidden by the condition, shown again and deleted; versions
expire. Some calls are killed after a few rows, and made again. After each, the new dataset has the
outputs, and the report the counts, that a plain dictionary says.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import tensorlake as tl
from tensorlake.dataset.transform.map import dataset as map_to

numbers = itertools.count()


class Killed(BaseException):
    """The end of a call."""


def outputs(x: int, times: int) -> list[int]:
    return [x * 10 + at for at in range(times)]


class Maps(RuleBasedStateMachine):
    """Rows, and what the new dataset must have for each: of some of them from former times."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"memory://map-model-{next(numbers)}"
        self.ds = tl.create(self.url, {"x": "int64", "times": "int64", "shown": "bool"})
        self.ds.commit("made")
        self.values = itertools.count(1)
        self.rows: dict[str, tuple[int, int, bool]] = {}  # by row id, in order
        self.mapped: dict[str, tuple[int, int]] = {}
        self.is_to = False

    def commit(self) -> None:
        self.ds.commit("changed")
        table = self.ds.to_arrow().to_pylist()
        values = [(one["x"], one["times"], one["shown"]) for one in table]
        self.rows = dict(zip(self.ds[:].row_ids, values, strict=True))

    @rule(times=st.lists(st.integers(0, 3), min_size=1, max_size=6))
    def add(self, times: list[int]) -> None:
        shown = np.array([one != 3 for one in times])
        self.ds.extend({"x": [next(self.values) for _ in times], "times": times, "shown": shown})
        self.commit()

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), column=st.sampled_from(["x", "times", "shown"]))
    def edit(self, data: Any, column: str) -> None:
        row = data.draw(st.integers(0, len(self.rows) - 1))
        x, times, shown = [*self.rows.values()][row]
        changed = {"x": x + data.draw(st.integers(0, 1)), "times": (times + 1) % 3}
        self.ds[column][row] = {**changed, "shown": not shown}[column]
        self.commit()

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        self.ds.delete([data.draw(st.integers(0, len(self.rows) - 1))])
        self.commit()

    @rule()
    def expire(self) -> None:
        self.ds.expire(keep_last=1)

    @precondition(lambda self: self.rows)
    @rule(kill_at=st.none() | st.integers(0, 8), delete=st.booleans())
    def map(self, kill_at: int | None, *, delete: bool) -> None:
        source = {id_: (x, times) for id_, (x, times, shown) in self.rows.items() if shown}
        if not delete and self.mapped and source and not source.keys() & self.mapped.keys():
            return  # refused: none of them is known
        new = [id_ for id_ in source if id_ not in self.mapped]
        changed = [id_ for id_ in source if self.mapped.get(id_, source[id_]) != source[id_]]
        gone = [id_ for id_, (_, times) in self.mapped.items() if id_ not in source and times]
        if kill_at is not None:
            # What it committed counts: of these rows, in order, whole groups of two.
            todo = [id_ for id_ in source if id_ in {*new, *changed}]
            with suppress(Killed):
                self.call(kill_at, delete=delete)
            if kill_at < len(todo):
                done = todo[: kill_at // 2 * 2]
                self.mapped |= {id_: source[id_] for id_ in done}
                new = [id_ for id_ in new if id_ not in done]
                changed = [id_ for id_ in changed if id_ not in done]
            else:
                new, changed, gone = [], [], [] if delete else gone
        report = self.call(None, delete=delete)
        self.mapped |= source
        if delete:
            self.mapped = {id_: one for id_, one in self.mapped.items() if id_ in source}

        expected = [one for pair in self.mapped.values() for one in outputs(*pair)]
        with tl.open(f"{self.url}-to") as made:
            assert sorted(made["y"][:].tolist()) == sorted(expected)
        assert report.rows == len(new) + len(changed)
        assert report.updated == len(changed)
        assert report.vanished == len(gone)
        assert report.already_there == len(source) - len(new) - len(changed)
        assert not report.conflicts

    def call(self, kill_at: int | None, *, delete: bool) -> Any:
        calls = itertools.count()

        def function(row: Any) -> Any:
            if next(calls) == kill_at:
                raise Killed
            return [{"y": one} for one in outputs(int(row["x"]), int(row["times"]))]

        with self.ds.map(
            function,
            columns=["x", "times"],
            where="shown",
            schema={"y": "int64"},
            to=f"{self.url}-to",
            workers=1,
            delete=delete,
        ) as made:
            return made.map_report


TestMaps = Maps.TestCase
TestMaps.settings = settings(
    max_examples=15,
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType] - an enum of theirs
)


@pytest.fixture(autouse=True)
def _small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_to, "COMMIT_ROWS", 2)
