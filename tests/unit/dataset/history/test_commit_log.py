"""The log: which commits, how much of it is read, and what damage of it says."""

import numpy as np
import pytest

from tensorlake.errors import CorruptionError
from tensorlake.format import Entry, EntryLine, entry_path
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage

COMMITS = 64  # the last number before the tail is compacted is 63


@pytest.fixture(scope="module")
def store() -> CountingStore:
    """A log of some tens of entries, and a branch of three."""
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"x": "int64"})
    for number in range(1, COMMITS):
        dataset.extend({"x": np.arange(number % 3 + 1)})
        dataset.commit(f"commit {number}")
    side = dataset.branch("side", f"main@{COMMITS // 2}")
    side["x"][0] = 7
    side.commit("beside")
    wait_for_storage()
    return store


def test_a_log_lists_all_commits_newest_first(store):
    log = open_on(store).log()

    assert [commit.version for commit in log] == [f"main@{n}" for n in range(COMMITS - 1, -1, -1)]
    assert len(log) == COMMITS
    assert log[-1].message == "create"
    assert [commit.message for commit in log[1:3]] == ["commit 62", "commit 61"]


def test_a_log_goes_on_where_its_branch_began(store):
    versions = [commit.version for commit in open_on(store, "side").log()]

    assert versions[-1] == "main@0"
    assert f"main@{COMMITS // 2}" in versions
    assert f"main@{COMMITS // 2 + 1}" not in versions
    assert versions[0].startswith("side@")


def test_looking_at_the_newest_commits_reads_only_these(store):
    handle = open_on(store)
    store.reset()

    log = handle.log()
    assert store.count("get") == 0

    assert [commit.version for commit in log[:3]] == ["main@63", "main@62", "main@61"]
    assert store.count("get") < 20
    before = store.count("get")
    assert log[0].version == "main@63"
    assert store.count("get") == before
    assert [commit.version for commit in handle.log(2)] == ["main@63", "main@62"]
    assert store.count("get") <= before + 1


def test_a_log_may_be_left_in_the_middle_and_taken_up_again(store):
    log = open_on(store).log()
    first = iter(log)
    ahead = [next(first).version for _ in range(40)]

    assert [commit.version for commit in log][:40] == ahead
    assert next(first).version == f"main@{COMMITS - 41}"


def test_an_empty_log_is_false_and_a_long_one_prints_its_beginning(store):
    handle = open_on(store)

    assert not handle.log(0)
    assert handle.log(1)
    lines = repr(handle.log()).splitlines()
    assert len(lines) == 51
    assert lines[0].startswith("main@63")


def test_a_line_of_the_log_says_what_the_whole_entry_says(store):
    for seq in (0, 1, COMMITS // 2):
        path = entry_path("main", seq)
        data = runtime.run(store.get(path))
        assert data is not None
        entry, line = (kind.from_bytes(data, where=path) for kind in (Entry, EntryLine))
        for name in EntryLine.__slots__:
            assert getattr(line, name) == getattr(entry, name)


def test_a_damaged_entry_is_named_and_no_wrong_commit_is_shown(store):
    path = entry_path("main", 5)
    data = runtime.run(store.get(path))
    assert data is not None
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(CorruptionError, match="main"):
            EntryLine.from_bytes(bytes(damaged), where=path)
