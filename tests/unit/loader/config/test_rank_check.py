"""Ranks that begin passes of different loaders, by the store of a process group of torch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tensorlake.errors import StateMismatchError, StorageTimeoutError
from tensorlake.loader.config.rank_check import Group, compare_with_rank_0

torch = pytest.importorskip("torch")
from tensorlake.loader.engine.torch_group import StoreBoard  # noqa: E402 - it needs torch


@pytest.fixture
def begin():
    """Begin passes of loaders on as many ranks as are named, at once; return what each raises."""
    store = torch.distributed.HashStore()

    def begin_one(rank, what, size):
        if what is None:
            return None
        try:
            group = Group(rank, size, StoreBoard(store))
            compare_with_rank_0(group, what=what, plan={"epoch": 0}, timeout_s=0.5)
        except (StateMismatchError, StorageTimeoutError) as error:
            return error

    def begin_all(*names):
        with ThreadPoolExecutor(len(names)) as pool:
            return [*pool.map(begin_one, range(len(names)), names, [len(names)] * len(names))]

    begin_all.keys = store.num_keys
    return begin_all


def test_ranks_that_began_other_loaders_are_told_which(begin):
    first, second, third = begin("ds x", "ds x,y", "ds x")

    for error in (first, third):
        assert isinstance(error, StateMismatchError)
        assert "of a loader of 'ds x', and others of another loader" in str(error)
        assert "rank 1  a loader of 'ds x,y'" in str(error)
    assert isinstance(second, StateMismatchError)
    assert "rank 0  a loader of 'ds x'" in str(second)
    assert second.actual == {0: "ds x"}


def test_a_rank_that_begins_nothing_is_late(begin):
    first, second = begin("ds x", None)

    assert second is None
    assert isinstance(first, StorageTimeoutError)
    assert "rank 1 did not start this pass" in str(first)


def test_passes_leave_as_many_keys_as_one(begin):
    counts = []
    for _ in range(3):
        assert begin("ds x", "ds x") == [None, None]
        counts.append(begin.keys())

    assert counts[0] == counts[1] == counts[2]
