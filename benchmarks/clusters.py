"""``map`` on a Ray cluster of this machine, beside threads: rows a second with as many workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Measurement,
    stopwatch,
    warm_up,
)

__all__ = ["BENCHMARKS"]

WORKERS = 2
DIMENSIONS = 256
STEPS = 300
"""Products of a batch with a matrix: a small model, which leaves the interpreter lock."""


class Model:
    """Embeds batches; each worker makes one."""

    def __init__(self) -> None:
        self.weights = np.random.default_rng(0).random((DIMENSIONS, DIMENSIONS), np.float32) / 128

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        values = batch["x"]
        for _ in range(STEPS):
            values = np.tanh(values @ self.weights)
        return {"vec": values[:, :16]}


def _rows(workspace: Workspace) -> str:
    import tensorlake as tl

    url = str(workspace.lake / "map-rows.tl")
    rows = 4096 if workspace.is_quick else 32_768
    if not tl.exists(url):
        with tl.create(url, {"x": tl.Array("float32", (DIMENSIONS,))}) as ds:
            ds.extend({"x": np.random.default_rng(1).random((rows, DIMENSIONS), np.float32)})
            ds.commit("rows")
    return url


def _mapped(workspace: Workspace, engine: Any) -> Measurement:
    import tensorlake as tl

    with tl.open(_rows(workspace)) as ds, stopwatch() as watch:
        schema = {"vec": tl.Array("float32", (16,))}
        ds.map(Model, schema=schema, batch_size=64, engine=engine, workers=WORKERS)
        ds.discard()
    return Measurement(watch.seconds, float(len(ds)), watch.cpu_seconds)


def in_threads(workspace: Workspace) -> Measurement:
    """Map in threads of this process."""
    warm_up()
    return _mapped(workspace, "threads")


def on_ray(workspace: Workspace) -> Measurement:
    """Map in workers of a local cluster, which has started; its workers have not."""
    try:
        import ray  # pyright: ignore[reportMissingImports] - of the extra `ray`
    except ImportError:
        return Measurement(1.0, 0.0, note="needs the extra 'ray'")
    import sys

    warm_up()
    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200_000_000,
        _system_config={"worker_niceness": 0},
    )
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return _mapped(workspace, "ray")
    finally:
        ray.shutdown()


BENCHMARKS = (
    Benchmark(
        name="map-ray",
        question=f"a small model over rows, {WORKERS} workers; the start of Ray's workers counts",
        unit="rows/s",
        contenders=(Contender("threads", in_threads), Contender("Ray", on_ray)),
        goals=(Goal("Ray", "threads", at_least=0.8),),
        prepare=_rows,
    ),
)
