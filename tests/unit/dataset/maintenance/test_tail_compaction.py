"""Small chunks do not pile up: a handle compacts the tail of its branch after every 64th commit."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.remote.write_session import begin_work
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tests.support.handles import create_on, open_on, reopened, wait_for_storage

COMMITS = 64
TIMEOUT_S = 60.0


def append_until(ds: Dataset, number: int) -> Dataset:
    """Commit one row after another, up to the commit with a number."""
    while session_of(ds).head.seq < number:
        ds.append({"x": len(ds)})
        ds.commit()
    return ds


def numbers(store: MemoryStore | None = None) -> Dataset:
    """A new dataset of ``x = 0, 1, 2, …``, shortly before its 64th commit."""
    ds = create_on(MemoryStore() if store is None else store, {"x": "int64"})
    return append_until(ds, COMMITS - 1)


def test_the_64th_commit_is_followed_by_an_entry_that_changes_nothing():
    ds = numbers()

    ds.append({"x": 63})
    assert ds.commit().version == ds.version == "main@64"

    ds.refresh()
    assert [commit.message for commit in ds.log()[:2]] == ["optimize: merge small chunks", ""]
    assert (ds.version, ds.log()[0].summary()) == ("main@65", "no change")
    assert ds["x"][:].tolist() == list(range(64))


def test_a_handle_loses_no_race_to_its_own_compaction():
    objects = CountingStore(MemoryStore())
    ds = append_until(numbers(objects), COMMITS)
    session_of(ds).check_open()  # waits for it, and stays at main@64
    wait_for_storage()
    objects.reset()

    ds.append({"x": 64})
    ds.commit()

    assert ds.version == "main@66"
    assert objects.count("put_if_absent") == 2  # a pack and an entry
    assert [commit.version for commit in ds.log()[:3]] == ["main@66", "main@65", "main@64"]
    assert ds.check().ok


@pytest.mark.slow
def test_random_rows_of_many_commits_take_few_requests():
    """Without it, each row is a request: 1,017 for 1,000 rows of 10,000 commits."""
    commits = 320
    objects = CountingStore(MemoryStore())
    ds = create_on(objects, {"x": "float32", "label": "int64"})
    for number in range(commits):
        ds.append({"x": number, "label": number})
        ds.commit()
    ds.close()
    after = open_on(objects)
    rows = np.random.default_rng(0).permutation(commits)[:100]
    objects.reset()

    assert after["label"][rows].tolist() == rows.tolist()

    assert objects.count() <= 12
    assert len(after.log()) == 1 + commits + commits // COMMITS


def test_close_waits_for_it():
    objects = MemoryStore()
    ds = append_until(numbers(objects), COMMITS)

    ds.close()

    assert open_on(objects).version == "main@65"


def test_a_failure_of_it_is_logged_and_loses_nothing(caplog):
    store = FaultyStore(MemoryStore())
    ds = numbers(store)
    ds.append({"x": 63})
    store.inject(Fault.REFUSED, call="put_if_absent", path="packs/", skip=1, times=8)

    with caplog.at_level(logging.INFO, logger="tensorlake.versions"):
        ds.commit()
        ds.refresh()

    store.heal()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("merging the small chunks of main@64 of 'memory://'")
    append_until(ds, COMMITS + 1)
    assert ds.version == "main@65"
    assert ds["x"][:].tolist() == list(range(65))


def test_another_writer_goes_first(caplog):
    objects = MemoryStore()
    store = FaultyStore(objects)
    ds = numbers(store)
    other = open_on(objects)
    other.append({"x": -1})
    ds.append({"x": 63})
    store.before("put_if_absent", other.commit, path="branches/main/", skip=1)

    ds.commit()
    ds.append({"x": 64})
    ds.commit()

    assert [ds.version, other.version] == ["main@66", "main@65"]
    assert ds["x"][:].tolist() == [*range(64), -1, 64]
    assert not caplog.messages
    assert reopened(ds).check().ok


def test_a_commit_that_was_done_before_begins_none():
    ds = numbers()
    ds.append({"x": 63})
    ds.commit(key="the 64th")
    append_until(ds, 66)
    again = reopened(ds)
    again.append({"x": 63})

    again.commit(key="the 64th")

    again.refresh()
    assert again.version == "main@66"


def test_a_forked_child_goes_on_alone():
    held = threading.Event()
    reached = threading.Event()
    store = FaultyStore(MemoryStore())
    ds = numbers(store)
    ds.append({"x": 63})

    def hold() -> None:
        reached.set()
        held.wait(TIMEOUT_S)

    store.before("put_if_absent", hold, path="branches/main/", skip=1)
    ds.commit()
    assert reached.wait(TIMEOUT_S)

    pid = os.fork()
    if pid == 0:
        append_until(ds, COMMITS + 1)
        ds.close()
        os._exit(0 if ds["x"][:].tolist() == list(range(65)) else 1)

    held.set()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    ds.refresh()
    assert ds.version == "main@65"


@pytest.mark.slow
def test_a_program_that_ends_waits_for_it(tmp_path):
    url = str(tmp_path / "numbers.tl")
    program = (
        "import tensorlake as tl\n"
        f"ds = tl.create({url!r}, {{'x': 'int64'}}, durability='none')\n"
        "for number in range(64):\n"
        "    ds.append({'x': number})\n"
        "    ds.commit()\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    with tl.open(url) as ds:
        assert ds.version == "main@65"
        assert ds["x"][:].tolist() == list(range(64))


def test_it_has_the_author_of_the_commit():
    url = "memory://tail-author"
    ds = tl.create(url, {"x": "int64"})
    append_until(ds, COMMITS - 1)
    work = begin_work(url, "main")
    work.dataset.append({"x": 63})

    work.commit("the 64th", author="ana")
    work.dataset.close()

    ds.refresh()
    assert [(commit.version, commit.author) for commit in ds.log()[:2]] == [
        ("main@65", "ana"),
        ("main@64", "ana"),
    ]


@pytest.mark.parametrize("rows", [1, 100])
def test_chunks_that_need_no_merging_get_no_entry(rows):
    ds = create_on(MemoryStore(), {"x": tl.Bytes()})
    for _ in range(COMMITS):
        ds.extend({"x": [bytes(8192 // rows) + os.urandom(90_000 // rows)] * rows})
        ds.commit()

    ds.refresh()

    assert ds.version == "main@64"
