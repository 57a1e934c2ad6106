"""Rows that can match at all, derived from zone maps alone.

`candidate_ranges` turns a condition and the source's statistics into half-open row ranges outside
of which the condition cannot be true. It only ever errs by keeping too much: a column without
statistics, a zone without bounds, or a form it does not know keeps everything.

`best_first` orders the zones of a top-k by what they may have: those that come after the rows found
are beyond its bound, and are not read.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from tensorlake_query.functions.scalar.membership import Values
from tensorlake_query.planning.plan import Filter, Plan, Scan, TopK, chain
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Apply, Bound, ColumnRef, Constant
from tensorlake_query.values.source import (
    AnyArray,
    BoolArray,
    ColumnSource,
    ColumnStatistics,
    IntArray,
)

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_Bounds = tuple[AnyArray, AnyArray]


class ZonesByBound:
    """Zones of the first key of an order, and the best value that a row in each may have."""

    def __init__(self, starts: IntArray, best: AnyArray, may_lead: BoolArray, sign: int) -> None:
        self._starts = starts
        self._best = best
        self._may_lead = may_lead  # NULLs first, NaN, or unknown bounds
        self._sign = sign

    def ordered(self, ranges: IntArray) -> IntArray:
        """Return ranges of rows cut at the zones, the best zone first."""
        edges = np.unique(np.concatenate([self._starts, ranges.reshape(-1)]))
        is_inside = np.zeros(len(edges) - 1, np.bool_)
        for first, last in np.searchsorted(edges, ranges).tolist():
            is_inside[first:last] = True
        pieces = np.stack([edges[:-1], edges[1:]], axis=1)[is_inside]
        places = np.empty(len(self._best), np.int64)
        places[np.argsort(self._best, kind="stable")] = np.arange(len(places))
        zones = self._zones(pieces[:, 0])
        order = np.lexsort((-self._sign * places[zones], ~self._may_lead[zones]))
        return pieces[order]

    def is_beyond(self, row: int, bound: AnyArray) -> bool:
        """Tell whether no row of the zone of a row reaches a bound."""
        zone = int(self._zones(np.array([row]))[0])
        if self._may_lead[zone]:
            return False
        best = self._best[zone]
        return bool(best < bound if self._sign > 0 else best > bound)

    def _zones(self, rows: IntArray) -> IntArray:
        return np.searchsorted(self._starts, rows, "right") - 1


def best_first(plan: Plan, source: ColumnSource) -> ZonesByBound | None:
    """Return the zones of the column that a top-k of a scan is ordered by; None if unknown."""
    if not isinstance(plan, TopK) or not isinstance(plan.keys[0].expr, ColumnRef):
        return None
    *steps, scan = chain(plan.input)
    key, column = plan.keys[0], plan.keys[0].expr
    is_plain = isinstance(scan, Scan) and all(isinstance(step, Filter) for step in steps)
    if not is_plain or column.type.shape or column.type.dtype is None:
        return None
    statistics = source.statistics(column.name)
    if statistics is None or not len(statistics.minimum):
        return None
    best = statistics.maximum if key.descending else statistics.minimum
    if best.dtype.kind not in "iuf":
        return None
    may_lead = ~statistics.known
    if best.dtype.kind == "f":
        may_lead |= np.isnan(best)
    if key.nulls_first:
        may_lead |= statistics.null_count > 0
    return ZonesByBound(statistics.starts, best, may_lead, 1 if key.descending else -1)


def is_prunable(expr: Bound) -> bool:
    """Tell whether zone maps could say anything about a condition."""
    if not isinstance(expr, Apply):
        return False
    match expr.role:
        case "and":
            return any(map(is_prunable, expr.args))
        case "or":
            return all(map(is_prunable, expr.args))
        case "any":
            return comparison(expr.args[0]) is not None
        case "compare":
            return comparison(expr) is not None and not expr.type.shape
        case "in":
            operand, *items = expr.args
            return isinstance(operand, ColumnRef) and all(
                isinstance(item, Constant) for item in items
            )
        case "is null" | "is not null":
            return isinstance(expr.args[0], ColumnRef)
        case "not":
            return _is_refutable(expr.args[0])
        case _:
            return False


def _is_refutable(expr: Bound) -> bool:
    """Tell whether zone maps could say where a condition is not false."""
    if not isinstance(expr, Apply):
        return False
    match expr.role:
        case "and":
            return all(map(_is_refutable, expr.args))
        case "or":
            return any(map(_is_refutable, expr.args))
        case "not":
            return is_prunable(expr.args[0])
        case "compare":
            return comparison(expr) is not None and not expr.type.shape
        case _:
            return False


def candidate_ranges(conditions: Iterable[Bound], source: ColumnSource) -> IntArray:
    """Return the row ranges, (k, 2) and in order, where all conditions could be true."""
    ranges = _everything(source)
    for condition in conditions:
        found = _ranges(condition, source)
        if found is not None:
            ranges = intersected(ranges, found)
    return ranges


def intersected(a: IntArray, b: IntArray) -> IntArray:
    """Return the rows that lie in both of two lists of ranges."""
    return _combined(a, b, needed=2)


def united(a: IntArray, b: IntArray) -> IntArray:
    """Return the rows that lie in either of two lists of ranges."""
    return _combined(a, b, needed=1)


def _combined(a: IntArray, b: IntArray, *, needed: int) -> IntArray:
    edges = np.concatenate([a[:, 0], b[:, 0], a[:, 1], b[:, 1]])
    steps = np.repeat([1, -1], len(a) + len(b))
    order = np.lexsort((-steps, edges))
    depth = np.cumsum(steps[order])
    edges = edges[order]
    inside = depth >= needed
    starts = edges[inside & ~np.concatenate([[False], inside[:-1]])]
    stops = edges[~inside & np.concatenate([[False], inside[:-1]])]
    ranges = np.stack([starts, stops], axis=1)
    return ranges[ranges[:, 1] > ranges[:, 0]]


def _everything(source: ColumnSource) -> IntArray:
    return np.array([[0, source.num_rows]], np.int64)[: 1 if source.num_rows else 0]


def _ranges(expr: Bound, source: ColumnSource) -> IntArray | None:
    """Return where a condition could be true; None where nothing is known."""
    if not isinstance(expr, Apply) or not is_prunable(expr):
        return None
    if expr.role in {"and", "or"}:
        return _logic(expr, source)
    if expr.role == "not":
        return _refuted(expr.args[0], source)
    if expr.role in {"compare", "any"}:
        found = comparison(expr.args[0] if expr.role == "any" else expr)
        assert found is not None, "is_prunable looked"
        column, op, value = found
        return _zone_ranges(source, column, lambda bounds: _could(op, bounds, value))
    operand = expr.args[0]
    assert isinstance(operand, ColumnRef), "is_prunable looked"
    if expr.role == "in":
        values: list[Any] = []
        for item in expr.args[1:]:
            value = item.value if isinstance(item, Constant) else None
            if isinstance(value, Values):
                values += value.array.tolist()
            elif value is not None:
                values.append(value)
        return _zone_ranges(source, operand, lambda bounds: _any_of(bounds, values))
    statistics = source.statistics(operand.name)
    if statistics is None:
        return None
    if expr.role == "is null":
        return _kept(statistics, statistics.null_count > 0)
    # The count is an upper bound: a zone of so many rows may still hold a value. And an array
    # without elements is a value.
    if statistics.empty is None or operand.type.shape:
        return None
    return _kept(statistics, ~statistics.empty)


def _logic(expr: Apply, source: ColumnSource) -> IntArray | None:
    known = [_ranges(arg, source) for arg in expr.args]
    return _all_of(known) if expr.role == "and" else _one_of(known)


def _refuted(expr: Bound, source: ColumnSource) -> IntArray | None:
    """Return where a condition could be false; None where nothing is known."""
    if not isinstance(expr, Apply) or not _is_refutable(expr):
        return None
    if expr.role == "not":
        return _ranges(expr.args[0], source)
    if expr.role in {"and", "or"}:
        known = [_refuted(arg, source) for arg in expr.args]
        return _one_of(known) if expr.role == "and" else _all_of(known)
    found = comparison(expr)
    assert found is not None, "_is_refutable looked"
    column, op, value = found
    if op != "=" and value != value:  # noqa: PLR0124 - NaN: no value compares with it
        return None
    statistics = source.statistics(column.name)
    ranges = _zone_ranges(source, column, lambda bounds: _could(_NEGATED[op], bounds, value))
    if statistics is None or ranges is None or statistics.minimum.dtype.kind != "f":
        return ranges
    if statistics.has_nan is None:
        return None
    return united(ranges, _kept(statistics, statistics.has_nan))


def _all_of(known: Sequence[IntArray | None]) -> IntArray | None:
    """Return the rows of all lists that are known."""
    lists = [ranges for ranges in known if ranges is not None]
    return reduce(intersected, lists) if lists else None


def _one_of(known: Sequence[IntArray | None]) -> IntArray | None:
    """Return the rows of any list; None where one is not known."""
    lists = [ranges for ranges in known if ranges is not None]
    return reduce(united, lists) if len(lists) == len(known) else None


def comparison(expr: Bound) -> tuple[ColumnRef, str, Any] | None:
    """Return (column, op, value) of a comparison of a column with one known value."""
    if not isinstance(expr, Apply) or not isinstance(expr.syntax, ast.Compare):
        return None
    left, right = expr.args
    op: str = expr.syntax.op
    if isinstance(left, Constant):
        left, right, op = right, left, _FLIPPED[op]
    if not isinstance(left, ColumnRef) or not isinstance(right, Constant):
        return None
    return None if right.value is None or right.type.shape else (left, op, right.value)


def _could(op: str, bounds: _Bounds, value: Any) -> BoolArray:
    low, high = bounds
    match op:
        case "=":
            return np.asarray((low <= value) & (high >= value), np.bool_)
        case "<":
            return np.asarray(low < value, np.bool_)
        case "<=":
            return np.asarray(low <= value, np.bool_)
        case ">":
            return np.asarray(high > value, np.bool_)
        case ">=":
            return np.asarray(high >= value, np.bool_)
        case _:  # a float zone may hide NaN, which differs from everything
            is_float = low.dtype.kind == "f"
            return np.asarray((low != value) | (high != value) | is_float, np.bool_)


def _any_of(bounds: _Bounds, values: Sequence[Any]) -> BoolArray:
    """Tell for each zone whether one of the values lies within its bounds."""
    low, high = bounds
    domain = low.dtype if low.dtype.kind in "fO" else None  # 0.05 is sought as a float32 there
    ordered = np.sort(np.array(values, domain))
    return np.searchsorted(ordered, low, "left") < np.searchsorted(ordered, high, "right")


def _zone_ranges(
    source: ColumnSource, column: ColumnRef, could: Callable[[_Bounds], BoolArray]
) -> IntArray | None:
    statistics = source.statistics(column.name)
    if statistics is None:
        return None
    known = statistics.known.copy()
    if statistics.minimum.dtype.kind == "f":
        known &= ~(np.isnan(statistics.minimum) | np.isnan(statistics.maximum))
    keep = ~known
    bounds = statistics.minimum[known], statistics.maximum[known]
    keep[known] = could(bounds)
    if statistics.empty is not None:
        keep &= ~statistics.empty  # a comparison with NULL is never true
    return _kept(statistics, keep)


def _kept(statistics: ColumnStatistics, keep: BoolArray) -> IntArray:
    return np.stack([statistics.starts[:-1][keep], statistics.starts[1:][keep]], axis=1).astype(
        np.int64
    )
