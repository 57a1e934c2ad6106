"""Over a network: the same epoch when each request takes 20 ms longer, and the first batch.

The store is ``tensorlake.testing``'s latency server in a process of its own. Nothing is cached on
disk; every run opens the dataset anew, so that every byte comes over the wire once.
"""

from __future__ import annotations

import http.client
import time
from functools import partial
from urllib.parse import urlsplit

from benchmarks.harness.data import LAKE, Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement, stopwatch, warm_up
from benchmarks.limits.remote import bare_epoch, bare_first_batch
from benchmarks.loading import IMAGES, count_images, image_dataset, image_loader

__all__ = ["BENCHMARKS", "LATENCY_MS", "time_one_request"]

LATENCY_MS = 20.0
REQUESTS = 10
TEN_REQUESTS = "ten requests, one by one"
BARE_EPOCH = f"the same chunks by obstore, {LATENCY_MS:g} ms, decoded by two threads"
BARE_BATCH = "the same ranges by obstore in two trips, decoded by two threads"
OPENED, OPENING = "tensorlake, of an open dataset", "tensorlake, from tl.open on"


def _whole_epoch(url: str, storage_options: dict[str, str] | None) -> Measurement:
    import tensorlake as tl

    warm_up()
    with tl.open(url, read_only=True, storage_options=storage_options) as ds:
        loader = image_loader(ds)
        with stopwatch() as watch:
            rows = sum(count_images(batch) for batch in loader)
        if rows != len(ds):
            raise SystemExit(f"an epoch has {len(ds)} rows; this one had {rows}")
    return Measurement(watch.seconds, rows, watch.cpu_seconds)


def epoch_from_folder(workspace: Workspace) -> Measurement:
    return _whole_epoch(str(image_dataset(workspace)), None)


def epoch_at_no_latency(workspace: Workspace) -> Measurement:
    return _epoch_from_server(workspace, latency_ms=0.0)


def epoch_at_latency(workspace: Workspace) -> Measurement:
    return _epoch_from_server(workspace, latency_ms=LATENCY_MS)


def _epoch_from_server(workspace: Workspace, *, latency_ms: float) -> Measurement:
    from dataclasses import replace

    from tensorlake.testing import latency_server

    with latency_server(workspace.folder, latency_ms=latency_ms) as server:
        measured = _whole_epoch(server.s3_url(f"{LAKE}/{IMAGES}"), server.storage_options)
        seen = server.counters()
    facts = {
        "requests": float(seen.requests),
        "MB": seen.bytes_sent / 1e6,
        "in flight": float(seen.max_in_flight),
    }
    return replace(measured, facts=facts)


def time_one_request(endpoint: str, path: str, *, times: int) -> float:
    """Ask for the head of an object on one connection, a few times; mean seconds."""
    address = urlsplit(endpoint)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    started = time.perf_counter()
    for _ in range(times):
        connection.request("HEAD", path)
        connection.getresponse().read()
    seconds = (time.perf_counter() - started) / times
    connection.close()
    return seconds


def ten_requests(workspace: Workspace) -> Measurement:
    from tensorlake.testing import latency_server

    with latency_server(workspace.folder, latency_ms=LATENCY_MS) as server:
        path = f"/{LAKE}/{IMAGES}/tensorlake.json"
        seconds = REQUESTS * time_one_request(server.endpoint, path, times=REQUESTS)
    return Measurement(seconds, 1.0)


def first_batch(workspace: Workspace, *, opening: bool) -> Measurement:
    """Time the first batch, from `tl.open` on or of a dataset that is open."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    warm_up()
    with latency_server(workspace.folder, latency_ms=LATENCY_MS) as server:
        url = server.s3_url(f"{LAKE}/{IMAGES}")
        options = server.storage_options
        with stopwatch() as watch:
            started = time.perf_counter()
            ds = tl.open(url, read_only=True, storage_options=options)
            open_s = time.perf_counter() - started  # a stopwatch here would be in the other's time
            batches = iter(image_loader(ds))
            count_images(next(batches))
        seen = server.counters()
        ds.close()
    facts = {"requests": float(seen.requests)}
    seconds = watch.seconds if opening else watch.seconds - open_s
    return Measurement(seconds, 1.0, watch.cpu_seconds, facts)


def _prepare(workspace: Workspace) -> None:
    image_dataset(workspace)


BENCHMARKS = (
    Benchmark(
        name="epoch-remote",
        question=f"a first, shuffled epoch of JPEGs; {LATENCY_MS:g} ms added latency per request",
        unit="img/s",
        contenders=(
            Contender("local folder", epoch_from_folder),
            Contender("S3, no latency", epoch_at_no_latency),
            Contender(f"S3, {LATENCY_MS:g} ms", epoch_at_latency),
            Contender(BARE_EPOCH, partial(bare_epoch, latency_ms=LATENCY_MS)),
        ),
        goals=(Goal(f"S3, {LATENCY_MS:g} ms", "local folder", at_least=1 / 1.3),),
        prepare=_prepare,
    ),
    Benchmark(
        name="first-batch-remote",
        question=f"the first 64 images, {LATENCY_MS:g} ms latency per request",
        unit="ms",
        contenders=(
            Contender(TEN_REQUESTS, ten_requests),
            Contender(BARE_BATCH, partial(bare_first_batch, latency_ms=LATENCY_MS)),
            Contender(OPENED, partial(first_batch, opening=False)),
            Contender(OPENING, partial(first_batch, opening=True)),
        ),
        goals=tuple(Goal(ours, TEN_REQUESTS, at_least=1.0) for ours in (OPENED, OPENING)),
        prepare=_prepare,
    ),
)
