"""Processes that stop at any moment: what was committed is there whole, and nothing else is.

Inside one process the store dies before its n-th write, for every n; across processes, a real
SIGKILL at random moments of an ingestion.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import DatasetNotFoundError, NotFoundError
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore, SimulatedCrash
from tests.support.handles import create_on, open_on, rows_of, wait_for_storage
from tests.support.writers import ROWS_A_BATCH, SCHEMA, fork_server, ingest

ROUNDS = 10
WRITERS = 2
REPEATED = 2  # batches that each start commits once more, under the keys they have
AHEAD = 8  # batches that a writer may add before it stops, lest it always outrun the other
LONGEST_COMMIT_S = 0.02

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """One publishing act, and what main and its names are once it is done."""

    act: Callable[[FaultyStore], object]
    rows: Rows | None
    names: frozenset[str]
    half_way: Rows | None = None  # what another published on the way


def commit(change: Callable[[Dataset], object]) -> Callable[[FaultyStore], object]:
    def act(store: FaultyStore) -> None:
        dataset = open_on(store)
        change(dataset)
        dataset.commit()

    return act


def rows(*values: int) -> Rows:
    return [{"x": x, "s": f"row {x}"} for x in values]


def columns(*values: int) -> dict[str, list[Any]]:
    return {"x": [*values], "s": [f"row {x}" for x in values]}


def overtaken(store: FaultyStore) -> None:
    """A commit that another overtakes in the last moment, and that lands on top of it."""
    slow, fast = open_on(store), open_on(store)
    slow.extend(columns(20))
    slow["s"][0] = "seven"
    fast.delete(fast["x"][:] == MANY[0])
    store.before("put_if_absent", fast.commit, path="branches/main/")
    slow.commit()


def changed_schema(dataset: Dataset) -> None:
    dataset.rename_tensor("s", "t")
    dataset.add_tensor("extra", "int8", fill=0)
    dataset.drop_tensor("extra")
    dataset.rename_tensor("t", "s")


MANY = tuple(range(100, 170))
OVERTAKEN = [{"x": 7, "s": "seven"}, *rows(*MANY[1:], 9, 20)]

STEPS = [
    Step(lambda store: create_on(store, {"x": "int64", "s": "str"}), rows(), frozenset({"main"})),
    Step(commit(lambda ds: ds.extend(columns(1, 2, 3))), rows(1, 2, 3), frozenset({"main"})),
    Step(commit(lambda ds: ds.extend(columns(*MANY))), rows(1, 2, 3, *MANY), frozenset({"main"})),
    Step(
        commit(lambda ds: (ds["x"].__setitem__(1, 7), ds["s"].__setitem__(1, "row 7"))),
        rows(1, 7, 3, *MANY),
        frozenset({"main"}),
    ),
    Step(commit(lambda ds: ds.delete([0, 2])), rows(7, *MANY), frozenset({"main"})),
    Step(lambda store: open_on(store).branch("fix"), rows(7, *MANY), frozenset({"main", "fix"})),
    Step(lambda store: open_on(store).tag("v1"), rows(7, *MANY), frozenset({"main", "fix", "v1"})),
    Step(
        commit(lambda ds: ds.extend(columns(9))),
        rows(7, *MANY, 9),
        frozenset({"main", "fix", "v1"}),
    ),
    Step(overtaken, OVERTAKEN, frozenset({"main", "fix", "v1"}), rows(7, *MANY[1:], 9)),
    Step(
        commit(lambda ds: ds.upsert(columns(9, 21), on="x")),
        [*OVERTAKEN, *rows(21)],
        frozenset({"main", "fix", "v1"}),
    ),
    Step(commit(changed_schema), [*OVERTAKEN, *rows(21)], frozenset({"main", "fix", "v1"})),
]
NOTHING = Step(lambda store: None, None, frozenset())


def run_from(store: FaultyStore, first: int) -> int:
    """Take steps until all are done, or the store dies; return how many were done."""
    for done in range(first, len(STEPS)):
        try:
            STEPS[done].act(store)
            wait_for_storage()
        except SimulatedCrash:
            return done
    return len(STEPS)


def writes_of_the_scenario() -> int:
    store = FaultyStore(MemoryStore())
    assert run_from(store, 0) == len(STEPS)
    return store.writes


def main_rows(objects: MemoryStore) -> Rows | None:
    with suppress(NotFoundError):
        return rows_of(open_on(objects))
    return None


def names_of(objects: MemoryStore) -> frozenset[str]:
    """Versions that can be opened by a name."""
    found = set[str]()
    for name in ("main", "fix", "v1"):
        with suppress(NotFoundError):
            rows_of(open_on(objects, name))
            found.add(name)
    return frozenset(found)


@pytest.mark.parametrize("writes", range(writes_of_the_scenario()))
def test_a_stop_before_any_write_leaves_the_version_before_or_after(writes):
    """Tests 1-3: create, append, assign, delete, branch and tag are each all or nothing."""
    objects = MemoryStore()
    dying = FaultyStore(objects)
    dying.crash_after(writes)

    done = run_from(dying, 0)

    before, after = (STEPS[done - 1] if done else NOTHING), STEPS[min(done, len(STEPS) - 1)]
    assert main_rows(objects) in (before.rows, after.half_way or after.rows, after.rows)
    assert names_of(objects) in (before.names, after.names)


@pytest.mark.parametrize("writes", range(0, writes_of_the_scenario(), 3))
def test_what_was_stopped_can_be_done_again(writes):
    """A create or branch that died half-way is completed by who does it next."""
    objects = MemoryStore()
    dying = FaultyStore(objects)
    dying.crash_after(writes)
    done = run_from(dying, 0)
    seen = (main_rows(objects), names_of(objects))
    if done < len(STEPS) and seen == (STEPS[done].rows, STEPS[done].names):
        done += 1  # it had landed

    assert run_from(FaultyStore(objects), done) == len(STEPS)

    assert main_rows(objects) == STEPS[-1].rows
    assert names_of(objects) == STEPS[-1].names


def test_a_creation_that_died_is_reported_by_open_and_completed_by_create(tmp_path):
    folder = tmp_path / "pets"
    tl.create(str(folder), {"x": "int64"}).close()
    wait_for_storage()
    for path in (folder / "branches").rglob("*.json"):
        path.unlink()
    (folder / "branches" / "main" / "HEAD").unlink()

    with pytest.raises(DatasetNotFoundError, match="create"):
        tl.open(str(folder))

    assert len(tl.create(str(folder), {"x": "int64"})) == 0
    assert len(tl.open(str(folder))) == 0


def check_rows(url: Path, acknowledged: dict[int, int]) -> dict[int, int]:
    """Assert that each writer's rows are there once and in order; count its batches."""
    dataset = tl.open(str(url))
    writer, n = dataset["writer"][:], dataset["n"][:]
    text, pixels = dataset["text"][:], dataset["pixels"][:]
    assert text == [f"row {one}" for one in n.tolist()]
    assert (pixels == (n % 256).reshape(-1, 1, 1)).all()
    found: dict[int, int] = {}
    for one, last in acknowledged.items():
        mine = n[writer == one].tolist()
        assert mine == list(range(len(mine)))
        assert len(mine) % ROWS_A_BATCH == 0
        found[one] = len(mine) // ROWS_A_BATCH
        assert found[one] > last
    return found


@pytest.mark.slow
def test_kills_of_two_ingestions_lose_no_acknowledged_commit_and_double_no_row(tmp_path):
    """Test 29: SIGKILL some commits on, wherever the next is; running on completes.

    How far a writer came is heard, not timed, so that a slow machine kills too.
    """
    url = tmp_path / "lake"
    tl.create(str(url), SCHEMA).close()
    context = fork_server()
    rng = random.Random(29)
    acknowledged = dict.fromkeys(range(WRITERS), -1)
    kills = 0

    def start(writer: int, batches: int):
        receiver, sender = context.Pipe(duplex=False)
        first = max(0, acknowledged[writer] - REPEATED)
        process = context.Process(
            target=ingest,
            args=(str(url), writer, batches, sender),
            kwargs={"first": first},
            daemon=True,
        )
        process.start()
        sender.close()
        return process, receiver

    def hear(writer: int, receiver) -> None:
        acknowledged[writer] = max(acknowledged[writer], receiver.recv())

    def hear_the_last(writer: int, receiver) -> None:
        with suppress(EOFError):
            while True:
                hear(writer, receiver)
        receiver.close()

    for _ in range(ROUNDS):
        running = {one: start(one, last + 1 + AHEAD) for one, last in acknowledged.items()}
        for writer, (process, receiver) in running.items():
            for _ in range(rng.randint(1, AHEAD)):
                assert receiver.poll(120)
                hear(writer, receiver)
            process.join(rng.uniform(0, LONGEST_COMMIT_S))
            process.kill()
        for writer, (process, receiver) in running.items():
            process.join(60)
            kills += process.exitcode == -9
            hear_the_last(writer, receiver)
        check_rows(url, acknowledged)

    assert kills > 0
    end = max(acknowledged.values()) + 3
    for writer in range(WRITERS):
        process, receiver = start(writer, end)
        hear_the_last(writer, receiver)
        process.join(60)
        assert process.exitcode == 0

    assert check_rows(url, acknowledged) == dict.fromkeys(range(WRITERS), end)
