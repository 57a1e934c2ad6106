"""Real processes that append and update at once: exactly once, nothing lost, conflicts reported.

Format.md 7, 8 and 29. All writers add words to one shared journal, so a lost update would show as a
missing word; each also appends rows and marks a row of its own, which never conflict.
"""

import random
from collections.abc import Generator
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.testing import s3_server
from tests.support.upkeepers import optimize_and_collect
from tests.support.writers import (
    ROWS_A_BATCH,
    SCHEMA,
    append_and_update,
    append_rows,
    fork_server,
    ingest,
    merge_branches,
    upsert_keys,
)

FEW, MANY = 8, 32
KILLS = 200
WRITERS = 2
BATCHES = 600
UPDATING, BRANCHING, COLLECTING = 6, 3, 2
MIXED_COMMITS = 12
MIXED_PATIENCE_S = 1500


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path) -> Generator[tuple[str, dict[str, str]]]:
    if request.param == "folder":
        yield str(tmp_path / "lake"), {}
        return
    with s3_server() as server:
        yield server.fresh_url(), server.storage_options


def start_all(place: tuple[str, dict[str, str]], writers: int, commits: int) -> list[int]:
    """Let writers run to their end; how often each was contested."""
    url, options = place
    schema = {"writer": "int64", "n": "int64", "journal": "str"}
    dataset = tl.create(url, schema, storage_options=options)
    count = writers + 1
    dataset.extend(
        {"writer": np.full(count, -1), "n": np.zeros(count, int), "journal": [""] * count}
    )
    dataset.commit("a journal, and a row for each writer")
    dataset.close()
    context = fork_server()
    pipes = [context.Pipe(duplex=False) for _ in range(writers)]
    processes = [
        context.Process(target=append_and_update, args=(url, options, writer, commits, told))
        for writer, (_, told) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for _, told in pipes:
        told.close()
    for process in processes:
        process.join(500)
    assert [process.exitcode for process in processes] == [0] * writers
    return [heard.recv() for heard, _ in pipes]


def check(place: tuple[str, dict[str, str]], writers: int, commits: int) -> None:
    url, options = place
    dataset = tl.open(url, storage_options=options)
    writer, n = dataset["writer"][:], dataset["n"][:]
    words = dataset["journal"][0].split()
    assert sorted(words) == sorted(f"{one}:{n}" for one in range(writers) for n in range(commits))
    assert n[1 : writers + 1].tolist() == [commits] * writers
    for one in range(writers):
        assert n[writer == one].tolist() == list(range(commits))
    assert len(dataset) == 1 + writers + writers * commits
    assert dataset.version == f"main@{1 + writers * commits}"


@pytest.mark.slow
def test_eight_processes_that_append_and_update_lose_nothing(place):
    contested = start_all(place, FEW, 2)

    check(place, FEW, 2)
    assert len(contested) == FEW


def test_processes_that_upsert_the_same_new_keys_at_once_leave_each_key_once(tmp_path):
    """D3: what is read by an upsert, the keys, is read again when another was faster."""
    url = str(tmp_path / "lake")
    tl.create(url, {"id": "int64", "by": "int64"}).close()
    context = fork_server()
    rounds, writers = 3, 3

    processes = [
        context.Process(target=upsert_keys, args=(url, writer, rounds)) for writer in range(writers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)

    assert [process.exitcode for process in processes] == [0] * writers
    shared = [key for number in range(rounds) for key in (number * 10, number * 10 + 1)]
    own = [1000 * (writer + 1) + number for writer in range(writers) for number in range(rounds)]
    dataset = tl.open(url)
    assert sorted(dataset["id"][:].tolist()) == sorted(shared + own)
    assert dataset.check().ok


@pytest.mark.soak
def test_thirty_two_processes_that_append_and_update_lose_nothing(place):
    start_all(place, MANY, 10)

    check(place, MANY, 10)


@pytest.mark.soak
def test_two_hundred_kills_lose_no_acknowledged_commit_and_double_no_row(place):
    """Test 29, on a folder and over HTTP: SIGKILL at random moments of two ingestions."""
    url, options = place
    tl.create(url, SCHEMA, storage_options=options).close()
    context = fork_server()
    rng = random.Random(29)
    acknowledged = dict.fromkeys(range(WRITERS), -1)
    kills = 0

    while kills < KILLS:
        running = []
        for writer in range(WRITERS):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=ingest, args=(url, writer, BATCHES, sender, options))
            process.start()
            sender.close()
            running.append((writer, process, receiver))
        for _, process, receiver in running:
            assert receiver.poll(60)
            process.join(rng.uniform(0, 0.4))
            process.kill()
        for writer, process, receiver in running:
            process.join(60)
            kills += process.exitcode == -9
            with suppress(EOFError):
                while True:
                    acknowledged[writer] = max(acknowledged[writer], receiver.recv())
            receiver.close()
        dataset = tl.open(url, storage_options=options)
        seen_writer, n = dataset["writer"][:], dataset["n"][:]
        for writer, last in acknowledged.items():
            mine = n[seen_writer == writer].tolist()
            assert mine == list(range(len(mine)))
            assert len(mine) % ROWS_A_BATCH == 0
            assert len(mine) // ROWS_A_BATCH > last
        if all(last == BATCHES - 1 for last in acknowledged.values()):
            break

    assert tl.open(url, storage_options=options).check().ok


@pytest.mark.soak
def test_processes_that_append_update_merge_optimize_and_collect_lose_nothing(place):
    """Each row says who wrote it, and which of that writer's rows it is; tests 7, 8, 11 and 13."""
    url, options = place
    schema = {"writer": "int64", "n": "int64", "journal": tl.Text(default="")}
    count = UPDATING + 1
    with tl.create(url, schema, storage_options=options) as dataset:
        dataset.extend({"writer": np.full(count, -1), "n": np.zeros(count, int)})
        dataset.commit("a journal, and a row for each writer")
        for number in range(BRANCHING):
            dataset.branch(f"side-{number}")
    context = fork_server()
    pipes = [context.Pipe(duplex=False) for _ in range(UPDATING)]
    work = [
        *(partial(append_and_update, url, options, one, MIXED_COMMITS, pipes[one][1])
          for one in range(UPDATING)),
        *(partial(append_rows, url, options, 100 + one, MIXED_COMMITS, f"side-{one}")
          for one in range(BRANCHING)),
        *(partial(merge_branches, url, "main", f"side-{one}", MIXED_COMMITS, options)
          for one in range(BRANCHING)),
        *[partial(optimize_and_collect, url, options)] * COLLECTING,
    ]  # fmt: skip

    processes = [context.Process(target=one) for one in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join(MIXED_PATIENCE_S)

    assert [process.exitcode for process in processes] == [0] * len(work)
    with tl.open(url, storage_options=options) as dataset:
        for number in range(BRANCHING):
            dataset.merge(f"side-{number}")
        writer, n = dataset["writer"][:], dataset["n"][:]
        words = sorted(word for text in dataset["journal"][:] for word in text.split())
        assert words == sorted(
            f"{one}:{at}" for one in range(UPDATING) for at in range(MIXED_COMMITS)
        )
        assert sorted(n[writer == -1].tolist()) == [0, *[MIXED_COMMITS] * UPDATING]
        for one in (*range(UPDATING), *range(100, 100 + BRANCHING)):
            assert n[writer == one].tolist() == list(range(MIXED_COMMITS))
        assert dataset.check().ok
