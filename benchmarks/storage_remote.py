"""Opening, committing and random rows with 20 ms of added latency, beside other formats.

All are given the tokens of ``storage``, written to a folder and served by the latency server. A
store opened "for the first time" finds no connection and no client; after that a process has both.
"""

from __future__ import annotations

import shutil
import time
from typing import Any

import numpy as np

from benchmarks.harness.data import LAKE, Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Limit, Measurement, warm_up
from benchmarks.peers.storage import PEERS, peer_contenders, prepare_peers, tokens_file
from benchmarks.remote import LATENCY_MS, time_one_request
from benchmarks.storage import DATASET, OWN, rows_from_s3, token_dataset

__all__ = ["BENCHMARKS"]

TIMES = 20
FIRST_TIME = "first time ms"
ONE_REQUEST = "one request"


def one_request(workspace: Workspace) -> Measurement:
    from tensorlake.testing import latency_server

    token_dataset(workspace)
    with latency_server(workspace.folder, latency_ms=LATENCY_MS) as server:
        path = f"/{LAKE}/{DATASET}/tensorlake.json"
        seconds = time_one_request(server.endpoint, path, times=TIMES)
    return Measurement(seconds, 1.0)


def open_dataset(workspace: Workspace) -> Measurement:
    """Open it in a process that has opened nothing of this store, and then again."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    warm_up()

    def opened(server: Any) -> float:
        started = time.perf_counter()
        url = server.s3_url(f"{LAKE}/{DATASET}")
        with tl.open(url, storage_options=server.storage_options) as ds:
            len(ds)
            return time.perf_counter() - started

    with latency_server(workspace.folder, latency_ms=LATENCY_MS) as server:
        first_s = opened(server)
        server.reset()
        again = [opened(server) for _ in range(TIMES)]
        seen = server.counters()
    facts = {
        FIRST_TIME: first_s * 1000,
        "requests": seen.requests / TIMES,
        "MB": seen.bytes_sent / TIMES / 1e6,
    }
    return Measurement(sum(again) / TIMES, 1.0, facts=facts)


def append(workspace: Workspace) -> Measurement:
    """Append a row and commit it, a few times; the first time, uncounted, is to warm up."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    warm_up()
    folder = workspace.scratch("append-remote.tl")
    shutil.copytree(token_dataset(workspace), folder)
    row = {"tokens": np.array(np.load(tokens_file(workspace), mmap_mode="r")[0])}
    with latency_server(workspace.folder, latency_ms=LATENCY_MS) as server:
        url = server.s3_url(folder.relative_to(workspace.folder).as_posix())
        with tl.open(url, storage_options=server.storage_options) as ds:
            ds.append(row)
            ds.commit("the first")
            server.reset()
            started = time.perf_counter()
            for number in range(TIMES):
                ds.append(row)
                ds.commit(f"row {number}")
            seconds = (time.perf_counter() - started) / TIMES
            seen = server.counters()
    shutil.rmtree(folder)
    facts = {"requests": seen.requests / TIMES, "MB": seen.bytes_sent / TIMES / 1e6}
    return Measurement(seconds, 1.0, facts=facts)


def _prepare(workspace: Workspace) -> None:
    prepare_peers(workspace)
    token_dataset(workspace)


def _beside(task: str) -> tuple[Goal, ...]:
    return tuple(Goal(OWN[0], peer.name, at_least=1.0) for peer in PEERS if task in peer.tasks)


_LONGER = f"{LATENCY_MS:g} ms added latency per request"

BENCHMARKS = (
    Benchmark(
        name="open-20ms",
        question=f"reopening a dataset in the same process; {_LONGER}",
        unit="ms",
        contenders=(
            Contender(ONE_REQUEST, one_request),
            Contender(OWN[0], open_dataset),
            *peer_contenders("open", latency_ms=LATENCY_MS),
        ),
        goals=(Goal(OWN[0], ONE_REQUEST, at_least=1 / 2.3), *_beside("open")),
        prepare=_prepare,
    ),
    Benchmark(
        name="commit-20ms",
        question=f"appending a row of 1 KiB and committing it; {_LONGER}",
        unit="ms",
        contenders=(
            Contender(OWN[0], append),
            *peer_contenders("append", latency_ms=LATENCY_MS),
        ),
        goals=_beside("append"),
        limits=(Limit(OWN[0], "", at_most=50),),
        prepare=_prepare,
    ),
    Benchmark(
        name="scattered-rows-20ms",
        question=f"1,000 random rows of 1 KiB, beside other formats; {_LONGER}",
        unit="ms",
        contenders=(
            Contender(OWN[0], rows_from_s3),
            *peer_contenders("rows", latency_ms=LATENCY_MS),
        ),
        goals=_beside("rows"),
        prepare=_prepare,
    ),
)
