"""CASE, COALESCE and CAST.

CASE takes the first arm whose condition is true; without ELSE the rest is NULL. Its results must be
of one kind: all numbers (of their common dtype), all text, all booleans. CAST of text that is
not a number, or of a float that an integer cannot hold, is NULL. Times
become text in ISO 8601, in UTC, and such text becomes times.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.dates import bind_to_time, same_units
from tensorlake_query.functions.scalar.operators import TEXT_COST, adapted, required_number
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import joined, listed, nearest
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.conversions import (
    JSON_COST,
    MAX_INT_BITS,
    as_condition,
    as_number,
    as_text,
    condition_hint,
)
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoolArray, ColumnType, UniformBatch
from tensorlake_query.values.times import is_time
from tensorlake_query.values.types import (
    CAST_TYPES,
    JSON,
    TEXT,
    common_dtype,
    describe,
    is_numeric,
    number,
)
from tensorlake_query.values.vectors import (
    Vector,
    concatenated,
    made_texts,
    object_array,
    python_values,
    take,
    to_integers,
    valid_of,
)

INT_BITS = 63
CONDITIONS = {
    **dict.fromkeys(("true", "t", "yes", "y"), True),
    **dict.fromkeys(("false", "f", "no", "n"), False),
}
MOMENT_NBYTES = 256  # of a time as text, while it is made
MAX_NUMBER_TEXT = (
    300  # characters; no 64-bit number needs more, and Python converts long ones slowly
)


def bind_case(site: Site, *, has_otherwise: bool) -> Bound:
    """Bind a searched CASE: its arguments are condition, result, …, [otherwise]."""
    pairs = len(site.args) // 2
    conditions: list[Bound] = []
    for arg in site.args[: 2 * pairs : 2]:
        condition = as_condition(arg)
        if condition is None or condition.type.shape:
            raise site.fail(
                f"WHEN needs a condition, and {show(arg)} is {describe(arg.type)}",
                at=arg,
                hint=condition_hint(arg),
            )
        conditions.append(condition)
    results = [*site.args[1 : 2 * pairs : 2], *(site.args[-1:] if has_otherwise else ())]
    results, column_type = unified(site, results)
    if not has_otherwise:
        column_type = replace(column_type, nullable=True)
    args: list[Bound] = []
    for condition, result in zip(conditions, results, strict=False):
        args += [condition, result]
    args += results[pairs:]

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        open_rows = np.ones(num_rows, np.bool_)
        choices: list[tuple[BoolArray, Vector]] = []
        for condition, result in zip(
            vectors[: 2 * pairs : 2], vectors[1 : 2 * pairs : 2], strict=True
        ):
            chosen = open_rows & np.asarray(condition.values, np.bool_) & valid_of(condition)
            choices.append((chosen, result))
            open_rows &= ~chosen
        if has_otherwise:
            choices.append((open_rows, vectors[-1]))
        return _chosen(choices, column_type, num_rows)

    return site.apply(kernel, column_type, args=args, strict=False)


def _bind_coalesce(site: Site) -> Bound:
    args, column_type = unified(site, site.args)
    column_type = replace(column_type, nullable=all(arg.type.nullable for arg in args))

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        open_rows = np.ones(num_rows, np.bool_)
        choices: list[tuple[BoolArray, Vector]] = []
        for vector in vectors:
            chosen = open_rows & valid_of(vector)
            choices.append((chosen, vector))
            open_rows &= ~chosen
        return _chosen(choices, column_type, num_rows)

    return site.apply(kernel, column_type, args=args, strict=False)


def unified(site: Site, results: Sequence[Bound]) -> tuple[list[Bound], ColumnType]:
    """Return alternatives converted to one type, and that type.

    Raises:
        QueryTypeError: they have no type in common.
    """
    known = [each for each in results if not (isinstance(each, Constant) and each.value is None)]
    if not known:
        return list(results), JSON
    if any(is_time(each.type) for each in known):
        known = same_units(site, known)
    typed = [each for each in known if each.type.kind != "json"]
    if typed and all(is_numeric(each.type) for each in typed):
        known = [
            required_number(site, each) for each in known
        ]  # JSON becomes what it stands beside
    nullable = len(known) < len(results) or any(each.type.nullable for each in known)
    first = known[0]
    if all(
        replace(each.type, nullable=False) == replace(first.type, nullable=False) for each in known
    ):
        column_type = replace(first.type, nullable=nullable)
    elif all(is_numeric(each.type) for each in known) and not _are_labels(known):
        known = adapted(known)
        shapes = {each.type.shape for each in known}
        if len(shapes) > 1:
            raise site.fail(f"alternatives of different shapes: {', '.join(map(str, shapes))}")
        dtype = common_dtype([each.type for each in known])
        if dtype is None:
            raise site.fail(
                f"no integer type holds both: {_shown_types(known)}",
                hint="CAST one side to the other's type",
            )
        column_type = number(dtype, shapes.pop(), nullable=nullable)
    else:
        texts = [as_text(each) for each in known]
        if any(text is None for text in texts):
            raise site.fail(
                f"alternatives of different kinds: {_shown_types(known)}",
                hint="CAST them to one type",
            )
        known = [text for text in texts if text is not None]
        column_type = replace(TEXT, nullable=nullable)
    converted = iter(known)
    merged = [
        structs.replace(each, type=column_type)
        if isinstance(each, Constant) and each.value is None
        else next(converted)
        for each in results
    ]
    return merged, column_type


def _shown_types(exprs: Sequence[Bound]) -> str:
    return ", ".join(f"{show(each)} is {describe(each.type)}" for each in exprs)


def _are_labels(alternatives: Sequence[Bound]) -> bool:
    """Tell whether all are class labels: with other names each, only their text is common."""
    return all(each.type.kind == "label" for each in alternatives)


def _chosen(
    choices: Sequence[tuple[BoolArray, Vector]], column_type: ColumnType, num_rows: int
) -> Vector:
    """Return, for each row, the value of the alternative chosen for it; NULL where none is."""
    valid = np.zeros(num_rows, np.bool_)
    alternative = np.zeros(num_rows, np.int64)
    for number_of, (chosen, vector) in enumerate(choices):
        alternative[chosen] = number_of
        valid |= chosen & valid_of(vector)
    charge(sum(vector.values.nbytes for _, vector in choices))
    stacked = concatenated([vector for _, vector in choices])
    picked = take(stacked, alternative * num_rows + np.arange(num_rows))
    values = (
        picked.values
        if column_type.dtype is None
        else picked.values.astype(column_type.dtype, copy=False)
    )
    return replace(picked, values=values, valid=None if valid.all() else valid)


def bind_cast(site: Site, type_name: str) -> Bound:
    """Bind `CAST(x AS type)`."""
    target = CAST_TYPES.get(type_name)
    if target is None:
        raise site.fail(
            f"no type {type_name!r}",
            hint=joined(nearest(type_name, CAST_TYPES), listed("types", sorted(CAST_TYPES))),
        )
    operand = site.args[0]
    if target == "text":
        return _bind_to_text(site)
    if target in {"timestamp", "date"}:
        return bind_to_time(site, target)
    if operand.type.kind == "text":
        return _bind_parse(site, operand, np.dtype(target))
    if operand.type.kind == "json":
        return _bind_parse(site, operand, np.dtype(target))
    numbers = as_number(operand)
    if numbers is None:
        raise site.fail(
            f"cannot cast {show(operand)}, {describe(operand.type)}, to {type_name.upper()}"
        )
    dtype = np.dtype(target)
    loses = dtype.kind in "iu" and not np.can_cast(np.dtype(numbers.type.dtype), dtype)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        vector = vectors[0]
        if not loses:
            return replace(vector, values=vector.values.astype(dtype))
        return to_integers(vector, dtype)

    column_type = number(dtype, numbers.type.shape, nullable=numbers.type.nullable or loses)
    return site.apply(kernel, column_type, args=(numbers,))


def _bind_parse(site: Site, operand: Bound, dtype: np.dtype[np.generic]) -> Bound:
    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        read_one = _read_condition if dtype.kind == "b" else _read_number
        read = [read_one(value) for value in python_values(vectors[0].values)]
        valid = np.array([value is not None for value in read], np.bool_)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype.name)
            valid &= np.array(
                [value is not None and limits.min <= value <= limits.max for value in read],
                np.bool_,
            )
        kept = [value if ok else 0 for value, ok in zip(read, valid, strict=True)]
        return UniformBatch(
            np.array([0 if value is None else value for value in kept]).astype(dtype), valid
        )

    return site.apply(kernel, number(dtype, nullable=True), args=(operand,), cost=JSON_COST)


def _read_condition(value: object) -> int | float | None:
    word = value.strip().lower() if isinstance(value, str) else ""
    return int(CONDITIONS[word]) if word in CONDITIONS else _read_number(value)


def _read_number(value: object) -> int | float | None:
    if isinstance(value, int) and value.bit_length() > INT_BITS:
        return float(value) if value.bit_length() < MAX_INT_BITS else None
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str) or len(value) > MAX_NUMBER_TEXT:
        return None
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            continue  # not this kind of number; NULL when it is neither
    return None


def _bind_to_text(site: Site) -> Bound:
    operand = site.args[0]
    text = as_text(operand) if operand.type.kind != "json" else None
    if text is not None:
        return site.apply(lambda vectors, _num_rows: vectors[0], text.type, args=(text,))
    unit = operand.type.timestamp_unit
    if unit is not None and not operand.type.shape:

        def moments(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            values = vectors[0].values.astype(np.int64).astype(f"datetime64[{unit}]")
            charge(len(values) * MOMENT_NBYTES)
            made = (text + "Z" for text in np.datetime_as_string(values).tolist())
            return UniformBatch(object_array(list(made)))

        column_type = replace(TEXT, nullable=operand.type.nullable)
        return site.apply(moments, column_type, cost=TEXT_COST)
    if operand.type.shape or operand.type.kind == "bytes":
        raise site.fail(f"cannot cast {show(operand)}, {describe(operand.type)}, to TEXT")

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return UniformBatch(made_texts(_written, python_values(_shortest(vectors[0].values))))

    return site.apply(kernel, replace(TEXT, nullable=operand.type.nullable), cost=TEXT_COST)


def _shortest(values: AnyArray) -> AnyArray:
    """Return float16 and float32 as the float64 of the same shortest text: 0.1."""
    is_narrow = values.dtype.kind == "f" and values.dtype.itemsize < np.dtype(np.float64).itemsize
    return values.astype(np.str_).astype(np.float64) if is_narrow else values


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _bind_weights(*, is_sum: bool) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        args: list[Bound] = []
        for condition, weight in zip(site.args[::2], site.args[1::2], strict=True):
            known = as_condition(condition)
            if known is None or known.type.shape:
                shown = f"{show(condition)} is {describe(condition.type)}"
                hint = condition_hint(condition)
                raise site.fail(f"a weight needs a condition, and {shown}", at=condition, hint=hint)
            args += [known, required_number(site, weight)]

        def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
            total = np.full(num_rows, 0.0 if is_sum else -np.inf)
            holds_any = np.zeros(num_rows, np.bool_)
            for condition, weight in zip(vectors[::2], vectors[1::2], strict=True):
                holds = np.asarray(condition.values, np.bool_) & valid_of(condition)
                holds &= valid_of(weight)
                holds_any |= holds
                combine = np.add if is_sum else np.maximum
                combine(total, weight.values.astype(np.float64), out=total, where=holds)
            return UniformBatch(np.where(holds_any, total, 0.0))

        return site.apply(kernel, number("float64"), args=args, strict=False)

    return bind


def _bind_is_null(site: Site) -> Bound:
    return site.bind(ast.IsNull(next(ast.operands(site.syntax)), span=site.syntax.span))


FUNCTIONS = (
    Function(
        "COALESCE", "COALESCE(x, …)", "The first value that is not NULL.", (1, 64), _bind_coalesce
    ),
    Function("ISNULL", "ISNULL(x)", "Is it NULL; also written x IS NULL.", (1, 1), _bind_is_null),
    Function(
        "MAX_WEIGHT",
        "MAX_WEIGHT(condition: weight, …)",
        "The largest weight whose condition is true; 0 without one.",
        (1, 64),
        _bind_weights(is_sum=False),
        is_weighted=True,
    ),
    Function(
        "SUM_WEIGHT",
        "SUM_WEIGHT(condition: weight, …)",
        "The sum of the weights whose conditions are true.",
        (1, 64),
        _bind_weights(is_sum=True),
        is_weighted=True,
    ),
)
