"""Differences: rows by identity with their numbers on both sides, cells by value, the schema."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on


@pytest.fixture
def main() -> Dataset:
    ds = create_on(MemoryStore(), {"x": "int64", "label": tl.ClassLabel(["cat", "dog"])})
    ds.extend({"x": range(8), "label": ["cat", "dog"] * 4})
    ds.commit("eight")
    return ds


def test_rows_have_their_numbers_in_both_versions(main):
    main.delete([0, 2])
    main["x"][[1, 3]] = [30, 50]
    main.append({"x": 8, "label": "cat"})
    main.commit("changed")

    found = main.diff("main@1")

    changed = found.updated["x"]
    assert (changed.rows_before.tolist(), changed.rows_after.tolist()) == ([3, 5], [1, 3])
    assert (changed.before[:].tolist(), changed.after[:].tolist()) == ([3, 5], [30, 50])
    assert changed.view_after["label"][:].tolist() == [1, 1]
    assert found.removed.rows.tolist() == [0, 2]
    assert found.added.rows.tolist() == [6]
    assert repr(found).splitlines() == [
        "main@1 → main@2",
        " 1 row added",
        " 2 rows removed",
        " x  2 rows updated",
    ]


def test_versions_of_two_branches_are_compared_by_row_identity(main):
    fix = main.branch("fix")
    fix.delete([1])
    fix["x"][0] = 100
    fix.commit("fix")
    main.append({"x": 8, "label": "dog"})
    main["x"][0] = -1
    main.commit("main")

    found = main.diff("fix", "main")

    assert found.added["x"][:].tolist() == [1, 8]
    assert len(found.removed) == 0
    assert found.updated["x"].before[:].tolist() == [100]
    assert found.updated["x"].after[:].tolist() == [-1]
    assert (found.before, found.after) == ("fix@2", "main@2")


def test_rows_in_another_order_do_not_differ(main):
    main.optimize(order_by="x DESC")

    assert not main.diff("main@1")


def test_updated_rows_come_in_the_older_versions_order(main):
    main.optimize(order_by="x DESC")
    main["x"][[0, 7]] = [70, 10]
    main.commit("changed")

    changed = main.diff("main@1").updated["x"]

    assert changed.rows_before.tolist() == [0, 7]
    assert changed.rows_after.tolist() == [7, 0]
    assert changed.after[:].tolist() == [10, 70]


def test_classes_that_came_or_were_renamed_are_listed_and_rows_of_theirs_are_not(main):
    main["label"].rename("cat", "feline")
    main["label"].add_names(["owl"])
    main["label"][1] = "owl"
    main.commit("classes")

    found = main.diff("main@1")

    assert found.schema == ("label  +class 'owl'", "label  class 'cat' → 'feline'")
    assert found.updated["label"].rows_after.tolist() == [1]
    assert "dog → owl 1" in repr(found)


def test_classes_that_a_merge_moved_are_the_same_classes(main):
    fix = main.branch("fix")
    fix["label"].add_names(["owl"])
    fix["label"][0] = "owl"
    fix.commit("owl")
    main["label"].add_names(["emu"])
    main.commit("emu")
    main.merge("fix")

    found = main.diff("fix", "main")

    assert found.schema == ("label  +class 'emu'",)
    assert not found.updated


def test_tensors_that_came_went_or_were_renamed_are_listed(main):
    main.add_tensor("new", "str", fill="-")
    main.rename_tensor("x", "number")
    main["number"][2] = 20
    main.drop_tensor("label")
    main.commit("schema")

    found = main.diff("main@1")

    assert [line.split()[0] for line in found.schema] == ["+new", "-label", "x"]
    assert found.schema[2] == "x → number"
    assert found.updated["number"].before.name == "x"


def test_what_is_staged_is_a_difference(main):
    main["x"][3] = 33
    main.delete([7])
    main.append({"x": 9, "label": "dog"})

    found = main.diff()

    assert found.updated["x"].rows_after.tolist() == [3]
    assert (len(found.added), len(found.removed)) == (1, 1)
    assert found.after == "staged changes"


def test_a_tensor_filled_for_all_rows_is_not_read(main):
    main.add_tensor("zeros", tl.Array("uint8", shape=(4,)), fill=np.zeros(4, np.uint8))
    main.commit("zeros")
    main["zeros"][1] = [1, 2, 3, 4]
    main.commit("one")

    assert main.diff("main@2").updated["zeros"].rows_before.tolist() == [1]
