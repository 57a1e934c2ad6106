"""Warnings about likely mistakes: ORDER BY a similarity in the direction of the worst."""

from tensorlake_query.planning.plan import Plan, TopK, chain
from tensorlake_query.values.bound import Apply, Bound, show, walk_bound

LARGER_IS_NEARER = frozenset({"COSINE_SIMILARITY", "DOT", "MAXSIM", "BM25_SIMILARITY", "IOU"})
SMALLER_IS_NEARER = frozenset({"L1_NORM", "L2_NORM", "LINF_NORM", "HAMMING_DISTANCE"})


def warnings_of(plan: Plan) -> tuple[str, ...]:
    """Return a warning for each first key of a TopK that ranks the farthest first."""
    found: list[str] = []
    for step in chain(plan):
        if isinstance(step, TopK):
            key = step.keys[0]
            name = _function_of(key.expr)
            if name in LARGER_IS_NEARER and not key.descending:
                found.append(f"ORDER BY {show(key.expr)} LIMIT gives the least similar: write DESC")
            elif name in SMALLER_IS_NEARER and key.descending and _is_distance(key.expr):
                found.append(f"ORDER BY {show(key.expr)} DESC LIMIT gives the farthest: leave DESC")
    return tuple(found)


def _function_of(expr: Bound) -> str:
    return getattr(expr.syntax, "name", "") if isinstance(expr, Apply) else ""


def _is_distance(expr: Bound) -> bool:
    """Tell whether it measures a difference, and not the length of one vector."""
    return _function_of(expr) == "HAMMING_DISTANCE" or any(
        getattr(node.syntax, "op", "") == "-"
        for node in walk_bound(expr)
        if isinstance(node, Apply)
    )
