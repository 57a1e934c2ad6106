"""Ingestion of tables and datasets in memory: what they say is in the dataset."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.errors import InvalidInputError

RNG = np.random.default_rng(5)


def jpeg(seed: int, height: int = 12, width: int = 10) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels)


@pytest.fixture
def dst(request):
    return f"memory://formats-{request.node.name}".replace("[", "-").replace("]", "")


# ---- tables

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "score": pa.array([0.5, None, 1.5]),
        "name": ["a", "ü", ""],
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "vector": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        "tokens": pa.array([[1, 2], [], [3]], pa.list_(pa.int16())),
        "boxes": pa.array([[[1.0, 2.0]], [], [[3.0, 4.0], [5.0, 6.0]]]),
        "words": pa.array([["a"], [], ["b", "c"]]),
        "at": pa.array([dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]),
        "day": pa.array([dt.date(2026, 1, day) for day in (1, 2, 3)]),
        "meta": pa.array([{"a": 1, "b": [1]}, {"a": 2, "b": []}, {"a": 3, "b": None}]),
        "ok": [True, False, True],
        "raw": pa.array([b"\x00", b"", b"\xff"]),
        "photo": pa.array([{"bytes": jpeg(i), "path": None} for i in range(3)]),
    }
)


def check_table(ds, *, nullable=False):
    assert ds["id"][:].tolist() == [1, 2, 3]
    assert ds["id"].type.dtype == np.int32 or nullable
    assert [ds[i]["score"] for i in range(3)] == [0.5, None, 1.5]
    assert ds["name"][:] == ["a", "ü", ""]
    assert ds["vector"][:].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert [row.tolist() for row in ds["tokens"][:]] == [[1, 2], [], [3]]
    assert [row.tolist() for row in ds["boxes"][:]] == [[[1, 2]], [], [[3, 4], [5, 6]]]
    assert ds["words"][:] == [["a"], [], ["b", "c"]]
    assert ds["at"][:].tolist() == [dt.datetime(2026, 1, day) for day in (1, 2, 3)]  # noqa: DTZ001 - naive, as numpy has it
    assert ds[1]["at"] == dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    assert ds["day"][2] == dt.date(2026, 1, 3)
    assert ds["meta"][:] == [{"a": 1, "b": [1]}, {"a": 2, "b": []}, {"a": 3, "b": None}]
    assert ds["ok"][:].tolist() == [True, False, True]
    assert ds["raw"][:] == [b"\x00", b"", b"\xff"]
    assert ds["photo"].bytes(1) == jpeg(1)


def test_arrow_table_keeps_every_column(dst):
    ds = tl.ingest.arrow(TABLE, dst)

    check_table(ds)
    assert ds["kind"].names == ("x", "y")
    assert (ds["kind"][:] == ["x", "y", "x"]).all()
    assert not ds.schema["id"].nullable


def test_parquet_files_keep_every_column(dst, tmp_path):
    pq.write_table(TABLE.slice(0, 2), tmp_path / "a.parquet")
    pq.write_table(TABLE.slice(2), tmp_path / "b.parquet")

    ds = tl.ingest.parquet(tmp_path, dst, columns=[n for n in TABLE.column_names if n != "kind"])

    check_table(ds, nullable=True)


def test_dataframe_and_c_stream_are_tables(dst):
    frame = pd.DataFrame({"x": [1, 2], "t": ["a", "b"]})

    ds = tl.ingest.arrow(frame, dst)

    assert ds["x"][:].tolist() == [1, 2]
    assert ds["t"][:] == ["a", "b"]


def test_the_index_of_a_frame_that_a_dataset_gave_is_left_behind(dst):
    with tl.create(f"{dst}-first", {"x": "int64"}) as first:
        first.extend({"x": [1, 2]})
        first.commit()
        frame = first.to_pandas()

    assert frame.index.name == "_row"
    assert list(tl.ingest.arrow(frame, dst).tensors) == ["x"]


def test_what_is_no_table_is_refused(dst):
    with pytest.raises(InvalidInputError, match="takes a table, got list"):
        tl.ingest.arrow([1, 2], dst)


def test_schema_overrides_the_guess_and_names_what_is_no_column(dst):
    ds = tl.ingest.arrow(pa.table({"x": [0, 1]}), dst, schema={"x": tl.ClassLabel(["a", "b"])})

    assert (ds["x"][:] == ["a", "b"]).all()
    with pytest.raises(InvalidInputError, match=r"unknown columns \['y'\]; columns: x"):
        tl.ingest.arrow(pa.table({"x": [0]}), f"{dst}-2", schema={"y": "int64"})


def test_column_that_no_tensor_holds_is_named(dst):
    table = pa.table({"d": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})

    with pytest.raises(InvalidInputError, match=r"column 'd' is month_day_nano_interval"):
        tl.ingest.arrow(table, dst)


def test_features_of_hugging_face_are_heeded(dst, tmp_path):
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    table = pa.table({"label": [1, 0]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    pq.write_table(table, tmp_path / "x.parquet")

    ds = tl.ingest.parquet(tmp_path / "x.parquet", dst)

    assert (ds["label"][:] == ["dog", "cat"]).all()


def csv_files(folder: Path, *, compress: bool) -> None:
    texts = ["a,b,c\n1,x,0.5\n2,,1\n", "a,b,c\n3,z,2\n"]
    for number, text in enumerate(texts):
        if compress:
            (folder / f"{number}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{number}.csv").write_text(text)


@pytest.mark.parametrize("compress", [False, True])
def test_csv_files_are_read_line_by_line(dst, tmp_path, compress):
    csv_files(tmp_path, compress=compress)

    ds = tl.ingest.csv(tmp_path, dst)

    assert ds["a"][:].tolist() == [1, 2, 3]
    assert [row["b"] for row in ds] == ["x", None, "z"]
    assert ds["c"][:].tolist() == [0.5, 1, 2]


def test_csv_types_fit_the_last_lines_too(dst, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    (tmp_path / "b.csv").write_text("x\n2.5\n")

    assert tl.ingest.csv(tmp_path, dst)["x"][:].tolist() == [1, 2, 2.5]


def test_csv_in_pieces_is_the_whole_file(dst, tmp_path, monkeypatch):
    monkeypatch.setattr("tensorlake.ingest.tables.line_files.PIECE_NBYTES", 64)
    lines = [f"{i},{'é' * (i % 40)}" for i in range(500)]
    (tmp_path / "x.csv").write_text("n,t\n" + "\n".join(lines) + "\n")

    ds = tl.ingest.csv(tmp_path / "x.csv", dst)

    assert ds["n"][:].tolist() == list(range(500))
    assert [row["t"] for row in ds] == ["é" * (i % 40) or None for i in range(500)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2,3\n", "line 2 of x.csv: 3 values for 2 columns"),
        ("a\n1\nx\n", None),
        ("", "x.csv"),
    ],
)
def test_bad_csv_is_named(dst, tmp_path, text, words):
    (tmp_path / "x.csv").write_text(text)

    if words is None:
        assert tl.ingest.csv(tmp_path / "x.csv", dst)["a"][:] == ["1", "x"]
        return
    with pytest.raises(InvalidInputError, match=words):
        tl.ingest.csv(tmp_path / "x.csv", dst)


def test_csv_without_a_line_of_names_is_given_them(dst, tmp_path):
    (tmp_path / "a.csv").write_text("5,x\n5,y\n")
    (tmp_path / "b.csv").write_text("7,z")

    ds = tl.ingest.csv(tmp_path, dst, names=["n", "text"])

    assert ds["n"][:].tolist() == [5, 5, 7]
    assert ds["text"][:] == ["x", "y", "z"]


@pytest.mark.parametrize("names", [[], "ab", ["a", "a"], ["a", " "], ["a", 1], 3])
def test_column_names_that_are_none_are_refused(dst, tmp_path, names):
    (tmp_path / "a.csv").write_text("5,x\n")

    with pytest.raises(InvalidInputError, match=r"names=.*: give a list of different column names"):
        tl.ingest.csv(tmp_path, dst, names=names)


@pytest.mark.parametrize(("text", "told"), [("5,5\n", "two columns '5'"), ("5,\n", "no name for")])
def test_first_line_of_values_is_told_with_the_way_out(dst, tmp_path, text, told):
    (tmp_path / "a.csv").write_text(text)

    with pytest.raises(InvalidInputError, match=rf"{told}.*\nfix it; .* names=\[…\]"):
        tl.ingest.csv(tmp_path, dst)


def test_csv_files_of_other_columns_are_refused(dst, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("y\n1\n")

    with pytest.raises(InvalidInputError, match=r"b\.csv' has other columns"):
        tl.ingest.csv(tmp_path, dst)


def test_json_lines_become_rows(dst, tmp_path):
    rows = [{"id": i, "text": f"t{i}", "meta": {"k": [i]}} for i in range(5)]
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps(row) for row in rows))

    ds = tl.ingest.jsonl(tmp_path / "x.jsonl", dst)

    assert ds["id"][:].tolist() == list(range(5))
    assert ds["text"][:] == [row["text"] for row in rows]
    assert ds["meta"][:] == [row["meta"] for row in rows]


def test_json_lines_take_only_what_the_schema_names(dst, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a", "other": 1}\n{"text": "b"}\n')

    ds = tl.ingest.jsonl(tmp_path / "*.jsonl", dst, schema={"text": tl.Text()})

    assert list(ds.schema) == ["text"]
    assert ds["text"][:] == ["a", "b"]


@pytest.mark.parametrize("text", ["{", "[1]\n", '{"a": 1}\n{"a": "x"}\n'])
def test_bad_json_lines_are_named(dst, tmp_path, text):
    (tmp_path / "x.jsonl").write_text(text)

    with pytest.raises(InvalidInputError, match=r"x\.jsonl"):
        tl.ingest.jsonl(tmp_path / "x.jsonl", dst)


@pytest.mark.parametrize(
    "ingest", [tl.ingest.csv, tl.ingest.jsonl, tl.ingest.parquet, tl.ingest.webdataset]
)
def test_no_file_is_an_error(dst, tmp_path, ingest):
    for src in (tmp_path / "none", tmp_path, str(tmp_path / "*.x")):
        with pytest.raises(InvalidInputError, match="no file"):
            ingest(src, dst)


def test_table_is_taken_once_however_often(dst):
    tl.ingest.arrow(TABLE, dst)

    ds = tl.ingest.arrow(TABLE, dst)

    assert len(ds) == 3
    assert (ds.ingest_report.rows, ds.ingest_report.already_there) == (0, 3)


def test_run_that_stopped_goes_on_where_it_stopped(dst, tmp_path):
    """A bad row in the third file stops the first call; mended, nothing is taken twice."""
    for number in range(4):
        rows = {"x": [number * 10 + i for i in range(3)], "p": [jpeg(i) for i in range(3)]}
        if number == 2:
            rows["p"][1] = b"broken"
        pq.write_table(pa.table(rows), tmp_path / f"{number}.parquet")
    call = {"commit_every": "1kB", "schema": {"p": tl.Image("jpeg")}}

    with pytest.raises(InvalidInputError, match=r"row 1 of 2\.parquet"):
        tl.ingest.parquet(tmp_path, dst, **call)
    stopped = tl.open(dst)
    assert stopped["x"][:].tolist() == [0, 1, 2, 10, 11, 12]
    rows["p"][1] = jpeg(1)
    good = {"x": [20, 21, 22], "p": [jpeg(i) for i in range(3)]}
    pq.write_table(pa.table(good), tmp_path / "2.parquet")
    ds = tl.ingest.parquet(tmp_path, dst, **call)

    assert ds["x"][:].tolist() == [n * 10 + i for n in range(4) for i in range(3)]
    assert ds.ingest_report.already_there == 6


def test_quarantine_keeps_what_was_refused(dst, tmp_path):
    photos = [jpeg(0), b"\xff\xd8\xffbroken", jpeg(2)]
    table = pa.table({"x": [1, 2, 3], "p": photos})

    ds = tl.ingest.arrow(table, dst, schema={"p": tl.Image("jpeg")}, on_error="quarantine")

    kept = tl.open(ds.ingest_report.quarantine)
    assert ds["x"][:].tolist() == [1, 3]
    assert kept["item"][:] == ["row 1 of the table"]
    assert kept["content"][:] == [photos[1]]
    assert kept["values"][0]["x"] == 2
    assert "not a whole JPEG" in kept["reason"][0]


@pytest.mark.parametrize("options", [{"on_error": "ignore"}, {"workers": 0}, {"commit_every": "x"}])
def test_impossible_options_are_refused(dst, options):
    with pytest.raises(InvalidInputError):
        tl.ingest.arrow(TABLE, dst, **options)


# ---- arrays and datasets in memory


def test_numpy_files_become_tensors(dst, tmp_path):
    x, y = RNG.random((5, 2, 3)), np.arange(5)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "xy.npz", x=x, y=y)

    assert np.array_equal(tl.ingest.numpy(tmp_path / "x.npy", f"{dst}-1")["data"][:], x)
    both = tl.ingest.numpy(tmp_path / "xy.npz", f"{dst}-2")
    assert np.array_equal(both["x"][:], x)
    assert np.array_equal(both["y"][:], y)


def test_numpy_pickles_and_unequal_arrays_are_refused(dst, tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)

    with pytest.raises(InvalidInputError, match="holds Python objects"):
        tl.ingest.numpy(tmp_path / "o.npy", dst)
    with pytest.raises(InvalidInputError, match="x: 2, y: 3"):
        tl.ingest.numpy({"x": [1, 2], "y": [1, 2, 3]}, dst)


class Squares:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return PIL.Image.fromarray(np.full((4, 4 + i, 3), i, np.uint8)), i * i


def test_samples_of_a_torch_dataset_are_what_the_schema_says(dst):
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    stored = simplejpeg.encode_jpeg(pixels)
    samples = [{"name": "a", "image": stored, "n": 1}]  # as LitData and MDS keep files

    with pytest.raises(tl.InvalidInputError, match=r"schema=\{'image': …\}"):
        tl.ingest.torch(samples, dst)
    ds = tl.ingest.torch(samples, dst, schema={"image": tl.Image("jpeg"), "n": "int16"})

    assert list(ds.schema) == ["name", "image", "n"]
    assert ds["image"].bytes(0) == stored
    assert ds["n"].dtype == np.int16


def test_dataset_of_torch_is_ingested_by_index(dst):
    ds = tl.ingest.torch(Squares(), dst, names=("image", "n"))

    assert ds["n"][:].tolist() == [0, 1, 4, 9, 16, 25]
    assert ds[5]["image"].shape == (4, 9, 3)
    with pytest.raises(InvalidInputError, match="name them"):
        tl.ingest.torch(Squares(), f"{dst}-2")


class Rows:
    """What tl.ingest.huggingface asks of a datasets.Dataset."""

    features: dict = {}  # noqa: RUF012 - never changed
    _fingerprint = "f"

    def __init__(self, table):
        self.table = table

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def __len__(self):
        return len(self.table)

    def __getitem__(self, rows):
        return self.table[rows]


def test_dataset_of_hugging_face_is_ingested_as_arrow(dst):
    ds = tl.ingest.huggingface(Rows(TABLE.drop_columns(["kind"])), dst)

    check_table(ds)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 2), pa.list_(pa.float32())])
def test_null_within_an_array_is_kept_or_refused_and_never_nan(dst, kind):
    table = pa.table({"x": pa.array([[1, 2], [3, None]], kind)})

    assert tl.ingest.arrow(table, dst)["x"][:] == [[1, 2], [3, None]]

    with pytest.raises(tl.TensorlakeError, match="'x' expects float32 of shape"):
        tl.ingest.arrow(table, f"{dst}-declared", schema={"x": tl.Array("float32", (2,))})


def test_null_array_of_fixed_length_stays_null(dst):
    table = pa.table({"x": pa.array([[1, 2], None], pa.list_(pa.float32(), 2))})

    ds = tl.ingest.arrow(table, dst)

    assert ds[0]["x"].tolist() == [1, 2]
    assert ds[1]["x"] is None
