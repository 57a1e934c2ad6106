"""Every type and every kind of value that people hold: taken as the same sample, or refused."""

import datetime as dt
import io
import pathlib
import uuid

import ml_dtypes
import numpy as np
import PIL.Image
import pytest
import torch

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.types import take

RNG = np.random.default_rng(5)
GRAY = RNG.integers(0, 255, (6, 7), dtype=np.uint8)
RGB = RNG.integers(0, 255, (6, 7, 3), dtype=np.uint8)
RGBA = RNG.integers(0, 255, (6, 7, 4), dtype=np.uint8)
DEEP = RNG.integers(0, 65535, (6, 7), dtype=np.uint16)
EVEN = np.full((8, 8, 3), 128, np.uint8)  # what codecs that lose keep
SEEN = RNG.random((6, 7)) > 0.5


class OnlyDlpack:
    """What knows the protocol and nothing else."""

    def __init__(self, array):
        self._tensor = torch.from_numpy(np.array(array))

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


def of_jax(array):
    import jax

    return jax.numpy.asarray(array)


def picture(array):
    return PIL.Image.fromarray(array)


def encoded(array, codec, **options):
    stream = io.BytesIO()
    picture(array).save(stream, codec, **options)
    return stream.getvalue()


def png(array):
    return encoded(array, "PNG")


def on_disk(data, folder):
    path = folder / "sample"
    path.write_bytes(data)
    return path


ARRAYS = {
    "list": lambda array, _: array.tolist(),
    "numpy": lambda array, _: array,
    "numpy, read only": lambda array, _: np.broadcast_to(array, array.shape),
    "numpy, other strides": lambda array, _: np.asfortranarray(np.repeat(array, 2, axis=-1))[
        ..., ::2
    ],
    "numpy, big-endian": lambda array, _: array.astype(array.dtype.newbyteorder(">")),
    "torch": lambda array, _: torch.from_numpy(np.array(array)),
    "torch, strided": lambda array, _: torch.from_numpy(np.array(array.T)).permute(
        *reversed(range(array.ndim))
    ),
    "jax": lambda array, _: of_jax(array),
    "DLPack": lambda array, _: OnlyDlpack(array),
}
ENCODED = {
    "str path": lambda data, folder: str(on_disk(data, folder)),
    "Path": lambda data, folder: pathlib.Path(on_disk(data, folder)),
    "tl.File": lambda data, folder: tl.File(on_disk(data, folder)),
    "bytes": lambda data, _: data,
    "bytearray": lambda data, _: bytearray(data),
    "memoryview": lambda data, _: memoryview(data),
    "BytesIO": lambda data, _: io.BytesIO(data),
    "open file": lambda data, folder: on_disk(data, folder).open("rb"),
}
PICTURES = {"PIL image": lambda array, _: picture(array)}
OTHERS = {
    "None": None,
    "object": object(),
    "dict": {"a": 1},
    "set": {1, 2},
    "str": "no such file",
    "bytes": b"\0\1",
    "object array": np.array([object()], dtype=object),
    "structured array": np.zeros(2, [("x", "i4")]),
    "complex": 1j,
    "date": dt.date(2026, 1, 1),
    "function": len,
}

# type, sample as an array, sample as a file (None: there is none), whether PIL images are taken
TABLE = {
    "Scalar": (tl.Scalar("float32"), np.float32(1.5).reshape(()), None, False),
    "Scalar(bfloat16)": (tl.Scalar("bfloat16"), np.float32(1.5).reshape(()), None, False),
    "Bool": (tl.Bool(), np.bool_(True).reshape(()), None, False),  # noqa: FBT003 - a sample
    "Array": (tl.Array("int16", (2, 3)), np.arange(6, dtype=np.int16).reshape(2, 3), None, False),
    "Array(ragged)": (tl.Array("uint8", (None, 2)), GRAY[:, :2], None, False),
    "Embedding": (tl.Embedding(4), np.arange(4, dtype=np.float32), None, False),
    "ClassLabel": (tl.ClassLabel(["a", "b"]), np.int64(1).reshape(()), None, False),
    "ClassLabel(multi)": (tl.ClassLabel(["a", "b"], multi=True), np.array([1, 0]), None, False),
    "BBox": (tl.BBox(), np.arange(8, dtype=np.float32).reshape(2, 4), None, False),
    "BBox3D": (tl.BBox3D(), np.arange(14, dtype=np.float32).reshape(2, 7), None, False),
    "Keypoints(skeleton)": (tl.Keypoints(list("abcd"), [(0, 1), (2, 3)]),
                            np.ones((2, 4, 3), np.float32), None, False),
    "BBox3D(corners)": (tl.BBox3D("corners"), np.arange(48, dtype=np.float32).reshape(2, 8, 3),
                        None, False),
    "Scalar(float8)": (tl.Scalar("float8_e4m3fn"), np.float32(1.5).reshape(()), None, False),
    "Array(float8)": (tl.Array("float8_e5m2", (2, 3)), np.ones((2, 3), np.float32), None, False),
    "Keypoints": (tl.Keypoints(), np.ones((2, 4, 3), np.float32), None, False),
    "Polygon": (tl.Polygon(), np.arange(12, dtype=np.float32).reshape(2, 3, 2), None, False),
    "BinaryMask": (tl.BinaryMask(), SEEN, png(SEEN), True),
    "SegmentMask": (tl.SegmentMask(), GRAY, png(GRAY), True),
    "InstanceMask": (tl.InstanceMask(), np.stack([SEEN, ~SEEN]), None, False),
    "Image(png)": (tl.Image("png"), RGB, png(RGB), True),
    "Image(png, L)": (tl.Image("png", mode="L"), GRAY[:, :, None], png(GRAY), False),
    "Image(png, RGBA)": (tl.Image("png", mode="RGBA"), RGBA, png(RGBA), True),
    "Image(png, L16)": (tl.Image("png", mode="L16"), DEEP[:, :, None], png(DEEP), False),
    "Image(webp)": (tl.Image("webp"), RGB, encoded(RGB, "WEBP", lossless=True), True),
    "Image(tiff)": (tl.Image("tiff"), RGB, encoded(RGB, "TIFF"), True),
    "Image(jpeg2000)": (tl.Image("jpeg2000"), RGB, encoded(RGB, "JPEG2000"), True),
    "Image(jpeg)": (tl.Image("jpeg"), EVEN, encoded(EVEN, "JPEG", quality=100), True),
    "Image(avif)": (tl.Image("avif"), EVEN, encoded(EVEN, "AVIF", quality=100), True),
    "Sequence": (tl.Sequence(tl.Array("int8", (2,))), np.array([[1, 2], [3, 4]], np.int8),
                 None, False),
    "Bytes": (tl.Bytes(), None, b"\0\1\2", False),
}  # fmt: skip


def same(kind, column, expected):
    decoded = kind.decode(column, tensor="x")
    found = kind.present_one(decoded, 0)
    if isinstance(found, list):
        found = [np.asarray(one) for one in found]
    found, wanted = np.asarray(found), np.asarray(expected)
    return found.shape == wanted.shape and bool((found == wanted).all())


def forms_of(name, folder):
    """Every kind of value that is a sample of the type's table row, and what it is."""
    _, array, data, takes_pictures = TABLE[name]
    for how, make in ARRAYS.items() if array is not None else ():
        if array.ndim or "strid" not in how:
            yield how, make(array, folder), array
    for how, make in ENCODED.items() if data is not None else ():
        if not (name == "Bytes" and how == "str path"):  # it could be the value
            yield how, make(data, folder), np.array(data) if array is None else array
    if takes_pictures:
        yield "PIL image", picture(array), array


@pytest.mark.parametrize("name", TABLE)
def test_each_kind_of_value_is_taken_as_the_same_sample(name, tmp_path):
    kind = TABLE[name][0]
    for how, value, expected in forms_of(name, tmp_path):
        column = kind.convert([value], tensor="x")
        if hasattr(value, "read"):
            value.close()

        assert same(kind, column, expected), how


@pytest.mark.parametrize("name", TABLE)
def test_kinds_of_values_stand_side_by_side(name, tmp_path):
    """What a list has many kinds of, such as paths and arrays, is converted one by one."""
    kind = TABLE[name][0]
    forms = [*forms_of(name, tmp_path)]

    column = kind.convert([value for _, value, _ in forms], tensor="x")
    for _, value, _ in forms:
        if hasattr(value, "read"):
            value.close()

    assert len(column) == len(forms)
    for position, (how, _, expected) in enumerate(forms):
        assert same(kind, take(column, np.array([position])), expected), how


WHOLE = [name for name, (_, array, _, _) in TABLE.items() if array is not None]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_column_is_taken_as_one_array(name):
    kind, array, _, _ = TABLE[name]
    stacked = np.stack([array, array])
    for how in ("numpy", "torch", "jax", "DLPack"):
        column = kind.convert(ARRAYS[how](stacked, None), tensor="x")

        assert len(column) == 2, how
        assert same(kind, column, array), how


ALLOWED = {  # what some type takes of the values that most refuse
    ("Bytes", "bytes"),
    ("Text", "str"), ("Json", "str"), ("Json", "dict"), ("Scalar(complex64)", "complex"),
}  # fmt: skip
REFUSING = {name: kind for name, (kind, _, _, _) in TABLE.items()} | {
    "Text": tl.Text(),
    "Tags": tl.Tags(),
    "Uuid": tl.Uuid(),
    "Timestamp": tl.Timestamp(),
    "Json": tl.Json(),
    "Image(jpeg)": tl.Image(),
    "Scalar(complex64)": tl.Scalar("complex64"),
    "Sequence(Image)": tl.Sequence(tl.Image("png")),
}


@pytest.mark.parametrize("name", REFUSING)
def test_what_is_no_sample_is_refused_with_its_row(name):
    kind = REFUSING[name]
    for what, value in OTHERS.items():
        if (name, what) in ALLOWED:
            assert len(kind.convert([value], tensor="x")) == 1, what
            continue

        with pytest.raises(InvalidInputError) as caught:
            kind.convert([value], tensor="x", row_start=7)

        assert (caught.value.tensor, caught.value.row) == ("x", 7), what
        assert "\n" in str(caught.value), "its last line says what to do"


VALUES = {
    "Text": (tl.Text(), ["größe", np.str_("größe")]),
    "Json": (tl.Json(), [{"a": [1.0, 2.5]}, {"a": (1.0, 2.5)}, {"a": np.array([1, 2.5])}]),
    "Tags": (tl.Tags(), [["a", "b"], ("a", "b"), {"b", "a"}, np.array(["a", "b"])]),
    "ClassLabel": (tl.ClassLabel(["a", "b"]), ["b", 1, np.int8(1), np.str_("b"), torch.tensor(1)]),
    "Timestamp": (
        tl.Timestamp("s"),
        [
            dt.datetime(2026, 1, 2),  # noqa: DTZ001 - of no zone, as the type
            "2026-01-02",
            "2026-01-02T00:00:00",
            np.datetime64("2026-01-02"),
        ],
    ),
    "Uuid": (
        tl.Uuid(),
        [uuid.UUID(int=5), str(uuid.UUID(int=5)), uuid.UUID(int=5).bytes, uuid.UUID(int=5).hex],
    ),
    "Scalar(bfloat16)": (
        tl.Scalar("bfloat16"),
        [1, 1.0, np.float64(1), np.int8(1), ml_dtypes.bfloat16(1), torch.tensor(1)],
    ),
    "Sequence": (tl.Sequence("int8"), [[1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2])]),
    "Polygon": (
        tl.Polygon(),
        [[[0, 0, 4, 0, 4, 3]], [[[0, 0], [4, 0], [4, 3]]], [torch.tensor([0, 0, 4, 0, 4, 3])]],
    ),
    "InstanceMask": (
        tl.InstanceMask(),
        [
            SEEN[None],
            [SEEN],
            [png(SEEN)],
            [picture(SEEN)],
            [{"size": [6, 7], "counts": tl.types.encode_run_lengths(SEEN)["counts"]}],
        ],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_all_forms_of_a_value_are_stored_alike(name):
    kind, forms = VALUES[name]

    columns = [kind.convert([form], tensor="x") for form in forms]

    first = columns[0]
    for column in columns[1:]:
        if hasattr(first, "samples"):
            assert [*map(bytes, column.samples)] == [*map(bytes, first.samples)]
        else:
            assert column.values.tolist() == first.values.tolist()
            assert column.values.dtype == first.values.dtype
