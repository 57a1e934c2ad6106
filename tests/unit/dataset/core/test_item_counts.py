"""Tensors declared ``per=`` another have as many elements as its items, in every commit (A8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CorruptSampleError, SchemaError, ShapeMismatchError
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, reopened

BOX = [0.0, 0.0, 4.0, 4.0]
COCO = Path(__file__).resolve().parents[4] / "examples/data/coco"
PER_BOX = ("label", "area", "iscrowd", "annotation_id")


@pytest.fixture
def dataset() -> Dataset:
    """Rows of 0, 1 and 2 boxes; a fourth with 2 boxes whose labels and areas are not known."""
    dataset = create_on(
        MemoryStore(),
        {
            "id": "int64",
            "boxes": tl.BBox(),
            "label": tl.ClassLabel(["cat", "dog"], per="boxes", nullable=True),
            "area": tl.Array("float32", (None,), per="boxes", nullable=True),
        },
    )
    dataset.extend(
        {
            "id": [0, 1, 2, 3],
            "boxes": [[BOX] * count for count in (0, 1, 2, 2)],
            "label": [[], ["cat"], ["cat", "dog"], None],
            "area": [[], [16], [16, 16], None],
        }
    )
    dataset.commit()
    return dataset


@pytest.fixture
def uneven() -> Dataset:
    """Row 1 has 2 labels and 1 box, as a writer of 0.1.0 could commit."""
    dataset = create_on(
        MemoryStore(),
        {
            "boxes": tl.BBox(of="image"),
            "image": tl.Image("png"),
            "label": tl.Array("int8", (None,)),
        },
    )
    image = np.zeros((8, 8, 3), np.uint8)
    labels = [[1], [1, 2], [1]]
    dataset.extend({"boxes": [[BOX]] * 3, "image": [image] * 3, "label": labels})
    transaction = session_of(dataset).staging()
    label = transaction.schema["label"]
    declared = replace(label, type=replace(label.type, per="boxes"))
    transaction.change_spec(declared, what="type")
    dataset.commit()
    return dataset


def test_an_assignment_of_other_than_one_element_each_is_refused(dataset):
    with pytest.raises(ShapeMismatchError) as refused:
        dataset["label"][1] = ["cat", "dog"]
    with pytest.raises(ShapeMismatchError, match=r"row 2 of .*'area' has 1 and 'boxes' 2"):
        dataset["area"][[1, 2]] = [[1.0], [1.0]]

    assert str(refused.value).splitlines() == [
        (
            "row 1 of ds['label'][rows] =: 'label' has 2 and 'boxes' 1, of which it is one each"
            " (per='boxes')"
        ),
        (
            "give as many, or assign 'boxes' first and 'label' after it in one commit; nothing was"
            " staged"
        ),
    ]
    error = refused.value
    assert (error.tensor, error.row, error.expected, error.actual) == ("label", 1, 1, 2)
    assert not dataset.has_changes


def test_items_are_assigned_first_and_what_is_per_them_after(dataset):
    with dataset.transaction("two more"):
        dataset["boxes"][1] = [BOX] * 3
        dataset["label"][1] = ["dog"] * 3
        dataset["area"][1] = [1, 2, 3]

    found = reopened(dataset)[1]
    assert (len(found["boxes"]), len(found["label"]), len(found["area"])) == (3, 3, 3)


def test_a_commit_of_items_alone_is_refused_and_can_be_completed(dataset):
    dataset["boxes"][[1, 2]] = [[BOX] * 2, []]

    with pytest.raises(ShapeMismatchError) as refused:
        dataset.commit()

    first, advice = str(refused.value).splitlines()
    assert first.startswith("row 1 of commit(): 'label' has 1 and 'boxes' 2")
    assert first.endswith(", and so in 1 other row")
    assert "ds['label'][1] = …" in advice
    assert (dataset.has_changes, reopened(dataset).version) == (True, "main@1")
    dataset["label"][[1, 2]] = [["cat"] * 2, []]
    dataset["area"][[1, 2]] = [[1, 1], []]
    assert dataset.commit().version == "main@2"


def test_rows_that_are_deleted_or_null_or_appended_are_not_uneven(dataset):
    dataset["boxes"][[1, 3]] = [[], []]
    dataset.delete([1])
    dataset.append({"id": 4, "boxes": [BOX], "label": ["cat"], "area": None})
    dataset["boxes"][3] = []
    dataset["label"][3] = []

    assert dataset.commit().version == "main@2"


def test_a_function_a_statement_and_an_upsert_assign_both_in_any_order(dataset):
    schema = {"area": dataset.schema["area"], "label": dataset.schema["label"], "boxes": tl.BBox()}

    dataset.map(
        lambda row: {"label": ["dog"] * 2, "area": [1, 1], "boxes": [BOX] * 2},
        schema=schema,
        where="id < 2",
    )
    counted = [len(boxes) for boxes in dataset["boxes"][:]]
    dataset.execute("UPDATE this SET label = NULL, area = area[:1], boxes = boxes[:1] WHERE id = 2")
    dataset.upsert([{"label": [], "area": [], "id": 3, "boxes": []}], on="id")

    assert dataset.commit().version == "main@2"
    assert counted == [2, 2, 2, 2]
    assert [len(boxes) for boxes in dataset["boxes"][:]] == [2, 2, 1, 0]


def test_a_statement_or_upsert_that_is_refused_leaves_nothing_staged(dataset):
    with pytest.raises(ShapeMismatchError, match="row 2 of UPDATE: 'label' has 2 and 'boxes' 1"):
        dataset.execute("UPDATE this SET label = label, boxes = boxes[:1] WHERE id = 2")
    rows = [{"id": 1, "boxes": [BOX], "label": ["cat"]}, {"id": 2, "boxes": [], "label": [0]}]
    with pytest.raises(ShapeMismatchError, match=r"row 1 of upsert\(\): 'label' has 1"):
        dataset.upsert(rows, on="id")
    with pytest.raises(ShapeMismatchError, match=r"upsert\(\): 'label' has 2 and 'boxes' 1"):
        dataset.upsert([{"id": 1, "label": ["cat", "dog"]}], on="id")
    with pytest.raises(ShapeMismatchError, match=r"map\(\)|label"):
        dataset.map(lambda row: {"label": ["cat"]}, schema={"label": dataset.schema["label"]})

    assert not dataset.has_changes


def test_a_tensor_added_with_a_fill_has_one_element_each_before_it_is_committed(dataset):
    dataset.add_tensor("score", tl.Array("float32", (None,), per="boxes"), fill=[])

    with pytest.raises(ShapeMismatchError, match=r"row 1 of commit.*'score' has 0 and 'boxes' 1"):
        dataset.commit()

    dataset["score"][:] = [[], [1], [1, 2], [1, 2]]
    assert dataset.commit().version == "main@2"


def test_a_fixed_number_of_elements_is_not_per_anything():
    with pytest.raises(SchemaError, match="first axis has a fixed length"):
        tl.Array("float32", (3,), per="boxes")


@pytest.mark.parametrize("who", ["theirs", "ours"])
def test_a_merge_that_would_take_labels_of_one_and_boxes_of_the_other_is_refused(dataset, who):
    fix = dataset.branch("fix")
    fix["boxes"][2] = [BOX]
    fix["label"][2], fix["area"][2] = ["dog"], [1]
    fix.commit()
    dataset["label"][2] = ["dog", "dog"]
    dataset["area"][2] = [5, 5]
    dataset.commit()

    if who == "ours":  # boxes come without a conflict, labels stay
        with pytest.raises(ShapeMismatchError, match=r"row 2 of merge\(\): 'label' has 2"):
            dataset.merge("fix", on_conflict="ours")
        assert reopened(dataset).version == "main@2"
    else:
        dataset.merge("fix", on_conflict="theirs")
        assert len(reopened(dataset)[2]["label"]) == 1


def test_a_merge_of_labels_alone_is_refused_where_their_boxes_differ(dataset):
    fix = dataset.branch("fix")
    fix["boxes"][1] = [BOX] * 2
    fix["label"][1], fix["area"][1] = ["dog"] * 2, [1, 1]
    fix.commit()

    with pytest.raises(
        ShapeMismatchError, match=r"row 1 of merge\(\): 'label' has 2 and 'boxes' 1"
    ):
        dataset.merge("fix", tensors=["label"])


def test_a_refresh_that_combines_two_edits_is_refused_at_its_commit(dataset):
    other = reopened(dataset)
    other["label"][2] = ["dog", "dog"]
    other.commit()
    dataset["boxes"][2] = [BOX]
    dataset["label"][2], dataset["area"][2] = ["cat"], [1]
    dataset.refresh(keep_staged=True, on_conflict="theirs")

    with pytest.raises(ShapeMismatchError, match=r"row 2 of commit.*'label' has 2 and 'boxes' 1"):
        dataset.commit()


def test_a_lost_race_that_combines_into_an_uneven_row_is_refused(dataset):
    other = reopened(dataset)
    other["boxes"][3] = [BOX] * 3
    other.commit()
    dataset["label"][3] = ["cat", "cat"]  # not known before: two, as there were boxes

    with pytest.raises(ShapeMismatchError, match=r"row 3 of commit.*'label' has 2 and 'boxes' 3"):
        dataset.commit()

    assert reopened(dataset).version == "main@2"


@pytest.fixture
def masked() -> Dataset:
    """Two tiled images of 70 x 100 and masks of their size."""
    image = tl.Image("png", tiles=(32, 48))
    dataset = create_on(
        MemoryStore(), {"im": image, "m": tl.SegmentMask(["a", "b"], of="im", nullable=True)}
    )
    dataset.extend({"im": np.zeros((2, 70, 100, 3), np.uint8), "m": np.zeros((2, 70, 100), "u1")})
    dataset.commit()
    return dataset


def test_an_image_alone_of_another_shape_than_its_mask_is_refused_at_commit(masked):
    masked["im"][1] = np.zeros((1, 1, 3), np.uint8)

    with pytest.raises(ShapeMismatchError) as refused:
        masked.commit()

    first, advice = str(refused.value).splitlines()
    assert first == (
        "row 1 of commit(): 'm' has the shape (70, 100), and 'im', which it is declared of=,"
        " (1, 1, 3)"
    )
    assert "ds['m'][1] = …" in advice
    masked["m"][1] = np.ones((1, 1), np.uint8)
    assert masked.commit().version == "main@2"
    masked["m"][0] = None
    masked["im"][0] = np.zeros((3, 4, 3), np.uint8)
    assert masked.commit().version == "main@3"
    assert masked.check().ok


def test_a_mask_of_another_shape_is_refused_when_it_is_assigned(masked):
    with pytest.raises(ShapeMismatchError, match="assign 'im' first and 'm' after it in one"):
        masked["m"][0] = np.zeros((2, 2), np.uint8)

    assert not masked.has_changes


def test_a_merge_of_images_alone_is_refused_where_their_masks_differ(masked):
    fix = masked.branch("fix")
    fix["im"][0] = np.zeros((8, 9, 3), np.uint8)
    fix["m"][0] = np.zeros((8, 9), np.uint8)
    fix.commit()

    with pytest.raises(ShapeMismatchError, match=r"row 0 of merge\(\): 'm' has the shape"):
        masked.merge("fix", tensors=["im"])


def test_check_finds_masks_of_another_shape_of_older_writers(masked):
    masks = session_of(masked).staging().schema["m"]
    unrelated = replace(masks, type=replace(masks.type, of=None))
    session_of(masked).staging().change_spec(unrelated, what="type")
    masked["im"][1] = np.zeros((1, 1, 3), np.uint8)
    masked.commit()
    session_of(masked).staging().change_spec(masks, what="type")
    masked.commit()

    [found] = masked.check().findings

    assert str(found).startswith("damage: row 1 of 'm' in main@3: 'm' has the shape (70, 100)")
    assert "give the row samples of one shape: ds['m'][1] = …" in str(found)


def test_check_finds_uneven_rows_of_older_writers(uneven):
    report = uneven.check()

    assert [str(one) for one in report.findings] == [
        (
            "damage: row 1 of 'label' in main@1: 'label' has 2 and 'boxes' 1, of which it is one"
            " each (per='boxes'); give the row as many: ds['label'][1] = …, or ds['boxes'][1] = …,"
            " and commit"
        )
    ]
    uneven["label"][1] = [1]
    uneven.commit()
    assert uneven.check().ok


@pytest.mark.parametrize("steps", [[], [tl.decode.RandomResizedCrop(4)]])
def test_a_loader_names_the_row_and_the_tensors_that_are_uneven(uneven, steps):
    loader = uneven.loader(batch_size=3, decode={"image": [*steps, tl.decode.Resize(4, 4)][:1]})

    with pytest.raises(CorruptSampleError) as refused:
        next(iter(loader))

    first, advice = str(refused.value).splitlines()
    assert first == ("row 1: 'label' has 2 and 'boxes' 1, of which it is one each (per='boxes')")
    assert "on_error='skip'" in advice


def test_a_loader_skips_uneven_rows_where_it_is_told_to(uneven):
    loader = uneven.loader(
        batch_size=3,
        columns=["image", "boxes", "label", "_row"],
        decode={"image": tl.decode.Resize(4, 4)},
        on_error="skip",
    )

    (batch,) = loader

    assert batch["_row"].tolist() == [0, 2]
    assert loader.stats().skipped == 1


@pytest.mark.parametrize(
    "steps",
    [
        [tl.decode.RandomResizedCrop(32, scale=(0.05, 0.2))],
        [tl.decode.CenterCrop(64), tl.decode.Flip()],
        [tl.decode.Letterbox(48)],
        [tl.decode.Resize(64), tl.decode.CenterCrop(16), tl.decode.Flip(axis="vertical")],
    ],
)
def test_what_coco_says_of_boxes_follows_every_geometric_step(coco, steps):
    loader = coco.loader(
        batch_size=4,
        shuffle=True,
        columns=["image", "boxes", *PER_BOX, "_row"],
        decode={"image": steps},
        collate={"image": "list"},
    )

    agree = kept = 0
    for batch in loader:
        for at, row in enumerate(batch["_row"].tolist()):
            counts = {len(batch[name][at]) for name in ("boxes", *PER_BOX)}
            stored, ids = coco[row], batch["annotation_id"][at].tolist()
            where = [stored["annotation_id"].tolist().index(one) for one in ids]
            assert batch["label"][at].tolist() == np.asarray(stored["label"])[where].tolist()
            assert batch["area"][at].tolist() == stored["area"][where].tolist()
            agree += len(counts) == 1
            kept += len(ids)

    assert agree == len(coco)
    stored = sum(len(boxes) for boxes in coco["boxes"][:])
    assert kept < stored or isinstance(steps[0], tl.decode.Letterbox)


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    where = str(tmp_path_factory.mktemp("coco") / "coco.tl")
    return tl.ingest.coco(COCO / "instances.json", COCO / "images", where)
