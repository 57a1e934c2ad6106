"""Parts of samples: what is requested of a store, and what handles give."""

import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.storage import LocalStore, MemoryStore, run
from tensorlake.testing import CountingStore
from tests.support.chapters import Book, Chapters
from tests.support.handles import create_on, open_on, wait_for_storage

LENGTH = 40_000


def chapters(seed: int, count: int = 50) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [b"%05d" % at + rng.bytes(LENGTH - 5) for at in range(count)]


BOOKS = [chapters(0), None, chapters(1, 3), [], chapters(2, 7)]


async def damage(store, content: bytes) -> None:
    """Change a bit of these bytes in the pack that has them."""
    for path in [one.path async for one in store.list("packs/")]:
        data = bytearray(await store.get(path) or b"")
        at = data.find(content)
        if at >= 0:
            data[at] ^= 1
            await store.delete(path)
            await store.put(path, bytes(data))


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def dataset(store):
    made = create_on(store, {"book": Chapters(nullable=True), "x": "int64"})
    made.extend({"book": BOOKS, "x": range(5)})
    made.commit()
    wait_for_storage()
    opened = open_on(store)
    opened["x"][:]
    store.reset()
    return opened


def test_a_region_reads_the_header_and_its_parts(store, dataset):
    part = dataset["book"][0, 10:13]

    assert list(part) == BOOKS[0][10:13]
    sizes = [one.nbytes for one in store.requests]
    assert len(sizes) == 2
    assert sizes[1] == 3 * LENGTH
    assert sizes[0] < 10_000
    assert store.round_trips == 2


def test_a_second_region_needs_no_header(store, dataset):
    dataset["book"][0, 3]
    store.reset()

    assert dataset["book"][0, 40] == BOOKS[0][40]
    assert [one.nbytes for one in store.requests] == [LENGTH]


def test_a_handle_costs_no_bytes_of_the_sample(store, dataset):
    book = dataset["book"][0]

    assert isinstance(book, Book)
    assert (book.titles[:2], book.shape, len(book)) == (["00000", "00001"], (50,), 50)
    assert book.nbytes == 50 * LENGTH
    assert store.bytes_read < 10_000
    assert "not decoded" in repr(book)


def test_a_row_gives_the_handle(store, dataset):
    row = dataset[4]

    assert list(row["book"][5:]) == BOOKS[4][5:]
    assert store.bytes_read < 3 * LENGTH
    assert dataset[1]["book"] is None


def test_whole_samples_are_all_their_parts(dataset):
    for row, book in enumerate(BOOKS):
        found = dataset["book"][row]
        if book is None:
            assert found is None
            assert dataset["book"][row, 0:1] is None
            continue
        assert found.content == b"".join(book)
        assert list(np.asarray(found)) == book
        assert dataset["book"].bytes(row) == b"".join(book)


def test_few_rows_of_a_chunk_are_read_by_their_parts(store):
    made = create_on(store, {"book": Chapters(nullable=True)})
    made.extend({"book": [chapters(seed, 2) for seed in range(40)]})
    made.commit()
    wait_for_storage()
    opened = open_on(store)
    store.reset()

    found = [one.content for one in opened["book"][[3, 17]]]

    assert found == [b"".join(chapters(seed, 2)) for seed in (3, 17)]
    assert store.bytes_read < 5 * LENGTH + 20_000


def test_a_pickled_handle_holds_the_sample(dataset):
    copy = pickle.loads(pickle.dumps(dataset["book"][2]))

    assert isinstance(copy, Book)
    assert (copy.tensor, copy.row, copy.shape) == ("book", 2, (3,))
    assert list(copy[1:]) == BOOKS[2][1:]


def test_several_rows_are_handles(dataset):
    books = dataset["book"][[4, 0, 2]]

    assert [len(book) for book in books] == [7, 50, 3]
    assert list(books[0][:1]) == BOOKS[4][:1]


def test_staged_samples_are_read_in_parts(store):
    made = create_on(store, {"book": Chapters(nullable=True)})
    made.extend({"book": BOOKS})

    assert list(made["book"][0, 48:]) == BOOKS[0][48:]
    assert made["book"][4].titles == [f"{at:05d}" for at in range(7)]


def test_a_region_that_is_not_there_names_the_row(dataset):
    with pytest.raises(InvalidInputError, match=r"row 2 of 'book'.*no such region"):
        dataset["book"][2, 3]


@pytest.mark.parametrize("is_local", [False, True])
def test_a_damaged_part_spoils_only_reads_of_it(tmp_path, is_local):
    store = LocalStore(tmp_path) if is_local else MemoryStore()
    made = create_on(store, {"book": Chapters(nullable=True)})
    made.extend({"book": BOOKS})
    made.commit()
    wait_for_storage()
    run(damage(store, BOOKS[0][7][100:140]))
    opened = open_on(store)

    assert opened["book"][0, 6] == BOOKS[0][6]
    assert opened["book"][0, 8] == BOOKS[0][8]
    with pytest.raises(CorruptionError, match="part 7 of sample 0"):
        opened["book"][0, 7]
    with pytest.raises(CorruptionError):
        opened["book"].bytes(0)


def test_maps_survive_updates_merges_and_optimize(dataset):
    dataset["book"][2] = chapters(9, 4)
    dataset.delete(3)
    dataset.commit()
    dataset.optimize()
    other = tl.create("memory://sample-parts", dataset.schema)
    other.extend(dataset)

    for one in (dataset, other):
        assert list(one["book"][2, 2:]) == chapters(9, 4)[2:]
        assert list(one["book"][3, 6:]) == BOOKS[4][6:]
        assert one["book"][0].titles[49] == "00049"
