"""Out into CSV, JSON lines, NumPy and zarr: read by those libraries, and back."""

import datetime as dt
import gzip
import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import simplejpeg
import zarr

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError

SEEN = dt.datetime(2026, 1, 31, 12, 30, 0, 250_000, tzinfo=dt.UTC)
FLAT = ["label", "score", "half", "flag", "count", "caption", "seen", "meta"]


def jpeg(seed: int) -> bytes:
    return simplejpeg.encode_jpeg(np.full((4, 6, 3), 10 * seed, np.uint8))


@pytest.fixture(scope="module")
def ds():
    made = tl.create(
        "memory://tables-out",
        {
            "image": tl.Image("jpeg"),
            "label": tl.ClassLabel(["cat", "dog"]),
            "score": "float32",
            "half": "float16",
            "flag": tl.Bool(),
            "count": tl.Scalar("int64", nullable=True),
            "caption": tl.Text(nullable=True),
            "seen": tl.Timestamp("ms", tz="UTC"),
            "meta": tl.Json(),
            "boxes": tl.BBox(of="image"),
            "kinds": tl.ClassLabel(["a", "b"], multi=True),
            "vector": tl.Embedding(3),
            "grid": tl.Array("int16", (2, 3)),
            "words": tl.Tags(),
            "clip": tl.Sequence(tl.Image("jpeg")),
        },
    )
    made.extend(
        {
            "image": [jpeg(i) for i in range(3)],
            "label": [1, 0, 1],
            "score": [0.5, 0.25, -1e9],
            "half": [0.5, 1, 2],
            "flag": [True, False, True],
            "count": [1, None, 2**53 + 1],
            "caption": ['said "no", twice', None, ""],
            "seen": [SEEN, SEEN, SEEN],
            "meta": [{"k": [1, None]}, "x", 7],
            "boxes": [np.full((i, 4), i) for i in range(3)],
            "kinds": [[0, 1], [], [1]],
            "vector": np.arange(9).reshape(3, 3),
            "grid": np.arange(18).reshape(3, 2, 3),
            "words": [["ü"], [], ["a", "b"]],
            "clip": [[jpeg(1)], [], [jpeg(2), jpeg(3)]],
        }
    )
    made.commit("three")
    return made


# ---- CSV


def test_csv_is_read_by_pandas_and_polars(ds, tmp_path):
    ds.to_csv(tmp_path / "x.csv", columns=FLAT)

    frame = pd.read_csv(tmp_path / "x.csv", dtype={"count": "Int64"})
    assert list(frame.columns) == FLAT
    assert frame["label"].tolist() == ["dog", "cat", "dog"]
    assert frame["score"].tolist() == [0.5, 0.25, -1e9]
    assert frame["flag"].tolist() == [True, False, True]
    assert frame["count"].tolist() == [1, pd.NA, 2**53 + 1]
    assert frame["caption"][0] == 'said "no", twice'
    assert pd.to_datetime(frame["seen"])[0] == pd.Timestamp(SEEN)
    assert [json.loads(one) for one in frame["meta"][:2]] == [{"k": [1, None]}, "x"]
    assert pl.read_csv(tmp_path / "x.csv")["half"].to_list() == [0.5, 1, 2]


def test_csv_ingested_again_has_the_same_values(ds, tmp_path):
    names = ["label", "score", "flag", "count"]
    ds.to_csv(tmp_path / "x.csv.gz", columns=names, delimiter=";")

    again = tl.ingest.csv(
        tmp_path / "x.csv.gz",
        "memory://tables-csv-again",
        delimiter=";",
        schema={name: ds.schema[name] for name in names},
    )

    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()).startswith(b'"label";"score"')
    assert again.to_arrow() == ds.to_arrow(names)


def test_csv_has_rows_as_they_are_chosen_and_what_a_query_computed(ds, tmp_path):
    ds.query("SELECT label, score * 2 AS twice ORDER BY score").to_csv(tmp_path / "x.csv")

    assert (tmp_path / "x.csv").read_text() == (
        '"label","twice"\n"dog",-2000000000\n"cat",0.5\n"dog",1\n'
    )


@pytest.mark.parametrize(
    ("name", "told"), [("boxes", "BBox"), ("vector", "Embedding"), ("words", "Tags")]
)
def test_csv_has_no_cell_for_arrays(ds, tmp_path, name, told):
    with pytest.raises(
        UnsupportedFeatureError, match=rf"does not support '{name}', which is {told}"
    ):
        ds.to_csv(tmp_path / "x.csv", columns=["score", name])

    assert list(tmp_path.iterdir()) == []


def test_delimiter_that_would_not_delimit_is_refused(ds, tmp_path):
    for delimiter in ("", ", ", '"', "\n", "é"):
        with pytest.raises(InvalidInputError, match="one ASCII character"):
            ds.to_csv(tmp_path / "x.csv", columns=["score"], delimiter=delimiter)


# ---- JSON lines


def test_json_lines_are_read_by_anyone(ds, tmp_path):
    names = [*FLAT, "boxes", "kinds", "vector", "grid", "words"]
    ds.to_jsonl(tmp_path / "x.jsonl", columns=names)

    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == ["dog", "cat", "dog"]
    assert [row["count"] for row in rows] == [1, None, 2**53 + 1]
    assert [row["caption"] for row in rows] == ['said "no", twice', None, ""]
    assert dt.datetime.fromisoformat(rows[0]["seen"]) == SEEN
    assert [row["meta"] for row in rows] == [{"k": [1, None]}, "x", 7]
    assert rows[2]["boxes"] == [[2] * 4] * 2
    assert [row["kinds"] for row in rows] == [["a", "b"], [], ["b"]]
    assert rows[1]["grid"] == [[6, 7, 8], [9, 10, 11]]
    assert [row["words"] for row in rows] == [["ü"], [], ["a", "b"]]
    assert pl.read_ndjson(tmp_path / "x.jsonl")["vector"].to_list()[1] == [3, 4, 5]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.zst"])
def test_json_lines_ingested_again_are_the_same_rows(ds, tmp_path, ending):
    names = ["label", "score", "caption", "boxes", "kinds", "vector", "words"]
    ds.to_jsonl(tmp_path / f"x{ending}", columns=names)

    again = tl.ingest.jsonl(
        tmp_path / f"x{ending}",
        f"memory://tables-again{ending}",
        schema={name: ds.schema[name] for name in names},
    )

    assert again.to_arrow(names) == ds.to_arrow(names)


def test_nan_is_refused_where_it_stands(tmp_path):
    ds = tl.create("memory://tables-nan", {"a": "int64", "x": "float32"})
    ds.extend({"a": [1, 2], "x": [1, float("nan")]})

    refusal = "row 1 of 'x' holds a number that JSON does not support"
    with pytest.raises(InvalidInputError, match=refusal):
        ds.to_jsonl(tmp_path / "x.jsonl")
    assert list(tmp_path.iterdir()) == []
    ds.discard()


@pytest.mark.parametrize("name", ["image", "clip"])
def test_text_has_no_form_for_images(ds, tmp_path, name):
    for write in (ds.to_csv, ds.to_jsonl):
        with pytest.raises(UnsupportedFeatureError, match=f"does not support '{name}'"):
            write(tmp_path / "x", columns=[name])


# ---- NumPy


def test_arrays_in_memory_are_what_the_types_say(ds):
    arrays = ds[[2, 0]].to_numpy(columns=["_row", "label", "vector", "boxes", "image", "caption"])

    assert arrays["_row"].tolist() == [2, 0]
    assert arrays["label"].dtype == np.int64
    assert arrays["label"].tolist() == [1, 1]
    assert arrays["vector"].shape == (2, 3)
    assert [box.shape for box in arrays["boxes"]] == [(2, 4), (0, 4)]
    assert arrays["image"].tolist() == [jpeg(2), jpeg(0)]
    assert arrays["caption"].tolist() == ["", 'said "no", twice']


def test_numpy_file_is_read_without_pickles_and_comes_back(tmp_path):
    ds = tl.create(
        "memory://tables-npz",
        {"x": tl.Array("float32", (2,)), "b": tl.BBox(), "s": tl.Text(), "file": "int64"},
    )
    ds.extend({"x": [[1, 2], [3, 4]], "b": [[], [[1, 2, 3, 4]]], "s": ["a", "üb"], "file": [7, 8]})
    ds.commit("two")

    ds.to_numpy(tmp_path / "x.npz")

    with np.load(tmp_path / "x.npz", allow_pickle=False) as loaded:
        assert loaded["x"].tolist() == [[1, 2], [3, 4]]
        assert loaded["b.values"].tolist() == [1, 2, 3, 4]
        assert loaded["b.shapes"].tolist() == [[0, 4], [1, 4]]
        assert loaded["s"].tolist() == ["a", "üb"]
        assert loaded["file"].tolist() == [7, 8]
    again = tl.ingest.numpy(tmp_path / "x.npz", "memory://tables-npz-again")
    assert again["b"].shapes().tolist() == [[0, 4], [1, 4]]
    assert again["s"][:] == ["a", "üb"]
    again = tl.ingest.numpy(tmp_path / "x.npz", "memory://tables-npz-typed", schema=ds.schema)
    assert again.to_arrow() == ds.to_arrow()


def test_numpy_file_refuses_what_it_would_lose(ds, tmp_path):
    text = tl.create("memory://tables-nul", {"s": "str"})
    text.extend({"s": ["a", "b\0"]})

    with pytest.raises(InvalidInputError, match="row 1 of 's' ends in a NUL"):
        text.to_numpy(tmp_path / "x.npz")
    with pytest.raises(InvalidInputError, match=r"'count' is NULL in 1 of 3 rows"):
        ds.to_numpy(tmp_path / "x.npz", columns=["count"])
    with pytest.raises(UnsupportedFeatureError, match=r"does not support 'image' \(Image"):
        ds.to_numpy(tmp_path / "x.npz")
    assert list(tmp_path.iterdir()) == []
    text.discard()


def test_shapes_that_do_not_cut_the_values_are_refused(tmp_path):
    for shapes in ([[1], [1]], [3], [[-1], [4]]):
        np.savez(tmp_path / "x.npz", **{"x.values": np.arange(3), "x.shapes": np.array(shapes)})

        with pytest.raises(InvalidInputError, match=r"'x.shapes' .* does not say how 'x.values'"):
            tl.ingest.numpy(tmp_path / "x.npz", "memory://tables-npz-refused")


# ---- zarr


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_zarr_reads_the_group(ds, tmp_path, place):
    dst = tmp_path / "x.zarr" if place == "folder" else None

    group = ds.to_zarr(dst)

    if dst is not None:
        group = zarr.open_group(str(dst), mode="r")
    assert group["vector"][:].tolist() == ds["vector"][:].tolist()
    assert group["grid"][1].tolist() == ds["grid"][1].tolist()
    assert group["label"][:].tolist() == [1, 0, 1]
    assert group["label"].attrs["names"] == ["cat", "dog"]
    assert group["seen"][0] == np.datetime64("2026-01-31T12:30:00.250")
    assert group["boxes/shapes"][:].tolist() == [[0, 4], [1, 4], [2, 4]]
    assert group["boxes/values"][:].tolist() == [1] * 4 + [2] * 8
    start, stop = group["image/offsets"][1:3]
    assert group["image/values"][start:stop].tobytes() == jpeg(1)
    assert group["count/values"][:].tolist() == [1, 0, 2**53 + 1]
    assert group["count/valid"][:].tolist() == [True, False, True]
    assert group.attrs["version"] == ds.version
    assert group["grid"].attrs["tensorlake"] == ds.schema["grid"].to_json()


def test_zarr_arrays_grow_batch_by_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("tensorlake.dataset.export.arrays.layout.ROWS_AT_ONCE", 2)
    schema = {"s": "str", "x": "int64", "r": tl.Array("int8", (None,), nullable=True)}
    ds = tl.create("memory://tables-zarr-grows", schema)
    ds.extend({"s": list("abcde"), "x": range(5), "r": [[1], [], [2, 3], None, [4]]})

    group = ds.to_zarr(tmp_path / "x.zarr")

    assert group["s"][:].tolist() == list("abcde")
    assert group["x"][:].tolist() == [0, 1, 2, 3, 4]
    assert group["r/values"][:].tolist() == [1, 2, 3, 4]
    assert group["r/shapes"][:].tolist() == [[1], [0], [2], [0], [1]]
    assert group["r/valid"][:].tolist() == [True, True, True, False, True]
    ds.discard()


def test_zarr_group_of_no_rows_is_whole(ds):
    group = ds[:0].to_zarr()

    assert group["vector"].shape == (0, 3)
    assert group["image/offsets"][:].tolist() == [0]


def test_tensors_inside_one_another_are_no_zarr_group():
    ds = tl.create("memory://tables-zarr-inside", {"a": "int64", "a/values": "int64"})

    with pytest.raises(UnsupportedFeatureError, match="'a/values' would lie inside the array 'a'"):
        ds.to_zarr()


def test_whole_row_fits_through_every_text_writer_twice(ds, tmp_path):
    for kind in ("csv", "jsonl", "numpy", "zarr"):
        write = getattr(ds, f"to_{kind}")
        write(tmp_path / kind, columns=["label", "score"])

        with pytest.raises(InvalidInputError, match="is there already"):
            write(tmp_path / kind, columns=["label", "score"])
        write(tmp_path / kind, columns=["label"], overwrite=True)
    assert pd.read_csv(io.BytesIO((tmp_path / "csv").read_bytes())).columns.tolist() == ["label"]
