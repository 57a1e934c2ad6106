"""The first batch of 10⁹ rows over a network, beside that of 10³: what a large index costs.

Both datasets are of samples of 4 KiB in chunks of a hundred. The index of the large one is grown as
commits of 8 GiB grow it, each by the writer's ``tree.append`` and published as an entry of its own:
about 7,634 leaves of full size, every one of them written, 6 GB. Only the bytes of its chunks are
synthetic: those of one leaf's worth are stored, 131,000 rows, and the packs of all others are hard
links to these, so every chunk has a place of its own and every row can be read.

    few    1,000 rows, their extents in the log entry itself: no page to read
    many   10⁹ rows, a tree of height 2
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness.data import LAKE, Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Limit, Measurement, warm_up
from benchmarks.remote import LATENCY_MS

if TYPE_CHECKING:
    from tensorlake.format import Extents, TensorSpec
    from tensorlake.storage import Store

__all__ = ["BENCHMARKS", "write_rows"]

ROWS_A_CHUNK = 100
SAMPLE_NBYTES = 4096
FEW_ROWS, MANY_ROWS = 1_000, 10**9
QUICK_ROWS = 10**7
COMMIT_LEAVES = 16  # of 131,000 rows of 4 KiB: 8 GiB, as ingestion commits
BATCH = 64
FEW, MANY = "10³ rows", "10⁹ rows"
WINDOW = "window"


def lake_of(workspace: Workspace, rows: int) -> Path:
    """Return a dataset of that many rows, written on the first call."""
    from tensorlake.storage import open_store

    folder = workspace.lake / f"rows-{rows}.tl"
    if not (folder / "done").exists():

        def link(source: str, target: str) -> None:
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            (folder / target).hardlink_to(folder / source)

        write_rows(open_store(str(folder), durability="none"), rows, link=link)
        (folder / "done").touch()
    return folder


def write_rows(
    store: Store,
    rows: int,
    *,
    different_chunks: int | None = None,
    link: Callable[[str, str], None] | None = None,
) -> None:
    """Write a dataset of that many rows into an empty store.

    Args:
        store: Where to.
        rows: Physical rows, all of them shown.
        different_chunks: How many chunks are stored, if fewer than a leaf has.
        link: Stores a pack under another path too. Without it extents name the chunks that are
            stored again and again, those of each leaf's worth in an order of its own.
    """
    from benchmarks.synthetic import LakePacks
    from tensorlake.format import (
        LIMITS,
        Entry,
        Extents,
        Parent,
        Root,
        RowIdRuns,
        RowSegments,
        Schema,
        entry_path,
        head_path,
        new_txid,
        tree,
    )
    from tensorlake.storage import runtime
    from tensorlake.versions import create_dataset

    schema = Schema.new({"sample": "bytes"})
    runtime.run(create_dataset(store, schema.to_json(), grace_s=86_400, exist_ok=True))
    first = runtime.run(store.get(entry_path("main", 0)))
    assert first is not None
    entry = Entry.from_bytes(first, where="entry 0")
    (spec,) = Schema.from_json(entry.schema or {}).tensors
    packs = LakePacks(store, new_txid())
    a_leaf, left = LIMITS.leaf_units // ROWS_A_CHUNK, rows // ROWS_A_CHUNK
    stored = _chunks(spec, min(left, a_leaf, different_chunks or a_leaf), packs)
    worth = stored.take(np.arange(min(left, a_leaf)) % len(stored))
    packs.send()
    extents: Root[Extents] = Root.of(Extents.empty())
    ids: Root[RowIdRuns] = Root.of(RowIdRuns.empty())
    random = np.random.default_rng(0)
    digest, data = entry.digest, first
    while left:
        txid, parts = new_txid(), list[Extents]()
        for _ in range(COMMIT_LEAVES):
            part = worth.take(np.arange(min(left, len(worth))))
            if left:
                left -= len(part)
                parts.append(_placed_anew(part, txid, link, random, number=len(parts)))
        added = Extents.concat(parts)
        extents = runtime.run(tree.append(extents, added, packs, packs))
        runs = RowIdRuns.run(added.num_rows, txid)
        ids = runtime.run(tree.append(ids, runs, packs, packs))
        packs.send()
        entry = entry.changed(
            roots={spec.id: extents},
            rows=Root.of(RowSegments.range(0, extents.rows)),
            row_ids=ids,
            physical=extents.rows,
            seq=entry.seq + 1,
            prev=digest,
            time=entry.time + 1_000_000,
            txid=txid,
            parents=(Parent("main", entry.seq, digest),),
        )
        data, entry = entry.sealed()
        digest = entry.digest
        runtime.run(store.put_if_absent(entry_path("main", entry.seq), data))
    runtime.run(store.put(head_path("main"), data))


def _placed_anew(
    extents: Extents,
    txid: str,
    link: Callable[[str, str], None] | None,
    random: np.random.Generator,
    *,
    number: int,
) -> Extents:
    """Let the same chunks lie in packs of another transaction, or else in another order."""
    from tensorlake.format import PackId

    if link is None:
        return extents.take(random.permutation(len(extents)))
    start = number * len(extents.packs)
    packs = tuple(PackId(txid, start + at) for at in range(len(extents.packs)))
    for source, target in zip(extents.packs, packs, strict=True):
        link(source.path, target.path)
    return replace(extents, packs=packs)


def _chunks(spec: TensorSpec, count: int, packs: Any) -> Extents:
    """Store chunks of random samples."""
    from tensorlake.format import PlacedChunk, PlacedChunks, encode_chunk
    from tensorlake.types import EncodedColumn

    random = np.random.default_rng(1)
    placed: list[PlacedChunk] = []
    for _ in range(count):
        lengths = random.integers(SAMPLE_NBYTES, SAMPLE_NBYTES * 5 // 4, ROWS_A_CHUNK)
        samples = [random.bytes(int(length)) for length in lengths]
        blob = encode_chunk(EncodedColumn(samples, None), spec.layout)
        placed.append(PlacedChunk.of(blob, *packs.place(blob.pieces)))
    return PlacedChunks(tuple(placed)).to_table()


def first_batch(workspace: Workspace, *, rows: int, shuffle: str) -> Measurement:
    """Open a dataset of this many rows and read the first batch of a shuffled epoch."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    warm_up()
    rows = min(rows, QUICK_ROWS) if workspace.is_quick else rows
    name = lake_of(workspace, rows).name
    with latency_server(workspace.folder, latency_ms=LATENCY_MS) as server:
        url, options = server.s3_url(f"{LAKE}/{name}"), server.storage_options
        spent, started = time.process_time(), time.perf_counter()
        with tl.open(url, read_only=True, storage_options=options) as ds:
            opened_s = time.perf_counter() - started
            batches = iter(ds.loader(batch_size=BATCH, shuffle=shuffle, columns=["sample"]))
            batch = next(batches)
            seconds, spent = time.perf_counter() - started, time.process_time() - spent
            seen = server.counters()
            batches.close()
    assert len(batch["sample"]) == BATCH
    facts = {
        "of it opening": opened_s * 1000,
        "requests": float(seen.requests),
        "MB": seen.bytes_sent / 1e6,
    }
    return Measurement(seconds, 1.0, spent, facts)


def _prepare(workspace: Workspace) -> None:
    for rows in (FEW_ROWS, MANY_ROWS):
        lake_of(workspace, min(rows, QUICK_ROWS) if workspace.is_quick else rows)


BENCHMARKS = (
    Benchmark(
        name="first-batch-billion",
        question=f"time from opening to a first batch of {BATCH}, shuffled by windows; "
        f"{LATENCY_MS:g} ms added latency per request",
        unit="ms",
        contenders=(
            Contender(FEW, partial(first_batch, rows=FEW_ROWS, shuffle=WINDOW)),
            Contender(MANY, partial(first_batch, rows=MANY_ROWS, shuffle=WINDOW)),
        ),
        goals=(Goal(MANY, FEW, at_least=1 / 2.2),),
        limits=(Limit(MANY, "MB", at_most=16),),
        prepare=_prepare,
    ),
)
