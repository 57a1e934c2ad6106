"""Chunks: columns come back; parts are read alone; damage never passes."""

import struct

import numpy as np
import pytest
import xxhash

from tensorlake.errors import CorruptionError, InvalidInputError, SchemaError
from tensorlake.format import (
    ChunkKind,
    ChunkLayout,
    decode_chunk,
    decode_units,
    encode_chunk,
    header_units,
    read_header,
    row_in_unit,
    rows_in_units,
    unit_of_rows,
    unit_ranges,
)
from tensorlake.types import (
    Array,
    BBox,
    Bool,
    Bytes,
    ClassLabel,
    Embedding,
    EncodedColumn,
    Image,
    Json,
    RaggedColumn,
    Scalar,
    Text,
    UniformColumn,
)

PICTURES = [np.full((32, 40 + n, 3), n, dtype=np.uint8) for n in range(4)]
LARGE = [bytes([n]) * (5000 + n) for n in range(6)]

CASES = [
    (Scalar("int8", nullable=True), [1, None, 3]),
    (Scalar("float64"), np.linspace(0, 1, 1000)),
    (Bool(), [True, False]),
    (Embedding(100), np.arange(3000, dtype=np.float32).reshape(30, 100)),
    (Array("uint8", (300,), nullable=True), [np.arange(300) % 256, None]),
    (Array("float32", (0, 4)), np.zeros((3, 0, 4))),
    (Array("int16", ()), [5]),
    (BBox(nullable=True), [[[1, 2, 3, 4]], None, []]),
    (Array("complex64", (None, 2)), [[[1j, 2]], []]),
    (ClassLabel(["a", "b"], multi=True), [["a"], [], ["b", "a"]]),
    (Text(nullable=True), ["a", None, "", "grün" * 100]),
    (Json(), [{"a": [1]}, 2]),
    (Bytes(nullable=True), [b"", None, b"x" * 100]),
    (Bytes(nullable=True), [*LARGE, None, b""]),
    (Image(nullable=True), [*PICTURES, None]),
]


def stored(sample_type, samples, **options):
    column = sample_type.convert(samples, tensor="x")
    layout = ChunkLayout.of(sample_type, **options)
    blob = encode_chunk(column, layout)
    return column, layout, blob, b"".join(blob.pieces)


def restored(blob, data, layout, **changes):
    known = {"header_nbytes": blob.header_nbytes, "rows": blob.rows, "verify": blob.checksum}
    return decode_chunk(data, layout=layout, **(known | changes))


def assert_same(left, right):
    assert type(left) is type(right)
    assert (left.valid is None) == (right.valid is None)
    if left.valid is not None:
        assert left.valid.tolist() == right.valid.tolist()
    if isinstance(left, EncodedColumn):
        assert list(map(bytes, left.samples)) == list(map(bytes, right.samples))
        assert (left.shapes is None) == (right.shapes is None)
    else:
        assert left.values.dtype == right.values.dtype
        assert left.values.shape == right.values.shape
        assert left.values.tobytes() == right.values.tobytes()
    if not isinstance(left, UniformColumn) and left.shapes is not None:
        assert left.shapes.tolist() == right.shapes.tolist()


@pytest.mark.parametrize(("sample_type", "samples"), CASES, ids=repr)
@pytest.mark.parametrize("codecs", [None, "raw", "zstd"])
def test_a_column_comes_back(sample_type, samples, codecs):
    column, layout, blob, data = stored(sample_type, samples, codecs=codecs)

    assert_same(restored(blob, data, layout), column)
    assert_same(restored(blob, data, layout, verify=None), column)
    assert ChunkLayout.from_json(layout.to_json()) == layout


@pytest.mark.parametrize(("sample_type", "samples"), CASES, ids=repr)
@pytest.mark.parametrize("codecs", [None, "raw", "zstd"])
def test_a_column_comes_back_from_parts_wherever_the_chunk_was_cut(sample_type, samples, codecs):
    column, layout, blob, data = stored(sample_type, samples, codecs=codecs)
    header, last = blob.header_nbytes, len(data) - 1
    edges = {12, header - 1, header, header + 1, header + 5000, header + 5001, header + 7000, last}
    cuts = sorted(cut for cut in edges if cut < len(data))

    for borders in [*([cut] for cut in cuts), cuts, [cuts[0], cuts[0], last]]:
        first, *rest = np.split(np.frombuffer(data, np.uint8), borders)
        parts = [part.tobytes() for part in rest]
        assert_same(restored(blob, first.tobytes(), layout, rest=parts), column)
        assert_same(restored(blob, first.tobytes(), layout, rest=parts, verify=None), column)


def test_raw_samples_of_a_chunk_in_parts_are_not_copied():
    _, layout, blob, data = stored(Bytes(), LARGE)
    parts = [data[:8000], data[8000:]]

    column = restored(blob, parts[0], layout, rest=parts[1:])

    owners = [one.obj if isinstance(one, memoryview) else None for one in column.samples]
    assert [owner is parts[0] for owner in owners].count(True) == 1
    assert [owner is parts[1] for owner in owners].count(True) == len(LARGE) - 2


def test_damage_in_any_part_is_found():
    _, layout, blob, data = stored(Bytes(), LARGE)
    damaged = data[:-1] + b"?"

    with pytest.raises(CorruptionError, match="checksum"):
        restored(blob, damaged[:9000], layout, rest=[damaged[9000:]])
    with pytest.raises(CorruptionError, match="bytes of samples instead of"):
        restored(blob, data[:9000], layout, rest=[data[9000:-1]], verify=None)


@pytest.mark.parametrize(("sample_type", "samples"), CASES, ids=repr)
def test_a_chunk_without_rows_comes_back(sample_type, samples):
    _, layout, blob, data = stored(sample_type, samples[:0])

    assert len(restored(blob, data, layout)) == 0


@pytest.mark.parametrize(("sample_type", "samples"), CASES, ids=repr)
def test_the_blob_says_its_size_checksum_and_alignment(sample_type, samples):
    _, layout, blob, data = stored(sample_type, samples)

    assert blob.nbytes == len(data)
    assert blob.checksum == xxhash.xxh3_64_intdigest(data)
    assert blob.header_nbytes % 64 == 0
    assert blob.kind is layout.kind


def test_raw_uniform_values_are_a_view_of_the_blob():
    _, layout, blob, data = stored(Embedding(100), np.ones((30, 100)))

    column = restored(blob, data, layout)

    assert np.shares_memory(column.values, np.frombuffer(data, np.uint8))


def test_large_samples_are_views_and_pieces_are_the_samples_given():
    column, layout, blob, data = stored(Bytes(), LARGE)

    assert all(one is other for one, other in zip(blob.pieces[1:], column.samples, strict=True))
    assert isinstance(restored(blob, data, layout).samples[0], memoryview)


def test_a_uniform_column_is_stored_as_ragged_where_the_tensor_is():
    layout = ChunkLayout.of(Array("int32", (None,)))
    blob = encode_chunk(UniformColumn(np.array([[1, 2]], dtype=np.int32)), layout)

    column = restored(blob, b"".join(blob.pieces), layout)

    assert isinstance(column, RaggedColumn)
    assert column.shapes.tolist() == [[2]]


@pytest.mark.parametrize(
    "column",
    [
        EncodedColumn([b"a"]),
        UniformColumn(np.zeros(3, np.float64)),
        UniformColumn(np.zeros((3, 1), np.float32)),
        RaggedColumn(np.zeros(0, np.float32), np.zeros((1, 1), np.int64)),
    ],
    ids=repr,
)
def test_a_column_of_another_layout_is_refused(column):
    with pytest.raises(InvalidInputError, match="convert it"):
        encode_chunk(column, ChunkLayout.of(Scalar("float32")))


@pytest.mark.parametrize(("sample_type", "samples"), CASES, ids=repr)
@pytest.mark.parametrize("verified_by", ["index", "header"])
def test_any_flipped_byte_is_noticed(sample_type, samples, verified_by):
    _, layout, blob, data = stored(sample_type, samples)
    raw_payload = layout.is_raw and verified_by == "header"
    stop = blob.header_nbytes if raw_payload else len(data)
    step = max(1, stop // 400)

    for position in range(0, stop, step):
        damaged = bytearray(data)
        damaged[position] ^= 0x41
        with pytest.raises(CorruptionError):
            restored(
                blob,
                bytes(damaged),
                layout,
                verify=blob.checksum if verified_by == "index" else None,
            )


@pytest.mark.parametrize(("sample_type", "samples"), CASES, ids=repr)
def test_any_truncation_and_any_extra_byte_is_noticed(sample_type, samples):
    _, layout, blob, data = stored(sample_type, samples)

    for stop in range(0, len(data), max(1, len(data) // 200)):
        for verify in (blob.checksum, None):
            with pytest.raises(CorruptionError):
                restored(blob, data[:stop], layout, verify=verify)
    with pytest.raises(CorruptionError):
        restored(blob, data + b"\0", layout, verify=None)


@pytest.mark.parametrize(
    "changes", [{"rows": 2}, {"rows": 1 << 40}, {"header_nbytes": 64}, {"header_nbytes": 1 << 40}]
)
def test_what_the_index_says_must_agree(changes):
    _, layout, blob, data = stored(Scalar("int8", nullable=True), [1, None, 3])

    with pytest.raises(CorruptionError, match="'x' is damaged"):
        restored(blob, data, layout, **changes, where="'x'")


def test_another_layout_than_the_chunks_is_noticed():
    _, _, blob, data = stored(Scalar("int32"), [1, 2, 3])

    for other in (Scalar("int64"), Array("int32", (2,)), Array("int32", (None,)), Text()):
        with pytest.raises(CorruptionError):
            restored(blob, data, ChunkLayout.of(other))


@pytest.mark.parametrize(
    ("sample_type", "samples"),
    [
        (Embedding(100), np.arange(100 * 77, dtype=np.float32).reshape(77, 100)),
        (Array("uint8", (10_000,)), np.arange(50_000).reshape(5, 10_000) % 256),
        (Bytes(nullable=True), [*LARGE, *LARGE, None, b"", b"x" * 9000]),
        (Image(), [np.random.default_rng(0).integers(0, 255, (64, 64, 3)) for _ in range(5)]),
    ],
    ids=repr,
)
def test_every_row_can_be_read_alone(sample_type, samples):
    column, layout, blob, data = stored(sample_type, samples)
    head = data[: blob.header_nbytes]
    header = read_header(head, header_nbytes=len(head), rows=blob.rows, where="a chunk")
    units = header_units(header, layout=layout)

    assert units.lengths.tolist() == blob.units.lengths.tolist()
    assert units.checksums.tolist() == blob.units.checksums.tolist()
    for row in range(blob.rows):
        wanted = unit_of_rows(layout, np.array([row]))
        (start, stop), *_ = unit_ranges(units, wanted, header_nbytes=blob.header_nbytes)
        part = decode_units([data[start:stop]], wanted, units=units, layout=layout)
        at = int(row_in_unit(layout, np.array([row]))[0])
        assert at < len(part) == rows_in_units(layout, units.lengths[wanted])[0]
        one = sample_type.present_one(part, at) if not sample_type.is_media else None
        expected = sample_type.present_one(column, row) if not sample_type.is_media else None
        np.testing.assert_array_equal(one, expected)
        if isinstance(column, EncodedColumn):
            assert bytes(part.samples[0]) == bytes(column.samples[row])


def test_units_are_small_blocks_of_whole_rows():
    _, _, blob, _ = stored(Embedding(100), np.zeros((77, 100)))

    assert blob.units.lengths.tolist() == [8000] * 3 + [77 * 400 - 24000]


def test_damage_of_a_unit_is_noticed():
    _, layout, blob, data = stored(Bytes(), LARGE)
    wanted = np.array([2])
    ((start, stop),) = unit_ranges(blob.units, wanted, header_nbytes=blob.header_nbytes)
    good = data[start:stop]

    for damaged in (good[:-1], good + b"x", b"\x01" + good[1:], b""):
        with pytest.raises(CorruptionError):
            decode_units([damaged], wanted, units=blob.units, layout=layout)


def test_null_and_empty_samples_differ_without_the_header():
    _, layout, blob, _ = stored(Bytes(nullable=True), [*LARGE, *LARGE, None, b""])

    column = decode_units([b"", b""], np.array([12, 13]), units=blob.units, layout=layout)

    assert column.valid.tolist() == [False, True]


@pytest.mark.parametrize(
    ("sample_type", "samples"),
    [
        (Text(), ["a" * 9000]),
        (Bytes(), [b"small"]),
        (Scalar("int8"), [1]),
        (Array("uint8", (300,), nullable=True), [np.zeros(300, np.uint8), None]),
        (BBox(), [[]]),
    ],
    ids=repr,
)
def test_chunks_that_are_read_whole_have_no_units(sample_type, samples):
    _, layout, blob, data = stored(sample_type, samples)

    header = read_header(data, header_nbytes=blob.header_nbytes, rows=blob.rows, where="a chunk")
    units = header_units(header, layout=layout)

    assert blob.units is None
    assert units is None


def test_a_label_takes_about_a_byte():
    rng = np.random.default_rng(0)
    labels = ClassLabel([str(n) for n in range(10)])

    _, _, blob, _ = stored(labels, rng.integers(0, 10, 100_000))

    assert blob.nbytes < 105_000


def test_headers_of_images_take_few_bytes_a_row():
    pictures = [bytes(9000 + 7 * (n % 100)) for n in range(1000)]
    column = EncodedColumn(pictures, np.tile([[375, 500, 3], [500, 375, 3]], (500, 1)))

    blob = encode_chunk(column, ChunkLayout.of(Image()))

    assert blob.header_nbytes < 8 * 1000


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "fill", "dtype": None, "shape": [], "codecs": [{"name": "bytes"}]},
        {"kind": "uniform", "dtype": "object", "shape": [], "codecs": [{"name": "bytes"}]},
        {"kind": "uniform", "dtype": "int8", "shape": ["x"], "codecs": [{"name": "bytes"}]},
        {"kind": "uniform", "dtype": "int8", "shape": [], "codecs": [{"name": "magic"}]},
        {"kind": "uniform", "dtype": "int8", "shape": [], "codecs": None},
    ],
    ids=repr,
)
def test_a_layout_that_cannot_be_is_refused(data):
    with pytest.raises(SchemaError):
        ChunkLayout.from_json(data)


def test_kinds_have_the_formats_numbers():
    assert [kind.value for kind in ChunkKind] == [1, 2, 3, 4, 5, 6, 7]


def test_the_bytes_are_those_that_the_documentation_draws():
    """A second writer, from the docstring of chunk_header.py alone."""
    layout = ChunkLayout.of(Bytes(nullable=True))
    column = Bytes(nullable=True).convert([b"abc", None, b"a"], tensor="x")
    validity = bytes([0b101])
    lengths = struct.pack("<qBBHI", 0, 1, 0, 0, 3) + bytes([3, 0, 1])
    body = (validity + lengths).ljust(64, b"\0")
    payload = b"abca"
    fixed = struct.pack("<4sBBHIIQQI12x", b"TLC1", 3, 1, 0, 3, 128, 4, 4, 0)
    fixed += struct.pack("<Q", xxhash.xxh3_64_intdigest(payload))
    checksum = struct.pack("<Q", xxhash.xxh3_64_intdigest(fixed + body))

    blob = encode_chunk(column, layout)

    assert b"".join(blob.pieces) == fixed + checksum + body + payload
