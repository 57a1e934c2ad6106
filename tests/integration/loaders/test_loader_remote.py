"""Loading from an object store: each chunk once, verified, by row where chunks would be wasted."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import CorruptionError
from tensorlake.loader import SelectedRows, make_loader
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import Conditions, CountingStore, latency_server
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.noise import ROWS, SCHEMA, fill

DECODE = {"image": tl.decode.RandomResizedCrop(16, 16)}
COLUMNS = ["image", "label", "_row"]
SIDE = 168  # fifty pictures of it are a group of their own


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    (root / "bucket").mkdir()
    fill(tl.create(str(root / "bucket" / "noise.tl"), SCHEMA))
    return root


@pytest.fixture
def store():
    store = CountingStore(MemoryStore())
    fill(create_on(store, SCHEMA))
    wait_for_storage()
    store.reset()
    return store


def epoch(dataset, **arguments):
    given = {"batch_size": 32, "shuffle": True, "seed": 3, "decode": DECODE, "columns": COLUMNS}
    loader = dataset.loader(**given | arguments)
    return list(loader), loader.stats()


def test_batches_from_a_store_are_those_from_a_folder(folder):
    with tl.open(str(folder / "bucket" / "noise.tl")) as local:
        expected, local_stats = epoch(local)

    with (
        latency_server(folder, latency_ms=2) as server,
        tl.open(server.s3_url("bucket/noise.tl"), storage_options=server.storage_options) as remote,
    ):
        found, stats = epoch(remote)

    assert all(
        np.array_equal(one[name], other[name])
        for one, other in zip(found, expected, strict=True)
        for name in COLUMNS
    )
    assert local_stats.requests == 0
    assert stats.requests > 0


def test_a_store_that_fails_now_and_then_is_asked_again(folder):
    with (
        latency_server(folder, latency_ms=0, error_rate=0.1) as server,
        tl.open(server.s3_url("bucket/noise.tl"), storage_options=server.storage_options) as remote,
    ):
        batches, _ = epoch(remote)

    assert sum(len(batch["_row"]) for batch in batches) == ROWS


@pytest.mark.slow
@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(latency_ms=1, jitter_ms=20),
        Conditions(error_rate=0.15),
        Conditions(mb_per_s=20),
        Conditions(latency_ms=2, jitter_ms=5, error_rate=0.05, mb_per_s=40),
    ],
    ids=["jitter", "errors", "narrow", "all of it"],
)
def test_whatever_the_network_does_batches_are_the_same(folder, conditions):
    with tl.open(str(folder / "bucket" / "noise.tl")) as local:
        expected, _ = epoch(local, columns=["label", "tokens"], decode=None)

    with (
        latency_server(folder) as server,
        tl.open(server.s3_url("bucket/noise.tl"), storage_options=server.storage_options) as remote,
    ):
        loader = remote.loader(
            batch_size=32, shuffle=True, seed=3, columns=["label", "tokens"], cache=0
        )
        iterator = iter(loader)
        found = [next(iterator)]
        server.set_conditions(conditions)  # in the middle of the pass
        found += iterator
        server.set_conditions(Conditions())

    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one["tokens"], other["tokens"])
        assert np.array_equal(one["label"], other["label"])


class InFlight(MemoryStore):
    """A store that answers only when much is asked of it at once, and remembers how much."""

    nbytes = most_nbytes = 0
    much: int | None = None  # it answers at once

    async def get_range(self, path, start, stop):
        self.nbytes += stop - start
        self.most_nbytes = max(self.most_nbytes, self.nbytes)
        if self.much is not None:
            if self.most_nbytes >= self.much:
                self.is_much.set()
            await asyncio.wait_for(self.is_much.wait(), 60)
            await asyncio.sleep(0.01)  # whoever asks for too much does so now
        self.nbytes -= stop - start
        return await super().get_range(path, start, stop)


@pytest.mark.slow
def test_what_is_in_flight_is_bounded_in_bytes():
    store = InFlight()
    big = create_on(store, {"x": tl.Array("uint8", shape=(1 << 20,))})
    for _ in range(8):  # 96 MiB of noise: more than may be in flight at once
        big.extend({"x": np.random.default_rng(0).integers(0, 255, (12, 1 << 20), np.uint8)})
        big.commit("a dozen")
    wait_for_storage()
    dataset = open_on(store)
    rowset_of(dataset).reader().locate("x", np.arange(96))  # the index is read before
    store.is_much, store.much, store.most_nbytes = asyncio.Event(), 48 << 20, 0

    rows = sum(len(batch["x"]) for batch in dataset.loader(batch_size=4, prefetch="1GiB"))

    assert rows == 96
    assert 48 << 20 <= store.most_nbytes <= 65 << 20


class ShutToChunks(MemoryStore):
    """A store that answers large requests, those for chunks, only once it is opened."""

    large = 500_000

    def __init__(self):
        super().__init__()
        self.begun, self.is_asked, self.is_open = 0, threading.Event(), asyncio.Event()

    async def get_range(self, path, start, stop):
        if stop - start >= self.large:
            self.begun += 1
            self.is_asked.set()
            await asyncio.wait_for(self.is_open.wait(), 60)
        return await super().get_range(path, start, stop)

    async def open(self):
        self.is_open.set()


def test_until_the_first_batch_is_made_two_chunks_of_later_ones_are_asked_for():
    store = ShutToChunks()
    fill(create_on(store, SCHEMA))  # four chunks of pictures
    wait_for_storage()
    begun = []

    def note(row):
        begun.append(store.begun)
        return row

    batches = iter(
        open_on(store).loader(
            batch_size=32, shuffle=True, columns=["image"], decode=DECODE, transform=note
        )
    )
    rows = len(next(batches)["image"])
    at_first = max(begun)
    runtime.run(store.open())
    rows += sum(len(batch["image"]) for batch in batches)

    assert at_first <= 2
    assert store.begun == 4
    assert rows == ROWS


def test_chunks_of_later_batches_are_asked_for_though_nobody_waits_for_the_first():
    store = ShutToChunks()
    fill(create_on(store, SCHEMA))
    wait_for_storage()
    loader = open_on(store).loader(batch_size=32, shuffle=True, columns=["image"], decode=DECODE)

    batches = iter(loader)

    assert store.is_asked.wait(60)
    runtime.run(store.open())
    assert sum(len(batch["image"]) for batch in batches) == ROWS


def test_a_loop_over_more_than_the_cache_holds_fetches_no_more_than_without_one(store):
    def fetched(cache):
        loader = open_on(store).loader(
            batch_size=32, columns=["tokens"], cache=cache, prefetch="100kB"
        )
        store.reset()
        for _ in range(3):
            list(loader)
        return store.bytes_read

    stored = rowset_of(open_on(store)).reader().stored_nbytes("tokens", np.arange(ROWS))

    without, half, whole = fetched(0), fetched(256 << 10), fetched("1GB")

    assert whole <= 1.1 * stored
    assert without >= 3 * stored
    assert (
        half <= 0.8 * without
    )  # what it holds, it holds for ever: least recently used would thrash


def test_neighbouring_chunks_are_fetched_once_together_and_a_second_epoch_fetches_nothing(store):
    dataset = open_on(store)
    loader = dataset.loader(batch_size=32, shuffle=True, columns=["label", "tokens"])
    list(loader)
    fetched = loader.stats()
    store.reset()

    list(loader)

    assert fetched.requests == 4  # one a commit: its labels and tokens lie side by side
    assert store.bytes_read == 0


def test_rows_are_read_alone_when_chunks_do_not_fit_the_cache(store):
    dataset = open_on(store)
    stored = rowset_of(dataset).reader().stored_nbytes("image", np.arange(ROWS))

    batches, stats = epoch(dataset, cache=0)
    read = store.bytes_read
    store.reset()
    whole, _ = epoch(open_on(store), cache="1GiB")

    assert all(
        np.array_equal(one["image"], other["image"])
        for one, other in zip(batches, whole, strict=True)
    )
    assert read < 3 * stored  # whole chunks would be some twelve times; gaps between rows cost some
    assert stats.cache_nbytes == 0


def test_a_few_rows_of_many_cost_a_few_rows_of_bytes(store):
    dataset = open_on(store)
    view = dataset[[3, 150, 151, 399]]
    stored = rowset_of(dataset).reader().stored_nbytes("image", np.arange(ROWS))
    store.reset()

    (batch,), _ = epoch(view, columns=["image", "_row"])

    assert sorted(batch["_row"].tolist()) == [3, 150, 151, 399]
    assert store.bytes_read < stored / 10


def test_chunks_that_do_not_fit_are_fetched_again_and_still_right(store):
    loader = open_on(store).loader(
        batch_size=16, shuffle=True, columns=["tokens", "_row"], cache=0, prefetch="100kB"
    )

    batches = list(loader)

    assert all((batch["tokens"] == batch["_row"][:, None]).all() for batch in batches)
    assert sum(len(batch["_row"]) for batch in batches) == ROWS


def test_a_windowed_epoch_reads_each_chunk_about_once_with_room_for_one_window(store):
    loader = open_on(store).loader(
        batch_size=8, shuffle=True, columns=["tokens", "_row"], cache=0, prefetch="300kB"
    )
    state = loader.state_dict() | {"order": {"kind": "window", "block": 50, "window": 2}}
    loader.load_state_dict(state)  # a loader goes on in the order of its state
    stored = rowset_of(open_on(store)).reader().stored_nbytes("tokens", np.arange(ROWS))
    store.reset()

    rows = np.concatenate([batch["_row"] for batch in loader])

    assert sorted(rows.tolist()) == list(range(ROWS))
    assert len(np.flatnonzero(np.diff(np.sort(rows[:100])) != 1)) <= 2
    assert store.bytes_read < 4 * stored  # blocks of half a chunk: each chunk twice, or thrice


@pytest.mark.parametrize("tensor", ["image", "label", "tokens"])
def test_a_flipped_byte_is_an_error_and_never_a_batch(store, tensor):
    dataset = open_on(store)
    key = rowset_of(dataset).reader().locate(tensor, np.arange(ROWS)).chunks[0]
    path = key.pack.path
    data = bytearray(runtime.run(store.get(path)))
    data[key.offset + key.nbytes - 3] ^= 1
    runtime.run(store.put(path, bytes(data)))
    decode = DECODE if tensor == "image" else None

    with pytest.raises(CorruptionError, match="damaged"):
        epoch(open_on(store), columns=[tensor], decode=decode)


def test_an_object_that_is_gone_is_an_error_that_names_it(store):
    dataset = open_on(store)
    key = rowset_of(dataset).reader().locate("tokens", np.arange(ROWS)).chunks[0]
    loader = make_loader(
        SelectedRows(rowset_of(dataset).selection, rowset_of(dataset).reader()),
        "numpy",
        batch_size=8,
        columns=["tokens"],
    )
    runtime.run(store.delete(key.pack.path))

    with pytest.raises(CorruptionError, match=key.pack.path):
        list(loader)


def test_the_first_batch_of_a_shuffled_pass_reads_its_images_by_row(store):
    local = fill(tl.create("memory://loader-early", SCHEMA))
    arguments = {"batch_size": 8, "shuffle": True, "seed": 3, "columns": COLUMNS, "decode": DECODE}
    expected = list(local.loader(**arguments))

    got = list(open_on(store).loader(**arguments))

    # Four chunks of pictures, and the eight pictures of the first batch beside them.
    assert store.count("get_range", "get_ranges") >= 8
    for one, other in zip(got, expected, strict=True):
        for name in COLUMNS:
            assert np.array_equal(one[name], other[name]), name


def test_nothing_is_asked_for_later_batches_before_the_first_one_has_its_rows(store):
    dataset = open_on(store)
    chunks = [
        key.nbytes for key in rowset_of(dataset).reader().locate("image", np.arange(ROWS)).chunks
    ]
    store.reset()

    list(dataset.loader(batch_size=8, shuffle=True, columns=["image"], decode=DECODE))

    asked = [one for one in store.requests if one.call == "get_range"]
    later = [one.began for one in asked if one.nbytes >= min(chunks)]
    alone = [one.ended for one in asked if one.nbytes < min(chunks)]
    assert len(later) == len(chunks)
    assert len(alone) >= 8
    assert max(alone) < min(later)


def test_the_first_batch_asks_once_for_where_the_images_of_a_chunk_are(store):
    dataset = open_on(store)
    located = rowset_of(dataset).reader().locate("image", np.arange(ROWS))
    headers = sorted((key.pack.path, key.header_nbytes) for key in located.chunks)
    store.reset()

    next(iter(dataset.loader(batch_size=64, shuffle=True, columns=["image"], decode=DECODE)))

    sizes = {nbytes for _, nbytes in headers}
    asked = [one for one in store.requests if one.nbytes in sizes]
    assert sorted((one.path, one.nbytes) for one in asked) == headers


def test_a_pass_in_stored_order_reads_nothing_by_row(store):
    batches = list(open_on(store).loader(batch_size=100, columns=["image"], decode=DECODE))

    assert len(batches) == ROWS // 100
    assert store.count("get_range", "get_ranges") == 4


def test_a_pass_left_after_its_first_batch_ends_with_nothing_held_back(store):
    loader = open_on(store).loader(batch_size=8, shuffle=True, columns=["image"], decode=DECODE)

    for _ in loader:
        break
    rest = sum(len(batch["image"]) for batch in loader)

    assert rest == ROWS


def test_a_chunk_on_its_way_counts_once_against_prefetch(store):
    """Two batches wait for each chunk: were it counted for both, the third would not fit."""
    chunks = rowset_of(open_on(store)).reader().locate("image", np.arange(ROWS)).chunks
    asked = asyncio.Event()
    waited = []

    class FirstChunkLate:
        def __getattr__(self, name):
            return getattr(store, name)

        async def get_range(self, path, start, stop):
            if (path, start) == (chunks[1].pack.path, chunks[1].offset):
                asked.set()
            if (path, start) == (chunks[0].pack.path, chunks[0].offset):
                async with asyncio.timeout(60):
                    waited.append(await asked.wait())
            return await store.get_range(path, start, stop)

    dataset = open_on(FirstChunkLate())
    batch_nbytes = 50 * SIDE * SIDE * 3
    loader = dataset.loader(
        batch_size=50,
        columns=["image"],
        decode={"image": tl.decode.Resize(SIDE, SIDE)},
        prefetch=3 * batch_nbytes + 5 * max(key.nbytes for key in chunks) // 2,
    )

    assert sum(len(batch["image"]) for batch in loader) == ROWS
    assert waited == [True]
