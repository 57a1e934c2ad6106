"""The index of a tensor: in the tree, flat, and shared between versions: the same answers."""

import asyncio
import hashlib
import itertools
from dataclasses import replace

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import RowNotFoundError
from tensorlake.format import (
    Extents,
    PageRef,
    Root,
    RowSegments,
    delete_rows,
    tree,
)
from tensorlake.format import PageReader as Pages
from tensorlake.reading import ChunkIndex
from tensorlake.reading.index.extent_table import FlatExtents
from tensorlake.reading.snapshot import RowMap
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore
from tensorlake.types import concat
from tests.support.handles import create_on, open_on, reader_without_totals, wait_for_storage
from tests.unit.reading.index_pages import CHUNKS, ROWS_A_CHUNK, CountedPages, extents_of


@pytest.fixture(scope="module")
def large() -> tuple[Root[Extents], CountedPages]:
    pages = CountedPages()
    empty = Root.of(Extents.empty())
    root = runtime.run(tree.append(empty, extents_of(CHUNKS), pages, pages))
    tail = extents_of(5, seed=1)
    return runtime.run(tree.append(root, tail, pages, pages)), pages


def asked(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, (CHUNKS + 5) * ROWS_A_CHUNK, count)


def test_a_row_of_a_large_index_reads_one_leaf(large):
    root, pages = large
    index = ChunkIndex(root, Pages(pages))
    pages.reads = 0

    located = index.locate(np.array([123_456]))

    assert pages.reads == root.height
    assert located.row_in_chunk.tolist() == [6]
    assert located.chunks[0].offset == 64 + 1024 * 12_345
    assert (located.starts.tolist(), located.rows.tolist()) == ([123_450], [10])


def test_rows_are_found_alike_in_the_tree_and_flat(large):
    root, pages = large
    flat = ChunkIndex(root, Pages(pages))
    flat.locate(np.arange(0, root.rows, ROWS_A_CHUNK))  # of each leaf: all is read
    for rows in (asked(1, 50), np.sort(asked(2, 50)), asked(3, 0), np.array([root.rows - 1, 0])):
        in_tree = ChunkIndex(root, Pages(pages)).locate(rows)
        pages.reads = 0
        found = flat.locate(rows)

        assert pages.reads == 0
        assert list(found.chunks) == list(in_tree.chunks)
        for name in ("chunk", "row_in_chunk", "starts", "rows"):
            assert getattr(found, name).tolist() == getattr(in_tree, name).tolist()
        keys = [found.chunks[chunk] for chunk in found.chunk.tolist()]
        entry = rows // ROWS_A_CHUNK
        assert [key.pack.n for key in keys] == (entry >= CHUNKS).astype(int).tolist()
        assert [key.offset for key in keys] == (64 + 1024 * (entry % CHUNKS)).tolist()
        assert found.row_in_chunk.tolist() == (rows % ROWS_A_CHUNK).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 1), (123_455, 123_465), (599_985, 600_012), (600_003, 600_050)]
)
def test_consecutive_rows_are_found_by_their_ends_as_they_are_row_by_row(large, start, stop):
    root, pages = large
    index = ChunkIndex(root, Pages(pages))
    index.locate(np.arange(0, root.rows, ROWS_A_CHUNK))
    located = index.locate(np.arange(start, stop))

    runs = index.runs(start, stop)

    assert runs is not None
    found = [(run.chunk, row) for run in runs for row in range(run.start, run.stop)]
    chunks = [located.chunks[chunk] for chunk in located.chunk.tolist()]
    assert found == list(zip(chunks, located.row_in_chunk.tolist(), strict=True))


def test_consecutive_rows_are_left_to_the_tree_until_it_is_flat(large):
    root, pages = large
    pages.reads = 0

    runs = ChunkIndex(root, Pages(pages)).runs(0, 20)

    assert (runs, pages.reads) == (None, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 1), (123_455, 123_465), (599_985, 600_012), (600_003, 600_050)]
)
def test_consecutive_rows_are_found_by_their_ends_in_the_tree_too(large, start, stop):
    root, pages = large
    flat, in_tree = (ChunkIndex(root, Pages(pages)) for _ in range(2))
    flat.locate(np.arange(0, root.rows, ROWS_A_CHUNK))
    pages.reads = 0

    found = in_tree.find_runs(start, stop)

    assert found == flat.runs(start, stop)
    assert pages.reads <= root.height


@pytest.mark.slow
def test_an_index_of_which_all_runs_are_asked_is_flat_from_then_on(large):
    root, pages = large
    index = ChunkIndex(root, Pages(pages))
    whole = index.find_runs(0, root.rows)
    pages.reads = 0

    assert index.runs(0, root.rows) == whole
    assert index.find_runs(17, 33) == index.runs(17, 33)
    assert pages.reads == 0


def test_consecutive_rows_beyond_the_axis_are_no_run(large):
    root, pages = large

    assert ChunkIndex(root, Pages(pages)).runs(root.rows - 5, root.rows + 1) is None
    assert ChunkIndex(root, Pages(pages)).find_runs(root.rows - 5, root.rows + 1) is None


@pytest.mark.parametrize("sizes", ["equal", "uneven", "one tiny"])
@pytest.mark.parametrize("first_row", [0, 777])
def test_rows_are_found_whatever_the_sizes_of_extents(sizes, first_row):
    random = np.random.default_rng(1)
    counts = {"equal": np.full(300, 1024), "uneven": random.integers(900, 5000, 300)}
    rows = counts.get(sizes, np.full(300, 4096)).astype(np.uint32)
    rows[-1] = 5
    if sizes == "one tiny":
        rows[7] = 1
    extents = replace(extents_of(300), rows=rows)
    stops = extents.rows.cumsum(dtype=np.int64) + first_row
    edges = np.concatenate([[first_row], stops - 1, stops[:-1]])
    wanted = np.concatenate([edges, random.integers(first_row, stops[-1], 10_000)])

    located = FlatExtents.of(extents, first_row=first_row).locate(wanted)

    entry = [int((stops <= row).sum()) for row in wanted.tolist()]
    offsets = [located.chunks[chunk].offset for chunk in located.chunk.tolist()]
    assert offsets == extents.offset[entry].tolist()
    starts = stops - extents.rows
    assert located.row_in_chunk.tolist() == (wanted - starts[entry]).tolist()


@pytest.mark.parametrize("count", [1, 4096, 4097, 3 * 4096, 20_000])
@pytest.mark.parametrize("order", ["sorted", "any"])
def test_rows_are_found_in_more_extents_than_a_cache_holds(count, order):
    random = np.random.default_rng(count)
    rows = random.integers(1, 40, 70_000).astype(np.uint32)
    extents = replace(extents_of(len(rows)), rows=rows)
    starts = extents.stops - rows
    wanted = random.integers(0, extents.num_rows, count)
    wanted[: count // 4] = starts[random.integers(0, len(rows), count // 4)]  # where some begin
    if order == "sorted":
        wanted.sort()

    located = FlatExtents.of(extents, first_row=0).locate(wanted)

    entry = np.repeat(np.arange(len(rows)), rows)[wanted]
    assert np.array_equal(located.starts[located.chunk], starts[entry])
    assert np.array_equal(located.row_in_chunk, wanted - starts[entry])


def test_scattered_rows_make_the_index_flat_once(large):
    root, pages = large
    index = ChunkIndex(root, Pages(pages, max_cached_nbytes=0))
    leaves = len(root.children)
    pages.reads = 0

    for seed in range(4 * leaves):
        index.locate(asked(seed, 1))

    assert leaves < pages.reads <= 2 * leaves + 1


def test_an_append_keeps_the_flat_part_of_the_version_before(large):
    root, pages = large
    index = ChunkIndex(root, Pages(pages))
    index.locate(asked(0, 10_000))
    grown = runtime.run(tree.append(root, extents_of(3, seed=2), pages, pages))
    pages.reads = 0

    after = ChunkIndex(grown, Pages(pages), before=index)
    located = after.locate(np.arange(grown.rows - 40, grown.rows))

    assert pages.reads == 0
    assert [key.pack.n for key in located.chunks][-3:] == [2, 2, 2]
    assert after.locate(asked(9, 1000)).chunk.max() < 1000
    assert pages.reads == 0


def test_a_row_beyond_the_axis_is_refused(large):
    root, pages = large

    with pytest.raises(RowNotFoundError, match="beyond the index"):
        ChunkIndex(root, Pages(pages)).locate(np.array([3, root.rows]))


def test_windows_of_a_chunk_that_an_update_cut_are_one_chunk():
    dataset = create_on(MemoryStore(), {"x": tl.Array("uint8", shape=(1024,))})
    dataset.extend({"x": np.zeros((3000, 1024), np.uint8)})
    dataset.commit()
    dataset["x"][1000:1010] = np.ones((10, 1024), np.uint8)
    dataset.commit()

    located = rowset_of(dataset).reader().locate("x", np.array([999, 1000, 1010, 5]))

    assert len(set(located.chunks)) == len(located.chunks)
    keys = [located.chunks[chunk] for chunk in located.chunk.tolist()]
    assert keys[0] == keys[2]
    assert keys[1] != keys[0]
    assert np.array_equal(dataset["x"][998:1012][:, 0], [0, 0, *[1] * 10, 0, 0])


def test_consecutive_rows_across_fills_updates_and_nulls_are_what_single_rows_are():
    dataset = create_on(
        MemoryStore(), {"x": tl.Array("int32", shape=(), nullable=True), "y": "int32"}
    )
    dataset.extend({"x": list(range(3000)), "y": list(range(3000))})
    dataset.commit()
    dataset["x"][100:103] = [None, -1, -2]
    dataset.add_tensor("z", "int16", fill=7)
    dataset.extend({"x": [1, None], "y": [1, 2], "z": [8, 9]})
    dataset.commit()
    reader = rowset_of(dataset).reader()
    for name in ("x", "y", "z"):
        for start, stop in ((0, 3002), (99, 104), (2990, 3002), (101, 102)):
            rows = np.arange(start, stop)
            one_by_one = concat([reader.read(name, rows[at : at + 1]) for at in range(len(rows))])
            together = reader.read(name, rows)

            assert together.values.tolist() == one_by_one.values.tolist()
            if one_by_one.valid is None:
                assert together.valid is None
            else:
                assert together.valid.tolist() == one_by_one.valid.tolist()


@pytest.fixture(scope="module")
def thinned() -> tuple[Root[RowSegments], CountedPages, np.ndarray]:
    """Two million rows without one in a hundred."""
    pages = CountedPages()
    count = 2_000_000
    gone = np.sort(np.random.default_rng(0).choice(count, count // 100, replace=False))
    root = Root.of(RowSegments.range(0, count))
    kept = runtime.run(delete_rows(root, gone, pages, pages))
    return kept, pages, np.setdiff1d(np.arange(count), gone)


@pytest.mark.slow
def test_rows_of_a_selection_with_deletes_are_mapped_in_the_tree_in_memory_and_as_an_array(thinned):
    root, pages, model = thinned
    row_map = RowMap(root, Pages(pages))
    sizes = itertools.chain([1, 3, 100], [10_000] * 40)

    for seed, size in enumerate(sizes):
        rows = np.random.default_rng(seed).integers(0, len(model), size)
        assert np.array_equal(row_map.physical(rows), model[rows])
    pages.reads = 0
    assert np.array_equal(row_map.physical(np.arange(len(model))), model)
    assert pages.reads == 0


@pytest.mark.slow
def test_one_row_of_a_selection_with_deletes_reads_one_leaf(thinned):
    root, pages, model = thinned
    pages.reads = 0

    assert RowMap(root, Pages(pages)).physical(np.array([777_777]))[0] == model[777_777]
    assert pages.reads == root.height


def test_a_commit_and_the_reads_after_it_do_not_read_the_index_again():
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"x": "int64"})
    for number in range(200):  # as many chunks, some in leaves
        dataset.append({"x": number})
        dataset.commit()
    handle = open_on(store)
    assert handle["x"][:].tolist() == list(range(200))
    wait_for_storage()
    store.reset()

    handle.append({"x": 200})
    handle.commit()
    assert handle["x"][[0, 100, 200]].tolist() == [0, 100, 200]

    assert store.count("get_range") <= 1  # the new chunk's own
    wait_for_storage()


def test_a_snapshot_of_a_discarded_change_leaves_the_index_of_the_committed_alone():
    dataset = create_on(MemoryStore(), {"x": "int64"})
    dataset.extend({"x": np.arange(100)})
    dataset.commit()
    digest = hashlib.sha256(dataset["x"][:].tobytes()).hexdigest()
    dataset["x"][5] = 50
    assert dataset["x"][5] == 50

    dataset.discard()

    assert hashlib.sha256(dataset["x"][:].tobytes()).hexdigest() == digest


def test_asking_how_large_rows_are_reads_the_pages_that_finding_them_needs():
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"x": tl.Array("uint8", shape=(6000,))})
    for start in range(40):  # chunks of their own, more than a root holds itself
        dataset.extend({"x": np.random.default_rng(start).integers(0, 255, (2, 6000), np.uint8)})
        dataset.commit("two rows")
    wait_for_storage()
    index = reader_without_totals(open_on(store)).index("x")
    store.reset()

    assert runtime.run(index.row_nbytes()) >= 6000
    asked = store.count("get_range", "get_ranges")
    index.locate(np.arange(0, 80, 7))

    assert asked > 0
    assert store.count("get_range", "get_ranges") == asked


def test_the_root_says_what_a_row_weighs_as_its_pages_would():
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"x": tl.Array("uint8", shape=(6000,)), "y": "int32"})
    for start in range(40):
        x = np.random.default_rng(start).integers(0, 255, (1 + start % 3, 6000), np.uint8)
        dataset.extend({"x": x, "y": np.arange(len(x))})
        dataset.commit("some rows")
    dataset["x"][17] = np.zeros(6000, np.uint8)
    dataset["y"][5] = -1
    dataset.commit("two cells")
    wait_for_storage()
    handle = open_on(store)
    store.reset()

    stated = rowset_of(handle).reader().row_nbytes(["x", "y"])

    assert store.count() == 0
    assert stated == reader_without_totals(handle).row_nbytes(["x", "y"])
    assert store.count() > 0


def test_what_the_root_says_a_row_weighs_needs_no_other_thread():
    store = MemoryStore()
    dataset = create_on(store, {"x": tl.Array("uint8", shape=(6000,))})
    dataset.extend({"x": np.zeros((8, 6000), np.uint8)})
    dataset.commit("eight rows")
    wait_for_storage()
    reader = rowset_of(open_on(store)).reader()

    async def on_the_storage_loop() -> list[int]:
        return reader.row_nbytes(["x"])  # which would refuse to wait for itself

    assert runtime.run(on_the_storage_loop()) == reader.row_nbytes(["x"])


def test_the_sizes_of_several_tensors_take_the_round_trips_of_one():
    store = CountingStore(MemoryStore())
    names = [f"x{number}" for number in range(5)]
    dataset = create_on(store, dict.fromkeys(names, tl.Array("uint8", shape=(6000,))))
    for start in range(40):
        rows = np.random.default_rng(start).integers(0, 255, (2, 6000), np.uint8)
        dataset.extend(dict.fromkeys(names, rows))
        dataset.commit("two rows")
    wait_for_storage()
    alone, together = (reader_without_totals(open_on(store)) for _ in range(2))
    store.reset()
    (one,) = alone.row_nbytes(names[:1])
    trips = store.round_trips
    store.reset()

    assert together.row_nbytes(names) == [one] * 5
    assert store.round_trips == trips > 0


class SlowPages(CountedPages):
    """Pages that come when nobody asks for more."""

    async def read(self, ref: PageRef, /) -> bytes:
        page = await super().read(ref)
        for _ in range(10):
            await asyncio.sleep(0)
        return page


def test_lookups_at_the_same_time_read_a_page_once():
    pages = SlowPages()
    empty = Root.of(Extents.empty())
    root = runtime.run(tree.append(empty, extents_of(10_000), pages, pages))
    reader = Pages(pages)
    pages.reads = 0

    async def several() -> list[object]:
        row = np.array([12_345])
        return list(await asyncio.gather(*(tree.locate(root, row, reader) for _ in range(6))))

    assert len(runtime.run(several())) == 6
    assert pages.reads == root.height
