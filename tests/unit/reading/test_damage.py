"""Damaged objects: an error that names the object, or no effect; never other data.

Tests 19, 20 and 45 of format.md; and test 10, that snapshots never change.
"""

from functools import partial

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CorruptionError, SnapshotExpiredError
from tensorlake.format import entry_path
from tensorlake.storage import LocalStore, MemoryStore, Store, run
from tensorlake.testing import Fault, FaultyStore
from tests.support.damage import Opening, Read, cuts, failures, fill, flips, objects_of, openings
from tests.support.handles import create_on, open_on, plain, wait_for_storage

SCHEMA = {
    "x": "int64",
    "tokens": tl.Array("uint16", shape=(256,)),
    "boxes": tl.Array("float32", shape=(None, 4)),
    "text": tl.Text(nullable=True),
    "label": tl.ClassLabel(["cat", "dog"]),
}
STRIDE = 401
"""Bytes between two flips of the default suite; `make soak` flips each."""


def commit_some(dataset: Dataset) -> None:
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
    commit_some(create_on(store, SCHEMA))
    return store


@pytest.fixture(scope="module")
def probes(store) -> list[Opening]:
    """All that a reader can see of two versions, a piece at a time."""
    columns: list[Read] = [partial(cells, name) for name in SCHEMA]
    others: list[Read] = [
        lambda ds: ds["boxes"].shapes().tolist(),
        lambda ds: ds.query("WHERE label = 'dog' AND x > 2").rows.tolist(),
        lambda ds: ds.row_ids,
        lambda ds: (sorted(ds.tags), ds.branches),
        lambda ds: [commit.message for commit in ds.log()],
    ]
    wanted = {None: [], "main@3": [*columns, *others], "v1": columns}
    return openings(objects_of(store), wanted)


def cells(name: str, dataset: Dataset) -> list[object]:
    return [plain(value) for value in dataset[name]]


def everything(store: Store) -> list[object]:
    """What a reader sees of a version, and needs each pack for."""
    head = open_on(store)
    return [cells(name, head) for name in SCHEMA]


def copy_of(store: MemoryStore, path: str, data: bytes) -> MemoryStore:
    """The same objects, one of them changed."""
    twin = MemoryStore()
    fill(twin, objects_of(store) | {path: data})
    return twin


def check_damage(store: MemoryStore, probes: list[Opening], stride: int) -> int:
    """Damage every object in every way; count the errors."""
    errors, kept = 0, objects_of(store)
    twin = MemoryStore()
    fill(twin, kept)
    for path, data in kept.items():
        for what, changed, start, stop in [*flips(data, stride), *cuts(data, stride * 5)]:
            run(twin.put(path, changed))
            errors += len(failures(twin, probes, path, start, stop, f"{path}, {what}"))
        run(twin.put(path, data))
    return errors


@pytest.mark.slow
def test_flipped_and_cut_bytes_are_reported_or_change_nothing(store, probes):
    """Tests 19 and 45."""
    assert check_damage(store, probes, STRIDE) > 20


@pytest.mark.soak
def test_each_flipped_byte_is_reported_or_changes_nothing(store, probes):
    assert check_damage(store, probes, 1) > 1000


def test_each_damaged_byte_of_the_newest_entry_is_reported(store):
    """Test 45: a digest covers every byte; nothing of the entry is believed."""
    path = entry_path("main", 3)
    data = objects_of(store)[path]
    twin = copy_of(store, path, data)

    for _, changed, _, _ in [*flips(data, 31), *cuts(data, 155)]:
        run(twin.put(path, changed))
        with pytest.raises(CorruptionError, match="0000000003"):
            open_on(twin)


def test_a_missing_pack_is_reported_by_name(store):
    packs = [path for path in objects_of(store) if path.startswith("packs/")]
    for path in packs:
        twin = copy_of(store, path, b"")
        run(twin.delete(path))

        with pytest.raises((CorruptionError, SnapshotExpiredError), match=path):
            everything(twin)


def test_an_entry_under_another_number_is_reported(store):
    data = objects_of(store)[entry_path("main", 2)]

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
    commit_some(dataset)
    old = [open_on(store, f"main@{seq}") for seq in range(4)]
    before = [(seen_by(one), rowset_of(one).selection.digest) for one in old]

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
        assert rowset_of(again).selection.digest == digest


def seen_by(dataset: Dataset) -> list[object]:
    return [
        [[plain(value) for value in dataset[name]] for name in dataset.schema],
        dataset.row_ids,
        list(dataset.schema),
    ]
