"""A place (URL, source, destination) is a string or any os.PathLike, wherever one is taken."""

import inspect
import json
import os
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl

PLACES = {"url", "src", "dst", "to", "images", "annotations", "confirm"}
"""Names of the parameters that are places; of others none is annotated as one."""


class Place(os.PathLike):
    """A path of neither str nor Path, as some libraries have."""

    def __init__(self, path):
        self.path = str(path)

    def __fspath__(self):
        return self.path


def public_callables():
    for holder in (tl, tl.ingest, tl.Dataset, tl.View):
        names = {
            *getattr(holder, "__all__", dir(holder)),
            *(("open", "list") if holder is tl else ()),
        }
        for name in sorted(names):
            one = getattr(holder, name)
            if not name.startswith("_") and inspect.isfunction(one):
                yield f"{holder.__name__}.{name}", one


def test_every_parameter_that_is_a_place_is_typed_as_one():
    typed, found = {}, set()
    for name, one in public_callables():
        for parameter in inspect.signature(one).parameters.values():
            if parameter.name in PLACES:
                found.add(name)
                typed[f"{name}({parameter.name})"] = "PathLike[str]" in str(parameter.annotation)

    assert [name for name, is_typed in typed.items() if not is_typed] == [
        "tensorlake.ingest.arrow(src)"
    ]
    assert {"tensorlake.open", "tensorlake.copy", "Dataset.to_parquet", "View.materialize"} <= found


@pytest.fixture
def there(tmp_path):
    with tl.create(Place(tmp_path / "there"), {"x": "int64"}) as ds:
        ds.extend({"x": [1, 2, 3]})
        ds.commit("three")
    return tmp_path / "there"


def test_datasets_are_made_opened_listed_copied_and_deleted_at_any_path(there, tmp_path):
    copied, part = Place(tmp_path / "copied"), Place(tmp_path / "part")

    with tl.open(Place(there)) as ds:
        assert len(ds) == 3
        ds.where("x > 1").materialize(part).close()
        ds.map(lambda row: row, schema={"x": "int64"}, to=Place(tmp_path / "mapped")).close()
    tl.copy(Place(there), copied)

    assert tl.exists(copied)
    assert tl.list(Place(tmp_path)) == ["copied", "mapped", "part", "there"]
    tl.delete(copied, confirm=Place(copied.path))
    tl.delete(part, confirm=str(part.path))
    assert tl.list(tmp_path) == ["mapped", "there"]


@pytest.mark.parametrize(
    ("call", "ending"),
    [
        ("to_parquet", ".parquet"),
        ("to_csv", ".csv"),
        ("to_jsonl", ".jsonl"),
        ("to_numpy", ".npz"),
        ("to_webdataset", ""),
        ("to_mds", ""),
        ("to_zarr", ""),
    ],
)
def test_files_are_written_to_and_read_from_any_path(there, tmp_path, call, ending):
    place = Place(tmp_path / f"out{ending}")
    with tl.open(there) as ds:
        getattr(ds, call)(place)

    assert Path(place).exists()
    reader = {"to_mds": None, "to_zarr": None}.get(call, call.removeprefix("to_"))
    if reader is not None:
        with getattr(tl.ingest, reader)(place, Place(tmp_path / "back")) as back:
            assert back["x"][:].tolist() == [1, 2, 3]


def test_folders_of_images_are_read_from_any_path(tmp_path):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    pixels = np.zeros((8, 8, 3), np.uint8)
    (tmp_path / "photos" / "cat" / "1.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))
    image = {"id": 1, "file_name": "1.jpg", "width": 8, "height": 8}
    found = {"images": [image], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    (tmp_path / "found.json").write_text(json.dumps(found))

    folder = Place(tmp_path / "photos")
    with tl.ingest.images(folder, Place(tmp_path / "photos.tl")) as ds:
        assert len(ds) == 1
    annotations, images = Place(tmp_path / "found.json"), Place(tmp_path / "photos" / "cat")
    with tl.ingest.coco(annotations, images, Place(tmp_path / "coco.tl")) as ds:
        assert len(ds) == 1


CALLS = {
    "url": tl.open,
    "create": lambda place: tl.create(place, {"x": "int64"}),
    "exists": tl.exists,
    "list": tl.list,
    "delete": lambda place: tl.delete(place, confirm=place),
    "confirm": lambda place: tl.delete("memory://places-none", confirm=place),
    "src": lambda place: tl.copy(place, "memory://places-to"),
    "dst": lambda place: tl.copy("memory://places-from", place),
    "ingest": lambda place: tl.ingest.csv(place, "memory://places-to"),
    "ingest into": lambda place: tl.ingest.numpy({"x": [1]}, place),
}


class Bytes(Place):
    def __fspath__(self):
        return b"bytes"


@pytest.mark.parametrize(
    "place", [3, None, b"a", "", "a\0b", "a\ud800", "s3://b/\ud800", Bytes("a"), ["a", 3]]
)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_place_is_refused_by_the_arguments_name(call, place):
    with pytest.raises(tl.InvalidInputError):
        CALLS[call](place)


@pytest.mark.parametrize("call", CALLS)
def test_a_url_that_path_has_shortened_is_refused_with_the_url_it_was(call):
    with pytest.raises(
        tl.InvalidInputError, match=r"give the URL as a string: 's3://bucket/pets'|may"
    ):
        CALLS[call](Path("s3://bucket/pets"))


@pytest.mark.parametrize(
    ("file", "importer"),
    [
        ("cats/a.jpg", "images"),
        ("table.csv", "csv"),
        ("rows.jsonl", "jsonl"),
        ("part.parquet", "parquet"),
        ("shard.tar", "webdataset"),
    ],
)
def test_opening_a_folder_of_files_names_their_importer(tmp_path, file, importer):
    folder = tmp_path / "photos"
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_bytes(b"")

    with pytest.raises(tl.errors.DatasetNotFoundError) as error:
        tl.open(folder)

    assert f"tl.ingest.{importer}({str(folder)!r}, url)" in str(error.value)
    assert hasattr(tl.ingest, importer)


def test_opening_a_folder_of_other_files_names_create(tmp_path):
    (tmp_path / "notes.txt").write_text("")

    with pytest.raises(tl.errors.DatasetNotFoundError, match=r"tl\.create\(url, schema\)"):
        tl.open(tmp_path)
