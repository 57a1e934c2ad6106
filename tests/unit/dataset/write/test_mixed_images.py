"""Folders, files and tables that mix kinds of pictures: in as they are, streamed, and out again."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

import tensorlake as tl

PHOTO = Path(__file__).parents[4] / "examples" / "data" / "coco" / "images" / "000000024577.jpg"
PICTURE = PIL.Image.open(PHOTO).resize((36, 24))
NAMES = ("cat/a.jpg", "cat/b.png", "dog/c.webp", "dog/d.TIF", "dog/e.jfif")
KINDS = {".jpg": "JPEG", ".jfif": "JPEG", ".png": "PNG", ".webp": "WEBP", ".tif": "TIFF"}


def saved(kind, picture=PICTURE):
    out = io.BytesIO()
    picture.save(out, kind)
    return out.getvalue()


def contents(ds, name="image"):
    return [ds[name].bytes(row) for row in range(len(ds))]


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(KINDS[path.suffix.lower()]))
    return tmp_path / "photos"


@pytest.fixture
def ds(folder):
    return tl.ingest.images(folder, "memory://mixed-pictures", mode="create")


@pytest.fixture(autouse=True)
def _clean():
    yield
    for url in ("memory://mixed-pictures", "memory://mixed-again"):
        if tl.exists(url):
            tl.delete(url, confirm=url)


def test_a_folder_of_several_kinds_is_stored_as_it_is(folder, ds):
    assert ds.schema["image"] == tl.Image("any")
    assert contents(ds) == [(folder / name).read_bytes() for name in NAMES]
    assert ds["label"][:].as_names() == ["cat", "cat", "dog", "dog", "dog"]
    assert all(ds["image"][row].shape == (24, 36, 3) for row in range(5))
    assert ds.check(decode=True).ok


def test_a_folder_of_one_kind_has_a_tensor_of_that_kind(folder):
    ds = tl.ingest.images(folder, "memory://mixed-again", schema={"image": tl.Image("any")})
    assert ds.schema["image"] == tl.Image("any")
    for name in NAMES[1:4]:
        (folder / name).unlink()

    jpegs = tl.ingest.images(folder, "memory://mixed-pictures")

    assert jpegs.schema["image"] == tl.Image("jpeg")


def test_a_file_of_another_kind_than_its_name_is_told_with_the_type_that_takes_it(folder):
    for name in NAMES[1:4]:
        (folder / name).unlink()
    (folder / "cat" / "b.jpg").write_bytes(saved("PNG"))

    with pytest.raises(tl.InvalidInputError) as caught:
        tl.ingest.images(folder, "memory://mixed-pictures")

    assert str(caught.value).startswith("cat/b.jpg: 'image' stores JPEG, but the sample is PNG")
    assert "schema={'image': tl.Image(codec=\"any\")}" in str(caught.value)


def test_a_call_with_the_advised_type_works_after_one_that_failed(folder):
    for name in NAMES[1:4]:
        (folder / name).unlink()
    (folder / "cat" / "b.jpg").write_bytes(saved("PNG"))
    url = "memory://mixed-pictures"
    with pytest.raises(tl.InvalidInputError):
        tl.ingest.images(folder, url)

    ds = tl.ingest.images(folder, url, schema={"image": tl.Image("any")})

    assert len(ds) == 3


def test_other_kinds_are_appended_once_the_tensor_takes_them(folder, tmp_path):
    more = tmp_path / "more" / "cat"
    more.mkdir(parents=True)
    (folder / "cat" / "b.png").rename(more / "b.png")
    for name in NAMES[2:4]:
        (folder / name).unlink()
    ds = tl.ingest.images(folder, "memory://mixed-pictures")
    with pytest.raises(tl.InvalidInputError, match=r"ds.alter_tensor\('image', codec=\"any\"\)"):
        tl.ingest.images(tmp_path / "more", ds.url, mode="append")

    ds.alter_tensor("image", codec="any")
    ds.commit("any")
    ds = tl.ingest.images(tmp_path / "more", ds.url, mode="append")

    assert contents(ds) == [saved("JPEG"), saved("JPEG"), saved("PNG")]


def test_a_loader_resizes_each_kind_and_takes_them_as_they_are(ds):
    (batch,) = ds.loader(batch_size=5, decode={"image": tl.decode.Resize(12, 18)})
    rows = [one for b in ds.loader(batch_size=2, collate={"image": "list"}) for one in b["image"]]

    assert batch["image"].shape == (5, 12, 18, 3)
    assert np.abs(np.diff(batch["image"].astype(int), axis=0)).mean() < 8  # one photograph
    assert all((one == ds["image"][at]).all() for at, one in enumerate(rows))


def test_rows_say_what_each_image_is(ds):
    assert [repr(row).split("image")[1].split()[0] for row in ds] == [
        "jpeg",
        "png",
        "webp",
        "tiff",
        "jpeg",
    ]
    html = ds.query("LIMIT 4")._repr_html_()
    assert [html.index(f"{kind} 24×36×3") > 0 for kind in ("jpeg", "png", "webp", "tiff")]


def test_shards_name_each_member_by_its_kind_and_come_back_as_one_tensor(ds, tmp_path):
    ds.to_webdataset(tmp_path / "shards")

    with tarfile.open(next((tmp_path / "shards").iterdir())) as shard:
        names = [name for name in shard.getnames() if "image" in name]
    again = tl.ingest.webdataset(tmp_path / "shards", "memory://mixed-again")

    assert [name.partition(".")[2] for name in names] == [
        f"image.{ending}" for ending in ("jpg", "png", "webp", "tiff", "jpg")
    ]
    assert again.schema["image"] == tl.Image("any")
    assert contents(again) == contents(ds)


def test_shards_of_images_without_a_name_are_one_tensor(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        for at, kind in enumerate(("png", "jpeg", "png")):
            for field, content in ((kind, saved(kind.upper())), ("cls", b"3")):
                member = tarfile.TarInfo(f"{at:03}.{field}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))

    ds = tl.ingest.webdataset(tmp_path / "a.tar", "memory://mixed-again")

    assert list(ds.schema) == ["cls", "image", "key"]
    assert contents(ds) == [saved("PNG"), saved("JPEG"), saved("PNG")]


def test_coco_has_a_file_of_its_own_kind_for_each_image(ds, tmp_path):
    ds[["image"]].to_coco(tmp_path / "coco")

    files = sorted((tmp_path / "coco" / "images").iterdir())
    listed = json.loads((tmp_path / "coco" / "annotations.json").read_text())["images"]
    assert [one.suffix for one in files] == [".jpg", ".png", ".webp", ".tiff", ".jpg"]
    assert [one["file_name"] for one in listed] == [one.name for one in files]
    assert [one.read_bytes() for one in files] == contents(ds)


def test_mds_has_them_as_bytes(ds, tmp_path):
    ds.to_mds(tmp_path / "mds")

    index = json.loads((tmp_path / "mds" / "index.json").read_text())
    shard = index["shards"][0]
    assert dict(zip(shard["column_names"], shard["column_encodings"], strict=True))["image"] == (
        "bytes"
    )


@pytest.mark.parametrize("way", ["arrow", "parquet", "huggingface"])
def test_tables_bring_them_back(ds, tmp_path, way):
    match way:
        case "arrow":
            again = tl.ingest.arrow(ds.to_arrow(), "memory://mixed-again")
        case "parquet":
            ds.to_parquet(tmp_path / "a.parquet")
            again = tl.ingest.parquet(tmp_path / "a.parquet", "memory://mixed-again")
        case _:
            again = tl.ingest.huggingface(ds.to_hf(), "memory://mixed-again")

    assert again.schema["image"] == tl.Image("any")
    assert contents(again) == contents(ds)


def test_columns_of_others_are_told_by_all_their_values():
    jpeg, png = saved("JPEG"), saved("PNG")
    table = pa.table(
        {
            "one": [jpeg, jpeg, None],
            "any": [jpeg, png, None],
            "bytes": [jpeg, b"hello", None],
            "lists": [[jpeg], [], [png]],
            "hf": [{"bytes": jpeg, "path": None}, {"bytes": png, "path": "x"}, None],
        }
    )

    ds = tl.ingest.arrow(table, "memory://mixed-again")

    assert ds.schema["one"] == tl.Image("jpeg", nullable=True)
    assert ds.schema["any"] == tl.Image("any", nullable=True)
    assert ds.schema["bytes"] == tl.Bytes(nullable=True)
    assert ds.schema["lists"] == tl.Sequence(tl.Image("any"))
    assert ds.schema["hf"] == tl.Image("any", nullable=True)
    assert [ds["hf"].bytes(row) for row in range(2)] == [jpeg, png]


def test_hugging_face_images_that_are_files_are_read(folder):
    from datasets import Dataset, Features
    from datasets import Image as Feature

    paths = [str(folder / name) for name in NAMES[:3]]
    rows = Dataset.from_dict({"image": paths}, features=Features({"image": Feature()}))

    ds = tl.ingest.huggingface(rows, "memory://mixed-again")

    assert contents(ds) == [Path(path).read_bytes() for path in paths]


def test_a_schema_is_guessed_from_all_values():
    jpeg, png = saved("JPEG"), saved("PNG")

    schema = tl.infer_schema(
        {"a": [jpeg, png], "b": [jpeg, b"x"], "c": [Path("a.jpg"), Path("b.PNG")]}
    )

    assert schema == {"a": tl.Image("any"), "b": tl.Bytes(), "c": tl.Image("any")}


@pytest.mark.parametrize("kind", ["coco", "yolo", "voc"])
def test_annotated_images_may_be_of_several_kinds(tmp_path, kind):
    files = {"a.jpg": saved("JPEG"), "b.png": saved("PNG")}
    places = {"coco": "images", "yolo": "images", "voc": "JPEGImages"}
    (tmp_path / places[kind]).mkdir()
    for name, content in files.items():
        (tmp_path / places[kind] / name).write_bytes(content)
    url = "memory://mixed-again"
    match kind:
        case "coco":
            images = [{"id": at, "file_name": name} for at, name in enumerate(files)]
            text = {"images": images, "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
            (tmp_path / "a.json").write_text(json.dumps(text))
            ds = tl.ingest.coco(tmp_path / "a.json", tmp_path / "images", url)
        case "yolo":
            (tmp_path / "labels").mkdir()
            (tmp_path / "labels" / "b.txt").write_text("0 0.5 0.5 1 1")
            (tmp_path / "data.yaml").write_text("names: [cat]\ntrain: images")
            ds = tl.ingest.yolo(tmp_path, url)
            assert ds["boxes"][1].tolist() == [[0, 0, 36, 24]]
        case _:
            (tmp_path / "Annotations").mkdir()
            for stem in "ab":
                (tmp_path / "Annotations" / f"{stem}.xml").write_text("<annotation/>")
            ds = tl.ingest.voc(tmp_path, url)

    assert ds.schema["image"] == tl.Image("any")
    assert contents(ds) == [*files.values()]
