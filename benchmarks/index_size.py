"""Sizes of index pages and log entries, by chunks, rows, commits, tensors, packs and branches.

Nothing of it needs 10⁹ rows: pages are made as ``synthetic`` makes them and weighed, entries
published in memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, stopwatch, warm_up
from benchmarks.scale import open_on, requests_of, settle
from tensorlake.dataset import session_of

if TYPE_CHECKING:
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.format import PageRef
    from tensorlake.storage import Store
    from tensorlake.testing import CountingStore

__all__ = ["BENCHMARKS"]

SMALL_COMMITS = 4200
"""This many one-row commits write every extent on its whole way into full leaves."""
WIDE = 1_000
"""Tensors of a wide dataset."""
WIDE_COMMITS = 80
"""More than a tail holds: the entry has been as large as it gets."""
MANY_PACKS = 100_000
MANY_BRANCHES = 10_000
LOST_RACES = 64
MAX_ENTRY_KB = 262.144
"""The limit of the format."""


def index_pages(workspace: Workspace) -> Measurement:
    """Encode a full leaf of images (80 a chunk), and the whole index of labels."""
    from benchmarks.synthetic import FULL, SMALL, extents_of_labels, extents_of_pictures
    from tensorlake.format import LIMITS, Extents, encode_page, tree
    from tensorlake.format import Root as Tree
    from tensorlake.format.pages.pages import read_table
    from tensorlake.storage import runtime

    rows = 80
    extents = extents_of_pictures(LIMITS.leaf_units // rows, rows)
    with stopwatch() as watch:
        page = encode_page(
            extents.PAGE_KIND, extents.to_columns(), entries=len(extents), rows=extents.num_rows
        )
    sections = {"": 0.0, "statistics": 0.0, "units": 0.0}
    for section in read_table(page, where="a leaf").sections:
        group = section.name.partition(".")[0]
        sections[group if group in sections else ""] += section.stored_nbytes
    labels = Pages()
    scale = SMALL if workspace.is_quick else FULL
    table = extents_of_labels(scale.rows, 0)
    runtime.run(tree.append(Tree.of(Extents.empty()), table, labels, labels))
    facts = {
        "image B per chunk": sections[""] / len(extents),
        "image B per row, units": sections["units"] / extents.num_rows,
        "image B per chunk, statistics": sections["statistics"] / len(extents),
        "label index KB": labels.nbytes / 1000,
        "leaf KB": len(page) / 1000,
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def open_wide(workspace: Workspace) -> Measurement:
    """Open a dataset of a thousand tensors, whose schema and roots lie in pages."""
    store, _ = _wide_dataset(workspace)
    with stopwatch() as watch:
        wide = open_on(store)
    facts = {
        "requests": store.count(),
        "round trips": store.round_trips,
        "KB": store.bytes_read / 1000,
        "tensors": len(wide.schema),
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def commit_wide(workspace: Workspace) -> Measurement:
    """Append rows to a thousand tensors one by one, until every tail has been full."""
    store, wide = _wide_dataset(workspace)
    row = dict.fromkeys(wide.schema, 1.0)
    facts: dict[str, float] = {"PUTs": 0, "GETs": 0, "KB written": 0, "entry KB": 0}
    count = WIDE_COMMITS // 10 if workspace.is_quick else WIDE_COMMITS
    with stopwatch() as watch:
        for _ in range(count):
            settle(store)
            wide.append(row)
            wide.commit()
            found = requests_of(store) | {"entry KB": len(session_of(wide).head.to_bytes()) / 1000}
            facts = {name: max(most, found[name]) for name, most in facts.items()}
    return Measurement(watch.seconds / count, 1.0, watch.cpu_seconds, facts)


def _wide_dataset(workspace: Workspace) -> tuple[CountingStore, Dataset]:
    from tensorlake.storage import MemoryStore
    from tensorlake.testing import CountingStore

    warm_up()
    store = CountingStore(MemoryStore())
    wide = new_dataset(store, WIDE // 10 if workspace.is_quick else WIDE)
    wide.append(dict.fromkeys(wide.schema, 1.0))
    wide.commit()
    settle(store)
    return store, wide


def new_dataset(store: Store, tensors: int) -> Dataset:
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.format import Schema
    from tensorlake.storage import runtime
    from tensorlake.versions import create_dataset

    schema = Schema.new({f"t{number}": "float32" for number in range(tensors)})
    created = create_dataset(store, schema.to_json(), grace_s=86_400, exist_ok=False)
    return Dataset(Session(store, runtime.run(created)))


def many_small_commits(workspace: Workspace) -> Measurement:
    """Append rows of ten tensors one by one: what a commit writes, and how often an extent."""
    from benchmarks.harness.data import NUM_LABELS
    from tensorlake.format import PageKind, read_directory
    from tensorlake.format.pages.pages import read_table
    from tensorlake.storage import MemoryStore, runtime
    from tensorlake.testing import CountingStore

    warm_up()
    count = SMALL_COMMITS // 10 if workspace.is_quick else SMALL_COMMITS
    store = CountingStore(MemoryStore())
    dataset = new_dataset(store, NUM_LABELS)
    row = dict.fromkeys(dataset.schema, 1.0)
    written: list[float] = []
    with stopwatch() as watch:
        for _ in range(count):
            store.reset()
            dataset.append(row)
            dataset.commit()
            written.append(sum(r.nbytes for r in store.requests if r.call == "put_if_absent"))
    pages = 0
    for path in _paths(store, "packs/"):
        data = runtime.run(store.get(path)) or b""
        for blob in read_directory(data, where=path):
            if data[blob.offset : blob.offset + 4] != b"TLPG":
                continue
            table = read_table(data[blob.offset : blob.offset + blob.nbytes], where=path)
            pages += table.entries if table.kind == PageKind.EXTENTS else 0
    facts = {
        "KB a commit": float(np.mean(written)) / 1000,
        "KB, the largest": float(np.max(written)) / 1000,
        "extent rewritten": pages / (count * len(dataset.schema)),
        "entry KB": len(session_of(dataset).head.to_bytes()) / 1000,
    }
    return Measurement(watch.seconds / count, 1.0, watch.cpu_seconds, facts)


def _paths(store: Store, prefix: str) -> list[str]:
    from tensorlake.storage import runtime

    async def listed() -> list[str]:
        return [meta.path async for meta in store.list(prefix)]

    return runtime.run(listed())


class Pages:
    """Counts the bytes of pages, and keeps none."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, page: Any, /, *, rows: int, entries: int, height: int) -> PageRef:
        from tensorlake.format import PackId, PageRef

        self.nbytes += len(page)
        return PageRef(PackId("0" * 32, 0), 0, len(page), 0, rows, entries, height)

    async def read(self, ref: PageRef, /) -> bytes:
        raise AssertionError(f"nothing has to be read, not {ref}")


def entries(workspace: Workspace) -> Measurement:
    """Make the entries that could grow: of many packs, many merged branches, many lost races."""
    del workspace
    from tensorlake.format import Extents, PackId, Root, new_txid, tree
    from tensorlake.storage import MemoryStore, runtime

    warm_up()
    store = MemoryStore()
    dataset = new_dataset(store, 8)
    row = dict.fromkeys(dataset.schema, 1.0)
    lost = 0
    with stopwatch() as watch:
        for _ in range(LOST_RACES):
            other = open_on(store)
            dataset.append(row)
            other.append(row)
            other.commit()
            dataset.commit()
            lost = max(lost, len(session_of(dataset).head.to_bytes()))
    head, pages = session_of(dataset).head, Pages()
    one = Extents.chunk(
        rows=1,
        kind=1,
        pack=PackId("0" * 32, 0),
        offset=64,
        nbytes=72,
        header_nbytes=64,
        checksum=1,
    )
    many = replace(
        one.take(np.zeros(MANY_PACKS, np.int64)),
        pack=np.arange(MANY_PACKS, dtype=np.uint32),
        packs=tuple(PackId(new_txid(), 0) for _ in range(MANY_PACKS)),
    )
    root = runtime.run(tree.append(Root.of(Extents.empty()), many, pages, pages))
    of_packs = head.changed(roots=dict.fromkeys(head.roots, root), physical=MANY_PACKS)
    branches = {f"experiment/{number:05}": number for number in range(MANY_BRANCHES)}
    facts = {
        "64 lost races, KB": lost / 1000,
        "10⁵ packs, KB": len(of_packs.to_bytes()) / 1000,
        "10⁴ branches, KB": len(head.changed(merged=branches).spill(pages).to_bytes()) / 1000,
    }
    return Measurement(watch.seconds / LOST_RACES, 1.0, watch.cpu_seconds, facts)


BENCHMARKS = (
    Benchmark(
        name="index-size",
        question="bytes of index pages; one row at a time of ten tensors, and of 1,000, in memory",
        unit="ms",
        contenders=(
            Contender("encode a full leaf", index_pages),
            Contender("append a row of ten, commit", many_small_commits),
            Contender("open 1,000 tensors", open_wide),
            Contender("append a row of 1,000, commit", commit_wide),
            Contender("entries", entries),
        ),
        limits=(
            Limit("encode a full leaf", "image B per chunk", at_most=16),
            Limit("encode a full leaf", "image B per row, units", at_most=7),
            Limit("encode a full leaf", "label index KB", at_most=100),
            Limit("append a row of ten, commit", "KB a commit", at_most=40),
            Limit("append a row of ten, commit", "extent rewritten", at_most=3),
            Limit("open 1,000 tensors", "requests", at_most=6),
            Limit("open 1,000 tensors", "round trips", at_most=3),
            Limit("append a row of 1,000, commit", "PUTs", at_most=2),
            Limit("append a row of 1,000, commit", "entry KB", at_most=MAX_ENTRY_KB),
            Limit("entries", "64 lost races, KB", at_most=MAX_ENTRY_KB),
            Limit("entries", "10⁵ packs, KB", at_most=MAX_ENTRY_KB),
            Limit("entries", "10⁴ branches, KB", at_most=MAX_ENTRY_KB),
        ),
    ),
)
