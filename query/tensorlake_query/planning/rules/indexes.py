"""Indexes: tell the scan which conditions an index of the source may answer."""

from itertools import takewhile

import numpy as np
from msgspec import structs

from tensorlake_query.functions.scalar.membership import Values
from tensorlake_query.functions.text.search import words_of
from tensorlake_query.planning.plan import Filter, Lookup, Plan, Question, Scan, chain, rewritten
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
    """Copy conditions above a scan into it: of one column each, or such ones joined by OR.

    The filters stay, for rows that no index knows, and where the source has none.
    """
    scan, *above = reversed(list(chain(plan)))
    if not isinstance(scan, Scan):
        return plan
    lookups: list[Lookup] = []
    for step in above:
        if not isinstance(step, Filter):
            break
        lookup = _lookup(step.predicate)
        if lookup is not None:
            lookups.append(lookup)
    found = structs.replace(scan, lookups=tuple(lookups))
    return rewritten(plan, lambda step: found if step is scan else step)


def _lookup(condition: Bound) -> Lookup | None:
    """Return a condition as indexes are asked about it; None where they cannot be."""
    whole = _question(condition)
    operands = _operands(condition, "or")
    if len(operands) == 1 or (whole is not None and whole.op != "other"):
        return None if whole is None else Lookup(condition, ((whole,),))
    alternatives: list[tuple[Question, ...]] = []
    for operand in operands:
        asked = [_question(each) for each in _operands(operand, "and")]
        known = tuple(each for each in asked if each is not None)
        if len(known) < len(asked):
            return None
        alternatives.append(known)
    return Lookup(condition, tuple(alternatives))


def _operands(expr: Bound, role: str) -> list[Bound]:
    """Return the operands of AND or OR, also of those within; of another expression, itself."""
    operands: list[Bound] = []
    unseen = [expr]
    while unseen:
        each = unseen.pop()
        if isinstance(each, Apply) and each.role == role and not each.type.shape:
            unseen += reversed(each.args)
        else:
            operands.append(each)
    return operands


def _question(condition: Bound) -> Question | None:
    subject = _subject(condition)
    if subject is None:
        return None
    op, values = operator_of(condition)
    is_fixed = not any(isinstance(node, QueryRef) for node in walk_bound(condition))
    return Question(condition, *subject, op, values, is_fixed)


def _subject(expr: Bound) -> tuple[str, tuple[str, ...]] | None:
    """Return the column that a condition depends on, if on nothing else, and only by its sample.

    With the keys under which it looks at JSON values. A condition of a column of arrays, or of
    whole JSON values, counts if it is about any element.
    """
    found: list[tuple[ColumnRef | CodesRef, tuple[str, ...]]] = []
    unseen = [expr]
    while unseen:
        node = unseen.pop()
        member = _member(node)
        if member is not None:
            found.append(member)
            continue
        match node:
            case ColumnRef() | CodesRef():
                found.append((node, ()))
            case Apply(args=args, role=role) if args and role != "user":
                unseen += args
            case Constant():
                pass
            case QueryRef() if node.use == "members":
                pass
            case _:
                return None
    columns, paths = [each[0] for each in found], [each[1] for each in found]
    if len({column.name for column in columns}) != 1 or columns[0].type.kind in {"media", "bytes"}:
        return None
    path = paths[0]
    for other in paths[1:]:
        same = (one == two for one, two in zip(path, other, strict=False))
        path = path[: sum(takewhile(bool, same))]
    is_single = not columns[0].type.shape and (columns[0].type.kind != "json" or bool(path))
    return (columns[0].name, path) if is_single or operator_of(expr)[0] == "any" else None


def _member(expr: Bound) -> tuple[ColumnRef, tuple[str, ...]] | None:
    """Return the column and the keys of `meta['a']['b']`, up to the first that is not a text."""
    keys: list[object] = []
    while isinstance(expr, Apply) and expr.role == "member":
        expr, *own = expr.args
        keys = [*(each.value if isinstance(each, Constant) else None for each in own), *keys]
    if not keys or not isinstance(expr, ColumnRef):
        return None
    return expr, tuple(
        key for key in takewhile(lambda key: isinstance(key, str), keys) if isinstance(key, str)
    )


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
