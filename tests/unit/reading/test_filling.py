"""Many rows of one shape at once: every selection equals NumPy's, whatever lies underneath."""

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of, session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CorruptionError
from tensorlake.format import Schema, TensorSpec
from tensorlake.reading import ChunkCache, Reader
from tensorlake.reading.bulk_read import FILLED_NBYTES_MIN
from tensorlake.storage import LocalStore, MemoryStore, Store, counted, run
from tensorlake.versions import create_dataset
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS, SIDE = 640, 64
"""Of 16 KiB: half of them are still read as many rows are."""

CODECS = {
    "raw": "raw",
    "lz4": "lz4",
    "shuffled": [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
        {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    ],
}
SHUFFLED = np.random.default_rng(1).permutation(ROWS)
SELECTIONS = {
    "all": slice(None),
    "a range that begins and ends inside of chunks": slice(17, ROWS - 5),
    "every second": slice(1, None, 2),
    "backwards": slice(None, None, -1),
    "shuffled": SHUFFLED.tolist(),
    "shuffled, half of them": SHUFFLED[: ROWS // 2].tolist(),
    "repeated": [*SHUFFLED[:400].tolist(), *SHUFFLED[:200].tolist()],
    "a mask": np.arange(ROWS) % 3 != 1,
}


def numbers(rows: int = ROWS, *, seed: int = 0) -> np.ndarray:
    """Numbers that compress a little."""
    drawn = np.random.default_rng(seed).integers(0, 1000, (rows, SIDE, SIDE))
    return drawn.astype(np.float32)


def store_at(kind: str, folder: Path) -> Store:
    return MemoryStore() if kind == "memory" else LocalStore(folder, durability="none")


def stored(store: Store, codecs: object, values: np.ndarray) -> Dataset:
    dataset = created(store, tl.Array("float32", shape=(SIDE, SIDE)), codecs)
    dataset.extend({"x": values})
    dataset.commit()
    wait_for_storage()
    return open_on(store)


def created(store: Store, sample_type: tl.Array, codecs: Any) -> Dataset:
    schema = Schema((TensorSpec.new("x", sample_type, codecs=codecs),))
    run(create_dataset(store, schema.to_json(), grace_s=86_400, exist_ok=False))
    return open_on(store)


@pytest.fixture(scope="module", params=["folder", "memory"])
def places(request, tmp_path_factory) -> dict[str, tuple[Store, np.ndarray]]:
    """The same rows by each codec, some of them updated since."""
    made: dict[str, tuple[Store, np.ndarray]] = {}
    for name, codecs in CODECS.items():
        store, values = store_at(request.param, tmp_path_factory.mktemp(name)), numbers()
        dataset = stored(store, codecs, values)
        dataset["x"][[3, 300, 301]] = values[[3, 300, 301]] = numbers(3, seed=2)
        dataset.commit()
        made[name] = store, values
    wait_for_storage()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("codecs", CODECS)
@pytest.mark.parametrize("rows", SELECTIONS)
def test_a_selection_equals_that_of_numpy(places, codecs, rows):
    store, values = places[codecs]
    wanted = values[SELECTIONS[rows]]
    assert wanted.nbytes >= FILLED_NBYTES_MIN

    found = open_on(store)["x"][SELECTIONS[rows]]

    assert found.dtype == np.float32
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("codecs", CODECS)
def test_what_is_read_belongs_to_the_reader(places, codecs):
    store, values = places[codecs]
    dataset = open_on(store)

    found = dataset["x"][:]
    found[:] = -1

    assert found.flags.owndata
    assert np.array_equal(dataset["x"][:], values)


@pytest.mark.parametrize("codecs", CODECS)
def test_rows_that_are_in_the_cache_already_are_the_same(places, codecs):
    store, values = places[codecs]
    dataset = open_on(store)
    assert np.array_equal(dataset["x"][5:9], values[5:9])
    assert np.array_equal(dataset["x"][::2], values[::2])

    assert np.array_equal(dataset["x"][:], values)


def test_deleted_rows_are_left_out(places):
    store, values = places["lz4"]
    dataset = open_on(store)
    dataset.delete([0, 100, 101, 639])

    left = np.delete(values, [0, 100, 101, 639], axis=0)

    assert np.array_equal(dataset["x"][:], left)
    assert np.array_equal(dataset["x"][::-1], left[::-1])
    dataset.discard()


def test_staged_rows_are_read_with_stored_ones(places):
    store, values = places["raw"]
    dataset, more = open_on(store), numbers(200, seed=3)
    dataset.extend({"x": more})

    assert np.array_equal(dataset["x"][:], np.concatenate([values, more]))
    dataset.discard()


@pytest.mark.parametrize("kind", ["folder", "memory"])
@pytest.mark.parametrize("codecs", ["raw", "lz4"])
def test_nulls_fills_and_older_types_lie_where_they_were(kind, codecs, tmp_path):
    sample_type = tl.Array("float32", shape=(SIDE, SIDE), nullable=True)
    dataset = created(store_at(kind, tmp_path), sample_type, codecs)
    dataset.add_tensor("number", "int64", fill=0)
    dataset.extend({"number": np.arange(300)})
    dataset.commit()
    dataset["x"][50:250] = values = numbers(200)
    dataset["x"][[60, 299]] = [None, None]
    dataset.commit()
    dataset.alter_tensor("x", dtype="float64")
    dataset["x"][100:150] = wide = numbers(50).astype(np.float64) / 3
    dataset.commit()
    wanted = np.full((300, SIDE, SIDE), -1, np.float64)
    wanted[50:250], wanted[100:150], wanted[[60, 299]] = values, wide, -1

    assert np.array_equal(dataset["x"].read(null=-1), wanted)
    assert np.array_equal(dataset["x"].read(slice(None, None, -1), null=-1), wanted[::-1])


@pytest.mark.parametrize("codecs", ["raw", "lz4"])
def test_windows_of_a_chunk_lie_where_they_were(codecs, tmp_path):
    dataset, wanted = cut(tmp_path, codecs)
    assert np.array_equal(open_on(LocalStore(tmp_path))["x"][:], wanted)

    dataset["x"][[7, 4000]] = [None, None]
    dataset.delete([0, 9, 5000])
    dataset.commit()
    dataset.alter_tensor("x", dtype="float64")
    dataset["x"][100:4100:2] = wide = np.random.default_rng(4).random((2000, 256))
    dataset.commit()

    wanted = wanted.astype(np.float64)
    wanted[[7, 4000]] = -1
    wanted = np.delete(wanted, [0, 9, 5000], axis=0)
    wanted[100:4100:2] = wide
    dataset = open_on(LocalStore(tmp_path))
    assert np.array_equal(dataset["x"].read(null=-1), wanted)
    assert np.array_equal(dataset["x"].read(slice(50, -50), null=-1), wanted[50:-50])


def test_a_chunk_that_updates_cut_is_looked_up_once(tmp_path):
    class Counting(ChunkCache):
        def __init__(self) -> None:
            super().__init__(nbytes_max=0)
            found, self.lookups = self.column, 0

            def column(key):
                self.lookups += 1
                return found(key)

            self.column = column

    dataset, wanted = cut(tmp_path, "raw")
    cache = Counting()
    snapshot = session_of(dataset).committed

    found = Reader(snapshot, cache).read("x", np.arange(len(wanted)))

    assert np.array_equal(found.values, wanted)
    chunks = {(key.pack, key.offset) for key in Reader(snapshot).chunks("x", np.arange(6000))}
    assert cache.lookups == len(chunks) < 20


def cut(folder: Path, codecs: str) -> tuple[Dataset, np.ndarray]:
    """6,000 rows of 1 KiB in chunks that updates cut in long windows, and in short ones."""
    kind = tl.Array("float32", (256,), nullable=True, updates="overlay")
    dataset = created(LocalStore(folder, durability="none"), kind, codecs)
    drawn = np.random.default_rng(0)
    values = drawn.random((6000, 256), np.float32)
    dataset.extend({"x": values})
    dataset.commit()
    for rows in (drawn.choice(6000, 60, replace=False), np.arange(1000, 1400, 2)):
        dataset["x"][rows] = values[rows] = drawn.random((len(rows), 256), np.float32)
        dataset.commit()
    return dataset, values


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_the_fill_of_a_tensor_that_was_added_is_there(kind, tmp_path):
    dataset = create_on(store_at(kind, tmp_path), {"number": "int64"})
    dataset.extend({"number": np.arange(300)})
    dataset.add_tensor("x", tl.Array("float32", shape=(SIDE, SIDE)), fill=np.full((SIDE, SIDE), 7))
    dataset["x"][50:250] = values = numbers(200)
    dataset.commit()

    found = dataset["x"][:]

    assert np.array_equal(found[50:250], values)
    assert (found[:50] == 7).all()
    assert (found[250:] == 7).all()


@pytest.mark.parametrize("codecs", CODECS)
def test_a_large_read_takes_the_memory_of_its_result_and_leaves_none_in_the_cache(codecs, tmp_path):
    dataset = stored(LocalStore(tmp_path, durability="none"), CODECS[codecs], numbers())
    cache = ChunkCache(nbytes_max=8 << 20)
    reader = Reader(session_of(dataset).committed, cache)
    tracemalloc.start()
    try:
        found = reader.read("x", np.arange(ROWS))
        _, most_nbytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    nbytes = ROWS * SIDE * SIDE * 4
    assert len(found) == ROWS
    assert nbytes <= most_nbytes < 1.5 * nbytes
    assert cache.nbytes == 0


def packs_of(folder: Path) -> list[Path]:
    """The packs of a folder, those with most in them first."""
    return sorted(folder.glob("packs/*/*"), key=lambda pack: -pack.stat().st_size)


@pytest.mark.parametrize("codecs", CODECS)
def test_a_damaged_chunk_is_named_and_no_thread_is_left(codecs, tmp_path):
    stored(LocalStore(tmp_path, durability="none"), CODECS[codecs], numbers())
    pack = packs_of(tmp_path)[0]
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)

    with pytest.raises(CorruptionError, match="checksum of its") as caught:
        tl.open(str(tmp_path))["x"][:]

    assert tmp_path / str(caught.value.object) == pack
    assert not [one for one in threading.enumerate() if one.name.startswith("tensorlake-fill")]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_pack_that_is_cut_short_or_gone_is_named(is_there, tmp_path):
    stored(LocalStore(tmp_path, durability="none"), "raw", numbers())
    pack = packs_of(tmp_path)[0]
    if is_there:
        pack.write_bytes(pack.read_bytes()[: pack.stat().st_size // 2])
    else:
        pack.unlink()

    with pytest.raises(CorruptionError, match=pack.name):
        tl.open(str(tmp_path))["x"][:]


def test_a_damaged_chunk_from_afar_is_named():
    store = MemoryStore()
    dataset = stored(store, "lz4", numbers())
    key = rowset_of(dataset).reader().chunks("x", np.arange(ROWS))[-1]
    damaged = bytearray(run(store.get(key.pack.path)) or b"")
    damaged[key.offset + key.nbytes // 2] ^= 1
    run(store.put(key.pack.path, damaged))

    with pytest.raises(CorruptionError, match="checksum of its") as caught:
        open_on(store)["x"][:]

    assert caught.value.object == key.pack.path


def test_what_threads_read_counts_as_the_callers(tmp_path):
    dataset = stored(LocalStore(tmp_path, durability="none"), "raw", numbers())

    with counted() as tally:
        dataset["x"][:]

    assert tally.nbytes >= ROWS * SIDE * SIDE * 4
