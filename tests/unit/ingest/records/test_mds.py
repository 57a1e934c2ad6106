"""MDS in: shards written by hand after the format's page, and what `to_mds` wrote.

MosaicML's library writes and reads the same files in tests/extras/formats.
"""

from __future__ import annotations

import gzip
import io
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image as Pillow

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.records import shards as shards_module

Row = dict[str, bytes]


def png(value: int) -> bytes:
    out = io.BytesIO()
    Pillow.new("L", (2, 3), value).save(out, "png")
    return out.getvalue()


def u32(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def write_shard(folder: Path, number: int, columns: dict[str, str], rows: list[Row], **more: Any):
    """Write rows as a shard; columns whose encoding is a number of fixed size have it."""
    sizes = [8 if one == "int" else None for one in columns.values()]
    samples = [
        u32(*(len(row[name]) for name, size in zip(columns, sizes, strict=True) if size is None))
        + b"".join(row[name] for name in columns)
        for row in rows
    ]
    begin = 4 * (2 + len(rows))
    content = u32(len(rows), *(begin + np.cumsum([0, *map(len, samples)])).tolist())
    content += b"".join(samples)
    name = f"shard.{number:05d}.mds"
    (folder / name).write_bytes(content)
    return {
        "format": "mds",
        "version": 2,
        "column_names": [*columns],
        "column_encodings": [*columns.values()],
        "column_sizes": sizes,
        "compression": None,
        "raw_data": {"basename": name, "bytes": len(content)},
        "zip_data": None,
        "samples": len(rows),
        **more,
    }


def write_index(folder: Path, *shards: dict[str, Any]) -> None:
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [*shards]}))


def row(n: int) -> Row:
    return {"x": np.int64(n).tobytes(), "name": f"nº {n}".encode()}


COLUMNS = {"name": "str", "x": "int"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mds"
    made.mkdir()
    parts = [range(5), range(5, 8)]
    write_index(
        made, *(write_shard(made, at, COLUMNS, [*map(row, one)]) for at, one in enumerate(parts))
    )
    return made


def test_columns_become_tensors_by_their_encodings(tmp_path):
    f4 = np.arange(6, dtype="<f4").tobytes()
    values = {
        "bytes": b"\xff\0",
        "str": "é".encode(),
        "json": b'{"a": 1}',
        "int": np.int64(-3).tobytes(),
        "uint8": b"\x07",
        "float64": np.float64(0.5).tobytes(),
        "str_int": b"12",
        "str_float": b"1.5",
        "str_decimal": b"0.10",
        "png": png(3),
        "ndarray:float32:2,3": f4,
        "ndarray:float32": bytes([2 << 2, 2, 3]) + f4,
        "ndarray": bytes([34, 1 << 2 | 1, 6, 0]) + f4,
        "pil": u32(2, 1, 3) + b"RGB" + bytes(range(6)),
        "list[png]": u32(0, 2, len(png(1)), len(png(2))) + png(1) + png(2),
        "jpeg_array": u32(0),
    }
    columns = {f"c{at}": encoding for at, encoding in enumerate(values)}
    rows = [{name: values[encoding] for name, encoding in columns.items()}] * 2
    write_index(tmp_path, write_shard(tmp_path, 0, columns, rows))
    ds = tl.ingest.mds(tmp_path, str(tmp_path / "x.tl"))
    found = {encoding: ds[1][name] for name, encoding in columns.items()}

    assert (found["bytes"], found["str"], found["json"]) == (b"\xff\0", "é", {"a": 1})
    assert (found["int"], found["uint8"], found["float64"]) == (-3, 7, 0.5)
    assert (found["str_int"], found["str_float"], found["str_decimal"]) == (12, 1.5, "0.10")
    assert found["png"].tolist() == np.full((3, 2, 3), 3).tolist()
    for encoding in ("ndarray:float32:2,3", "ndarray:float32", "ndarray"):
        assert found[encoding].ravel().tolist() == [0, 1, 2, 3, 4, 5], encoding
    assert found["ndarray:float32"].shape == (2, 3)
    assert found["pil"].tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert [one.shape for one in found["list[png]"]] == [(3, 2, 3)] * 2
    assert len(found["jpeg_array"]) == 0
    described = {encoding: ds.schema[name].describe() for name, encoding in columns.items()}
    assert described["ndarray:float32:2,3"] == "Array(float32, (2, 3))"
    assert described["ndarray"] == "Array(float32, (None,))"


def test_the_same_call_again_adds_new_shards_and_refuses_changed_ones(folder, tmp_path):
    dst = str(tmp_path / "x.tl")
    assert tl.ingest.mds(folder, dst).ingest_report.added == 8
    assert tl.ingest.mds(folder, dst).ingest_report.added == 0
    index = json.loads((folder / "index.json").read_text())
    write_index(folder, *index["shards"], write_shard(folder, 2, COLUMNS, [row(8)]))
    ds = tl.ingest.mds(folder, dst)
    assert (ds.ingest_report.added, ds["x"][:].tolist()) == (1, [*range(9)])
    write_shard(folder, 0, COLUMNS, [row(n) for n in (9, 1, 2, 3, 4)])
    with pytest.raises(InvalidInputError, match=r"changed in 'shard\.00000\.mds' before its end"):
        tl.ingest.mds(folder, dst)


def test_rows_with_a_key_follow_their_source(folder, tmp_path):
    dst = str(tmp_path / "x.tl")
    tl.ingest.mds(folder, dst, key="x")
    index = json.loads((folder / "index.json").read_text())
    changed = {**row(6), "name": b"changed"}
    index["shards"][1] = write_shard(folder, 1, COLUMNS, [row(5), changed, row(9)])
    write_index(folder, *index["shards"])
    ds = tl.ingest.mds(folder, dst, key="x", delete=True)
    report = ds.ingest_report
    assert (report.added, report.updated, report.deleted) == (1, 1, 1)
    assert dict(zip(ds["x"][:].tolist(), ds["name"][:], strict=True))[6] == "changed"


def test_pieces_of_a_large_shard_name_their_rows(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "PIECE_NBYTES", 50)
    ds = tl.ingest.mds(folder, str(tmp_path / "x.tl"))
    assert ds["x"][:].tolist() == [*range(8)]
    path = folder / "shard.00000.mds"
    content = bytearray(path.read_bytes())
    content[content.index("nº 3".encode())] = 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"row 3 of shard\.00000\.mds: 'name': .*utf-8"):
        tl.ingest.mds(folder, "memory://mds-pieces")
    ds = tl.ingest.mds(folder, "memory://mds-pieces", on_error="skip")
    assert (ds["x"][:].tolist(), ds.ingest_report.rejected) == ([0, 1, 2, 4, 5, 6, 7], 1)


@pytest.mark.parametrize("codec", ["gz", "zstd:3", "bz2", "br", "snappy"])
def test_compressed_shards_are_read(folder, tmp_path, codec):
    index = json.loads((folder / "index.json").read_text())
    names = {"gz": "gzip", "zstd": "zstd", "bz2": "bz2", "br": "brotli", "snappy": "snappy"}
    kind = codec.partition(":")[0]
    for one in index["shards"]:
        path = folder / one["raw_data"]["basename"]
        content = path.read_bytes()
        if kind == "gz":
            packed = gzip.compress(content)
        elif kind == "snappy":
            packed = pa.compress(content, codec="snappy", asbytes=True)
        else:
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, names[kind]) as stream:
                stream.write(content)
            packed = sink.getvalue().to_pybytes()
        path.with_name(f"{path.name}.{kind}").write_bytes(packed)
        path.unlink()
        one["compression"] = codec
        one["zip_data"] = {"basename": f"{path.name}.{kind}", "bytes": len(packed)}
    write_index(folder, *index["shards"])
    assert tl.ingest.mds(folder, str(tmp_path / "x.tl"))["x"][:].tolist() == [*range(8)]
    index["shards"][0]["raw_data"]["bytes"] -= 1  # a bomb has more than it promises
    write_index(folder, *index["shards"])
    with pytest.raises(InvalidInputError, match=r"shard\.00000\.mds.* is damaged"):
        tl.ingest.mds(folder, "memory://mds-bomb")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"samples": 1 << 40}, "has 1,099,511,627,776 rows"),
        ({"samples": -1}, "has -1 rows"),
        ({"samples": 4}, "it has 5 rows, and 4 in the index"),
        ({"format": "xyz"}, "xyz of version 2"),
        ({"raw_data": {"basename": "../secret", "bytes": 999}}, "'../secret', which is not in"),
        ({"raw_data": {"basename": "/etc/passwd", "bytes": 999}}, "which is not in its folder"),
        ({"raw_data": {"basename": "gone", "bytes": 999}}, "no file .*gone"),
        ({"raw_data": 3}, "is not MDS"),
        ({"column_sizes": [None, -8]}, "negative size"),
        ({"column_sizes": [None, 1 << 40]}, "fields have 1,099"),
        ({"column_names": ["x"]}, "is not MDS"),
        ({"column_encodings": ["pkl", "int"]}, "'pkl' of 'name' would run any code"),
        ({"column_encodings": ["what", "int"]}, "'what' of 'name' is unknown"),
        ({"column_encodings": ["ndarray:int7", "int"]}, "arrays of 'int7'"),
        ({"column_encodings": ["ndarray:int8:x", "int"]}, "arrays of shape 'x'"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(folder, change, why):
    index = json.loads((folder / "index.json").read_text())
    write_index(folder, {**index["shards"][0], **change})
    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.mds(folder, "memory://mds-index")


def test_damaged_and_cut_shards_give_the_rows_or_an_error_of_ours(folder):
    draw = random.Random(3)
    for number in range(40):
        path = folder / draw.choice(["shard.00000.mds", "index.json", "shard.00001.mds"])
        whole = path.read_bytes()
        content = bytearray(whole)
        if number % 4 == 0:
            del content[draw.randrange(len(content)) :]
        else:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        with suppress(tl.TensorlakeError):
            assert len(tl.ingest.mds(folder, f"memory://mds-fuzz-{number}")) <= 8
        path.write_bytes(whole)


def test_bytes_may_be_the_memory_of_arrays(tmp_path):
    rows = [{"tokens": np.arange(n, dtype="<u2").tobytes()} for n in (3, 1)]
    write_index(tmp_path, write_shard(tmp_path, 0, {"tokens": "bytes"}, rows))
    schema = {"tokens": tl.Array("uint16", (None,))}
    ds = tl.ingest.mds(tmp_path, "memory://mds-memory", schema=schema)
    assert [one.tolist() for one in ds["tokens"][:]] == [[0, 1, 2], [0]]
    with pytest.raises(InvalidInputError, match=r"row 0 .*'tokens': 6 bytes are not uint16 of"):
        tl.ingest.mds(
            tmp_path, "memory://mds-memory-2", schema={"tokens": tl.Array("uint16", (5,))}
        )


def test_a_folder_without_an_index_and_one_that_is_not_json_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"no file .*index\.json' to ingest\ngive the fol"):
        tl.ingest.mds(tmp_path, "memory://mds-none")
    (tmp_path / "index.json").write_text("[1")
    with pytest.raises(InvalidInputError, match="is not JSON, or damaged"):
        tl.ingest.mds(tmp_path, "memory://mds-none")
    (tmp_path / "index.json").write_text("[1]")
    with pytest.raises(InvalidInputError, match="is not an index of MDS"):
        tl.ingest.mds(tmp_path, "memory://mds-none")


def test_shards_are_read_from_a_store_and_a_schema_decides(folder, tmp_path):
    names = [f"c{n}" for n in range(8)]
    schema = {"x": tl.ClassLabel(names), "name": tl.Bytes()}
    ds = tl.ingest.mds(folder.as_uri(), "memory://mds-store", schema=schema)
    assert (ds[3]["x"], ds[3]["name"]) == ("c3", "nº 3".encode())
    with pytest.raises(InvalidInputError, match="unknown field 'y'\nfields: name, x"):
        tl.ingest.mds(folder, "memory://mds-store", schema={"y": "int8"})


def test_what_was_written_is_the_same_tensors_again(tmp_path):
    schema = {
        "image": tl.Image("png"),
        "label": tl.ClassLabel(["cat", "dog"]),
        "many": tl.Array("int64", (None, None)),
        "boxes": tl.BBox(),
        "flag": "bool",
        "flags": tl.Array("bool", (2,)),
        "half": "float16",
        "text": tl.Text(),
        "json": tl.Json(),
        "tags": tl.Tags(),
        "id": tl.Uuid(),
    }
    with tl.create(str(tmp_path / "x.tl"), schema) as ds:
        for n in range(7):
            ds.append(
                {
                    "image": png(n),
                    "label": n % 2,
                    "many": np.full((1 + n % 2, n + 1), -n),
                    "boxes": np.full((1 + n % 3, 4), n + 1.0).cumsum(axis=1),
                    "flag": n > 3,
                    "flags": [n > 3, n < 5],
                    "half": n / 2,
                    "text": "é" * n,
                    "json": {"n": n},
                    "tags": ["a"] * (n % 2),
                    "id": f"00000000-0000-0000-0000-00000000000{n}",
                }
            )
        ds.commit("seven")
        ds.to_mds(tmp_path / "out", shard_size=500)
        again = tl.ingest.mds(tmp_path / "out", str(tmp_path / "again.tl"))
        assert dict(again.schema) == dict(sorted(ds.schema.items()))
        columns = sorted(schema)
        assert again[columns].to_arrow().equals(ds[columns].to_arrow())


@pytest.mark.parametrize("types", ["[1", "3", '{"x": {"kind": "what"}}', "LINK"])
def test_a_file_of_types_that_is_none_is_refused(folder, types):
    link = json.dumps({"name": tl.Link(tl.Image("png")).to_json()})  # it would name any file
    (folder / "tensorlake.json").write_text(link if types == "LINK" else types)
    with pytest.raises(InvalidInputError, match=r"tensorlake\.json' is not what tensorlake wrote"):
        tl.ingest.mds(folder, "memory://mds-types")
