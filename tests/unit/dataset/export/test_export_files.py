"""Out into files: what foreign readers find, what comes back, what is refused."""

from __future__ import annotations

import ast
import gc
import itertools
import json
import re
import tarfile

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import simplejpeg
import webdataset

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError


def jpeg(seed: int) -> bytes:
    return simplejpeg.encode_jpeg(np.full((4, 6, 3), 10 * seed, np.uint8))


@pytest.fixture
def ds(request):
    made = tl.create(
        f"memory://files-{abs(hash(request.node.name))}",
        {
            "image": tl.Image("jpeg"),
            "label": tl.ClassLabel(["cat", "dog"]),
            "caption": tl.Text(),
            "boxes": tl.BBox(of="image"),
            "vector": tl.Embedding(3),
            "score": "float32",
            "flag": tl.Bool(),
            "meta": tl.Json(),
            "raw": tl.Bytes(),
        },
    )
    made.extend(
        {
            "image": [jpeg(i) for i in range(5)],
            "label": [0, 1, 0, 1, 1],
            "caption": [f"ü{i}" for i in range(5)],
            "boxes": [np.full((i, 4), i) for i in range(5)],
            "vector": np.arange(15).reshape(5, 3),
            "score": np.arange(5) / 4,
            "flag": [True, False, True, True, False],
            "meta": [{"k": i} for i in range(5)],
            "raw": [bytes([i]) for i in range(5)],
        }
    )
    made.commit("five")
    return made


# ---- Parquet


def test_parquet_is_read_by_others_with_the_stored_bytes(ds, tmp_path):
    ds[[4, 0]].to_parquet(tmp_path / "x.parquet", columns=["_row", "image", "label"])

    frame = pl.read_parquet(tmp_path / "x.parquet")
    assert frame["_row"].to_list() == [4, 0]
    assert frame["image"].to_list() == [jpeg(4), jpeg(0)]
    assert frame["label"].to_list() == ["dog", "cat"]


def test_parquet_has_a_row_group_for_each_batch(ds, tmp_path, monkeypatch):
    monkeypatch.setattr("tensorlake.dataset.export.arrow.stream.BATCH_NBYTES", 1)

    ds.to_parquet(tmp_path / "x.parquet")

    assert pq.ParquetFile(tmp_path / "x.parquet").metadata.num_row_groups == 5


def test_parquet_ingested_again_is_the_dataset_it_was(ds, tmp_path):
    ds.to_parquet(tmp_path / "x.parquet")

    again = tl.ingest.parquet(tmp_path / "x.parquet", f"{ds.url}-again")

    assert dict(again.schema) == dict(ds.schema)
    assert again.to_arrow() == ds.to_arrow()


# ---- the destination


@pytest.mark.parametrize("kind", ["parquet", "webdataset", "mds"])
def test_what_is_there_is_kept_unless_it_may_be_replaced(ds, tmp_path, kind):
    write = getattr(ds, f"to_{kind}")
    write(tmp_path / "out")

    with pytest.raises(InvalidInputError, match=r"is there already\ngive overwrite=True"):
        write(tmp_path / "out")
    write(tmp_path / "out", columns=["label"], overwrite=True)

    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["webdataset", "mds"])
def test_export_that_fails_leaves_nothing(tmp_path, kind):
    ds = tl.create(f"memory://files-fails-{kind}", {"x": tl.Text(nullable=True), "key": "str"})
    ds.extend({"x": ["a", None], "key": ["k", "k"]})

    with pytest.raises(InvalidInputError, match="row 1"):
        getattr(ds, f"to_{kind}")(tmp_path / "out")

    assert list(tmp_path.iterdir()) == []
    ds.discard()


@pytest.mark.parametrize("letters", [250, 20_000])
@pytest.mark.parametrize("call", ["to_parquet", "to_webdataset", "to_zarr"])
def test_a_name_longer_than_the_file_system_takes_is_refused(ds, tmp_path, call, letters):
    with pytest.raises(tl.InvalidInputError, match="longer than its file system takes"):
        getattr(ds, call)(tmp_path / ("x" * letters))

    assert list(tmp_path.glob("x*")) == []


@pytest.mark.parametrize("call", ["to_parquet", "to_webdataset", "to_zarr"])
@pytest.mark.parametrize(
    "url", ["https://host/lake/x", "hf://datasets/a/b/x", "file:///tmp/x", "s3://bucket"]
)
def test_urls_where_no_files_are_written_are_refused_first(ds, call, url):
    with pytest.raises(UnsupportedFeatureError, match="to a path or into a bucket, not to"):
        getattr(ds, call)(url)


@pytest.mark.parametrize("kind", ["webdataset", "mds"])
def test_computed_columns_are_refused_by_name(ds, tmp_path, kind):
    view = ds.select("label", twice="score * 2")

    with pytest.raises(UnsupportedFeatureError, match="'twice' is computed"):
        getattr(view, f"to_{kind}")(tmp_path / "out")


# ---- WebDataset


# webdataset leaves the last shard to the garbage collector, which says so
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_the_shards(ds, tmp_path):
    ds.to_webdataset(tmp_path / "shards", shard_size="2kB")

    shards = sorted(map(str, (tmp_path / "shards").iterdir()))
    assert len(shards) > 1
    rows = list(webdataset.WebDataset(shards, shardshuffle=False))
    assert [row["__key__"] for row in rows] == [f"{i:09d}" for i in range(5)]
    assert [row["image.jpg"] for row in rows] == [jpeg(i) for i in range(5)]
    decoded = list(webdataset.WebDataset(shards, shardshuffle=False).decode())
    assert [row["label.cls"] for row in decoded] == [0, 1, 0, 1, 1]
    assert [row["caption.txt"] for row in decoded] == [f"ü{i}" for i in range(5)]
    assert decoded[3]["boxes.npy"].tolist() == [[3] * 4] * 3
    assert decoded[2]["meta.json"] == {"k": 2}
    gc.collect()


def test_shards_that_were_ingested_are_written_as_they_were(ds, tmp_path):
    ds.to_webdataset(tmp_path / "one")
    first = tl.ingest.webdataset(tmp_path / "one", f"{ds.url}-one")

    first.to_webdataset(tmp_path / "two")

    second = tl.ingest.webdataset(tmp_path / "two", f"{ds.url}-two")
    assert dict(second.schema) == dict(first.schema)
    assert second.to_arrow() == first.to_arrow()
    with tarfile.open(tmp_path / "two" / "shard-000000.tar") as shard:
        assert "000000003.label.cls" in shard.getnames()


def test_null_has_no_member(tmp_path):
    ds = tl.create("memory://files-null", {"txt": tl.Text(nullable=True), "x": "int64"})
    ds.extend({"txt": ["a", None], "x": [1, 2]})

    ds.to_webdataset(tmp_path / "shards")

    with tarfile.open(tmp_path / "shards" / "shard-000000.tar") as shard:
        assert shard.getnames() == ["000000000.txt", "000000000.x.npy", "000000001.x.npy"]
    ds.discard()


def test_type_without_a_form_in_shards_is_named(tmp_path):
    ds = tl.create("memory://files-clip", {"clip": tl.Sequence(tl.Image("jpeg"))})

    for kind in ("webdataset", "mds"):
        with pytest.raises(UnsupportedFeatureError, match=r"'clip' \(Sequence\(Image\(jpeg\)\)\)"):
            getattr(ds, f"to_{kind}")(tmp_path / "out")


# ---- MDS


def read_mds(folder) -> list[dict[str, object]]:
    """Read a folder by the format's page alone: bytes of each column of each row."""
    rows = []
    for shard in json.loads((folder / "index.json").read_text())["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        count = int(np.frombuffer(data, "<u4", 1)[0])
        assert count == shard["samples"]
        offsets = np.frombuffer(data, "<u4", count + 1, 4).tolist()
        for start, stop in itertools.pairwise(offsets):
            sample, at = data[start:stop], 0
            sizes = list(shard["column_sizes"])
            for place, size in enumerate(sizes):
                if size is None:
                    sizes[place] = int(np.frombuffer(sample, "<u4", 1, at)[0])
                    at += 4
            row = {}
            for name, size in zip(shard["column_names"], sizes, strict=True):
                row[name], at = sample[at : at + size], at + size
            assert at == len(sample)
            rows.append(row)
    return rows


def test_mds_is_what_its_page_says(ds, tmp_path):
    ds.to_mds(tmp_path / "mds", shard_size="3kB")

    rows = read_mds(tmp_path / "mds")
    assert [row["image"] for row in rows] == [jpeg(i) for i in range(5)]
    assert [row["caption"].decode() for row in rows] == [f"ü{i}" for i in range(5)]
    assert np.frombuffer(rows[2]["vector"], "<f4").tolist() == [6, 7, 8]
    assert rows[3]["boxes"][:3] == bytes([2 << 2, 3, 4])  # two axes, lengths of one byte each
    assert np.frombuffer(rows[3]["boxes"][3:], "<f4").tolist() == [3] * 12
    index = json.loads((tmp_path / "mds" / "index.json").read_text())
    assert len(index["shards"]) > 1
    first = index["shards"][0]
    assert dict(zip(first["column_names"], first["column_encodings"], strict=True)) == {
        "boxes": "ndarray:float32",
        "caption": "str",
        "flag": "uint8",
        "image": "jpeg",
        "label": "int64",
        "meta": "json",
        "raw": "bytes",
        "score": "float32",
        "vector": "ndarray:float32:3",
    }


# ---- what comes back


def test_shards_become_the_tensors_that_they_were(ds, tmp_path):
    ds.to_webdataset(tmp_path / "shards", shard_size="2kB")

    again = tl.ingest.webdataset(tmp_path / "shards", f"{ds.url}-again")

    assert dict(again.schema) == dict(ds.schema)
    assert again.to_arrow() == ds.to_arrow()
    typed = tl.ingest.webdataset(
        tmp_path / "shards", f"{ds.url}-typed", schema={"label": "int64", "score.npy": "float64"}
    )
    assert (typed.schema["label"], typed.schema["score"]) == (
        tl.Scalar("int64"),
        tl.Scalar("float64"),
    )
    with pytest.raises(InvalidInputError, match=r"\['sc'\]; the shards have the tensors image, "):
        tl.ingest.webdataset(tmp_path / "shards", f"{ds.url}-no", schema={"sc": "int64"})


def test_rows_of_nulls_come_back_from_shards_and_stay_samples_for_others(tmp_path):
    ds = tl.create(
        "memory://files-nulls",
        {"txt": tl.Text(nullable=True), "a/b": tl.Json(nullable=True), "key": "str"},
    )
    ds.extend({"txt": ["x", None, None], "a/b": [{"k": 1}, None, []], "key": ["p/q", "r", "s"]})
    ds.commit("three")

    ds.to_webdataset(tmp_path / "shards")

    again = tl.ingest.webdataset(tmp_path / "shards", "memory://files-nulls-again")
    assert dict(again.schema) == dict(ds.schema)
    assert [dict(row) for row in again] == [dict(row) for row in ds]
    with tarfile.open(tmp_path / "shards" / "shard-000000.tar") as shard:
        assert shard.getnames() == ["p/q.txt", "p/q.a-b.json", "r.null", "s.a-b.json"]


def test_shards_with_members_of_another_program_are_as_any_other(tmp_path):
    ds = tl.create("memory://files-more", {"x": "int64"})
    ds.extend({"x": [1]})
    ds.commit("one")
    ds.to_webdataset(tmp_path / "shards")
    with tarfile.open(tmp_path / "shards" / "shard-000000.tar", "a") as shard:
        (tmp_path / "000000000.txt").write_text("added")
        shard.add(tmp_path / "000000000.txt", "000000000.txt")

    again = tl.ingest.webdataset(tmp_path / "shards", "memory://files-more-again")

    assert set(again.schema) == {"x.npy", "txt", "key"}
    assert again["txt"][:] == ["added"]


@pytest.mark.parametrize(("one", "other"), [("a/b", "a-b"), ("A", "a")])
def test_tensors_that_would_be_one_member_are_refused_by_name(tmp_path, one, other):
    ds = tl.create(f"memory://files-{one.replace('/', '')}-same", {one: "int64", other: "int64"})

    with pytest.raises(UnsupportedFeatureError, match=f"'{one}' and '{other}' would be the same"):
        ds.to_webdataset(tmp_path / "out")


@pytest.mark.parametrize("key", ["a.b", "", "__a", "a/", "a\nb"])
def test_a_key_that_readers_would_not_find_is_refused_with_its_row(tmp_path, key):
    ds = tl.create(f"memory://files-key-{abs(hash(key))}", {"key": "str", "x": "int64"})
    ds.extend({"key": ["ok", key], "x": [1, 2]})

    with pytest.raises(InvalidInputError, match="row 1 has the key"):
        ds.to_webdataset(tmp_path / "out")
    ds.discard()


@pytest.mark.parametrize("tz", [None, "UTC"])
def test_seconds_come_back_from_parquet_which_has_none(tmp_path, tz):
    ds = tl.create(f"memory://files-s-{tz}", {"t": tl.Timestamp("s", tz, nullable=True)})
    ds.extend({"t": [np.datetime64("12000-01-01", "s"), None, np.datetime64("2024-01-01", "s")]})
    ds.to_parquet(tmp_path / "x.parquet")

    again = tl.ingest.parquet(tmp_path / "x.parquet", f"{ds.url}-again")

    assert dict(again.schema) == dict(ds.schema)
    assert again.to_arrow() == ds.to_arrow()
    ds.discard()


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_complex_numbers_are_refused_by_name(tmp_path, kind):
    ds = tl.create(f"memory://files-complex-{kind}", {"z": "complex64"})

    with pytest.raises(
        UnsupportedFeatureError, match=r"does not support 'z' \(Scalar\(complex64\)\)"
    ):
        getattr(ds, f"to_{kind}")(tmp_path / "out")


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_shape_that_lists_would_lose_is_refused_with_its_row(tmp_path, kind):
    ds = tl.create(f"memory://files-shape-{kind}", {"x": tl.Array("int8", (None, None))})
    ds.extend({"x": [np.zeros((2, 0), np.int8), np.zeros((0, 5), np.int8)]})

    with pytest.raises(UnsupportedFeatureError, match=r"row 1 of 'x' has the shape \(0, 5\)"):
        getattr(ds, f"to_{kind}")(tmp_path / "out")
    ds.to_webdataset(tmp_path / "shards")

    again = tl.ingest.webdataset(tmp_path / "shards", f"{ds.url}-again")
    assert [one.shape for one in again["x"][:]] == [(2, 0), (0, 5)]
    ds.discard()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "webdataset"])
def test_years_without_four_digits_have_no_text(tmp_path, kind):
    ds = tl.create(f"memory://files-years-{kind}", {"t": tl.Timestamp("s")})
    ds.extend({"t": [np.datetime64("12000-01-01", "s")]})

    with pytest.raises(InvalidInputError, match=r"'t' has.*four digits|'t'.*not four digits"):
        getattr(ds, f"to_{kind}")(tmp_path / "out")
    ds.discard()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_local_times_before_there_were_zones_keep_their_second(tmp_path, kind):
    early = np.datetime64("1890-01-01T00:00:00", "s")
    ds = tl.create(f"memory://files-early-{kind}", {"t": tl.Timestamp("s", tz="Europe/Berlin")})
    ds.extend({"t": [early, np.datetime64("2024-01-01T00:00:00", "s")]})
    getattr(ds, f"to_{kind}")(tmp_path / "x")

    again = getattr(tl.ingest, kind)(tmp_path / "x", f"{ds.url}-again", schema=dict(ds.schema))

    assert again["t"][:].tolist() == ds["t"][:].tolist()
    assert "2024-01-01T01:00:00+01" in (tmp_path / "x").read_text()
    ds.discard()


@pytest.mark.parametrize("call", ["to_mds", "to_litdata"])
def test_the_advice_for_null_runs_for_a_name_that_is_a_word_of_tql(tmp_path, call):
    with tl.create(str(tmp_path / "x.tl"), {"in": tl.Scalar("int64", nullable=True)}) as ds:
        ds.extend({"in": [1, None, 3]})
        ds.commit("three")
        with pytest.raises(tl.InvalidInputError, match="is NULL") as raised:
            getattr(ds, call)(tmp_path / "out")
        advice = re.search(r"ds\.where\((.*?)\)", str(raised.value))
        assert advice is not None

        view = ds.where(ast.literal_eval(advice[1]))

    assert view.rows.tolist() == [0, 2]
