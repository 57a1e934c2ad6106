"""The figures of 10⁹ rows: 10⁷ chunks, 10⁴ commits, each beside what the design asks.

The dataset is ``synthetic``'s, in memory behind a store that counts requests, so a request costs
nothing and the time is that of our own work. The cost of requests is in ``requests`` and
``remote``.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import resource
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, stopwatch, warm_up
from tensorlake.dataset import rowset_of, session_of

if TYPE_CHECKING:
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.storage import Store
    from tensorlake.testing import CountingStore

__all__ = ["BENCHMARKS", "open_on", "requests_of", "settle"]

PLANNED_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Lake:
    """A synthetic lake, opened on a counting store."""

    store: CountingStore
    dataset: Dataset
    samples: list[bytes]


def open_on(store: Store) -> Dataset:
    """Open as ``tl.open`` does, the descriptor beside the log."""
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.handles.dataset import Dataset
    from tensorlake.storage import runtime
    from tensorlake.versions import Resolved, read_descriptor, resolve

    async def both() -> Resolved:
        _, resolved = await asyncio.gather(read_descriptor(store), resolve(store, None))
        return resolved

    return Dataset(Session(store, runtime.run(both())))


def _lake(workspace: Workspace, *, commits: int | None = None) -> Lake:
    from benchmarks.synthetic import FULL, SMALL, SharedMemoryStore, write_lake
    from tensorlake.testing import CountingStore

    warm_up()
    scale = SMALL if workspace.is_quick else FULL
    scale = scale if commits is None else replace(scale, commits=commits)
    memory = SharedMemoryStore()
    samples = write_lake(memory, scale)
    store = CountingStore(memory)
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
        "height": max(root.height for root in session_of(lake.dataset).head.roots.values()),
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
    settle(lake.store)
    with stopwatch() as watch:
        lake.dataset.commit("second")
    assert lake.dataset.version == "main@12"
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, requests_of(lake.store))


def update_a_row(workspace: Workspace) -> Measurement:
    lake = _lake(workspace, commits=10)
    row = _readable(workspace)
    with stopwatch() as watch:
        lake.dataset["sample"][row] = b"another"
        lake.dataset.commit("a cell")
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, requests_of(lake.store))


def add_a_tensor(workspace: Workspace) -> Measurement:
    """Give every row a value of a new tensor: one extent, and nothing else is touched."""
    lake = _lake(workspace, commits=10)
    with stopwatch() as watch:
        lake.dataset.add_tensor("extra", "float32", fill=0.5)
        lake.dataset.commit("another tensor")
    facts = requests_of(lake.store)
    assert lake.dataset["extra"][len(lake.dataset) - 1] == 0.5
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


def settle(store: CountingStore) -> None:
    """Wait for hints that are on their way, and count again."""
    from tensorlake.storage import runtime

    async def idle() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    runtime.run(idle())
    store.reset()


def requests_of(store: CountingStore) -> dict[str, float]:
    """Count what was asked since the last reset; hints are on no critical path."""
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
    reader = rowset_of(lake.dataset).reader()
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


def find_stale_rows(workspace: Workspace) -> Measurement:
    """Find stale rows of a column computed from two tensors, 100 rows of which changed."""
    lake = _lake(workspace, commits=10)
    dataset, count = lake.dataset, len(lake.dataset)
    dataset.add_tensor("derived", "int64", compute=len, inputs=["sample", "label"])
    dataset.commit("declared")
    chosen = np.sort(np.random.default_rng(0).choice(count, 100, replace=False))
    places = {
        "labels": ("label", chosen),
        "samples in sequence": ("sample", np.arange(100) + count // 2),
        "samples": ("sample", chosen),
    }
    facts: dict[str, float] = {}
    seconds = cpu_seconds = 0.0
    for what, (name, rows) in places.items():
        _declare_computed(dataset)
        _change(dataset, name, rows)
        cold = open_on(lake.store)
        lake.store.reset()
        with stopwatch() as watch:
            found = cold.stale("derived").rows
        assert found.tolist() == rows.tolist()
        facts[f"requests, {what}"] = lake.store.count()
        facts[f"KB, {what}"] = lake.store.bytes_read / 1000
        if what == "labels":
            seconds, cpu_seconds = watch.seconds, watch.cpu_seconds
        facts[f"requests, {what}, pages compared"] = _requests_of_pages(lake.store, rows)
    return Measurement(seconds, 1.0, cpu_seconds, facts)


def _requests_of_pages(store: CountingStore, rows: np.ndarray) -> int:
    """Count the requests where no commit had noted what differs."""
    from tensorlake.format import Coverage

    def unknown(self: Coverage, now: object) -> None:
        del self, now

    known = Coverage.known_apart
    Coverage.known_apart = unknown
    try:
        cold = open_on(store)
        store.reset()
        assert cold.stale("derived").rows.tolist() == rows.tolist()
    finally:
        Coverage.known_apart = known
    return store.count()


def _declare_computed(dataset: Dataset) -> None:
    """Commit that all rows of the computed column are made of the cells that there are."""
    from tensorlake.versions.rows.derived import derived_group, group_of

    session = session_of(dataset)
    with session.lock:
        transaction = session.staging()
        state = transaction.working()
        spec = state.schema["derived"]
        group = derived_group(spec, state.schema)
        assert group is not None
        covers = {id_: replace(one, state=state.roots[id_]) for id_, one in group.covers.items()}
        transaction.stage_group(group_of(spec.id), replace(group, covers=covers))
    dataset.commit("all rows are computed")


def _change(dataset: Dataset, name: str, rows: np.ndarray) -> None:
    """Commit values of some rows, as updates of large chunks do: without reading the chunks."""
    session = session_of(dataset)
    with session.lock:
        transaction = session.staging()
        spec = transaction.schema[name]
        values = np.arange(100) if name == "label" else [b"another"] * len(rows)
        extents = transaction.place_column(spec, spec.type.convert(values, tensor=name)).to_table()
        edits = [
            (row, row + 1, extents.slice_rows(at, at + 1)) for at, row in enumerate(rows.tolist())
        ]
        transaction.edit(spec, edits, rows)
    dataset.commit("100 rows")


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


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
            Contender("find 100 stale rows", find_stale_rows),
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
            Limit("find 100 stale rows", "requests, labels", at_most=20),
            Limit("find 100 stale rows", "requests, samples in sequence", at_most=20),
            Limit("find 100 stale rows", "requests, samples", at_most=20),
        ),
    ),
)
