"""Every byte of every object flipped, every object cut short (format.md, tests 19 and 45).

A reader answers with the object and the offset, or with what was stored; never with anything else.
And whatever a reader stumbles over, a check has found; a check itself never fails.
"""

import itertools
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.maintenance.check import check_store
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import MemoryStore, run
from tensorlake.versions import read_descriptor
from tests.support.damage import Opening, Read, cuts, failures, fill, flips, objects_of, openings
from tests.support.handles import create_on, plain, wait_for_storage

FEW = 3
CHECKED = 32
"""Of all flips each so many-th is also looked for by a check, which reads everything."""


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


@pytest.fixture(scope="module")
def objects(whole) -> dict[str, bytes]:
    return objects_of(whole)


@pytest.fixture(scope="module")
def probes(objects) -> list[Opening]:
    """All that users can name, a piece at a time."""
    columns = ("number", "vector", "boxes", "image", "text", "extra")
    main: list[Read] = [partial(cells, name) for name in columns]
    main += [
        messages,
        lambda ds: run(read_descriptor(session_of(ds).store)),
        lambda ds: ds.row_ids,
        lambda ds: (list(ds.views), ds.views["large"].rows.tolist()),
        lambda ds: (sorted(ds.tags), branches(ds)),
    ]
    side: list[Read] = [messages, *(partial(cells, name) for name in columns)]
    tagged: list[Read] = [partial(cells, name) for name in columns[:-1]]
    return openings(objects, {None: [], "main@7": main, "side": [], "side@2": side, "v1": tagged})


def branches(dataset: Dataset) -> list[str]:
    """Their names, which are the same where one is damaged: that is warned of, not raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tl.DamagedBranchWarning)
        return dataset.branches


def cells(name: str, dataset: Dataset) -> list[Any]:
    return [plain(value) for value in dataset[name]]


def messages(dataset: Dataset) -> list[str]:
    return [commit.message for commit in dataset.log()]


def hold(
    objects: dict[str, bytes],
    probes: list[Opening],
    path: str,
    damages: Iterator[tuple[str, bytes, int, int]],
    *,
    checked: int = 1,
) -> int:
    """Damage an object in many ways; a check is made of each `checked`-th. Count the errors."""
    store, count = MemoryStore(), 0
    fill(store, objects)
    for number, (what, spoilt, start, stop) in enumerate(damages):
        run(store.put(path, spoilt))
        errors = failures(store, probes, path, start, stop, f"{path}, {what}")
        count += bool(errors)
        if number % checked == 0:
            report = check_store(store, full=True, decode=False, repair=False)
            named = [one.object for one in report.findings if one.severity == "damage"]
            assert not errors or path in named, f"{path}, {what}: a check found {named}"
    return count


def some_of(data: bytes, few: int) -> Iterator[tuple[str, bytes, int, int]]:
    """Bytes all over an object, and its ends."""
    yield from flips(data, max(1, len(data) // few))
    yield from list(flips(data))[-1:]
    yield from cuts(data, max(1, len(data) // 2))


def test_the_probes_ask_for_nearly_every_byte(objects, probes):
    """Else flips would be tried on nothing. Of packs they leave directories and gaps."""
    each = [probe for one in probes for probe in (one.opened, *one.reads)]

    for path, data in objects.items():
        if path.startswith("descriptor/"):
            continue  # the descriptor's second put, which only `check` and `repair` read
        asked = sum(any(p.asks(path, at, at + 1) for p in each) for at in range(0, len(data), 7))
        share = asked / len(range(0, len(data), 7))
        assert share > (0.6 if path.startswith("packs/") else 0.99), path


@pytest.mark.slow
def test_a_flipped_or_missing_byte_of_a_log_tag_or_descriptor_is_found_or_changes_nothing(
    objects, probes
):
    """format.md 45, and 19."""
    logs = sorted(path for path in objects if path.startswith("branches/main"))
    chosen = [logs[0], logs[-2], "branches/side/0000000002.json", "branches/main/HEAD"]
    chosen += [DESCRIPTOR, *(path for path in objects if path.startswith("tags/"))]

    for path in chosen:
        hold(objects, probes, path, some_of(objects[path], FEW))


@pytest.mark.slow
def test_a_flipped_or_missing_byte_of_a_pack_is_found_or_changes_nothing(objects, probes):
    """format.md 19: a small pack, and the largest."""
    packs = sorted(
        (path for path in objects if path.startswith("packs/")), key=lambda path: len(objects[path])
    )

    for path in [packs[0], packs[-1]]:
        assert hold(objects, probes, path, some_of(objects[path], 4 * FEW)) > FEW


KINDS = (
    *(f"branches/main/000000000{seq}" for seq in range(8)),
    *("branches/main/HEAD", "branches/side/", "packs/", "tags/", "descriptor/", DESCRIPTOR),
)
"""Beginnings of paths: a run of hours says of each how it ended."""


def test_the_kinds_leave_no_object_out(objects):
    assert all(sum(path.startswith(kind) for kind in KINDS) == 1 for path in objects)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_of_every_object_may_flip(objects, probes, kind):
    """format.md 19 and 45, exhaustively."""
    for path, data in objects.items():
        if not path.startswith(kind):
            continue
        hold(objects, probes, path, flips(data), checked=CHECKED)
        hold(objects, probes, path, cuts(data, max(1, len(data) // 64)), checked=4)


def test_a_missing_pack_is_found_and_does_not_stop_the_check(objects):
    packs = [path for path in objects if path.startswith("packs/")]
    lost = set(itertools.islice(packs, 0, None, 3))
    store = MemoryStore()
    fill(store, {path: data for path, data in objects.items() if path not in lost})

    report = check_store(store, full=True, decode=True, repair=False)

    assert {one.object for one in report.findings if one.object.startswith("packs/")} == lost
