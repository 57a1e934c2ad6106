"""Across rows: COUNT, SUM, AVG, MIN, MAX, over all rows or over each group.

NULLs do not count. Of no value at all COUNT is 0 and the others are NULL. SUM of integers is int64
(uint64), of floats float64; AVG is float64; MIN and MAX keep the type, and skip NaN unless there is
nothing else. Arrays are refused: what is within a sample belongs to ARRAY_SUM and its siblings.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tensorlake_query import ast
from tensorlake_query.bound import Bound, show
from tensorlake_query.functions.operators import presence_of, required_number
from tensorlake_query.functions.registry import Site
from tensorlake_query.source import AnyArray, ColumnType, IntArray, UniformBatch
from tensorlake_query.types import INT, describe, number
from tensorlake_query.vectors import Vector, valid_of

# (values of the rows or None, group of each row, number of groups) → one value a group
Compute = Callable[[Vector | None, IntArray, int], Vector]

WITHIN_SAMPLE = {"SUM": "ARRAY_SUM", "AVG": "ARRAY_MEAN", "MIN": "ARRAY_MIN", "MAX": "ARRAY_MAX"}
AGGREGATES = frozenset({"COUNT", *WITHIN_SAMPLE})


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of a query; `argument` None is `COUNT(*)`."""

    argument: Bound | None
    compute: Compute
    type: ColumnType
    syntax: ast.Call


def bind_aggregate(site: Site, syntax: ast.Call) -> AggregateCall:
    """Bind an aggregate function; the site's arguments are its operands (none for `*`)."""
    is_star = any(isinstance(arg, ast.Star) for arg in syntax.args)
    if len(syntax.args) != 1 or syntax.named or (is_star and syntax.name != "COUNT"):
        usage = "COUNT(*) or COUNT(x)" if syntax.name == "COUNT" else f"{syntax.name}(x)"
        raise site.fail(f"{syntax.name} takes one argument", hint=f"write {usage}")
    if syntax.name == "COUNT":
        counts_all = is_star or not site.args[0].type.nullable
        return AggregateCall(None if counts_all else presence_of(site.args[0]), _count, INT, syntax)
    argument = site.args[0]
    if argument.type.shape:
        within = WITHIN_SAMPLE[syntax.name]
        raise site.fail(
            f"{show(argument)} is {describe(argument.type)}; "
            f"{syntax.name} goes across rows, one value each",
            hint=f"write {within}({show(argument)}) for the array of each row",
        )
    if syntax.name in {"MIN", "MAX"}:
        return _bind_extreme(site, argument, syntax)
    argument = required_number(site, argument)
    if syntax.name == "AVG":
        return AggregateCall(argument, _average, number("float64", nullable=True), syntax)
    kind = np.dtype(argument.type.dtype).kind
    dtype = np.dtype({"f": np.float64, "u": np.uint64}.get(kind, np.int64))

    def total(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        values, groups = _present(vector, groups)
        sums = np.zeros(num_groups, dtype)
        np.add.at(sums, groups, values.astype(dtype, copy=False))
        return UniformBatch(sums, np.bincount(groups, minlength=num_groups) > 0)

    return AggregateCall(argument, total, number(dtype, nullable=True), syntax)


def _count(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
    if vector is not None and vector.valid is not None:
        groups = groups[vector.valid]
    return UniformBatch(np.bincount(groups, minlength=num_groups).astype(np.int64))


def _average(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
    values, groups = _present(vector, groups)
    counts = np.bincount(groups, minlength=num_groups)
    sums = np.bincount(groups, values.astype(np.float64), num_groups)
    return UniformBatch(sums / np.maximum(counts, 1), counts > 0)


def _bind_extreme(site: Site, argument: Bound, syntax: ast.Call) -> AggregateCall:
    if argument.type.kind in {"json", "bytes"}:
        raise site.fail(
            f"{show(argument)} is {describe(argument.type)} and has no order",
            hint=f"write {syntax.name}(CAST({show(argument)} AS FLOAT))",
        )
    is_min = syntax.name == "MIN"

    def extreme(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        values, groups = _present(vector, groups)
        present = np.bincount(groups, minlength=num_groups) > 0
        if values.dtype == object:
            return UniformBatch(_extreme_text(values, groups, num_groups, is_min=is_min), present)
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.flatnonzero(present))
        result = np.zeros(num_groups, values.dtype)
        if len(values):
            ufunc = _extreme_ufunc(values.dtype, is_min=is_min)
            result[present] = ufunc.reduceat(values[order], starts)
        return UniformBatch(result, present)

    return AggregateCall(argument, extreme, replace(argument.type, nullable=True), syntax)


def _extreme_ufunc(dtype: np.dtype[np.generic], *, is_min: bool) -> np.ufunc:
    if dtype.kind == "f":
        return np.fmin if is_min else np.fmax
    return np.minimum if is_min else np.maximum


def _extreme_text(values: AnyArray, groups: IntArray, num_groups: int, *, is_min: bool) -> AnyArray:
    result = np.full(num_groups, "", object)
    distinct, ranks = np.unique(values, return_inverse=True)
    if len(distinct):
        best = np.full(num_groups, len(distinct) - 1 if is_min else 0, np.int64)
        (np.minimum if is_min else np.maximum).at(best, groups, ranks)
        result[:] = distinct[best]
    return result


def _present(vector: Vector | None, groups: IntArray) -> tuple[AnyArray, IntArray]:
    """Return the values that are not NULL, and their groups."""
    assert vector is not None, "only COUNT(*) has no argument"
    if vector.valid is None:
        return vector.values, groups
    valid = valid_of(vector)
    return vector.values[valid], groups[valid]
