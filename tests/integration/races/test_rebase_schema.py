"""Staged changes of a schema that move to a newer version: tensors, names, classes, types."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError
from tensorlake.storage import MemoryStore
from tests.support.handles import labelled_store, open_on, reopened

ROWS = 12


@pytest.fixture
def store() -> MemoryStore:
    return labelled_store(ROWS)


@pytest.fixture
def pair(store: MemoryStore) -> tuple[Dataset, Dataset]:
    """Two handles at main@1: the first will be late."""
    return open_on(store), open_on(store)


def test_class_names_added_by_both_are_united_and_labels_keep_their_class(pair):
    mine, theirs = pair
    mine["label"].add_names(["bird", "fish"])
    mine["label"][[0, 1]] = ["bird", "fish"]
    mine.append({"x": 1, "y": 1, "text": "", "label": "fish"})
    theirs["label"].add_names(["fish", "wolf"])
    theirs["label"][[2, 3]] = ["fish", "wolf"]
    theirs.commit()

    mine.commit()

    label = reopened(mine)["label"]
    assert label.names == ("cat", "dog", "fish", "wolf", "bird")
    named = [label.names[code] for code in label[[0, 1, 2, 3, 4, 5, ROWS]]]
    assert named == ["bird", "fish", "fish", "wolf", "cat", "dog", "fish"]
    again = reopened(mine)
    again["label"][7] = "bird"
    again.commit()
    assert reopened(mine)["label"].names[reopened(mine)["label"][7]] == "bird"


def test_class_names_that_were_renamed_differently_conflict(pair):
    mine, theirs = pair
    mine["label"].rename("cat", "kitten")
    theirs["label"].rename("cat", "puss")
    theirs.commit()

    with pytest.raises(ConflictError, match="both changed class 'cat' of 'label'"):
        mine.commit()
    mine.refresh(keep_staged=True, on_conflict="ours")
    mine.commit()

    assert reopened(mine)["label"].names == ("kitten", "dog")


def test_a_class_renamed_here_and_one_added_there_combine(pair):
    mine, theirs = pair
    mine["label"].rename("cat", "kitten")
    theirs["label"].add_names(["bird"])
    theirs.commit()

    mine.commit()

    assert reopened(mine)["label"].names == ("kitten", "dog", "bird")


@pytest.mark.parametrize(
    ("winner", "names"), [("ours", ("z~main", "z")), ("theirs", ("z", "z~main"))]
)
def test_of_two_tensors_of_one_name_the_loser_gets_the_branch_behind_it(pair, winner, names):
    mine, theirs = pair
    mine.add_tensor("z", "int64", fill=1)
    theirs.add_tensor("z", "float32", fill=0.5)
    theirs.commit()
    with pytest.raises(ConflictError, match="'z': one added on 'main', and one added here"):
        mine.commit()

    mine.refresh(keep_staged=True, on_conflict=winner)
    mine.commit()

    published = reopened(mine)
    assert [published[name][0] for name in names] == [0.5, 1]


@pytest.mark.parametrize("winner", ["ours", "theirs"])
@pytest.mark.parametrize("adder", ["ours", "theirs"])
def test_of_a_tensor_added_and_one_renamed_the_winner_keeps_the_name(pair, winner, adder):
    mine, theirs = pair
    adding, renaming = (mine, theirs) if adder == "ours" else (theirs, mine)
    adding.add_tensor("z", "int64", fill=-1)
    renaming.rename_tensor("x", "z")
    theirs.commit()
    with pytest.raises(ConflictError, match="'x' as renamed"):
        mine.commit()

    mine.refresh(keep_staged=True, on_conflict=winner)
    mine.commit()

    published = reopened(mine)
    assert "x" not in published.schema
    assert published["z"][5] == (-1 if winner == adder else 5)
    assert published["z~main"][5] == (5 if winner == adder else -1)


@pytest.mark.parametrize("winner", ["ours", "theirs"])
def test_a_label_given_here_keeps_its_class_where_both_renamed_another(pair, winner):
    """Its code went to their new class: a bird became an owl."""
    mine, theirs = pair
    mine["label"].rename("cat", "kitten")
    mine["label"].add_names(["bird"])
    mine["label"][7] = "bird"
    theirs["label"].rename("cat", "puss")
    theirs["label"].add_names(["owl"])
    theirs["label"][8] = "owl"
    theirs.commit()

    mine.refresh(keep_staged=True, on_conflict=winner)
    mine.commit()

    label = reopened(mine)["label"]
    cat = "kitten" if winner == "ours" else "puss"
    assert [label.names[code] for code in label[6:10]] == [cat, "bird", "owl", "dog"]


def test_a_wide_value_staged_while_a_narrower_type_was_restored_conflicts(pair):
    mine, theirs = pair
    theirs.add_tensor("small", "int8", fill=1)
    theirs.commit()
    narrow = theirs.version
    theirs.alter_tensor("small", dtype="int32")
    theirs.commit()
    mine.refresh()
    mine["small"][3] = 70_000
    theirs.restore(narrow)

    with pytest.raises(ConflictError, match="'small'"):
        mine.commit()

    mine.discard()
    mine["x"][0] = -1
    mine.commit()
    assert reopened(mine)["small"].dtype == np.int8


def test_a_row_appended_against_a_tensor_added_has_its_fill_and_the_reverse(pair):
    mine, theirs = pair
    mine.append({"x": 1, "y": 1, "text": "", "label": 0})
    mine.add_tensor("m", "int64", fill=5)
    mine["m"][0] = 50
    theirs.append({"x": 2, "y": 2, "text": "", "label": 0})
    theirs.add_tensor("t", "int64", fill=6)
    theirs["t"][-1] = 60
    theirs.commit()

    mine.commit()

    published = reopened(mine)
    assert published["m"][[0, 1, ROWS, ROWS + 1]].tolist() == [50, 5, 5, 5]
    assert published["t"][[0, ROWS, ROWS + 1]].tolist() == [6, 60, 6]
    assert published["x"][ROWS:].tolist() == [2, 1]


def test_boxes_keep_speaking_of_the_image_that_another_renamed(store, pair):
    mine, theirs = pair
    theirs.add_tensor("image", tl.Image(nullable=True), fill=None)
    theirs.commit()
    mine.refresh()
    mine.add_tensor("boxes", tl.BBox(of="image", nullable=True), fill=None)
    theirs.rename_tensor("image", "photo")
    theirs.commit()

    mine.commit()

    assert open_on(store).schema["boxes"].of == "photo"


def test_a_class_dropped_there_conflicts_with_labels_given_here_and_combines_with_names(pair):
    mine, theirs = pair
    theirs["label"].add_names(["emu"])
    theirs.commit()
    mine.refresh()
    mine["label"].add_names(["bird"])
    theirs["label"].drop_names(["emu"])
    theirs.commit()

    mine.commit()

    assert reopened(mine).schema["label"].known_names == ("cat", "dog", "bird")
    theirs.refresh()
    mine.append({"x": 1, "y": 1, "text": "", "label": "bird"})
    theirs["label"].drop_names(["bird"])
    theirs.commit()
    with pytest.raises(ConflictError, match="schema of 'label'"):
        mine.commit()


def test_null_taken_away_conflicts_with_rows_added(pair):
    mine, theirs = pair
    theirs.add_tensor("score", tl.Scalar("float32", nullable=True), fill=0.0)
    theirs.commit()
    mine.refresh()
    mine.append({"x": 1, "y": 1, "text": "", "label": 0, "score": None})
    theirs.alter_tensor("score", nullable=False)
    theirs.commit()

    with pytest.raises(ConflictError, match="'score'"):
        mine.commit()


def test_a_tensor_widened_there_reads_what_was_staged_here(pair):
    mine, theirs = pair
    theirs.add_tensor("small", "uint8", fill=1)
    theirs.commit()
    mine.refresh()
    mine["small"][3] = 200
    mine.append({"x": 1, "y": 1, "text": "", "label": 0, "small": 201})
    theirs.alter_tensor("small", dtype="int32")
    theirs["small"][4] = 70_000
    theirs.commit()

    mine.commit()

    assert reopened(mine)["small"][[2, 3, 4, ROWS]].tolist() == [1, 200, 70_000, 201]
