"""The window that is chosen is as fast as the best of fixed ones: twelve walks, in virtual time.

The controller is the real one. Its clock and its store are simulated, so that nothing depends on
the machine: a request takes its latency and some time for each row, a decoded row takes time of the
program. ``python -m benchmarks read-ahead`` measures the same walks.
"""

from __future__ import annotations

import heapq
import itertools
from concurrent.futures import CancelledError
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.read_ahead import FIXED, LATENCIES_MS, READS, READS_APART, ROWS, WALKS
from tensorlake.reading import ReadAhead
from tensorlake.types import UniformColumn

ROW_NBYTES, DECODE_S, REQUEST_S, FETCH_S = 27_648, 250e-6, 300e-6, 50e-6
EARLIER = 4  # the reads of a walk after which less is ahead than there will be


class Clock:
    """Time that passes only where the program reads, waits or decodes."""

    def __init__(self):
        self.now, self.pending, self.numbers = 0.0, [], itertools.count()

    def __call__(self):
        return self.now

    def go_to(self, moment):
        while self.pending and self.pending[0][0] <= moment:
            ended, _, read = heapq.heappop(self.pending)
            self.now = max(self.now, ended)
            read.end()
        self.now = max(self.now, moment)


class Read:
    """A block on its way, as a future."""

    def __init__(self, clock, ends, count):
        self.clock, self.ends, self.count = clock, ends, count
        self.callbacks, self.is_done, self.is_cancelled = [], False, False
        heapq.heappush(clock.pending, (ends, next(clock.numbers), self))

    def add_done_callback(self, callback):
        self.callbacks.append(callback)

    def end(self):
        self.is_done = True
        for callback in self.callbacks:
            callback(self)

    def done(self):
        return self.is_done

    def cancel(self):
        self.is_cancelled = True

    def result(self):
        if self.is_cancelled:
            raise CancelledError
        self.clock.go_to(self.ends)
        return lambda: images(self.count)


def images(count):
    return UniformColumn(np.broadcast_to(np.uint8(0), (count, ROW_NBYTES)))


class Store:
    """A reader over a store with a latency."""

    def __init__(self, latency_s):
        self.clock, self.latency_s, self.rows = Clock(), latency_s, 0

    def read(self, _tensor, physical, *, decode):
        assert not decode
        self.rows += len(physical)
        self.clock.go_to(self.clock.now + self.latency_s + REQUEST_S)
        return images(len(physical))

    def fetch(self, _tensor, physical):
        return len(physical)

    def submit(self, count):
        self.rows += count
        ends = self.clock.now + self.latency_s + REQUEST_S + FETCH_S * count
        return Read(self.clock, ends, count)


def walked(rows, latency_s, depth):
    """Read rows; return seconds, and the rows that were read for each of them."""
    store = Store(latency_s)
    snapshot = SimpleNamespace(is_staged=False)
    selection = SimpleNamespace(
        snapshot=snapshot, rows=None, num_rows=ROWS, physical=lambda positions: positions
    )
    ahead = ReadAhead(depth, clock=store.clock, submit=store.submit)
    for row in rows:
        ahead.read(store, selection, "image", np.array([row]))
        store.clock.go_to(store.clock.now + DECODE_S)
    return store.clock.now, store.rows / len(rows)


@pytest.mark.parametrize("latency_ms", LATENCIES_MS)
@pytest.mark.parametrize("walk", WALKS)
def test_the_window_chosen_is_nearly_as_fast_as_the_best_fixed_one(walk, latency_ms):
    rows = WALKS[walk](READS_APART if walk == "random" else READS)
    seconds, read = walked(rows, latency_ms / 1000, None)
    fixed = {depth: walked(rows, latency_ms / 1000, depth) for depth in (0, *FIXED)}

    assert min(one for one, _ in fixed.values()) / seconds >= 0.93
    assert read <= (1.0 if walk == "random" else 3.2)


def test_a_walk_that_ends_early_leaves_little():
    _, read = walked(range(EARLIER), 0.02, None)

    assert read * EARLIER <= 16 * EARLIER
