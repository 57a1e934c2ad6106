"""Operators: arithmetic, comparison, three-valued logic, NULL tests.

Arithmetic is NumPy's, element by element with broadcasting: integers wrap, `/` is true division,
`//` and `%` floor. Comparisons follow what is compared: numbers by value, text by code point, class
labels by name against names and by code against numbers, JSON values by the type of the other side
(NULL where the value has another type).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import add

import numpy as np
from msgspec import structs

from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.scalar.dates import not_moment, same_times
from tensorlake_query.functions.text.matching import compared, equal_to
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryNameError, joined, listed, nearest
from tensorlake_query.values.bound import (
    Apply,
    Bound,
    ColumnRef,
    Constant,
    ShapeRef,
    show,
    syntax_of,
)
from tensorlake_query.values.conversions import (
    as_condition,
    as_number,
    as_text,
    condition_hint,
    converted,
    encoded_constant,
    is_null,
)
from tensorlake_query.values.group_keys import json_key
from tensorlake_query.values.source import AnyArray, ColumnType, UniformBatch
from tensorlake_query.values.texts import texts_of
from tensorlake_query.values.times import counted, is_time, untimed
from tensorlake_query.values.types import BOOL, FLOAT, TEXT, broadcast, describe, number
from tensorlake_query.values.vectors import (
    Vector,
    elementwise,
    made_texts,
    object_array,
    python_values,
    valid_of,
)

COMPARISONS: dict[str, Callable[..., AnyArray]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
ARITHMETIC: dict[str, Callable[..., AnyArray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "^": np.power,
}
TEXT_COST = 10.0  # a Python string compared, against one arithmetic operation on an array element


def bind_arithmetic(site: Site, op: ast.ArithmeticOp) -> Bound:
    """Bind `left op right`."""
    if op == "||":
        return _bind_concat(site)
    if any(is_time(arg.type) for arg in site.args):
        return _bind_time_arithmetic(site, op)
    return apply_ufunc(
        site, ARITHMETIC[op], prepare=_arithmetic_input if op != "^" else _power_input
    )


def bind_sign(site: Site, op: str) -> Bound:
    """Bind `-x` or `+x`."""
    operand = site.args[0]
    plain = structs.replace(site, args=(untimed(operand),)) if operand.type.duration_unit else site
    made = apply_ufunc(plain, np.negative if op == "-" else np.positive, prepare=_arithmetic_input)
    return structs.replace(made, type=replace(made.type, duration_unit=operand.type.duration_unit))


def apply_ufunc(
    site: Site,
    function: Callable[..., AnyArray],
    *,
    prepare: Callable[[Sequence[np.dtype[np.generic]]], Sequence[np.dtype[np.generic]]]
    | None = None,
    cost: float = 1.0,
) -> Apply:
    """Bind an element-by-element NumPy function over the site's arguments, broadcasting them.

    `function` works on arrays of the dtypes that `prepare` chooses, or of those given.
    """
    args = [required_number(site, not_moment(site, arg)) for arg in site.args]
    args = adapted(args)
    shape = _common_shape(site, args)
    given = [np.dtype(arg.type.dtype) for arg in args]
    chosen = list(prepare(given) if prepare is not None else given)

    def compute(*arrays: AnyArray) -> AnyArray:
        cast_arrays = (
            array.astype(to, copy=False) for array, to in zip(arrays, chosen, strict=True)
        )
        return np.asarray(function(*cast_arrays))

    with np.errstate(all="ignore"):
        dtype = compute(*(np.ones(1, each) for each in given)).dtype

    made_nbytes = dtype.itemsize + sum(
        to.itemsize for to, before in zip(chosen, given, strict=True) if to != before
    )

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return elementwise(compute, vectors[: len(given)], shape, element_nbytes=made_nbytes)

    nullable = any(arg.type.nullable for arg in args)
    return site.apply(kernel, number(dtype, shape, nullable=nullable), args=args, cost=cost)


def bind_compare(site: Site, op: ast.CompareOp) -> Bound:
    """Bind `left op right`."""
    left, right = site.args
    for side, other in ((left, right), (right, left)):
        if is_null(side):
            answer = f"{show(other)} IS {'NOT ' if op == '!=' else ''}NULL"
            raise site.fail(
                f"a comparison with NULL is never true ({op} NULL)", hint=f"write {answer}"
            )
    left, right = same_kind(site, op, left, right)
    compare = COMPARISONS[op]
    nullable = left.type.nullable or right.type.nullable
    if left.type.kind in {"text", "bytes", "json"}:
        if left.type.shape or right.type.shape:
            shape = _common_shape(site, [left, right])

            def texts_kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
                made = elementwise(compare, vectors, shape)
                return replace(made, values=made.values.astype(np.bool_))

            column_type = replace(BOOL, shape=shape, nullable=nullable)
            args = (left, right)
            return site.apply(texts_kernel, column_type, args=args, cost=TEXT_COST, role="compare")

        is_json = left.type.kind == "json"
        literal = encoded_constant(right)

        def object_kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            texts = texts_of(vectors[0].values)
            if texts is not None and literal is not None and op in {"=", "!="}:
                found = equal_to(texts, literal)
                return UniformBatch(~found if op == "!=" else found)
            others = texts_of(vectors[1].values)
            if texts is not None and others is not None:
                return UniformBatch(compared(texts, others, op))
            sides = [_json_keys(each.values) if is_json else each.values for each in vectors]
            return UniformBatch(np.asarray(compare(*sides), np.bool_))

        column_type = replace(BOOL, nullable=nullable)
        return site.apply(
            object_kernel, column_type, args=(left, right), cost=TEXT_COST, role="compare"
        )
    left, right = adapted([_in_64_bits(left, right), _in_64_bits(right, left)])
    shape = _common_shape(site, [left, right])

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return elementwise(compare, vectors, shape, element_nbytes=1)

    column_type = ColumnType("bool", "bool", shape, nullable=nullable)
    return site.apply(kernel, column_type, args=(left, right), role="compare")


def _in_64_bits(side: Bound, other: Bound) -> Bound:
    """Replace an integer of more than 64 bits, which every 64-bit integer compares with alike."""
    value = side.value if isinstance(side, Constant) else None
    if not isinstance(side, Constant) or not isinstance(value, int) or -(2**63) <= value < 2**64:
        return side
    beyond = math.inf if value > 0 else -math.inf
    is_integer = (other.type.dtype or "float64").startswith(("int", "uint"))
    try:
        near = beyond if is_integer else float(value)
    except OverflowError:
        near = beyond
    return structs.replace(side, value=near, type=FLOAT)


def _json_keys(values: AnyArray) -> AnyArray:
    """Return what is equal where JSON values are: in Python true equals 1."""
    return object_array([json_key(value) for value in python_values(values)])


def bind_logic(site: Site, role: str) -> Bound:
    """Bind AND, OR or NOT with SQL's three values: NULL means not known."""
    args: list[Bound] = []
    for arg in site.args:
        condition = as_condition(arg)
        if condition is None:
            raise site.fail(
                f"{role.upper()} needs conditions, and {show(arg)} is {describe(arg.type)}",
                at=arg,
                hint=condition_hint(arg),
            )
        args.append(condition)
    shape = _common_shape(site, args)
    column_type = ColumnType("bool", "bool", shape, nullable=any(arg.type.nullable for arg in args))
    if role == "not":

        def negate(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return elementwise(np.logical_not, vectors, shape)

        return site.apply(negate, column_type, args=args, role=role)
    if shape:  # arrays have no NULL elements: a NULL array is a NULL row
        combine = np.logical_and if role == "and" else np.logical_or

        def combined(*arrays: AnyArray) -> AnyArray:
            result = arrays[0]
            for array in arrays[1:]:
                result = combine(result, array)
            return result

        def arrays_kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return elementwise(combined, vectors, shape)

        return site.apply(arrays_kernel, column_type, args=args, role=role)
    kernel = _kleene(decides=role == "or")
    return site.apply(kernel, column_type, args=args, strict=False, role=role)


def _bind_time_arithmetic(site: Site, op: ast.ArithmeticOp) -> Bound:
    left, right = site.args
    moments = [arg.type.timestamp_unit is not None for arg in (left, right)]
    fits = op in {"+", "-"} and all(is_time(arg.type) for arg in (left, right))
    if not fits or (op == "+" and all(moments)) or (op == "-" and moments == [False, True]):
        raise site.fail(
            f"{show(left)} is {describe(left.type)} and {show(right)} is {describe(right.type)}",
            hint="write t + INTERVAL '7 days', or t - u for the time between two",
        )
    left, right = same_times(site, left, right, any_kind=True)
    unit = left.type.timestamp_unit or left.type.duration_unit
    made = apply_ufunc(structs.replace(site, args=(untimed(left), untimed(right))), ARITHMETIC[op])
    made = counted(made, is_difference=op == "-", unit=unit or "s")
    is_moment = moments[0] != moments[1]
    column_type = replace(
        made.type,
        timestamp_unit=unit if is_moment else None,
        duration_unit=None if is_moment else unit,
    )
    return structs.replace(made, type=column_type)


def conjunction(conditions: Sequence[Bound]) -> Bound:
    """Return the AND of bound conditions, one boolean each."""
    if len(conditions) == 1:
        return conditions[0]
    column_type = replace(BOOL, nullable=any(each.type.nullable for each in conditions))
    syntax = ast.And(tuple(map(syntax_of, conditions)))
    return Apply(
        _kleene(decides=False), tuple(conditions), column_type, syntax, strict=False, role="and"
    )


def bind_is_null(site: Site, *, negated: bool) -> Bound:
    """Bind `x IS [NOT] NULL`."""

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        valid = valid_of(vectors[0])
        return UniformBatch(valid if negated else ~valid)

    operand = site.args[0]
    if isinstance(operand, ColumnRef) and not operand.type.nullable:
        return Constant(negated, BOOL, site.syntax)
    role = "is not null" if negated else "is null"
    return site.apply(kernel, BOOL, args=(presence_of(operand),), strict=False, role=role)


def presence_of(expr: Bound) -> Bound:
    """Return something that is NULL where `expr` is: for images, their undecoded shapes."""
    if isinstance(expr, ColumnRef) and expr.type.kind == "media":
        shape = number("int64", (len(expr.type.shape),), nullable=expr.type.nullable)
        return ShapeRef(expr.name, shape, expr.syntax)
    return expr


def required_number(site: Site, expr: Bound) -> Bound:
    """Return an argument as numbers, or fail saying what it is."""
    result = as_number(expr)
    if result is None:
        raise site.fail(f"a number is needed, and {show(expr)} is {describe(expr.type)}", at=expr)
    return result


def required_text(site: Site, expr: Bound) -> Bound:
    """Return an argument as text, or fail saying what it is."""
    result = as_text(expr)
    if result is None or result.type.shape:
        is_bytes = expr.type.kind == "bytes"
        hint = "words of each row are found in a column of the type Tags" if is_bytes else ""
        reason = f"text is needed, and {show(expr)} is {describe(expr.type)}"
        raise site.fail(reason, at=expr, hint=hint)
    return result


def label_code(site: Site, labels: Bound, name: Constant) -> Constant:
    """Return the code of a class name, or fail naming the nearest."""
    names = labels.type.names or labels.type.class_names or ()
    if not isinstance(name.value, str) or not name.value or name.value not in names:
        given = str(name.value)
        names = tuple(one for one in names if one)  # a class that was dropped has the name ""
        raise QueryNameError(
            f"{show(labels)!r} has no class {given!r}",
            text=site.text,
            span=name.syntax.span,
            hint=joined(nearest(given, names), listed("classes", names)),
        )
    return Constant(names.index(name.value), number(labels.type.dtype or "int64"), name.syntax)


def adapted(args: Sequence[Bound]) -> list[Bound]:
    """Give weak constants the dtype of what they meet."""
    strong = [arg.type.dtype for arg in args if not (isinstance(arg, Constant) and arg.weak)]
    if not strong:
        return list(args)
    target = np.result_type(*(dtype or "float64" for dtype in strong))
    return [
        _cast_constant(arg, target)
        if isinstance(arg, Constant) and arg.weak and arg.value is not None
        else arg
        for arg in args
    ]


def same_kind(site: Site, op: str, left: Bound, right: Bound) -> tuple[Bound, Bound]:
    """Convert the two sides of a comparison to one kind.

    Raises:
        QueryTypeError: they have none in common.
    """
    if is_time(left.type) or is_time(right.type):
        return same_times(site, left, right, is_compared=True)
    kinds = {left.type.kind, right.type.kind}
    if "text" in kinds and any(map(_has_classes, (left, right))):
        labels, text = (left, right) if _has_classes(left) else (right, left)
        if isinstance(text, Constant):
            if op not in {"=", "!="}:
                others = "a code or LIKE" if labels.type.kind == "label" else "a code"
                raise site.fail(f"class names have no order: {op!r} needs {others}", at=text)
            code = label_code(site, labels, text)
            return (labels, code) if labels is left else (code, labels)
    elif kinds == {"label"} and left.type.names != right.type.names:
        if op not in {"=", "!="}:
            raise site.fail("two label columns compare by name, and names have no order")
        return left, _recoded(left, right)
    if kinds == {"json"}:
        if op not in {"=", "!="}:
            raise site.fail(
                "two JSON values have no order before their type is known",
                hint=f"write CAST({show(left)} AS FLOAT) {op} …, or AS TEXT",
            )
        return left, right
    if "json" in kinds:
        json, other = (left, right) if left.type.kind == "json" else (right, left)
        if isinstance(json, Constant) and json.value is not None:
            raise site.fail(
                f"{show(json)} is an object, and {show(other)} is {describe(other.type)}", at=json
            )
        convert = {"text": as_text, "bool": as_condition}.get(other.type.kind, as_number)
        typed = convert(json)
        if typed is not None and not other.type.shape and other.type.kind != "bytes":
            return (typed, other) if json is left else (other, typed)
    if "text" in kinds:
        texts = as_text(left), as_text(right)
        if texts[0] is not None and texts[1] is not None:
            return texts[0], texts[1]
    if kinds == {"bytes"} or not kinds & {"text", "bytes", "json"}:
        return left, right
    raise site.fail(
        f"cannot compare {show(left)} ({describe(left.type)}) "
        f"with {show(right)} ({describe(right.type)})"
    )


def _has_classes(one: Bound) -> bool:
    """Whether values are classes: labels, or the codes of a mask that has names."""
    return one.type.kind == "label" or one.type.class_names is not None


def _recoded(left: Bound, right: Bound) -> Bound:
    """Return the labels of `right` as codes of `left`; a name unknown there gets an unused code."""
    left_names, right_names = left.type.names or (), right.type.names or ()
    code_of = {name: code for code, name in enumerate(left_names)}
    table = np.array(
        [code_of.get(name, -2 - code) for code, name in enumerate(right_names)] + [-1], np.int64
    )
    shape = right.type.shape

    def recode(codes: AnyArray) -> AnyArray:
        codes = codes.astype(np.int64)
        return table[np.where((codes >= 0) & (codes < len(right_names)), codes, len(right_names))]

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return elementwise(recode, vectors, shape)

    return converted(
        right, kernel, replace(right.type, dtype="int64", names=left.type.names), cost=2.0
    )


def _common_shape(site: Site, args: Sequence[Bound]) -> tuple[int | None, ...]:
    shape: tuple[int | None, ...] = ()
    for arg in args:
        combined = broadcast(shape, arg.type.shape)
        if combined is None:
            shown = " and ".join(f"{show(each)} {each.type.shape}" for each in args)
            raise site.fail(f"shapes do not fit together: {shown}")
        shape = combined
    return shape


def _cast_constant(value: Constant, target: np.dtype[np.generic]) -> Constant:
    given = np.asarray(value.value, value.type.dtype)
    if given.dtype.kind == "b" or target.kind == "b":
        return value
    if given.dtype.kind in "iu" and target.kind in "iu":
        limits = np.iinfo(target.name)
        if given.size and (int(given.min()) < limits.min or int(given.max()) > limits.max):
            return value
    elif given.dtype.kind == "f" and target.kind in "iu":
        return value
    with np.errstate(all="ignore"):
        return structs.replace(
            value, value=given.astype(target), type=replace(value.type, dtype=target.name)
        )


def _arithmetic_input(given: Sequence[np.dtype[np.generic]]) -> Sequence[np.dtype[np.generic]]:
    """Count booleans as 0 and 1."""
    return [np.dtype(np.int64) if dtype.kind == "b" else dtype for dtype in given]


def _power_input(given: Sequence[np.dtype[np.generic]]) -> Sequence[np.dtype[np.generic]]:
    """Compute powers of integers in float64: NumPy refuses negative integer exponents."""
    if all(dtype.kind in "biu" for dtype in given):
        return [np.dtype(np.float64)] * len(given)
    return _arithmetic_input(given)


def _bind_concat(site: Site) -> Bound:
    args = [required_text(site, arg) for arg in site.args]

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        texts = (python_values(vector.values) for vector in vectors)
        return UniformBatch(made_texts(add, *texts, longest=add, exact=_joined_length))

    column_type = replace(TEXT, nullable=any(arg.type.nullable for arg in args))
    return site.apply(kernel, column_type, args=args, cost=TEXT_COST)


def _joined_length(left: str, right: str) -> int:
    return len(left) + len(right)


def _kleene(*, decides: bool) -> Callable[[Sequence[Vector], int], Vector]:
    """AND is decided by one FALSE, OR by one TRUE; otherwise a NULL leaves it not known."""

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        decided = np.zeros(num_rows, np.bool_)
        unknown = np.zeros(num_rows, np.bool_)
        for vector in vectors:
            says = vector.values == decides
            if vector.valid is not None:
                says = says & vector.valid
                unknown |= ~vector.valid
            decided |= says
        valid = ~unknown | decided
        return UniformBatch(decided if decides else ~decided, None if valid.all() else valid)

    return kernel
