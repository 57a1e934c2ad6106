"""Conversions the binder inserts: to numbers, text and booleans.

JSON values have no type before they are read, so each place that uses one states the type that it
needs; a value of another type is NULL there. Class labels are their codes among numbers and
their names among text.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.printer import print_expr
from tensorlake_query.values.bound import Apply, Bound, Constant, Kernel, show
from tensorlake_query.values.source import AnyArray, ColumnType, UniformBatch
from tensorlake_query.values.types import BOOL, FLOAT, TEXT, is_numeric
from tensorlake_query.values.vectors import Vector, elementwise, object_array, python_values

JSON_COST = 40.0  # a Python object looked at, against one arithmetic operation on an array element

MAX_INT_BITS = 1000  # a JSON integer beyond float64 is not a number here


def as_number(expr: Bound) -> Bound | None:
    """Return the expression as numbers, or None where it cannot be."""
    if is_numeric(expr.type):
        return expr
    if isinstance(expr, Constant) and expr.value is None:
        return Constant(None, replace(FLOAT, nullable=True), expr.syntax)
    if expr.type.kind == "json":
        return converted(expr, _json_kernel(_is_number, np.float64), replace(FLOAT, nullable=True))
    return None


def as_text(expr: Bound) -> Bound | None:
    """Return the expression as text, or None where it cannot be."""
    if expr.type.kind == "text":
        return expr
    if isinstance(expr, Constant) and expr.value is None:
        return Constant(None, replace(TEXT, nullable=True), expr.syntax)
    if expr.type.kind == "json":
        return converted(expr, _json_kernel(_is_text, np.object_), replace(TEXT, nullable=True))
    if expr.type.kind == "label" and expr.type.names is not None and not expr.type.shape:
        names = expr.type.names
        return converted(expr, _name_kernel(names), replace(TEXT, nullable=True))
    return None


def as_condition(expr: Bound) -> Bound | None:
    """Return the expression as booleans (a number: is it not 0), or None if it cannot be one.

    A class label cannot: its code is not 0 for every class but the first.
    """
    if expr.type.kind == "bool":
        return expr
    if expr.type.kind == "label":
        return None
    if isinstance(expr, Constant) and expr.value is None:
        return Constant(None, replace(BOOL, nullable=True), expr.syntax)
    if is_numeric(expr.type) and expr.type.timestamp_unit is None:
        shape = expr.type.shape

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return elementwise(_is_not_zero, vectors, shape)

        return converted(expr, kernel, replace(BOOL, shape=shape, nullable=expr.type.nullable))
    if expr.type.kind == "json":
        return converted(expr, _json_kernel(_is_bool, np.bool_), replace(BOOL, nullable=True))
    return None


def condition_hint(expr: Bound, *, each: bool = False) -> str:
    """Return how to write a condition of class labels; nothing for other expressions.

    Args:
        expr: The labels.
        each: Whether a condition of each label of an array is accepted.
    """
    if expr.type.kind != "label":
        return ""
    shown = show(expr)
    names = [name for name in expr.type.names or () if name]  # "" was dropped
    if not names:
        return f"write {shown} != 0 for a condition of its code"
    name = print_expr(ast.Literal(names[0]))
    if expr.type.shape and not each:
        return f"write CONTAINS({shown}, {name})"
    return f"write {shown} = {name}, or {shown} != 0 for its code"


def is_null(expr: Bound) -> bool:
    """Tell whether an expression is the NULL literal."""
    return isinstance(expr, Constant) and expr.value is None


def is_text_constant(expr: Bound) -> bool:
    """Tell whether an expression is a known text."""
    return isinstance(expr, Constant) and isinstance(expr.value, str)


def encoded_constant(expr: Bound) -> bytes | None:
    """Return a known text as UTF-8; of half a surrogate pair, as no stored text has it."""
    value = expr.value if isinstance(expr, Constant) else None
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None


def converted(
    expr: Bound, kernel: Kernel, column_type: ColumnType, *, cost: float = JSON_COST
) -> Bound:
    """Return a conversion, which plans do not show."""
    return Apply(kernel, (expr,), column_type, None, cost=cost)


def _is_not_zero(values: AnyArray) -> AnyArray:
    return values != 0


def _is_number(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() < MAX_INT_BITS
    return isinstance(value, float)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _json_kernel(fits: Callable[[object], bool], dtype: type[np.generic]) -> Kernel:
    fill: object = "" if dtype is np.object_ else 0

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        objects = python_values(vectors[0].values)
        valid = np.fromiter(map(fits, objects), np.bool_, len(objects))
        chosen = [item if ok else fill for item, ok in zip(objects, valid, strict=True)]
        values = object_array(chosen) if dtype is np.object_ else np.array(chosen, dtype)
        return UniformBatch(values, valid)

    return kernel


def _name_kernel(names: tuple[str, ...]) -> Kernel:
    table = object_array([*names, ""])

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        codes = vectors[0].values.astype(np.int64)
        known = (codes >= 0) & (codes < len(names))
        return UniformBatch(table[np.where(known, codes, len(names))], known)

    return kernel
