"""HDF5 and Zarr in and out: h5py and zarr write and read the same files."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import zarr

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.ingest.arrays import columns as array_columns

FORMATS = ("hdf5", "zarr", "zarr2")


def h5py() -> Any:
    return pytest.importorskip("h5py")


def write(kind: str, path: Path, arrays: dict[str, Any], **more: Any) -> Path:
    """Write arrays as the foreign library does, into a file or group that may be there."""
    if kind == "hdf5":
        with h5py().File(path, "a") as file:
            for name, one in arrays.items():
                shape = (None, *np.shape(one)[1:])
                file.create_dataset(name, data=one, maxshape=shape, chunks=True, **more)
        return path
    group = zarr.open_group(path, mode="a", zarr_format=2 if kind == "zarr2" else 3)
    for name, one in arrays.items():
        group.create_array(name, data=np.asarray(one), **more)
    return path


def append(kind: str, path: Path, arrays: dict[str, Any]) -> None:
    if kind == "hdf5":
        with h5py().File(path, "a") as file:
            for name, one in arrays.items():
                start = len(file[name])
                file[name].resize(start + len(one), axis=0)
                file[name][start:] = one
        return
    group = zarr.open_group(path, mode="a")
    for name, one in arrays.items():
        group[name].append(np.asarray(one))


def ingest(kind: str, *arguments: Any, **options: Any) -> tl.Dataset:
    return getattr(tl.ingest, kind.rstrip("2"))(*arguments, **options)


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "hdf5":
        h5py()
    return request.param


@pytest.fixture
def source(kind: str, tmp_path: Path) -> Path:
    arrays = {
        "x": np.arange(20, dtype=np.int16),
        "train/image": np.arange(20 * 6, dtype=np.uint8).reshape(20, 2, 3),
        "train/flag": np.arange(20) % 3 == 0,
        "train/big": np.arange(20, dtype=">f8"),
    }
    return write(kind, tmp_path / f"source.{kind}", arrays)


def test_each_array_is_a_tensor(kind, source, tmp_path):
    ds = ingest(kind, source, str(tmp_path / "x.tl"))

    assert {name: one.describe() for name, one in ds.schema.items()} == {
        "train/big": "Scalar(float64)",
        "train/flag": "Bool",
        "train/image": "Array(uint8, (2, 3))",
        "x": "Scalar(int16)",
    }
    assert ds["x"][:].tolist() == [*range(20)]
    assert ds["train/image"][3].tolist() == [[18, 19, 20], [21, 22, 23]]
    assert ds["train/big"][:].tolist() == [*range(20)]
    assert ds["train/flag"][:4].tolist() == [True, False, False, True]


def test_the_same_call_again_adds_what_is_new_and_refuses_what_changed(
    kind, source, tmp_path, monkeypatch
):
    monkeypatch.setattr(array_columns, "PIECE_NBYTES", 7 * 17)
    dst, only = str(tmp_path / "x.tl"), {"columns": ["x", "train/image"]}

    assert ingest(kind, source, dst, **only).ingest_report.added == 20
    assert ingest(kind, source, dst, **only).ingest_report.added == 0
    append(kind, source, {"x": [20, 21], "train/image": np.ones((2, 2, 3), np.uint8)})
    ds = ingest(kind, source, dst, **only)

    assert (ds.ingest_report.added, ds["x"][:].tolist()) == (2, [*range(22)])
    assert ds["train/image"][21].tolist() == [[1, 1, 1], [1, 1, 1]]
    if kind == "hdf5":
        with h5py().File(source, "a") as file:
            file["x"][1] = 99
    else:
        zarr.open_group(source, mode="a")["x"][1] = 99
    with pytest.raises(InvalidInputError, match=r"changed .*before its end"):
        ingest(kind, source, dst, **only)


def test_rows_with_a_key_are_updated_and_deleted(kind, tmp_path):
    first = write(kind, tmp_path / "a", {"id": [3, 1, 2], "x": [30.0, 10.0, 20.0]})
    dst = str(tmp_path / "x.tl")
    ingest(kind, first, dst, key="id")
    shutil.rmtree(first) if first.is_dir() else first.unlink()
    write(kind, first, {"id": [2, 4, 3], "x": [25.0, 40.0, 30.0]})

    ds = ingest(kind, first, dst, key="id", delete=True)

    report = ds.ingest_report
    assert (report.added, report.updated, report.deleted) == (1, 1, 1)
    assert dict(zip(ds["id"][:].tolist(), ds["x"][:].tolist(), strict=True)) == {
        3: 30.0,
        2: 25.0,
        4: 40.0,
    }


def test_arrays_of_different_lengths_are_named_with_those_that_go_together(kind, source, tmp_path):
    write(kind, source, {"mean": [1.0, 2.0]})

    with pytest.raises(InvalidInputError, match=r"mean: 2, .*\ningest .*columns=\['train/big', "):
        ingest(kind, source, str(tmp_path / "x.tl"))
    ds = ingest(kind, source, str(tmp_path / "x.tl"), columns=["x"])

    assert [*ds.schema] == ["x"]


def test_a_schema_makes_images_and_classes_of_arrays(kind, source, tmp_path):
    schema = {
        "train/image": tl.Image("png", mode="L"),
        "x": tl.ClassLabel([f"c{n}" for n in range(20)]),
    }
    ds = ingest(kind, source, str(tmp_path / "x.tl"), schema=schema, columns=[*schema])

    assert ds["train/image"][3].reshape(2, 3).tolist() == [[18, 19, 20], [21, 22, 23]]
    assert ds[7]["x"] == "c7"


def test_a_missing_column_and_a_scalar_are_named(kind, source, tmp_path):
    with pytest.raises(InvalidInputError, match="has no array 'y'\narrays: train/big, "):
        ingest(kind, source, "memory://array-files-none", columns=["y"])
    if kind == "hdf5":
        with h5py().File(source, "a") as file:
            file["one"] = 3
    else:
        zarr.open_group(source, mode="a").create_array("one", data=np.array(3))
    with pytest.raises(InvalidInputError, match=r"'one' of .* is one value, not rows"):
        ingest(kind, source, "memory://array-files-none")


def test_a_promise_of_rows_that_are_not_there_is_refused(kind, tmp_path):
    path = tmp_path / "x"
    if kind == "hdf5":
        with h5py().File(path, "w") as file:
            file.create_dataset("x", shape=(1 << 40,), chunks=(1 << 10,), dtype="i8")
    else:
        group = zarr.open_group(path, mode="w", zarr_format=2 if kind == "zarr2" else 3)
        group.create_array("x", shape=(1 << 40,), chunks=(1 << 10,), dtype="i8")

    with pytest.raises(
        InvalidInputError, match=r"'x' of .* promises 1,099,511,627,776|promises 8,"
    ):
        ingest(kind, path, "memory://array-files-promise")


def test_a_chunk_larger_than_memory_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(array_columns, "CHUNK_NBYTES_MAX", 1 << 10)
    path = write(kind, tmp_path / "x", {"x": np.zeros((2, 999))})

    with pytest.raises(InvalidInputError, match=r"chunks|rows of [\d,]+ bytes, and at most 1,024"):
        ingest(kind, path, "memory://array-files-chunk")


def files_of(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def test_damaged_and_cut_files_give_the_rows_or_an_error_of_ours(kind, source, tmp_path):
    draw = random.Random(7)
    whole = {one: one.read_bytes() for one in files_of(source)}
    for number in range(12):
        victim = draw.choice([*whole])
        content = bytearray(whole[victim])
        if number % 3 == 0:
            del content[draw.randrange(len(content)) :]
        else:
            for _ in range(3):
                content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        victim.write_bytes(content)
        try:
            rows = len(ingest(kind, source, f"memory://array-files-{kind}-{number}"))
        except tl.TensorlakeError as error:
            told = str(error)
            rows = 0
        else:
            told = source.name
        assert rows <= 20
        assert source.name in told, told
        victim.write_bytes(whole[victim])


# ---- of one format


def test_a_file_of_another_kind_is_refused(tmp_path):
    h5py()
    (tmp_path / "x.h5").write_bytes(b"hello")
    (tmp_path / "d").mkdir()

    with pytest.raises(InvalidInputError, match=r"x\.h5' is not HDF5, or damaged"):
        tl.ingest.hdf5(tmp_path / "x.h5", "memory://array-files-other")
    with pytest.raises(InvalidInputError, match="is not a Zarr array or group"):
        tl.ingest.zarr(tmp_path / "d", "memory://array-files-other")


def test_hdf5_has_strings_lists_and_enumerations(tmp_path):
    library = h5py()
    with library.File(tmp_path / "x.h5", "w") as file:
        file["text"] = np.array(["a", "é", ""], dtype=library.string_dtype())
        file["fixed"] = np.array([b"a", b"bc", b"d"])
        lists = file.create_dataset("lists", (3,), dtype=library.vlen_dtype(np.int32))
        lists[0], lists[2] = [1, 2], [3]
        names = library.enum_dtype({"cat": 0, "dog": 1}, basetype="u1")
        file.create_dataset("pet", data=[1, 0, 1], dtype=names)
    ds = tl.ingest.hdf5(tmp_path / "x.h5", str(tmp_path / "x.tl"))

    assert ds["text"][:] == ["a", "é", ""]
    assert ds["fixed"][:] == ["a", "bc", "d"]
    assert [one.tolist() for one in ds["lists"][:]] == [[1, 2], [], [3]]
    assert ds["pet"][:].as_names() == ["dog", "cat", "dog"]


def test_hdf5_files_of_a_folder_follow_each_other(tmp_path):
    for number in range(3):
        write("hdf5", tmp_path / f"{number}.h5", {"x": [number, number]})
    (tmp_path / "notes.txt").write_text("x")
    dst = str(tmp_path / "x.tl")
    ds = tl.ingest.hdf5(tmp_path, dst)
    assert ds["x"][:].tolist() == [0, 0, 1, 1, 2, 2]
    write("hdf5", tmp_path / "3.h5", {"x": [3]})
    assert tl.ingest.hdf5(tmp_path, dst).ingest_report.added == 1
    write("hdf5", tmp_path / "4.h5", {"y": [3]})
    with pytest.raises(InvalidInputError, match=r"'x' is missing in .*4\.h5', and is Scalar"):
        tl.ingest.hdf5(tmp_path, dst)


def test_hdf5_is_read_from_a_store(tmp_path):
    path = write("hdf5", tmp_path / "x.h5", {"x": [*range(5)]})
    assert tl.ingest.hdf5(path.as_uri(), "memory://array-files-url")["x"][:].tolist() == [*range(5)]


@pytest.mark.parametrize("trick", ["external link", "external storage", "virtual", "reference"])
def test_hdf5_does_not_follow_to_other_files(tmp_path, trick):
    library = h5py()
    secret = tmp_path / "secret.h5"
    write("hdf5", secret, {"x": [1, 2]})
    with library.File(tmp_path / "x.h5", "w") as file:
        match trick:
            case "external link":
                file["x"] = library.ExternalLink(str(secret), "/x")
            case "external storage":
                place = [(str(secret), 0, 16)]
                file.create_dataset("x", shape=(2,), dtype="i8", external=place)
            case "virtual":
                layout = library.VirtualLayout(shape=(2,), dtype="i8")
                layout[:] = library.VirtualSource(str(secret), "x", shape=(2,))
                file.create_virtual_dataset("x", layout)
            case _:
                file.create_dataset("x", (1,), dtype=library.ref_dtype)
    with pytest.raises(InvalidInputError, match=r"'x' of .*(other file|another file|references)"):
        tl.ingest.hdf5(tmp_path / "x.h5", "memory://array-files-trick")


def test_zarr_does_not_unpickle(tmp_path):
    path = write("zarr2", tmp_path / "x.zarr", {"x": [1, 2]})
    described = json.loads((path / "x" / ".zarray").read_text())
    described |= {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}], "fill_value": None}
    (path / "x" / ".zarray").write_text(json.dumps(described))

    with pytest.raises(InvalidInputError, match=r"'x' of .*unpickling"):
        tl.ingest.zarr(path, "memory://array-files-pickle")


def test_zarr_reads_text_sharded_arrays_and_an_array_alone(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("s", data=np.array(["a", "é", ""], dtype=object).astype("T"))
    group.create_array("x", data=np.arange(3), chunks=(1,), shards=(2,))
    zarr.create_array(tmp_path / "one.zarr", data=np.arange(6).reshape(3, 2))

    ds = tl.ingest.zarr(tmp_path / "x.zarr", str(tmp_path / "x.tl"))
    one = tl.ingest.zarr((tmp_path / "one.zarr").as_uri(), "memory://array-files-one")

    assert (ds["s"][:], ds["x"][:].tolist()) == (["a", "é", ""], [0, 1, 2])
    assert one["data"][:].tolist() == [[0, 1], [2, 3], [4, 5]]


# ---- what was exported


def png(n: int) -> Any:
    return np.full((2, 3, 3), n, np.uint8)


@pytest.fixture
def mixed(tmp_path: Path):
    moment = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    values: dict[str, tuple[Any, Callable[[int], Any]]] = {
        "image": (tl.Image("png"), png),
        "label": (tl.ClassLabel(["cat", "dog"]), lambda n: n % 2),
        "boxes": (tl.BBox(format="xywh"), lambda n: np.full((n % 3, 4), n + 1.0)),
        "wide": (tl.Array("int64", (None, None)), lambda n: np.full((n % 2, n), -n)),
        "half": (tl.Scalar("float16", nullable=True), lambda n: n / 2 if n % 3 else None),
        "text": (tl.Text(), lambda n: "é" * n),
        "note": (tl.Text(nullable=True), lambda n: None if n == 4 else "x" * n),
        "json": (tl.Json(nullable=True), lambda n: None if n == 1 else {"n": n}),
        "tags": (tl.Tags(), lambda n: ["a"] * (n % 2)),
        "id": (tl.Uuid(), lambda n: f"00000000-0000-0000-0000-00000000000{n}"),
        "day": (tl.Timestamp("s", is_date=True), lambda n: dt.date(2026, 1, n + 1)),
        "when": (tl.Timestamp("us", tz="UTC"), lambda n: moment + dt.timedelta(hours=n)),
        "maybe": (tl.Timestamp("ms", nullable=True), lambda n: None if n == 0 else "2026-01-01"),
        "seq": (tl.Sequence(tl.Text()), lambda n: ["q"] * n),
        "mask": (tl.InstanceMask(), lambda n: np.ones((n % 3, 4, 5), bool)),
        "tiled": (tl.Array("uint8", (8, 8), tiles=(4, 4)), lambda n: np.full((8, 8), n)),
    }
    schema = {name: kind for name, (kind, _) in values.items()}
    with tl.create(str(tmp_path / "mixed.tl"), schema) as ds:
        ds.extend({name: [make(n) for n in range(7)] for name, (_, make) in values.items()})
        ds.commit("seven")
        yield ds


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_what_was_written_is_the_same_tensors_again(mixed, tmp_path, kind, monkeypatch):
    if kind == "hdf5":
        h5py()
    monkeypatch.setattr(array_columns, "PIECE_NBYTES", 500)
    dst = str(tmp_path / "again.tl")
    getattr(mixed, f"to_{kind}")(tmp_path / "out")
    again = ingest(kind, tmp_path / "out", dst)

    assert dict(again.schema) == dict(sorted(mixed.schema.items()))
    columns = sorted(mixed.schema)
    assert again[columns].to_arrow().equals(mixed[columns].to_arrow())
    assert ingest(kind, tmp_path / "out", dst).ingest_report.added == 0


def test_h5py_reads_what_is_written(mixed, tmp_path):
    library = h5py()
    mixed.to_hdf5(tmp_path / "x.h5")
    with library.File(tmp_path / "x.h5") as file:
        assert file["label"][:].tolist() == [n % 2 for n in range(7)]
        assert json.loads(file["label"].attrs["names"]) == ["cat", "dog"]
        assert file["text"].asstr()[3] == "ééé"
        start, stop = file["image/offsets"][2:4]
        assert file["image/values"][start:stop].tobytes() == mixed["image"].bytes(2)
        assert file["boxes/shapes"][2].tolist() == [2, 4]
        assert file["half/valid"][:3].tolist() == [False, True, True]
    with pytest.raises(InvalidInputError, match="is there already"):
        mixed.to_hdf5(tmp_path / "x.h5")


def test_hdf5_has_attributes_of_many_classes_and_refuses_what_it_lacks(tmp_path):
    library = h5py()
    names = [f"class number {n}" for n in range(20_000)]
    schema = {"y": tl.ClassLabel(names), "t": tl.Text(), "b": "bfloat16"}
    with tl.create(str(tmp_path / "x.tl"), schema) as ds:
        ds.append({"y": 19_999, "t": "a\0b", "b": 1.0})
        ds.commit("one")
        ds.to_hdf5(tmp_path / "x.h5", columns=["y"])
        with pytest.raises(InvalidInputError, match="row 0 of 't' has the character NUL"):
            ds.to_hdf5(tmp_path / "t.h5", columns=["t"])
        with pytest.raises(UnsupportedFeatureError, match="does not support 'b'"):
            ds.to_hdf5(tmp_path / "b.h5", columns=["b"])
    with library.File(tmp_path / "x.h5") as file:
        assert json.loads(file["y"].attrs["names"]) == names
    assert (
        tl.ingest.hdf5(tmp_path / "x.h5", "memory://array-files-many")["y"].names[-1] == names[-1]
    )
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.h5", "x.tl"]


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        ("shapes", np.full((7, 2), 3), "do not divide"),
        ("shapes", np.full((7, 2), -1), "negative"),
        ("shapes", np.full((7, 2), 1 << 62), "do not divide"),
        ("shapes", np.zeros(7), "not integers"),
        ("offsets", np.arange(8), "do not divide"),
        ("offsets", np.array([0, 9, 5, 9, 9, 9, 9, 1 << 40]), "do not divide"),
        ("values", np.zeros(3), "another dtype"),
        ("valid", np.ones(9, bool), "not 7 booleans"),
    ],
)
def test_parts_that_do_not_fit_are_refused(mixed, tmp_path, part, value, why):
    name = {"shapes": "wide", "valid": "half"}.get(part, "image")
    mixed.to_zarr(tmp_path / "x.zarr", columns=[name])
    group = zarr.open_group(tmp_path / "x.zarr", mode="a")
    del group[f"{name}/{part}"]
    group[name].create_array(part, data=value)

    with pytest.raises(InvalidInputError, match=f"'{name}' of .*{why}"):
        tl.ingest.zarr(tmp_path / "x.zarr", f"memory://array-files-parts-{part}-{value.size}")


@pytest.mark.parametrize("written", ["no", {"kind": "x"}, {"kind": "array"}, 3, {"kind": "link"}])
def test_a_type_that_is_none_is_refused(tmp_path, written):
    path = write("zarr", tmp_path / "x.zarr", {"x": [1, 2]})
    zarr.open_group(path, mode="a")["x"].attrs["tensorlake"] = written

    with pytest.raises(InvalidInputError, match=r"'x' of .*(not a type|links)"):
        tl.ingest.zarr(path, "memory://array-files-type")


@pytest.mark.parametrize("out", ["hdf5", "zarr"])
def test_what_was_written_comes_back_byte_for_byte(out: str, tmp_path: Path) -> None:
    """Empty bytes beside NULL, files in lists, masks without instances, axes of length 0."""
    if out == "hdf5":
        h5py()
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    photo = simplejpeg.encode_jpeg(pixels, quality=30)
    ds = tl.create(
        f"memory://arrays-bytes-{out}",
        {
            "maybe": tl.Bytes(nullable=True),
            "raw": tl.Bytes(),
            "mask": tl.InstanceMask(),
            "none": tl.Array("float32", (0,)),
            "complex": "complex64",
            "frames": tl.Sequence(tl.Image("jpeg")),
            "any": tl.Sequence(tl.Image("any")),
        },
    )
    ds.extend(
        {
            "maybe": [None, b"", b"x"],
            "raw": [b"a", b"", b"c"],
            "mask": [np.zeros((0, 480, 640), bool), np.ones((1, 2, 3), bool), []],
            "none": np.zeros((3, 0)),
            "complex": [1.5 + 2j, 3j, 1],
            "frames": [[photo], [], [photo, photo]],
            "any": [[photo], [], [photo, photo]],
        }
    )
    ds.commit("all")

    ds.export(out, tmp_path / "out")
    back = ingest(out, tmp_path / "out", f"memory://arrays-bytes-{out}-back")

    assert dict(back.schema) == dict(ds.schema)
    assert [row["maybe"] for row in back] == [None, b"", b"x"]
    assert back["raw"][:] == [b"a", b"", b"c"]
    assert [row["mask"].shape for row in back] == [(0, 480, 640), (1, 2, 3), (0, 0, 0)]
    assert back["complex"][:].tolist() == [1.5 + 2j, 3j, 1]
    for name in ("frames", "any"):
        assert [len(row[name]) for row in back] == [1, 0, 2]
        for row, other in zip(ds, back, strict=True):
            assert all(map(np.array_equal, row[name], other[name]))


def test_complex_numbers_are_ingested(kind: str, tmp_path: Path) -> None:
    path = write(kind, tmp_path / "c", {"c": np.array([1 + 2j, 3]), "k": np.ones((2, 3), "c8")})

    ds = ingest(kind, path, f"memory://arrays-complex-{kind}")

    assert dict(ds.schema) == {"c": tl.Scalar("complex128"), "k": tl.Array("complex64", (3,))}
    assert ds["c"][:].tolist() == [1 + 2j, 3]


def test_arrays_of_no_rows_are_an_empty_dataset(kind: str, tmp_path: Path) -> None:
    path = write(kind, tmp_path / "e", {"x": np.zeros((0, 3), np.float32)})

    ds = ingest(kind, path, f"memory://arrays-no-rows-{kind}")

    assert (len(ds), dict(ds.schema)) == (0, {"x": tl.Array("float32", (3,))})
