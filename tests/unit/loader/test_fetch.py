"""Which chunks one request reads: neighbours, up to a size, in the order of the plan."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from tensorlake.loader.fetch import RUN_GAP_NBYTES, RUN_NBYTES, Load, next_run, run_span


@dataclass(frozen=True)
class Key:
    pack: str
    offset: int
    nbytes: int


def waiting(*keys):
    return deque(Load("x", number, Key(*key), Future()) for number, key in enumerate(keys))


def test_neighbours_are_one_request():
    run = next_run(waiting(("a", 0, 100), ("a", 128, 100), ("a", 228, 50)))

    assert len(run) == 3
    assert run_span(run) == (0, 278)


@pytest.mark.parametrize(
    "second",
    [
        ("b", 100, 100),
        ("a", 100 + RUN_GAP_NBYTES + 1, 100),
        ("a", 0, 100),
        ("a", 100, RUN_NBYTES),
    ],
    ids=["another pack", "too far", "before", "too long"],
)
def test_what_does_not_follow_waits_for_a_request_of_its_own(second):
    assert len(next_run(waiting(("a", 0, 100), second))) == 1


def test_a_chunk_larger_than_a_run_is_read_alone_and_whole():
    run = next_run(waiting(("a", 0, 3 * RUN_NBYTES), ("a", 3 * RUN_NBYTES, 10)))

    assert run_span(run) == (0, 3 * RUN_NBYTES)
