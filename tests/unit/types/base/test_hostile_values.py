"""Values that were meant to harm: refused before anything large is allocated, and never run.

Every value stands in a table by what it does: files that promise more pixels than they hold,
files that end early, sizes that do not fit memory, objects that run code when they are unpickled.
What is stored is damaged in the same ways, and reading it is an error with its row.
"""

import io
import pickle
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError
from tensorlake.types import EncodedColumn

BOUND_NBYTES = 16 << 20
"""What refusing may allocate: the values below promise a thousand times as much."""

HUGE = 50_000  # a side; squared and in three colours 7.5 GB
RNG = np.random.default_rng(4)
PIXELS = RNG.integers(0, 255, (20, 30, 3), dtype=np.uint8)


class Exploding:
    """What runs code where it is unpickled, or asked for its length, items or text."""

    def __reduce__(self):
        return (pytest.fail, ("a value was unpickled",))


def encoded(codec, pixels=PIXELS):
    (sample,) = tl.Image(codec).convert([pixels], tensor="x").samples
    return bytes(sample)


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_bomb():
    """A well-formed head of 50,000 × 50,000 pixels, and data that inflate without end."""
    head = struct.pack(">IIBBBBB", HUGE, HUGE, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(1 << 20))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", data)


def jpeg_bomb():
    data = bytearray(encoded("jpeg"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", HUGE, HUGE)
    return bytes(data)


def tiff_bomb():
    data = bytearray(encoded("tiff"))
    (table,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, table)
    for entry in range(table + 2, table + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from("<HH", data, entry)
        if tag in (256, 257):
            struct.pack_into("<HII", data, entry + 2, 4, 1, HUGE)
        assert kind
    return bytes(data)


def patched(codec, old, new):
    """A sample in which a box of sizes says something else."""
    data = encoded(codec)
    at = data.index(old) + len(old)
    return data[:at] + new + data[at + len(new) :]


# WebP is none of them: its sides end at 16,383 pixels, and it may hold that many in a few bytes.
BOMBS = {
    "png": png_bomb(),
    "jpeg": jpeg_bomb(),
    "tiff": tiff_bomb(),
    "avif": patched("avif", b"ispe\0\0\0\0", struct.pack(">II", HUGE, HUGE)),
    "jpeg2000": patched("jpeg2000", b"ihdr", struct.pack(">II", HUGE, HUGE)),
}


def bounded(act):
    """Call something under a watch on what it allocates at most."""
    tracemalloc.start()
    try:
        act()
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < BOUND_NBYTES


@pytest.mark.parametrize("codec", BOMBS)
def test_an_image_that_promises_too_many_pixels_is_refused(codec):
    kind = tl.Image(codec)

    def take():
        with pytest.raises(InvalidInputError, match="pixels") as caught:
            kind.convert([encoded(codec), BOMBS[codec]], tensor="x")
        assert caught.value.row == 1

    def read():
        for column in (
            EncodedColumn([BOMBS[codec]]),
            EncodedColumn([BOMBS[codec]], np.array([[HUGE, HUGE, 3]])),
            EncodedColumn([encoded(codec)], np.array([[HUGE, HUGE, 3]])),
        ):
            with pytest.raises(CorruptSampleError) as caught:
                kind.decode(column, tensor="x", rows=[5])
            assert caught.value.row == 5

    bounded(take)
    bounded(read)


@pytest.mark.parametrize("codec", [*BOMBS, "webp"])
def test_an_image_cut_anywhere_is_refused_or_an_error_when_read(codec):
    whole = encoded(codec)
    kind = tl.Image(codec)
    for stop in sorted({*range(0, min(len(whole), 64), 3), len(whole) // 2, len(whole) * 3 // 4}):
        with pytest.raises((InvalidInputError, CorruptSampleError)) as caught:
            kind.decode(kind.convert([whole[:stop]], tensor="x"), tensor="x")

        assert caught.value.row == 0


U32_MAX = b"\xff\xff\xff\xff"
TWO_GB = (2**31 - 1).to_bytes(4, "little")
STORED = {
    "Sequence": (tl.Sequence("float64"), [[1.0, 2.0]]),
    "Sequence(str)": (tl.Sequence("str"), [["a", "bc"]]),
    "Sequence(ragged)": (tl.Sequence(tl.Array("int8", (None, 2))), [[[[1, 2]], []]]),
    "Sequence(Image)": (tl.Sequence(tl.Image("png")), [[PIXELS]]),
    "Sequence(Sequence)": (tl.Sequence(tl.Sequence("int8")), [[[1], []]]),
    "Polygon": (tl.Polygon(), [[[0, 0, 4, 0, 4, 3]]]),
    "InstanceMask": (tl.InstanceMask(), [np.ones((2, 3, 4), np.bool_)]),
    "Tags": (tl.Tags(), [["a", "b"]]),
    "Json": (tl.Json(), [{"a": 1}]),
    "Uuid": (tl.Uuid(), [bytes(16)]),
}


@pytest.mark.parametrize("name", STORED)
def test_what_is_stored_and_damaged_is_an_error_and_bounded(name):
    """Cut, lengthened, or with sizes of 2 and 4 GB in the place of every number at its front."""
    kind, values = STORED[name]
    (whole,) = map(bytes, kind.convert(values, tensor="x").samples)
    damaged = [whole[:stop] for stop in range(len(whole))] if len(whole) < 200 else []
    damaged += [whole + b"\0\0\0\0"]
    for at in range(0, min(len(whole), 32), 4):
        damaged += [whole[:at] + size + whole[at + 4 :] for size in (U32_MAX, TWO_GB)]

    def read():
        for sample in damaged:
            column = EncodedColumn([sample])
            try:
                kind.present(kind.decode(column, tensor="x"))
            except (CorruptSampleError, ValueError):
                continue
            assert len(sample) <= len(whole) + 4, "what reads must be as small as its bytes"

    bounded(read)


HOSTILE = {
    "pickle": pickle.dumps(Exploding()),
    "object array": np.array([Exploding()], dtype=object),
    "npy of objects": None,  # made below
    "object": Exploding(),
    "list of objects": [Exploding()],
    "2 GB head of run lengths": {"size": [2**31, 2**31], "counts": [2**62]},
    "run lengths without end": {"size": [3, 3], "counts": "o" * 64},
    "run lengths of less": {"size": [3, 3], "counts": [1]},
    "negative run lengths": {"size": [3, 3], "counts": [-5, 14]},
    "nothing": b"",
    "ragged lists": [[1], [1, 2], [[3]]],
    "endless nesting": [],
    "PNG bomb": png_bomb(),
}
_out = io.BytesIO()
np.save(_out, np.array([{"a": 1}], dtype=object), allow_pickle=True)
HOSTILE["npy of objects"] = _out.getvalue()
for _ in range(5000):
    HOSTILE["endless nesting"] = [HOSTILE["endless nesting"]]
JSON_VALUES = {what for what in HOSTILE if "run lengths" in what} | {"ragged lists"}
KINDS = {
    "Scalar": tl.Scalar("float32"),
    "Bool": tl.Bool(),
    "Array": tl.Array("uint8", (2, 2)),
    "Array(ragged)": tl.Array("float64", (None,)),
    "Embedding": tl.Embedding(8),
    "Image(jpeg)": tl.Image(),
    "Image(png)": tl.Image("png"),
    "ClassLabel": tl.ClassLabel(["a"]),
    "ClassLabel(multi)": tl.ClassLabel(["a"], multi=True),
    "BBox": tl.BBox(),
    "BBox3D": tl.BBox3D(),
    "BinaryMask": tl.BinaryMask(),
    "SegmentMask": tl.SegmentMask(),
    "InstanceMask": tl.InstanceMask(),
    "Polygon": tl.Polygon(),
    "Keypoints": tl.Keypoints(),
    "Text": tl.Text(),
    "Json": tl.Json(),
    "Tags": tl.Tags(),
    "Timestamp": tl.Timestamp(),
    "Uuid": tl.Uuid(),
    "Sequence": tl.Sequence("int8"),
    "Sequence(Image)": tl.Sequence(tl.Image("png")),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_hostile_value_is_refused_with_its_row_and_bounded(name):
    kind = KINDS[name]

    def take():
        for what, value in HOSTILE.items():
            if name == "Json" and what in JSON_VALUES:
                continue
            with pytest.raises(InvalidInputError) as caught:
                kind.convert([value], tensor="x", row_start=2)
            assert caught.value.row == 2, what
            assert len(str(caught.value)) < 2000, what

    bounded(take)


def test_bytes_are_kept_and_never_run():
    data = HOSTILE["pickle"]

    assert tl.Bytes().present(tl.Bytes().convert([data], tensor="x")) == [data]


@pytest.mark.parametrize("codec", ["webp", "jpeg"])
def test_a_mask_in_a_file_that_loses_is_refused(codec):
    with pytest.raises(InvalidInputError):
        tl.BinaryMask().convert([encoded(codec)], tensor="x")


def test_a_schema_from_elsewhere_cannot_ask_for_much():
    for kind in (
        lambda: tl.Array("int8", (2**50,)),
        lambda: tl.Array("int8", (1,) * 40),
        lambda: tl.Embedding(2**40),
        lambda: tl.Scalar("O"),
        lambda: tl.Scalar("V8"),
        lambda: tl.Array("object", (2,)),
    ):
        with pytest.raises(SchemaError):
            kind()
