"""Single rows of a remote store: the window that is chosen, and the best of fixed ones.

    sequential   rows one after another
    strided      every seventh row
    random       rows in random order, without repeats
    mixed        stretches of 40 rows that begin anywhere, a random row after every fourth read

Each walk reads the same images with each window, in a session of its own. The best fixed window is
found by one measurement of each, and then measured again, in turns with the chosen one: the best of
four single measurements would be better than what it can do. ``bytes`` are those that were
requested, over those of the same walk without reading ahead. The window on a machine without other
programs is tested in virtual time: ``tests/unit/reading/test_read_ahead_window.py``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, warm_up

__all__ = ["BENCHMARKS"]

DATASET, ROWS, SIDE = "ahead.tl", 2400, 96
FIXED = (16, 64, 256)
LATENCIES_MS = (0, 20, 50)
READS, TURNS = 280, 3
READS_APART = 100
"""Reads where none is ahead of another: each takes a round trip."""

RATIO, NBYTES = "÷ best fixed", "bytes"


def sequential(count: int) -> Sequence[int]:
    """Rows one after another."""
    return range(100, 100 + count)


def strided(count: int) -> Sequence[int]:
    """Every seventh row."""
    return range(5, 5 + 7 * count, 7)


def scattered(count: int) -> Sequence[int]:
    """Rows in random order."""
    return np.random.default_rng(5).permutation(ROWS)[:count].tolist()


def mixed(count: int) -> Sequence[int]:
    """Stretches, with random rows between their reads."""
    rng, found = np.random.default_rng(7), list[int]()
    while len(found) < count:
        start = int(rng.integers(ROWS - 40))
        for number in range(40):
            found.append(start + number)
            if number % 4 == 3:
                found.append(int(rng.integers(ROWS)))
    return found[:count]


WALKS: dict[str, Callable[[int], Sequence[int]]] = {
    "sequential": sequential,
    "strided": strided,
    "random": scattered,
    "mixed": mixed,
}


def dataset(workspace: Workspace) -> str:
    """Return the URL of a dataset of images, written on the first call."""
    import tensorlake as tl

    target = workspace.lake / DATASET
    if not target.exists():
        noise = np.random.default_rng(0).integers(0, 255, (ROWS, SIDE, SIDE, 3), np.uint8)
        with tl.create(str(target), {"image": tl.Image("jpeg")}) as ds:
            ds.extend({"image": list(noise)})
            ds.commit("all")
    return str(target)


def walked(url: str, rows: Sequence[int], latency_s: float, depth: int | None) -> tuple[float, int]:
    """Read rows with a window; return seconds and the bytes requested."""
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.reading import ReadAhead
    from tensorlake.storage import open_store, runtime
    from tensorlake.testing import ThrottledStore
    from tensorlake.versions import resolve

    class Counted(ThrottledStore):
        nbytes = 0

        async def get_range(self, path: str, start: int, stop: int) -> Any:
            self.nbytes += stop - start
            return await super().get_range(path, start, stop)

    store = Counted(open_store(url), latency_s=latency_s)
    session = Session(store, runtime.run(resolve(store, None)))
    session.ahead = ReadAhead(depth)
    with Dataset(session) as ds:
        images = ds["image"]
        _ = images[0], images[ROWS - 1]  # pages of the index
        before, began = store.nbytes, time.perf_counter()
        for row in rows:
            _ = images[row]
        return time.perf_counter() - began, store.nbytes - before


def run_walk(workspace: Workspace, *, walk: str, latency_ms: int) -> Measurement:
    """Read a walk with the chosen window, in turns with the best of fixed ones."""
    warm_up()
    url, latency_s = dataset(workspace), latency_ms / 1000
    is_apart = walk == "random"
    rows = WALKS[walk](READS_APART if is_apart else READS)
    run = partial(walked, url, rows, latency_s)
    own_nbytes = run(None)[1]
    depths = (0,) if is_apart else FIXED if latency_ms else (0, *FIXED)
    fixed = {depth: run(depth) for depth in depths}
    best = min(depths, key=lambda depth: fixed[depth][0])
    turns = [(run(None)[0], run(best)[0]) for _ in range(TURNS)]
    ratio = statistics.median(other / own for own, other in turns)
    facts = {RATIO: ratio, "best fixed": float(best)}
    if 0 in fixed:
        facts[NBYTES] = own_nbytes / fixed[0][1]
    return Measurement(statistics.median(own for own, _ in turns), len(rows), facts=facts)


TITLES = {f"{walk}, {ms} ms": (walk, ms) for ms in LATENCIES_MS for walk in WALKS}

BENCHMARKS = (
    Benchmark(
        name="read-ahead",
        question="rows one by one from a remote store: how good is the window that is chosen?",
        unit="rows/s",
        contenders=tuple(
            Contender(title, partial(run_walk, walk=walk, latency_ms=ms))
            for title, (walk, ms) in TITLES.items()
        ),
        limits=(
            *(Limit(title, RATIO, at_least=0.9) for title in TITLES),
            *(
                Limit(title, NBYTES, at_most=1.1)
                for title, (walk, _) in TITLES.items()
                if walk == "random"
            ),
        ),
        prepare=dataset,
    ),
)
