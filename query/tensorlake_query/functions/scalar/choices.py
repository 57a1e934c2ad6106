"""Choosing among values: NULLIF, GREATEST, LEAST.

GREATEST and LEAST skip NULLs, as MAX and MIN do, and NaN unless there is nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.conditional import unified
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.source import AnyArray, BoolArray, UniformBatch
from tensorlake_query.values.types import describe
from tensorlake_query.values.vectors import Vector, valid_of

MAX_ARGUMENTS = 64


def _bind_nullif(site: Site) -> Bound:
    """Bind `CASE WHEN a = b THEN NULL ELSE a END`."""
    left, right = tuple(ast.operands(site.syntax))
    span = site.syntax.span
    equal = ast.Compare("=", left, right, span=span)
    null = ast.Literal(None, span=span)
    return site.bind(ast.Case(None, (ast.When(equal, null, span=span),), left, span=span))


def _bind_extreme(*, is_least: bool) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        args, column_type = unified(site, site.args)
        if column_type.shape or column_type.kind in {"json", "bytes", "label"}:
            shown = f"{show(args[0])} is {describe(column_type)}"
            raise site.fail(
                f"single numbers, times or texts are compared, and {shown}",
                hint="use ARRAY_MAX or ARRAY_MIN for the elements of an array",
            )
        column_type = replace(column_type, nullable=all(arg.type.nullable for arg in args))

        def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
            dtype = object if column_type.dtype is None else column_type.dtype
            best = np.full(num_rows, "" if dtype is object else 0, dtype)
            known = np.zeros(num_rows, np.bool_)
            for vector in vectors:
                values = np.asarray(vector.values).astype(dtype, copy=False)
                valid = valid_of(vector)
                takes = valid & (~known | _is_better(values, best, is_least=is_least))
                best[takes] = values[takes]
                known |= valid
            return UniformBatch(best, None if known.all() else known)

        return site.apply(kernel, column_type, args=args, strict=False, cost=2.0 * len(args))

    return bind


def _is_better(values: AnyArray, best: AnyArray, *, is_least: bool) -> BoolArray:
    compare = np.less if is_least else np.greater
    better = np.asarray(compare(values, best), np.bool_)
    return better | (np.isnan(best) & ~np.isnan(values)) if values.dtype.kind == "f" else better


FUNCTIONS = (
    Function("NULLIF", "NULLIF(a, b)", "NULL where a equals b, otherwise a.", (2, 2), _bind_nullif),
    Function(
        "GREATEST",
        "GREATEST(x, …)",
        "The largest of several values that are not NULL.",
        (1, MAX_ARGUMENTS),
        _bind_extreme(is_least=False),
    ),
    Function(
        "LEAST",
        "LEAST(x, …)",
        "The smallest of several values that are not NULL.",
        (1, MAX_ARGUMENTS),
        _bind_extreme(is_least=True),
    ),
)
