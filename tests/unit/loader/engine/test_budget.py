"""The prefetch's two bounds: fetching and batches, neither at the other's cost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.loader.engine.memory_budget import Budget, batch_nbytes_of, bounds
from tensorlake.loader.sources.batch_group import Group
from tensorlake.storage import MemoryStore, runtime
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.noise import noise

NONE = np.empty(0, np.int64)
PREFETCH = 400  # 300 for fetching, 100 for batches


def group(stored, made):
    return Group([], NONE, NONE, NONE, {}, {}, stored_nbytes=stored, batch_nbytes=made)


def admitted(budget, groups):
    return sum(1 for one in groups if budget.admit(one))


def test_the_two_bounds_are_the_prefetch():
    for prefetch in (0, 1, 7, PREFETCH, 256 << 20):
        assert sum(bounds(prefetch)) == prefetch


def test_large_batches_leave_fetching_its_own_room():
    small, large = Budget(PREFETCH, most_groups=99), Budget(PREFETCH, most_groups=99)

    assert admitted(small, [group(20, 1) for _ in range(50)]) == 15
    assert admitted(large, [group(20, 10_000) for _ in range(50)]) == 15


def test_batches_that_are_not_taken_fill_their_own_part_alone():
    budget, ran = Budget(PREFETCH, most_groups=99), []
    groups = [group(20, 30) for _ in range(15)]
    for number, one in enumerate(groups):
        assert budget.admit(one)
        budget.submit(one, lambda number=number: ran.append(number))

    assert ran == [0, 1, 2]  # 90 of 100
    assert budget.nbytes == (300, 90)
    budget.cut(groups[0], 30)
    assert ran == [0, 1, 2]  # it is made, and not taken
    budget.take(groups[0])
    assert ran == [0, 1, 2, 3]


def test_chunks_given_back_let_the_next_group_be_asked_for_before_anything_is_taken():
    budget = Budget(PREFETCH, most_groups=99)
    groups = [group(150, 30), group(150, 30), group(150, 30)]
    assert admitted(budget, groups) == 2

    budget.cut(groups[0], 30)

    assert budget.admit(groups[2])


def test_two_groups_are_made_whatever_their_size_and_no_third():
    budget, ran = Budget(0, most_groups=99), []
    groups = [group(10**9, 10**9) for _ in range(3)]

    assert admitted(budget, groups) == 2
    for one in groups[:2]:
        budget.submit(one, lambda: ran.append(1))
    assert len(ran) == 2
    budget.take(groups[0])
    assert budget.admit(groups[2])


def test_batches_that_turn_out_larger_count_as_what_they_are():
    budget, ran = Budget(PREFETCH, most_groups=99), []
    groups = [group(1, 1) for _ in range(4)]  # lists of samples: nobody knows how large before
    assert admitted(budget, groups[:3]) == 3
    for one in groups[:3]:
        budget.cut(one, 200)

    assert budget.admit(groups[3])
    budget.submit(groups[3], lambda: ran.append(3))

    assert ran == []
    budget.take(groups[0])
    budget.take(groups[1])
    assert ran == [3]


def test_the_end_forgets_what_was_held():
    budget, ran = Budget(0, most_groups=99), []
    groups = [group(1, 1), group(1, 1)]
    assert admitted(budget, groups) == 2

    assert budget.clear() == groups

    assert (budget.groups, budget.nbytes) == ([], (0, 0))
    budget.cut(groups[0], 5)
    budget.take(groups[0])
    budget.submit(groups[1], lambda: ran.append(1))  # to threads that are stopped
    assert ran == [1]
    assert budget.nbytes == (0, 0)


def test_batches_are_as_large_as_their_arrays_and_the_samples_in_their_lists():
    batch = {
        "image": np.zeros((2, 3), np.float32),
        "boxes": [np.zeros(4), None, np.zeros(2)],
        "name": ["abc", b"de"],
        "made": object(),
    }

    assert batch_nbytes_of([batch, batch]) == 2 * (24 + 48 + 5)


# ---- a whole loader of images that are small as they are stored, and large in a batch

COMMITS, CHUNK_ROWS, SIDE = 20, 8, 224  # a chunk: 80 kB; its rows in a batch: 4.8 MB
LONG_S = 60  # until a test gives up; what works takes milliseconds


class GatedChunks:
    """A store whose chunks wait until its gate is opened."""

    def __init__(self, store):
        self.store, self.gate = store, asyncio.Event()
        self.asked, self.all_asked = set(), threading.Event()

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def get_range(self, path, start, stop):
        if stop - start > CHUNK_ROWS * 1000:
            self.asked.add((path, start))
            if len(self.asked) == COMMITS:
                self.all_asked.set()
            await self.gate.wait()
        return await self.store.get_range(path, start, stop)

    def open_gate(self):
        async def opened():
            self.gate.set()

        runtime.run(opened())


@dataclass(frozen=True)
class Counted:
    """A step that hears of every sample before it is decoded."""

    is_random: ClassVar[bool] = False
    resizes: ClassVar[bool] = False
    heard: Callable[[], None]

    def place(self, placement, draws):
        self.heard()
        return placement

    def output_size(self, size):
        return size


@pytest.fixture
def images():
    store = MemoryStore()
    dataset = create_on(store, {"image": tl.Image(codec="jpeg")})
    for start in range(0, COMMITS * CHUNK_ROWS, CHUNK_ROWS):
        dataset.extend({"image": [noise(row) for row in range(start, start + CHUNK_ROWS)]})
        dataset.commit(f"rows from {start}")
    wait_for_storage()
    return GatedChunks(store)


def loader_of(store, *steps):
    decode = [*steps, tl.decode.Resize(SIDE, SIDE), tl.decode.ToFloat()]
    return open_on(store).loader(
        batch_size=CHUNK_ROWS, decode={"image": decode}, prefetch="4MiB", workers=2
    )


def test_floats_of_images_do_not_keep_chunks_from_being_asked_for(images):
    batches = iter(loader_of(images))

    all_asked = images.all_asked.wait(LONG_S)
    images.open_gate()

    assert all_asked
    assert sum(len(batch["image"]) for batch in batches) == COMMITS * CHUNK_ROWS


def test_time_in_which_the_prefetch_keeps_chunks_from_being_asked_for_is_counted(images):
    loader = open_on(images).loader(batch_size=CHUNK_ROWS, columns=["_row", "image"], prefetch=0)
    batches = iter(loader)
    deadline = time.monotonic() + LONG_S

    while not loader.stats().held_s and time.monotonic() < deadline:
        threading.Event().wait(0.001)  # the third group is not admitted, and two are not answered

    assert loader.stats().held_s > 0
    assert len(images.asked) < COMMITS
    images.open_gate()
    assert sum(len(batch["image"]) for batch in batches) == COMMITS * CHUNK_ROWS


def test_images_that_are_here_are_not_decoded_far_ahead_of_a_loop_that_waits(images):
    heard, taken, ahead = [], [], []

    def hear():
        heard.append(1)
        ahead.append(len(heard) - CHUNK_ROWS * len(taken))

    images.open_gate()
    for _ in loader_of(images, Counted(hear)):
        assert images.all_asked.wait(LONG_S)  # all come, whatever this loop does
        taken.append(1)

    assert len(heard) == COMMITS * CHUNK_ROWS
    assert max(ahead) <= 3 * CHUNK_ROWS  # the batch that is being taken, and two behind it
