"""The first search of a distant index: round trips, bytes and milliseconds, at 20 ms a request.

The dataset has just been opened, so that nothing of the index is in memory; the client and its
connections are there. Each question has a handle of its own.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, warm_up
from benchmarks.remote import LATENCY_MS
from benchmarks.search import K, texts_dataset, texts_folder, vectors_dataset, vectors_folder

__all__ = ["BENCHMARKS"]

SEARCHES = 10
TRIPS, MOST_MB, MOST_MS = 3, 1.0, 120.0


def cold(workspace: Workspace, column: str) -> Measurement:
    """Open, search once, and close, several times; the medians of one search."""
    from benchmarks.scale import open_on
    from tensorlake.storage import open_store
    from tensorlake.testing import Conditions, CountingStore, latency_server

    warm_up()
    make = vectors_dataset if column == "vec" else texts_dataset
    make(workspace).close()
    folder = (vectors_folder if column == "vec" else texts_folder)(workspace)
    asked: list[Any] = (
        [*np.load(folder / "queries.npy")]
        if column == "vec"
        else json.loads((folder / "questions.json").read_text())
    )
    seconds: list[float] = []
    trips: list[int] = []
    nbytes: list[int] = []
    with latency_server(folder.parent) as server:
        url, options = server.s3_url(f"{folder.name}/ours.tl"), server.storage_options
        store = CountingStore(open_store(url, storage_options=options))
        for number in range(SEARCHES + 1):  # the first one opens the connections
            server.set_conditions(Conditions())
            ds = open_on(store)
            len(ds)
            server.set_conditions(Conditions(latency_ms=LATENCY_MS))
            store.reset()
            started = time.perf_counter()
            len(ds.search(column, asked[number], K))
            if number:
                seconds.append(time.perf_counter() - started)
                trips.append(store.round_trips)
                nbytes.append(store.bytes_read)
            ds.close()
        server.set_conditions(Conditions())
    facts = {
        "round trips": float(np.median(trips)),
        "most trips": float(max(trips)),
        "MB": float(np.median(nbytes)) / 1e6,
    }
    return Measurement(float(np.median(seconds)), 1.0, facts=facts)


def _benchmark(name: str, question: str, column: str, *limits: Limit) -> Benchmark:
    return Benchmark(
        name,
        question,
        "ms",
        (Contender("tensorlake", partial(cold, column=column)),),
        limits=(Limit("tensorlake", "most trips", at_most=TRIPS), *limits),
    )


BENCHMARKS = (
    _benchmark(
        "search-vectors-cold",
        f"The first 10 nearest of 10⁶ × 128, {LATENCY_MS:g} ms latency per request",
        "vec",
        Limit("tensorlake", "", at_most=MOST_MS),
        Limit("tensorlake", "MB", at_most=MOST_MB),
    ),
    _benchmark(
        "search-texts-cold",
        f"The first 10 best of 10⁶ short texts, {LATENCY_MS:g} ms latency per request",
        "text",
    ),
)
