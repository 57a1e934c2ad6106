"""Declaring tensors that a function computes from others.

The declaration is in the tensor's schema (``format/entry/compute.py``). Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from tensorlake.dataset.columns.functions import code_of, known_function, learn_function, name_of
from tensorlake.dataset.core.session import Session
from tensorlake.errors import InvalidInputError, SchemaError, shown
from tensorlake.format import Compute, Schema, TensorSpec
from tensorlake.quantities import checked_integer
from tensorlake.types import Link, Struct, Text, as_type
from tensorlake.versions import check_text

__all__ = [
    "add_computed",
    "alter_computed",
    "check_reasons",
    "computed_spec",
    "in_order_of_inputs",
    "reasons_spec",
    "refuse_fill",
    "refuse_without_function",
]

Function = Callable[[dict[str, Any]], Any]


def add_computed(
    session: Session,
    name: str,
    sample_type: Any,
    function: Function,
    *,
    inputs: Sequence[str] | None,
    version: str,
    batch_size: int | None,
) -> None:
    """Stage a tensor that a function computes; every row is stale.

    Raises:
        InvalidInputError: An argument is invalid.
        SchemaError: The type cannot be computed, or an input is an expression.
        TensorNotFoundError: There is no such input.
    """
    declared = as_type(sample_type) if not isinstance(sample_type, Struct) else None
    if declared is None or isinstance(declared, Link) or getattr(declared, "per", None):
        raise SchemaError(
            f"{shown(name)} cannot be computed as {shown(sample_type)}: a function makes one"
            " stored value a row\nadd a tensor for each field, of a type without per=",
            tensor=name,
        )
    spec = replace(TensorSpec.new(name, replace(declared, nullable=True)), fill=None)
    with session.lock:
        transaction = session.staging()
        size = (
            None if batch_size is None else checked_integer(batch_size, name="batch_size", least=1)
        )
        schema = transaction.schema
        compute = _declared(schema, spec, function, inputs, version, size)
        spec = replace(spec, compute=compute)
        check_reasons(schema, spec)
        transaction.add_tensor(spec)
    learn_function(spec.id, compute.code, function)


def alter_computed(
    session: Session,
    name: str,
    function: Function | None,
    *,
    inputs: Sequence[str] | None,
    version: str | None,
) -> None:
    """Stage another function, other inputs or another version of a computed tensor.

    The function that is declared already is only made known to this process.

    Raises:
        SchemaError: No function computes the tensor, or it would depend on itself.
        InvalidStateError: The function is not given, and not known to this process.
    """
    with session.lock:
        transaction = session.staging()
        spec = computed_spec(transaction.schema, name)
        before = spec.compute
        assert before is not None
        if function is None:
            function = known_function(spec, where=session.store.url)
        if inputs is None:
            inputs = [_named(transaction.schema, spec, id_) for id_ in before.inputs]
        version = before.version if version is None else version
        size = before.batch_size
        after = _declared(transaction.schema, spec, function, inputs, version, size)
        if after.code != before.code:
            transaction.change_spec(replace(spec, compute=after), what="metadata")
    learn_function(spec.id, after.code, function)


def computed_spec(schema: Schema, name: str) -> TensorSpec:
    """Return the spec of a tensor that a function computes.

    Raises:
        SchemaError: None does.
    """
    spec = schema[name]
    if spec.is_virtual:
        raise SchemaError(
            f"no function computes {shown(name)}: an expression does, which stores nothing"
            f"\nfor a function drop it, and add it again: ds.drop_tensor({name!r})",
            tensor=name,
        )
    if not spec.has_function:
        known = [one.name for one in schema.tensors if one.has_function]
        raise SchemaError(
            f"no function computes {shown(name)}; computed tensors: {', '.join(known) or 'none'}"
            f"\ndeclare one: ds.add_tensor(name, type, compute=function, inputs=[…])",
            tensor=name,
        )
    return spec


def in_order_of_inputs(schema: Schema, wanted: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Return computed tensors, and those that they are computed from, inputs first.

    Raises:
        SchemaError: One depends on itself.
    """
    found: dict[str, TensorSpec] = {}

    def visit(spec: TensorSpec, above: tuple[TensorSpec, ...]) -> None:
        if spec in above:
            names = " from ".join(repr(one.name) for one in (*above[above.index(spec) :], spec))
            raise SchemaError(
                f"{names}: a tensor cannot be computed from itself\ngive other inputs=",
                tensor=spec.name,
            )
        for one in _computed_inputs(schema, spec):
            visit(one, (*above, spec))
        found[spec.id] = spec

    for spec in wanted:
        visit(spec, ())
    return list(found.values())


def reasons_spec(schema: Schema, spec: TensorSpec) -> TensorSpec:
    """Return the tensor that has the reasons why a function failed; perhaps not yet in the schema.

    Its id follows from that of the computed tensor, so that two writers add the same tensor.
    """
    tensor_id = blake2b(f"reasons of {spec.id}".encode(), digest_size=5).hexdigest()
    known = schema.by_id(tensor_id)
    if known is not None:
        return known
    assert spec.compute is not None
    inputs = [schema.by_id(id_) for id_ in spec.compute.inputs]
    personal = any(one is not None and one.type.personal for one in (spec, *inputs))
    declared = Text(nullable=True, personal=personal)
    made = TensorSpec.new(f"{spec.name}.error", declared, tensor_id=tensor_id)
    return replace(made, compute=Compute(reasons_of=spec.id))


def check_reasons(schema: Schema, spec: TensorSpec) -> None:
    """Check that the reasons why a function failed can get their name.

    Raises:
        SchemaError: Another tensor has it.
    """
    reasons = reasons_spec(schema, spec)
    if schema.by_id(reasons.id) is None and reasons.name in schema:
        raise SchemaError(
            f"{spec.name!r} cannot be computed by a function: the reasons of its failures need the"
            f" name {reasons.name!r}, which is in use\nrename that tensor:"
            f" ds.rename_tensor({reasons.name!r}, …)",
            tensor=reasons.name,
        )


def refuse_fill(name: str) -> None:
    """Refuse a fill for a computed tensor."""
    raise InvalidInputError(
        f"add_tensor({shown(name)}, fill=, compute=): rows that are not computed yet are NULL"
        "\nleave fill= out",
        argument="fill",
    )


def refuse_without_function(name: str, compute: object, **given: object) -> None:
    """Refuse arguments of functions, those of ``given`` that are not None, without a function."""
    without = compute is None or isinstance(compute, str)
    wrong = next((one for one, value in given.items() if value is not None), None)
    if without and wrong is not None:
        what = "without compute=" if compute is None else "an expression"
        raise InvalidInputError(
            f"add_tensor({shown(name)}, {wrong}=): {what}, and only a function has {wrong}="
            f"\nleave it out, or give a function: compute=function, inputs=[…]",
            argument=wrong,
        )


def _declared(
    schema: Schema,
    spec: TensorSpec,
    function: Function,
    inputs: Sequence[str] | None,
    version: str,
    batch_size: int | None,
) -> Compute:
    if not callable(function):
        raise InvalidInputError(
            f"compute= of {spec.name!r} is a function or TQL text, got {shown(function)}",
            argument="compute",
        )
    if isinstance(inputs, str) or not inputs or not all(isinstance(one, str) for one in inputs):
        raise InvalidInputError(
            f"inputs= of {spec.name!r} names the tensors that the function gets, got"
            f" {shown(inputs)}\nwrite inputs=['image']",
            argument="inputs",
        )
    found = [schema[name] for name in dict.fromkeys(inputs)]
    for one in found:
        if one.is_virtual or (one.is_derived and not one.has_function):
            raise SchemaError(
                f"{spec.name!r} cannot be computed from {one.name!r}, which is not stored by rows"
                "\ngive the tensors that it is made from",
                tensor=one.name,
            )
    ids = tuple(one.id for one in found)
    code = code_of(function, check_text(version, what="the version"), ids)
    compute = Compute(ids, version, code, name_of(function), batch_size)
    declared = replace(spec, compute=compute)
    others = tuple(one for one in schema.tensors if one.id != spec.id)
    in_order_of_inputs(replace(schema, tensors=(*others, declared)), [declared])
    return compute


def _computed_inputs(schema: Schema, spec: TensorSpec) -> Iterator[TensorSpec]:
    for id_ in spec.compute.inputs if spec.compute is not None else ():
        found = schema.by_id(id_)
        if found is not None and found.has_function:
            yield found


def _named(schema: Schema, spec: TensorSpec, tensor_id: str) -> str:
    found = schema.by_id(tensor_id)
    if found is None:
        raise SchemaError(
            f"{spec.name!r} was computed from a tensor that was dropped since\ngive inputs=[…]",
            tensor=spec.name,
        )
    return found.name
