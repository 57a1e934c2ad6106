"""Opening, committing, ingesting rows and reading random ones, beside other formats.

All are given the same tokens: rows of 512 uint16, 1 KiB each. Other formats never call fsync; so
each task of ours that writes is there twice, with what we promise by default and without. A version
of an append is a commit; Zarr, MDS and LitData have none.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.harness.data import LAKE, TOKENS_PER_ROW, Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    durable_file,
    folder_nbytes,
    stopwatch,
    warm_up,
)
from benchmarks.limits.local import bare_preads
from benchmarks.limits.remote import bare_ranges
from benchmarks.peers.storage import PEERS, peer_contenders, prepare_peers, tokens_file
from benchmarks.remote import LATENCY_MS

if TYPE_CHECKING:
    from tensorlake import Dataset

__all__ = [
    "BARE_ROWS",
    "BENCHMARKS",
    "DATASET",
    "OWN",
    "rows_from_s3",
    "same_ranges",
    "token_dataset",
]

Durability = Literal["fsync", "none"]
DATASET = "tokens.tl"
TIMES = 20
TENSORS = 10
SCATTERED = 1000
BARE_ROWS = "the same ranges by obstore, 256 in flight"
OWN = ("tensorlake", "tensorlake, no fsync")


def token_dataset(workspace: Workspace) -> Path:
    """Return the dataset of tokens, written when it is first needed."""
    folder = workspace.lake / DATASET
    if not folder.exists():
        _write(folder, np.load(tokens_file(workspace)), "none")
    return folder


def _write(folder: Path, values: np.ndarray, durability: Durability) -> None:
    import tensorlake as tl

    schema = {"tokens": tl.Array("uint16", shape=(TOKENS_PER_ROW,))}
    with tl.create(str(folder), schema, durability=durability) as ds:
        ds.extend({"tokens": values})
        ds.commit("all")


def open_dataset(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    folder = str(token_dataset(workspace))
    with stopwatch() as watch:
        for _ in range(TIMES):
            with tl.open(folder) as ds:
                len(ds)
    return Measurement(watch.seconds / TIMES, 1.0)


def append(workspace: Workspace, *, durability: Durability) -> Measurement:
    import tensorlake as tl

    warm_up()
    values = np.load(tokens_file(workspace), mmap_mode="r")
    folder = workspace.scratch("append.tl")
    _write(folder, np.array(values[:10_000]), durability)
    row = {"tokens": np.array(values[0])}
    with tl.open(str(folder), durability=durability) as ds:
        return _timed_appends(ds, row)


def _timed_appends(ds: Dataset, row: dict[str, Any]) -> Measurement:
    """Append a row and commit it, a few times; the first time, uncounted, is to warm up."""
    ds.append(row)
    ds.commit("the first")
    with stopwatch() as watch:
        for number in range(TIMES):
            ds.append(row)
            ds.commit(f"row {number}")
    return Measurement(watch.seconds / TIMES, 1.0, watch.cpu_seconds / TIMES)


def append_to_ten_tensors(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    folder = workspace.scratch("ten.tl")
    values = np.load(tokens_file(workspace), mmap_mode="r")
    numbers = {f"number{at}": at for at in range(TENSORS - 1)}
    schema = dict.fromkeys(numbers, "int64")
    row = {"tokens": np.array(values[0]), **numbers}
    with tl.create(
        str(folder),
        {"tokens": tl.Array("uint16", shape=(TOKENS_PER_ROW,)), **schema},
        durability="none",
    ) as ds:
        return _timed_appends(ds, row)


def two_files_with_fsync(workspace: Workspace) -> Measurement:
    """The minimum of a commit: two new files, each durable and in a durable folder."""
    folder = workspace.scratch("files")
    folder.mkdir()
    with stopwatch() as watch:
        for number in range(2 * TIMES):
            with durable_file(folder / f"{number}") as file:
                file.write(bytes(4096))
            _sync_folder(folder)
    return Measurement(watch.seconds / TIMES, 1.0)


def two_files_named_when_whole(workspace: Workspace) -> Measurement:
    """The same, and half a file is never visible: each gets its name when it is on the disk."""
    folder = workspace.scratch("named")
    (folder / "scratch").mkdir(parents=True)
    with stopwatch() as watch:
        for number in range(2 * TIMES):
            scratch, name = folder / "scratch" / f"{number}", folder / f"{number}"
            with durable_file(scratch, "xb") as file:
                file.write(bytes(4096))
            name.hardlink_to(scratch)
            scratch.unlink()
            _sync_folder(folder)
    return Measurement(watch.seconds / TIMES, 1.0, watch.cpu_seconds / TIMES)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def ingest(workspace: Workspace, *, durability: Durability) -> Measurement:
    warm_up()
    values = np.load(tokens_file(workspace))
    folder = workspace.scratch("ingest.tl")
    with stopwatch() as watch:
        _write(folder, values, durability)
    facts = {"stored MB": folder_nbytes(folder) / 1e6}
    return Measurement(watch.seconds, values.nbytes / 1e6, watch.cpu_seconds, facts)


def plain_file(workspace: Workspace) -> Measurement:
    values = np.load(tokens_file(workspace))
    target = workspace.scratch("tokens.npy")
    with stopwatch() as watch, durable_file(target) as file:
        np.save(file, values)
    target.unlink()
    return Measurement(watch.seconds, values.nbytes / 1e6, watch.cpu_seconds)


def _scattered(count: int) -> np.ndarray:
    return np.random.default_rng(0).choice(count, SCATTERED, replace=False)


def rows_from_folder(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    with tl.open(str(token_dataset(workspace)), read_only=True) as ds:
        rows = _scattered(len(ds))
        with stopwatch() as watch:
            found = ds["tokens"][rows]
    assert found.shape == (SCATTERED, TOKENS_PER_ROW)
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds)


def rows_from_s3(workspace: Workspace) -> Measurement:
    import tensorlake as tl
    from tensorlake.testing import Conditions, latency_server

    warm_up()
    with latency_server(workspace.folder) as server:
        url, options = server.s3_url(f"{LAKE}/{DATASET}"), server.storage_options
        with tl.open(url, read_only=True, storage_options=options) as ds:
            server.set_conditions(Conditions(latency_ms=LATENCY_MS))
            server.reset()
            rows = _scattered(len(ds))
            with stopwatch() as watch:
                found = ds["tokens"][rows]
            seen = server.counters()
            server.set_conditions(Conditions())
    assert found.shape == (SCATTERED, TOKENS_PER_ROW)
    facts = {
        "requests": float(seen.requests),
        "MB": seen.bytes_sent / 1e6,
        "in flight": float(seen.max_in_flight),
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def same_ranges(in_flight: int, workspace: Workspace) -> Measurement:
    """Our requests, including the index, as if they were known before: one trip less than ours."""
    return bare_ranges(
        workspace, name=DATASET, use=_use_rows, in_flight=in_flight, latency_ms=LATENCY_MS
    )


def same_preads(workspace: Workspace) -> Measurement:
    """Our reads of the packs, as if they were known before, without the index."""
    return bare_preads(token_dataset(workspace), _use_rows)


def _use_rows(ds: Dataset) -> None:
    ds["tokens"][_scattered(len(ds))]


def _prepare(workspace: Workspace) -> None:
    prepare_peers(workspace)
    token_dataset(workspace)


def _beside(task: str, own: str) -> tuple[Goal, ...]:
    return tuple(Goal(own, peer.name, at_least=1.0) for peer in PEERS if task in peer.tasks)


BENCHMARKS = (
    Benchmark(
        name="open-local",
        question="reopening a dataset in a local folder",
        unit="ms",
        contenders=(Contender(OWN[0], open_dataset), *peer_contenders("open")),
        prepare=_prepare,
    ),
    Benchmark(
        name="commit-local",
        question="appending a row of 1 KiB and committing it, in a local folder",
        unit="ms",
        contenders=(
            Contender("two files, fsync", two_files_with_fsync),
            Contender("two files, fsync, link, fsync", two_files_named_when_whole),
            Contender(OWN[0], partial(append, durability="fsync")),
            Contender(OWN[1], partial(append, durability="none")),
            *peer_contenders("append"),
        ),
        goals=_beside("append", OWN[1]),
        limits=(Limit(OWN[0], "", at_most=3.0), Limit(OWN[1], "", at_most=1.5)),
        prepare=_prepare,
    ),
    Benchmark(
        name="commit-ten-tensors",
        question="appending a row to ten tensors and committing it, in a local folder, no fsync",
        unit="ms",
        contenders=(Contender(OWN[0], append_to_ten_tensors),),
        limits=(Limit(OWN[0], "", at_most=3.0),),
    ),
    Benchmark(
        name="ingest-tokens",
        question="ingestion of rows of 1 KiB from memory into a local folder",
        unit="MB/s",
        contenders=(
            Contender("one .npy file, fsync", plain_file),
            Contender(OWN[0], partial(ingest, durability="fsync")),
            Contender(OWN[1], partial(ingest, durability="none")),
            *peer_contenders("ingest"),
        ),
        goals=_beside("ingest", OWN[1]),
        limits=(Limit(OWN[1], "", at_least=1000),),
        prepare=_prepare,
    ),
    Benchmark(
        name="scattered-rows-local",
        question="1,000 random rows of 1 KiB from a local folder",
        unit="ms",
        contenders=(
            Contender("the same ranges by pread and xxh3", same_preads),
            Contender(OWN[0], rows_from_folder),
            *peer_contenders("rows"),
        ),
        goals=_beside("rows", OWN[0]),
        limits=(Limit(OWN[0], "", at_most=7.0),),
        prepare=_prepare,
    ),
    Benchmark(
        name="scattered-rows-remote",
        question=f"1,000 random rows of 1 KiB, {LATENCY_MS:g} ms added latency per request",
        unit="ms",
        contenders=(
            Contender("the same ranges by obstore, 128 in flight", partial(same_ranges, 128)),
            Contender(BARE_ROWS, partial(same_ranges, 256)),
            Contender(OWN[0], rows_from_s3),
        ),
        limits=(Limit(OWN[0], "", at_most=200), Limit(OWN[0], "MB", at_most=12)),
        prepare=_prepare,
    ),
)
