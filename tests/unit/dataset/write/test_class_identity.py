"""A class is followed by its id, through renames, merges, fast-forwards and restores.

format.md 44, "dog stays dog": whatever codes and names a class has on each branch, rows keep it.
"""

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import TensorSpec
from tensorlake.storage import MemoryStore
from tensorlake.versions import codes_in
from tests.support.handles import create_on, open_on


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    main = create_on(store, {"x": "int64", "label": tl.ClassLabel(["cat", "dog"])})
    main.extend({"x": [0, 1], "label": ["cat", "dog"]})
    main.commit("two")
    return store


def branch(store: MemoryStore, name: str, *, of: str = "main") -> Dataset:
    open_on(store, of).branch(name)
    return open_on(store, name)


def add_class(store: MemoryStore, where: str, name: str, x: int) -> None:
    dataset = open_on(store, where)
    dataset["label"].add_names([name])
    dataset.append({"x": x, "label": name})
    dataset.commit(f"{name} on {where}")


def rename(store: MemoryStore, where: str, old: str, new: str) -> None:
    dataset = open_on(store, where)
    dataset["label"].rename(old, new)
    dataset.commit(f"{old} is {new} on {where}")


def append(store: MemoryStore, where: str, x: int, label: str) -> None:
    dataset = open_on(store, where)
    dataset.append({"x": x, "label": label})
    dataset.commit(f"{label} on {where}")


def labels(store: MemoryStore, where: str = "main") -> dict[int, str]:
    dataset = open_on(store, where)
    return dict(zip(dataset["x"][:].tolist(), dataset["label"][:].as_names(), strict=True))


def codes_of(store: MemoryStore, where: str = "main") -> dict[int, int]:
    dataset = open_on(store, where)
    return dict(zip(dataset["x"][:].tolist(), dataset["label"][:].tolist(), strict=True))


def test_a_class_renamed_here_is_not_taken_for_one_that_another_merge_moved(store):
    """Left's owl moved from code 2 to 3 when it came; main's own class 2 did not."""
    branch(store, "left")
    add_class(store, "main", "emu", 10)
    add_class(store, "left", "owl", 20)
    branch(store, "third")
    append(store, "third", 30, "emu")
    open_on(store).merge("left")
    rename(store, "main", "emu", "ostrich")

    open_on(store).merge("third")

    assert labels(store) == {0: "cat", 1: "dog", 10: "ostrich", 20: "owl", 30: "ostrich"}


def test_a_class_that_came_by_one_of_several_merges_and_was_renamed_is_found(store):
    for name in ("left", "right"):
        branch(store, name)
    add_class(store, "main", "emu", 10)
    add_class(store, "left", "owl", 20)
    add_class(store, "right", "yak", 30)
    branch(store, "later", of="left")
    for name in ("left", "right"):
        open_on(store).merge(name)
    rename(store, "main", "owl", "uhu")
    append(store, "later", 21, "owl")

    open_on(store).merge("later")

    assert labels(store)[20] == labels(store)[21] == "uhu"
    assert labels(store)[10] == "emu"


def test_a_name_given_up_by_one_class_and_taken_by_another_is_not_followed(store):
    branch(store, "other")
    append(store, "other", 30, "dog")
    rename(store, "main", "dog", "hound")
    add_class(store, "main", "dog", 10)

    open_on(store).merge("other")

    assert labels(store) == {0: "cat", 1: "hound", 10: "dog", 30: "hound"}


def test_a_fast_forward_leaves_the_branch_its_codes(store):
    """Left has main's emu as class 3: taking left over would make main's code 2 its owl."""
    branch(store, "left")
    add_class(store, "main", "emu", 10)
    add_class(store, "left", "owl", 20)
    staged = open_on(store)
    staged.append({"x": 30, "label": "emu"})
    open_on(store, "left").merge("main")
    before = codes_of(store)

    open_on(store).merge("left")
    staged.commit("staged before the merge")

    assert codes_of(store).items() >= before.items()
    assert labels(store) == {0: "cat", 1: "dog", 10: "emu", 20: "owl", 30: "emu"}


@pytest.mark.parametrize("name", ["emu", "owl"])
def test_restoring_another_branchs_version_leaves_the_branchs_codes_their_classes(store, name):
    """Both added a class with code 2, of two names or of one."""
    branch(store, "other")
    add_class(store, "main", "owl", 10)
    add_class(store, "other", "yak", 20)
    add_class(store, "other", name, 21)
    branch(store, "third")
    append(store, "third", 30, "owl")
    staged = open_on(store)
    staged.append({"x": 40, "label": "owl"})

    open_on(store).restore("other")

    restored = {0: "cat", 1: "dog", 20: "yak", 21: name}
    assert labels(store) == restored
    main = open_on(store)
    assert [row["x"] for row in main[main["label"] == "yak"]] == [20]
    open_on(store).merge("third")
    assert labels(store) == restored | {30: "owl"}
    staged.commit("staged before the restore")
    assert labels(store) == restored | {30: "owl", 40: "owl"}
    assert open_on(store).check().ok


def test_ids_of_classes_are_read_as_they_were_written():
    spec = TensorSpec.new("label", tl.ClassLabel(["cat"])).with_classes(["cat", "owl"])

    assert [*spec.class_ids.values()] == [1]
    assert TensorSpec.from_json(spec.to_json()) == spec
    with pytest.raises(tl.SchemaError, match="are not ids of its 2 classes"):
        TensorSpec.from_json(spec.to_json() | {"class_ids": {"a": 2}})


def test_a_class_has_the_code_of_its_id_in_every_version_that_knows_it():
    declared = TensorSpec.new("label", tl.ClassLabel(["cat", "dog"]))
    with_owl = declared.with_classes(["cat", "dog", "owl"])
    (owl,) = with_owl.class_ids
    moved = declared.with_classes(["cat", "hound", "emu", "uhu"])
    moved_owl = TensorSpec.from_json(moved.to_json() | {"class_ids": {**moved.class_ids, owl: 3}})

    assert codes_in(moved_owl, with_owl) == (0, 1, 3)
