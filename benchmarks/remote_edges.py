"""How near the loader is to its limits over a network: the bare client, and the local disk.

The bare contenders make the same requests by obstore, without tensorlake (``limits/remote.py``). A
cache folder is filled by an uncounted process of its own, so that the counted one is a second job
on the same machine. Slow requests are the latency server's: one in a hundred takes 2 s.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import LAKE, Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement, stopwatch, warm_up
from benchmarks.limits.remote import bare_epoch, bare_first_batch
from benchmarks.loading import (
    IMAGES,
    SEED,
    SIDE,
    TOKENS,
    count_images,
    image_dataset,
    image_loader,
    token_dataset,
)
from benchmarks.remote import BARE_BATCH, BARE_EPOCH, LATENCY_MS, OPENED, first_batch
from benchmarks.storage import BARE_ROWS, rows_from_s3, same_ranges
from benchmarks.storage import token_dataset as stored_tokens

__all__ = ["BENCHMARKS"]

OURS = f"tensorlake, {LATENCY_MS:g} ms"
LOCAL, UNCACHED, CACHED = "local folder", "no cache_dir=", "the second process with cache_dir="
DECODING, KEPT = "decoded each time", "cache_decoded=True, the second epoch"
HEDGED, UNHEDGED = "tensorlake", "without hedged requests"
HEDGED_ROWS, UNHEDGED_ROWS = "rows read alone", "rows read alone, without hedged requests"
VECTORS, VECTOR_ROWS, VECTOR_NBYTES = "vectors-16k", 8192, 16 << 10
ROWS_A_BATCH, GROUP_BATCHES = 64, 4  # a group of rows has 4 MiB
FILL_TIMEOUT_S = 600
START_BATCHES = 4  # until it is known which time is usual
SMALL_RANGE_NBYTES = 128 << 10  # a thousand requests, of which ten are slow
SLOW_SHARE, SLOW_MS = 0.01, 2000.0


def epoch(
    workspace: Workspace, *, cache_dir: str | None, latency_ms: float = LATENCY_MS
) -> Measurement:
    """Pass once over the images of a server, in a process that has read none of them."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    warm_up()
    with latency_server(workspace.folder, latency_ms=latency_ms) as server:
        url, options = server.s3_url(f"{LAKE}/{IMAGES}"), server.storage_options
        with tl.open(url, read_only=True, storage_options=options) as ds:
            loader = ds.torch(**image_options(), cache_dir=cache_dir)
            server.reset()
            with stopwatch() as watch:
                rows = sum(count_images(batch) for batch in loader)
            seen = server.counters()
    facts = {"MB": seen.bytes_sent / 1e6, "GETs": float(seen.get)}
    return Measurement(watch.seconds, rows, watch.cpu_seconds, facts)


def image_options() -> dict[str, Any]:
    import tensorlake as tl

    return {
        "batch_size": 64,
        "shuffle": True,
        "seed": SEED,
        "columns": ["image", "label"],
        "decode": {"image": tl.decode.Resize(SIDE, SIDE)},
    }


def local_epoch(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    with tl.open(str(image_dataset(workspace)), read_only=True) as ds:
        loader = image_loader(ds)
        with stopwatch() as watch:
            rows = sum(count_images(batch) for batch in loader)
    return Measurement(watch.seconds, rows, watch.cpu_seconds)


def cached_epoch(workspace: Workspace) -> Measurement:
    """Fill a folder in another process, then read from it."""
    folder = workspace.scratch("disk-cache")
    fill = partial(epoch, workspace, cache_dir=str(folder))
    first = multiprocessing.get_context("spawn").Process(target=fill)
    first.start()
    first.join(FILL_TIMEOUT_S)
    if first.exitcode != 0:
        raise SystemExit(f"the process that fills the folder ended with {first.exitcode}")
    return epoch(workspace, cache_dir=str(folder))


def decoded_epoch(workspace: Workspace, *, is_kept: bool) -> Measurement:
    """Pass twice over local images; the second epoch counts."""
    import tensorlake as tl

    warm_up()
    folder = str(workspace.scratch("decoded-cache")) if is_kept else None
    with tl.open(str(image_dataset(workspace)), read_only=True) as ds:
        loader = ds.torch(**image_options(), cache_dir=folder, cache_decoded=is_kept)
        started = time.perf_counter()
        sum(count_images(batch) for batch in loader)
        first_s = time.perf_counter() - started
        with stopwatch() as watch:
            rows = sum(count_images(batch) for batch in loader)
    return Measurement(watch.seconds, rows, watch.cpu_seconds, {"first epoch s": first_s})


def slow_requests(workspace: Workspace, *, is_hedged: bool, by_row: bool = False) -> Measurement:
    """Time what a batch is waited for, at the 99th percentile, where some requests are slow."""
    import tensorlake as tl
    from tensorlake.loader.stages import fetch, hedge
    from tensorlake.testing import Conditions, latency_server

    warm_up()
    fetch.RANGE_NBYTES = SMALL_RANGE_NBYTES  # pyright: ignore[reportAttributeAccessIssue] - measured
    if not is_hedged:
        hedge.MOST_SHARE = 0.0  # pyright: ignore[reportAttributeAccessIssue] - measured
    # in order, each stall counts once; rows are read alone where memory is small
    how: dict[str, Any] = {"batch_size": 2048}
    if by_row:
        how = {"batch_size": ROWS_A_BATCH, "shuffle": True, "seed": SEED, "cache": "64KB"}
    with latency_server(workspace.folder) as server:
        name = f"{LAKE}/{VECTORS if by_row else TOKENS}"
        url, options = server.s3_url(name), server.storage_options
        with tl.open(url, read_only=True, storage_options=options) as ds:
            loader = ds.torch(prefetch="16MB", **how)
            server.set_conditions(
                Conditions(latency_ms=LATENCY_MS, slow_rate=SLOW_SHARE, slow_ms=SLOW_MS)
            )
            waits: list[float] = []
            with stopwatch() as watch:
                last = time.perf_counter()
                for _ in loader:
                    now = time.perf_counter()
                    waits.append(now - last)
                    last = now
            stats = loader.stats()
    # the last batches of a group of rows are there with its first
    each = GROUP_BATCHES if by_row else 1
    whole = [sum(waits[at : at + each]) for at in range(0, len(waits), each)][START_BATCHES:]
    p99 = float(np.percentile(whole, 99))
    facts = {"requests": float(stats.requests), "hedged": float(stats.hedged)}
    return replace(Measurement(p99, 1.0, watch.cpu_seconds), facts=facts)


def vector_dataset(workspace: Workspace) -> Path:
    """Write rows that are read alone where they do not fit into memory."""
    import tensorlake as tl

    target = workspace.lake / VECTORS
    if not target.exists():
        with tl.create(str(target), {"x": tl.Array("uint8", (VECTOR_NBYTES,))}) as ds:
            rng = np.random.default_rng(SEED)
            ds.extend({"x": rng.integers(0, 255, (VECTOR_ROWS, VECTOR_NBYTES), np.uint8)})
            ds.commit("all")
    return target


def _prepare(workspace: Workspace) -> None:
    image_dataset(workspace)
    token_dataset(workspace)
    vector_dataset(workspace)


BENCHMARKS = (
    Benchmark(
        name="edge-first-batch",
        question=f"the first 64 images of an open dataset; {LATENCY_MS:g} ms latency per request",
        unit="ms",
        contenders=(
            Contender(OPENED, partial(first_batch, opening=False)),
            Contender(BARE_BATCH, partial(bare_first_batch, latency_ms=LATENCY_MS)),
        ),
        goals=(Goal(OPENED, BARE_BATCH, at_least=1 / 1.15),),
        prepare=_prepare,
    ),
    Benchmark(
        name="edge-rows",
        question=f"1,000 random rows of 1 KiB; {LATENCY_MS:g} ms latency per request",
        unit="ms",
        contenders=(Contender(OURS, rows_from_s3), Contender(BARE_ROWS, partial(same_ranges, 256))),
        goals=(
            Goal(OURS, BARE_ROWS, at_least=1 / 1.25),
            Goal(OURS, BARE_ROWS, at_least=1 / 1.25, per="CPU second"),
        ),
        prepare=stored_tokens,
    ),
    Benchmark(
        name="edge-epoch",
        question=f"a first, shuffled epoch of JPEGs; {LATENCY_MS:g} ms latency per request",
        unit="img/s",
        contenders=(
            Contender(OURS, partial(epoch, cache_dir=None)),
            Contender(BARE_EPOCH, partial(bare_epoch, latency_ms=LATENCY_MS)),
        ),
        goals=(Goal(OURS, BARE_EPOCH, at_least=0.9),),
        prepare=_prepare,
    ),
    Benchmark(
        name="disk-cache",
        question=f"an epoch of JPEGs from a cache folder; {LATENCY_MS:g} ms latency per request",
        unit="img/s",
        contenders=(
            Contender(LOCAL, local_epoch),
            Contender(CACHED, cached_epoch),
            Contender(UNCACHED, partial(epoch, cache_dir=None)),
        ),
        goals=(Goal(CACHED, LOCAL, at_least=0.95),),
        prepare=_prepare,
    ),
    Benchmark(
        name="decoded-cache",
        question="an epoch of local JPEGs, decoded before",
        unit="img/s",
        contenders=(
            Contender(DECODING, partial(decoded_epoch, is_kept=False)),
            Contender(KEPT, partial(decoded_epoch, is_kept=True)),
        ),
        goals=(Goal(KEPT, DECODING, at_least=5.0),),
        prepare=_prepare,
    ),
    Benchmark(
        name="slow-requests",
        question="the 99th percentile of the wait for a batch; 1 % of requests take 2 s",
        unit="ms",
        contenders=(
            Contender(HEDGED, partial(slow_requests, is_hedged=True)),
            Contender(UNHEDGED, partial(slow_requests, is_hedged=False)),
            Contender(HEDGED_ROWS, partial(slow_requests, is_hedged=True, by_row=True)),
            Contender(UNHEDGED_ROWS, partial(slow_requests, is_hedged=False, by_row=True)),
        ),
        goals=(
            Goal(HEDGED, UNHEDGED, at_least=5.0),
            Goal(HEDGED_ROWS, UNHEDGED_ROWS, at_least=5.0),
        ),
        prepare=_prepare,
    ),
)
