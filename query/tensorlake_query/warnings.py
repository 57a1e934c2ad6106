"""Warnings about likely mistakes: conditions that no row can meet, orders that begin at the worst.

`LIKE '*.jpg'` looks for a star, and `RANDOM() % 10` is a fraction, which is never 0.
"""

import re

from tensorlake_query.planning.plan import Plan, TopK, chain, expressions
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Apply, Bound, show, walk_bound

_OF_GLOB = re.compile(r"(?<!\\)[*?]")

LARGER_IS_NEARER = frozenset({"COSINE_SIMILARITY", "DOT", "MAXSIM", "BM25_SIMILARITY", "IOU"})
SMALLER_IS_NEARER = frozenset({"L1_NORM", "L2_NORM", "LINF_NORM", "HAMMING_DISTANCE"})


def warnings_of(plan: Plan) -> tuple[str, ...]:
    """Return a warning for each likely mistake in a plan."""
    found: list[str] = []
    for step in chain(plan):
        for expr in expressions(step):
            found += filter(None, map(_warning_of, walk_bound(expr)))
        if isinstance(step, TopK):
            key = step.keys[0]
            name = _function_of(key.expr)
            if name in LARGER_IS_NEARER and not key.descending:
                found.append(f"ORDER BY {show(key.expr)} LIMIT gives the least similar: write DESC")
            elif name in SMALLER_IS_NEARER and key.descending and _is_distance(key.expr):
                found.append(f"ORDER BY {show(key.expr)} DESC LIMIT gives the farthest: leave DESC")
    return tuple(found)


def _warning_of(expr: Bound) -> str | None:
    """Return the warning for one condition, if it deserves one."""
    match expr.syntax if isinstance(expr, Apply) else None:
        case ast.Like(pattern=ast.Literal(str() as pattern), form=("LIKE" | "ILIKE") as form):
            if _OF_GLOB.search(pattern) and not re.search("[%_]", pattern):
                written = f"{form} {pattern!r}"
                return f"{written} looks for these very characters: write % and _, or use GLOB"
        case ast.Compare("=", ast.Binary("%", ast.Call("RANDOM")), ast.Literal()):
            return (
                "RANDOM() % n is a fraction, and equals no integer: "
                "write RANDOM() < 0.1, or _row % 10 = 0"
            )
        case _:
            pass
    return None


def _function_of(expr: Bound) -> str:
    return getattr(expr.syntax, "name", "") if isinstance(expr, Apply) else ""


def _is_distance(expr: Bound) -> bool:
    """Tell whether it measures a difference, and not the length of one vector."""
    return _function_of(expr) == "HAMMING_DISTANCE" or any(
        getattr(node.syntax, "op", "") == "-"
        for node in walk_bound(expr)
        if isinstance(node, Apply)
    )
