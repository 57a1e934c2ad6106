"""Text, Json and Bytes: what comes in comes out."""

from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest

from tensorlake.errors import DTypeMismatchError, InvalidInputError, SchemaError
from tensorlake.types import Bytes, File, Json, Text


@pytest.fixture
def file(tmp_path: Path):
    def write(content: bytes):
        path = tmp_path / "sample"
        path.write_bytes(content)
        return File(path)

    return write


def round_trip(sample_type, samples):
    return sample_type.present(sample_type.convert(samples, tensor="x"))


@pytest.mark.parametrize("samples", [["", "grün", "日本", "a\0b", "👩‍🚀"], np.array(["a", "b"])])
def test_text_comes_back(samples):
    assert round_trip(Text(), samples) == list(samples)


def test_a_str_is_the_text_and_only_a_file_is_read(file):
    path = file("größer".encode())

    assert round_trip(Text(), [str(path.path), path]) == [str(path.path), "größer"]


@pytest.mark.parametrize("sample", [b"a", 1, ["a"], "\ud800", float("nan")])
def test_what_is_no_text_is_refused(sample):
    with pytest.raises(DTypeMismatchError) as caught:
        Text().convert(["a", sample], tensor="x")

    assert caught.value.row == 1


def test_a_file_that_is_not_utf8_is_refused(file):
    with pytest.raises(InvalidInputError, match="not UTF-8 from byte 1"):
        Text().convert([file(b"a\xff")], tensor="x")


def test_json_is_canonical():
    column = Json().convert([{"b": 1, "a": [1.5, None, "ü"]}], tensor="x")

    assert column.samples == ['{"a":[1.5,null,"ü"],"b":1}'.encode()]


@pytest.mark.parametrize(
    "value", [{}, [], "text", 7, 2**80, 0.1, True, {"a": {"b": [None, {"c": "d"}]}}]
)
def test_json_values_come_back(value):
    assert round_trip(Json(), [value]) == [value]


def test_json_takes_numpy_values_and_tuples():
    values = [{"a": np.float32(0.5), "b": np.arange(3), "c": (1, 2)}]

    assert round_trip(Json(), values) == [{"a": 0.5, "b": [0, 1, 2], "c": [1, 2]}]


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], {1: 2}, {"a": {None: 1}}, {1, 2}, b"x", "\ud800"]
)
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(DTypeMismatchError) as caught:
        Json().convert([0, value], tensor="x")

    assert caught.value.row == 1


def test_endless_json_is_refused():
    value: list[object] = []
    value.append(value)

    with pytest.raises(DTypeMismatchError):
        Json().convert([value], tensor="x")


def test_json_files_are_parsed(file):
    assert round_trip(Json(), [file(b'{"a": 1}')]) == [{"a": 1}]
    with pytest.raises(InvalidInputError, match="not JSON"):
        Json().convert([file(b"{")], tensor="x")


def test_bytes_come_back_from_every_form(file):
    path = file(b"\x00x")
    samples = [b"", b"\x00x", bytearray(b"\x00x"), memoryview(b"\x00x"), path, path.path]

    shown = round_trip(Bytes(), [*samples, BytesIO(b"\x00x")])

    assert shown == [b"", *[b"\x00x"] * 6]


@pytest.mark.parametrize("sample", ["text", 1, [1], StringIO("x")])
def test_what_is_no_bytes_is_refused(sample):
    with pytest.raises(DTypeMismatchError):
        Bytes().convert([sample], tensor="x")


@pytest.mark.parametrize("sample_type", [Text, Json, Bytes])
def test_none_is_null_only_where_allowed(sample_type):
    column = sample_type(nullable=True).convert([None], tensor="x")

    assert column.samples == [b""]
    assert sample_type(nullable=True).present_one(column, 0) is None
    with pytest.raises(DTypeMismatchError, match="nullable=True"):
        sample_type().convert([None], tensor="x")


def test_null_can_be_read_as_another_value():
    text = Text(nullable=True)

    assert text.present(text.convert(["a", None], tensor="x"), null="?") == ["a", "?"]


def test_bytes_have_no_default():
    with pytest.raises(SchemaError):
        Bytes(default=b"x")
