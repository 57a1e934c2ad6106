"""Codecs: every dtype comes back, and no damaged input is believed."""

import numpy as np
import pytest

from tensorlake.errors import SchemaError
from tensorlake.format import (
    decode,
    decode_into,
    default_codecs,
    encode,
    is_raw,
    parse_codecs,
)
from tensorlake.types import (
    DTYPE_NAMES,
    Array,
    BBox,
    Bool,
    Bytes,
    ClassLabel,
    Embedding,
    Image,
    Json,
    Scalar,
    Text,
    parse_dtype,
)

SHUFFLED = [
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
    {"name": "zstd", "configuration": {"level": 1, "checksum": True}},
]
ZSTD = [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}]


def pipelines(dtype):
    return [parse_codecs(short, dtype) for short in ("raw", "lz4", "zstd")]


@pytest.mark.parametrize("name", DTYPE_NAMES)
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3), (5, 0, 2), ()])
def test_every_dtype_and_shape_comes_back(name, shape):
    dtype = parse_dtype(name)
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)

    for codecs in pipelines(dtype):
        decoded = decode(encode(values, codecs), codecs, dtype, shape)
        assert decoded.dtype == dtype
        assert decoded.shape == shape
        assert (decoded == values).all()


@pytest.mark.parametrize("name", DTYPE_NAMES)
@pytest.mark.parametrize("shape", [(0,), (7, 3)])
def test_every_dtype_is_decoded_into_memory_that_is_there(name, shape):
    dtype = parse_dtype(name)
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)

    for codecs in (*pipelines(dtype), ({"name": "bytes"}, *ZSTD)):
        memory = np.zeros((3, *shape), dtype.newbyteorder("<"))
        decode_into(encode(values, codecs), codecs, memory[1])
        assert (memory[1] == values).all()
        assert not memory[::2].any(), "nothing else is written to"


@pytest.mark.parametrize("count", [1, 300])
@pytest.mark.parametrize("codecs", ["raw", "lz4", "zstd", "shuffled", "shuffled alone"])
def test_what_has_another_size_is_not_written_past_the_end_of_memory(codecs, count):
    pipeline = {"shuffled": SHUFFLED, "shuffled alone": SHUFFLED[:2]}.get(codecs, codecs)
    parsed = parse_codecs(pipeline, np.dtype("int32"))
    memory = np.zeros((3, 100), np.int32)
    data = encode(np.ones(count, np.int32), parsed)

    with pytest.raises(ValueError):
        decode_into(data, parsed, memory[1])

    assert not memory[::2].any()


def test_big_endian_values_are_stored_little_endian():
    codecs = parse_codecs("raw", np.dtype("int32"))

    assert bytes(encode(np.array([1], dtype=">i4"), codecs)) == b"\x01\0\0\0"


def test_values_out_of_order_in_memory_are_stored_in_c_order():
    codecs = parse_codecs("lz4", np.dtype("int16"))
    values = np.arange(12, dtype=np.int16).reshape(3, 4).T

    assert (decode(encode(values, codecs), codecs, values.dtype, (4, 3)) == values).all()


def test_nan_and_negative_zero_keep_their_bits():
    codecs = parse_codecs("zstd", np.dtype("float64"))
    values = np.array([np.nan, -0.0, np.inf])

    decoded = decode(encode(values, codecs), codecs, values.dtype, (3,))

    assert decoded.tobytes() == values.tobytes()


def test_raw_copies_nothing_in_either_direction():
    codecs = parse_codecs("raw", np.dtype("float32"))
    values = np.arange(4, dtype=np.float32)

    stored = encode(values, codecs)

    assert np.shares_memory(np.frombuffer(stored, np.float32), values)
    assert np.shares_memory(decode(stored, codecs, values.dtype, (4,)), values)


def test_shuffle_before_zstd_comes_back():
    codecs = parse_codecs(SHUFFLED, np.dtype("int32"))
    values = np.arange(1000, dtype=np.int32)

    stored = encode(values, codecs)

    assert len(stored) < values.nbytes / 4
    assert (decode(stored, codecs, values.dtype, (1000,)) == values).all()


@pytest.mark.parametrize("short", ["lz4", "zstd"])
@pytest.mark.parametrize("shape", [(9,), (11,), (0,), (1 << 40,)])
def test_another_size_than_known_from_outside_is_refused_before_decoding(short, shape):
    codecs = parse_codecs(short, np.dtype("int64"))
    stored = encode(np.arange(10), codecs)

    with pytest.raises(ValueError, match="bytes"):
        decode(stored, codecs, np.dtype("int64"), shape)


@pytest.mark.parametrize("codecs", [parse_codecs("lz4", np.dtype("int64")), SHUFFLED], ids=str)
def test_a_truncated_payload_is_refused(codecs):
    stored = bytes(encode(np.arange(100), codecs))

    for stop in range(len(stored)):
        with pytest.raises(ValueError):
            decode(stored[:stop], codecs, np.dtype("int64"), (100,))


def test_a_zstd_frame_that_hides_its_size_is_refused():
    unknown_size = bytes.fromhex("28b52ffd0058190000616263")
    codecs = parse_codecs("zstd", None)

    with pytest.raises(ValueError, match="Zstandard"):
        decode(unknown_size, codecs, np.dtype("uint8"), (3,))


@pytest.mark.parametrize(
    ("sample_type", "names", "shuffle"),
    [
        (Embedding(768), ["bytes"], None),
        (Embedding(3), ["bytes"], None),
        (Image(), ["bytes"], None),
        (Bytes(), ["bytes"], None),
        (Array("uint16", (512,)), ["bytes"], None),
        (Array("uint8", (255,)), ["bytes", "blosc"], "bitshuffle"),
        (Scalar("int32"), ["bytes", "blosc"], "bitshuffle"),
        (Scalar("int64"), ["bytes", "blosc"], "shuffle"),
        (ClassLabel(["a"]), ["bytes", "blosc"], "shuffle"),
        (BBox(), ["bytes", "blosc"], "shuffle"),
        (Bool(), ["bytes", "blosc"], "bitshuffle"),
        (Text(), ["bytes", "zstd"], None),
        (Json(), ["bytes", "zstd"], None),
    ],
    ids=repr,
)
def test_defaults_follow_the_type(sample_type, names, shuffle):
    codecs = default_codecs(sample_type)

    assert [codec["name"] for codec in codecs] == names
    assert codecs[-1].get("configuration", {}).get("shuffle") == shuffle
    assert is_raw(codecs) == (names == ["bytes"])
    assert parse_codecs(codecs, sample_type.dtype) == codecs


@pytest.mark.parametrize(
    "codecs",
    [
        "snappy",
        [],
        [{"name": "zstd", "configuration": {"level": 3}}],
        [{"name": "bytes"}, {"name": "sharding_indexed"}],
        [{"name": "bytes", "configuration": {"endian": "big"}}],
        [SHUFFLED[0], SHUFFLED[2], SHUFFLED[1]],
        [SHUFFLED[0], {"name": "zstd", "configuration": {"level": 99}}],
        [SHUFFLED[0], {"name": "zstd"}],
        [SHUFFLED[0], {"name": "numcodecs.shuffle", "configuration": {"elementsize": 0}}],
        [SHUFFLED[0], {"name": "blosc", "configuration": {"cname": "lz4"}}],
        [SHUFFLED[0], {"name": "blosc", "configuration": []}],
        [*pipelines(np.dtype("int32"))[1], SHUFFLED[2]],
    ],
    ids=repr,
)
def test_pipelines_of_other_programs_are_refused(codecs):
    with pytest.raises(SchemaError):
        parse_codecs(codecs, np.dtype("int32"))
