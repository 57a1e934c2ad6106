"""What all types share: JSON, defaults, fills, the registry."""

import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError, SchemaError, UnsupportedFeatureError
from tensorlake.types import (
    NO_DEFAULT,
    Array,
    BBox,
    Bool,
    Bytes,
    ClassLabel,
    Embedding,
    Image,
    Json,
    Ragged,
    RaggedColumn,
    Scalar,
    Text,
    UniformColumn,
    as_type,
    from_json,
    register,
)

ALL = [
    Array("uint16", (512,)),
    Array("float32", (None, 3), nullable=True),
    Array("int8", (2,), default=[1, 2]),
    BBox("xywh", of="image"),
    Bool(default=False),
    Bytes(nullable=True),
    ClassLabel(["cat", "dog"], default="dog"),
    ClassLabel(["a"], per="boxes"),
    Embedding(768, metric="l2"),
    Image("png", mode="L", nullable=True),
    Json(default={"a": 1}),
    Scalar("float16", default=np.float16(0.5)),
    Text(default=""),
]


@pytest.mark.parametrize("sample_type", ALL, ids=repr)
def test_a_type_is_the_same_after_json_and_pickle(sample_type):
    assert from_json(sample_type.to_json()) == sample_type
    assert pickle.loads(pickle.dumps(sample_type)) == sample_type


def test_no_default_stays_one_object():
    assert pickle.loads(pickle.dumps(Text())).default is NO_DEFAULT


@pytest.mark.parametrize("sample_type", ALL, ids=repr)
def test_an_empty_column_reads_as_nothing(sample_type):
    column = sample_type.decode(sample_type.convert([], tensor="x"), tensor="x")

    assert len(sample_type.present(column)) == 0


@pytest.mark.parametrize(
    ("short", "sample_type"),
    [
        ("float32", Scalar("float32")),
        (np.dtype(">i4"), Scalar("int32")),
        (np.uint8, Scalar("uint8")),
        (int, Scalar("int64")),
        (float, Scalar("float64")),
        ("bool", Bool()),
        (bool, Bool()),
        (np.bool_, Bool()),
        ("str", Text()),
        (str, Text()),
        ("json", Json()),
        (bytes, Bytes()),
        (Image, Image()),
        (Text(), Text()),
    ],
    ids=repr,
)
def test_short_forms(short, sample_type):
    assert as_type(short) == sample_type


@pytest.mark.parametrize(
    "value", ["flaot32", "object", "datetime64[ns]", dict, None, 7, {"kind": "text"}, Embedding]
)
def test_what_is_no_type_is_refused(value):
    with pytest.raises(SchemaError):
        as_type(value)


def test_a_misspelt_dtype_is_corrected():
    with pytest.raises(SchemaError, match="did you mean 'float32'"):
        as_type("flaot32")


def test_an_unknown_kind_asks_for_an_upgrade():
    with pytest.raises(UnsupportedFeatureError, match="'hologram'"):
        from_json({"kind": "hologram"})


def test_parameters_of_later_versions_are_ignored():
    assert from_json({"kind": "text", "language": "de"}) == Text()


def test_a_stored_type_without_its_parameters_is_refused():
    with pytest.raises(SchemaError, match="lacks a parameter"):
        from_json({"kind": "embedding"})


def test_a_registered_type_can_be_read_back():
    @register
    @dataclass(frozen=True, slots=True)
    class Note(Text):
        kind: ClassVar[str] = "test_note"

    assert from_json({"kind": "test_note"}) == Note()
    with pytest.raises(InvalidInputError, match="already"):
        register(type("Other", (Text,), {"kind": "text"}))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scalar("int8", default=300), "cannot have the default 300"),
        (lambda: Scalar("int8", default=None), "cannot have the default None"),
        (lambda: Scalar("float64", default=float("nan")), "default nan: JSON cannot represent it"),
        (lambda: ClassLabel(["a"], default="b"), "no class 'b'"),
        (lambda: Array("float32", (None, "x")), "not a shape"),
        (lambda: Array("float32", (-1,)), "not a shape"),
        (lambda: Array("float32", 3), "not a shape"),
        (lambda: Embedding(0), "cannot have 0"),
        (lambda: Embedding(3, metric="cos"), "not a metric"),
        (lambda: BBox("yxyx"), "not a format"),
        (lambda: Scalar("str"), "not a dtype"),
    ],
)
def test_parameters_that_cannot_be_are_refused_when_declared(make, words):
    with pytest.raises(SchemaError, match=words):
        make()


@pytest.mark.parametrize(
    ("sample_type", "fill"),
    [
        (Scalar("int8", default=3), 3),
        (Scalar("int8", nullable=True), None),
        (Array("int8", (2,), default=np.array([1, 2])), [1, 2]),
        (ClassLabel(["cat", "dog"], default="dog"), 1),
        (Text(default="x", nullable=True), "x"),
    ],
    ids=repr,
)
def test_fill_is_the_default_else_null(sample_type, fill):
    assert sample_type.fill_value == fill
    assert sample_type.has_default


def test_without_default_or_null_there_is_no_fill():
    with pytest.raises(SchemaError, match="fill="):
        _ = Scalar("int8").fill_value


@pytest.mark.parametrize("sample_type", ALL, ids=repr)
def test_a_column_of_fills_has_the_value_in_every_row(sample_type):
    fill = sample_type.fill_value if sample_type.has_default else None

    column = sample_type.fill_column(fill, 3)

    assert len(column) == 3
    assert (column.valid is None) == (fill is not None)


def test_a_uniform_fill_takes_the_memory_of_one_sample():
    column = Scalar("float64").fill_column(1.5, 10**9)

    assert len(column) == 10**9
    assert column.values.strides == (0,)


@pytest.mark.parametrize(
    ("sample_type", "value", "stored"),
    [
        (ClassLabel(["cat", "dog"]), "dog", 1),
        (ClassLabel(["cat", "dog"], multi=True), ["dog", 0], [1, 0]),
        (Scalar("uint8"), np.uint8(7), 7),
        (BBox(), [], []),
        (Text(), "x", "x"),
        (Json(), {"a": (1,)}, {"a": [1]}),
        (Text(nullable=True), None, None),
    ],
    ids=repr,
)
def test_json_value_is_what_is_stored(sample_type, value, stored):
    assert sample_type.json_value(value) == stored


def test_json_value_refuses_media():
    with pytest.raises(SchemaError):
        Image().json_value(np.zeros((4, 4, 3), np.uint8))


def test_old_encodings_widen_to_the_type():
    narrow = UniformColumn(np.array([[1, 2]], dtype=np.int8))

    adapted = Array("float32", (None,)).adapt(narrow)

    assert isinstance(adapted, RaggedColumn)
    assert adapted.values.dtype == np.float32
    assert adapted.shapes.tolist() == [[2]]


def test_nulls_of_ragged_columns_are_replaced_on_reading():
    tokens = Array("int16", (None,), nullable=True)
    column = tokens.convert([[1, 2], None, [3]], tensor="x")

    shown = tokens.present(column, null=[9])

    assert isinstance(shown, Ragged)
    assert [one.tolist() for one in shown] == [[1, 2], [9], [3]]


def test_importing_types_imports_no_codec_and_no_framework():
    code = (
        "import sys, tensorlake.types; "
        "print([m for m in ('simplejpeg', 'PIL', 'torch', 'jax', 'pyarrow') if m in sys.modules])"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"
