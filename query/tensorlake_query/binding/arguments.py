"""The arguments of a call: how many there are, and which options are named."""

from tensorlake_query.functions import Function
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError


def check_arguments(expr: ast.Call, function: Function, text: str) -> None:
    """Check that a function takes the number of arguments and the options given.

    Raises:
        QueryTypeError: it does not.
    """
    least, most = function.arity
    weighted = [isinstance(arg, ast.Weighted) for arg in expr.args]
    if (
        any(isinstance(arg, ast.Star) for arg in expr.args)
        or expr.distinct
        or (not all(weighted) if function.is_weighted else any(weighted))
        or not least <= len(expr.args) <= most
    ):
        expected = str(least) if least == most else f"{least} to {most}"
        raise QueryTypeError(
            f"{function.name} takes {expected} argument{'' if expected == '1' else 's'}, "
            f"got {len(expr.args)}",
            text=text,
            span=expr.span,
            hint=f"write {function.usage}",
        )
    names = [each.name for each in expr.named]
    for each in expr.named:
        if each.name not in function.options:
            message = f"{function.name} has no option {each.name!r}"
        elif names.count(each.name) > 1:
            message = f"option {each.name!r} is given twice"
        else:
            continue
        hint = f"write {function.usage}"
        raise QueryTypeError(message, text=text, span=each.span, hint=hint)
