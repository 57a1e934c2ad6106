"""Many writers of one branch over a network, and the memory of a long ingestion."""

from __future__ import annotations

import resource
import shutil
import threading
import time

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)
from benchmarks.remote import LATENCY_MS

__all__ = ["BENCHMARKS"]

WRITERS = 32
COMMITS = 64
"""In all, by all writers."""

BUCKET = "bucket"
BATCH_NBYTES = 64 << 20
SAMPLE_NBYTES = 16_384


def _commits(workspace: Workspace, writers: int) -> Measurement:
    """Let writers commit rows to one branch until there are enough; each in its own thread."""
    import tensorlake as tl
    from tensorlake.testing import Conditions, latency_server

    warm_up()
    commits = COMMITS // 2 if workspace.is_quick else COMMITS
    folder = workspace.scratch("writers")
    (folder / BUCKET).mkdir(parents=True)
    failures: list[Exception] = []
    with latency_server(folder) as server:
        url, options = server.s3_url(f"{BUCKET}/writers.tl"), server.storage_options
        tl.create(url, {"x": "int64"}, storage_options=options).close()
        handles = [tl.open(url, storage_options=options) for _ in range(writers)]
        start = threading.Barrier(writers + 1)

        def write(number: int) -> None:
            start.wait()
            try:
                for commit in range(commits // writers):
                    handles[number].append({"x": number})
                    handles[number].commit(f"{number}, {commit}")
            except Exception as error:  # noqa: BLE001 the other threads go on; it is raised below
                failures.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        server.set_conditions(Conditions(latency_ms=LATENCY_MS))
        server.reset()
        with stopwatch() as watch:
            start.wait()
            for thread in threads:
                thread.join()
        seen = server.counters()
        server.set_conditions(Conditions())
        if failures:
            raise failures[0]
        rows = len(tl.open(url, storage_options=options))
        if rows != commits // writers * writers:
            raise SystemExit(f"{commits} rows were committed, there are {rows}")
        for handle in handles:
            handle.close()
    facts = {"PUTs a commit": seen.put / rows, "GETs a commit": seen.get / rows}
    return Measurement(watch.seconds, rows, watch.cpu_seconds, facts)


def one_writer(workspace: Workspace) -> Measurement:
    return _commits(workspace, 1)


def many_writers(workspace: Workspace) -> Measurement:
    return _commits(workspace, WRITERS)


def long_ingestion(workspace: Workspace) -> Measurement:
    """Stream random samples into a folder; how much memory the process ever took.

    Not warmed up: that loads torch, whose 220 MB are not part of ingestion.
    """
    import tensorlake as tl

    total = (1 << 30) if workspace.is_quick else (10 << 30)
    folder = workspace.scratch("long.tl")
    free = shutil.disk_usage(folder.parent).free
    total = min(total, free // 2 // BATCH_NBYTES * BATCH_NBYTES)
    batch = np.random.default_rng(0).integers(
        0, 256, (BATCH_NBYTES // SAMPLE_NBYTES, SAMPLE_NBYTES), dtype=np.uint8
    )
    peaks: list[float] = []
    started = time.perf_counter()
    with tl.create(
        str(folder), {"x": tl.Array("uint8", shape=(SAMPLE_NBYTES,))}, durability="none"
    ) as ds:
        for number in range(total // BATCH_NBYTES):
            ds.extend({"x": batch})
            if number % 8 == 7:  # as an ingestion does every half gigabyte
                ds.commit(f"batch {number}")
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
        ds.commit("the rest")
    seconds = time.perf_counter() - started
    shutil.rmtree(folder)
    facts = {
        "GB": total / 1e9,
        "peak MB": peaks[-1],
        "peak MB after a fifth": peaks[len(peaks) // 5],
    }
    return Measurement(seconds, total / 1e6, facts=facts)


BENCHMARKS = (
    Benchmark(
        name="writers",
        question=f"one-row commits to one branch; {LATENCY_MS:g} ms added latency per request",
        unit="commits/s",
        contenders=(
            Contender("one writer", one_writer),
            Contender(f"{WRITERS} writers, together", many_writers),
        ),
        goals=(Goal(f"{WRITERS} writers, together", "one writer", at_least=0.5),),
    ),
    Benchmark(
        name="ingest-memory",
        question="memory while samples stream into a folder",
        unit="MB/s",
        contenders=(Contender("tensorlake", long_ingestion),),
        limits=(Limit("tensorlake", "peak MB", at_most=500),),
    ),
)
