"""Merging schemas: tensors by id, class names by code and name, what both changed differently."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on
from tests.support.merging import check_nobody_can_be_preferred, labels


@pytest.fixture
def main() -> Dataset:
    ds = create_on(
        MemoryStore(),
        {"x": "int64", "image": tl.Image(codec="png"), "label": tl.ClassLabel(["cat", "dog"])},
    )
    pictures = [np.full((4, 4, 3), value, np.uint8) for value in range(6)]
    ds.extend({"x": range(6), "image": pictures, "label": ["cat", "dog"] * 3})
    ds.commit("six")
    return ds


@pytest.fixture
def fix(main: Dataset) -> Dataset:
    return main.branch("fix")


@pytest.fixture
def both_small(main: Dataset, fix: Dataset) -> None:
    """Both branches have a tensor "small" of int8, all 1."""
    fix.add_tensor("small", "int8", fill=1)
    fix.commit("small")
    main.merge("fix")


def a_row(x: int, label: str) -> dict[str, object]:
    return {"x": x, "image": np.zeros((4, 4, 3), np.uint8), "label": label}


def test_each_branch_adds_a_tensor(main, fix):
    """format.md 43: rows that came from the other branch have the tensor's fill."""
    fix.add_tensor("theirs", "int64", fill=7)
    fix["theirs"][0] = 70
    fix.append({**a_row(100, "cat"), "theirs": 71})
    fix.commit("fix")
    main.add_tensor("ours", "str", fill="-")
    main.append({**a_row(200, "dog"), "ours": "new"})
    main.commit("main")

    report = main.merge("fix")

    assert list(main.schema) == ["x", "image", "label", "ours", "theirs"]
    assert main["x"][6:].tolist() == [200, 100]
    assert main["theirs"][:].tolist() == [70, 7, 7, 7, 7, 7, 7, 71]
    assert main["ours"][:] == ["-"] * 6 + ["new", "-"]
    assert report.schema == ("+theirs",)
    main["theirs"][6] = 9
    main.commit("and it can be written")
    assert main["theirs"][:].tolist() == [70, 7, 7, 7, 7, 7, 9, 71]


@pytest.mark.parametrize(
    ("prefer", "names"),
    [("ours", {"conf": 1, "conf~fix": 2}), ("theirs", {"conf": 2, "conf~main": 1})],
)
def test_each_branch_adds_a_tensor_of_one_name(main, fix, prefer, names):
    """format.md 43: different tensors keep their values, one gets the branch's name too."""
    fix.add_tensor("conf", "int64", fill=2)
    fix.commit("fix")
    main.add_tensor("conf", "int64", fill=1)
    main.commit("main")

    with pytest.raises(ConflictError, match="two different tensors would be called 'conf'"):
        main.merge("fix")
    main.merge("fix", on_conflict=prefer)

    assert {name: main[name][:].tolist() for name in names} == {
        name: [value] * 6 for name, value in names.items()
    }


@pytest.mark.parametrize("prefer", ["ours", "theirs"])
@pytest.mark.parametrize("adder", ["ours", "theirs"])
def test_of_a_tensor_added_and_one_renamed_the_preferred_sides_keeps_the_name(
    main, fix, prefer, adder
):
    adding, renaming = (main, fix) if adder == "ours" else (fix, main)
    adding.add_tensor("z", "int64", fill=100)
    adding.commit("added")
    renaming.rename_tensor("x", "z")
    renaming.commit("renamed")

    with pytest.raises(ConflictError, match="'z'") as caught:
        main.merge("fix")
    assert "one added on" in str(caught.value)
    assert "'x' as renamed on" in str(caught.value)
    main.merge("fix", on_conflict=prefer)

    added, renamed = [100] * 6, list(range(6))
    loser = "z~fix" if prefer == "ours" else "z~main"
    winner, other = (added, renamed) if prefer == adder else (renamed, added)
    assert {name: main[name][:].tolist() for name in ("z", loser)} == {"z": winner, loser: other}
    assert "x" not in main.schema


@pytest.mark.parametrize(("prefer", "name"), [("ours", "y"), ("theirs", None)])
def test_a_tensor_that_theirs_dropped_and_ours_renamed_does_not_go_unsaid(main, fix, prefer, name):
    fix.drop_tensor("x")
    fix.commit("dropped")
    main.rename_tensor("x", "y")
    main.commit("renamed")

    with pytest.raises(ConflictError, match="one dropped 'x', the other changed its schema"):
        main.merge("fix")
    main.merge("fix", on_conflict=prefer)

    assert list(main.schema) == [*([name] if name else []), "image", "label"]
    if name:
        assert main[name][:].tolist() == list(range(6))


@pytest.mark.usefixtures("both_small")
def test_a_rename_and_a_wider_type_both_hold_where_a_side_is_preferred(main, fix):
    fix.alter_tensor("small", dtype="int32")
    fix["small"][0] = 100_000
    fix.commit("wide")
    main.rename_tensor("small", "little")
    main.commit("renamed")

    with pytest.raises(ConflictError, match="both changed the schema of 'small'"):
        main.merge("fix")
    main.merge("fix", on_conflict="ours")

    assert main["little"][:].tolist() == [100_000, 1, 1, 1, 1, 1]


@pytest.mark.usefixtures("both_small")
def test_a_narrower_type_that_was_restored_conflicts_with_values_of_the_wider_one(main, fix):
    narrow = main.version
    main.alter_tensor("small", dtype="int32")
    main.commit("wide")
    fix.merge("main")
    fix["small"][0] = 100_000
    fix.commit("a wide value")
    main.restore(narrow)

    with pytest.raises(ConflictError, match="'small'"):
        main.merge("fix")


def test_renames_and_drops_of_different_tensors_combine(main, fix):
    fix.rename_tensor("image", "picture")
    fix.commit("fix")
    main.drop_tensor("x")
    main.commit("main")

    main.merge("fix")

    assert list(main.schema) == ["picture", "label"]
    assert main["picture"][5].max() == 5


def test_values_follow_a_tensor_that_was_renamed(main, fix):
    fix.rename_tensor("x", "number")
    fix["number"][0] = 100
    fix.commit("fix")
    main["x"][1] = 101
    main.commit("main")

    main.merge("fix")

    assert main["number"][:3].tolist() == [100, 101, 2]


def test_metadata_that_theirs_noted_come_along_and_the_report_says_so(main, fix):
    fix.alter_tensor("x", metadata={"unit": "mm"})
    fix.commit("fix")
    main["x"][1] = 101
    main.commit("main")

    report = main.merge("fix")

    assert report.schema == ("metadata of x",)
    assert main["x"].metadata == {"unit": "mm"}


def test_two_renames_of_one_tensor_conflict(main, fix):
    fix.rename_tensor("x", "theirs")
    fix.commit("fix")
    main.rename_tensor("x", "ours")
    main.commit("main")

    with pytest.raises(ConflictError, match="both changed the schema of 'x'"):
        main.merge("fix")
    main.merge("fix", on_conflict="theirs")

    assert "theirs" in main.schema
    assert main["theirs"][:].tolist() == list(range(6))


def test_types_that_cite_a_renamed_tensor_cite_its_new_name(main, fix):
    fix.rename_tensor("image", "picture")
    fix.commit("fix")
    main.add_tensor("boxes", tl.BBox(of="image"), fill=np.zeros((0, 4), np.float32))
    main.commit("main")

    main.merge("fix")

    assert main.schema["boxes"].of == "picture"


@pytest.mark.parametrize(("prefer", "is_there"), [("ours", True), ("theirs", False)])
def test_a_tensor_dropped_by_theirs_and_written_by_ours_is_disputed(main, fix, prefer, is_there):
    fix.drop_tensor("x")
    fix.commit("fix")
    main["x"][0] = 100
    main.commit("main")

    with pytest.raises(ConflictError, match="one dropped 'x', the other gave it new values"):
        main.merge("fix")
    main.merge("fix", on_conflict=prefer)

    assert ("x" in main.schema) is is_there


@pytest.mark.parametrize(("prefer", "is_there"), [("ours", False), ("theirs", True)])
def test_a_tensor_dropped_by_ours_and_written_by_theirs_is_disputed(main, fix, prefer, is_there):
    fix.append(a_row(100, "cat"))
    fix["x"][0] = 50
    fix.commit("fix")
    main.drop_tensor("x")
    main.commit("main")

    with pytest.raises(ConflictError, match="one dropped 'x', the other gave it new values"):
        main.merge("fix")
    main.merge("fix", on_conflict=prefer)

    assert len(main) == 7
    assert ("x" in main.schema) is is_there
    if is_there:
        assert main["x"][:].tolist() == [50, 1, 2, 3, 4, 5, 100]


def test_a_tensor_that_both_dropped_is_gone_whoever_appended_rows(main, fix):
    """Found by the model."""
    fix.drop_tensor("x")
    fix.commit("fix")
    main.drop_tensor("x")
    main.append({"image": np.zeros((4, 4, 3), np.uint8), "label": "cat"})
    main.commit("main")

    main.merge("fix")

    assert list(main.schema) == ["image", "label"]
    assert len(main) == 7


def test_class_names_added_by_both_are_united_by_name_and_dog_stays_dog(main, fix):
    """format.md 44: theirs' codes are mapped on read, pruning by label finds the same rows."""
    fix["label"].add_names(["emu", "owl"])
    fix["label"][0] = "emu"
    fix.append(a_row(100, "owl"))
    fix.append(a_row(101, "dog"))
    fix.commit("fix")
    main["label"].add_names(["owl", "yak"])
    main["label"][2] = "yak"
    main.append(a_row(200, "owl"))
    main.commit("main")

    main.merge("fix")

    assert main["label"].names == ("cat", "dog", "owl", "yak", "emu")
    assert labels(main) == ["emu", "dog", "yak", "dog", "cat", "dog", "owl", "owl", "dog"]
    for name in main["label"].names:
        here = [row for row, label in enumerate(labels(main)) if label == name]
        pruned = main.query(f"WHERE label = '{name}'")
        read = main.query(f"WHERE label = '{name}' AND x >= 0")
        assert pruned.rows.tolist() == read.rows.tolist() == here
    # Theirs, merging back, needs no map for what it sent.
    fix.merge("main")
    assert labels(fix) == labels(main)


def test_a_class_renamed_by_one_side_is_renamed_for_all(main, fix):
    """format.md 44: codes below the base's count keep their class by code."""
    fix["label"].rename("cat", "feline")
    fix.commit("fix")
    main["label"][1] = "cat"
    main.append(a_row(200, "cat"))
    main.commit("main")

    main.merge("fix")

    assert main["label"].names == ("feline", "dog")
    assert labels(main) == ["feline"] * 3 + ["dog", "feline", "dog", "feline"]


@pytest.mark.parametrize(("prefer", "name"), [("ours", "puss"), ("theirs", "feline")])
def test_a_class_renamed_differently_is_a_conflict(main, fix, prefer, name):
    fix["label"].rename("cat", "feline")
    fix.commit("fix")
    main["label"].rename("cat", "puss")
    main.commit("main")

    with pytest.raises(ConflictError, match="both changed class 'cat' of 'label'"):
        main.merge("fix")
    main.merge("fix", on_conflict=prefer)

    assert main["label"].names == (name, "dog")


def test_a_name_that_would_stand_for_two_classes_can_be_preferred_by_nobody(main, fix):
    fix["label"].add_names(["puss"])
    fix["label"][1] = "puss"
    fix.commit("fix")
    main["label"].rename("cat", "puss")
    main.commit("main")

    check_nobody_can_be_preferred(main, "fix", "'puss' of 'label' would denote two classes")

    fix["label"].rename("puss", "kitten")
    fix.commit("another name")
    main.merge("fix")
    assert labels(main)[:3] == ["puss", "kitten", "puss"]


@pytest.mark.usefixtures("both_small")
def test_a_tensor_widened_by_one_side_reads_all_values(main, fix):
    fix.alter_tensor("small", dtype="int32")
    fix["small"][0] = 100_000
    fix.commit("wide")
    main["small"][1] = 2
    main.append({**a_row(200, "cat"), "small": 3})
    main.commit("main")

    main.merge("fix")

    assert main["small"].dtype == np.int32
    assert main["small"][:].tolist() == [100_000, 2, 1, 1, 1, 1, 3]
    main["small"][2] = -100_000
    main.commit("wide values fit")
    assert main.at("main")["small"][:3].tolist() == [100_000, 2, -100_000]


@pytest.mark.usefixtures("both_small")
def test_two_types_for_one_tensor_can_be_preferred_by_nobody(main, fix):
    fix.alter_tensor("small", dtype="int32")
    fix.commit("fix")
    main.alter_tensor("small", dtype="float32")
    main.commit("main")

    check_nobody_can_be_preferred(main, "fix", "both changed the schema of 'small'")


def test_classes_whose_codes_a_merge_moved_are_found_again_by_the_next(main, fix):
    """format.md 44: the base is then a version of theirs, where owl has another code."""
    fix["label"].add_names(["owl"])
    fix.append(a_row(100, "owl"))
    fix.commit("fix")
    main["label"].add_names(["emu"])
    main.append(a_row(200, "emu"))
    main.commit("main")
    main.merge("fix")
    fix["label"].add_names(["yak"])
    fix.append(a_row(101, "owl"))
    fix.append(a_row(102, "yak"))
    fix["label"][6] = "yak"
    fix.commit("more")

    main.merge("fix")

    assert main["label"].names == ("cat", "dog", "emu", "owl", "yak")
    assert labels(main)[6:] == ["emu", "yak", "owl", "yak"]


def test_a_class_that_was_moved_and_then_renamed_is_found_by_the_code_map(main, fix):
    """format.md 44: neither its name nor its code is what the base has."""
    fix["label"].add_names(["owl"])
    fix.append(a_row(100, "owl"))
    fix.commit("fix")
    main["label"].add_names(["emu"])
    main.append(a_row(200, "emu"))
    main.commit("main")
    main.merge("fix")
    main["label"].rename("owl", "strix")
    main.commit("renamed")
    fix.append(a_row(101, "owl"))
    fix.commit("more")

    main.merge("fix")

    assert main["label"].names == ("cat", "dog", "emu", "strix")
    assert labels(main)[6:] == ["emu", "strix", "strix"]


def test_a_class_that_one_side_dropped_stays_where_the_other_may_use_it(main, fix):
    fix["label"].add_names(["owl"])
    fix.commit("owl")
    main.merge("fix")
    fix["label"].drop_names(["owl"])
    fix.commit("dropped")
    main.append(a_row(200, "owl"))
    main.commit("used")

    main.merge("fix")

    assert labels(main)[6:] == ["owl"]


@pytest.mark.parametrize("narrowing", ["main", "fix"])
def test_null_taken_away_by_one_side_conflicts_with_values_of_the_other(main, fix, narrowing):
    main.add_tensor("score", tl.Scalar("float32", nullable=True), fill=1.0)
    main.commit("score")
    fix.merge("main")
    narrow, other = (main, fix) if narrowing == "main" else (fix, main)
    narrow.alter_tensor("score", nullable=False)
    narrow.commit("no NULL")
    other["score"][0] = None
    other.commit("NULL")

    check_nobody_can_be_preferred(main, "fix", "one removed NULL from 'score'")

    other["score"][0] = 0.5
    other["score"][0] = 1.0
    other.commit("as before")
    main.merge("fix")
    assert not main.schema["score"].nullable
