"""Two schemas as one, tensor by tensor: a pure function (format.md, "Combine" and "Identity")."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.format import Schema, TensorSpec
from tensorlake.types import ClassLabel, Scalar
from tensorlake.versions.rows.schema_rules import (
    CombinedSchema,
    CombineRule,
    SchemaSide,
    combine_schemas,
    is_narrower,
)

BASE = Schema.new(
    {
        "image": tl.Image("png"),
        "boxes": tl.BBox(of="image"),
        "label": tl.ClassLabel(["cat", "dog"]),
        "x": "int64",
    }
)
Change = Callable[[Schema], Schema]
SIDES: list[SchemaSide] = ["current", "incoming"]


def rename(old: str, new: str) -> Change:
    return lambda schema: schema.rename(old, new)


def drop(name: str) -> Change:
    return lambda schema: schema.drop(name)


def add(name: str, spec: TensorSpec | None = None) -> Change:
    return lambda schema: schema.add(spec or TensorSpec.new(name, "int8"))


def note(name: str, **attributes: object) -> Change:
    return lambda schema: schema.replace(replace(schema[name], attributes=attributes))


def names(*classes: str) -> Change:
    return lambda schema: schema.replace(schema["label"].with_classes(classes))


def widen(name: str, sample_type: Any) -> Change:
    return lambda schema: schema.replace(schema[name].with_type(sample_type))


def combined(
    current: Change,
    incoming: Change,
    *,
    prefer: SchemaSide = "current",
    base: Schema = BASE,
    **rule: Any,
) -> CombinedSchema:
    """What a merge makes of both, or, with drops_are_final, a rebase."""
    how = CombineRule(prefer, ("main", "fix"), **rule)
    return combine_schemas([base], current(base), incoming(base), how)


def same(schema: Schema) -> Schema:
    return schema


@pytest.mark.parametrize(
    ("current", "incoming", "expected"),
    [
        (add("z"), rename("x", "y"), ["image", "boxes", "label", "y", "z"]),
        (rename("label", "kind"), drop("x"), ["image", "boxes", "kind"]),
        (drop("x"), drop("x"), ["image", "boxes", "label"]),
        (rename("x", "y"), rename("x", "y"), ["image", "boxes", "label", "y"]),
        (add("t"), add("m"), ["image", "boxes", "label", "x", "t", "m"]),
        (same, rename("x", "y"), ["image", "boxes", "label", "y"]),
        (rename("label", "kind"), note("x", unit="mm"), ["image", "boxes", "kind", "x"]),
    ],
)
def test_changes_of_different_tensors_and_equal_ones_combine(current, incoming, expected):
    for rule in ({}, {"drops_are_final": True}):
        result = combined(current, incoming, **rule)

        assert result.clashes == ()
        assert [*result.schema.names] == expected


@pytest.mark.parametrize(
    ("current", "incoming", "what"),
    [
        (rename("x", "z"), rename("x", "y"), "schema"),
        (note("x", unit="mm"), rename("x", "y"), "schema"),
        (drop("x"), rename("x", "y"), "schema"),
        (rename("x", "y"), drop("x"), "schema"),
        (add("z"), add("z"), "name"),
        (add("z"), rename("x", "z"), "name"),
        (rename("x", "z"), add("z"), "name"),
        (rename("x", "z"), rename("label", "z"), "name"),
    ],
)
def test_two_changes_of_one_tensor_or_name_conflict(current, incoming, what):
    for rule in ({}, {"drops_are_final": True}):
        assert [one.kind for one in combined(current, incoming, **rule).clashes] == [what]


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [("incoming", ("y", {"unit": "mm"})), ("current", ("z", {"unit": "mm"}))],
)
def test_a_winner_decides_field_by_field(prefer, expected):
    def current(schema: Schema) -> Schema:
        return note("z", unit="mm")(rename("x", "z")(schema))

    result = combined(current, rename("x", "y"), prefer=prefer)

    spec = result.schema.by_id(BASE["x"].id)
    assert spec is not None
    assert [one.can_be_preferred for one in result.clashes] == [True]
    assert (spec.name, spec.attributes) == expected


@pytest.mark.parametrize("prefer", SIDES)
@pytest.mark.parametrize("adder", SIDES)
def test_of_a_tensor_added_and_one_renamed_the_preferred_sides_keeps_the_name(prefer, adder):
    new = TensorSpec.new("z", "int8")
    sides: dict[SchemaSide, Change] = dict.fromkeys(SIDES, rename("x", "z"))
    sides[adder] = add("z", new)

    result = combined(sides["current"], sides["incoming"], prefer=prefer)

    winner, loser = (new.id, BASE["x"].id) if prefer == adder else (BASE["x"].id, new.id)
    branch = "fix" if prefer == "current" else "main"
    assert result.schema["z"].id == winner
    assert result.schema[f"z~{branch}"].id == loser
    (clash,) = result.clashes
    added, renamed = ("main", "fix") if adder == "current" else ("fix", "main")
    assert f"one added on {added!r}" in clash.description
    assert f"'x' as renamed on {renamed!r}" in clash.description


@pytest.mark.parametrize("name", ["z" * 200, "a/z"])
def test_where_no_free_name_can_be_made_nobody_is_preferred(name):
    rule = CombineRule("current", ("main", "fix/"))  # no tensor's name ends so

    (clash,) = combine_schemas([BASE], add(name)(BASE), add(name)(BASE), rule).clashes

    assert not clash.can_be_preferred


def test_a_tensor_dropped_by_one_side_and_changed_by_the_other_is_in_the_hands_of_the_preferred():
    for prefer in SIDES:
        mine = combined(rename("x", "y"), drop("x"), prefer=prefer)
        assert ("y" in mine.schema) is (prefer == "current")
        others = combined(drop("x"), rename("x", "y"), prefer=prefer)
        assert ("y" in others.schema) is (prefer == "incoming")


def test_in_a_rebase_what_was_dropped_stays_dropped():
    kept = combined(drop("x"), rename("x", "y"), prefer="incoming", drops_are_final=True)

    assert "y" not in kept.schema
    assert [one.can_be_preferred for one in kept.clashes] == [False]


@pytest.mark.parametrize("is_final", [True, False])
def test_a_class_that_one_side_dropped_stays_unless_drops_are_final(is_final):
    for current, incoming in ((names("cat", ""), same), (same, names("cat", ""))):
        result = combined(current, incoming, drops_are_final=is_final)

        label = result.schema["label"].type
        assert isinstance(label, ClassLabel)
        assert tuple(label.names) == ("cat", "" if is_final else "dog")


def test_the_label_of_a_class_renamed_by_both_never_becomes_another_class():
    result = combined(names("puss", "dog", "owl"), names("kitty", "dog", "bird"), prefer="incoming")

    label = result.schema["label"].type
    assert isinstance(label, ClassLabel)
    assert tuple(label.names) == ("kitty", "dog", "owl", "bird")
    assert result.tensors[BASE["label"].id].read_as.codes == (0, 1, 3)


def test_of_two_types_neither_can_be_preferred_but_one_beside_a_new_name_can():
    base = Schema.new({"n": "int8", "m": "int8"})

    both = combined(widen("n", Scalar("int32")), widen("n", Scalar("float32")), base=base)
    one = combined(widen("n", Scalar("int32")), rename("n", "k"), base=base, prefer="incoming")

    assert [clash.can_be_preferred for clash in both.clashes] == [False]
    assert [clash.can_be_preferred for clash in one.clashes] == [True]
    assert one.schema["k"].layout.dtype == "int32"
    assert (
        one.schema["k"].encodings[one.tensors[one.schema["k"].id].read_as.numbers[0]].dtype
        == "int8"
    )


def test_types_that_speak_of_a_tensor_follow_its_name():
    boxes = TensorSpec.new("more", tl.BBox(of="image"))

    result = combined(rename("image", "photo"), add("more", boxes))

    assert getattr(result.schema["more"].type, "of", None) == "photo"


def test_class_names_of_both_are_united_and_incoming_codes_follow():
    result = combined(names("cat", "dog", "fish"), names("cat", "dog", "bird", "fish"))

    label = result.schema["label"].type
    assert isinstance(label, ClassLabel)
    assert tuple(label.names) == ("cat", "dog", "fish", "bird")
    assert result.tensors[BASE["label"].id].read_as.codes == (0, 1, 3, 2)


def test_a_type_is_narrower_without_null_a_class_or_room_for_a_value():
    def spec(sample_type: Any) -> TensorSpec:
        return TensorSpec.new("n", sample_type, tensor_id="0123456789")

    small, wide = spec("int8"), spec("int32")
    assert is_narrower(small, wide)
    assert not is_narrower(wide, small)
    assert is_narrower(small, spec(Scalar("int8", nullable=True)))
    assert is_narrower(spec(tl.Array("int8", (2,))), spec(tl.Array("int8", (None,))))
    assert not is_narrower(spec(tl.Array("int8", (None,))), spec(tl.Array("int8", (2,))))
    label = spec(ClassLabel(["cat", "dog"]))
    assert is_narrower(label.with_classes(["cat", ""]), label)
    assert not is_narrower(label.with_classes(["cat", "dog", "emu"]), label)
