"""Loaders that one thing holds back, built on purpose: does ``stats()`` name it?

Each contender is one case, in a process of its own; its fact ``named right`` is 1 where the name is
the one that was built in. The built-in one is several times slower than all else, so that a machine
that others use too names the same. Cases that compute do so by the clock of their own thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import LAKE, Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, stopwatch, warm_up

__all__ = ["BENCHMARKS"]

DATASET = "noise.tl"
ROWS, BATCH, WORKERS = 1024, 32, 2
DIFFERENT = 32
HEIGHT, WIDTH = 300, 400  # about 140 kB as a JPEG of noise
LATENCY_MS = 150.0
NARROW_MB_PER_S = 3.0  # of one connection
MOST_S = 10.0
HOGS = 2
NAMED = "named right"


TITLES = {
    "slow store": "fetch",
    "cache too small": "cache",
    "prefetch too small": "prefetch",
    "slow decode": "decode",
    "slow decode, far store": "decode",
    "transform computes": "transform",
    "transform sleeps": "transform",
    "slow collate function": "collate",
    "slow batch_transform": "batch_transform",
    "loop sleeps": "consumer",
    "loop computes": "consumer",
    "lock held by other threads": "waiting",
}
"""The cases, and what each should be called."""


@dataclass(frozen=True)
class Case:
    """A loader, its source, and the work done meanwhile."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    step: Callable[[], None] = lambda: None
    is_remote: bool = False
    mb_per_s: float = 0.0
    beside: Callable[[], Any] = nullcontext


def compute(seconds: float) -> None:
    """Compute for so long, by the clock of the thread alone."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def after(work: Callable[[], None], value: Any) -> Any:
    """Return a value when some work is done."""
    work()
    return value


@contextmanager
def hogs() -> Generator[None]:
    """Let other threads of the process compute in Python meanwhile."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            compute(0.05)

    threads = [threading.Thread(target=run) for _ in range(HOGS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def case_of(title: str) -> Case:
    """Build a case."""
    import tensorlake as tl

    small = {"columns": ["image"], "decode": {"image": tl.decode.Resize(64, 64)}}
    large = {"columns": ["image"], "decode": {"image": tl.decode.Resize(512, 512)}}
    labels = {"columns": ["label"]}

    def collate(rows: list[Any]) -> np.ndarray:
        compute(0.2)
        return np.zeros(len(rows))

    match title:
        case "slow store":
            return Case(small, is_remote=True, mb_per_s=NARROW_MB_PER_S)
        case "cache too small":
            missing = {**small, "cache": 0, "shuffle": True}
            return Case(missing, is_remote=True, mb_per_s=NARROW_MB_PER_S)
        case "prefetch too small":
            return Case({**small, "prefetch": "4MB"}, is_remote=True)
        case "slow decode":
            return Case(large)
        case "slow decode, far store":
            return Case({**large, "workers": 1}, is_remote=True)
        case "transform computes":
            return Case({**labels, "transform": partial(after, partial(compute, 0.005))})
        case "transform sleeps":
            return Case({**labels, "transform": partial(after, partial(time.sleep, 0.01))})
        case "slow collate function":
            return Case({"columns": ["image"], "collate": {"image": collate}})
        case "slow batch_transform":
            return Case({**small, "batch_transform": partial(after, partial(time.sleep, 0.1))})
        case "loop sleeps":
            return Case(small, step=partial(time.sleep, 0.1))
        case "loop computes":
            return Case(small, step=partial(compute, 0.15))
        case _:
            return Case(small, beside=hogs)


def noise_dataset(workspace: Workspace) -> Path:
    """Return a dataset of images of noise, written on the first call."""
    import simplejpeg

    import tensorlake as tl

    target = workspace.lake / DATASET
    if not target.exists():
        random = np.random.default_rng(0)
        arrays = [
            random.integers(0, 160, (HEIGHT, WIDTH, 3), dtype=np.uint8) for _ in range(DIFFERENT)
        ]
        images = [simplejpeg.encode_jpeg(one, quality=90) for one in arrays]
        with tl.create(str(target), {"image": tl.Image(codec="jpeg"), "label": "int64"}) as ds:
            repeated = [images[row % DIFFERENT] for row in range(ROWS)]
            ds.extend({"image": repeated, "label": list(range(ROWS))})
            ds.commit("all")
    return target


def run_case(workspace: Workspace, *, title: str) -> Measurement:
    """Stream an epoch, or some seconds of it, and look at what the stats name."""
    import tensorlake as tl
    from tensorlake.loader.runtime.stats import find_bottleneck
    from tensorlake.testing import latency_server

    warm_up()
    case, local = case_of(title), noise_dataset(workspace)
    with latency_server(workspace.folder, latency_ms=LATENCY_MS, mb_per_s=case.mb_per_s) as server:
        url, options = str(local), None
        if case.is_remote:
            url, options = server.s3_url(f"{LAKE}/{DATASET}"), server.storage_options
        with tl.open(url, read_only=True, storage_options=options) as ds, case.beside():
            loader = ds.loader(**{"batch_size": BATCH, "workers": WORKERS, **case.arguments})
            with stopwatch() as watch:
                until = time.perf_counter() + MOST_S
                for _ in loader:
                    case.step()
                    if time.perf_counter() > until:
                        break
            stats = loader.stats()
            loader.close()
    is_right = find_bottleneck(stats).name == TITLES[title]
    return Measurement(watch.seconds, stats.rows, watch.cpu_seconds, {NAMED: float(is_right)})


BENCHMARKS = (
    Benchmark(
        name="bottlenecks",
        question="loaders that one thing holds back: do their stats name it?",
        unit="rows/s",
        contenders=tuple(Contender(title, partial(run_case, title=title)) for title in TITLES),
        limits=tuple(Limit(title, NAMED, at_least=1) for title in TITLES),
        prepare=noise_dataset,
    ),
)
