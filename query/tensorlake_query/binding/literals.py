"""Counts and choices that a clause takes: `LIMIT $n`, `OVERLAP true`, `SEED 7`."""

from tensorlake_query.binding.binder import Binder
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.syntax.printer import print_expr
from tensorlake_query.values.bound import Constant

ALL_PERCENT = 100


def bind_limit(limit: ast.Limit | None, binder: Binder) -> tuple[int | None, float | None]:
    """Return the (count, percent) of a LIMIT; both None where there is none.

    Raises:
        QueryTypeError: it is neither a count nor a share.
    """
    if limit is None:
        return None, None
    if not limit.percent:
        return bind_count(limit.count, binder), None
    value = _known(limit.count, binder)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= ALL_PERCENT
    ):
        raise _refused(limit.count, binder, "LIMIT takes a share from 0 to 100 PERCENT")
    return None, float(value)


def bind_count(expr: ast.Count, binder: Binder) -> int:
    """Return an integer >= 0.

    Raises:
        QueryTypeError: it is something else.
    """
    value = _known(expr, binder)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _refused(expr, binder, f"an integer >= 0 is needed, and {_shown(expr, value)}")
    return value


def bind_choice(expr: ast.Count, binder: Binder, clause: str) -> bool:
    """Return true or false.

    Raises:
        QueryTypeError: it is something else.
    """
    value = _known(expr, binder)
    if not isinstance(value, bool):
        raise _refused(expr, binder, f"{clause} is TRUE or FALSE")
    return value


def _known(expr: ast.Count, binder: Binder) -> object:
    bound = binder.bind(expr)
    return bound.value if isinstance(bound, Constant) else None


def _shown(expr: ast.Count, value: object) -> str:
    written = print_expr(expr)
    return f"{written} is {value!r}" if isinstance(expr, ast.Parameter) else f"got {written}"


def _refused(expr: ast.Expr, binder: Binder, message: str) -> QueryTypeError:
    return QueryTypeError(message, text=binder.text, span=expr.span)
