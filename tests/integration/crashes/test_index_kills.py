"""A process that stops while an index is built, brought up to date or dropped: the rows that a
query finds are those of a scan, and what was stopped can be done again.

The store dies before its n-th write, for every n; and SIGKILL reaches a process at the n-th time
that it turns to a file, spread over its whole run.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore, SimulatedCrash
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.indexers import SCHEMA, STEPS, content
from tests.support.indexers import index as index_all
from tests.support.writers import fork_server

POINTS = 8
PATIENCE_S = 120

Names = frozenset[str]


def begun() -> MemoryStore:
    store = MemoryStore()
    dataset = create_on(store, SCHEMA)
    dataset.extend(content(0))
    dataset.commit()
    return store


def run_from(store: FaultyStore, first: int) -> int:
    """Take steps until all are done, or the store dies; return how many were done."""
    for done in range(first, len(STEPS)):
        try:
            STEPS[done][0](open_on(store))
            wait_for_storage()
        except SimulatedCrash:
            return done
    return len(STEPS)


def writes_of_all() -> int:
    store = FaultyStore(begun())
    assert run_from(store, 0) == len(STEPS)
    return store.writes


def check_answers(dataset: tl.Dataset) -> Names:
    """Assert that every answer is a scan's, and that nothing is damaged; name the indexes."""
    numbers, words = dataset["n"][:], dataset["text"][:]
    vectors = dataset["vec"][:]
    expected: list[tuple[str, Callable[[], list[int]]]] = [
        ("WHERE n = 3", lambda: np.flatnonzero(numbers == 3).tolist()),
        (
            "WHERE MATCH(text, 'w7')",
            lambda: [at for at, one in enumerate(words) if "w7" in one.split()],
        ),
    ]
    for text, rows in expected:
        assert dataset.query(text).rows.tolist() == rows()
    nearest = dataset.search("vec", vectors[5], 1)
    assert np.array_equal(nearest["vec"][0], vectors[5])
    assert dataset.check().ok
    return frozenset(dataset.indexes)


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param(point, marks=[pytest.mark.slow] if point % 5 else [])
        for point in range(writes_of_all())
    ],
)
def test_a_stop_before_any_write_leaves_answers_right(writes: int) -> None:
    objects = begun()
    dying = FaultyStore(objects)
    dying.crash_after(writes)

    done = run_from(dying, 0)

    before = STEPS[done - 1][1] if done else frozenset[str]()
    after = STEPS[min(done, len(STEPS) - 1)][1]
    assert check_answers(open_on(objects)) in (before, after)
    again = open_on(objects)
    for name in again.indexes:
        again.drop_index(name)
    again.commit()
    again.create_index("n")
    again.commit()
    assert check_answers(again) == {"n"}
    assert again.indexes["n"].coverage == 1


def indexed(url: Path, killed_at: int | None = None) -> int | None:
    """Take all steps in a process of its own; return its turns to files, None if it was killed."""
    context = fork_server()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=index_all, args=(url, sender, killed_at))
    process.start()
    sender.close()
    process.join(PATIENCE_S)
    assert process.exitcode in {0, -signal.SIGKILL}, f"it ended with {process.exitcode}"
    return receiver.recv() if process.exitcode == 0 else None


@pytest.mark.slow
def test_a_killed_build_leaves_answers_right(tmp_path: Path) -> None:
    def begun_at(name: str) -> Path:
        url = tmp_path / name
        with tl.create(str(url), SCHEMA, durability="none") as ds:
            ds.extend(content(0))
            ds.commit()
        return url

    turns = indexed(begun_at("whole.tl"))
    assert turns is not None
    for point in range(1, POINTS + 1):
        url = begun_at(f"{point}.tl")

        assert indexed(url, turns * point // (POINTS + 1)) is None

        with tl.open(str(url)) as ds:
            check_answers(ds)
            for name in ds.indexes:
                ds.drop_index(name)
            ds.commit()
        assert indexed(url) is not None
        with tl.open(str(url)) as ds:
            assert check_answers(ds) == STEPS[-1][1]
