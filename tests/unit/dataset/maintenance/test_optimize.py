"""Compaction: fewer chunks, the same dataset (docs/reference/format.md; tests 10, 11, 47)."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import ChunkKind
from tensorlake.quantities import human_nbytes
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore, FaultyStore
from tensorlake.versions.maintenance.optimize import chunks_in
from tensorlake.versions.maintenance.plan import stored_chunks
from tests.support.handles import create_on, open_on, reopened, rows_of
from tests.support.small_commits import (
    SCHEMA,
    chunk_count,
    content,
    extend,
    extents_of,
    many_small_commits,
    row,
)


def test_optimize_changes_no_value_row_id_or_order():
    """format.md 11."""
    ds = many_small_commits(MemoryStore())
    ds.delete([4, 5, 17, 30])
    ds["label"][[1, 8]] = [-1, -8]
    ds.commit("edits")
    before = content(ds)

    report = ds.optimize()

    assert report.commits == 1
    assert content(ds) == before
    assert content(reopened(ds)) == before
    assert ds.check().ok


def test_older_versions_stay_as_they_are():
    """format.md 10: a snapshot's content never changes under optimize."""
    ds = many_small_commits(MemoryStore(), commits=4)
    versions = [ds.at(f"main@{number}") for number in range(1, 5)]
    before = [content(version) for version in versions]

    ds.delete([0, 1, 2])
    ds.commit("delete")
    ds.optimize()

    assert [content(ds.at(f"main@{number}")) for number in range(1, 5)] == before
    assert [content(version) for version in versions] == before


def test_small_chunks_of_small_commits_become_one():
    """format.md 47, scaled down: label chunks after many small commits, and after optimize."""
    ds = many_small_commits(MemoryStore(), commits=40, rows=2)
    assert chunk_count(ds, "label") == 40

    ds.optimize()

    assert {name: chunk_count(ds, name) for name in SCHEMA} == dict.fromkeys(SCHEMA, 1)


@pytest.mark.soak
def test_label_chunks_after_a_hundred_thousand_images_in_small_commits():
    """format.md 47: 100 k rows in commits of 1000; after optimize labels fill one chunk."""
    ds = create_on(MemoryStore(), {"label": "int64", "image": tl.Bytes()})
    for _ in range(100):
        ds.extend({"label": np.arange(1000), "image": [b"x" * 500] * 1000})
        ds.commit()

    ds.optimize()

    assert chunk_count(ds, "label") == 1
    assert chunk_count(ds, "image") == -(-100_000 * 500 // (1 << 20))


def test_a_second_call_does_nothing():
    ds = many_small_commits(MemoryStore())
    ds.delete([3, 4, 5, 20])
    ds.commit("delete")
    ds.optimize()

    again = ds.optimize()

    assert again.commits == 0
    assert again.version == ds.version
    assert "optimal already" in repr(again)


def test_what_is_good_already_is_not_read_again():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"data": tl.Bytes()})
    ds.extend({"data": [bytes([number]) * 400_000 for number in range(20)]})  # full chunks
    ds.commit("bulk")
    full = chunk_count(ds, "data")
    for number in range(3):
        ds.append({"data": bytes([number])})
        ds.commit("small")
    here = open_on(store)
    store.reset()

    report = here.optimize()

    assert (report.chunks_before, report.chunks_after) == (full + 3, full + 1)
    assert store.bytes_read < 1_000_000  # not the 8 MB that are good


def test_nothing_of_a_deleted_row_is_left_in_what_the_version_refers_to():
    """Erasing for good is delete, commit, optimize, expire, gc: optimize does the middle."""
    store = MemoryStore()
    ds = create_on(store, {"data": tl.Bytes(), "text": "str", "vector": tl.Embedding(96)})
    count = 40
    ds.extend(
        {
            "data": [f"secret-data-{n}".encode() * 9 for n in range(count)],
            "text": [f"secret-text-{n}" for n in range(count)],
            "vector": np.arange(count, dtype=np.float32)[:, None] * np.ones(96, np.float32),
        }
    )
    ds.commit("all")
    ds.delete([7, 8, 9, 30])
    ds.commit("without four")

    ds.optimize()

    for name in ("data", "text", "vector"):
        snapshot = rowset_of(ds).selection.snapshot
        spec = snapshot.spec(name)
        table = extents_of(ds, name)
        keys = rowset_of(ds).reader().locate(name, snapshot.physical(np.arange(len(ds)))).chunks
        shown = [
            str(value)
            for key in keys
            for value in _samples(rowset_of(ds).reader().decode_chunk(name, key, _blob(store, key)))
        ]
        assert not any(
            f"{what}-{n}'" in text or f"{what}-{n}" == text
            for text in shown
            for what in ("secret-data", "secret-text")
            for n in (7, 8, 9, 30)
        )
        assert spec.name != "vector" or 7.0 not in {float(v) for v in _vectors(ds, store, keys)}
        assert table.num_rows == snapshot.state.physical


def _blob(store, key):
    return runtime.run(store.get_range(key.pack.path, key.offset, key.offset + key.nbytes))


def _samples(column):
    values = getattr(column, "samples", None)
    return [] if values is None else [bytes(one)[:18].decode() for one in values]


def _vectors(ds, store, keys):
    for key in keys:
        column = rowset_of(ds).reader().decode_chunk("vector", key, _blob(store, key))
        yield from column.values[:, 0].tolist()


def test_long_runs_of_dead_rows_become_holes_and_scattered_ones_empty_samples():
    ds = create_on(MemoryStore(), {"number": "int64", "vector": tl.Embedding(96)})
    ds.extend({"number": np.arange(2000), "vector": np.ones((2000, 96), np.float32)})
    ds.commit("all")
    ds.delete([*range(500, 1500), 3, 7])
    ds.commit("fewer")

    ds.optimize()

    kinds = extents_of(ds, "number").kind.tolist()
    assert kinds.count(ChunkKind.HOLE) == 1  # the long run; 3 and 7 are emptied in place
    assert extents_of(ds, "vector").kind.tolist().count(ChunkKind.HOLE) == 3
    assert ds["number"][:].tolist() == [
        n for n in range(2000) if not 500 <= n < 1500 and n not in {3, 7}
    ]


def test_emptied_rows_are_not_counted_as_nulls():
    ds = create_on(MemoryStore(), {"text": tl.Text(nullable=True), "number": "int64"})
    ds.extend({"text": ["a", None, "c", "d"], "number": [1, 2, 3, 4]})
    ds.commit("all")
    ds.delete([0])
    ds.commit("fewer")

    ds.optimize()

    assert {one.name: one.nulls for one in ds.summary().tensors} == {"text": 1, "number": 0}
    assert ds.query("WHERE number IS NULL").count() == 0


def test_statistics_after_optimize_prune_as_before():
    ds = create_on(MemoryStore(), {"number": "int64"})
    for start in range(0, 100, 10):
        ds.extend({"number": np.arange(start, start + 10)})
        ds.commit()
    ds.optimize()

    assert ds.query("WHERE number >= 95").count() == 5
    assert ds.query("WHERE number > 99").count() == 0


def test_values_replaced_since_are_dropped_from_their_chunk():
    noise = np.random.default_rng(0).integers(0, 255, (20, 200, 200, 3), np.uint8)
    ds = create_on(MemoryStore(), {"image": tl.Image(codec="png")})
    ds.extend({"image": list(noise)})  # 2.4 MB in one chunk: it is split, not written again
    ds.commit("bulk")
    ds["image"][[5]] = [np.zeros((4, 4, 3), np.uint8)]
    ds.commit("one")
    assert len(extents_of(ds, "image")) == 3
    before = ds.row_ids, pixels_of(ds)

    ds.optimize()

    assert len(extents_of(ds, "image")) == chunk_count(ds, "image") == 1
    assert (ds.row_ids, pixels_of(ds)) == before
    assert ds.optimize().commits == 0


def pixels_of(ds: Dataset) -> list[tuple[tuple[int, ...], bytes]]:
    return [(row["image"].shape, row["image"].tobytes()) for row in ds]


def test_a_dry_run_only_says_what_would_be_done():
    ds = many_small_commits(MemoryStore())
    ds.delete([0])
    ds.commit("delete")

    told = ds.optimize(dry_run=True)

    assert told.commits == 0
    assert told.is_dry_run
    assert told.dead_rows == 1
    assert (told.chunks_before, told.chunks_after) == (60, 5)
    assert ds.version == "main@13"
    assert "60 chunks would be 5" in repr(told)
    assert ds.optimize().chunks_after == told.chunks_after


LISTS = tl.Array("int32", shape=(None,))


def updated_here_and_there(store):
    """Chunks of which every update has cut a few rows out: many parts of one chunk are in use."""
    schema = {"x": tl.Array("float32", shape=(1000,)), "text": "str", "n": "int64", "list": LISTS}
    ds = create_on(store, schema)
    random, count = np.random.default_rng(0), 1000
    ds.extend(
        {
            "x": random.random((count, 1000), np.float32),
            "text": [f"text {number}" * (number % 9) for number in range(count)],
            "n": range(count),
            "list": [np.arange(number % 50, dtype=np.int32) for number in range(count)],
        }
    )
    ds.commit("all")
    for _ in range(3):
        rows = random.choice(count, 8, replace=False)
        ds["x"][rows] = random.random((8, 1000), np.float32)
        ds["text"][rows] = ["another"] * 8
        ds["n"][rows] = -1
        ds["list"][rows] = [np.zeros(3, np.int32)] * 8
        ds.commit("update")
    ds.delete(range(100, 200))
    ds.commit("delete")
    return ds


@pytest.mark.parametrize("order_by", [None, "n DESC"])
def test_a_dry_run_tells_what_the_run_does_and_stores_nothing(order_by):
    """It had promised five times the chunks, and bytes that were not written."""
    store = CountingStore(MemoryStore())
    ds = updated_here_and_there(store)
    counts = {name: chunk_count(ds, name) for name in ds.schema}
    store.reset()

    told = ds.optimize(order_by, dry_run=True)
    written = store.bytes_written
    done = ds.optimize(order_by)

    assert written == 0
    assert told.tensors == done.tensors
    assert {one.name: one.chunks_before for one in done.tensors} == counts
    assert {one.name: one.chunks_after for one in done.tensors} == {
        name: chunk_count(ds, name) for name in ds.schema
    }
    assert f"{human_nbytes(done.nbytes_written)} written" in repr(told)
    assert f"{human_nbytes(done.nbytes_written)} written" in repr(done)


def test_what_optimize_says_of_bytes_is_what_chunks_take():
    ds = updated_here_and_there(MemoryStore())
    before = {name: chunks_in(extents_of(ds, name)) for name in ds.schema}

    done = ds.optimize()

    for one in done.tensors:
        old, new = before[one.name], chunks_in(extents_of(ds, one.name))
        gone, made = old.keys() - new.keys(), new.keys() - old.keys()
        assert (one.chunks_moved, one.chunks_made) == (len(gone), len(made))
        assert one.nbytes_moved == sum(old[chunk] for chunk in gone)
        assert one.nbytes_made == sum(new[chunk] for chunk in made)


def test_a_chunk_is_read_once_however_many_parts_of_it_are_in_use():
    store = CountingStore(MemoryStore())
    ds = updated_here_and_there(store)
    stored = sum(int(stored_chunks(extents_of(ds, name)).nbytes.sum()) for name in ds.schema)
    store.reset()

    ds.optimize()

    assert store.bytes_read < 1.5 * stored


def test_only_a_branch_without_staged_changes_is_optimized():
    ds = many_small_commits(MemoryStore(), commits=2)

    with pytest.raises(tl.errors.ReadOnlyError, match="cannot write"):
        ds.at("main@1").optimize()
    ds.append(row(1))
    with pytest.raises(tl.errors.UncommittedChangesError, match="staged changes"):
        ds.optimize()


def test_an_empty_dataset_is_optimal():
    ds = create_on(MemoryStore(), SCHEMA)

    assert ds.optimize().commits == 0


def test_a_dataset_of_which_every_row_was_deleted_becomes_holes():
    ds = many_small_commits(MemoryStore())
    ds.delete(range(len(ds)))
    ds.commit("nothing left")

    report = ds.optimize()

    assert report.chunks_after == 0
    assert set(extents_of(ds, "data").kind.tolist()) == {ChunkKind.HOLE}
    extend(ds, 0, 2)
    ds.commit("a beginning")
    assert rows_of(ds, ["label"]) == [{"label": 0}, {"label": 1}]


# Others at work


def test_rows_appended_meanwhile_follow():
    store = FaultyStore(MemoryStore())
    ds = many_small_commits(store)
    before = content(ds)

    def append() -> None:
        other = open_on(store)
        extend(other, 900, 903)
        other.commit("meanwhile")

    store.before("put_if_absent", append, path="branches/main/")
    report = ds.optimize()

    assert report.yielded == 0
    assert chunk_count(ds, "label") == 2
    assert content(ds)[1][:-3] == before[1]
    assert ds["label"][-3:].tolist() == [900, 901, 902]


def test_values_updated_meanwhile_keep_their_version():
    store = FaultyStore(MemoryStore())
    ds = many_small_commits(store)

    def update() -> None:
        other = open_on(store)
        other["label"][[4]] = [777]
        other.commit("meanwhile")

    store.before("put_if_absent", update, path="branches/main/")
    report = ds.optimize()

    assert report.yielded == 1  # the stretch of labels, not those of the other tensors
    assert ds["label"][4] == 777
    assert chunk_count(ds, "data") == 1
    assert ds.optimize().yielded == 0
    assert ds["label"][4] == 777


def test_rows_deleted_meanwhile_stay_deleted():
    store = FaultyStore(MemoryStore())
    ds = many_small_commits(store)

    def delete() -> None:
        other = open_on(store)
        other.delete([0, 1])
        other.commit("meanwhile")

    store.before("put_if_absent", delete, path="branches/main/")
    ds.optimize()

    assert ds["label"][:2].tolist() == [2, 3]
    assert ds.check().ok


def test_an_optimization_that_others_were_faster_with_yields():
    store = FaultyStore(MemoryStore())
    ds = many_small_commits(store)
    before = content(ds)
    store.before("put_if_absent", lambda: open_on(store).optimize(), path="branches/main/")

    report = ds.optimize()

    assert report.commits == 0
    assert content(ds) == before
    assert chunk_count(ds, "label") == 1


def test_an_update_staged_before_an_optimization_commits_after_it():
    store = MemoryStore()
    ds = many_small_commits(store)
    late = open_on(store)
    late["label"][[2, 20]] = [-2, -20]
    late.delete([5])

    ds.optimize()
    late.commit("late")

    labels = late["label"][:].tolist()
    expected = [n for n in range(36) if n != 5]
    expected[2], expected[19] = -2, -20
    assert labels == expected
    assert late.check().ok


def test_rows_that_a_restore_brings_back_are_not_lost():
    """What the head shows again, a round must not drop."""
    store = FaultyStore(MemoryStore())
    ds = many_small_commits(store)
    ds.delete([0, 1, 2])
    ds.commit("delete")

    store.before("put_if_absent", lambda: open_on(store).restore("main@12"), path="branches/main/")
    ds.optimize()

    assert ds["label"][:4].tolist() == [0, 1, 2, 3]
    assert ds.check().ok


def test_a_branch_that_ends_meanwhile_is_not_written_to():
    """format.md 17, for optimize."""
    store = FaultyStore(MemoryStore())
    main = many_small_commits(store, commits=3)
    ds = main.branch("side")
    store.before("put_if_absent", lambda: main.delete_branch("side"), path="branches/side/")

    with pytest.raises(tl.errors.InvalidStateError, match="deleted meanwhile"):
        ds.optimize()
