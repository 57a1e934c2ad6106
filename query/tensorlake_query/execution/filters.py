"""Conditions over batches: masks of several combined, rows taken where few are left.

A condition on plain numbers costs less over all rows of a batch than over some of them, whose
values have to be gathered first, so the masks of such conditions are combined. Any other condition,
and any after which few rows are left, is evaluated for the rows that passed those before it.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensorlake_query.execution.batches import values_of
from tensorlake_query.execution.evaluate import Scope
from tensorlake_query.planning.plan import Plan, Statement, chain, expressions
from tensorlake_query.values.bound import (
    Apply,
    Bound,
    CodesRef,
    ColumnRef,
    Constant,
    DataRef,
    ShapeRef,
    columns_of,
    walk_bound,
)
from tensorlake_query.values.source import BoolArray

SPARSE = 16  # rows are gathered where fewer than one in so many are left
SMALL_BATCH = 4096  # of so few rows no more is read than those that are left
PLAIN_ROLES = frozenset({"compare", "in", "not in", "and", "or", "not", "is null", "is not null"})


def passing(
    predicates: Sequence[Bound],
    check: Callable[[int, int], None],
    needed: frozenset[str] | None,
    piece: Scope,
) -> Scope | None:
    """Return the rows of a batch where all conditions are true, neither false nor NULL.

    Args:
        predicates: the conditions, in the order in which they are evaluated.
        check: called before parts of the batch, with how many rows are done of how many.
        needed: columns that later steps use; None: perhaps all.
        piece: the batch.
    """
    mask: BoolArray | None = None
    for number, predicate in enumerate(predicates):
        if mask is not None and not _adds_to(mask, predicate):
            kept = np.flatnonzero(mask)
            if not len(kept):
                return None
            rest = frozenset[str]().union(*map(_used_by, predicates[number:]))
            piece = piece.take(kept, None if needed is None else needed | rest)
            mask = None
        condition = values_of([predicate], piece, check).vectors[0]
        is_true = np.asarray(condition.values, np.bool_)
        if condition.valid is not None:
            is_true = is_true & condition.valid
        mask = is_true if mask is None else mask & is_true
    assert mask is not None, "there is a condition"
    kept = np.flatnonzero(mask)
    if len(kept) == len(mask):
        return piece
    return piece.take(kept, needed) if len(kept) else None


def needed_by(statement: Statement) -> frozenset[str]:
    """Return the columns that the outputs of a statement use."""
    needed = frozenset[str]()
    for output in statement.plan.outputs:
        if not (statement.selects_rows and isinstance(output.expr, ColumnRef)):  # or it is not read
            needed |= _used_by(output.expr)
    return needed


def needed_above(plan: Plan, needed: frozenset[str]) -> Mapping[int, frozenset[str]]:
    """Return the columns that the steps above each step of a plan use, by its identity.

    Args:
        plan: the steps.
        needed: the columns that are used above all of them.
    """
    result: dict[int, frozenset[str]] = {}
    for step in chain(plan):
        result[id(step)] = needed
        needed = needed.union(*map(_used_by, expressions(step)))
    return result


def _used_by(expr: Bound) -> frozenset[str]:
    """Return the columns that an expression reads, or whose shapes it asks for."""
    shapes = (node.name for node in walk_bound(expr) if isinstance(node, ShapeRef | DataRef))
    return columns_of(expr).union(shapes)


def _adds_to(mask: BoolArray, predicate: Bound) -> bool:
    """Return whether a condition is evaluated for all rows of a batch, to combine its mask."""
    if len(mask) < SMALL_BATCH or not is_plain(predicate):
        return False
    return int(np.count_nonzero(mask)) * SPARSE >= len(mask)


def _is_of_codes(expr: Apply) -> bool:
    """Return whether an expression is looked up by class codes."""
    return all(isinstance(arg, CodesRef) for arg in expr.args)


def is_plain(predicate: Bound) -> bool:
    """Return whether a condition is of single stored numbers alone, and cannot fail for a row."""
    for node in walk_bound(predicate):
        if node.type.shape or node.type.dtype is None:
            return False
        if isinstance(node, Apply) and node.role not in PLAIN_ROLES and not _is_of_codes(node):
            return False
        if not isinstance(node, Apply | ColumnRef | CodesRef | Constant):
            return False
    return True
