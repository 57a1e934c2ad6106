"""Class codes compared as they are kept: a byte each for 256 classes, in place of eight."""

from collections.abc import Sequence

import numpy as np
from msgspec import structs

from tensorlake_query import ast
from tensorlake_query.bound import Apply, Bound, CodesRef, ColumnRef, Constant, Kernel
from tensorlake_query.functions.operators import COMPARISONS
from tensorlake_query.plan import Filter, Plan, rewritten
from tensorlake_query.source import UniformBatch
from tensorlake_query.vectors import Vector


def compare_codes(plan: Plan) -> Plan:
    """Let filters compare the codes of label columns without widening them."""
    return rewritten(
        plan,
        lambda step: (
            structs.replace(step, predicate=_narrowed(step.predicate))
            if isinstance(step, Filter)
            else step
        ),
    )


def _narrowed(expr: Bound) -> Bound:
    if not isinstance(expr, Apply):
        return expr
    if expr.role in {"in", "not in"} and all(map(_is_code, expr.args[1:])):
        operand, *codes = expr.args
        return structs.replace(expr, args=(_codes_of(operand), *codes))
    if expr.role == "compare":
        return _compared(expr)
    return structs.replace(expr, args=tuple(map(_narrowed, expr.args)))


def _compared(expr: Apply) -> Apply:
    args = tuple(map(_codes_of, expr.args))
    is_column = [isinstance(arg, CodesRef) for arg in args]
    other = args[is_column.index(False)] if is_column.count(True) == 1 else None
    if other is None or not _is_code(other) or not isinstance(expr.syntax, ast.Compare):
        return expr
    assert isinstance(other, Constant), "_is_code looked"
    kernel = _kernel(expr.syntax.op, other, column_first=is_column[0])
    return structs.replace(expr, args=args, kernel=kernel)


def _kernel(op: ast.CompareOp, constant: Constant, *, column_first: bool) -> Kernel:
    # NumPy compares an array of any width with a Python number as it is
    compare, code = COMPARISONS[op], int(np.asarray(constant.value))

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        if column_first:
            return UniformBatch(compare(vectors[0].values, code))
        return UniformBatch(compare(code, vectors[1].values))

    return kernel


def _codes_of(expr: Bound) -> Bound:
    if isinstance(expr, ColumnRef) and expr.type.kind == "label" and not expr.type.shape:
        return CodesRef(expr.name, expr.type, expr.syntax)
    return expr


def _is_code(expr: Bound) -> bool:
    """Tell whether an expression is a known whole number."""
    return (
        isinstance(expr, Constant)
        and expr.value is not None
        and not expr.type.shape
        and np.asarray(expr.value).dtype.kind in "iu"
    )
