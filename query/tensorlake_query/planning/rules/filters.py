"""Filters: one for each condition of an AND, the cheap and selective ones first."""

from collections.abc import Iterator

import numpy as np

from tensorlake_query.planning.plan import Filter, Plan, chain, rewritten, with_input
from tensorlake_query.values.bound import Apply, Bound, ColumnRef, walk_bound
from tensorlake_query.values.source import ColumnType

# Guessed share of rows that a condition keeps. Only their order matters: equality before ranges
# before the rest.
SELECTIVITY = {"=": 0.1, "in": 0.2, "is null": 0.1, "range": 0.4, "other": 0.6}
MEDIA_COST = 1e6  # decoding an image, against one arithmetic operation on one element
READ_COST = 1.0  # a byte read, in the same unit
OBJECT_NBYTES = 128
FEW_CLASSES = 256
RAGGED_SIZE = 16
MAX_FILTERS = 64  # of one AND: each is a generator that runs inside the next


def split_filters(plan: Plan) -> Plan:
    """Turn a filter by `a AND b` into a filter by `a` under one by `b`."""
    return rewritten(plan, _split)


def order_filters(plan: Plan) -> Plan:
    """Order the filters of one run by cost per row they remove; equals stay as written."""
    steps = list(chain(plan))
    ordered: list[Plan] = []
    run: list[Filter] = []
    for step in reversed(steps):
        if isinstance(step, Filter):
            run.append(step)
            continue
        ordered += sorted(run, key=_rank)
        run = []
        ordered.append(step)
    ordered += sorted(run, key=_rank)
    result = ordered[0]
    for step in ordered[1:]:
        result = with_input(step, result)
    return result


def _split(step: Plan) -> Plan:
    if not isinstance(step, Filter):
        return step
    conditions = list(conjuncts(step.predicate))
    if len(conditions) > MAX_FILTERS:
        return step
    result = step.input
    for condition in conditions:
        result = Filter(result, condition)
    return result


def conjuncts(expr: Bound) -> Iterator[Bound]:
    """Yield the conditions that an AND is of."""
    if isinstance(expr, Apply) and expr.role == "and" and not expr.type.shape:
        for arg in expr.args:
            yield from conjuncts(arg)
    else:
        yield expr


def _rank(step: Filter) -> float:
    """Return the cost of a condition for each row that it removes."""
    nodes = list(walk_bound(step.predicate))
    reads = {node.name: _read_cost(node.type) for node in nodes if isinstance(node, ColumnRef)}
    work = sum(
        node.cost * _size(node.args[0].type if node.args else node.type)
        for node in nodes
        if isinstance(node, Apply)
    )
    return (sum(reads.values()) + work) / (1 - _selectivity(step.predicate))


def _selectivity(expr: Bound) -> float:
    role = expr.role if isinstance(expr, Apply) else ""
    syntax = expr.syntax if isinstance(expr, Apply) else None
    if role == "compare":
        return SELECTIVITY["=" if getattr(syntax, "op", "") == "=" else "range"]
    return SELECTIVITY.get(role, SELECTIVITY["other"])


def _read_cost(column_type: ColumnType) -> float:
    if column_type.kind == "media":
        return MEDIA_COST
    if column_type.dtype is None:
        return READ_COST * OBJECT_NBYTES
    if column_type.names is not None and len(column_type.names) <= FEW_CLASSES:
        return READ_COST * _size(column_type)  # compared as narrow as they are kept
    return READ_COST * np.dtype(column_type.dtype).itemsize * _size(column_type)


def _size(column_type: ColumnType) -> int:
    size = 1
    for each in column_type.shape:
        size *= RAGGED_SIZE if each is None else max(each, 1)
    return size
