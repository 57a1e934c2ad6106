"""TFRecord in and out: protobuf's own messages and TensorBoard's files as judges."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image as Pillow
from tensorboard.compat.tensorflow_stub import errors
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
from tensorboard.summary.writer.record_writer import RecordWriter

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.ingest.records.examples import parse_example


def _message_classes():
    """Make the messages of tf.train from their published definition."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")

    def message(parent, name, *fields):
        made = (parent.message_type if parent is file else parent.nested_type).add(name=name)
        for number, (label, kind, called) in enumerate(fields, start=1):
            one = made.field.add(name=called, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = field.TYPE_MESSAGE, kind
            else:
                one.type = kind
        return made

    many, one = field.LABEL_REPEATED, field.LABEL_OPTIONAL
    message(file, "BytesList", (many, field.TYPE_BYTES, "value"))
    message(file, "FloatList", (many, field.TYPE_FLOAT, "value"))
    message(file, "Int64List", (many, field.TYPE_INT64, "value"))
    lists = (("BytesList", "bytes_list"), ("FloatList", "float_list"), ("Int64List", "int64_list"))
    feature = message(file, "Feature", *((one, f".t.{kind}", name) for kind, name in lists))
    feature.oneof_decl.add(name="kind")
    for each in feature.field:
        each.oneof_index = 0
    features = message(file, "Features", (many, ".t.Features.FeatureEntry", "feature"))
    entry = message(
        features, "FeatureEntry", (one, field.TYPE_STRING, "key"), (one, ".t.Feature", "value")
    )
    entry.options.map_entry = True
    message(file, "Example", (one, ".t.Features", "features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


Example = _message_classes()
KINDS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def example(**features):
    made = Example()
    for name, values in features.items():
        if values:
            part = getattr(made.features.feature[name], KINDS[type(values[0])])
            part.value.extend(values)
        else:
            made.features.feature[name].SetInParent()
    return made.SerializeToString()


def records_of(*datas):
    out = io.BytesIO()
    writer = RecordWriter(out)
    for data in datas:
        writer.write(data)
    return out.getvalue()


def read_records(path):
    reader = PyRecordReader_New(str(path))
    while True:
        try:
            reader.GetNext()
        except errors.OutOfRangeError:
            return
        yield Example.FromString(reader.record())


def png(value):
    out = io.BytesIO()
    Pillow.new("L", (2, 3), value).save(out, "png")
    return out.getvalue()


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(records_of(*(example(x=[n], name=[b"n%d" % n]) for n in range(5))))
    return path


def test_a_record_is_parsed_as_protobuf_parses_it():
    draw = random.Random(4)
    for _ in range(50):
        features = {
            "ints": [draw.choice([0, -1, 1 << 62, -(1 << 63), 127, 128, 300]) for _ in range(9)],
            "floats": [draw.uniform(-9, 9) for _ in range(draw.randrange(1, 5))],
            "strings": [draw.randbytes(draw.randrange(300)) for _ in range(draw.randrange(1, 4))],
            "größe": [1],
        }
        data = example(**features)
        found, expected = parse_example(data), Example.FromString(data).features.feature
        assert found["ints"].tolist() == [*expected["ints"].int64_list.value]
        assert found["floats"].tolist() == [*expected["floats"].float_list.value]
        assert found["strings"] == [*expected["strings"].bytes_list.value]
        assert found["größe"].tolist() == [1]


def test_lists_that_are_not_packed_are_read_as_those_that_are():
    floats = b"\x0d" + struct.pack("<f", 1.5) + b"\x0d" + struct.pack("<f", -2)
    feature = b"\x12" + bytes([len(floats)]) + floats
    entry = b"\x0a\x01f\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    ints = b"\x08\x03\x08" + b"\xff" * 9 + b"\x01"
    feature = b"\x1a" + bytes([len(ints)]) + ints
    entry = b"\x0a\x01i\x12" + bytes([len(feature)]) + feature
    features += b"\x0a" + bytes([len(entry)]) + entry
    data = b"\x0a" + bytes([len(features)]) + features
    found = parse_example(data)
    assert (
        found["f"].tolist()
        == [1.5, -2]
        == [*Example.FromString(data).features.feature["f"].float_list.value]
    )
    assert found["i"].tolist() == [3, -1]


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_what_is_cut_off_is_not_an_example(cut):
    data = example(x=[1, 300, -1], name=[b"abc", b"d"])
    with pytest.raises(ValueError, match=r"cut off|not|bits|unknown"):
        parse_example(data[:-cut])


def test_types_follow_from_the_records(tmp_path):
    rows = [
        {
            "label": [n],
            "point": [1.5, n / 2],
            "image": [png(n)],
            "name": [f"Nº {n}".encode()],
            "raw": [bytes([255, n])],
            "tags": [b"a"] * n,
            "ids": [*range(n)],
            "maybe": [n] if n else [],
        }
        for n in range(3)
    ]
    del rows[1]["maybe"]
    (tmp_path / "x.tfrecord").write_bytes(records_of(*(example(**row) for row in rows)))
    ds = tl.ingest.tfrecord(tmp_path, str(tmp_path / "x.tl"))
    assert {name: kind.describe() for name, kind in ds.schema.items()} == {
        "ids": "Array(int64, (None,))",
        "image": "Image(png)",
        "label": "Scalar(int64)",
        "maybe": "Scalar(int64)",
        "name": "Text",
        "point": "Array(float32, (2,))",
        "raw": "Bytes",
        "tags": "Sequence(Text)",
    }
    assert ds["image"][2].tolist() == np.full((3, 2, 3), 2).tolist()
    assert [name for name, kind in ds.schema.items() if kind.nullable] == ["maybe"]
    assert ds["name"][:] == ["Nº 0", "Nº 1", "Nº 2"]
    assert [one.tolist() for one in ds["ids"][:]] == [[], [0], [0, 1]]
    assert ds["maybe"].to_list() == [None, None, 2]
    assert ds["point"][1].tolist() == [1.5, 0.5]


def test_a_schema_restores_shapes_classes_and_memory(tmp_path):
    raw = np.arange(6, dtype="<i2").tobytes()
    data = example(x=[0.5] * 6, y=[1], raw=[raw], json=[b'{"a": 1}'])
    (tmp_path / "x").write_bytes(records_of(data))
    schema = {
        "x": tl.Array("float32", (2, 3)),
        "y": tl.ClassLabel(["cat", "dog"]),
        "raw": tl.Array("int16", (3, 2)),
        "json": tl.Json(),
    }
    ds = tl.ingest.tfrecord(tmp_path / "x", str(tmp_path / "x.tl"), schema=schema)
    assert ds["x"][:].shape == (1, 2, 3)
    assert ds["raw"][0].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (ds[0]["y"], ds[0]["json"]) == ("dog", {"a": 1})


def test_the_same_call_again_adds_what_is_new(shard, tmp_path):
    dst = str(tmp_path / "x.tl")
    assert tl.ingest.tfrecord(shard, dst).ingest_report.added == 5
    assert tl.ingest.tfrecord(shard, dst).ingest_report.added == 0
    with shard.open("ab") as file:
        file.write(records_of(example(x=[5], name=[b"n5"])))
    ds = tl.ingest.tfrecord(shard, dst)
    assert (ds.ingest_report.added, ds["x"][:].tolist()) == (1, [*range(6)])
    changed = [example(x=[n], name=[b"m%d" % n]) for n in range(6)]
    shard.write_bytes(records_of(*changed))
    with pytest.raises(InvalidInputError, match="changed before its end"):
        tl.ingest.tfrecord(shard, dst)


def test_types_stay_those_of_the_first_run(shard, tmp_path):
    dst = str(tmp_path / "x.tl")
    tl.ingest.tfrecord(shard, dst)
    (tmp_path / "y.tfrecord").write_bytes(records_of(example(x=[7], name=[b"\xff"])))
    with pytest.raises(InvalidInputError, match=r"record 0 of y\.tfrecord: .*utf-8"):
        tl.ingest.tfrecord(tmp_path, dst)
    ds = tl.ingest.tfrecord(tmp_path, dst, on_error="skip")
    assert (ds.ingest_report.rejected, len(ds)) == (1, 5)


def test_pieces_of_large_files_name_their_records_by_number(tmp_path):
    with tl.create(str(tmp_path / "made.tl"), {"x": "int64", "raw": tl.Bytes()}) as made:
        made.extend({"x": [*range(7)], "raw": [bytes([255]) * (3 << 20)] * 7})
        made.commit("seven")
        made[:4].to_tfrecord(tmp_path / "first")
        made[4:].to_tfrecord(tmp_path / "rest")
    path, rest = (tmp_path / name / "part-00000.tfrecord" for name in ("first", "rest"))
    dst = str(tmp_path / "x.tl")
    tl.ingest.tfrecord(path, dst)
    content = bytearray(path.read_bytes() + rest.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    ds = tl.ingest.tfrecord(path, dst, on_error="skip")
    assert ds["x"][:].tolist() == [*range(6)]
    assert ds.ingest_report.skipped[0].item == "record 6 of part-00000.tfrecord"


def test_files_are_read_compressed_by_pattern_and_from_a_store(shard, tmp_path):
    packed = tmp_path / "more" / "train-00000-of-00001.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(shard.read_bytes()))
    ds = tl.ingest.tfrecord(f"{tmp_path}/more/train-*", str(tmp_path / "gz.tl"))
    assert ds["x"][:].tolist() == [*range(5)]
    ds = tl.ingest.tfrecord(shard.as_uri(), "memory://tfrecord-of-a-store")
    assert ds["x"][:].tolist() == [*range(5)]


@pytest.mark.parametrize(
    ("at", "why", "rows"),
    [
        (3, "record 0 of x.tfrecord: it is damaged or not TFRecord", []),
        (20, r"record 0 of x.tfrecord: the checksum of its data differs", [1, 2, 3, 4]),
        (-1, r"record 4 of x.tfrecord: the checksum of its data differs", [0, 1, 2, 3]),
    ],
)
def test_damage_is_found_and_left_out_alone(shard, tmp_path, at, why, rows):
    content = bytearray(shard.read_bytes())
    content[at] ^= 1
    shard.write_bytes(content)
    dst = str(tmp_path / "x.tl")
    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.tfrecord(shard, dst)
    if rows:
        ds = tl.ingest.tfrecord(shard, dst, on_error="skip")
        assert (ds["x"][:].tolist(), ds.ingest_report.rejected) == (rows, 1)


def test_a_list_that_is_cut_off_is_left_out_alone(tmp_path):
    path = tmp_path / "x.tfrecord"
    rows = [example(x=[n, n + 1]) for n in range(20)]
    rows[5] = rows[5].replace(b"\x05\x06", b"\x81\x81")  # each byte announces another one
    path.write_bytes(records_of(*rows))

    with pytest.raises(InvalidInputError, match=r"record 5 of x.tfrecord: a list .* is cut off"):
        tl.ingest.tfrecord(path, str(tmp_path / "x.tl"))
    ds = tl.ingest.tfrecord(path, str(tmp_path / "x.tl"), on_error="skip")

    assert [one[0] for one in ds["x"].to_list()] == [n for n in range(20) if n != 5]


@pytest.mark.parametrize("missing", [1, 4, 5, 30])
def test_a_file_that_is_cut_off_has_the_records_before(shard, tmp_path, missing):
    shard.write_bytes(shard.read_bytes()[:-missing])
    dst = str(tmp_path / "x.tl")
    with pytest.raises(InvalidInputError, match=r"record 4 of x\.tfrecord: the file is cut off"):
        tl.ingest.tfrecord(shard, dst)
    ds = tl.ingest.tfrecord(shard, dst, on_error="quarantine")
    assert ds["x"][:].tolist() == [0, 1, 2, 3]
    assert "cut off" in ds.ingest_report.skipped[0].reason


@pytest.mark.parametrize(
    ("rows", "schema", "why"),
    [
        ([{"x": [1]}, {"x": [1.0]}], None, "'x' has values of float32 and of int64"),
        ([{"x": []}], None, "'x' is empty in the first and last records"),
        ([{"x": [1]}, {"y": [1]}], {"x": "int64"}, "record 1 .*'x' is missing"),
        ([{"x": [1, 2]}], {"x": "int64"}, "record 0 .*'x' has 2 values, and Scalar.int64. one"),
        ([{"x": [1, 2]}], {"x": tl.Array("int64", (3,))}, r"record 0 .*the 2 values of 'x'"),
        ([{"x": [b"\xff"]}], {"x": tl.Text()}, "record 0 .*utf-8"),
        ([{"x": [300]}], {"x": "uint8"}, "300"),
        ([{"x": [1]}, {"x": [2]}], {"x": "bool"}, "record 1 .*'x' has 2, and a boolean is 0 or 1"),
    ],
)
def test_what_does_not_match_is_named(tmp_path, rows, schema, why):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(records_of(*(example(**row) for row in rows)))
    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.tfrecord(path, str(tmp_path / "x.tl"), schema=schema)


def test_a_sequence_example_and_a_folder_without_records_are_refused(tmp_path):
    (tmp_path / "x.tfrecord").write_bytes(records_of(b"\x0a\x00\x12\x00"))
    with pytest.raises(InvalidInputError, match="may be a SequenceExample"):
        tl.ingest.tfrecord(tmp_path, str(tmp_path / "x.tl"))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.csv").write_text("x")
    with pytest.raises(InvalidInputError, match=r"'\.tfrecord' in its name\npass a pattern"):
        tl.ingest.tfrecord(tmp_path / "d", str(tmp_path / "x.tl"))


@pytest.fixture
def mixed(tmp_path):
    schema = {
        "image": tl.Image("png"),
        "label": tl.ClassLabel(["cat", "dog"]),
        "boxes": tl.BBox(),
        "wide": tl.Array("int64", (None, None)),
        "half": tl.Scalar("float16", nullable=True),
        "flag": "bool",
        "text": tl.Text(nullable=True),
        "json": tl.Json(),
        "tags": tl.Tags(),
        "id": tl.Uuid(),
    }
    with tl.create(str(tmp_path / "mixed.tl"), schema) as ds:
        for n in range(7):
            ds.append(
                {
                    "image": png(n),
                    "label": n % 2,
                    "boxes": np.full((n % 3, 4), n + 1.0).cumsum(axis=1),
                    "wide": np.full((n % 2, n), -n),
                    "half": n / 2 if n % 3 else None,
                    "flag": n > 3,
                    "text": "é" * n if n != 4 else None,
                    "json": {"n": n},
                    "tags": ["a"] * (n % 2),
                    "id": f"00000000-0000-0000-0000-00000000000{n}",
                }
            )
        ds.commit("seven")
        yield ds


def test_protobuf_reads_what_is_written(mixed, tmp_path):
    mixed.to_tfrecord(tmp_path / "out", shard_size=500)
    paths = sorted((tmp_path / "out").glob("*.tfrecord"))
    assert len(paths) > 1
    rows = [one.features.feature for path in paths for one in read_records(path)]
    assert [one["label"].int64_list.value[0] for one in rows] == [0, 1, 0, 1, 0, 1, 0]
    assert [one["image"].bytes_list.value[0] for one in rows] == [png(n) for n in range(7)]
    assert [*rows[5]["wide"].int64_list.value] == [-5] * 5
    assert [*rows[5]["wide/shape"].int64_list.value] == [1, 5]
    assert [*rows[2]["boxes"].float_list.value] == mixed["boxes"][2].ravel().tolist()
    assert ("half" in rows[3], rows[1]["half"].float_list.value[0]) == (False, 0.5)
    assert json.loads(rows[3]["json"].bytes_list.value[0]) == {"n": 3}


def test_what_was_written_is_the_same_tensors_again(mixed, tmp_path):
    mixed.to_tfrecord(tmp_path / "out", shard_size=500)
    again = tl.ingest.tfrecord(tmp_path / "out", str(tmp_path / "again.tl"))
    assert dict(again.schema) == dict(mixed.schema)
    assert again.to_arrow().equals(mixed.to_arrow())


@pytest.mark.parametrize(
    ("kind", "value", "error", "why"),
    [
        ("float64", 0.1, InvalidInputError, r"row 0 of 'x': .*float32, .*0\.1"),
        ("uint64", 1 << 63, InvalidInputError, "row 0 of 'x': .*int64, .*9223372036854775808"),
        (tl.Timestamp("s"), "2024-01-01T00:00:00", UnsupportedFeatureError, "'x' .Timestamp"),
    ],
)
def test_values_that_the_format_lacks_are_refused(tmp_path, kind, value, error, why):
    with tl.create(str(tmp_path / "x.tl"), {"x": kind}) as ds:
        ds.append({"x": value})
        ds.commit("one")
        with pytest.raises(error, match=why):
            ds.to_tfrecord(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_episodes_of_rlds_become_rows_of_steps(tmp_path):
    def episode(count, is_terminal):
        return example(**{
            "steps/is_last": [0] * (count - 1) + [1],
            "steps/is_terminal": [0] * (count - 1) + [is_terminal],
            "steps/observation/image": [png(t) for t in range(count)],
            "steps/observation/state": [t / 2 for t in range(2 * count)],
            "steps/reward": [1.0] * count,
        })  # fmt: skip

    path = tmp_path / "rlds.tfrecord-00000-of-00001"
    path.write_bytes(records_of(episode(4, 1), episode(3, 0)))
    images = {"steps/observation/image": tl.Sequence(tl.Bytes())}
    with tl.ingest.tfrecord(path, tmp_path / "episodes", schema=images) as episodes:
        types = {"observation.image": tl.Image("png")}
        ds = tl.trajectories.from_rlds(episodes, tmp_path / "steps", schema=types)

    assert ds["episode"][:].tolist() == [0, 0, 0, 1, 1]
    assert ds["terminated"][:].tolist() == [False, False, True, False, False]
    assert ds["truncated"][:].tolist() == [False] * 4 + [True]
    assert ds["observation.state"][:][3:].tolist() == [[0, 0.5], [1, 1.5]]
    assert ds["observation.image"].bytes(1) == png(1)
    assert ds["last_observation.image"].bytes(2) == png(3)
