"""Two schemas as one, tensor by tensor: a pure function (format.md, "Combine" and "Identity")."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import tensorlake as tl
from tensorlake.format import Schema, TensorSpec
from tensorlake.types import ClassLabel
from tensorlake.versions.schema_combine import combine_schemas

BASE = Schema.new(
    {
        "image": tl.Image("png"),
        "boxes": tl.BBox(of="image"),
        "label": tl.ClassLabel(["cat", "dog"]),
        "x": "int64",
    }
)
Change = Callable[[Schema], Schema]


def rename(old: str, new: str) -> Change:
    return lambda schema: schema.rename(old, new)


def drop(name: str) -> Change:
    return lambda schema: schema.drop(name)


def add(name: str, spec: TensorSpec | None = None) -> Change:
    return lambda schema: schema.add(spec or TensorSpec.new(name, "int8"))


def note(name: str, **attributes: object) -> Change:
    return lambda schema: schema.replace(replace(schema[name], attributes=attributes))


def names(*classes: str) -> Change:
    def change(schema: Schema) -> Schema:
        label = schema["label"].type
        assert isinstance(label, ClassLabel)
        return schema.replace(replace(schema["label"], type=label.with_names(classes)))

    return change


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (rename("x", "y"), add("z"), ["image", "boxes", "label", "y", "z"]),
        (drop("x"), rename("label", "kind"), ["image", "boxes", "kind"]),
        (drop("x"), drop("x"), ["image", "boxes", "label"]),
        (rename("x", "y"), rename("x", "y"), ["image", "boxes", "label", "y"]),
        (add("m"), add("t"), ["image", "boxes", "label", "x", "t", "m"]),
        (rename("x", "y"), lambda schema: schema, ["image", "boxes", "label", "y"]),
        (note("x", unit="mm"), rename("label", "kind"), ["image", "boxes", "kind", "x"]),
    ],
)
def test_changes_of_different_tensors_and_equal_ones_combine(mine, theirs, expected):
    combined = combine_schemas(BASE, mine(BASE), theirs(BASE))

    assert combined.conflicts == ()
    assert [*combined.schema.names] == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "what"),
    [
        (rename("x", "y"), rename("x", "z"), "schema"),
        (rename("x", "y"), note("x", unit="mm"), "schema"),
        (rename("x", "y"), drop("x"), "schema"),
        (drop("x"), rename("x", "y"), "schema"),
        (add("z"), add("z"), "name"),
        (rename("x", "z"), add("z"), "name"),
    ],
)
def test_two_changes_of_one_tensor_or_name_conflict(mine, theirs, what):
    combined = combine_schemas(BASE, mine(BASE), theirs(BASE))

    assert [one.what for one in combined.conflicts] == [what]


@pytest.mark.parametrize(
    ("winner", "expected"), [("ours", ("y", {"unit": "mm"})), ("theirs", ("z", {"unit": "mm"}))]
)
def test_a_winner_decides_field_by_field(winner, expected):
    def theirs(schema: Schema) -> Schema:
        return note("z", unit="mm")(rename("x", "z")(schema))

    combined = combine_schemas(BASE, rename("x", "y")(BASE), theirs(BASE), on_conflict=winner)

    spec = combined.schema.by_id(BASE["x"].id)
    assert combined.conflicts == ()
    assert spec is not None
    assert (spec.name, spec.attributes) == expected


def test_types_that_speak_of_a_tensor_follow_its_name():
    boxes = TensorSpec.new("more", tl.BBox(of="image"))

    combined = combine_schemas(BASE, add("more", boxes)(BASE), rename("image", "photo")(BASE))

    assert getattr(combined.schema["more"].type, "of", None) == "photo"


def test_class_names_of_both_are_united_and_my_codes_follow():
    combined = combine_schemas(
        BASE, names("cat", "dog", "bird", "fish")(BASE), names("cat", "dog", "fish")(BASE)
    )

    label = combined.schema["label"].type
    assert isinstance(label, ClassLabel)
    assert tuple(label.names) == ("cat", "dog", "fish", "bird")
    assert combined.read_as[BASE["label"].id].codes == (0, 1, 3, 2)
