"""ds.follow(): commits as they come."""

from __future__ import annotations

import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.history.follow import follow
from tensorlake.errors import InvalidInputError


def make(name: str) -> tl.Dataset:
    return tl.create(f"memory://{name}", {"x": "int64"})


def commit(ds: tl.Dataset, message: str) -> None:
    ds.append({"x": 1})
    ds.commit(message)


def test_commits_come_as_they_are_made_and_the_handle_stays():
    reader = make("follow-live")
    writer = tl.open("memory://follow-live")
    waits: list[float] = []

    def meanwhile(seconds: float) -> None:
        waits.append(seconds)
        commit(writer, f"commit {len(waits)}")

    commits = follow(session_of(reader), poll=3.0, sleep=meanwhile)

    assert [next(commits).message for _ in range(3)] == ["commit 1", "commit 2", "commit 3"]
    assert waits == [3.0, 3.0, 3.0]
    assert reader.version == "main@0"


def test_it_stops_when_nothing_came_for_the_time_given():
    ds = make("follow-quiet")
    times = iter(range(100))
    waits: list[float] = []

    found = follow(session_of(ds), timeout=3, sleep=waits.append, clock=lambda: float(next(times)))

    assert list(found) == []
    assert len(waits) == 2


def test_it_ends_with_the_branch():
    ds = make("follow-end")
    fix = ds.branch("fix")
    commit(fix.at("fix"), "last")
    ds.delete_branch("fix")

    assert [one.message for one in fix.follow()] == ["last"]


def test_an_impossible_pause_is_refused_at_once():
    with pytest.raises(InvalidInputError, match="poll"):
        make("follow-never").follow(poll=0)
