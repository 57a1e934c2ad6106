"""Damaged objects: an error that names the object, or no effect; never other data.

Tests 19, 20 and 45 of format.md; and test 10, that snapshots never change.
"""

from collections.abc import Iterator

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.dataset import Dataset
from tensorlake.errors import CorruptionError, SnapshotExpiredError
from tensorlake.format import entry_path
from tensorlake.storage import LocalStore, MemoryStore, Store, run
from tensorlake.testing import Fault, FaultyStore
from tests.handles import create_on, open_on, plain, wait_for_storage

SCHEMA = {
    "x": "int64",
    "tokens": tl.Array("uint16", shape=(256,)),
    "boxes": tl.Array("float32", shape=(None, 4)),
    "text": tl.Text(nullable=True),
    "label": tl.ClassLabel(["cat", "dog"]),
}
STRIDE = 151
"""Bytes between two flips of the default suite; `make soak` flips each."""


def fill(dataset: Dataset) -> None:
    for start in (0, 5):
        dataset.extend(
            {
                "x": np.arange(start, start + 5),
                "tokens": np.arange(5 * 256).reshape(5, 256) + start,
                "boxes": [np.full((row % 3, 4), row) for row in range(5)],
                "text": [None, "", "a", "bä", "c" * 50],
                "label": [0, 1, 0, 1, 1],
            }
        )
        dataset.commit()
    dataset["x"][3] = 33
    dataset.delete(1)
    dataset.commit()
    dataset.tag("v1", at="main@1")
    wait_for_storage()


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    store = MemoryStore()
    fill(create_on(store, SCHEMA))
    return store


def objects(store: Store) -> dict[str, bytes]:
    async def read() -> dict[str, bytes]:
        return {meta.path: await store.get(meta.path) or b"" async for meta in store.list("")}

    return run(read())


def everything(store: Store) -> list[object]:
    """All that a reader can see: two versions, rows, shapes, a query, tags and branches."""
    head, tagged = open_on(store), open_on(store, "v1")
    return [
        head.version,
        *([[plain(value) for value in one[name]] for name in SCHEMA] for one in (head, tagged)),
        head["boxes"].shapes().tolist(),
        head.query("WHERE label = 'dog' AND x > 2").rows.tolist(),
        head.row_ids,
        sorted(head.tags),
        head.branches,
        [commit.message for commit in head.log()],
    ]


def copy_of(store: MemoryStore, path: str, data: bytes) -> MemoryStore:
    """The same objects, one of them changed."""
    twin = MemoryStore()
    for name, stored in objects(store).items():
        run(twin.put(name, data if name == path else stored))
    return twin


def damaged(data: bytes, stride: int) -> Iterator[bytes]:
    for at in range(0, len(data), stride):
        yield data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
    for stop in range(0, len(data), stride * 5):
        yield data[:stop]


def check_damage(store: MemoryStore, stride: int) -> int:
    """Damage every object in every way; count the errors."""
    expected, errors = everything(store), 0
    kept = objects(store)
    twin = copy_of(store, "", b"")
    for path, data in kept.items():
        for changed in damaged(data, stride):
            run(twin.put(path, changed))
            try:
                seen = everything(twin)
            except CorruptionError as error:
                errors += 1
                named = path in str(error)
            else:
                named = seen == expected
            assert named, f"{path} was changed, and read as something else or not named"
        run(twin.put(path, data))
    return errors


def test_flipped_and_cut_bytes_are_reported_or_change_nothing(store):
    """Tests 19 and 45."""
    assert check_damage(store, STRIDE) > 20


@pytest.mark.soak
def test_each_flipped_byte_is_reported_or_changes_nothing(store):
    assert check_damage(store, 1) > 1000


def test_each_damaged_byte_of_the_newest_entry_is_reported(store):
    """Test 45: a digest covers every byte; nothing of the entry is believed."""
    path = entry_path("main", 3)
    data = objects(store)[path]
    twin = copy_of(store, "", b"")

    for changed in damaged(data, 7):
        run(twin.put(path, changed))
        with pytest.raises(CorruptionError, match="0000000003"):
            open_on(twin)


def test_a_missing_pack_is_reported_by_name(store):
    packs = [path for path in objects(store) if path.startswith("packs/")]
    for path in packs:
        twin = copy_of(store, "", b"")
        run(twin.delete(path))

        with pytest.raises((CorruptionError, SnapshotExpiredError), match=path):
            everything(twin)


def test_an_entry_under_another_number_is_reported(store):
    data = objects(store)[entry_path("main", 2)]

    with pytest.raises(CorruptionError, match="0000000003"):
        open_on(copy_of(store, entry_path("main", 3), data))


@pytest.mark.parametrize("fault", [Fault.SHORT, Fault.FLIPPED])
@pytest.mark.parametrize("call", ["get", "get_range", "get_ranges"])
def test_a_bad_answer_is_reported_and_not_remembered(fault, call):
    """Test 20: short reads; the next read of the same handle is right again."""
    objects = MemoryStore()
    writer = create_on(objects, {"raw": tl.Array("uint8", shape=(1024,)), "text": "str"})
    raw = np.random.default_rng(0).integers(0, 255, (2048, 1024), dtype=np.uint8)
    writer.extend({"raw": raw, "text": [f"{row}" for row in range(2048)]})
    writer.commit()
    store = FaultyStore(objects)
    reads = {
        "get": lambda: open_on(store)["text"][5],
        "get_range": lambda: open_on(store)["text"][5],
        "get_ranges": lambda: plain(open_on(store)["raw"][[5, 1500]]),
    }
    path = "0000000001.json" if call == "get" else "packs/"
    expected = reads[call]()
    store.inject(fault, call=call, path=path)

    with pytest.raises(CorruptionError):
        reads[call]()

    assert reads[call]() == expected


def test_a_bad_answer_leaves_the_handle_usable():
    objects = MemoryStore()
    writer = create_on(objects, {"x": "int64", "boxes": tl.Array("float32", (None, 4))})
    writer.extend({"x": np.arange(9), "boxes": [np.zeros((row, 4)) for row in range(9)]})
    writer.commit()
    store = FaultyStore(objects)
    handle = open_on(store)

    for read in (
        lambda: plain(handle["boxes"].shapes()),
        lambda: plain(handle.where("x > 3").rows),
        lambda: plain(handle["boxes"][:].lengths),
    ):
        store.inject(Fault.FLIPPED, call="get_range", path="packs/")
        with pytest.raises(CorruptionError):
            read()
        assert len(read()) > 0


def test_damage_of_a_mapped_chunk_is_found_when_it_is_first_touched(tmp_path):
    store = LocalStore(tmp_path)
    dataset = create_on(store, {"x": tl.Array("uint8", shape=(512,))})
    dataset.extend({"x": np.zeros((100, 512), np.uint8)})
    dataset.commit()
    (path,) = (tmp_path / "packs").rglob("*.tlp")
    data = bytearray(path.read_bytes())
    data[30_000] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptionError, match=path.name):
        tl.open(str(tmp_path))["x"][0]


# Snapshots never change (test 10)


def test_what_a_version_shows_never_changes_under_later_commits():
    """Test 10: rows, row ids and digests of an old version, under every kind of later commit."""
    store = MemoryStore()
    dataset = create_on(store, SCHEMA)
    fill(dataset)
    old = [open_on(store, f"main@{seq}") for seq in range(4)]
    before = [(seen_by(one), one.selection().digest) for one in old]

    dataset["x"][:] = -1
    dataset["tokens"][2] = np.zeros(256, np.uint16)
    dataset.commit()
    dataset.delete(slice(0, 5))
    dataset.rename_tensor("x", "n")
    dataset.drop_tensor("boxes")
    dataset.add_tensor("x", "str", fill="new")
    dataset["label"].rename("cat", "tiger")
    dataset.commit()
    dataset.branch("fix", at="main@1")

    for seq, (seen, digest) in enumerate(before):
        again = open_on(store, f"main@{seq}")
        assert seen_by(again) == seen_by(old[seq]) == seen
        assert again.selection().digest == digest


def seen_by(dataset: Dataset) -> list[object]:
    return [
        [[plain(value) for value in dataset[name]] for name in dataset.schema],
        dataset.row_ids,
        list(dataset.schema),
    ]
