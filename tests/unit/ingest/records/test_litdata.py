"""LitData in and out: chunks in its layout. tests/extras/formats has LitData itself."""

from __future__ import annotations

import io
import json
import random
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image as Pillow

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.ingest.records.nested_values import parse_nested
from tests.support.commands import tensorlake

LEAF = {"type": None, "context": None, "children_spec": []}


def u32(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def image(codec: str, value: int) -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", (2, 3), (value,) * 3).save(out, codec)
    return out.getvalue()


def text(value: str) -> bytes:
    return u32(len(value.encode())) + value.encode()


def write_chunk(folder: Path, number: int, rows: list[list[bytes]], *, has_sizes: bool = True):
    samples = [(u32(*map(len, one)) if has_sizes else b"") + b"".join(one) for one in rows]
    begin = 4 * (2 + len(rows))
    content = u32(len(rows), *(begin + np.cumsum([0, *map(len, samples)])).tolist())
    content += b"".join(samples)
    name = f"chunk-0-{number}.bin"
    (folder / name).write_bytes(content)
    return {"filename": name, "chunk_size": len(rows), "chunk_bytes": len(content), "dim": None}


def write_index(folder: Path, formats: list[str], tree: Any, *chunks: Any, **more: Any) -> None:
    config = {
        "data_format": formats,
        "data_spec": json.dumps([1, tree]),
        "compression": None,
        "encryption": None,
        "item_loader": "PyTreeLoader",
        **more,
    }
    (folder / "index.json").write_text(json.dumps({"chunks": [*chunks], "config": config}))


def dict_of(*names: str) -> dict[str, Any]:
    context = json.dumps([*names])
    return {"type": "builtins.dict", "context": context, "children_spec": [LEAF] * len(names)}


def row(n: int) -> list[bytes]:
    return [np.int64(n).tobytes(), f"nº {n}".encode()]


FORMATS, TREE = ["int", "str"], dict_of("x", "name")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "litdata"
    made.mkdir()
    parts = [range(5), range(5, 8)]
    chunks = [write_chunk(made, at, [*map(row, one)]) for at, one in enumerate(parts)]
    write_index(made, FORMATS, TREE, *chunks)
    return made


def test_leaves_become_tensors_by_their_formats(tmp_path):
    f4 = np.arange(6, dtype="<f4").tobytes()
    values = {
        "str": "é".encode(),
        "bool": b"\1",
        "int": np.int64(-3).tobytes(),
        "float": np.float64(0.5).tobytes(),
        "bytes": b"\xff",
        "jpeg": image("jpeg", 3),
        "image:png": image("png", 3),
        "video:mp4": b"mp4",
        "pil": u32(2, 1, 1) + b"L" + b"\5\6",
        "jpeg_array": u32(1, len(image("jpeg", 1))) + image("jpeg", 1),
        "numpy": u32(9, 2, 2, 3) + f4,
        "no_header_numpy:9": f4,
        "tensor": struct.pack(">IIII", 0, 2, 3, 2) + f4,
        "no_header_tensor:1": f4,
        "json": b'{"a": 1}',
    }
    names = [f"c{at}" for at in range(len(values))]
    chunk = write_chunk(tmp_path, 0, [[*values.values()]] * 2)
    write_index(tmp_path, [*values], dict_of(*names), chunk)
    ds = tl.ingest.litdata(tmp_path, str(tmp_path / "x.tl"))
    found = {key: ds[1][name] for key, name in zip(values, names, strict=True)}

    assert (found["str"], found["bool"], found["int"], found["float"]) == ("é", True, -3, 0.5)
    assert (found["bytes"], found["video:mp4"], found["json"]) == (b"\xff", b"mp4", {"a": 1})
    assert found["image:png"].shape == found["jpeg"].shape == (3, 2, 3)
    assert found["pil"].tolist() == [[[5], [6]]]
    assert [one.shape for one in found["jpeg_array"]] == [(3, 2, 3)]
    assert (found["numpy"].shape, found["tensor"].shape) == ((2, 3), (3, 2))
    for key in ("numpy", "tensor", "no_header_numpy:9", "no_header_tensor:1"):
        assert found[key].ravel().tolist() == [0, 1, 2, 3, 4, 5], key


def test_names_are_the_paths_of_a_tree(tmp_path):
    pair = {"type": "builtins.tuple", "context": "null", "children_spec": [LEAF, dict_of("y")]}
    tree = {"type": "builtins.dict", "context": '["a", "b"]', "children_spec": [LEAF, pair]}
    chunk = write_chunk(tmp_path, 0, [[np.int64(n).tobytes() for n in range(3)]])
    write_index(tmp_path, ["int"] * 3, tree, chunk)
    ds = tl.ingest.litdata(tmp_path, str(tmp_path / "x.tl"))
    assert {name: ds[0][name] for name in ds.schema} == {"a": 0, "b/0": 1, "b/1/y": 2}


def test_one_value_and_tokens_have_no_tree(tmp_path):
    documents = [np.arange(n, dtype="<i4").tobytes() for n in (3, 1)]
    chunk = write_chunk(tmp_path, 0, [[one] for one in documents], has_sizes=False)
    write_index(tmp_path, ["no_header_tensor:16"], LEAF, chunk, item_loader="TokensLoader")
    ds = tl.ingest.litdata(tmp_path, str(tmp_path / "x.tl"))
    assert [one.tolist() for one in ds["data"][:]] == [[0, 1, 2], [0]]


def test_the_same_call_again_adds_new_chunks_and_refuses_changed_ones(folder, tmp_path):
    dst = str(tmp_path / "x.tl")
    assert tl.ingest.litdata(folder, dst).ingest_report.added == 8
    assert tl.ingest.litdata(folder, dst).ingest_report.added == 0
    index = json.loads((folder / "index.json").read_text())
    write_index(folder, FORMATS, TREE, *index["chunks"], write_chunk(folder, 2, [row(8)]))
    ds = tl.ingest.litdata(folder, dst)
    assert (ds.ingest_report.added, ds["x"][:].tolist()) == (1, [*range(9)])
    write_chunk(folder, 0, [row(n) for n in (9, 1, 2, 3, 4)])
    with pytest.raises(InvalidInputError, match=r"changed in 'chunk-0-0\.bin' before its end"):
        tl.ingest.litdata(folder, dst)
    keyed = str(tmp_path / "keyed.tl")
    tl.ingest.litdata(folder, keyed, key="x")
    write_chunk(folder, 0, [row(1), [row(2)[0], b"changed"], row(3), row(4), row(9)])
    report = tl.ingest.litdata(folder, keyed, key="x", delete=True).ingest_report
    assert (report.added, report.updated, report.deleted) == (0, 1, 0)


def test_a_chunk_that_is_compressed_whole_is_read(folder, tmp_path):
    index = json.loads((folder / "index.json").read_text())
    for one in index["chunks"]:
        path = folder / one["filename"]
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(path.read_bytes())
        one["filename"] = path.name.replace(".bin", ".zstd.bin")
        (folder / one["filename"]).write_bytes(sink.getvalue().to_pybytes())
        path.unlink()
    write_index(folder, FORMATS, TREE, *index["chunks"], compression="zstd")
    assert tl.ingest.litdata(folder, str(tmp_path / "x.tl"))["x"][:].tolist() == [*range(8)]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"encryption": {"a": 1}}, "chunks are encrypted\nread it by LitData"),
        ({"item_loader": "ParquetLoader"}, "chunks are for ParquetLoader"),
        ({"compression": "zstd", "compression_level": "batch"}, "chunks are compressed by batch"),
        ({"data_format": ["pickle", "str"]}, "'pickle' of 'x' would run any code"),
        ({"data_format": ["int"]}, "2 leaves, and 1 formats"),
        ({"data_format": ["integer", "str"]}, "'integer' of 'x' is unknown"),
        ({"data_format": ["no_header_tensor:10", "str"]}, "'x' has bfloat16, of which"),
        ({"data_format": ["no_header_numpy:99", "str"]}, "'x' has the unknown dtype 99"),
        ({"data_format": ["numpy", "str"]}, "first row of 'x' cannot be read: 0 bytes"),
        ({"data_format": ["pil", "str"]}, "first row of 'x' cannot be read: an image is cut"),
        (
            {"data_format": ["no_header_numpy:10", "int"]},
            "row 0 of chunk-0-0.*'name': 5 bytes are not int64",
        ),
        ({"data_spec": "[1"}, "is not LitData"),
        ({"compression": "lz9"}, "the compression 'lz9' is unknown"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(folder, more, why):
    index = json.loads((folder / "index.json").read_text())
    index["config"].update(more)
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.litdata(folder, "memory://litdata-index")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"filename": "../x.bin"}, r"'\.\./x\.bin', which is not in its folder"),
        ({"chunk_size": 1 << 40}, "has 1,099,511,627,776 rows"),
        ({"chunk_size": 3}, "it has 5 rows, and 3 in the index"),
        ({"chunk_size": "x"}, "is not LitData"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused(folder, change, why):
    index = json.loads((folder / "index.json").read_text())
    index["chunks"][0].update(change)
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.litdata(folder, "memory://litdata-chunk")


def test_damaged_and_cut_chunks_give_the_rows_or_an_error_of_ours(folder):
    draw = random.Random(5)
    for number in range(40):
        path = folder / draw.choice(["chunk-0-0.bin", "index.json", "chunk-0-1.bin"])
        whole = path.read_bytes()
        content = bytearray(whole)
        if number % 4 == 0:
            del content[draw.randrange(len(content)) :]
        else:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        with suppress(tl.TensorlakeError):
            assert len(tl.ingest.litdata(folder, f"memory://litdata-fuzz-{number}")) <= 8
        path.write_bytes(whole)


NESTED: list[tuple[bytes, Any]] = [
    (b'[1, "a"]', [1, "a"]),
    (b"\0" + u32(4) + b"[1] ", [1]),
    (b"\1" + u32(2) + text("a") + text("é"), ["a", "é"]),
    (b"\2" + u32(2) + struct.pack("<qq", -1, 2), [-1, 2]),
    (b"\3" + u32(1) + struct.pack("<d", 0.5), [0.5]),
    (b"\4" + u32(2) + b"\1\0", [True, False]),
    (b"\5" + u32(2) + text("k") + b"\7" + text("v") + text("n") + b"\x0b", {"k": "v", "n": None}),
    (
        b"\6" + u32(1, 2) + text("a") + text("b") + b"\x11" + text("x") + b"\x14\1",
        [{"a": "x", "b": True}],
    ),
    (b"\x08" + struct.pack("<q", 7), 7),
    (b"\x09" + struct.pack("<d", 1.5), 1.5),
    (b"\x0a\1", True),
]


@pytest.mark.parametrize(("content", "value"), NESTED)
def test_a_nested_value_is_read_and_no_part_of_it(content, value):
    assert parse_nested(content) == value
    for cut in range(len(content)):
        with suppress(ValueError):
            parse_nested(content[:cut])
    with pytest.raises(ValueError, match=r".+"):
        parse_nested(content + b"\0" if content[0] < 33 else content[:-1])


@pytest.mark.parametrize(
    "content",
    [
        b"\1\xff\xff\xff\xff",
        b"\5\xff\xff\xff\x7f",
        b"\6\xff\xff\xff\x7f\0\0\0\0",
        b"\6\1\0\0\0\xff\xff\xff\x7f",
        b"\x0c",
        b"\5\1\0\0\0\1\0\0\0k" * 300,
    ],
)
def test_a_nested_bomb_is_refused(content):
    with pytest.raises(ValueError, match=r"cut off|no keys|unknown form|nested deeper"):
        parse_nested(content)


@pytest.fixture
def mixed(tmp_path: Path):
    schema = {
        "image": tl.Image("jpeg"),
        "png": tl.Image("png"),
        "label": tl.ClassLabel(["cat", "dog"]),
        "many": tl.Array("int64", (None, None)),
        "flat": tl.Array("float16", (None,)),
        "boxes": tl.BBox(),
        "flag": tl.Bool(),
        "flags": tl.Array("bool", (2,)),
        "half": tl.Scalar("float16"),
        "byte": tl.Scalar("uint8"),
        "text": tl.Text(),
        "json": tl.Json(),
        "tags": tl.Tags(),
        "id": tl.Uuid(),
    }
    with tl.create(str(tmp_path / "mixed.tl"), schema) as ds:
        for n in range(7):
            ds.append(
                {
                    "image": image("jpeg", n),
                    "png": image("png", n),
                    "label": n % 2,
                    "many": np.full((n % 2, n), -n),
                    "flat": np.arange(n),
                    "boxes": np.full((n % 3, 4), n + 1.0).cumsum(axis=1),
                    "flag": n > 3,
                    "flags": [n > 3, n < 5],
                    "half": n / 2,
                    "byte": n,
                    "text": "é" * n,
                    "json": {"n": n},
                    "tags": ["a"] * (n % 2),
                    "id": f"00000000-0000-0000-0000-00000000000{n}",
                }
            )
        ds.commit("seven")
        yield ds


def test_what_was_written_is_the_same_tensors_again(mixed, tmp_path):
    mixed.to_litdata(tmp_path / "out", chunk_size=900)
    assert len([*(tmp_path / "out").glob("*.bin")]) > 1
    again = tl.ingest.litdata(tmp_path / "out", str(tmp_path / "again.tl"))
    assert dict(again.schema) == dict(mixed.schema)
    assert again.to_arrow().equals(mixed.to_arrow())


def test_the_command_line_writes_and_reads_it(mixed, tmp_path):
    status, _ = tensorlake(["export", "litdata", mixed.url, str(tmp_path / "out")], folder=tmp_path)
    again, printed = tensorlake(
        ["ingest", "litdata", str(tmp_path / "out"), str(tmp_path / "x.tl")], folder=tmp_path
    )
    assert (status, again) == (0, 0), printed
    assert "7 rows" in printed or "7 added" in printed


def test_values_that_the_format_lacks_are_refused(tmp_path):
    schema = {"n": tl.Scalar("int64", nullable=True), "t": tl.Timestamp("s"), "u": "uint64"}
    with tl.create(str(tmp_path / "x.tl"), schema) as ds:
        ds.append({"n": None, "t": "2024-01-01T00:00:00", "u": 1})
        ds.commit("one")
        with pytest.raises(InvalidInputError, match="row 0 of 'n' is NULL, which LitData"):
            ds.to_litdata(tmp_path / "out", columns=["n"])
        for name in ("t", "u"):
            with pytest.raises(UnsupportedFeatureError, match=f"LitData does not support '{name}'"):
                ds.to_litdata(tmp_path / "out", columns=[name])
    assert not (tmp_path / "out").exists()


def arrow_chunk(folder: Path, number: int, table: Any) -> Any:
    """Write a chunk as LitData 0.2.76 does where samples have plain values alone."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    rows, ipc = table.num_rows, out.getvalue().to_pybytes()
    content = u32(rows, *[4 * (2 + rows)] * (rows + 1)) + ipc + u32(len(ipc)) + b"LDARW01\0"
    name = f"chunk-0-{number}.bin"
    (folder / name).write_bytes(content)
    return {"filename": name, "chunk_size": rows, "chunk_bytes": len(content), "dim": None}


NESTED = {
    "type": "builtins.dict",
    "context": json.dumps(["id", "n", "l"]),
    "children_spec": [
        LEAF,
        {"type": "builtins.dict", "context": '["a", "b"]', "children_spec": [LEAF, LEAF]},
        LEAF,
    ],
}


def test_chunks_of_arrow_are_read(tmp_path):
    rows = [
        {"id": None if i == 3 else i, "n": {"a": f"ü{i}", "b": b"x"}, "l": [i]} for i in range(6)
    ]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("n", pa.struct([("a", pa.string()), ("b", pa.binary())])),
            ("l", pa.list_(pa.int64())),
        ]
    )
    tables = [pa.Table.from_pylist(rows[start : start + 4], schema) for start in (0, 4)]
    chunks = [arrow_chunk(tmp_path, at, one) for at, one in enumerate(tables)]
    types = {"id": {"type": "int", "optional": True}, "n": {"type": "struct", "fields": {}}}
    write_index(tmp_path, ["int", "str", "bytes", "json"], NESTED, *chunks, types=types)

    ds = tl.ingest.litdata(tmp_path, "memory://litdata-arrow")

    assert dict(ds.schema) == {
        "id": tl.Scalar("int64", nullable=True),
        "n/a": tl.Text(),
        "n/b": tl.Bytes(),
        "l": tl.Json(),
    }
    assert [row["id"] for row in ds] == [0, 1, 2, None, 4, 5]
    assert (ds["n/a"][:], ds["l"][5]) == ([f"ü{i}" for i in range(6)], [5])


@pytest.mark.parametrize("cut", [1, 13, 40, 200])
def test_damaged_chunks_of_arrow_are_errors_of_ours(tmp_path, cut):
    chunk = arrow_chunk(tmp_path, 0, pa.table({"0": [1, 2, 3]}))
    write_index(tmp_path, ["int"], LEAF, chunk)
    place = tmp_path / "chunk-0-0.bin"
    content = place.read_bytes()
    place.write_bytes(
        content[: len(content) - cut] + bytes(cut - 12 if cut > 12 else 0) + content[-12:]
    )

    with pytest.raises(InvalidInputError, match=r"chunk-0-0\.bin"):
        tl.ingest.litdata(tmp_path, f"memory://litdata-arrow-damaged-{cut}")


def test_two_leaves_of_one_name_are_an_error(tmp_path):
    inner = {"type": "builtins.dict", "context": '["b"]', "children_spec": [LEAF]}
    tree = {"type": "builtins.dict", "context": '["a/b", "a"]', "children_spec": [LEAF, inner]}
    chunk = write_chunk(tmp_path, 0, [[bytes(8), bytes(8)]])
    write_index(tmp_path, ["int", "int"], tree, chunk)

    with pytest.raises(InvalidInputError, match=r"two leaves of the samples of .* are 'a/b'"):
        tl.ingest.litdata(tmp_path, "memory://litdata-two-leaves")


def test_complex_numbers_are_arrays_and_no_integers(tmp_path):
    ds = tl.create("memory://litdata-complex", {"c": "complex64", "a": tl.Array("complex64", (2,))})
    ds.extend({"c": [1.5 + 2j], "a": [[1j, 2]]})

    with pytest.raises(UnsupportedFeatureError, match="LitData does not support 'c'"):
        ds.to_litdata(tmp_path / "out")
    ds.to_litdata(tmp_path / "out", columns=["a"])

    back = tl.ingest.litdata(tmp_path / "out", "memory://litdata-complex-back")
    assert back["a"][0].tolist() == [1j, 2]
    ds.discard()
