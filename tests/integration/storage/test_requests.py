"""How many requests the SDK makes of a store, and in how many round trips (format.md, test 31)."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import Entry, entry_path, head_path
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import CountingStore, latency_server
from tests.support.handles import create_on, open_on, rows_of, wait_for_storage

SCHEMA = {
    "x": "int64",
    "text": "str",
    "boxes": tl.Array("float32", shape=(None, 4)),
    "label": tl.ClassLabel(["cat", "dog"]),
}
ROW = {"x": 1, "text": "one", "boxes": np.zeros((2, 4), np.float32), "label": "dog"}


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def dataset(store: CountingStore) -> Dataset:
    """Five commits of one row each, and a fresh hint."""
    dataset = create_on(store, SCHEMA)
    for _ in range(5):
        dataset.append(ROW)
        dataset.commit()
    wait_for_storage()
    store.reset()
    return dataset


def calls(store: CountingStore) -> dict[str, int]:
    return {
        call: store.count(call)
        for call in ("get", "get_range", "head", "list", "put", "put_if_absent", "delete")
        if store.count(call)
    }


def put_hint(store: CountingStore, data: bytes) -> None:
    run(store.put(head_path("main"), data))
    store.reset()


def entry_bytes(store: CountingStore, seq: int) -> bytes:
    return run(store.get(entry_path("main", seq))) or b""


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("note", "one", 16_000),
        ("frames", [np.zeros((9, 9, 3), np.uint8)], 16_000),
        ("vector", np.ones(256, np.float32), (1 << 20) + 16_000),  # its chunk is rewritten
        ("pose/word", "here", 16_000),  # a field of a struct, and nothing of the vector beside it
    ],
)
def test_an_update_of_a_null_a_sequence_or_a_field_writes_about_what_it_changes(name, value, limit):
    """format.md 49, of what exists: NULL, Sequence(Image) and Struct; bytes written."""
    store = CountingStore(MemoryStore())
    schema = {
        "note": tl.Text(nullable=True),
        "frames": tl.Sequence(tl.Image("png")),
        "vector": tl.Embedding(256, nullable=True),
        "pose": tl.Struct({"word": tl.Text(), "vector": tl.Embedding(256)}),
    }
    dataset = create_on(store, schema)
    noise = np.random.default_rng(0).integers(0, 255, (2, 24, 24, 3), dtype=np.uint8)
    pose = {"word": "there", "vector": np.zeros(256, np.float32)}
    dataset.extend(
        {
            "note": [None] * 300,
            "frames": [list(noise)] * 300,
            "vector": [None] * 300,
            "pose": [pose] * 300,
        }
    )
    dataset.commit()
    wait_for_storage()
    store.reset()

    dataset[name][150] = value
    dataset.commit()

    wait_for_storage()
    assert store.bytes_written <= limit
    again = open_on(store)
    assert [row["note"] for row in again[149:152]] == [
        None,
        "one" if name == "note" else None,
        None,
    ]
    assert len(again["frames"][150]) == (1 if name == "frames" else 2)
    assert again["pose"][150]["word"] == ("here" if name == "pose/word" else "there")


def test_committing_a_row_is_two_exclusive_puts_and_the_hint(store, dataset):
    """Test 31: a small commit is 2 PUT + hint, 0 LIST."""
    dataset.append(ROW)
    dataset.commit()
    wait_for_storage()

    assert calls(store) == {"put_if_absent": 2, "put": 1}
    assert store.count("put_if_absent", path="packs/") == 1
    assert store.count("put", path="HEAD") == 1


@pytest.mark.parametrize("change", ["assign", "delete", "schema"])
def test_committing_a_small_change_lists_nothing_and_puts_as_little(store, dataset, change):
    rows_of(dataset)  # what is assigned to was read before, as in a notebook
    store.reset()
    match change:
        case "assign":
            dataset["x"][2] = 7
        case "delete":
            dataset.delete(2)
        case _:
            dataset.rename_tensor("x", "y")
    dataset.commit()
    wait_for_storage()

    assert store.count("list") == 0
    assert store.count("put_if_absent") <= 2
    assert store.count("get", "get_range", "head") <= 2


def test_staging_rows_asks_nothing_of_the_store(store, dataset):
    dataset.extend({name: [value] * 100 for name, value in ROW.items()})

    assert len(dataset) == 105
    assert calls(store) == {}


def test_refreshing_at_the_head_is_one_request(store, dataset):
    dataset.refresh()

    assert calls(store) == {"get": 1}


def test_a_fresh_hint_finds_the_head_in_two_round_trips(store, dataset):
    del dataset

    found = open_on(store)

    assert found.version == "main@5"
    assert calls(store) == {"get": 3}
    assert store.round_trips == 2


def test_opening_by_url_is_four_requests_in_two_round_trips(tmp_path):
    """Test 31, through the SDK and a real HTTP client: descriptor beside HEAD, then two entries."""
    folder = tmp_path / "buckets"
    with tl.create(str(folder / "bucket" / "pets"), SCHEMA, durability="none") as made:
        for _ in range(3):
            made.append(ROW)
            made.commit()
        wait_for_storage()

    with latency_server(folder, latency_ms=20) as server:  # so that what runs together overlaps
        opened = tl.open(server.s3_url("bucket/pets"), storage_options=server.storage_options)
        counters = server.counters()

    assert opened.version == "main@3"
    assert (counters.requests, counters.get, counters.max_in_flight) == (4, 4, 2)


def stale(store: CountingStore) -> bytes:
    return entry_bytes(store, 1)


def missing(store: CountingStore) -> bytes:
    return b""


def ahead(store: CountingStore) -> bytes:
    """A hint five entries ahead, as a restored backup has it."""
    newest = Entry.from_bytes(entry_bytes(store, 5), where="5")
    return newest.changed(seq=10).to_bytes()


def flipped(store: CountingStore) -> bytes:
    data = bytearray(entry_bytes(store, 5))
    data[len(data) // 2] ^= 1
    return bytes(data)


def text(store: CountingStore) -> bytes:
    return b"<html>404</html>"


def cut(store: CountingStore) -> bytes:
    return entry_bytes(store, 5)[:40]


def anothers(store: CountingStore) -> bytes:
    """Return an older number, in another dataset."""
    other = CountingStore(MemoryStore())
    create_on(other, SCHEMA)
    return entry_bytes(other, 0)


def anothers_of_this_number(store: CountingStore) -> bytes:
    """Return the newest number, whose entry here is not this one."""
    newest = Entry.from_bytes(entry_bytes(store, 5), where="5")
    return newest.changed(message="of another dataset", roots={}).to_bytes()


HINTS = [stale, missing, ahead, flipped, text, cut, anothers, anothers_of_this_number]


@pytest.mark.parametrize("hint", HINTS)
def test_a_wrong_hint_changes_nothing_a_reader_sees(store, dataset, hint):
    """Tests 31 and 41: stale, missing, future and corrupt hints cost requests only."""
    before = rows_of(dataset)
    put_hint(store, hint(store))

    opened = open_on(store)

    assert opened.version == "main@5"
    assert rows_of(opened) == before
    assert store.count("list") == 0
    assert store.count("put", "put_if_absent", "delete") == 0  # readers mend no hint


@pytest.mark.parametrize("hint", HINTS)
def test_a_wrong_hint_changes_nothing_a_writer_does(store, dataset, hint):
    """Test 41: the writer publishes the next number, and mends the hint."""
    before = rows_of(dataset)
    put_hint(store, hint(store))

    writer = open_on(store)
    writer.append(ROW)
    commit = writer.commit()
    wait_for_storage()

    assert commit.version == "main@6"
    store.reset()
    assert open_on(store).version == "main@6"
    assert calls(store) == {"get": 3}
    assert rows_of(open_on(store)) == [*before, before[0]]
    assert open_on(store).check().ok


def test_a_deleted_hint_costs_requests_only(store, dataset):
    del dataset
    run(store.delete(head_path("main")))
    store.reset()

    assert open_on(store).version == "main@5"
    assert store.count("get") <= 8
    assert store.count("list") == 0


def test_reading_one_chunk_of_three_columns_is_one_round_trip_each(store):
    dataset = create_on(store, {"x": "int64", "y": "float32"})
    dataset.extend({"x": np.arange(1000), "y": np.arange(1000, dtype=np.float32)})
    dataset.commit()
    wait_for_storage()
    reader = open_on(store)
    store.reset()

    reader["x"][:]

    assert calls(store) == {"get_range": 1}


def test_what_was_read_once_is_not_asked_for_again(store, dataset):
    dataset["x"][:]
    store.reset()

    dataset["x"][1:3]

    assert calls(store) == {}


def test_a_lost_race_of_appends_sends_no_chunk_again(store, dataset):
    """Test 12: rebasing an append rewrites no page and no chunk: 1-2 GETs + 1 PUT."""
    dataset.append(ROW)
    other = open_on(store)
    other.append({**ROW, "x": 2})
    other.commit()
    wait_for_storage()
    store.reset()

    commit = dataset.commit()
    wait_for_storage()

    assert commit.version == "main@7"
    assert store.count("put_if_absent", path="packs/") == 1
    assert store.count("put_if_absent", path="branches/") == 2
    assert store.count("get", "get_range", "head") <= 2
    assert dataset["x"][-2:].tolist() == [2, 1]


def test_committing_under_keys_reads_the_log_once_and_not_once_a_commit(store, dataset):
    """10⁴ keyed commits of an ingestion must not read 10⁴ entries each."""
    dataset.append(ROW)
    dataset.commit(key="first")
    wait_for_storage()
    assert store.count("get") == 5  # entries 0 to 4; the head is known
    store.reset()

    for number in range(3):
        dataset.append(ROW)
        dataset.commit(key=f"{number}")
    wait_for_storage()

    assert store.count("get") <= 3
    assert store.count("put_if_absent") == 6


def test_predicates_and_counts_read_only_their_columns(store):
    dataset = create_on(store, {"x": "int64", "blob": tl.Array("uint8", shape=(4096,))})
    dataset.extend({"x": np.arange(64), "blob": np.zeros((64, 4096), np.uint8)})
    dataset.commit()
    wait_for_storage()
    reader = open_on(store)
    store.reset()

    found = reader.where("x < 3")

    assert len(found) == 3
    assert store.bytes_read < 4096


def test_one_row_of_a_raw_chunk_reads_its_block_and_not_the_chunk(store):
    """Test 46: scattered rows cost their own bytes; blocks are at most 8 KiB."""
    dataset = create_on(store, {"tokens": tl.Array("uint16", shape=(512,))})
    tokens = np.arange(2048 * 512, dtype=np.uint16).reshape(2048, 512)
    dataset.extend({"tokens": tokens})
    dataset.commit()
    wait_for_storage()
    reader = open_on(store)
    store.reset()

    row = reader["tokens"][1234]

    assert np.array_equal(row, tokens[1234])
    assert store.bytes_read <= 64 << 10


@pytest.mark.slow
def test_a_thousand_tensors_commit_a_row_in_two_puts_and_open_in_three_round_trips(store):
    """Test 48: a schema above 32 KiB lies in a page; the entry stays small."""
    schema = {f"group/tensor-{n:04}": "int64" for n in range(1000)}
    dataset = create_on(store, schema)
    row = dict.fromkeys(schema, 7)
    dataset.append(row)
    dataset.commit()
    wait_for_storage()
    store.reset()
    dataset.append(row)
    dataset.commit()
    wait_for_storage()
    assert calls(store) == {"put_if_absent": 2, "put": 1}
    store.reset()

    opened = open_on(store)

    assert store.count() <= 5  # and the descriptor, which tl.open reads beside them
    assert store.round_trips <= 3
    dataset.append(row)
    dataset.commit()
    opened.refresh()
    assert opened["group/tensor-0999"][:].tolist() == [7, 7, 7]
