"""The figures of 10⁹ rows: 10⁷ chunks, 10⁴ commits; each beside what the design asks for.

The dataset is ``synthetic``'s, in memory behind a store that counts requests, so a request costs
nothing and what is timed is our own work. What a request costs is in ``requests`` and ``remote``.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import resource
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import Workspace
from benchmarks.harness import Benchmark, Contender, Limit, Measurement, stopwatch, warm_up

if TYPE_CHECKING:
    from tensorlake.dataset.dataset import Dataset
    from tensorlake.storage import Store
    from tensorlake.testing import CountingStore

__all__ = ["BENCHMARKS"]

PLANNED_ROWS = 1_000_000
WIDE = 1_000
"""Tensors of a wide dataset."""
WIDE_COMMITS = 80
"""More than a tail holds: the entry has been as large as it gets."""
SMALL_COMMITS = 4200
"""So many one-row commits write every extent on its whole way into full leaves."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A synthetic lake, opened on a counting store."""

    store: CountingStore
    dataset: Dataset
    samples: list[bytes]


def open_on(store: Store) -> Dataset:
    """Open as ``tl.open`` does, the descriptor beside the log."""
    from tensorlake.dataset.dataset import Dataset
    from tensorlake.dataset.session import Session
    from tensorlake.storage import runtime
    from tensorlake.versions import Resolved, read_descriptor, resolve

    async def both() -> Resolved:
        _, resolved = await asyncio.gather(read_descriptor(store), resolve(store, None))
        return resolved

    return Dataset(Session(store, runtime.run(both())))


def _lake(workspace: Workspace, *, commits: int | None = None) -> Lake:
    from benchmarks.synthetic import FULL, SMALL, write_lake
    from tensorlake.storage import MemoryStore
    from tensorlake.testing import CountingStore

    warm_up()
    scale = SMALL if workspace.is_quick else FULL
    scale = scale if commits is None else replace(scale, commits=commits)
    store = CountingStore(MemoryStore())
    samples = write_lake(store, scale)
    dataset = open_on(store)
    store.reset()
    return Lake(store, dataset, samples)


def _readable(workspace: Workspace) -> int:
    from benchmarks.synthetic import FULL, SMALL, readable_rows

    return int(readable_rows(SMALL if workspace.is_quick else FULL, 1)[0])


def open_lake(workspace: Workspace) -> Measurement:
    lake = _lake(workspace)
    with stopwatch() as watch:
        open_on(lake.store)
    facts = {
        "requests": lake.store.count(),
        "round trips": lake.store.round_trips,
        "KB": lake.store.bytes_read / 1000,
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def cold_sample(workspace: Workspace) -> Measurement:
    lake = _lake(workspace, commits=10)
    row = _readable(workspace)
    with stopwatch() as watch:
        sample = lake.dataset["sample"][row]
    assert sample == lake.samples[row % len(lake.samples)]
    facts = {
        "GETs in a row": lake.store.round_trips,
        "KB": lake.store.bytes_read / 1000,
        "height": max(root.height for root in lake.dataset.session.head.roots.values()),
    }
    lake.store.reset()
    assert lake.dataset["sample"][row - 1] is not None
    facts["GETs, leaf cached"] = lake.store.round_trips
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def commit_a_row(workspace: Workspace) -> Measurement:
    lake = _lake(workspace)
    with stopwatch() as watch:
        lake.dataset.append({"sample": b"one", "vector": b"two", "label": 3})
        lake.dataset.commit("a row")
    facts = {
        "PUTs": lake.store.count("put_if_absent"),
        "GETs": lake.store.count("get", "get_range"),
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def append_behind_another(workspace: Workspace) -> Measurement:
    """Commit a row after another writer took the number: what the lost race costs."""
    lake = _lake(workspace, commits=10)
    row = {"sample": b"one", "vector": b"two", "label": 3}
    other = open_on(lake.store)
    lake.dataset.append(row)
    other.append(row)
    other.commit("first")
    _settle(lake.store)
    with stopwatch() as watch:
        lake.dataset.commit("second")
    assert lake.dataset.version == "main@12"
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, _requests(lake.store))


def update_a_row(workspace: Workspace) -> Measurement:
    lake = _lake(workspace, commits=10)
    row = _readable(workspace)
    with stopwatch() as watch:
        lake.dataset["sample"][row] = b"another"
        lake.dataset.commit("a cell")
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, _requests(lake.store))


def add_a_tensor(workspace: Workspace) -> Measurement:
    """Give every row a value of a new tensor: one extent, and nothing else is touched."""
    lake = _lake(workspace, commits=10)
    with stopwatch() as watch:
        lake.dataset.add_tensor("extra", "float32", fill=0.5)
        lake.dataset.commit("another tensor")
    facts = _requests(lake.store)
    assert lake.dataset["extra"][len(lake.dataset) - 1] == 0.5
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def _settle(store: CountingStore) -> None:
    """Wait for hints that are on their way, and count anew."""
    from tensorlake.storage import runtime

    async def idle() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    runtime.run(idle())
    store.reset()


def _requests(store: CountingStore) -> dict[str, float]:
    """Count what was asked since the last reset; hints are on nobody's way."""
    written = [one.nbytes for one in store.requests if one.call == "put_if_absent"]
    return {
        "GETs": store.count("get", "get_range", "head"),
        "KB read": store.bytes_read / 1000,
        "PUTs": len(written),
        "KB written": sum(written) / 1000,
        "LISTs": store.count("list"),
    }


def newest_commits(workspace: Workspace) -> Measurement:
    lake = _lake(workspace)
    with stopwatch() as watch:
        assert len(lake.dataset.log(10)) == 10
    with stopwatch() as thousand:
        count = len(lake.dataset.log(1000))
    facts = {"ms an entry of 1000": thousand.seconds * 1000 / count}
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def an_old_version(workspace: Workspace) -> Measurement:
    lake = _lake(workspace)
    with stopwatch() as watch:
        then = lake.dataset.at("main@5")
    moment = then.log(1)[0].time + dt.timedelta(microseconds=10)
    lake.store.reset()
    with stopwatch() as by_time:
        assert lake.dataset.at(moment).version == "main@5"
    facts = {
        "by time, ms": by_time.seconds * 1000,
        "by time, GETs": lake.store.count("get"),
        "by time, GETs in a row": lake.store.round_trips,
        "by time, KB": lake.store.bytes_read / 1000,
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def plan(workspace: Workspace) -> Measurement:
    """Locate sorted rows, drawn from all: first with nothing read, then with the index at hand."""
    lake = _lake(workspace, commits=10)
    random = np.random.default_rng(0)
    reader = lake.dataset.reader()
    rows = np.sort(random.integers(0, len(lake.dataset), PLANNED_ROWS))
    with stopwatch() as first:
        reader.locate("vector", rows)
    rows = np.sort(random.integers(0, len(lake.dataset), PLANNED_ROWS))
    reader.locate("vector", rows)
    with stopwatch() as watch:
        located = reader.locate("vector", rows)
    shuffled = random.permutation(rows)
    with stopwatch() as unsorted:
        reader.locate("vector", shuffled)
    facts = {
        "with nothing read, s": first.seconds,
        "unsorted, ms": unsorted.seconds * 1000,
        "chunks": len(located.chunks),
        "peak MB": _peak_mb(),
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def delete_a_hundredth(workspace: Workspace) -> Measurement:
    lake = _lake(workspace, commits=10)
    count = len(lake.dataset)
    chosen = np.random.default_rng(0).integers(0, 100, count, dtype=np.uint8) == 0
    rows = np.flatnonzero(chosen)
    del chosen
    lake.store.reset()
    with stopwatch() as watch:
        lake.dataset.delete(rows)
        lake.dataset.commit("one in a hundred")
    written = lake.store.bytes_written
    row = _readable(workspace)
    cold = open_on(lake.store)
    lake.store.reset()
    assert cold["sample"][row - len(rows[rows < row]) - 1] is not None
    facts = {
        "MB written": written / 1e6,
        "GETs in a row, after": lake.store.round_trips,
        "peak MB": _peak_mb(),
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def index_pages(workspace: Workspace) -> Measurement:
    """Encode a full leaf of pictures (80 a chunk), and the whole index of labels."""
    from benchmarks.synthetic import FULL, SMALL, extents_of_labels, extents_of_pictures
    from tensorlake.format import LIMITS, Extents, PageRef, encode_page, tree
    from tensorlake.format import Root as Tree
    from tensorlake.format.pages import read_table
    from tensorlake.storage import runtime

    class Pages:
        nbytes = 0

        def add(self, page: Any, /, *, rows: int, entries: int, height: int) -> PageRef:
            self.nbytes += len(page)
            return PageRef(extents.packs[0], self.nbytes, len(page), 0, rows, entries, height)

        async def read(self, ref: PageRef, /) -> bytes:
            raise AssertionError(f"nothing has to be read, not {ref}")

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
        "picture B a chunk": sections[""] / len(extents),
        "picture B a row, units": sections["units"] / extents.num_rows,
        "picture B a chunk, statistics": sections["statistics"] / len(extents),
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
            _settle(store)
            wide.append(row)
            wide.commit()
            found = _requests(store) | {"entry KB": len(wide.session.head.to_bytes()) / 1000}
            facts = {name: max(most, found[name]) for name, most in facts.items()}
    return Measurement(watch.seconds / count, 1.0, watch.cpu_seconds, facts)


def _wide_dataset(workspace: Workspace) -> tuple[CountingStore, Dataset]:
    from tensorlake.storage import MemoryStore
    from tensorlake.testing import CountingStore

    warm_up()
    store = CountingStore(MemoryStore())
    wide = _new_dataset(store, WIDE // 10 if workspace.is_quick else WIDE)
    wide.append(dict.fromkeys(wide.schema, 1.0))
    wide.commit()
    _settle(store)
    return store, wide


def _new_dataset(store: Store, tensors: int) -> Dataset:
    from tensorlake.dataset.dataset import Dataset
    from tensorlake.dataset.session import Session
    from tensorlake.format import Schema
    from tensorlake.storage import runtime
    from tensorlake.versions import create_dataset

    schema = Schema.new({f"t{number}": "float32" for number in range(tensors)})
    created = create_dataset(store, schema.to_json(), grace_s=86_400, exist_ok=False)
    return Dataset(Session(store, runtime.run(created)))


def many_small_commits(workspace: Workspace) -> Measurement:
    """Append rows of ten tensors one by one: what a commit writes, and how often an extent."""
    from benchmarks.data import NUM_LABELS
    from tensorlake.format import PageKind, read_directory
    from tensorlake.format.pages import read_table
    from tensorlake.storage import MemoryStore, runtime
    from tensorlake.testing import CountingStore

    warm_up()
    count = SMALL_COMMITS // 10 if workspace.is_quick else SMALL_COMMITS
    store = CountingStore(MemoryStore())
    dataset = _new_dataset(store, NUM_LABELS)
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
        "entry KB": len(dataset.session.head.to_bytes()) / 1000,
    }
    return Measurement(watch.seconds / count, 1.0, watch.cpu_seconds, facts)


def _paths(store: Store, prefix: str) -> list[str]:
    from tensorlake.storage import runtime

    async def listed() -> list[str]:
        return [meta.path async for meta in store.list(prefix)]

    return runtime.run(listed())


BENCHMARKS = (
    Benchmark(
        name="billion-rows",
        question="10⁹ rows in 10⁷ chunks after 10⁴ commits, requests for nothing",
        unit="ms",
        contenders=(
            Contender("open", open_lake),
            Contender("cold sample", cold_sample),
            Contender("append a row, commit", commit_a_row),
            Contender("the same, behind another", append_behind_another),
            Contender("update a row, commit", update_a_row),
            Contender("add a tensor, commit", add_a_tensor),
            Contender("newest ten commits", newest_commits),
            Contender("open an old version", an_old_version),
            Contender("locate 10⁶ sorted rows", plan),
            Contender("delete 1%, commit", delete_a_hundredth),
        ),
        limits=(
            Limit("open", "requests", at_most=4),
            Limit("open", "round trips", at_most=2),
            Limit("append a row, commit", "PUTs", at_most=2),
            Limit("append a row, commit", "GETs", at_most=0),
            Limit("the same, behind another", "GETs", at_most=2),
            Limit("the same, behind another", "PUTs", at_most=3),
            Limit("add a tensor, commit", "PUTs", at_most=2),
            Limit("cold sample", "GETs in a row", at_most=3),
            Limit("cold sample", "GETs, leaf cached", at_most=1),
            Limit("cold sample", "height", at_most=3),
            Limit("locate 10⁶ sorted rows", "", at_most=100),
            Limit("delete 1%, commit", "MB written", at_most=20),
            Limit("delete 1%, commit", "GETs in a row, after", at_most=5),
        ),
    ),
    Benchmark(
        name="index-size",
        question="bytes of index pages; one row at a time of ten tensors, and of 1,000, in memory",
        unit="ms",
        contenders=(
            Contender("encode a full leaf", index_pages),
            Contender("append a row of ten, commit", many_small_commits),
            Contender("open 1,000 tensors", open_wide),
            Contender("append a row of 1,000, commit", commit_wide),
        ),
        limits=(
            Limit("encode a full leaf", "picture B a chunk", at_most=16),
            Limit("encode a full leaf", "picture B a row, units", at_most=7),
            Limit("encode a full leaf", "label index KB", at_most=100),
            Limit("append a row of ten, commit", "KB a commit", at_most=40),
            Limit("append a row of ten, commit", "extent rewritten", at_most=3),
            Limit("open 1,000 tensors", "requests", at_most=6),
            Limit("open 1,000 tensors", "round trips", at_most=3),
            Limit("append a row of 1,000, commit", "PUTs", at_most=2),
            Limit("append a row of 1,000, commit", "entry KB", at_most=262.144),
        ),
    ),
)
