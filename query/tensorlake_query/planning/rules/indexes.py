"""Indexes: tell the scan which conditions an index of the source may answer."""

import numpy as np
from msgspec import structs

from tensorlake_query.functions.scalar.membership import Values
from tensorlake_query.functions.text.search import words_of
from tensorlake_query.planning.plan import Filter, Plan, Scan, chain, rewritten
from tensorlake_query.planning.zone_maps import comparison
from tensorlake_query.values.bound import (
    Apply,
    Bound,
    CodesRef,
    ColumnRef,
    Constant,
    QueryRef,
    walk_bound,
)
from tensorlake_query.values.source import IndexOperator

OPERATORS: dict[str, IndexOperator] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def use_indexes(plan: Plan) -> Plan:
    """Copy the conditions of one column each above a scan into it.

    The filters stay, for rows that no index knows, and where the source has none.
    """
    scan, *above = reversed(list(chain(plan)))
    if not isinstance(scan, Scan):
        return plan
    lookups: list[Bound] = []
    for step in above:
        if not isinstance(step, Filter):
            break
        if column_of(step.predicate) is not None:
            lookups.append(step.predicate)
    found = structs.replace(scan, lookups=tuple(lookups))
    return rewritten(plan, lambda step: found if step is scan else step)


def column_of(expr: Bound) -> ColumnRef | CodesRef | None:
    """Return the column that a condition depends on, if on nothing else, and only by its sample.

    A condition of a column of arrays counts if it is about any element.
    """
    columns: list[ColumnRef | CodesRef] = []
    for node in walk_bound(expr):
        match node:
            case ColumnRef() | CodesRef():
                columns.append(node)
            case Apply(args=args, role=role) if args and role != "user":
                pass
            case Constant():
                pass
            case QueryRef() if node.use == "members":
                pass
            case _:
                return None
    if len({column.name for column in columns}) != 1 or columns[0].type.kind in {"media", "bytes"}:
        return None
    is_single = not columns[0].type.shape and columns[0].type.kind != "json"
    return columns[0] if is_single or operator_of(expr)[0] == "any" else None


def operator_of(expr: Bound) -> tuple[IndexOperator, tuple[object, ...]]:
    """Return how a condition compares its column, and with which constants."""
    if not isinstance(expr, Apply):
        return "other", ()
    if expr.role == "contains":
        return "any", ()
    if expr.role == "any":
        return ("any", ()) if comparison(expr.args[0]) is not None else ("other", ())
    if expr.role == "match" and isinstance(expr.args[0], ColumnRef):
        words = expr.args[1]
        assert isinstance(words, Constant), "the binder has checked it"
        assert isinstance(words.value, str), "and its value"
        return "match", tuple(dict.fromkeys(words_of(words.value)))
    compared = comparison(expr)
    if expr.role == "compare" and compared is not None and compared[1] in OPERATORS:
        return OPERATORS[compared[1]], (_plain(compared[2]),)
    if expr.role == "in" and isinstance(expr.args[0], ColumnRef):
        values: list[object] = []
        for item in expr.args[1:]:
            if not isinstance(item, Constant):
                return "other", ()
            if isinstance(item.value, Values):
                values += item.value.array.tolist()
            elif item.value is not None:
                values.append(_plain(item.value))
        return "in", tuple(values)
    return "other", ()


def _plain(value: object) -> object:
    """Return a number as Python's: constants are arrays of the dtype that they are compared in."""
    return value.item() if isinstance(value, np.ndarray | np.generic) and value.ndim == 0 else value
