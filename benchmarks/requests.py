"""How many requests opening, committing and reading take, and how long, at 20 ms more for each.

Opening is of a dataset that the process has opened before, so its client and connections are there;
``storage_remote`` also tells the first time, which reads the machine's certificates.
"""

from __future__ import annotations

from benchmarks.harness.data import NUM_LABELS, Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)
from benchmarks.remote import LATENCY_MS, time_one_request

__all__ = ["BENCHMARKS"]

TIMES = 10
BUCKET = "bucket"
DATASET = f"{BUCKET}/small.tl"


def one_request(workspace: Workspace) -> Measurement:
    from tensorlake.testing import latency_server

    folder = workspace.scratch("one-request")
    (folder / BUCKET).mkdir(parents=True)
    (folder / BUCKET / "object").write_bytes(b"x")
    with latency_server(folder, latency_ms=LATENCY_MS) as server:
        seconds = time_one_request(server.endpoint, f"/{BUCKET}/object", times=TIMES)
    return Measurement(seconds, 1.0)


def open_dataset(workspace: Workspace) -> Measurement:
    return _measure(workspace, is_commit=False)


def append_and_commit(workspace: Workspace) -> Measurement:
    return _measure(workspace, is_commit=True)


def _measure(workspace: Workspace, *, is_commit: bool) -> Measurement:
    import time

    import tensorlake as tl
    from tensorlake.testing import Conditions, latency_server

    warm_up()
    folder = workspace.scratch("requests")
    (folder / BUCKET).mkdir(parents=True)
    row = {"x": 1.0, "label": "0"}
    with latency_server(folder) as server:
        url, options = server.s3_url(DATASET), server.storage_options
        names = [str(name) for name in range(NUM_LABELS)]
        schema = {"x": "float32", "label": tl.ClassLabel(names)}
        ds = tl.create(url, schema, storage_options=options)
        for number in range(3):
            ds.append(row)
            ds.commit(f"row {number}")
        server.set_conditions(Conditions(latency_ms=LATENCY_MS))
        server.reset()
        started = time.perf_counter()
        for number in range(TIMES):
            if is_commit:
                ds.append(row)
                ds.commit(f"one more, {number}")
            else:
                tl.open(url, storage_options=options).close()
        seconds = (time.perf_counter() - started) / TIMES
        seen = server.counters()
        server.set_conditions(Conditions())
        ds.close()
    facts = {
        name: count / TIMES
        for name, count in {
            "GET": seen.get,
            "HEAD": seen.head,
            "PUT": seen.put,
            "LIST": seen.list,
        }.items()
    }
    return Measurement(seconds, 1.0, facts=facts)


COMMITS = 10_000
RANDOM_ROWS = 1000


def random_rows(workspace: Workspace) -> Measurement:
    """Read random rows after as many commits of one row, from memory: requests are counted."""
    import numpy as np

    from benchmarks.scale import open_on
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.format import Schema
    from tensorlake.storage import MemoryStore, runtime
    from tensorlake.testing import CountingStore
    from tensorlake.versions import create_dataset

    warm_up()
    commits = COMMITS // 10 if workspace.is_quick else COMMITS
    store = CountingStore(MemoryStore())
    schema = Schema.new({"x": "float32", "label": "int64"}).to_json()
    made = runtime.run(create_dataset(store, schema, grace_s=86_400, exist_ok=False))
    ds = Dataset(Session(store, made))
    with stopwatch() as committing:
        for number in range(commits):
            ds.append({"x": number, "label": number})
            ds.commit()
    ds.close()
    reader = open_on(store)
    rows = np.random.default_rng(0).permutation(commits)[:RANDOM_ROWS]
    store.reset()
    with stopwatch() as watch:
        found = reader["label"][rows]
    assert np.array_equal(found, rows)
    facts = {
        "requests": float(store.count()),
        "KB": store.bytes_read / 1000,
        "ms a commit": committing.seconds / commits * 1000,
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


BENCHMARKS = (
    Benchmark(
        name="rows-of-small-commits",
        question=f"{RANDOM_ROWS:,} random rows after {COMMITS:,} commits of one row",
        unit="ms",
        contenders=(Contender("tensorlake", random_rows),),
        limits=(Limit("tensorlake", "requests", at_most=100),),
    ),
    Benchmark(
        name="requests",
        question=f"opening, and committing an appended row, {LATENCY_MS:g} ms latency per request",
        unit="ms",
        contenders=(
            Contender("one request", one_request),
            Contender("open", open_dataset),
            Contender("append a row, commit", append_and_commit),
        ),
        goals=(
            Goal("open", "one request", at_least=1 / 2.3),
            Goal("append a row, commit", "one request", at_least=1 / 2.5),
        ),
    ),
)
