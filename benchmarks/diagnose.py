"""``loader.diagnose()``: does it name the bottleneck, recover the stall, and propose fast settings?

    diagnose            loaders that one thing holds back, built on purpose, each in its own process
    diagnose-settings   a pipeline as it is often written, with the proposed settings, and the best
                        of a grid of settings: rows per second of the same work

Injected work waits, or takes CPU time of its own thread, so that the amounts hold on a machine that
others use too. ``error`` is the difference of the recovered and the injected
milliseconds beyond a tenth of them: at most 2 ms are allowed. ``% beyond its range`` is how far the
measured rate is from the range that the model gives; demands are known to a tenth.

The best of the grid is chosen by one measurement of each setting, and then measured again, in turns
with the proposed settings: the best of ten measurements would be better than what it can do.
"""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.bottlenecks import NAMED, compute, noise_dataset
from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Limit, Measurement, warm_up

__all__ = ["BENCHMARKS"]

BATCH, WORKERS = 16, 2
BUDGET_S, RUN_S, TURNS = 10.0, 2.0, 3
SLEEP_S, STEP_S = 0.03, 0.5
ERROR, BEYOND, WIDTH = "error ms", "% beyond its range", "its end ÷ its start"
OF_BEST = "÷ best of a grid"
DATASET, ROWS, ROW_NBYTES = "rows.tl", 4096, 20_000
FAR_S, NEAR_S, NARROW_NBYTES_PER_S = 0.25, 0.015, 1e6
NAIVE = {"workers": 1, "prefetch": "1MiB"}
GRID = {"workers": (1, 4, 16, 64, 128), "prefetch": ("1MiB", "256MiB")}


@dataclass(frozen=True)
class Case:
    """A loader that one thing holds back.

    Attributes:
        name: The bottleneck.
        arguments: Arguments of the loader.
        step: The step.
        store: Latency in seconds, and bytes per second, of the store; None: a folder.
        stall: Its name, and the injected milliseconds of a batch.
        is_images: Whether it reads images.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    step: Callable[[Any], None] | None = None
    store: tuple[float, float | None] | None = None
    stall: tuple[str, float] | None = None
    is_images: bool = False


def waits(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Wait, as for another service."""
    time.sleep(seconds)
    return {"label": row["label"]}


def computes(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Compute without the interpreter's lock."""
    data, stop = bytes(1 << 18), time.thread_time() + seconds
    while time.thread_time() < stop:
        zlib.crc32(data)
    return {"label": row["label"]}


def locks(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Compute with the interpreter's lock."""
    compute(seconds)
    return {"label": row["label"]}


def cases() -> dict[str, Case]:
    """Build the cases."""
    import tensorlake as tl

    labels: dict[str, Any] = {"columns": ["label"]}
    by_row: dict[str, Any] = {"cache": 0, "shuffle": "full"}
    by_chunk = {"cache": 0, "prefetch": "64KiB"}
    large = {"columns": ["image"], "decode": {"image": tl.decode.Resize(512, 512)}}
    slept = 1000 * SLEEP_S * BATCH / WORKERS
    return {
        "slow store": Case("latency", by_row, store=(2 * FAR_S, None)),
        "narrow store": Case("bandwidth", by_row, store=(0.0, NARROW_NBYTES_PER_S)),
        "small prefetch": Case("prefetch", by_chunk, store=(FAR_S, None)),
        "slow decode": Case("decode", large, is_images=True),
        "transform sleeps": Case(
            "transform",
            {**labels, "transform": partial(waits, seconds=SLEEP_S)},
            stall=("transform", slept),
        ),
        "transform computes": Case(
            "transform", {**labels, "transform": partial(computes, seconds=SLEEP_S)}
        ),
        "transform holds the lock": Case(
            "transform", {**labels, "transform": partial(locks, seconds=SLEEP_S)}
        ),
        "slow step": Case(
            "step", step=lambda _batch: time.sleep(STEP_S), stall=("compute", 1000 * STEP_S)
        ),
    }


TITLES = (
    "slow store",
    "narrow store",
    "small prefetch",
    "slow decode",
    "transform sleeps",
    "transform computes",
    "transform holds the lock",
    "slow step",
)


def rows_dataset(workspace: Workspace) -> str:
    """Return the URL of a dataset of numbers, written on the first call."""
    import tensorlake as tl

    target = workspace.lake / DATASET
    if not target.exists():
        x = np.random.default_rng(0).integers(0, 255, (ROWS, ROW_NBYTES), np.uint8)
        schema = {"x": tl.Array("uint8", shape=(ROW_NBYTES,)), "label": "int64"}
        with tl.create(str(target), schema) as ds:
            ds.extend({"x": x, "label": range(ROWS)})
            ds.commit("all")
    return str(target)


def prepare(workspace: Workspace) -> None:
    """Write both datasets."""
    rows_dataset(workspace)
    noise_dataset(workspace)


@contextmanager
def opened(url: str, store: tuple[float, float | None] | None) -> Generator[Any]:
    """Open a dataset in its folder, or behind a latency and a bandwidth."""
    import tensorlake as tl
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.storage import open_store, runtime
    from tensorlake.testing import ThrottledStore
    from tensorlake.versions import resolve

    if store is None:
        with tl.open(url, read_only=True) as ds:
            yield ds
        return
    throttled = ThrottledStore(open_store(url), latency_s=store[0], nbytes_per_s=store[1])
    with Dataset(Session(throttled, runtime.run(resolve(throttled, None)))) as ds:
        yield ds


def run_case(workspace: Workspace, *, title: str) -> Measurement:
    """Diagnose a case."""
    warm_up()
    case = cases()[title]
    url = str(noise_dataset(workspace)) if case.is_images else rows_dataset(workspace)
    with opened(url, case.store) as ds:
        arguments = {"batch_size": BATCH, "workers": WORKERS, **case.arguments}
        with ds.loader(**arguments) as loader:
            began = time.perf_counter()
            found = loader.diagnose(case.step, BUDGET_S)
            seconds = time.perf_counter() - began
    low, high = found.interval
    beyond = max(0.0, low / found.measured.high - 1, found.measured.low / high - 1)
    facts = {NAMED: float(found.bottleneck == case.name), BEYOND: 100 * beyond, WIDTH: high / low}
    if case.stall is not None:
        name, injected = case.stall
        error = abs(1000 * sum(found.stalls.values()) - injected)
        facts[ERROR] = max(0.0, error - 0.1 * injected)
        facts["recovered ms"] = 1000 * found.stalls[name]
    return Measurement(seconds, 1.0, 0.0, facts)


def rate_of(ds: Any, arguments: Mapping[str, Any]) -> tuple[float, int]:
    """Stream for some seconds; return seconds and rows, the start included."""
    rows, began = 0, time.perf_counter()
    with ds.loader(**arguments) as loader:
        while (passed := time.perf_counter() - began) < RUN_S:
            for batch in loader:
                rows += len(batch["label"])
                passed = time.perf_counter() - began
                if passed >= RUN_S:
                    break
    return passed, rows


def pipeline() -> dict[str, Any]:
    """Return the arguments of a pipeline that waits for a service and for a store."""
    wait = partial(waits, seconds=0.01)
    return {"batch_size": BATCH, "shuffle": True, "columns": ["label"], "transform": wait}


def run_naive(workspace: Workspace) -> Measurement:
    """Stream as it is often written: one worker."""
    warm_up()
    with opened(rows_dataset(workspace), (NEAR_S, None)) as ds:
        seconds, rows = rate_of(ds, {**pipeline(), **NAIVE})
    return Measurement(seconds, rows)


def run_settings(workspace: Workspace) -> Measurement:
    """Stream with the settings that are proposed for it, in turns with the best of a grid."""
    warm_up()
    with opened(rows_dataset(workspace), (NEAR_S, None)) as ds:
        with ds.loader(**pipeline(), **NAIVE) as loader:
            settings = loader.diagnose(budget_s=BUDGET_S).settings
        grid = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
        best = max(grid, key=lambda one: rate(rate_of(ds, {**pipeline(), **one})))
        turns = [
            (rate_of(ds, {**pipeline(), **NAIVE, **settings}), rate_of(ds, {**pipeline(), **best}))
            for _ in range(TURNS)
        ]
    seconds, rows = (sum(one) for one in zip(*(own for own, _ in turns), strict=True))
    of_best = statistics.median(rate(own) / rate(other) for own, other in turns)
    workers = float(settings.get("workers", 1))
    facts = {OF_BEST: of_best, "workers": workers, "best workers": float(best["workers"])}
    return Measurement(seconds, rows, facts=facts)


def rate(measured: tuple[float, int]) -> float:
    """Return rows per second."""
    seconds, rows = measured
    return rows / seconds


SETTINGS, NAIVELY = "proposed settings", "one worker"

BENCHMARKS = (
    Benchmark(
        name="diagnose",
        question="loaders that one thing holds back: does diagnose() name it?",
        unit="diagnoses/s",
        contenders=tuple(Contender(title, partial(run_case, title=title)) for title in TITLES),
        limits=(
            *(Limit(title, NAMED, at_least=1) for title in TITLES),
            *(Limit(title, BEYOND, at_most=10) for title in TITLES),
            *(Limit(title, ERROR, at_most=2) for title in ("transform sleeps", "slow step")),
        ),
        prepare=prepare,
    ),
    Benchmark(
        name="diagnose-settings",
        question="how fast is a pipeline with the settings that diagnose() proposes?",
        unit="rows/s",
        contenders=(
            Contender(SETTINGS, run_settings),
            Contender(NAIVELY, run_naive),
        ),
        goals=(Goal(SETTINGS, NAIVELY, 10),),
        limits=(Limit(SETTINGS, OF_BEST, at_least=0.9),),
        prepare=prepare,
    ),
)
