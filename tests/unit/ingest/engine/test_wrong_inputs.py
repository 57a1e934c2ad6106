"""Wrong sources on purpose: each is refused by name, or left out where that is asked for."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.errors import InvalidInputError

READERS = ["images", "yolo", "voc", "csv", "jsonl", "parquet", "webdataset", "numpy"]


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels)


@pytest.fixture
def dst(tmp_path):
    return f"memory://wrong-{tmp_path.name}"


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    for name, content in {"cat/a.jpg": jpeg(1), "dog/b.jpg": jpeg(2)}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("source", ["missing", "empty", "garbage", "number"])
def test_what_is_no_source_is_refused_by_name(name, source, dst, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "garbage").write_bytes(b"garbage\x00\xff\xfe")
    given = 3 if source == "number" else tmp_path / source

    with pytest.raises(InvalidInputError, match="got int 3" if source == "number" else source):
        getattr(tl.ingest, name)(given, dst)


def test_a_misspelt_option_is_told_with_those_there_are(pictures, dst):
    with pytest.raises(TypeError, match=r"unexpected argument 'num_workers'.*workers"):
        tl.ingest.images(pictures, dst, num_workers=4)


def test_a_schema_of_tensors_that_are_not_made_is_refused(pictures, dst):
    with pytest.raises(InvalidInputError, match=r"unknown tensors \['lable'\].*image, label"):
        tl.ingest.images(pictures, dst, schema={"lable": tl.ClassLabel(["cat"])})


# ---- folders and zip files of pictures


def test_names_of_any_script_are_classes(dst, tmp_path):
    (tmp_path / "ü 日").mkdir()
    (tmp_path / "ü 日" / "ß \"q'.jpg").write_bytes(jpeg(1))

    ds = tl.ingest.images(tmp_path, dst)

    assert ds["label"].names == ("ü 日",)


@pytest.mark.skipif(os.name != "posix", reason="names of files are text")
def test_a_name_that_is_no_text_is_no_hindrance(pictures, dst):
    name = os.fsencode(pictures / "cat") + b"/\xff\xfe.jpg"
    try:
        descriptor = os.open(name, os.O_CREAT | os.O_WRONLY)
    except OSError:
        pytest.skip("this file system takes only text")
    os.write(descriptor, jpeg(3))
    os.close(descriptor)

    assert len(tl.ingest.images(pictures, dst)) == 3


def test_a_link_to_nothing_is_told_and_can_be_left_out(pictures, dst):
    (pictures / "cat" / "0.jpg").symlink_to(pictures / "nowhere")

    with pytest.raises(InvalidInputError, match=r"0\.jpg' cannot be read: No such file"):
        tl.ingest.images(pictures, dst)
    ds = tl.ingest.images(pictures, f"{dst}-skip", on_error="skip")

    assert [ds["image"].bytes(row) for row in range(len(ds))] == [jpeg(1), jpeg(2)]
    assert [one.item for one in ds.ingest_report.skipped] == ["cat/0.jpg"]


def test_a_link_to_the_folder_it_lies_in_ends(pictures, dst):
    (pictures / "cat" / "loop").symlink_to(pictures)

    assert len(tl.ingest.images(pictures, dst)) == 2


def test_an_image_outside_the_class_folders_is_an_error_or_left_out(pictures, dst):
    (pictures / "stray.jpg").write_bytes(jpeg(3))

    with pytest.raises(InvalidInputError, match=r"'stray\.jpg' of .* is outside.*'cat', 'dog'"):
        tl.ingest.images(pictures, dst)
    ds = tl.ingest.images(pictures, f"{dst}-skip", on_error="skip")

    assert (ds["label"][:] == ["cat", "dog"]).all()
    assert [one.item for one in ds.ingest_report.skipped] == ["stray.jpg"]
    every = tl.ingest.images(pictures, f"{dst}-plain", labels=False)
    assert (len(every), [*every.schema]) == (3, ["image"])


def test_an_image_beside_the_splits_is_told_from_a_class(pictures, dst):
    (pictures / "cat").rename(pictures / "train")
    (pictures / "dog").rename(pictures / "val")
    (pictures / "stray.jpg").write_bytes(jpeg(3))

    with pytest.raises(InvalidInputError, match=r"'stray\.jpg'.*'train', 'val'"):
        tl.ingest.images(pictures, dst)


def test_a_reason_names_the_file_and_no_row_of_a_call_that_nobody_made(pictures, dst):
    (pictures / "dog" / "bad.jpg").write_bytes(b"no picture")

    with pytest.raises(InvalidInputError) as refused:
        tl.ingest.images(pictures, dst)
    ds = tl.ingest.images(pictures, f"{dst}-skip", on_error="skip")

    (skipped,) = ds.ingest_report.skipped
    assert skipped.item == "dog/bad.jpg"
    assert refused.value.message.startswith("dog/bad.jpg: 'image' ")
    assert "extend()" not in skipped.reason + refused.value.message


def test_a_truncated_zip_file_is_told_from_a_missing_folder(dst, tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("a.jpg", jpeg(1))
    content = (tmp_path / "p.zip").read_bytes()
    (tmp_path / "p.zip").write_bytes(content[: len(content) // 2])

    with pytest.raises(
        InvalidInputError, match=r"p\.zip' is neither a folder nor a complete zip or tar file"
    ):
        tl.ingest.images(tmp_path / "p.zip", dst)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_in_a_zip_file_are_refused(dst, tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("a.jpg", jpeg(1))
        archive.writestr("a.jpg", jpeg(2))

    with pytest.raises(InvalidInputError, match=r"two files 'a\.jpg'"):
        tl.ingest.images(tmp_path / "p.zip", dst)


# ---- annotations


def yolo_folder(root: Path, line: bytes, layout: str = "train: images/train") -> Path:
    for kind in ("images", "labels"):
        (root / kind / "train").mkdir(parents=True)
    (root / "images" / "train" / "a.jpg").write_bytes(jpeg(1))
    (root / "images" / "train" / "b.jpg").write_bytes(jpeg(2))
    (root / "labels" / "train" / "b.txt").write_bytes(line)
    (root / "data.yaml").write_text(f"names: [cat]\n{layout}\n")
    return root


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"\xff\xfe0 0", r"b\.txt' is not text"),
        (b"0 nan .5 .1 .1", "not of numbers"),
        (b"0 30 40 10 10", "relative to the image's size"),
        (b"3 .5 .5 .1 .1", "a class 0 … 0"),
    ],
)
def test_an_image_with_a_bad_label_file_can_be_left_out(line, told, dst, tmp_path):
    root = yolo_folder(tmp_path, line)

    with pytest.raises(InvalidInputError, match=told):
        tl.ingest.yolo(root, dst, task="detect")
    ds = tl.ingest.yolo(root, f"{dst}-skip", task="detect", on_error="skip")

    assert [ds["image"].bytes(row) for row in range(len(ds))] == [jpeg(1)]
    assert [one.item for one in ds.ingest_report.skipped] == ["train/b.jpg"]


def test_a_first_label_file_that_is_no_text_does_not_stop_the_others(dst, tmp_path):
    root = yolo_folder(tmp_path, b"0 .5 .5 .1 .1")
    (root / "labels" / "train" / "a.txt").write_bytes(b"\xff\xfe")

    with pytest.raises(InvalidInputError, match=r"a\.txt' is not text"):
        tl.ingest.yolo(root, dst)
    ds = tl.ingest.yolo(root, f"{dst}-skip", on_error="skip")

    assert [one.item for one in ds.ingest_report.skipped] == ["train/a.jpg"]
    assert len(ds[0]["boxes"]) == 1


def test_a_split_of_several_folders_is_all_of_them(dst, tmp_path):
    root = yolo_folder(tmp_path, b"0 .5 .5 .1 .1", "train: [images/train, images/more]")
    (root / "images" / "more").mkdir()
    (root / "images" / "more" / "c.jpg").write_bytes(jpeg(3))

    assert len(tl.ingest.yolo(root, dst)) == 3


# ---- tables and shards


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,a\n1,2\n", "two columns 'a'"),
        ("a,\n1,2\n", "no name for column 1"),
        ("a,b\n1,2\n3\n", "line 3 of t.csv: 1 value for 2 columns: '3'"),
    ],
)
def test_csv_file_that_is_no_table_is_refused(text, told, dst, tmp_path):
    (tmp_path / "t.csv").write_text(text)

    with pytest.raises(InvalidInputError, match=told):
        tl.ingest.csv(tmp_path / "t.csv", dst)


def test_csv_lines_of_other_lengths_can_be_left_out_each(dst, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n4,5,6\n7,8\n")

    ds = tl.ingest.csv(tmp_path / "t.csv", dst, on_error="skip")

    assert ds["a"][:].tolist() == [1, 7]
    assert [one.reason for one in ds.ingest_report.skipped] == [
        "1 value for 2 columns: '3'",
        "3 values for 2 columns: '4,5,6'",
    ]


@pytest.mark.parametrize("schema", [None, {"city": tl.Text()}])
def test_csv_of_another_encoding_is_an_error_that_names_it(schema, dst, tmp_path):
    (tmp_path / "a.csv").write_bytes("city,n\nZürich,1\n".encode("latin-1"))

    told = r"a\.csv' is not utf-8 from the bytes b'\\xfcrich.*\n.*encoding='latin-1'"
    with pytest.raises(InvalidInputError, match=told):
        tl.ingest.csv(tmp_path / "a.csv", dst, schema=schema)
    ds = tl.ingest.csv(tmp_path / "a.csv", dst, schema=schema, encoding="latin-1")

    assert ds["city"][:] == ["Zürich"]


def test_csv_names_of_another_encoding_are_told_and_read(dst, tmp_path):
    (tmp_path / "a.csv").write_bytes("größe,n\n1,1\n".encode("cp1252"))

    with pytest.raises(InvalidInputError, match="is not utf-8 from the bytes"):
        tl.ingest.csv(tmp_path / "a.csv", dst)

    assert "größe" in tl.ingest.csv(tmp_path / "a.csv", dst, encoding="cp1252").schema


@pytest.mark.parametrize("encoding", ["utf-16", "klingon"])
def test_csv_encoding_is_one_whose_lines_can_be_found(encoding, dst, tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")

    with pytest.raises(InvalidInputError, match=f"encoding='{encoding}': give one"):
        tl.ingest.csv(tmp_path / "a.csv", dst, encoding=encoding)


def test_csv_delimiter_is_one_character(dst, tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1;2\n")

    with pytest.raises(InvalidInputError, match="delimiter=';;'"):
        tl.ingest.csv(tmp_path / "t.csv", dst, delimiter=";;")


def test_a_tokenizer_that_answers_with_a_number_is_told(dst, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n')

    with pytest.raises(InvalidInputError, match="the tokenizer gave 3 for 1 texts"):
        tl.ingest.jsonl(tmp_path / "t.jsonl", dst, tokenizer=lambda texts: 3)


def shard(*contents: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for content in contents:
            member = tarfile.TarInfo("a.txt")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def test_two_members_of_one_name_in_a_shard_are_refused(dst, tmp_path):
    (tmp_path / "s.tar").write_bytes(shard(b"1", b"2"))

    with pytest.raises(InvalidInputError, match=r"two members a\.txt"):
        tl.ingest.webdataset(tmp_path / "s.tar", dst)


# ---- files of a store


@pytest.fixture
def put(tmp_path):
    """Put files into a store in memory; returns its URL."""
    from tensorlake.storage import open_store, runtime

    url = f"memory://raw-{tmp_path.name}/web"

    def put(files: dict[str, bytes]) -> str:
        store = open_store(url)
        for name, content in files.items():
            runtime.run(store.put_if_absent(name, content))
        return url

    return put


@pytest.mark.parametrize("named", ["", "/", "/*.jsonl.gz", "/a.jsonl.gz"])
def test_lines_are_read_from_a_store_by_url(named, put, dst):
    url = put({"a.jsonl.gz": gzip.compress(b'{"n": 1}\n{"n": 2}\n'), "notes.txt": b"x"})

    ds = tl.ingest.jsonl(f"{url}{named}", dst)

    assert ds["n"][:].tolist() == [1, 2]
    assert tl.ingest.jsonl(f"{url}{named}", dst).ingest_report.already_there == 2


def test_lines_of_a_store_are_read_in_pieces(monkeypatch, put, dst):
    monkeypatch.setattr("tensorlake.ingest.tables.line_files.PIECE_NBYTES", 1000)
    lines = b"".join(b"%d,x%d\n" % (n, n) for n in range(1000))
    url = put({"a.csv": b"n,x\n" + lines, "deep/b.csv": b"n,x\n1000,x1000\n"})

    ds = tl.ingest.csv(url, dst)

    assert ds["n"][:].tolist() == [*range(1001)]
    assert ds["x"][999] == "x999"


def test_parquet_and_shards_are_read_from_a_store(put, dst, tmp_path):
    tl.ingest.numpy({"n": np.arange(5)}, f"{dst}-n").to_parquet(tmp_path / "n.parquet")
    url = put({"n.parquet": (tmp_path / "n.parquet").read_bytes(), "s.tar": shard(b"one")})

    assert tl.ingest.parquet(f"{url}/n.parquet", dst)["n"][:].tolist() == [*range(5)]
    assert tl.ingest.webdataset(url, f"{dst}-s")["txt"][:] == ["one"]


def test_a_store_without_such_files_is_told(put, dst):
    url = put({"notes.txt": b"x"})

    with pytest.raises(InvalidInputError, match=r"no file \*\.csv in 'memory://raw"):
        tl.ingest.csv(url, dst)


@pytest.mark.parametrize("name", READERS)
def test_a_name_too_long_for_the_system_is_refused(name, dst):
    with pytest.raises(InvalidInputError, match="aaa"):
        getattr(tl.ingest, name)("a" * 300, dst)


def test_strings_of_numpy_are_paths(pictures, dst):
    ds = tl.ingest.images(np.str_(pictures), np.str_(dst))

    assert ds["label"].names == ("cat", "dog")


def test_workers_are_as_many_as_a_system_starts(pictures, dst):
    with pytest.raises(InvalidInputError, match="workers must be an integer from 1 to 1024"):
        tl.ingest.images(pictures, dst, workers=10**30)


def test_an_engine_is_threads_or_ray(tmp_path):
    with pytest.raises(InvalidInputError, match="engine='processes': give one of 'threads', 'ray'"):
        tl.ingest.numpy({"x": [1]}, str(tmp_path / "x.tl"), engine="processes")
    with pytest.raises(InvalidInputError, match="which workers of Ray do not reach"):
        tl.ingest.numpy({"x": [1]}, "memory://ingest-by-ray", engine="ray")
    assert not tl.exists("memory://ingest-by-ray")


def test_without_ray_nothing_is_made_and_a_dry_run_needs_none(tmp_path):
    if find_spec("ray") is not None:
        pytest.skip("Ray is installed")
    url = str(tmp_path / "x.tl")
    with pytest.raises(tl.errors.MissingExtraError, match=r"tl\.ingest\.numpy\(engine='ray'\)"):
        tl.ingest.numpy({"x": [1]}, url, engine="ray")
    assert not tl.exists(url)
    assert len(tl.ingest.numpy({"x": [1]}, url, engine="ray", dry_run=True)) == 1
