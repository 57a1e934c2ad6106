"""What size must not change: requests, bytes and entries of very large, or very many, things.

The lake is ``benchmarks/synthetic.py``'s: trees grown by the writer's code, chunks missing; here of
4 million rows, under soak of 10⁹. Sizes of pages are measured in ``benchmarks/scale.py``.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

import numpy as np
import pytest

import tensorlake as tl
from benchmarks.first_batch import write_rows
from benchmarks.harness.data import Workspace
from benchmarks.scale import find_stale_rows
from benchmarks.synthetic import (
    FULL,
    SAMPLE_NBYTES,
    SMALL,
    LakePacks,
    Scale,
    SharedMemoryStore,
    readable_rows,
    write_lake,
)
from tensorlake.dataset import rowset_of, session_of
from tensorlake.errors import CorruptionError
from tensorlake.format import (
    Entry,
    Extents,
    PackId,
    Root,
    entry_path,
    head_path,
    new_txid,
    tree,
)
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tests.support.handles import create_on, open_on, reader_without_totals, wait_for_storage
from tests.support.memory_pages import MemoryPages

MAX_ENTRY_NBYTES = 256 << 10
SCATTERED = 300
WIDE_ROWS = 60_000


@dataclass(frozen=True)
class Lake:
    store: CountingStore
    samples: list[bytes]
    scale: Scale


@pytest.fixture(scope="module", params=["small", pytest.param("full", marks=pytest.mark.soak)])
def lake(request: pytest.FixtureRequest) -> Lake:
    scale = SMALL if request.param == "small" else FULL
    store = SharedMemoryStore()
    samples = write_lake(store, scale)
    return Lake(CountingStore(store), samples, scale)


@pytest.mark.slow
def test_opening_reads_as_much_after_many_commits_of_many_chunks(lake):
    """format.md, numbers at 10⁹ rows; with the descriptor, which tl.open reads beside: 4."""
    lake.store.reset()

    handle = open_on(lake.store)

    assert len(handle) == lake.scale.rows
    assert (lake.store.count(), lake.store.round_trips) == (3, 2)
    assert lake.store.bytes_read < 16_000
    assert len(handle["sample"]) == lake.scale.rows


@pytest.mark.slow
def test_a_cold_sample_is_three_requests_in_a_row_and_a_near_one_is_one(lake):
    handle = open_on(lake.store)
    row = int(readable_rows(lake.scale, 1)[0])
    lake.store.reset()

    assert handle["sample"][row] == lake.samples[row % lake.scale.rows_a_chunk]
    assert lake.store.round_trips <= 3
    assert lake.store.count() <= 3
    lake.store.reset()

    other = row - 1 if row % lake.scale.rows_a_chunk else row + 1
    assert handle["sample"][other] == lake.samples[other % lake.scale.rows_a_chunk]
    assert lake.store.count() == 1


def test_the_sizes_of_rows_of_all_tensors_take_one_look_down_their_trees(lake):
    """A loader asks for them first: leaves of all trees are sampled at once, or none at all."""
    tensors = ["sample", "vector", "label"]
    handle = open_on(lake.store)
    height = max(root.height for root in session_of(handle).head.roots.values())
    reader, without = rowset_of(handle).reader(), reader_without_totals(handle)
    lake.store.reset()

    stated = reader.row_nbytes(tensors)
    assert lake.store.count() == 0
    sampled = without.row_nbytes(tensors)

    assert stated[0] > stated[2]
    assert np.allclose(sampled, stated, rtol=0.05)
    assert 0 < lake.store.round_trips <= height
    assert lake.store.bytes_read < 8_000_000


def test_rows_of_all_tensors_are_looked_up_in_one_look_down_their_trees(lake):
    handle = open_on(lake.store)
    height = max(root.height for root in session_of(handle).head.roots.values())
    reader = rowset_of(handle).reader()
    tensors = ["sample", "vector", "label"]
    rows = readable_rows(lake.scale, 24)
    lake.store.reset()

    reader.look_ahead(tensors, rows)

    # trees looked down one after the other: 3 * height; decoding lets one begin a turn late
    assert lake.store.round_trips <= height + 1
    assert lake.store.bytes_read < 16_000_000
    lake.store.reset()
    reader.row_nbytes(tensors)
    located = [reader.locate(tensor, rows) for tensor in tensors]
    assert [len(one.chunk) for one in located] == [24] * 3
    assert lake.store.count() == 0


def test_the_first_batch_of_a_loader_takes_six_requests_in_a_row(lake):
    """Two to open, two down the index, one for headers where leaves are many, one for the rows."""
    rows = np.unique(readable_rows(lake.scale, 400))
    rows = np.sort(np.random.default_rng(0).choice(rows, 64, replace=False))  # no batch behind it
    lake.store.reset()

    view = open_on(lake.store)[rows.tolist()]
    batch = next(iter(view.loader(batch_size=64, shuffle=True, columns=["sample", "_row"])))

    expected = [lake.samples[row % lake.scale.rows_a_chunk] for row in batch["_row"].tolist()]
    assert batch["sample"] == expected
    assert lake.store.round_trips <= 6
    assert lake.store.bytes_read < 16_000_000


@pytest.mark.parametrize("shuffle", ["window", "full"])
def test_the_first_batch_of_many_leaves_takes_six_requests_in_a_row(shuffle):
    """Their units are too many: headers say where rows are. What a row weighs, the root says.

    Two to open, two down the index, one for headers, one for rows; no leaf but those of the rows.
    """
    store = CountingStore(MemoryStore())
    write_rows(store, 40 * 131_000, different_chunks=4)
    rows = np.arange(64) * 25_000
    leaves = len(np.unique(rows // 131_000))
    store.reset()

    view = open_on(store)[rows.tolist()]
    batch = next(iter(view.loader(batch_size=64, shuffle=shuffle, columns=["sample"])))

    assert len(batch["sample"]) == 64
    assert store.round_trips <= 6
    assert sum(one.nbytes > SAMPLE_NBYTES for one in store.requests) == leaves


def test_a_commit_and_a_refresh_read_nothing_of_a_large_index(lake):
    writer, reader = open_on(lake.store), open_on(lake.store)
    lake.store.reset()

    writer.append({"sample": b"one", "vector": b"two", "label": 3})
    writer.commit()
    wait_for_storage()
    assert lake.store.count("get", "get_range") == 0
    assert lake.store.count("put_if_absent") == 2
    assert lake.store.bytes_written < 40_000
    lake.store.reset()

    reader.refresh()
    assert lake.store.count() <= 3
    assert reader["sample"][-1] == b"one"
    assert lake.store.count("get_range") == 1


def test_an_update_of_a_row_reads_and_writes_its_own_path_only(lake):
    handle = open_on(lake.store)
    row = int(readable_rows(lake.scale, 1, seed=5)[0])
    lake.store.reset()

    handle["sample"][row] = b"another"
    handle.commit()

    assert lake.store.count("get", "get_range") <= 6
    assert lake.store.bytes_written < 2 << 20
    assert handle["sample"][row] == b"another"
    assert open_on(lake.store)["sample"][row] == b"another"


def test_stale_rows_in_many_leaves_are_found_without_reading_a_page(tmp_path):
    found = find_stale_rows(Workspace(tmp_path, None, is_quick=True))

    places = ("labels", "samples in sequence", "samples")
    assert [found.facts[f"requests, {what}"] for what in places] == [0, 0, 0]
    assert found.facts["requests, samples, pages compared"] > 0


def test_a_merge_reads_the_paths_of_what_changed_and_no_index_whole(lake):
    main = open_on(lake.store)
    rows = np.unique(readable_rows(lake.scale, 6, seed=9))
    mine, theirs = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    fix = main.branch("fix")
    for ds, changed, value in ((fix, theirs, b"theirs"), (main, mine, b"mine")):
        for row in changed.tolist():
            ds["sample"][row] = value
        ds.commit()
    wait_for_storage()
    merging = open_on(lake.store)
    lake.store.reset()

    merging.merge("fix")

    assert lake.store.count("get_range") <= 8 * len(rows)  # a path of each, in three versions
    assert lake.store.bytes_read < 4_000_000 * len(rows)
    found = [merging["sample"][row] for row in rows.tolist()]
    assert found == [b"mine"] * len(mine) + [b"theirs"] * len(theirs)


def test_old_versions_and_the_newest_commits_of_a_long_log_take_few_requests(lake):
    handle = open_on(lake.store)
    lake.store.reset()

    assert handle.at("main@7").version == "main@7"
    assert lake.store.count() <= 4  # one lists the records of forgotten rows
    lake.store.reset()
    assert len(handle.log(5)) == 5
    assert lake.store.count() <= 5
    lake.store.reset()
    then = handle.at("main@7").log(1)[0].time + dt.timedelta(microseconds=1)
    lake.store.reset()
    assert handle.at(then).version == "main@7"
    assert lake.store.round_trips <= 5
    assert lake.store.count() <= 5 + 3 * 32


def test_a_cold_sample_through_deleted_rows_is_five_requests_in_a_row(lake):
    """A selection with holes is a tree too; deleting 1% writes at most 20 MB."""
    handle = open_on(lake.store)
    count = len(handle)
    chosen = np.random.default_rng(0).integers(0, 100, count, dtype=np.uint8) == 0
    gone = np.flatnonzero(chosen)
    lake.store.reset()
    handle.delete(gone)
    handle.commit()
    wait_for_storage()
    assert lake.store.bytes_written <= 20e6
    row = int(readable_rows(lake.scale, 1)[0])
    row += int(chosen[row])
    cold = open_on(lake.store)
    lake.store.reset()

    found = cold["sample"][row - int(np.count_nonzero(chosen[:row]))]

    assert found == lake.samples[row % lake.scale.rows_a_chunk]
    assert lake.store.round_trips <= 5


def test_scattered_rows_read_their_blocks_and_each_is_verified():
    """format.md 46: bytes and requests of scattered 1 KiB rows, as dense as 1000 of 200,000."""
    store = FaultyStore(MemoryStore())
    counting = CountingStore(store)
    dataset = create_on(counting, {"x": tl.Array("uint16", shape=(512,))})
    values = np.random.default_rng(0).integers(0, 2**16, (WIDE_ROWS, 512), dtype=np.uint16)
    dataset.extend({"x": values})
    dataset.commit()
    wait_for_storage()
    rows = np.random.default_rng(1).choice(len(values), SCATTERED, replace=False)
    reader = open_on(counting)
    counting.reset()

    found = reader["x"][rows]

    assert np.array_equal(found, values[rows])
    assert counting.bytes_read <= 12e6 * SCATTERED / 1000
    assert counting.count("get_range") <= SCATTERED + 10
    again = open_on(store)
    again["x"][rows[:1]]  # its index pages are read
    store.inject(Fault.FLIPPED, call="get_ranges", path="packs/")
    with pytest.raises(CorruptionError, match="packs/"):
        again["x"][rows[1:50]]


@pytest.mark.slow
def test_an_entry_of_a_hundred_thousand_packs_stays_small():
    """format.md 48: each chunk of a tensor in a pack of its own."""
    dataset = create_on(MemoryStore(), {"x": "int64"})
    (spec,) = session_of(dataset).committed.schema.tensors
    pages = MemoryPages()
    count = 100_000
    one = Extents.chunk(
        rows=1, kind=1, pack=PackId("0" * 32, 0), offset=64, nbytes=72, header_nbytes=64, checksum=1
    )
    many = replace(
        one.take(np.zeros(count, np.int64)),
        pack=np.arange(count, dtype=np.uint32),
        packs=tuple(PackId(new_txid(), 0) for _ in range(count)),
    )
    root = runtime.run(tree.append(Root.of(Extents.empty()), many, pages, pages))
    head = session_of(dataset).head

    entry = head.changed(seq=1, prev=head.digest, roots={spec.id: root}, physical=count)

    assert len(entry.to_bytes()) < 16_000


@pytest.mark.slow
def test_an_entry_after_64_rebases_in_a_row_fits():
    """format.md 48: each rebase may fill a tail to twice its size, the next commit spills it."""
    store = MemoryStore()
    dataset = create_on(store, {f"t{number}": "float32" for number in range(8)})
    row = dict.fromkeys(dataset.schema, 1.0)
    for _ in range(64):  # each loses the race against the other handle's commit
        other = open_on(store)
        dataset.append(row)
        other.append(row)
        other.commit()
        dataset.commit()

    entry = runtime.run(store.get(entry_path("main", session_of(dataset).head.seq)))

    assert entry is not None
    assert len(entry) <= MAX_ENTRY_NBYTES
    assert len(open_on(store)) == 128
    assert open_on(store)["t7"][:].tolist() == [1.0] * 128


def test_a_version_vector_of_ten_thousand_branches_lies_in_a_page():
    """format.md 50: it is carried on by commits, and read only where it is asked for."""
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"x": "int64"})
    dataset.append({"x": 1})
    dataset.commit()
    wait_for_storage()
    pages = LakePacks(store, new_txid())
    head = session_of(dataset).head
    merged = {f"experiment/{number:05}": number for number in range(10_000)}
    entry = head.changed(
        seq=head.seq + 1, prev=head.digest, merged=merged, time=head.time + 1
    ).spill(pages)
    pages.send()
    data = entry.to_bytes()
    assert len(data) < 16_000
    runtime.run(store.put_if_absent(entry_path("main", entry.seq), data))
    runtime.run(store.put(head_path("main"), data))

    handle = open_on(store)
    handle.append({"x": 2})
    commit = handle.commit()

    newest = runtime.run(store.get(entry_path("main", session_of(handle).head.seq)))
    assert newest is not None
    assert len(newest) < 16_000
    read = Entry.from_bytes(newest, where=commit.version)
    assert "merged" in read.spilled
    loaded = runtime.run(read.load(session_of(handle).packs, where=commit.version))
    assert loaded.merged == merged
    assert open_on(store)["x"][:].tolist() == [1, 2]


@pytest.mark.soak
def test_a_sample_of_two_gibibytes_is_stored_and_read(tmp_path):
    """format.md 33."""
    nbytes = 2**31 + 5
    sample = np.zeros(nbytes, np.uint8)
    sample[:: 1 << 20] = 7
    sample[-1] = 9
    url = (tmp_path / "large").as_posix()
    with tl.create(url, {"x": tl.Bytes()}, durability="none") as dataset:
        dataset.append({"x": sample.tobytes()})
        dataset.commit()
    with tl.open(url, read_only=True) as handle:
        found = np.frombuffer(handle["x"][0], np.uint8)

    assert len(found) == nbytes
    assert found[-1] == 9
    assert int(np.count_nonzero(found)) == 2049 + 1
