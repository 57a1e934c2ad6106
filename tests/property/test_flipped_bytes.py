"""Every byte of every object flipped, every object cut short (format.md, tests 19 and 45).

A reader answers with the object and the offset, or with what was stored; never with anything else.
And whatever a reader stumbles over, a check has found; a check itself never fails.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.checking import check_store
from tensorlake.errors import CorruptionError
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import MemoryStore, runtime
from tensorlake.versions import read_descriptor
from tests.handles import create_on, open_on, rows_of, wait_for_storage

FLIPS_PER_OBJECT = 12
CUTS_PER_OBJECT = 2


def dataset_of_every_kind() -> MemoryStore:
    """Chunks of every kind, index pages of every kind, a tag, a view, a branch, a tombstone."""
    store = MemoryStore()
    schema = {
        "number": "int64",
        "vector": tl.Embedding(80),
        "boxes": tl.BBox(format="xyxy"),
        "image": tl.Image(codec="png"),
        "text": tl.Text(nullable=True),
    }
    ds = create_on(store, schema)
    for commit, start in enumerate(range(0, 30, 6)):
        numbers = np.arange(start, start + 6)
        ds.extend(
            {
                "number": numbers,
                "vector": np.repeat(numbers[:, None], 80, axis=1).astype(np.float32),
                "boxes": [np.ones((n % 3, 4), np.float32) for n in numbers],
                "image": [np.full((3 + n % 2, 4, 3), n, np.uint8) for n in numbers],
                "text": [None if n % 4 == 0 else f"text {n}" for n in numbers],
            }
        )
        ds.commit(f"commit {commit}")
    ds.delete(list(range(0, 30, 7)))
    ds.commit("fewer")
    ds.add_tensor("extra", "float32", fill=0.5)
    ds.commit("another tensor")
    ds.tag("v1", at="main@5")
    ds.tag("gone")
    ds.delete_tag("gone")
    ds.query("WHERE number > 12").save("large")
    side = ds.branch("side")
    side.optimize()
    wait_for_storage()
    return store


@pytest.fixture(scope="module")
def whole() -> MemoryStore:
    return dataset_of_every_kind()


async def objects_of(store: MemoryStore) -> dict[str, bytes]:
    return {meta.path: await store.get(meta.path) or b"" async for meta in store.list("")}


def copy_of(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for path, data in objects.items():
        runtime.run(store.put(path, data))
    return store


def everything(store: MemoryStore) -> list[Any]:
    """Read all that users can name."""
    assert runtime.run(read_descriptor(store)) is not None
    main = open_on(store)
    tagged = open_on(store, "v1")
    view = main.views["large"]
    seen: list[Any] = [rows_of(one) for one in (main, open_on(store, "side"), tagged)]
    seen += [view.rows.tolist(), main.row_ids, [commit.message for commit in main.log()]]
    return seen


def damages(path: str, data: bytes, flips: int, cuts: int) -> Iterator[tuple[str, bytes]]:
    """Bytes flipped all over an object, its ends above all; and its beginning alone."""
    ends = {0, len(data) - 1, len(data) - 20, len(data) // 2}
    spread = range(0, len(data), max(1, len(data) // flips))
    for at in sorted((ends | set(spread)) & set(range(len(data)))):
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at % 8)
        yield f"{path}, byte {at} flipped", bytes(flipped)
    for stop in sorted({0, len(data) - 1, *range(0, len(data), max(1, len(data) // cuts))}):
        yield f"{path}, cut after {stop} bytes", data[:stop]


def is_answered(store: MemoryStore, expected: list[Any], what: str) -> CorruptionError | None:
    try:
        found = everything(store)
    except CorruptionError as error:
        return error
    assert found == expected, what
    return None


def hold(objects: dict[str, bytes], expected: list[Any], path: str, flips: int, cuts: int) -> None:
    store = copy_of(objects)
    for what, spoilt in damages(path, objects[path], flips, cuts):
        runtime.run(store.put(path, spoilt))

        error = is_answered(store, expected, what)
        report = check_store(store, full=True, decode=False, repair=False)

        if error is not None:
            assert error.facts["object"], what
            named = [one.object for one in report.findings if one.severity == "damage"]
            assert path in named, f"{what}: a reader raised {error}, a check found {named}"
    runtime.run(store.put(path, objects[path]))


def test_a_flipped_or_missing_byte_of_a_log_tag_or_descriptor_is_found_or_changes_nothing(whole):
    """format.md 45, and 19."""
    objects = runtime.run(objects_of(whole))
    expected = everything(whole)
    logs = sorted(path for path in objects if path.startswith("branches/main"))
    chosen = [logs[0], logs[-1], "branches/side/0000000002.json", "branches/main/HEAD"]
    chosen += [DESCRIPTOR, *(path for path in objects if path.startswith("tags/"))]

    for path in chosen:
        hold(objects, expected, path, FLIPS_PER_OBJECT // 4, 1)


def test_a_flipped_or_missing_byte_of_a_pack_is_found_or_changes_nothing(whole):
    """format.md 19: a small pack, and the largest."""
    objects = runtime.run(objects_of(whole))
    expected = everything(whole)
    packs = sorted(
        (path for path in objects if path.startswith("packs/")), key=lambda path: len(objects[path])
    )

    for path in [packs[0], packs[-1]]:
        hold(objects, expected, path, FLIPS_PER_OBJECT, CUTS_PER_OBJECT)


@pytest.mark.soak
def test_every_byte_of_every_object_may_flip(whole):
    """format.md 19 and 45, exhaustively."""
    objects = runtime.run(objects_of(whole))
    expected = everything(whole)
    for path, data in objects.items():
        hold(objects, expected, path, len(data), 64)


def test_a_missing_pack_is_found_and_does_not_stop_the_check(whole):
    objects = runtime.run(objects_of(whole))
    packs = [path for path in objects if path.startswith("packs/")]
    lost = set(itertools.islice(packs, 0, None, 3))
    store = copy_of({path: data for path, data in objects.items() if path not in lost})

    report = check_store(store, full=True, decode=True, repair=False)

    assert {one.object for one in report.findings if one.object.startswith("packs/")} == lost
