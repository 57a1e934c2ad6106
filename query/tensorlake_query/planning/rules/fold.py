"""Constant folding: what does not depend on a row is computed once."""

import numpy as np
from msgspec import structs

from tensorlake_query.planning.plan import (
    Aggregate,
    Filter,
    Nothing,
    Plan,
    Scan,
    chain,
    rewritten,
    with_expressions,
)
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Apply, Bound, Constant, syntax_of
from tensorlake_query.values.memory import Account, Held, TooMuchMemoryError, collecting
from tensorlake_query.values.source import UniformBatch
from tensorlake_query.values.vectors import RowError, Vector, all_valid, constant

FOLDED_NBYTES = 1 << 20  # a larger value is made where a row asks for it, and counted there


def fold_constants(plan: Plan) -> Plan:
    """Replace each call of constants by its value, and simplify AND and OR."""
    return rewritten(plan, lambda step: with_expressions(step, _folded))


def drop_decided_filters(plan: Plan) -> Plan:
    """Remove filters that are always true; replace those that never are by an empty scan."""
    return rewritten(plan, _decided)


def _decided(step: Plan) -> Plan:
    if isinstance(step, Filter) and isinstance(step.predicate, Constant):
        if step.predicate.value:
            return step.input
        # a HAVING that is never true stays: its aggregation is a row even of nothing
        if any(isinstance(each, Aggregate) for each in chain(step)):
            return step
        first = list(chain(step))[-1]
        return Nothing(first.relation) if isinstance(first, Scan | Nothing) else step
    return step


def _folded(expr: Bound) -> Bound:
    if not isinstance(expr, Apply):
        return expr
    args = tuple(map(_folded, expr.args))
    folded = structs.replace(expr, args=args)
    if all(isinstance(arg, Constant) for arg in args) and args:
        return _value(folded)
    if expr.role in {"and", "or"} and not expr.type.shape:
        return _simplified(folded)
    return folded


def _simplified(expr: Apply) -> Bound:
    """Drop what cannot decide an AND (TRUE) or OR (FALSE), and decide by what can."""
    decisive = expr.role == "or"
    kept = [arg for arg in expr.args if not _is(arg, value=not decisive)]
    for arg in kept:
        if _is(arg, value=decisive):
            return arg
    if len(kept) == 1:
        return kept[0]
    if len(kept) == len(expr.args):
        return expr
    items = tuple(map(syntax_of, kept))
    written = expr.syntax
    assert isinstance(written, ast.And | ast.Or), "only these have the roles"
    return structs.replace(expr, args=tuple(kept), syntax=ast.with_fields(written, items=items))


def _is(expr: Bound, *, value: bool) -> bool:
    return isinstance(expr, Constant) and expr.value is value


def _value(expr: Apply) -> Bound:
    """Return the constant that a call of constants gives; the call itself where it gives none."""
    vectors = [constant(arg.value, arg.type, 1) for arg in expr.args if isinstance(arg, Constant)]
    try:
        with np.errstate(all="ignore"), collecting(Held(Account(FOLDED_NBYTES), "a constant")):
            result: Vector = expr.kernel(vectors, 1)
    except (RowError, TooMuchMemoryError):
        return expr  # raised where a row meets it, and never if none does
    if not isinstance(result, UniformBatch):
        return expr
    valid = all_valid([result, *vectors]) if expr.strict else result.valid
    if valid is not None and not valid[0]:
        return Constant(None, expr.type, ast.Literal(None, span=syntax_of(expr).span), weak=False)
    value: object = result.values[0]
    if isinstance(value, np.bool_ | np.generic):
        value = value.item()
    return Constant(value, expr.type, _written(value, expr), weak=False)


def _written(value: object, expr: Apply) -> ast.Expr:
    written = syntax_of(expr)
    if isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value)):
        return ast.Literal(value, span=written.span)
    return written
