"""Compaction of a tail: what it merges, what it leaves alone, and what interrupts it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of, session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import ChunkKind, Schema
from tensorlake.storage import MemoryStore, Store
from tensorlake.testing import CountingStore, Fault, FaultyStore, SimulatedCrash
from tensorlake.versions import Published
from tensorlake.versions.maintenance.index_edits import Round
from tensorlake.versions.maintenance.plan import Piece
from tensorlake.versions.maintenance.tail import (
    CHUNK_NBYTES,
    TOTAL_NBYTES,
    Tail,
    compact_tail,
    planned,
)
from tests.support.handles import create_on, open_on, reopened, wait_for_storage
from tests.support.small_commits import (
    SCHEMA,
    chunk_count,
    content,
    extents_of,
    many_small_commits,
    row,
)

SPEC = Schema.new({"x": "int64"})["x"]
WALL = Piece("wall", 0, 0)
SMALL = Piece("chunk", 0, 1, windows=((0, 1),), nbytes=100)
FILL = Piece("fill", 0, 1, nbytes=100)
HOLE = Piece("hole", 0, 1)


def compacted(ds: Dataset, *, over: Store | None = None) -> Published | None:
    """Compact the tail of a handle's version, through another store if one is given."""
    handle = ds if over is None else open_on(over)
    session = session_of(handle)
    moved = Round.begin(session.packs, session.head, session.committed.state)
    return compact_tail(moved, session.log, author="ana")


def row_by_row(store: Store, rows: int) -> Dataset:
    """Fill a new dataset with one row a commit."""
    return many_small_commits(store, commits=rows, rows=1)


def kinds(*pieces: Piece, nbytes: int = TOTAL_NBYTES) -> list[list[str]]:
    """The kinds of the pieces that move, a list for each stretch."""
    return [[piece.what for piece in one] for one in Tail(SPEC, pieces).stretches(nbytes)]


def test_what_is_not_between_two_small_chunks_stays():
    assert kinds(WALL, SMALL, WALL, HOLE, FILL) == []
    assert kinds(SMALL, FILL, WALL) == []
    assert kinds(SMALL, SMALL, WALL, SMALL) == [["chunk", "chunk"]]
    assert kinds(FILL, SMALL, HOLE, FILL, SMALL, HOLE) == [["chunk", "hole", "fill", "chunk"]]


def test_the_newest_chunks_are_moved_where_not_all_fit():
    first, *others = (replace(SMALL, start=at, stop=at + 1) for at in range(5))

    assert Tail(SPEC, [first, *others]).stretches(4 * SMALL.nbytes) == [others]


def test_a_chunk_alone_takes_no_bytes_from_the_stretch_before_it():
    assert kinds(SMALL, SMALL, WALL, SMALL, nbytes=2 * SMALL.nbytes) == [["chunk", "chunk"]]


def test_tensors_that_need_little_leave_the_rest_to_the_others():
    half = replace(SMALL, nbytes=TOTAL_NBYTES // 2)
    quarter = replace(SMALL, nbytes=TOTAL_NBYTES // 4)

    assert [len(pieces) for _, pieces in planned([Tail(SPEC, [quarter] * 9)] * 2)] == [2, 2]
    needs = [Tail(SPEC, [half, quarter, quarter]), Tail(SPEC, [SMALL] * 2), Tail(SPEC, [WALL])]
    assert [len(pieces) for _, pieces in planned(needs)] == [2, 2]


def test_small_chunks_of_all_types_become_one_and_nothing_else_changes():
    ds = row_by_row(MemoryStore(), 20)
    before = content(ds)

    published = compacted(ds)

    assert published is not None
    after = reopened(ds)
    assert after.version == "main@21"
    assert {name: chunk_count(after, name) for name in SCHEMA} == dict.fromkeys(SCHEMA, 1)
    assert content(after) == before
    assert content(ds.at("main@20")) == before
    assert after.check().ok


def test_the_entry_changes_nothing_and_names_the_author():
    ds = row_by_row(MemoryStore(), 3)

    compacted(ds)

    commit = reopened(ds).log()[0]
    assert (commit.message, commit.author) == ("optimize: merge small chunks", "ana")
    assert commit.summary() == "no change"


def test_chunks_that_no_longer_are_small_stay_where_they_are():
    ds = create_on(MemoryStore(), {"x": tl.Array("uint8", (1000,))})
    samples = np.random.default_rng(0).integers(0, 256, (66, 1000), np.uint8)
    ds.extend({"x": samples})  # just larger than 64 KiB
    ds.commit()
    for sample in samples[:4]:
        ds.append({"x": sample})
        ds.commit()

    compacted(ds)

    assert extents_of(reopened(ds), "x").rows.tolist() == [66, 4]


def test_large_samples_are_left_alone_beside_small_ones():
    ds = create_on(MemoryStore(), {"label": "int64", "data": tl.Bytes()})
    for number in range(6):
        ds.append({"label": number, "data": bytes([number]) + np.random.default_rng(0).bytes(5000)})
        ds.commit()
    before = extents_of(ds, "data")

    compacted(ds)

    after = extents_of(reopened(ds), "data")
    assert chunk_count(reopened(ds), "label") == 1
    assert (after.packs[0], len(after)) == (before.packs[0], 6)


def test_at_most_a_mebibyte_is_moved_at_a_time():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"x": tl.Array("uint8", (1000,))})
    samples = np.random.default_rng(0).integers(0, 256, (60, 1000), np.uint8)
    for _ in range(24):
        ds.extend({"x": samples})
        ds.commit()
    store.reset()

    compacted(ds)

    assert TOTAL_NBYTES - CHUNK_NBYTES < store.bytes_written < TOTAL_NBYTES + CHUNK_NBYTES
    assert extents_of(reopened(ds), "x").rows.tolist()[:7] == [60] * 7


def test_rows_that_are_not_shown_keep_their_values():
    ds = row_by_row(MemoryStore(), 8)
    ds.delete([2, 3])
    ds.commit()

    compacted(ds)

    after = reopened(ds)
    assert chunk_count(after, "label") == 1
    assert not (extents_of(after, "label").kind == ChunkKind.HOLE).any()
    snapshot = rowset_of(after).selection.snapshot
    stored = session_of(after).reader(snapshot).read("label", np.arange(8), decode=False)
    assert stored.values.tolist() == list(range(8))
    after.restore("main@8")
    assert after["label"][:].tolist() == list(range(8))


def test_values_given_since_and_new_tensors_are_kept():
    ds = row_by_row(MemoryStore(), 8)
    ds["label"][[1, 5]] = [-1, -5]
    ds.add_tensor("score", "float32", fill=0.5)
    ds.commit()
    ds.append({**row(8), "score": 1.0})
    ds.commit()
    ds.append({**row(9), "score": 2.0})
    ds.commit()
    before = content(ds)

    compacted(ds)

    assert content(reopened(ds)) == before
    assert chunk_count(reopened(ds), "label") == 1
    assert reopened(ds).check().ok


def test_nothing_is_published_where_nothing_is_small():
    ds = row_by_row(MemoryStore(), 1)

    assert compacted(ds) is None
    assert reopened(ds).version == "main@1"


def test_after_a_lost_race_it_is_dropped():
    objects = MemoryStore()
    ds = row_by_row(objects, 6)
    store = FaultyStore(objects)
    store.before("put_if_absent", lambda: _append(open_on(objects), 6), path="branches/main/")

    assert compacted(ds, over=store) is None

    after = reopened(ds)
    assert after.version == "main@7"
    assert after["label"][:].tolist() == list(range(7))
    assert chunk_count(after, "label") == 7


def test_a_transaction_under_way_is_committed_after_it():
    ds = row_by_row(MemoryStore(), 6)
    other = reopened(ds)
    other["label"][2] = -2
    other.delete([4])
    _stage(other, 6)

    compacted(ds)
    other.commit()

    after = reopened(ds)
    assert after["label"][:].tolist() == [0, 1, -2, 3, 5, 6]
    assert after.check().ok


@pytest.mark.parametrize("writes", range(4))
def test_a_process_that_dies_in_it_loses_nothing(writes):
    objects = MemoryStore()
    ds = row_by_row(objects, 6)
    before = content(ds)
    wait_for_storage()
    store = FaultyStore(objects)
    store.crash_after(writes)

    try:
        compacted(ds, over=store)
    except SimulatedCrash:
        assert writes < 2  # a pack, the entry; the hint follows in the background
    wait_for_storage()

    after = open_on(objects)
    assert content(after) == before
    assert after.check().ok
    _append(after, 6)
    assert open_on(objects)["label"][:].tolist() == list(range(7))


def test_a_damaged_chunk_is_not_merged():
    objects = MemoryStore()
    ds = row_by_row(objects, 6)
    store = FaultyStore(objects)
    handle = open_on(store)
    store.inject(Fault.FLIPPED, call="get_ranges", path="packs/")

    with pytest.raises(tl.CorruptionError):
        compacted(handle)
    assert reopened(ds).version == "main@6"


def _stage(ds: Dataset, number: int) -> None:
    ds.append(row(number))


def _append(ds: Dataset, number: int) -> None:
    _stage(ds, number)
    ds.commit()
