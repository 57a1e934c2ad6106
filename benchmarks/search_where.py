"""Conditions answered by indexes, beside DuckDB's scans of the same columns in memory.

10⁷ rows: a label of 1,000 classes with a bitmap, a price with a btree. Both have two threads.
Appending to a dataset with indexes is compared with one without.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
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

CLASSES, REPEATS, THREADS = 1000, 50, 2
APPENDED = 10_000

CONDITIONS = {
    "label": ("WHERE label = 'c7'", "label = 7"),
    "few": ("WHERE price >= 0.5 AND price < 0.501", "price >= 0.5 AND price < 0.501"),
    "many": ("WHERE price >= 0.5 AND price < 0.6", "price >= 0.5 AND price < 0.6"),
}


def _columns(count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "label": random.integers(0, CLASSES, count),
        "price": random.random(count).astype(np.float32),
    }


def _count(workspace: Workspace) -> int:
    return 100_000 if workspace.is_quick else 10_000_000


def _dataset(workspace: Workspace, count: int, *, indexed: bool = True) -> Any:
    import tensorlake as tl

    url = str(workspace.lake / f"search-where-{count}-{indexed}")
    if not (workspace.lake / f"search-where-{count}-{indexed}").exists():
        names = [f"c{number}" for number in range(CLASSES)]
        ds = tl.create(url, {"label": tl.ClassLabel(names), "price": "float32"})
        ds.extend(_columns(count))
        if indexed:
            ds.create_index("label")
            ds.create_index("price")
        ds.commit("rows")
    return tl.open(url)


def ours(workspace: Workspace, which: str, *, indexed: bool = True) -> Measurement:
    """Find the rows of a condition."""
    warm_up()
    ds = _dataset(workspace, _count(workspace), indexed=indexed)
    return _timed(lambda: ds.query(CONDITIONS[which][0]).rows)


def duckdb(workspace: Workspace, which: str) -> Measurement:
    """Find them by a scan of a table in memory."""
    if importlib.util.find_spec("duckdb") is None:
        return Measurement(0, 0, note="duckdb is not installed in this environment")
    import duckdb as engine
    import pyarrow as pa

    connection = engine.connect()
    connection.execute(f"SET threads = {THREADS}")
    columns = _columns(_count(workspace))
    rows = np.arange(len(columns["price"]))
    table = pa.table({"row": rows, **columns, "label": columns["label"].astype(np.int16)})
    connection.register("given", table)
    connection.execute("CREATE TABLE stored AS SELECT * FROM given")
    text = f"SELECT row FROM stored WHERE {CONDITIONS[which][1]}"
    return _timed(lambda: connection.execute(text).fetchnumpy()["row"])


def append(workspace: Workspace, *, indexed: bool) -> Measurement:
    """Append rows and commit."""
    warm_up()
    ds = _dataset(workspace, _count(workspace) // 10, indexed=indexed)
    added = _columns(APPENDED)
    with stopwatch() as watch:
        ds.extend(added)
        ds.commit("more")
    return Measurement(watch.seconds, APPENDED, watch.cpu_seconds)


def _timed(work: Callable[[], Any]) -> Measurement:
    found = len(work())
    work()
    with stopwatch() as watch:
        for _ in range(REPEATS):
            work()
    return Measurement(watch.seconds, REPEATS, watch.cpu_seconds, {"rows": found})


def _benchmark(which: str, title: str, goal: float) -> Benchmark:
    return Benchmark(
        f"search-where-{which}",
        title,
        "queries",
        (
            Contender("tensorlake", partial(ours, which=which)),
            Contender("tensorlake, no index", partial(ours, which=which, indexed=False)),
            Contender("DuckDB", partial(duckdb, which=which)),
        ),
        goals=(Goal("tensorlake", "DuckDB", goal),),
    )


BENCHMARKS = (
    _benchmark("label", "Find one label of 1,000 in 10⁷ rows, by a bitmap", 100),
    _benchmark("few", "Find 0.1 % of 10⁷ rows by a range, by a btree", 20),
    _benchmark("many", "Find 10 % of 10⁷ rows by a range, by a btree", 1.3),
    Benchmark(
        "search-append",
        "Append 10⁴ rows to 10⁶, and commit",
        "rows",
        (
            Contender("tensorlake, indexed", partial(append, indexed=True)),
            Contender("tensorlake", partial(append, indexed=False)),
        ),
        goals=(Goal("tensorlake, indexed", "tensorlake", 1.0),),
    ),
)
