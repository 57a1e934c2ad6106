"""Across rows: COUNT, SUM, AVG, MIN, MAX, FIRST, ANY_VALUE, ARRAY_AGG, over all rows or a group's.

NULLs do not count. Without any value COUNT is 0 and the others are NULL. SUM of integers is int64
(uint64), exact or an error, of floats float64; AVG is float64, of integers rounded once, and so are
VAR and STD, of the population as NumPy's are, and STDDEV, of a sample as SQL's is: NULL of one
value. MIN and MAX keep the type, and skip NaN unless there is nothing else. FIRST is the group's
first sample, also a NULL, ANY_VALUE the first non-NULL; both take anything, the others refuse
arrays: ARRAY_SUM and its kin aggregate within a sample.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import Struct, structs

from tensorlake_query.functions.aggregate.accumulators import (
    Accumulator,
    Counts,
    Extremes,
    IntegerSums,
    RowGroups,
    Spreads,
    Sums,
)
from tensorlake_query.functions.aggregate.distributions import bind_distribution, present
from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.scalar.dates import not_moment
from tensorlake_query.functions.scalar.operators import presence_of, required_number
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.syntax.printer import print_expr
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.group_keys import (
    DENSE_MIN,
    by_group,
    codes_of,
    group_rows,
    is_scattered,
    num_distinct,
    sizes_of,
)
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import (
    AnyArray,
    BoolArray,
    ColumnType,
    IntArray,
    RaggedBatch,
    UniformBatch,
)
from tensorlake_query.values.stacks import stacked_type
from tensorlake_query.values.texts import ranked_texts, texts_of
from tensorlake_query.values.types import FLOAT, INT, describe, number
from tensorlake_query.values.vectors import Vector, constant, object_array, slice_of, take, valid_of

# (values of the rows or None, group of each row, number of groups) → one value a group
Compute = Callable[[Vector | None, IntArray, int], Vector]

ADDED_ROWS = 1 << 20  # at once: NumPy's `bincount` and `at` let no other thread run meanwhile
SPARSE = 8  # places of a table of what each group has, a byte each, for each row
WITHIN_SAMPLE = {
    "SUM": "ARRAY_SUM", "AVG": "ARRAY_MEAN", "MIN": "ARRAY_MIN", "MAX": "ARRAY_MAX",
    "STD": "ARRAY_STD",
}  # fmt: skip
PLAIN = ("VAR", "STDDEV", "MEDIAN", "FIRST", "ANY_VALUE", "ARRAY_AGG")
USAGES = {
    "COUNT": "COUNT(*), COUNT(x) or COUNT(DISTINCT x)",
    "QUANTILE": "QUANTILE(x, 0.9)",
    "HISTOGRAM": "HISTOGRAM(x, bins) or HISTOGRAM(x, bins, low, high)",
    **{name: f"{name}(x)" for name in (*WITHIN_SAMPLE, *PLAIN)},
}
SPREADS = {"VAR": (False, False), "STD": (True, False), "STDDEV": (True, True)}  # root, of a sample
AGGREGATES = frozenset(USAGES)
_ARGUMENTS = {"QUANTILE": {2}, "HISTOGRAM": {2, 4}}


class AggregateCall(Struct, frozen=True):
    """One aggregate of a query; `argument` None is `COUNT(*)`.

    `accumulate` begins one that is made batch by batch; None where it looks at all rows at once.
    """

    argument: Bound | None
    compute: Compute
    type: ColumnType
    syntax: ast.Call
    accumulate: Callable[[], Accumulator] | None = None


def is_aggregate(node: ast.Node) -> bool:
    """Tell whether a call goes across rows; with `axis =>` it stays within a sample."""
    return (
        isinstance(node, ast.Call)
        and node.name in AGGREGATES
        and node.over is None
        and not (node.named and node.name in WITHIN_SAMPLE)
    )


def bind_aggregate(site: Site, syntax: ast.Call) -> AggregateCall:
    """Bind an aggregate function; the site's arguments are its operands (none for `*`)."""
    name = syntax.name
    is_star = any(isinstance(arg, ast.Star) for arg in syntax.args)
    fits = len(syntax.args) in _ARGUMENTS.get(name, {1})
    if not fits or syntax.named or (is_star and (name != "COUNT" or syntax.distinct)):
        takes = "one argument" if name not in _ARGUMENTS else "a column and numbers"
        raise site.fail(f"{name} takes {takes}", hint=f"write {USAGES[name]}")
    if syntax.distinct and name == "COUNT":
        return AggregateCall(site.args[0], _count_distinct, INT, syntax)
    if syntax.distinct:
        call = bind_aggregate(site, ast.with_fields(syntax, distinct=False))
        compute = _of_distinct(call.compute)
        return structs.replace(call, compute=compute, syntax=syntax, accumulate=None)
    if name == "COUNT":
        counts_all = is_star or not site.args[0].type.nullable
        present_in = None if counts_all else presence_of(site.args[0])
        return AggregateCall(present_in, _count, INT, syntax, Counts)
    argument = site.args[0]
    if name == "ARRAY_AGG":
        return _bind_collected(site, argument, syntax)
    if name in {"FIRST", "ANY_VALUE"}:
        return _bind_first(argument, syntax)
    if argument.type.shape:
        within = WITHIN_SAMPLE.get(name)
        raise site.fail(
            f"{show(argument)} is {describe(argument.type)}; {name} goes across rows, "
            "one value each",
            hint=f"write {within}({show(argument)}) for the array of each row" if within else "",
        )
    if name in {"MIN", "MAX"}:
        return _bind_extreme(site, argument, syntax)
    if name in SPREADS:
        is_root, is_of_sample = SPREADS[name]
        made = partial(Spreads, is_root=is_root, is_of_sample=is_of_sample)
        return _accumulated(required_number(site, argument), FLOAT, syntax, made)
    if name not in {"SUM", "AVG"}:
        compute, column_type = bind_distribution(site, name)
        argument = required_number(site, argument)
        return AggregateCall(argument, compute, column_type, syntax)
    argument = required_number(site, not_moment(site, argument) if name == "SUM" else argument)
    kind = np.dtype(argument.type.dtype).kind
    if kind == "f":
        return _accumulated(argument, FLOAT, syntax, partial(Sums, is_mean=name == "AVG"))
    if name == "AVG":
        return _accumulated(argument, FLOAT, syntax, partial(IntegerSums, np.dtype(np.int64)))
    dtype = np.dtype(np.uint64 if kind == "u" else np.int64)

    def overflow() -> QueryTypeError:
        written = show(argument)
        return site.fail(
            f"{print_expr(syntax)} is beyond {dtype.name}",
            hint=f"write SUM(CAST({written} AS FLOAT)), which rounds",
        )

    sums = partial(IntegerSums, dtype, overflow)
    return _accumulated(argument, number(dtype), syntax, sums)


def _accumulated(
    argument: Bound,
    column_type: ColumnType,
    syntax: ast.Call,
    accumulate: Callable[[], Accumulator],
) -> AggregateCall:
    """Return an aggregate that is its accumulator, also of all rows at once."""

    def at_once(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        accumulator = accumulate()
        step = max(ADDED_ROWS, num_groups)
        for start in range(0, max(len(groups), 1), step):
            some = RowGroups(groups[start : start + step], num_groups)
            part = None if vector is None else slice_of(vector, start, start + step)
            accumulator.add(part, some)
        return accumulator.result()

    column_type = replace(column_type, nullable=True)
    return AggregateCall(argument, at_once, column_type, syntax, accumulate)


def _bind_first(argument: Bound, syntax: ast.Call) -> AggregateCall:
    column_type = replace(argument.type, nullable=True)
    skips_null = syntax.name == "ANY_VALUE"

    def first(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        assert vector is not None, "FIRST has an argument"
        rows = np.arange(len(groups))
        if skips_null and vector.valid is not None:
            rows, groups = rows[vector.valid], groups[vector.valid]
        if not len(rows):
            return constant(None, column_type, num_groups)
        found, where = np.unique(groups, return_index=True)
        firsts = np.full(num_groups, rows[where[0]])
        firsts[found] = rows[where]
        chosen = take(vector, firsts)
        valid = np.zeros(num_groups, np.bool_)
        valid[found] = valid_of(chosen)[found]
        return replace(chosen, valid=valid)

    return AggregateCall(argument, first, column_type, syntax)


def _bind_collected(site: Site, argument: Bound, syntax: ast.Call) -> AggregateCall:
    """Bind ARRAY_AGG: the values of each group that are not NULL, in the order of their rows."""
    if argument.type.shape:
        raise site.fail(
            f"{show(argument)} is {describe(argument.type)}; ARRAY_AGG collects single values",
            hint=f"write SELECT {show(argument)} GROUP BY …, which stacks arrays of one shape",
        )
    column_type = replace(stacked_type(argument.type), nullable=True)

    def collected(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        assert vector is not None, "ARRAY_AGG has an argument"
        rows = None if vector.valid is None else np.flatnonzero(vector.valid)
        groups = groups if rows is None else groups[rows]
        counts = sizes_of(groups, num_groups)
        order = by_group(groups, num_groups)
        samples = take(vector, order if rows is None else rows[order])
        if argument.type.dtype is not None:
            return RaggedBatch(samples.values, counts[:, None], _unless_all(counts > 0))
        stops = np.cumsum(counts)
        values = samples.values.tolist()
        runs = zip((stops - counts).tolist(), stops.tolist(), strict=True)
        lists = object_array([values[start:stop] for start, stop in runs])
        return UniformBatch(lists, _unless_all(counts > 0))

    return AggregateCall(argument, collected, column_type, syntax)


def _unless_all(valid: BoolArray) -> BoolArray | None:
    return None if valid.all() else valid


def _of_distinct(compute: Compute) -> Compute:
    """Return an aggregate of each group's distinct values: the first row of each counts."""

    def of_distinct(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        assert vector is not None, "DISTINCT has an argument"
        first = group_rows((UniformBatch(groups), vector), len(groups)).first
        return compute(take(vector, first), groups[first], num_groups)

    return of_distinct


def _count_distinct(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
    assert vector is not None, "COUNT(DISTINCT x) has an argument"
    if num_groups == 1 and isinstance(vector, UniformBatch) and is_scattered(vector.values):
        return UniformBatch(np.array([num_distinct(present(vector, groups)[0])]))
    codes, count, _ = codes_of(vector)
    groups, codes = (
        (groups, codes) if vector.valid is None else (groups[vector.valid], codes[vector.valid])
    )
    if num_groups * count <= max(len(codes) * SPARSE, DENSE_MIN):
        charge(num_groups * count)
        is_there = np.zeros((num_groups, count), np.bool_)
        is_there.reshape(-1)[groups * count + codes if num_groups > 1 else codes] = True
        return UniformBatch(np.count_nonzero(is_there, axis=1))
    first = group_rows((UniformBatch(groups * count + codes),), len(codes)).first
    return UniformBatch(sizes_of(groups[first], num_groups))


def _count(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
    if vector is not None and vector.valid is not None:
        groups = groups[vector.valid]
    return UniformBatch(sizes_of(groups, num_groups))


def _bind_extreme(site: Site, argument: Bound, syntax: ast.Call) -> AggregateCall:
    if argument.type.kind in {"json", "bytes"}:
        raise site.fail(
            f"{show(argument)} is {describe(argument.type)} and has no order",
            hint=f"write {syntax.name}(CAST({show(argument)} AS FLOAT))",
        )
    is_min = syntax.name == "MIN"

    def extreme(vector: Vector | None, groups: IntArray, num_groups: int) -> Vector:
        values, groups = present(vector, groups)
        is_filled = sizes_of(groups, num_groups) > 0
        if values.dtype == object:
            return UniformBatch(_extreme_text(values, groups, num_groups, is_min=is_min), is_filled)
        order = by_group(groups, num_groups)
        starts = np.searchsorted(groups[order], np.flatnonzero(is_filled))
        result = np.zeros(num_groups, values.dtype)
        if len(values):
            ufunc = extreme_ufunc(values.dtype, is_min=is_min)
            result[is_filled] = ufunc.reduceat(values[order], starts)
        return UniformBatch(result, is_filled)

    accumulate = None
    if argument.type.dtype is not None:
        dtype = np.dtype(argument.type.dtype)
        accumulate = partial(Extremes, dtype, extreme_ufunc(dtype, is_min=is_min))
    column_type = replace(argument.type, nullable=True)
    return AggregateCall(argument, extreme, column_type, syntax, accumulate)


def extreme_ufunc(dtype: np.dtype[np.generic], *, is_min: bool) -> np.ufunc:
    """Return what gives the smaller (or larger) of two; a number wins over NaN."""
    if dtype.kind == "f":
        return np.fmin if is_min else np.fmax
    return np.minimum if is_min else np.maximum


def _extreme_text(values: AnyArray, groups: IntArray, num_groups: int, *, is_min: bool) -> AnyArray:
    result = np.full(num_groups, "", object)
    texts = texts_of(values)
    if texts is not None:
        ranks, known = ranked_texts(texts)
        distinct = object_array(known)
    else:
        distinct, ranks = np.unique(values, return_inverse=True)
    if len(distinct):
        best = np.full(num_groups, len(distinct) - 1 if is_min else 0, np.int64)
        (np.minimum if is_min else np.maximum).at(best, groups, ranks)
        result[:] = distinct[best]
    return result
