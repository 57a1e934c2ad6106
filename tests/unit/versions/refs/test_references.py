"""What a version needs, all of it and nothing else."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CorruptionError, SnapshotExpiredError, UnsupportedFeatureError
from tensorlake.format import ChunkKind, ColumnGroup, Entry, PackId, Root, Schema
from tensorlake.storage import MemoryStore, run
from tensorlake.versions import (
    BranchLog,
    PackReader,
    Reference,
    Unreadable,
    iter_references,
    packs_of,
)
from tests.support.handles import create_on, open_on, rows_of

GROUPS = 40
"""So many commits fill tails, so that the indexes have pages."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def dataset(store: MemoryStore) -> Dataset:
    """Every kind of extent, in trees with pages: ragged, encoded, uniform, fill; cut by updates."""
    dataset = create_on(
        store, {"x": "int64", "text": "str", "boxes": tl.Array("float32", shape=(None, 4))}
    )
    for group in range(GROUPS):
        dataset.extend(
            {
                "x": [group, -group],
                "text": [f"row {group}", "é"],
                "boxes": [np.full((group % 3, 4), group), np.zeros((1, 4))],
            }
        )
        dataset.commit(f"group {group}")
    dataset.add_tensor("later", "int32", fill=7)
    dataset["x"][3] = 1000
    dataset.delete([0, 5, 9])
    dataset.commit("changes of every kind")
    return dataset


def head(store: MemoryStore) -> Entry:
    entry = run(BranchLog(store, "main").head())
    assert entry is not None
    return entry


def references_of(store: MemoryStore, entry: Entry, **arguments) -> list[Reference]:
    async def collect() -> list[Reference]:
        return [one async for one in iter_references(entry, PackReader(store), **arguments)]

    return run(collect())


def id_of(dataset: Dataset, tensor: str) -> str:
    return session_of(dataset).committed.spec(tensor).id


def pack_paths(store: MemoryStore) -> set[str]:
    async def listed() -> set[str]:
        return {meta.path async for meta in store.list("packs/")}

    return run(listed())


def test_a_version_reads_back_from_the_packs_it_refers_to_alone(store, dataset):
    """format.md 18, for one version: all other packs are gone."""
    expected = rows_of(dataset)
    entry = head(store)
    needed = run(packs_of(entry, PackReader(store)))
    for path in pack_paths(store) - {pack.path for pack in needed}:
        run(store.delete(path))

    assert rows_of(open_on(store)) == expected


def test_a_version_refers_to_no_pack_that_reading_it_never_opens(store, dataset):
    """format.md 18: what is marked without need would be kept for ever."""
    del dataset
    needed = run(packs_of(head(store), PackReader(store)))

    for pack in sorted(needed)[:: len(needed) // 8]:
        data = run(store.get(pack.path))
        run(store.delete(pack.path))
        with pytest.raises((CorruptionError, SnapshotExpiredError)):
            rows_of(open_on(store))
        run(store.put(pack.path, data))


def test_every_reference_states_the_checksum_of_its_bytes(store, dataset):
    del dataset

    found = references_of(store, head(store))

    assert {one.kind for one in found} == {"page", "chunk"}
    for one in found:
        data = run(store.get_range(one.pack.path, one.offset, one.offset + one.nbytes))
        assert xxh3_64_intdigest(data) == one.checksum, str(one)


def test_references_and_packs_name_the_same_packs(store, dataset):
    del dataset
    entry = head(store)

    found = references_of(store, entry)

    assert {one.pack for one in found} == run(packs_of(entry, PackReader(store)))
    assert len({(one.pack, one.offset) for one in found}) == len(found), "each once"


def test_chunks_tell_the_rows_they_are_for(store, dataset):
    entry = head(store)
    text = id_of(dataset, "text")

    chunks = [one for one in references_of(store, entry) if one.what == text]

    covered = sorted((c.row_start, c.rows) for c in chunks if c.kind == "chunk")
    assert sum(rows for _, rows in covered) == entry.physical
    assert covered[0][0] == 0


def test_a_page_comes_before_what_it_refers_to(store, dataset):
    entry = head(store)
    root = entry.roots[id_of(dataset, "x")]
    assert root.children, "the tree has pages, or this tests nothing"

    found = references_of(store, entry)

    mine = [one for one in found if one.what == id_of(dataset, "x")]
    assert mine[0].kind == "page"
    assert (mine[0].pack, mine[0].offset) == (root.children[0].pack, root.children[0].offset)
    assert mine[1].kind == "chunk"


def test_members_that_lie_in_pages_are_referred_to(store):
    """10³ tensors: schema and roots are pages."""
    dataset = create_on(store, {f"tensor-{n:04}": "int64" for n in range(400)})
    dataset.append({f"tensor-{n:04}": n for n in range(400)})
    dataset.commit("wide")
    entry = head(store)
    assert set(entry.spilled) == {"schema", "roots"}

    found = references_of(store, entry)

    assert {"schema", "roots"} <= {one.what for one in found}
    assert len([one for one in found if one.kind == "chunk"]) == 400


def test_a_second_version_adds_only_what_is_its_own(store, dataset):
    entry = head(store)
    seen = set()
    before = run(packs_of(entry, PackReader(store), seen=seen))
    dataset["x"][0] = 5
    dataset.commit("one value")

    added = references_of(store, head(store), seen=seen)

    pages = [one for one in added if one.kind == "page"]
    assert {one.pack for one in pages}.isdisjoint(before)


def test_an_unreadable_page_is_told_and_the_rest_is_listed(store, dataset):
    entry = head(store)
    child = entry.roots[id_of(dataset, "x")].children[0]
    damage(store, child.pack, child.offset)
    told: list[Unreadable] = []

    found = references_of(store, entry, on_unreadable=told.append)

    assert [(one.reference.pack, one.reference.offset) for one in told] == [
        (child.pack, child.offset)
    ]
    assert not told[0].is_missing
    assert id_of(dataset, "text") in {one.what for one in found}
    with pytest.raises(CorruptionError):
        references_of(store, entry)


def test_damage_below_a_page_is_met_again_by_the_next_version_that_shares_it(store, dataset):
    """A collector that skipped it once, where it may, must stop at it where it may not."""
    entry = head(store)
    child = entry.roots[id_of(dataset, "x")].children[0]
    run(store.delete(child.pack.path))
    seen: set[tuple[PackId, int]] = set()
    told: list[Unreadable] = []
    packs = PackReader(store)

    run(packs_of(entry, packs, seen=seen, on_unreadable=told.append))

    assert any(one.is_missing for one in told)
    with pytest.raises((CorruptionError, SnapshotExpiredError)):
        run(packs_of(entry, packs, seen=seen))


def test_what_this_version_does_not_know_is_refused(store, dataset):
    """Packs that cannot be told must not be taken for garbage."""
    entry = head(store)
    unknown = ColumnGroup.empty("vector", Schema.new({"code": "int64"})).to_json() | {"bases": {}}
    with pytest.raises(UnsupportedFeatureError, match="by-vector"):
        run(packs_of(replace(entry, indexes={"by-vector": unknown}), PackReader(store)))

    id_ = id_of(dataset, "later")
    root = entry.roots[id_]
    tail = replace(root.tail, kind=np.full(len(root.tail), ChunkKind.TILED, np.uint8))
    tiled = replace(entry, roots={**entry.roots, id_: Root.of(tail, children=root.children)})
    with pytest.raises(UnsupportedFeatureError, match="tiled"):
        run(packs_of(tiled, PackReader(store)))


def test_a_rebased_commit_refers_to_what_its_head_does_and_to_its_own_packs_alone(store, dataset):
    """The invariant of combine: what only the base referred to may be collected already."""
    writer = open_on(store)
    writer["x"][[10, 11, 40]] = 7
    writer.append({"x": 1, "text": "new", "boxes": np.zeros((1, 4)), "later": 3})
    dataset.optimize()
    before = run(packs_of(head(store), PackReader(store)))

    writer.commit("over the optimization")

    entry = head(store)
    after = run(packs_of(entry, PackReader(store)))
    assert {pack for pack in after if pack.txid != entry.txid} <= before
    assert any(pack.txid == entry.txid for pack in after)


@pytest.mark.slow
def test_pages_are_read_together(store, dataset):
    """A deep tree costs a few round trips a level, not one a page."""
    del dataset
    entry = head(store)
    at_once = most = 0

    class Watching(PackReader):
        async def read(self, ref, /):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
            return await super().read(ref)

    run(packs_of(entry, Watching(store)))

    assert most > 1


def damage(store: MemoryStore, pack: PackId, offset: int) -> None:
    data = bytearray(run(store.get(pack.path)) or b"")
    data[offset + 8] ^= 1
    run(store.put(pack.path, bytes(data)))
