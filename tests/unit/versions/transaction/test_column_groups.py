"""Column groups staged, published, moved and carried by what knows nothing of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError, InvalidInputError, InvalidStateError, StorageError
from tensorlake.format import Entry
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import Fault, FaultyStore, SimulatedCrash
from tensorlake.versions import (
    BranchLog,
    Finding,
    PackReader,
    Reference,
    check_dataset,
    copy_dataset,
    iter_references,
)
from tests.support.column_groups import (
    append_to_group,
    columns,
    group_of,
    groups_of,
    replace_group,
)
from tests.support.garbage import Clock
from tests.support.handles import create_on, open_on, rows_of


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def dataset(store: MemoryStore) -> Dataset:
    """A dataset with two rows, and a group that names them."""
    dataset = create_on(store, {"x": "int64"})
    dataset.extend({"x": [0, 1]})
    replace_group(dataset, "files", [("a", 10), ("b", 20)])
    dataset.commit("first")
    return dataset


FIRST = [("a", 10), ("b", 20)]


def faults(store: MemoryStore) -> tuple[Finding, ...]:
    return run(check_dataset(store, full=True)).findings


def head(store: MemoryStore, branch: str = "main") -> Entry:
    entry = run(BranchLog(store, branch).head())
    assert entry is not None
    return entry


def test_a_group_is_published_with_its_rows(store: MemoryStore, dataset: Dataset):
    other = open_on(store)

    assert group_of(dataset, "files") == group_of(other, "files") == FIRST
    assert group_of(other, "none") is None
    assert list(other.schema) == ["x"]
    assert rows_of(other) == [{"x": 0}, {"x": 1}]
    assert group_of(open_on(store, "main@0"), "files") is None


def test_staged_content_is_read_before_it_is_published(store: MemoryStore, dataset: Dataset):
    append_to_group(dataset, "files", [("c", 30)])
    append_to_group(dataset, "files", [])
    append_to_group(dataset, "files", [("d", 40)])

    assert group_of(dataset, "files") == [*FIRST, ("c", 30), ("d", 40)]
    assert group_of(open_on(store), "files") == FIRST

    dataset.discard()

    assert group_of(dataset, "files") == FIRST


def test_rows_are_added_to_a_group_without_writing_the_others(store: MemoryStore, dataset: Dataset):
    before = session_of(dataset).head.indexes["files"]
    append_to_group(dataset, "files", [("c", 30)])
    dataset.commit()

    after = head(store).indexes["files"]

    assert group_of(open_on(store), "files") == [*FIRST, ("c", 30)]
    assert after["schema"] == before["schema"]
    for part, root in before["roots"].items():
        assert len(after["roots"][part]["tail"]["rows"]) == 1 + len(root["tail"]["rows"])


def test_a_group_is_replaced_and_dropped(store: MemoryStore, dataset: Dataset):
    replace_group(dataset, "files", [("z", 1)])
    replace_group(dataset, "empty", [])
    dataset.commit()

    assert groups_of(open_on(store)) == {"files": [("z", 1)], "empty": []}

    session_of(dataset).drop_group("files")
    assert group_of(dataset, "files") is None
    dataset.commit()

    assert groups_of(open_on(store)) == {"empty": []}
    assert head(store).changes.append == 0


def test_dropping_what_is_not_there_is_no_change(store: MemoryStore, dataset: Dataset):
    session_of(dataset).drop_group("ghost")
    replace_group(dataset, "brief", [("a", 1)])
    session_of(dataset).drop_group("brief")

    assert session_of(dataset).transaction is None


def test_only_a_known_group_of_the_kind_can_grow(dataset: Dataset):
    session = session_of(dataset)

    with pytest.raises(InvalidInputError, match="no column group 'ghost'"):
        append_to_group(dataset, "ghost", [("a", 1)])
    with pytest.raises(InvalidInputError, match="of the kind 'bitmap'"):
        session.stage_group("files", "bitmap", columns([("a", 1)]))
    uneven = {**columns([("a", 1)]), "size": columns([("a", 1), ("b", 2)])["size"]}
    with pytest.raises(InvalidInputError, match="all of one length"):
        session.stage_group("files", "ledger", uneven)
    with pytest.raises(InvalidInputError, match="one column for each part"):
        session.stage_group("files", "ledger", {"item": columns([("a", 1)])["item"]})
    with pytest.raises(InvalidInputError, match="name of a column group"):
        replace_group(dataset, "page", [("a", 1)])
    assert session.transaction is None


def optimize(dataset: Dataset) -> None:
    dataset.optimize()


def sort(dataset: Dataset) -> None:
    dataset.optimize(order_by="x")


def add_tensor(dataset: Dataset) -> None:
    dataset.add_tensor("later", "int32", fill=1)
    dataset.commit()


def update(dataset: Dataset) -> None:
    dataset["x"][0] = 9
    dataset.commit()


def append(dataset: Dataset) -> None:
    for number in range(5):
        dataset.append({"x": -number})
        dataset.commit()


def delete(dataset: Dataset) -> None:
    dataset.delete([1])
    dataset.commit()


def restore(dataset: Dataset) -> None:
    append_to_group(dataset, "files", [("late", 1)])
    dataset.commit()
    dataset.restore("main@1")


@pytest.mark.parametrize("change", [optimize, sort, add_tensor, update, append, delete, restore])
def test_other_commits_carry_groups(
    store: MemoryStore, dataset: Dataset, change: Callable[[Dataset], None]
):
    append(dataset)
    if change is restore:
        dataset.restore("main@1")
    was = session_of(dataset).head.seq

    change(dataset)

    assert head(store).seq > was
    assert group_of(open_on(store), "files") == group_of(dataset, "files") == FIRST


def test_a_lost_race_keeps_the_groups_of_both(store: MemoryStore, dataset: Dataset):
    other = open_on(store)
    append_to_group(dataset, "files", [("c", 30)])
    dataset.append({"x": 2})
    replace_group(other, "others", [("o", 1)])
    other.append({"x": 3})
    other.commit()

    dataset.commit()

    assert groups_of(open_on(store)) == {"files": [*FIRST, ("c", 30)], "others": [("o", 1)]}
    assert [row["x"] for row in rows_of(open_on(store))] == [0, 1, 3, 2]


def test_a_replaced_and_a_dropped_group_survive_a_lost_race(store: MemoryStore, dataset: Dataset):
    replace_group(dataset, "gone", [("g", 1)])
    dataset.commit()
    other = open_on(store)
    replace_group(dataset, "files", [("new", 1)])
    session_of(dataset).drop_group("gone")
    update(other)

    dataset.commit()

    assert groups_of(open_on(store)) == {"files": [("new", 1)]}


@pytest.mark.parametrize("policy", ["error", "ours", "theirs"])
def test_two_changes_of_one_group_conflict(store: MemoryStore, dataset: Dataset, policy: str):
    other = open_on(store)
    append_to_group(dataset, "files", [("mine", 1)])
    dataset.append({"x": 2})
    append_to_group(other, "files", [("theirs", 1)])
    other.commit()

    with pytest.raises(ConflictError, match="both changed the column group 'files'") as caught:
        dataset.refresh(keep_staged=True, on_conflict=policy)
    with pytest.raises(ConflictError, match="No on_conflict decides"):
        dataset.commit()

    assert [one.what for one in caught.value.conflicts] == ["group"]
    assert group_of(dataset, "files") == [*FIRST, ("mine", 1)]
    assert group_of(open_on(store), "files") == [*FIRST, ("theirs", 1)]
    dataset.discard()


def test_a_group_that_both_made_or_one_dropped_conflicts(store: MemoryStore, dataset: Dataset):
    other = open_on(store)
    replace_group(dataset, "new", [("mine", 1)])
    append_to_group(dataset, "files", [("mine", 1)])
    replace_group(other, "new", [("theirs", 1)])
    session_of(other).drop_group("files")
    other.commit()

    with pytest.raises(ConflictError, match="'files'; both changed the column group 'new'"):
        dataset.commit()
    dataset.discard()


def test_a_branch_has_the_groups_of_its_version(store: MemoryStore, dataset: Dataset):
    fix = dataset.branch("fix")
    append_to_group(fix, "files", [("c", 30)])
    fix.append({"x": 5})
    fix.commit()

    assert group_of(open_on(store, "fix"), "files") == [*FIRST, ("c", 30)]
    assert group_of(open_on(store), "files") == FIRST

    dataset.merge("fix")  # nothing is new here: its content is adopted

    assert group_of(open_on(store), "files") == [*FIRST, ("c", 30)]


def test_a_merge_keeps_the_groups_of_ours(store: MemoryStore, dataset: Dataset):
    fix = dataset.branch("fix")
    append_to_group(fix, "files", [("c", 30)])
    replace_group(fix, "more", [("m", 1)])
    fix.append({"x": 5})
    fix.commit()
    update(dataset)

    dataset.merge("fix")

    assert [row["x"] for row in rows_of(open_on(store))] == [9, 1, 5]
    assert groups_of(open_on(store)) == {"files": FIRST}
    assert faults(store) == ()


def many(count: int) -> list[tuple[str, int]]:
    return [(f"item {number:06}", number) for number in range(count)]


def grown(store: MemoryStore) -> tuple[Dataset, list[tuple[str, int]]]:
    """A group whose indexes have pages, below inner ones, and a tail."""
    dataset = create_on(store, {"x": "int64"})
    items: list[tuple[str, int]] = []
    replace_group(dataset, "files", [])
    for number in range(16):
        new = [(f"{number}-{one}", one) for one in range(3)]
        append_to_group(dataset, "files", new)
        dataset.append({"x": number})
        dataset.commit()
        items += new
    assert session_of(dataset).snapshot().state.groups["files"].roots
    return dataset, items


def test_many_commits_grow_a_tree_like_any_other(store: MemoryStore):
    _, items = grown(store)

    reopened = open_on(store)
    roots = session_of(reopened).snapshot().state.groups["files"].roots

    assert group_of(reopened, "files") == items
    assert any(root.children for root in roots.values())
    assert faults(store) == ()


def test_a_check_finds_a_flipped_byte_in_a_chunk_and_in_a_page_of_a_part(store: MemoryStore):
    grown(store)
    parts = set(open_session_groups(store))
    references = [one for one in all_references(store) if one.what in parts]
    by_kind = {one.kind: one for one in references}

    for one in by_kind.values():
        path, at = one.pack.path, one.offset + one.nbytes - 1
        data = run(store.get(path))
        assert data is not None
        run(store.put(path, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]))

        found = faults(store)

        assert any(path == finding.object for finding in found)
        run(store.put(path, data))
    assert set(by_kind) == {"page", "chunk"}
    assert faults(store) == ()


def all_references(store: MemoryStore) -> list[Reference]:
    entry = head(store)

    async def listed() -> list[Reference]:
        return [one async for one in iter_references(entry, PackReader(store))]

    return run(listed())


def open_session_groups(store: MemoryStore) -> list[str]:
    groups = session_of(open_on(store)).snapshot().state.groups
    return [f"{name}/{part}" for name, group in groups.items() for part in group.roots]


def test_a_repair_finds_lost_pages_in_older_versions(store: MemoryStore):
    dataset, items = grown(store)
    root = next(
        root
        for root in session_of(dataset).snapshot().state.groups["files"].roots.values()
        if root.children
    )
    ref = root.children[0]
    data = run(store.get(ref.pack.path))
    assert data is not None
    run(
        store.put(
            ref.pack.path,
            data[: ref.offset] + bytes(ref.nbytes) + data[ref.offset + ref.nbytes :],
        )
    )

    report = open_on(store).check(repair=True)

    assert group_of(open_on(store), "files") == items, report


def test_a_copy_has_the_groups_of_every_version(store: MemoryStore):
    _, items = grown(store)
    target = MemoryStore()

    run(copy_dataset(store, target))

    assert group_of(open_on(target), "files") == items
    assert group_of(open_on(target, "main@10"), "files") == items[:30]
    assert faults(target) == ()

    alone = MemoryStore()
    run(copy_dataset(store, alone, history=False))

    assert group_of(open_on(alone), "files") == items
    assert faults(alone) == ()


def test_a_collection_keeps_groups_and_frees_replaced_ones():
    clock = Clock()
    store = MemoryStore(clock=clock)
    dataset = create_on(store, {"x": "int64"})
    for items in ([("old", 1)], [("new", 2)]):
        replace_group(dataset, "files", items)
        dataset.commit()
    clock.pass_grace()
    kept = open_on(store).gc()
    open_on(store).expire(keep_last=1)
    clock.pass_grace()

    report = open_on(store).gc()

    assert (kept.deleted_packs, report.deleted_packs) == (0, 1)
    assert group_of(open_on(store), "files") == [("new", 2)]
    assert faults(store) == ()


@pytest.mark.slow
def test_a_crash_at_any_write_leaves_rows_and_group_in_agreement():
    outcomes = set()
    for writes in range(12):
        store = MemoryStore()
        dataset = create_on(store, {"x": "int64"})
        replace_group(dataset, "files", [("0", 0)])
        dataset.append({"x": 0})
        dataset.commit()
        faulty = FaultyStore(store)
        writer = open_on(faulty)
        faulty.crash_after(writes)
        try:
            for number in (1, 2):
                writer.append({"x": number})
                append_to_group(writer, "files", [(str(number), number)])
                writer.commit()
        except (SimulatedCrash, StorageError, InvalidStateError):
            session_of(writer).discard()

        rows = [row["x"] for row in rows_of(open_on(store))]
        group = group_of(open_on(store), "files") or []

        assert [size for _, size in group] == rows
        assert faults(store) == ()
        outcomes.add(len(rows))
    assert outcomes == {1, 2, 3}


def test_a_pack_stored_under_another_name_is_cited_by_it(store: MemoryStore, dataset: Dataset):
    faulty = FaultyStore(store)
    writer = open_on(faulty)
    append_to_group(writer, "files", [("c", 30)])
    writer.append({"x": 3})
    faulty.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/")

    writer.commit()

    assert group_of(open_on(store), "files") == [*FIRST, ("c", 30)]
    assert faults(store) == ()


def test_a_view_and_a_tag_of_a_version_read_its_group(store: MemoryStore, dataset: Dataset):
    dataset.tag("v1")
    append_to_group(dataset, "files", [("c", 30)])
    dataset.commit()

    assert group_of(open_on(store, "v1"), "files") == FIRST


def test_many_groups_are_spilled_to_a_page_and_carried(store: MemoryStore, dataset: Dataset):
    for number in range(20):
        replace_group(dataset, f"group {number}", [(str(number), number)])
    dataset.commit()
    spilled = head(store).spilled["indexes"]
    update(dataset)

    assert head(store).spilled["indexes"] == spilled  # not written again
    assert group_of(open_on(store), "group 7") == [("7", 7)]
    fix = dataset.branch("fix")
    assert group_of(fix, "group 7") == [("7", 7)]
    append_to_group(dataset, "files", [("c", 30)])
    dataset.commit()
    assert group_of(open_on(store), "files") == [*FIRST, ("c", 30)]
    assert len(groups_of(open_on(store))) == 21
    assert faults(store) == ()


def test_a_group_of_many_rows_is_read_by_range(store: MemoryStore, dataset: Dataset):
    replace_group(dataset, "files", many(20_000))
    dataset.commit()

    reader = session_of(open_on(store)).group("files")

    assert reader is not None
    sizes: Any = reader.read("size", np.arange(15_000, 15_003))
    assert sizes.values.tolist() == [15_000, 15_001, 15_002]


def test_a_group_made_for_a_tensor_that_another_dropped_conflicts(store: MemoryStore):
    mine = create_on(store, {"a": "int64", "b": "int64"})
    mine.extend({"a": [1, 2], "b": [3, 4]})
    mine.commit()
    other = open_on(store)
    mine.create_index("a")
    mine.create_index("b")
    other.drop_tensor("a")
    other.commit()

    with pytest.raises(
        ConflictError, match="column group 'index/a' covers a tensor that"
    ) as caught:
        mine.commit()

    assert [one.what for one in caught.value.conflicts] == ["group"]
    mine.discard()
    mine.refresh()
    mine.create_index("b")
    mine.commit()
    assert list(open_on(store).indexes) == ["b"]
