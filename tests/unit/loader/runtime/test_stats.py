"""stats() names what holds a stream back; progress() says how far it is."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.loader import LoaderStats
from tensorlake.loader.runtime.clocks import Times, thread_times
from tensorlake.loader.runtime.counters import Counters, Stopwatch
from tensorlake.loader.runtime.stats import find_bottleneck
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.unit.loader.conftest import RESIZE, ROWS, picture

FAR_S, STEP_S, LOOP_S = 0.15, 0.01, 0.05


class Clock:
    """A clock that stands still but for what a test says takes time, however busy the machine is.

    Work takes the time of the thread that does it; an answer that is awaited takes everybody's.
    """

    def __init__(self):
        self._everybodys = 0.0
        self._own = threading.local()

    def __call__(self):
        return self._everybodys + getattr(self._own, "seconds", 0.0)

    def times(self):
        return Times(getattr(self._own, "ran", 0.0), 0.0)

    def work(self, seconds):
        self.stall(seconds)
        self._own.ran = getattr(self._own, "ran", 0.0) + seconds

    def stall(self, seconds):
        """Take a thread's time, and not a processor's: it waits for the lock."""
        self._own.seconds = getattr(self._own, "seconds", 0.0) + seconds

    def wait(self, seconds):
        self._everybodys += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(time, "perf_counter", made)
    monkeypatch.setattr("tensorlake.loader.engine.iterator.perf_counter", made)
    monkeypatch.setattr("tensorlake.loader.runtime.counters.thread_times", made.times)
    monkeypatch.setattr("tensorlake.loader.engine.iterator.Stopwatch", lambda: Stopwatch(made()))
    return made


@dataclass(frozen=True)
class SlowStep:
    """A decode step that takes its time."""

    is_random: ClassVar[bool] = False
    resizes: ClassVar[bool] = False
    clock: Clock
    stalled_s: float = 0.0

    def place(self, placement, draws):
        self.clock.work(STEP_S)
        self.clock.stall(self.stalled_s)
        return placement

    def output_size(self, size):
        return size


@dataclass(frozen=True)
class SlowConverter:
    """A framework whose arrays take their time."""

    converter: object
    clock: Clock

    def __getattr__(self, name):
        return getattr(self.converter, name)

    def convert(self, batch):
        self.clock.work(LOOP_S)
        return self.converter.convert(batch)


class FarStore(MemoryStore):
    """A store that takes its time for each range."""

    clock = None

    async def get_range(self, path, start, stop):
        if self.clock is not None:
            self.clock.wait(FAR_S)
        return await super().get_range(path, start, stop)


@pytest.fixture(scope="module")
def far_store():
    store = FarStore()
    schema = {"image": tl.Image(codec="png"), "noise": tl.Array("uint8", shape=(4096,))}
    dataset = create_on(store, schema)
    random = np.random.default_rng(0)
    for start in range(0, ROWS, 10):
        dataset.extend(
            {
                "image": [picture(row) for row in range(start, start + 10)],
                "noise": random.integers(0, 255, (10, 4096), np.uint8),
            }
        )
        dataset.commit("ten more")
    wait_for_storage()
    return store


@pytest.fixture
def far(far_store, clock):
    """A handle of its own: what one test has read is in no cache of the next."""
    far_store.clock = clock
    return open_on(far_store)


def bottleneck_of(loader, *, epochs=1, after_each=lambda: None):
    """Name the bottleneck of a stream that has no start-up: only its busiest part takes time."""
    for _ in range(epochs):
        for _ in loader:
            after_each()
    stats = as_streamed(loader.stats())
    found = find_bottleneck(stats)
    assert str(stats).splitlines()[-1] == found.sentence
    return found


def as_streamed(stats):
    """Let everything overlap, as in a long stream: who is not the slowest waits for who is."""
    loop_s = stats.user_s + stats.batch_transform_s + stats.convert_s + stats.cut_s
    own_s = (stats.unpack_s, stats.gather_s, stats.decode_s, stats.waiting_s)
    threads_s = (sum(own_s) + stats.transform_s + stats.collate_s) / stats.threads
    wall_s = max(loop_s, threads_s, stats.fetch_s, stats.plan_s)
    return replace(stats, wall_s=wall_s, start_s=0.0, blocked_s=wall_s - loop_s)


# ---- injected bottlenecks, each named


def test_a_slow_store_is_named(far):
    loader = far.loader(batch_size=10, columns=["noise"], cache="1GB")

    found = bottleneck_of(loader)

    assert found.name == "fetch"
    assert "Reading from the store holds the stream back: it can make" in found.sentence


def test_slow_decoding_is_named(pets, clock):
    decode = {"image": [SlowStep(clock), *RESIZE.values()]}

    found = bottleneck_of(pets.loader(batch_size=6, decode=decode, columns=["image"], workers=2))

    assert found.name == "decode"
    assert "workers=2 now" in found.sentence


def test_a_slow_loop_is_named(pets, clock):
    loader = pets.loader(batch_size=6, columns=["tokens"])

    found = bottleneck_of(loader, after_each=lambda: clock.work(LOOP_S))

    assert found.name == "consumer"
    assert "Your own loop" in found.sentence


def test_a_small_cache_is_named(far):
    loader = far.loader(batch_size=10, columns=["noise"], cache=0, shuffle=True)

    found = bottleneck_of(loader, epochs=2)

    assert found.name == "cache"
    assert "cache='" in found.sentence


def test_a_slow_transform_is_named(pets, clock):
    def transform(row):
        clock.work(STEP_S)
        return row

    found = bottleneck_of(
        pets.loader(batch_size=6, columns=["tokens"], transform=transform, workers=2)
    )

    assert found.name == "transform"
    assert "batch_transform=" in found.sentence


def test_a_slow_batch_transform_is_named(pets, clock):
    def batch_transform(batch):
        clock.work(LOOP_S)
        return batch

    loader = pets.loader(batch_size=6, columns=["tokens"], batch_transform=batch_transform)

    found = bottleneck_of(loader)

    assert found.name == "batch_transform"
    assert "Your batch_transform holds the stream back" in found.sentence
    progress = replace(loader.progress(), stats=as_streamed(loader.stats()))
    assert str(progress).endswith("waits: model 100%, data 0%")


def test_a_slow_collate_function_is_named_and_not_copying(pets, clock):
    def collate(rows):
        clock.work(LOOP_S)
        return np.zeros(len(rows))

    loader = pets.loader(batch_size=6, columns=["boxes", "_row"], collate={"boxes": collate})

    found = bottleneck_of(loader)

    assert found.name == "collate"
    assert "Collating holds" in found.sentence
    assert loader.stats().gather_s == 0.0


def test_a_lock_that_others_hold_is_named_and_is_not_decoding(pets, clock):
    decode = {"image": [SlowStep(clock, stalled_s=5 * STEP_S), *RESIZE.values()]}
    loader = pets.loader(batch_size=6, decode=decode, columns=["image"], workers=2)

    found = bottleneck_of(loader)

    assert found.name == "waiting"
    assert "Waiting for the interpreter's lock holds the stream back" in found.sentence
    stats = loader.stats()
    assert stats.decode_s == pytest.approx(ROWS * STEP_S)
    assert stats.waiting_s >= ROWS * 5 * STEP_S


def test_frameworks_arrays_that_take_long_to_make_are_named(pets, clock):
    loader = pets.loader(batch_size=6, columns=["tokens"])
    converter = SlowConverter(loader._finish.converter, clock)
    loader._finish.converter = converter

    found = bottleneck_of(loader)

    assert found.name == "convert"
    assert "Making the framework's arrays holds" in found.sentence


# ---- counters


def test_what_is_timed_inside_counts_for_the_inner_alone(clock):
    counters = Counters()

    with counters.timed("gather_s"):
        clock.work(1.0)
        with counters.timed("collate_s"):
            clock.work(2.0)
            clock.stall(3.0)
        clock.stall(4.0)

    stats = counters.snapshot()
    assert (stats.gather_s, stats.collate_s, stats.waiting_s) == (1.0, 5.0, 4.0)


def test_held_time_counts_while_there_is_no_room_and_more_could_be_asked_for(clock):
    counters = Counters()

    for reasons in ({"full": True}, {"chunks": True}, {"rows": False}, {"rows": True}):
        counters.hold(**reasons)
        clock.wait(1.0)
    counters.hold(full=False)
    clock.wait(1.0)

    # alone being full is held too: there is no reader that says it has enough to do
    assert counters.snapshot().held_s == 3.0


def test_a_thread_that_waits_for_a_processor_is_not_waiting_for_anything_else():
    before = thread_times()
    began = time.perf_counter()

    while thread_times().since(before).running_s < 0.01:
        pass

    passed, wall_s = thread_times().since(before), time.perf_counter() - began
    assert 0.01 <= passed.ready_s <= wall_s + 0.001


# ---- what it says otherwise


def test_a_stream_without_a_saturated_stage_is_not_blamed_on_one():
    stats = LoaderStats(
        wall_s=1.0, batches=1, rows=100, decode_s=0.1, threads=2, wait_s=1.0, fetch_s=0.2
    )

    found = find_bottleneck(stats)

    assert found.name == ""
    assert "No stage is saturated; the busiest is fetch (20%)" in found.sentence


def test_a_ceiling_counts_the_threads_that_share_the_work():
    stats = LoaderStats(wall_s=1.0, batches=10, rows=100, decode_s=1.9, threads=2, blocked_s=0.9)

    (decode,) = stats.stages

    assert decode.ceiling == pytest.approx(100 / 0.95)
    assert "it can make 105 rows/s and is 95% busy" in stats.bottleneck()


def test_the_difference_of_two_stats_is_what_happened_between():
    before = LoaderStats(wall_s=1.0, rows=10, cache_nbytes=5, threads=2)
    after = LoaderStats(wall_s=3.0, rows=50, cache_nbytes=7, threads=2)

    assert after - before == LoaderStats(wall_s=2.0, rows=40, cache_nbytes=7, threads=2)


def test_rows_read_alone_are_counted_as_reads(far):
    loader = far.loader(batch_size=10, columns=["noise"], cache=0, shuffle=True)

    list(loader)

    stats = loader.stats()
    assert stats.row_reads == ROWS
    assert stats.fetched_nbytes >= ROWS * 4096
    assert stats.fetch_s >= FAR_S


# ---- progress


def test_progress_says_how_far_and_how_fast(pets):
    loader = pets.loader(batch_size=15, columns=["tokens"])
    iterator = iter(loader)
    assert loader.progress().eta_s is None
    next(iterator)

    progress = loader.progress()

    assert (progress.batches, progress.remaining, progress.share) == (1, 3, 0.25)
    assert progress.eta_s == pytest.approx(3 * progress.stats.wall_s)
    assert "epoch 0  ━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  25%  1/4 batches" in str(progress)
    list(iterator)
    ended = loader.progress()
    assert (ended.epoch, ended.batches, ended.remaining, ended.share) == (0, 4, 0, 1.0)
    assert "100%  4/4 batches" in str(ended)
    next(iter(loader))
    assert loader.progress().epoch == 1


def test_progress_after_a_load_is_of_the_epoch_that_goes_on(pets):
    loader = pets.loader(batch_size=15, columns=["tokens"])
    state = loader.state_dict()
    list(loader)
    loader.load_state_dict(state)

    progress = loader.progress()

    assert (progress.epoch, progress.share, progress.remaining) == (0, 0.0, 4)


def test_progress_of_an_endless_mix_has_no_end(pets):
    loader = tl.mix({"pets": (pets, 1)}, stop="never").loader(batch_size=15, columns=["tokens"])
    next(iter(loader))

    progress = loader.progress()

    assert (progress.share, progress.eta_s, progress.remaining) == (None, None, None)
    assert "epoch 0  1 batches" in str(progress)


# ---- what it is


def test_a_loader_says_what_it_reads_where_it_stands_and_what_batches_hold(pets):
    loader = pets.loader(
        batch_size=8, columns=["tokens", "image", "name"], decode=RESIZE, rank=1, world_size=2
    )
    for _ in zip(range(2), loader, strict=False):
        pass

    first, *columns = repr(loader).splitlines()

    assert first == (
        f"Loader {pets.url!r} main@3 · rank 1 of 2 · epoch 0 · 4 batches of 16 rows · 2 left"
    )
    assert columns == [
        "  tokens        uint16 (300,) stacked",
        "  image         uint8 (16, 16, 3) stacked",
        "  name          () list",
    ]


def test_a_loader_shows_channels_where_its_batches_have_them(pets):
    loader = pets.loader(batch_size=8, columns=["image"], decode=RESIZE, layout="NCHW")

    assert next(iter(loader))["image"].shape == (8, 3, 16, 16)
    for shown in (repr(loader), loader.explain()):
        assert shown.splitlines()[-1] == "  image         uint8 (3, 16, 16) stacked"


def test_a_loader_of_an_endless_mix_says_so(pets):
    loader = tl.mix({"pets": (pets, 1)}, stop="never").loader(batch_size=15, columns=["tokens"])

    assert repr(loader).splitlines()[0].endswith(" · epoch 0 · endless batches of 15 rows")


def test_saying_what_a_loader_is_reads_nothing():
    store = CountingStore(MemoryStore())
    names = [f"column_{number}" for number in range(10)]
    dataset = create_on(store, dict.fromkeys(names, "int64"))
    dataset.extend({name: range(20) for name in names})
    dataset.commit("twenty")
    wait_for_storage()
    loader = open_on(store).loader(batch_size=5, shuffle=True)
    store.reset()

    shown = repr(loader)

    assert len(store.requests) == 0
    assert shown.splitlines()[-1] == "  … 2 more columns"
