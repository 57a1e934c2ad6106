"""Deep Lake's names over a dataset. tests/extras/formats compares them with the library's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.compat import deeplake
from tensorlake.errors import InvalidInputError, RowNotFoundError, SchemaError

types = deeplake.types


@pytest.fixture
def ds(tmp_path: Path) -> deeplake.Dataset:
    made = deeplake.create(tmp_path / "pets.tl")
    made.add_column("image", types.Image(sample_compression="jpeg"))
    made.add_column("label", types.ClassLabel("uint8"))
    made.add_column("text", types.Text())
    pixels = np.zeros((3, 8, 8, 3), np.uint8)
    made.append({"image": pixels, "label": [0, 1, 1], "text": ["a", "b", "c"]})
    made.commit("three pets")
    return made


def test_a_dataset_is_made_when_it_has_columns(tmp_path: Path) -> None:
    made = deeplake.create(tmp_path / "empty.tl")
    with pytest.raises(SchemaError, match="add_column"):
        made.append({"x": [1]})
    assert not deeplake.exists(tmp_path / "empty.tl")
    with pytest.raises(AttributeError):
        _ = made.nothing
    made.add_column("x", "int32")
    made.add_column("y", types.Text())
    made.commit()

    assert [*deeplake.open(tmp_path / "empty.tl").schema] == ["x", "y"]
    assert [*deeplake.create(tmp_path / "y.tl", {"y": types.Text()}).schema] == ["y"]


def test_rows_are_read_by_their_names(ds: deeplake.Dataset) -> None:
    assert (len(ds), ds[1]["text"], ds["label"][:].tolist()) == (3, "b", [0, 1, 1])
    assert [row["text"] for row in ds[1:]] == ["b", "c"]
    assert ds.schema["image"] == tl.Image("jpeg")
    assert [row["text"] for row in ds.query("SELECT * WHERE label = 1")] == ["b", "c"]
    assert sum(len(batch["label"]) for batch in ds.batches(2)) == 3


def test_rows_are_a_dataset_of_torch(ds: deeplake.Dataset) -> None:
    data: Any = pytest.importorskip("torch.utils.data")
    (batch,) = data.DataLoader(ds.pytorch(), batch_size=3, collate_fn=list)

    assert [row["text"] for row in batch] == ["a", "b", "c"]


def test_rows_may_come_one_by_one(ds: deeplake.Dataset) -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    ds.append([{"image": pixels, "label": 2, "text": text} for text in "de"])
    ds.append([])
    wrong: Any = [1]
    with pytest.raises(InvalidInputError, match="columns or a list of rows"):
        ds.append(wrong)

    assert ds["text"][:] == [*"abcde"]


def test_columns_are_added_renamed_and_removed(ds: deeplake.Dataset) -> None:
    ds.add_column("score", types.Float32())
    ds.add_column("seen", types.Int8(), default_value=1)
    ds.rename_column("text", "caption")
    ds.remove_column("image")
    ds.commit("columns")

    assert ds[0] == {"label": 0, "caption": "a", "score": None, "seen": 1}


def test_changes_are_discarded_or_published(ds: deeplake.Dataset) -> None:
    ds.delete(0)
    ds.rollback()
    assert len(ds) == 3
    ds.delete(0)
    ds.commit()
    with pytest.raises(RowNotFoundError):
        ds.delete(2)

    assert [row["text"] for row in deeplake.open(ds.tensorlake.url)] == ["b", "c"]


def test_branches_tags_and_versions(ds: deeplake.Dataset) -> None:
    first = ds.version
    other = ds.branch("fix")
    other.tensorlake["label"][0] = 2
    other.commit("a label")
    ds.tag("v1")
    ds.merge("fix")
    ds.refresh()
    ds.tag("v0", version=first)

    assert ds["label"][:].tolist() == [2, 1, 1]
    assert {"main", "fix"} <= {*ds.branches}
    assert {"v0", "v1"} == {*ds.tags}
    assert ds.history


def test_refs_versions_and_columns_have_the_library_s_attributes(ds: deeplake.Dataset) -> None:
    other = ds.branch("fix").open()
    other[0]["label"] = 2
    other.commit("a label")
    ds.tag("v1")

    assert [(one.name, one.dtype) for one in ds.schema.columns][2] == ("text", tl.Text())
    assert ds.tags.names() == ["v1"]
    assert {*ds.branches.names()} == {"main", "fix"}
    assert ds.branches["fix"].open()["label"][:].tolist() == [2, 1, 1]
    assert ds.tags["v1"].open()["label"][:].tolist() == [0, 1, 1]
    assert other.history[0].message == "a label"
    assert other.history[0].id == other.version
    with pytest.raises(KeyError):
        _ = ds.tags["v2"]


def test_datasets_are_made_like_others_and_of_parquet(ds: deeplake.Dataset, tmp_path: Path) -> None:
    ds.tensorlake.to_parquet(tmp_path / "x.parquet", columns=["label", "text"])

    read = deeplake.from_parquet(tmp_path / "x.parquet")
    like = deeplake.like(ds, tmp_path / "like.tl")

    assert read["text"][:] == ["a", "b", "c"]
    assert (len(like), like.schema) == (0, ds.schema)


def test_datasets_are_opened_copied_and_deleted(ds: deeplake.Dataset, tmp_path: Path) -> None:
    copied = str(tmp_path / "copied.tl")
    deeplake.copy(ds.tensorlake.url, copied)

    assert len(deeplake.open_read_only(copied)) == 3
    deeplake.delete(copied)
    assert not deeplake.exists(copied)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (types.Embedding(8), tl.Embedding(8)),
        (types.Embedding(), tl.Array("float32", (None,))),
        (types.Embedding(4, "float16"), tl.Array("float16", (4,))),
        (types.BoundingBox(), tl.BBox("xywh")),
        (types.BoundingBox(format="LTRB"), tl.BBox("xyxy")),
        (types.Array("int16", dimensions=2), tl.Array("int16", (None, None))),
        (types.ClassLabel("uint8"), tl.Scalar("uint8")),
        (types.ClassLabel(names=["a", "b"]), tl.ClassLabel(["a", "b"])),
        (types.Image("uint8", "jpg"), tl.Image("jpeg")),
        (types.Sequence(types.Image()), tl.Sequence(tl.Image("png"))),
        (types.Sequence("str"), tl.Sequence(tl.Text())),
        (types.Dict(), tl.Json()),
        (types.Bytes(), tl.Bytes()),
        (types.Video(), tl.Video()),
        (types.Audio(), tl.Audio()),
        (types.Mesh(), tl.Mesh()),
        (types.SegmentMask("uint16"), tl.SegmentMask(dtype="uint16")),
        (types.Link(types.Video()), tl.Link(tl.Video())),
        (types.Bool(), tl.Bool()),
    ],
)
def test_each_type_is_one_of_ours(made: Any, expected: Any) -> None:
    assert made == expected


def test_a_format_that_boxes_have_not_is_an_error() -> None:
    with pytest.raises(SchemaError, match="'ccwh'"):
        types.BoundingBox(format="yolo")
