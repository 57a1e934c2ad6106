"""Hugging Face datasets: class names at any depth, splits, and streams; `datasets` is the judge."""

import io
from collections.abc import Iterator

import numpy as np
import PIL.Image
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

datasets = pytest.importorskip("datasets")

pytestmark = pytest.mark.extras

ANIMALS = datasets.ClassLabel(names=["cat", "dog"])
COLORS = datasets.ClassLabel(names=["red", "blue"])
BOX = datasets.Sequence(datasets.Value("float32"), length=4)


def rows_of(features: dict, *rows: dict):
    return datasets.Dataset.from_list([*rows], features=datasets.Features(features))


@pytest.fixture
def dst(tmp_path):
    return f"memory://hugging-face-{tmp_path.name}"


@pytest.fixture
def objects():
    return rows_of(
        {"tags": datasets.Sequence(COLORS), "objects": [{"bbox": BOX, "category": ANIMALS}]},
        {"tags": [0, 1], "objects": [{"bbox": [0, 1, 2, 3], "category": 1}] * 2},
        {"tags": [], "objects": []},
    )


def test_classes_in_a_list_keep_their_names_both_ways(objects, dst):
    ds = tl.ingest.huggingface(objects, dst)

    assert ds["tags"].names == ("red", "blue")
    assert [row.as_names() for row in ds["tags"][:]] == [["red", "blue"], []]
    out = ds.to_hf()
    assert out.features["tags"] == objects.features["tags"]
    assert out["tags"][:] == objects["tags"][:]


def test_classes_in_a_list_of_structs_are_a_tensor_per_field(objects, dst):
    ds = tl.ingest.huggingface(objects, dst)

    assert [*ds.tensors] == ["tags", "objects/bbox", "objects/category"]
    assert ds["objects/category"].names == ("cat", "dog")
    assert ds["objects/bbox"][0].tolist() == [[0, 1, 2, 3]] * 2
    out = ds.to_hf()
    assert out.features["objects/category"] == datasets.Sequence(ANIMALS)
    assert out["objects/category"][:] == [[1, 1], []]
    assert out.features["objects/bbox"] == datasets.Sequence(BOX)


def test_a_dataset_that_went_out_comes_back_equal(objects, dst):
    ds = tl.ingest.huggingface(objects, dst)

    again = tl.ingest.huggingface(ds.to_hf(), f"{dst}-again")

    assert again["objects/category"].names == ("cat", "dog")
    assert again.to_arrow().to_pylist() == ds.to_arrow().to_pylist()
    assert again.to_hf().features == ds.to_hf().features


def test_structs_of_structs_and_lists_of_lists_keep_class_names(dst):
    deep = rows_of(
        {
            "scene": {"sky": {"color": COLORS}, "beasts": datasets.Sequence({"kind": ANIMALS})},
            "spans": datasets.Sequence(datasets.Sequence(COLORS)),
        },
        {"scene": {"sky": {"color": 1}, "beasts": {"kind": [1, 0]}}, "spans": [[0], [1, 0]]},
        {"scene": None, "spans": []},
    )

    ds = tl.ingest.huggingface(deep, dst)

    assert ds[0]["scene/sky/color"] == "blue"
    assert ds[1]["scene/sky/color"] is None
    assert ds[0]["scene/beasts/kind"].as_names() == ["dog", "cat"]
    assert [one.as_names() for one in ds[0]["spans"]] == [["red"], ["blue", "red"]]
    out = ds.to_hf()
    assert out.features["spans"] == deep.features["spans"]
    assert out["spans"][:] == deep["spans"][:]


def test_sliced_dataset_keeps_the_rows_of_its_structs(objects, dst):
    ds = tl.ingest.huggingface(datasets.concatenate_datasets([objects] * 2).select([1, 2]), dst)

    assert [row.as_names() for row in ds["objects/category"][:]] == [[], ["dog", "dog"]]


def test_structs_without_classes_stay_json(dst):
    plain = rows_of({"answer": {"text": datasets.Value("string")}}, {"answer": {"text": "a"}})

    ds = tl.ingest.huggingface(plain, dst)

    assert ds[0]["answer"] == {"text": "a"}


def test_schema_keeps_a_struct_with_classes_whole(objects, dst):
    ds = tl.ingest.huggingface(objects, dst, schema={"objects": tl.Json()})

    assert ds[0]["objects"][0]["category"] == 1


def test_parquet_that_hugging_face_wrote_keeps_class_names(objects, dst, tmp_path):
    objects.to_parquet(tmp_path / "x.parquet")

    ds = tl.ingest.parquet(tmp_path / "x.parquet", dst)

    assert ds["tags"].names == ("red", "blue")
    assert ds["objects/category"].names == ("cat", "dog")


def test_label_minus_one_is_no_label(dst):
    unlabelled = rows_of({"label": ANIMALS}, {"label": 1}, {"label": -1})

    ds = tl.ingest.huggingface(unlabelled, dst)

    assert [row["label"] for row in ds] == [1, None]


def test_splits_become_a_tensor(objects, dst):
    parts = datasets.DatasetDict(train=objects, test=objects.select([1]))

    ds = tl.ingest.huggingface(parts, dst, commit_every="1B")

    assert ds["split"].names == ("train", "test")
    assert ds["split"][:].as_names() == ["train", "train", "test"]
    assert ds["objects/category"].names == ("cat", "dog")
    assert len(tl.ingest.huggingface(parts, dst)) == 3


def numbers(*values: int):
    return rows_of({"id": datasets.Value("int64")}, *({"id": value} for value in values))


@pytest.mark.parametrize("key", [None, "id"])
def test_a_new_split_is_followed_and_their_order_does_not_matter(dst, key):
    train, test, valid = numbers(1, 2), numbers(3), numbers(4, 5)
    parts = datasets.DatasetDict
    tl.ingest.huggingface(parts(train=train, test=test), dst, key=key)
    turned = tl.ingest.huggingface(parts(test=test, train=train), dst, key=key)
    assert (turned.ingest_report.unchanged, turned.ingest_report.commits) == (3, [])

    ds = tl.ingest.huggingface(parts(valid=valid, test=test, train=train), dst, key=key)

    report = ds.ingest_report
    assert (report.added, report.unchanged) == (2, 3)
    assert report.classes == ["'split' has new classes: 'valid'"]
    assert ds["split"][:].as_names() == ["train", "train", "test", "valid", "valid"]
    assert ds["id"][:].tolist() == [1, 2, 3, 4, 5]
    again = tl.ingest.huggingface(parts(test=test, valid=valid, train=train), dst, key=key)
    assert (again.ingest_report.unchanged, again.ingest_report.commits) == (5, [])


@pytest.mark.parametrize("key", [None, "id"])
def test_splits_that_are_there_are_not_appended_in_another_order(dst, key):
    parts = datasets.DatasetDict
    train, test = numbers(1, 2), numbers(3)
    tl.ingest.huggingface(parts(train=train, test=test), dst, key=key)

    with pytest.raises(InvalidInputError, match="already in"):
        tl.ingest.huggingface(parts(test=test, train=train), dst, key=key, mode="append")
    more = parts(valid=numbers(9), test=test, train=train)
    with pytest.raises(InvalidInputError, match=r"pass only new items: 'valid'|of 4 rows"):
        tl.ingest.huggingface(more, dst, key=key, mode="append")
    assert len(tl.open(dst)) == 3


def test_splits_that_are_there_are_not_appended_in_any_company(dst):
    parts = datasets.DatasetDict
    train, test, valid = numbers(1, 2), numbers(3), numbers(4)
    tl.ingest.huggingface(parts(train=train, test=test), dst)
    tl.ingest.huggingface(parts(train=train, test=test, valid=valid), dst)

    for some in (parts(test=test, train=train), parts(train=train, test=test), test, valid):
        with pytest.raises(InvalidInputError, match="already in"):
            tl.ingest.huggingface(some, dst, mode="append")
    assert len(tl.open(dst)) == 4


def test_a_row_that_a_hand_added_is_in_conflict_with_the_item_of_its_split(dst):
    parts = datasets.DatasetDict
    tl.ingest.huggingface(parts(train=numbers(1), test=numbers(1)), dst, key="id")
    with tl.open(dst) as ds:
        ds["split"].rename("test", "held out")
        ds.extend({"id": [2], "split": ["held out"]})
        ds.commit("by hand")

    ds = tl.ingest.huggingface(parts(train=numbers(1, 2), test=numbers(1, 2)), dst, key="id")

    assert ds["id"][:].tolist() == [1, 1, 2, 2]
    assert ds["split"][:].as_names() == ["train", "held out", "held out", "train"]


def test_rows_inserted_before_another_split_are_refused_without_a_key(dst):
    parts = datasets.DatasetDict
    tl.ingest.huggingface(parts(train=numbers(1, 2), test=numbers(3)), dst)

    with pytest.raises(InvalidInputError, match="key='id'"):
        tl.ingest.huggingface(parts(train=numbers(1, 2, 8), test=numbers(3)), dst)


def test_a_split_that_a_hand_renamed_stays_that_split(dst):
    parts = datasets.DatasetDict
    tl.ingest.huggingface(parts(train=numbers(1), test=numbers(3)), dst)
    with tl.open(dst) as ds:
        ds["split"].rename("test", "held out")
        ds.commit("rename")

    ds = tl.ingest.huggingface(parts(train=numbers(1), test=numbers(3, 4)), dst)

    assert ds["split"][:].as_names() == ["train", "held out", "held out"]


def test_splits_with_other_features_are_refused_by_name(objects, dst):
    parts = datasets.DatasetDict(train=objects, test=objects.remove_columns("tags"))

    with pytest.raises(InvalidInputError, match=r"'test' has other features than 'train': 'tags'"):
        tl.ingest.huggingface(parts, dst)


def test_column_named_split_beside_splits_is_refused(dst):
    parts = datasets.DatasetDict(a=rows_of({"split": datasets.Value("string")}, {"split": "x"}))

    with pytest.raises(InvalidInputError, match="rename_column"):
        tl.ingest.huggingface(parts, dst)


def test_empty_splits_are_refused(dst):
    with pytest.raises(InvalidInputError, match="no splits"):
        tl.ingest.huggingface(datasets.DatasetDict(), dst)


def test_stream_is_ingested_with_its_class_names(objects, dst):
    ds = tl.ingest.huggingface(objects.to_iterable_dataset(), dst)

    assert ds.to_arrow() == tl.ingest.huggingface(objects, f"{dst}-whole").to_arrow()
    assert len(tl.ingest.huggingface(objects.to_iterable_dataset(), dst)) == len(objects)


def test_streams_of_splits_become_a_tensor(objects, dst):
    parts = datasets.IterableDatasetDict(
        train=objects.to_iterable_dataset(), test=objects.to_iterable_dataset()
    )

    ds = tl.ingest.huggingface(parts, dst)

    assert ds["split"][:].as_names() == ["train", "train", "test", "test"]


def counted(seen: list[int]) -> Iterator[dict]:
    for number in range(5000):
        seen.append(number)
        yield {"x": number, "y": None if number < 3840 else "late"}


def test_stream_without_features_takes_its_types_from_all_rows(dst):
    stream = datasets.IterableDataset.from_generator(counted, gen_kwargs={"seen": []})

    ds = tl.ingest.huggingface(stream, dst)

    assert np.array_equal(ds["x"][:], np.arange(5000))
    assert ds[4999]["y"] == "late"


def test_stream_of_rows_of_different_types_is_refused(dst):
    def rows() -> Iterator[dict]:
        yield from ({"y": number if number < 400 else "late"} for number in range(500))

    stream = datasets.IterableDataset.from_generator(rows)

    with pytest.raises(InvalidInputError, match=r"cast\(features\)"):
        tl.ingest.huggingface(stream, dst)


def test_dry_run_reads_only_the_beginning_of_a_stream(dst):
    seen: list[int] = []
    stream = datasets.IterableDataset.from_generator(counted, gen_kwargs={"seen": seen})

    ds = tl.ingest.huggingface(stream, dst, dry_run=True)

    assert ds["x"][:].tolist() == [0, 1, 2]
    assert len(seen) < 5000


def test_stream_leaves_no_file_behind(objects, dst, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    tl.ingest.huggingface(objects.to_iterable_dataset(), dst)

    assert [*tmp_path.iterdir()] == []


def test_empty_stream_is_refused(dst):
    stream = datasets.IterableDataset.from_generator(lambda: iter(()))

    with pytest.raises(InvalidInputError, match="no rows"):
        tl.ingest.huggingface(stream, dst)


@pytest.mark.parametrize("row", [[None], [{"c": None, "n": None}]])
def test_null_within_a_list_of_classes_is_refused_and_kept_as_json(row, tmp_path):
    features = {"obj": [{"c": datasets.ClassLabel(names=["a", "b"]), "n": datasets.Value("int64")}]}
    given = datasets.Dataset.from_list(
        [{"obj": [{"c": 1, "n": 1}]}, {"obj": row}], features=datasets.Features(features)
    )
    url = f"memory://{tmp_path.name}"

    with pytest.raises(tl.InvalidInputError, match=r"row 1: 'obj/c'.*None\nitems are never NULL"):
        tl.ingest.huggingface(given, url)

    ds = tl.ingest.huggingface(given, url, schema={"obj": tl.Json()})
    assert [one["obj"] for one in ds] == given["obj"][:]


def with_empty_lists() -> Iterator[dict[str, object]]:
    for x in range(600):
        yield {"x": x, "list": [x] if x % 2 else [], "in": {"k": [x] if x % 3 else []}}


def test_stream_of_python_rows_may_begin_with_empty_lists(dst):
    stream = datasets.IterableDataset.from_generator(with_empty_lists)

    ds = tl.ingest.huggingface(stream.map(lambda row: {"y": 2 * row["x"]}), dst)

    assert [len(one) for one in ds["list"][:]] == [0, 1] * 300
    assert (ds[599]["list"].tolist(), ds[599]["in"], ds[599]["y"]) == ([599], {"k": [599]}, 1198)
    again = tl.ingest.huggingface(stream.map(lambda row: {"y": 2 * row["x"]}), dst)
    assert not again.ingest_report.commits


def test_animated_images_are_bytes_or_by_schema_their_frames(dst):
    frames = [PIL.Image.new("RGB", (6, 4), color) for color in ("red", "lime", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    given = rows_of({"image": datasets.Image()}, {"image": {"bytes": out.getvalue(), "path": None}})

    assert tl.ingest.huggingface(given, f"{dst}-bytes")["image"][0] == out.getvalue()
    schema = {"image": tl.Sequence(tl.Image("png"))}
    ds = tl.ingest.huggingface(given, dst, schema=schema)

    back = ds.to_hf()
    assert back.features["image"] == datasets.List(datasets.Image())
    assert [np.asarray(one).tolist() for one in back[0]["image"]] == [
        np.asarray(one).tolist() for one in frames
    ]


def test_a_dataset_without_columns_is_refused_in_its_words(dst):
    with pytest.raises(InvalidInputError, match="no columns to ingest"):
        tl.ingest.huggingface(datasets.Dataset.from_dict({}), dst)


def test_tensors_of_any_type_come_back_from_a_dataset_that_went_out(dst):
    masks = np.random.default_rng(0).random((2, 4, 5)) > 0.5
    rows = {
        "embedding": (tl.Embedding(3), [1.0, 2.0, 3.0]),
        "json": (tl.Json(), {"a": [1, None]}),
        "uuid": (tl.Uuid(), "0" * 32),
        "tags": (tl.Tags(), ["a", "b"]),
        "boxes": (tl.BBox(), [[0, 1, 2, 3]]),
        "points": (tl.Keypoints(), np.zeros((1, 2, 3), np.float32)),
        "classes": (tl.SegmentMask(), np.ones((4, 5), np.uint8)),
        "objects": (tl.InstanceMask(), masks),
        "label": (tl.ClassLabel(["a"]), "a"),
    }
    with tl.create(f"{dst}-out", {name: kind for name, (kind, _) in rows.items()}) as ds:
        ds.extend([{name: value for name, (_, value) in rows.items()}] * 2)
        ds.commit("rows")
        out = ds.to_hf()
        selected = out.filter(lambda row: row["label"] == 0).select([1])
        for number, one in enumerate((out, selected, out.to_iterable_dataset())):
            again = tl.ingest.huggingface(one, f"{dst}-{number}")
            assert dict(again.schema) == dict(ds.schema)
            assert again.to_arrow().slice(0, 1) == ds.to_arrow().slice(0, 1)
            assert np.array_equal(again[0]["objects"], masks)
