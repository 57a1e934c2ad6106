"""Laws of combining two schemas, whatever both sides did to them (format.md 43, 44).

Both sides of a random history rename, add, drop, widen and annotate tensors, and add, rename and
drop classes. What must hold: nothing is lost, every tensor keeps its values and every label its
class, a preference decides and nothing else, and where nobody clashes both orders give one result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError, SchemaError
from tensorlake.format import Schema, TensorSpec
from tensorlake.storage import MemoryStore
from tensorlake.types import ClassLabel, Scalar, is_widening, parse_dtype
from tensorlake.versions.rows.schema_rules import (
    CombinedSchema,
    CombineRule,
    combine_schemas,
)
from tests.support.examples import examples
from tests.support.handles import create_on, open_on

NAMES = ["a", "b", "c", "z"]
CLASSES = ["cat", "dog", "emu", "owl"]
DTYPES = ["int16", "int32", "float32"]
BASE = Schema.new({"a": "int8", "b": "int8", "c": "int8", "label": ClassLabel(CLASSES[:2])})
LABEL = BASE["label"].id

Step = tuple[str, str, str]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.sampled_from(["add", "drop"]), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("widen"), st.sampled_from(NAMES), st.sampled_from(DTYPES)),
        st.tuples(st.just("note"), st.sampled_from(NAMES), st.sampled_from("xy")),
        st.tuples(st.just("class"), st.just("label"), st.sampled_from(CLASSES)),
        st.tuples(st.just("rename class"), st.sampled_from(CLASSES), st.sampled_from("pqr")),
        st.tuples(st.just("drop class"), st.sampled_from(CLASSES), st.just("")),
    ),
    max_size=5,
)
sides = st.sampled_from(["current", "incoming"])


def changed(schema: Schema, history: list[Step]) -> Schema:
    """A schema after some steps; those that are not possible are left out."""
    for what, name, other in history:
        if what == "add" and name not in schema:
            schema = schema.add(TensorSpec.new(name, "int8"))
        elif what in ("rename", "drop", "widen", "note") and name in schema:
            schema = _tensor_changed(schema, what, name, other)
        elif what in ("class", "rename class", "drop class"):
            schema = _classes_changed(schema, what, name, other)
    return schema


def _tensor_changed(schema: Schema, what: str, name: str, other: str) -> Schema:
    spec = schema[name]
    match what:
        case "rename":
            return schema if other in schema else schema.rename(name, other)
        case "drop":
            return schema.drop(name)
        case "note":
            return schema.replace(replace(spec, attributes={"is": other}))
        case _:
            old, new = parse_dtype(spec.layout.dtype), parse_dtype(other)
            return schema.replace(spec.with_type(Scalar(new))) if is_widening(old, new) else schema


def _classes_changed(schema: Schema, what: str, name: str, other: str) -> Schema:
    spec = schema["label"]
    names = class_names(spec)
    if what == "class":  # one of the base's that was dropped would be two classes in a merge
        names += [] if other in (*names, *CLASSES[:2]) else [other]
    elif name in names and other not in names[:]:
        names[names.index(name)] = other
    elif what == "drop class" and name in names:
        names[names.index(name)] = ""
    return schema.replace(spec.with_classes(names))


def class_names(spec: TensorSpec | None) -> list[str]:
    assert spec is not None
    assert isinstance(spec.type, ClassLabel)
    return [*spec.type.names]


def combined(
    current: Schema, incoming: Schema, prefer: Any = "current", *, is_rebase: bool = False
) -> CombinedSchema:
    rule = CombineRule(prefer, ("main", "fix"), drops_are_final=is_rebase)
    return combine_schemas([BASE], current, incoming, rule)


def told(result: CombinedSchema) -> dict[str, Any]:
    """What a result says by tensor id, whatever order its tensors, encodings and codes are in."""
    return {
        spec.id: (
            spec.name,
            spec.layout.dtype,
            spec.attributes,
            {name for name in class_names(spec) if name} if spec.id == LABEL else None,
        )
        for spec in result.schema.tensors
    }


@given(steps, steps, st.booleans())
def test_where_nothing_clashes_both_orders_give_one_schema(mine, others, is_rebase):
    one, other = changed(BASE, mine), changed(BASE, others)

    forth = combined(one, other, is_rebase=is_rebase)
    back = combined(other, one, is_rebase=is_rebase)

    assert bool(forth.clashes) is bool(back.clashes)
    if not forth.clashes:
        assert told(forth) == told(back)
        assert told(forth) == told(combined(one, other, "incoming", is_rebase=is_rebase))


@given(steps, sides, st.booleans())
def test_what_one_side_alone_did_is_taken_as_it_is(history, prefer, is_rebase):
    schema = changed(BASE, history)

    for result in (
        combined(schema, BASE, prefer, is_rebase=is_rebase),
        combined(BASE, schema, prefer, is_rebase=is_rebase),
        combined(schema, schema, prefer, is_rebase=is_rebase),
    ):
        names = {spec.id: (spec.name, spec.layout.dtype) for spec in schema.tensors}
        assert result.clashes == ()
        assert {id_: said[:2] for id_, said in told(result).items()} == names


@given(steps, steps, sides, st.booleans())
def test_no_tensor_is_lost_that_no_side_dropped_and_no_chunk_unreadable(
    mine, others, prefer, is_rebase
):
    current, incoming = changed(BASE, mine), changed(BASE, others)

    result = combined(current, incoming, prefer, is_rebase=is_rebase)

    if all(clash.can_be_preferred for clash in result.clashes):
        ids = {spec.id for spec in (*current.tensors, *incoming.tensors)}
        gone = {
            spec.id
            for spec in BASE.tensors
            if current.by_id(spec.id) is None or incoming.by_id(spec.id) is None
        }
        assert ids - gone <= {*result.tensors} <= ids
        for id_, tensor in result.tensors.items():
            for side in (current, incoming):
                _check_readable(tensor.spec, side.by_id(id_))
            there = incoming.by_id(id_)
            if there is not None and tensor.source != "current":
                numbers = tensor.read_as.numbers
                stored = [tensor.spec.encodings[number].dtype for number in numbers]
                assert stored == [one.dtype for one in there.encodings]


def _check_readable(spec: TensorSpec, side: TensorSpec | None) -> None:
    if side is not None:
        old, new = parse_dtype(side.layout.dtype), parse_dtype(spec.layout.dtype)
        assert old == new or is_widening(old, new)


@given(steps, steps, sides, st.booleans())
def test_the_preferred_side_keeps_its_names(mine, others, prefer, is_rebase):
    current, incoming = changed(BASE, mine), changed(BASE, others)

    result = combined(current, incoming, prefer, is_rebase=is_rebase)

    winner = current if prefer == "current" else incoming
    for spec in winner.tensors:
        before, known = BASE.by_id(spec.id), result.schema.by_id(spec.id)
        if known is not None and (before is None or before.name != spec.name):
            assert known.name == spec.name


@given(steps, steps, sides, st.booleans())
def test_every_label_keeps_its_class(mine, others, prefer, is_rebase):
    current, incoming = changed(BASE, mine), changed(BASE, others)

    result = combined(current, incoming, prefer, is_rebase=is_rebase)

    names = class_names(result.schema.by_id(LABEL))
    codes = result.tensors[LABEL].read_as.codes
    before = class_names(BASE["label"])
    if all(clash.can_be_preferred for clash in result.clashes):
        for schema, table in ((current, None), (incoming, codes)):
            for code, name in enumerate(class_names(schema.by_id(LABEL))):
                there = names[code if table is None else table[code]]
                if code >= len(before) and name:  # added by this side: it is who renamed it
                    assert there == name
        assert [names[code] for code in range(len(before))] == [
            names[code if codes is None else codes[code]] for code in range(len(before))
        ]


# The same through the SDK: values follow their tensors


def staged(ds: Dataset, history: list[Step]) -> None:
    for what, name, other in history:
        try:
            match what:
                case "rename":
                    ds.rename_tensor(name, other)
                case "add":
                    ds.add_tensor(name, "int8", fill=99)
                case "drop":
                    ds.drop_tensor(name)
                case "widen":
                    ds.alter_tensor(name, dtype=other)
                case "note":
                    ds.alter_tensor(name, metadata={"is": other})
                case _:
                    pass
        except (SchemaError, KeyError):  # not possible, as in `changed`
            continue


def values_by_id(ds: Dataset) -> dict[str, list[float]]:
    return {
        spec.id: ds[spec.name][:].tolist()
        for spec in session_of(ds).snapshot().state.schema.tensors
    }


@pytest.mark.parametrize("is_rebase", [True, False])
@examples(10)
@given(mine=steps, others=steps, policy=st.sampled_from(["ours", "theirs"]))
def test_every_tensor_keeps_its_own_values_or_both_are_told(is_rebase, mine, others, policy):
    store = MemoryStore()
    main = create_on(store, dict.fromkeys(NAMES[:3], "int8"))
    main.extend({name: np.full(3, at) for at, name in enumerate(NAMES[:3])})
    main.commit("rows")
    born = values_by_id(main)
    late = open_on(store) if is_rebase else main.branch("fix")
    staged(late, others)
    if not is_rebase:
        late.commit("fix")
    staged(main, mine)
    main.commit("main")
    kept = [values_by_id(one).keys() for one in (main, late)]
    dropped = born.keys() - (kept[0] & kept[1])

    try:
        if is_rebase:
            late.refresh(keep_staged=True, on_conflict=policy)
            late.commit("late")
        else:
            main.merge("fix", on_conflict=policy)
    except ConflictError:
        return  # two types, or a tensor that theirs dropped: nobody is preferred, and all is told

    found = values_by_id(late if is_rebase else main)
    assert (kept[0] | kept[1]) - dropped <= found.keys()
    for id_, values in found.items():
        assert values == born.get(id_, [99.0] * 3)
