"""Schemas: names, ids, changes, and what other versions wrote."""

import re

import pytest

from tensorlake.errors import SchemaError, TensorNotFoundError, UnsupportedFeatureError
from tensorlake.format import Schema, TensorSpec, check_tensor_name
from tensorlake.types import Array, ClassLabel, Image, Scalar, Text


@pytest.fixture
def schema():
    return Schema.new(
        {
            "image": Image(),
            "label": ClassLabel(["cat", "dog"], default="dog"),
            "boxes/area": "float32",
            "caption": Text(nullable=True),
        }
    )


@pytest.mark.parametrize("name", ["x", "größe", "a/b/c", "a b", "日本", "_"[:0] + "a_", "x" * 200])
def test_good_names(name):
    assert check_tensor_name(name) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty part"),
        ("/a", "empty part"),
        ("a/", "empty part"),
        ("a//b", "empty part"),
        ("_row", "name it 'row'"),
        ("gro\u0308ße", "NFC"),
        ("a\nb", "control"),
        ("x" * 201, "longer than 200 bytes"),
        ("ü" * 101, "longer than 200 bytes"),
        (7, "is int"),
    ],
)
def test_bad_names_say_why(name, words):
    with pytest.raises(SchemaError, match=words):
        check_tensor_name(name)


def test_a_schema_is_the_same_after_json(schema):
    assert Schema.from_json(schema.to_json()) == schema


def test_new_tensors_have_ids_of_forty_random_bits(schema):
    ids = {tensor.id for tensor in schema}

    assert len(ids) == 4
    assert all(re.fullmatch("[0-9a-f]{10}", one) for one in ids)


def test_new_tensors_take_fill_chunk_size_and_codec_from_their_type(schema):
    assert schema["label"].fill == 1
    assert schema["caption"].fill is None
    assert schema["image"].chunk_nbytes == 8 << 20
    assert schema["label"].chunk_nbytes == 1 << 20
    assert schema["label"].layout.codec_name == "blosc"
    assert schema["image"].layout.codec_name == "none"


def test_a_codec_may_be_chosen():
    spec = TensorSpec.new("x", Array("float32", (512,)), codecs="zstd")

    assert spec.layout.codec_name == "blosc"
    assert spec.layout.codecs[-1]["configuration"]["cname"] == "zstd"


def test_look_up_by_name_and_id(schema):
    image = schema["image"]

    assert schema.by_id(image.id) is image
    assert schema.by_id("0" * 10) is None
    assert "image" in schema
    assert "imgae" not in schema
    assert schema.names == ("image", "label", "boxes/area", "caption")


def test_an_unknown_name_suggests_the_nearest(schema):
    with pytest.raises(TensorNotFoundError, match="did you mean 'label'"):
        schema["lable"]


def test_add_drop_and_rename_give_new_schemas(schema):
    changed = schema.add(TensorSpec.new("score", "int8")).drop("image").rename("label", "class")

    assert changed.names == ("class", "boxes/area", "caption", "score")
    assert changed["class"].id == schema["label"].id
    assert schema.names[0] == "image"


@pytest.mark.parametrize("new", ["image", "_x"])
def test_a_name_that_is_taken_or_bad_is_refused(schema, new):
    with pytest.raises(SchemaError):
        schema.rename("label", new)


def test_two_tensors_of_one_id_are_refused(schema):
    with pytest.raises(SchemaError, match="id"):
        schema.add(TensorSpec.new("other", "int8", tensor_id=schema["image"].id))


def test_replace_needs_a_tensor_of_that_id(schema):
    with pytest.raises(TensorNotFoundError):
        schema.replace(TensorSpec.new("image", Image()))


def test_widening_adds_an_encoding_and_keeps_the_old():
    spec = TensorSpec.new("x", "int8")

    wider = spec.with_type(Scalar("int32"))

    assert [layout.dtype for layout in wider.encodings] == ["int8", "int32"]
    assert (spec.read_as, wider.read_as) == (0, 1)


def test_more_class_names_need_no_new_encoding():
    spec = TensorSpec.new("label", ClassLabel(["cat"]))

    assert len(spec.with_type(ClassLabel(["cat", "dog"])).encodings) == 1


def test_keys_of_other_versions_are_kept(schema):
    written = schema.to_json()
    written["links"] = {"a": 1}
    written["tensors"][0]["lens"] = "x-ray"
    written["tensors"][0]["type"]["gamma"] = 2.2

    assert Schema.from_json(written).to_json() == written


def test_keys_of_other_versions_survive_a_rename(schema):
    written = schema.to_json()
    written["tensors"][0]["lens"] = "x-ray"

    renamed = Schema.from_json(written).rename("image", "photo")

    assert renamed.to_json()["tensors"][0]["lens"] == "x-ray"


def test_a_type_of_a_later_version_is_unsupported(schema):
    written = schema.to_json()
    written["tensors"][0]["type"]["kind"] = "hologram"

    read = Schema.from_json(written)

    with pytest.raises(UnsupportedFeatureError, match="hologram"):
        next(iter(read)).check_supported()
    assert read.to_json() == written


@pytest.mark.parametrize("key", ["id", "name", "type", "encodings", "fill", "chunk_nbytes"])
def test_a_spec_that_lacks_a_key_is_refused(schema, key):
    written = schema.to_json()
    del written["tensors"][0][key]

    with pytest.raises(SchemaError):
        Schema.from_json(written)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "xyz"},
        {"id": "g" * 10},
        {"name": "_x"},
        {"type": []},
        {"encodings": []},
        {"encodings": [None]},
        {"chunk_nbytes": "many"},
        {"attributes": 7},
    ],
    ids=repr,
)
def test_a_spec_that_cannot_be_is_refused(schema, change):
    written = schema.to_json()
    written["tensors"][0] |= change

    with pytest.raises(SchemaError):
        Schema.from_json(written)


@pytest.mark.parametrize("written", [{}, {"tensors": None}, {"tensors": {}}])
def test_what_is_no_schema_is_refused(written):
    with pytest.raises(SchemaError):
        Schema.from_json(written)
