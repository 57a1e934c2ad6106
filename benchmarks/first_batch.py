"""The first batch of 10⁹ rows over a network, beside that of 10³: what a large index costs.

Both datasets are of samples of 4 KiB in chunks of a hundred. The large one has a tree of 7,634 leaf
pages of full size, written directly as ``synthetic`` does; its extents name the chunks of one leaf,
each leaf in an order of its own, so every row can be read and no page is shorter than it would be.
There are as many different pages as a first batch could read: the rest of the tree refers to them
again.

    few    1,000 rows, their extents in the log entry itself: no page to read
    many   10⁹ rows, a tree of height 2
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import LAKE, Workspace
from benchmarks.harness import Benchmark, Contender, Goal, Limit, Measurement, warm_up
from benchmarks.remote import LATENCY_MS

if TYPE_CHECKING:
    from tensorlake.format import Extents, Root, TensorSpec
    from tensorlake.storage import Store

__all__ = ["BENCHMARKS", "write_rows"]

ROWS_A_CHUNK = 100
SAMPLE_NBYTES = 4096
FEW_ROWS, MANY_ROWS = 1_000, 10**9
QUICK_ROWS = 10**7
DIFFERENT_PAGES = 64
BATCH = 64
FEW, MANY = "10³ rows", "10⁹ rows"
WINDOW = "window"


def lake_of(workspace: Workspace, rows: int) -> Path:
    """Return a dataset of so many rows, written on the first call."""
    from tensorlake.storage import open_store

    folder = workspace.lake / f"rows-{rows}.tl"
    if not (folder / "done").exists():
        write_rows(open_store(str(folder), durability="none"), rows)
        (folder / "done").touch()
    return folder


def write_rows(store: Store, rows: int, *, different_chunks: int | None = None) -> None:
    """Write a dataset of so many rows into an empty store.

    Args:
        store: Where to.
        rows: Physical rows, all of them shown.
        different_chunks: How many chunks are stored, if fewer than a leaf has: its extents then
            name them again.
    """
    from benchmarks.synthetic import LakePacks
    from tensorlake.format import (
        Entry,
        Root,
        RowIdRuns,
        RowSegments,
        Schema,
        entry_path,
        head_path,
        new_txid,
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
    root = _index(spec, rows, packs, different_chunks)
    packs.send()
    ids = RowIdRuns.run(rows, new_txid())
    entry = entry.changed(
        roots={spec.id: root},
        rows=Root.of(RowSegments.range(0, rows)),
        row_ids=Root.of(ids),
        physical=rows,
        seq=1,
        prev=entry.digest,
        txid=new_txid(),
    )
    data, _ = entry.sealed()
    runtime.run(store.put_if_absent(entry_path("main", 1), data))
    runtime.run(store.put(head_path("main"), data))


def _index(spec: TensorSpec, rows: int, packs: Any, different_chunks: int | None) -> Root[Extents]:
    from benchmarks.synthetic import folded
    from tensorlake.format import LIMITS, Extents, Root

    a_leaf = LIMITS.leaf_units // ROWS_A_CHUNK
    chunks = rows // ROWS_A_CHUNK
    named = min(chunks, a_leaf)
    stored = _chunks(spec, min(named, different_chunks or named), packs)
    stored = stored.take(np.arange(named) % len(stored))
    if chunks <= a_leaf:
        return Root.of(stored)
    random = np.random.default_rng(0)
    whole, rest = divmod(chunks, a_leaf)
    different = [
        packs.leaf(stored.take(random.permutation(a_leaf)))
        for _ in range(min(whole, DIFFERENT_PAGES))
    ]
    refs = [different[number % DIFFERENT_PAGES] for number in range(whole)]
    if rest:
        refs.append(packs.leaf(stored.take(np.arange(rest))))
    return Root.of(Extents.empty(), children=folded(refs, packs))


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
        question=f"from opening to a first batch of {BATCH}, shuffled by windows; "
        f"a request takes {LATENCY_MS:g} ms longer",
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
