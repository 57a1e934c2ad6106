"""Chunks between the index and the reader: what is kept, and how much of it."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of, session_of
from tensorlake.errors import CorruptionError, StorageError
from tensorlake.format import ChunkKind, PackId
from tensorlake.reading import ChunkCache, ChunkKey, Reader
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tests.support import damage
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS = 2_000_000


def test_the_cache_is_bounded_by_what_it_holds_in_memory():
    """Zeros compress a thousandfold: stored sizes say nothing about memory."""
    dataset = create_on(MemoryStore(), {"x": "int64"})
    dataset.extend({"x": np.zeros(ROWS, np.int64)})
    dataset.commit()
    cache = ChunkCache(nbytes_max=4 << 20)
    reader = Reader(session_of(dataset).committed, cache)

    for rows in np.split(np.arange(ROWS), 20):  # what is read at once may be too much to keep
        reader.read("x", rows)

    assert cache.nbytes <= 4 << 20
    kept = [key for key in reader.locate("x", np.arange(ROWS)).chunks if cache.column(key)]
    assert 1 <= len(kept) <= 4


def test_staged_rows_of_a_pack_stored_under_another_name_are_read_by_their_parts():
    """A view of staged rows cites the first name; the reader asks for the last."""
    store = FaultyStore(MemoryStore())
    dataset = create_on(store, {"raw": tl.Array("uint8", shape=(1024,))})
    raw = np.random.default_rng(0).integers(0, 255, (2048, 1024), dtype=np.uint8)
    dataset.extend({"raw": raw})
    view = dataset[:]
    store.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/")
    dataset.commit()

    assert np.array_equal(view["raw"][[5, 1500]], raw[[5, 1500]])
    assert np.array_equal(view["raw"][:], raw)


@pytest.fixture
def pictures() -> tuple[CountingStore, list[bytes]]:
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"blob": tl.Bytes(), "x": "int64"})
    rng = np.random.default_rng(1)
    blobs = [rng.bytes(20_000 + row) for row in range(200)]
    dataset.extend({"blob": blobs, "x": np.arange(200)})
    dataset.commit()
    wait_for_storage()
    store.reset()
    return store, blobs


def test_a_cold_sample_of_a_large_chunk_is_read_alone(pictures):
    store, blobs = pictures
    handle = open_on(store)
    store.reset()

    assert handle["blob"][150] == blobs[150]
    assert store.bytes_read < 100_000
    assert store.round_trips <= 3


def test_scattered_samples_are_read_in_any_order_with_repeats(pictures):
    store, blobs = pictures
    handle = open_on(store)
    rows = [199, 3, 3, 77, 0, 199]

    assert handle["blob"][rows] == [blobs[row] for row in rows]


def test_half_of_a_chunk_is_read_as_the_whole_chunk(pictures):
    store, blobs = pictures
    handle = open_on(store)
    store.reset()

    assert handle["blob"][:150] == blobs[:150]
    assert store.count("get_range") <= 3


@pytest.fixture
def in_tail() -> tuple[CountingStore, list[bytes]]:
    """Samples in chunks of a tail: which parts they have is in their headers alone."""
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"blob": tl.Bytes()})
    rng = np.random.default_rng(1)
    blobs = [rng.bytes(20_000 + row) for row in range(400)]
    for start in range(0, 400, 100):
        dataset.extend({"blob": blobs[start : start + 100]})
        dataset.commit()
    wait_for_storage()
    return store, blobs


def read_by_threads(reader: Reader, rows: np.ndarray, threads: int) -> list[bytes]:
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(partial(reader.read, "blob"), np.split(rows, threads)))
    return [bytes(sample) for part in parts for sample in part.samples]


def headers_read(store: CountingStore) -> list[int]:
    """Requests for the header of a chunk: none other is so small here."""
    return [one.nbytes for one in store.requests if one.call == "get_range" and one.nbytes < 20_000]


def test_threads_that_read_rows_of_the_same_chunks_ask_for_each_header_once(in_tail):
    store, blobs = in_tail
    reader = rowset_of(open_on(store)).reader()
    rows = np.random.default_rng(2).permutation(400)[:64]
    chunks = len(reader.locate("blob", rows).chunks)
    store.reset()

    found = read_by_threads(reader, rows, 8)

    assert found == [blobs[row] for row in rows.tolist()]
    assert len(headers_read(store)) == chunks > 1
    assert store.count() <= chunks + len(rows)


def test_a_header_that_was_read_serves_later_reads_too(in_tail):
    store, blobs = in_tail
    reader = rowset_of(open_on(store)).reader()
    reader.read("blob", np.array([5, 110]))
    store.reset()

    found = reader.read("blob", np.array([17, 120]))

    assert [bytes(one) for one in found.samples] == [blobs[17], blobs[120]]
    assert headers_read(store) == []


def test_threads_that_need_the_same_whole_chunk_read_it_once():
    store = CountingStore(MemoryStore())
    dataset = create_on(store, {"blob": tl.Bytes()})
    blobs = [bytes([row]) * 100 for row in range(80)]
    dataset.extend({"blob": blobs})
    dataset.commit()
    wait_for_storage()
    reader = rowset_of(open_on(store)).reader()
    reader.locate("blob", np.arange(80))
    store.reset()

    assert read_by_threads(reader, np.arange(80), 8) == blobs
    assert store.count() == 1


def test_a_header_that_could_not_be_read_is_asked_for_again(in_tail):
    counting, blobs = in_tail
    store = FaultyStore(counting)
    reader = rowset_of(open_on(store)).reader()
    reader.locate("blob", np.array([5]))
    store.inject(Fault.REFUSED, call="get_range")

    with pytest.raises(StorageError):
        reader.read("blob", np.array([5]))

    assert bytes(reader.read("blob", np.array([5])).samples[0]) == blobs[5]


@pytest.mark.parametrize("num_classes", [3, 256, 257, 70_000])
@pytest.mark.parametrize("is_many", [False, True])
def test_class_codes_are_kept_narrow_and_handed_out_as_int64(num_classes, is_many):
    names = [f"class {code}" for code in range(num_classes)]
    dataset = create_on(MemoryStore(), {"label": tl.ClassLabel(names, multi=is_many)})
    codes = np.arange(1000) * 131 % num_classes
    codes[-1] = num_classes - 1
    dataset.extend({"label": codes.reshape(-1, 1) if is_many else codes})
    dataset.commit()
    cache = ChunkCache()
    reader = Reader(session_of(dataset).committed, cache)
    rows = np.arange(len(codes))

    reads = [
        reader.read("label", rows),
        reader.read("label", rows),  # now of what is kept
        reader.read("label", rows[::-1]),
        reader.read_run("label", 0, len(rows)),
    ]
    compact = reader.read_codes("label", 0, len(rows))

    for read, expected in zip(reads, [codes, codes, codes[::-1], codes], strict=True):
        assert read.values.dtype == np.int64
        assert read.values.tolist() == expected.tolist()
    assert compact.values.dtype == np.min_scalar_type(num_classes - 1)
    assert compact.values.tolist() == codes.tolist()
    shapes_nbytes = 8 * len(codes) if is_many else 0
    assert cache.nbytes == compact.values.nbytes + shapes_nbytes


def test_class_codes_that_a_merge_moved_are_told_in_full():
    """The table of an encoding maps codes of a byte to codes beyond one."""
    dataset = create_on(MemoryStore(), {"label": tl.ClassLabel(["first"])})
    dataset.commit()
    other = dataset.branch("other")
    other["label"].add_names(["theirs"])
    other.extend({"label": ["theirs"] * 10})
    other.commit()
    dataset["label"].add_names([f"ours {number}" for number in range(300)])
    dataset.extend({"label": ["ours 299"]})
    dataset.commit()
    dataset.merge("other")
    reader = Reader(session_of(dataset).committed)

    codes = reader.read_run("label", 0, 11)

    assert codes.values.dtype == np.int64
    assert codes.values.tolist() == [300] + [301] * 10
    assert reader.read_codes("label", 0, 11).values.tolist() == [300] + [301] * 10
    assert dataset.query("WHERE label = 'theirs'").rows.tolist() == list(range(1, 11))


def test_shapes_of_consecutive_rows_are_those_of_rows_in_any_order():
    schema = {"x": tl.Array("uint8", (None, 2), nullable=True), "n": "int64"}
    dataset = create_on(MemoryStore(), schema)
    sizes = np.random.default_rng(0).integers(0, 5, 400)
    values = [None if size == 4 else np.zeros((size, 2), np.uint8) for size in sizes]
    dataset.extend({"x": values[:300], "n": np.arange(300)})
    dataset.commit()
    dataset.extend({"x": values[300:], "n": np.arange(100)})
    dataset.extend({"n": np.arange(20)})  # NULLs that are stored nowhere
    dataset["x"][7:11] = [None, *(np.ones((9, 2), np.uint8),) * 3]
    dataset.commit()
    reader = rowset_of(dataset).reader()
    expected = [[-1, -1] if size == 4 else [size, 2] for size in sizes] + [[-1, -1]] * 20
    expected[7:11] = [[-1, -1], *([9, 2],) * 3]

    for first, stop in ((0, 420), (5, 12), (299, 401), (410, 420)):
        found = reader.shapes("x", np.arange(first, stop))
        assert found.tolist() == expected[first:stop]
    assert reader.shapes("x", np.arange(420)[::-1]).tolist() == expected[::-1]
    assert reader.shapes("x", np.arange(0)).shape == (0, 2)


@pytest.fixture(scope="module")
def scattered() -> tuple[MemoryStore, np.ndarray]:
    """Raw numbers in the chunks of a tail, beside the same where a row is NULL."""
    store = MemoryStore()
    dataset = create_on(
        store,
        {
            "raw": tl.Array("float32", (64,)),
            "some": tl.Array("float32", (64,), nullable=True),
        },
    )
    numbers = np.random.default_rng(0).random((20_000, 64), np.float32)
    some: list[object] = [*numbers]
    some[7] = None
    dataset.extend({"raw": numbers, "some": some})
    dataset.commit()
    return store, numbers


def test_scattered_rows_of_raw_numbers_come_with_their_headers(scattered):
    held, numbers = scattered
    store = CountingStore(held)
    handle = open_on(store)
    rows = [19_999, 5, 4000, 4001, 12_345, 5]
    store.reset()

    assert np.array_equal(handle["raw"][rows], numbers[rows])
    assert store.round_trips == 1
    assert store.bytes_read < 64 << 10

    found = handle["some"].read([19_999, 8, 7], null=0)
    assert np.array_equal(found, [numbers[19_999], numbers[8], np.zeros(64)])


@pytest.mark.parametrize("is_header", [True, False], ids=["header", "part"])
def test_damage_is_found_in_parts_that_come_with_their_headers(scattered, is_header):
    held, _ = scattered
    (key,) = Reader(session_of(open_on(held)).committed).locate("raw", np.array([5])).chunks
    place = key.offset + (key.header_nbytes // 2 if is_header else key.header_nbytes + 5 * 256)
    objects = damage.objects_of(held)
    content = bytearray(objects[key.pack.path])
    content[place] ^= 1
    other = MemoryStore()
    damage.fill(other, {**objects, key.pack.path: bytes(content)})

    with pytest.raises(CorruptionError, match="chunk"):
        open_on(other)["raw"][[5, 15_000]]


def test_equal_chunks_of_many_commits_have_different_hashes():
    keys = [
        ChunkKey(PackId(f"{number:032x}", 0), 64, 100, 64, 7, ChunkKind.UNIFORM, 0)
        for number in range(100)
    ]

    assert len({hash(key) for key in keys}) == 100
