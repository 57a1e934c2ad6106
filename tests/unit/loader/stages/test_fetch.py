"""Which chunks one request reads: neighbours, up to a size, in the order of the plan."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest

from tensorlake.loader.stages.fetch import (
    GAP_NBYTES,
    RANGE_NBYTES,
    Load,
    next_run,
    part_count,
    read_parts,
    run_span,
)
from tensorlake.storage import runtime


@dataclass(frozen=True)
class Key:
    pack: str
    offset: int
    nbytes: int


def waiting(*keys):
    return deque(Load("x", number, Key(*key)) for number, key in enumerate(keys))


def test_neighbours_are_one_request():
    run = next_run(waiting(("a", 0, 100), ("a", 128, 100), ("a", 228, 50)))

    assert len(run) == 3
    assert run_span(run) == (0, 278)


@pytest.mark.parametrize(
    "second",
    [
        ("b", 100, 100),
        ("a", 100 + GAP_NBYTES + 1, 100),
        ("a", 0, 100),
        ("a", 100, RANGE_NBYTES),
    ],
    ids=["another pack", "too far", "before", "too long"],
)
def test_what_does_not_follow_waits_for_a_request_of_its_own(second):
    assert len(next_run(waiting(("a", 0, 100), second))) == 1


def test_a_chunk_larger_than_a_run_is_read_alone_and_whole():
    run = next_run(waiting(("a", 0, 3 * RANGE_NBYTES), ("a", 3 * RANGE_NBYTES, 10)))

    assert run_span(run) == (0, 3 * RANGE_NBYTES)


@pytest.mark.parametrize(
    ("nbytes", "parts"), [(0, 1), (100, 1), (5 << 20, 1), (8 << 20, 2), (64 << 20, 16)]
)
def test_large_chunks_are_read_in_parts_of_about_4_mib(nbytes, parts):
    assert part_count(nbytes) == parts


def test_parts_join_to_the_bytes_asked_for():
    class Packs:
        async def read_range(self, pack, offset, nbytes):
            return data[offset : offset + nbytes]

    data = bytes(range(256)) * 40_000

    parts = runtime.run(read_parts(Packs(), "a", 1000, len(data) - 7))

    assert len(parts) == 2
    assert b"".join(parts) == data[1000:-7]
