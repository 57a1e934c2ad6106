"""Joins: conditions of one side are applied before it, where zones and indexes serve them.

    join        of WHERE, before the join       of ON, before the join
    INNER       either side's                   either side's
    LEFT        the left side's                 the right side's
    RIGHT       the right side's                the left side's
    FULL        none                            none

The other conditions decide whether a pair, or a row without a partner, is left. Conditions that may
fail for a row stay where they are: the row may have no partner, and so never be looked at. Where
something depends on the place of a pair among all (RANDOM, EXPAND BY), everything stays.

A LEFT JOIN is an INNER one where a condition of WHERE excludes rows without a partner: a comparison
with a column of the right side, IN, or IS NOT NULL. RIGHT and FULL stay, since the rows of their
results are those of another side.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from msgspec import structs

from tensorlake_query.functions.scalar.operators import conjunction
from tensorlake_query.planning.plan import (
    Expand,
    Filter,
    Filtered,
    Joined,
    Plan,
    Relation,
    Scan,
    chain,
    expressions,
    with_input,
)
from tensorlake_query.planning.rules.codes import compare_codes
from tensorlake_query.planning.rules.filters import conjuncts, order_filters
from tensorlake_query.planning.rules.indexes import use_indexes
from tensorlake_query.planning.rules.parts import read_parts
from tensorlake_query.planning.rules.zones import prune_zones
from tensorlake_query.planning.zone_maps import comparison
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import (
    Apply,
    Bound,
    ColumnRef,
    Constant,
    QueryRef,
    ShapeRef,
    is_placed,
    renamed,
    walk_bound,
)

BOTH: frozenset[int] = frozenset({0, 1})
NONE: frozenset[int] = frozenset()
OF_WHERE: dict[ast.JoinKind, frozenset[int]] = {
    "INNER": BOTH, "CROSS": BOTH, "LEFT": frozenset({0}), "RIGHT": frozenset({1}), "FULL": NONE,
}  # fmt: skip
OF_ON: dict[ast.JoinKind, frozenset[int]] = {
    "INNER": BOTH, "CROSS": BOTH, "LEFT": frozenset({1}), "RIGHT": frozenset({0}), "FULL": NONE,
}  # fmt: skip
OF_NULL_NOT_TRUE = frozenset({"compare", "in", "is not null"})  # roles; of `in`, its first argument
OF_SIDES = (order_filters, prune_zones, compare_codes, use_indexes, read_parts)


def filter_sides(plan: Plan) -> Plan:
    """Move conditions of one side of a join from above it, and from ON, to below it."""
    scan, *above = reversed(list(chain(plan)))
    if not isinstance(scan, Scan) or not isinstance(scan.relation, Joined):
        return plan
    if any(isinstance(step, Expand) or any(map(is_placed, expressions(step))) for step in above):
        return plan
    if any(map(is_placed, _conditions(scan.relation))):
        return plan
    filters = list(takewhile(lambda step: isinstance(step, Filter), above))
    conditions = [step.predicate for step in filters if isinstance(step, Filter)]
    relation, left = _with_filtered_sides(scan.relation, conditions)
    result = _over(structs.replace(scan, relation=relation), left)
    for step in above[len(filters) :]:
        result = with_input(step, result)
    return result


def _conditions(joined: Joined) -> Iterator[Bound]:
    """Yield what rows of a join must meet, and of the joins that are its sides."""
    yield from (expr for pair in joined.keys for expr in pair)
    if joined.residual is not None:
        yield joined.residual
    for side in (joined.left, joined.right):
        if isinstance(side, Joined):
            yield from _conditions(side)


def _with_filtered_sides(
    joined: Joined, conditions: Sequence[Bound]
) -> tuple[Joined, Sequence[Bound]]:
    """Return a join of filtered sides, and the conditions that are left above it."""
    if joined.kind == "LEFT" and any(_excludes_null(each, joined) for each in conditions):
        joined = structs.replace(joined, kind="INNER")
    of_sides: tuple[list[Bound], list[Bound]] = ([], [])
    above = _dealt(joined, conditions, OF_WHERE[joined.kind], of_sides)
    of_on = [] if joined.residual is None else list(conjuncts(joined.residual))
    residual = _dealt(joined, of_on, OF_ON[joined.kind], of_sides)
    left, right = (
        _filtered(side, found)
        for side, found in zip((joined.left, joined.right), of_sides, strict=True)
    )
    if len(residual) < len(of_on):
        kept = conjunction(residual) if residual else None
        joined = structs.replace(joined, residual=kept)
    if left is joined.left and right is joined.right:
        return joined, above
    return structs.replace(joined, left=left, right=right), above


def _dealt(
    joined: Joined,
    conditions: Iterable[Bound],
    allowed: frozenset[int],
    of_sides: tuple[list[Bound], list[Bound]],
) -> list[Bound]:
    """Give conditions to the sides that they are about; return those that stay."""
    stay: list[Bound] = []
    names = {name: there for name, (_, there) in joined.sides.items()}
    for condition in conditions:
        side = _side_of(condition, joined)
        if side in allowed:
            of_sides[side].append(renamed(condition, names))
        else:
            stay.append(condition)
    return stay


def _filtered(relation: Relation, conditions: Sequence[Bound]) -> Relation:
    if isinstance(relation, Joined):
        relation, conditions = _with_filtered_sides(relation, conditions)
    if not conditions:
        return relation
    plan = _over(Scan((), relation=relation), conditions)
    for rule in OF_SIDES:
        plan = rule(plan)
    assert isinstance(plan, Filter), "no condition is dropped"
    return Filtered(plan)


def _over(plan: Plan, conditions: Iterable[Bound]) -> Plan:
    for condition in conditions:
        plan = Filter(plan, condition)
    return plan


def _side_of(condition: Bound, joined: Joined) -> int:
    """Return the side that a condition is about; −1 for both, for none, and if it must stay."""
    sides: set[int] = set()
    for node in walk_bound(condition):
        match node:
            case ColumnRef(name) | ShapeRef(name):
                is_either = name in joined.merged and joined.kind in {"RIGHT", "FULL"}
                sides.add(-1 if is_either or node.type.kind == "media" else joined.sides[name][0])
            case Apply():
                sides |= set() if _cannot_fail(node) else {-1}
            case Constant() | QueryRef(use="members" | "exists"):
                pass
            case _:  # depends on the row's place in the join, or may have no value
                sides.add(-1)
    return sides.pop() if len(sides) == 1 else -1


def _excludes_null(condition: Bound, joined: Joined) -> bool:
    """Return whether a condition is not true where all columns of the right side are NULL."""
    if not isinstance(condition, Apply) or condition.role not in OF_NULL_NOT_TRUE:
        return False
    args = condition.args if condition.role == "compare" else condition.args[:1]
    names = [arg.name for arg in args if isinstance(arg, ColumnRef)]
    return any(name not in joined.merged and joined.sides[name][0] == 1 for name in names)


def _cannot_fail(call: Apply) -> bool:
    """Return whether a call gives a value for any row: most arrays might not fit together."""
    compared = call.args[0] if call.role == "any" else call
    if comparison(compared) is not None:  # of one column, with one value
        return True
    shapes = [arg.type.shape for arg in call.args if not isinstance(arg, ShapeRef)]
    return call.role != "user" and not any([call.type.shape, *shapes])
