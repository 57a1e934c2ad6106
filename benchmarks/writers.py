"""Many writers of one branch over a network, and the memory of a long ingestion."""

from __future__ import annotations

import http.client
import json
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

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

APPENDS = 512
"""In all, by all clients of a server."""

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


def grouped_writers(workspace: Workspace) -> Measurement:
    """Let clients of one server append rows to one branch; each waits for its answer."""
    import tensorlake as tl
    from tensorlake.testing import Conditions, latency_server

    warm_up()
    appends = APPENDS // 4 if workspace.is_quick else APPENDS
    folder = workspace.scratch("grouped")
    (folder / BUCKET).mkdir(parents=True)
    failures: list[str] = []
    with latency_server(folder) as server:
        url, options = server.s3_url(BUCKET), server.storage_options
        tl.create(f"{url}/writers.tl", {"x": "int64"}, storage_options=options).close()
        start = threading.Barrier(WRITERS + 1)

        def write(netloc: str, token: str, number: int) -> None:
            connection = http.client.HTTPConnection(netloc, timeout=60)
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            body = json.dumps({"operations": [{"op": "append", "columns": {"x": [number]}}]})
            start.wait()
            for _ in range(appends // WRITERS):
                connection.request("POST", "/v1/datasets/writers.tl/transactions", body, headers)
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status != http.HTTPStatus.OK:
                    failures.append(text)

        with _server(url, options) as (netloc, token):
            threads = [
                threading.Thread(target=write, args=(netloc, token, number))
                for number in range(WRITERS)
            ]
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
            raise SystemExit(failures[0])
        ds = tl.open(f"{url}/writers.tl", storage_options=options)
        if len(ds) != appends // WRITERS * WRITERS:
            raise SystemExit(f"{appends} rows were acknowledged, there are {len(ds)}")
        facts = {
            "appends a commit": len(ds) / (len(ds.log()) - 1),
            "PUTs a commit": seen.put / len(ds),
            "GETs a commit": seen.get / len(ds),
        }
        return Measurement(watch.seconds, len(ds), facts=facts)


@contextmanager
def _server(url: str, options: dict[str, str]) -> Generator[tuple[str, str]]:
    """Serve a lake for writing, in a process of its own; yields ``host:port`` and a token."""
    command = [sys.executable, "-m", "tensorlake_server", url, "--port", "0", "--write"]
    for name, value in options.items():
        command += ["--storage-option", f"{name}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None, "the server did not start"
            parts = urlsplit(found[0])
            yield parts.netloc, parts.fragment.removeprefix("token=")
        finally:
            process.kill()


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
            Contender(f"{WRITERS} clients of a server", grouped_writers),
        ),
        goals=(
            Goal(f"{WRITERS} writers, together", "one writer", at_least=0.5),
            Goal(f"{WRITERS} clients of a server", f"{WRITERS} writers, together", at_least=10),
        ),
    ),
    Benchmark(
        name="ingest-memory",
        question="memory while samples stream into a folder",
        unit="MB/s",
        contenders=(Contender("tensorlake", long_ingestion),),
        limits=(Limit("tensorlake", "peak MB", at_most=500),),
    ),
)
