"""Columns of handles: media whose samples are decoded when an application reads them.

The engine gets their stored bytes, so no expression computes with them. A query selects the column
itself, and facts known without decoding: shape, dtype, whether a sample is NULL.
"""

from collections.abc import Mapping

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.syntax.printer import print_name
from tensorlake_query.values.bound import Bound, ColumnRef, show, span_of
from tensorlake_query.values.source import ColumnType

SHAPE_FUNCTIONS = frozenset({"SHAPE", "NDIM", "SIZE", "LENGTH", "INFO", "DTYPE"})


def counts_rows(call: ast.Call) -> bool:
    """Return whether an aggregate only asks which rows are NULL."""
    return call.name == "COUNT" and not call.distinct


def check_decoded(bound: Bound, text: str) -> None:
    """Refuse an expression that is a column of handles.

    Raises:
        QueryTypeError: it is one.
    """
    if bound.type.handle is None:
        return
    syntax = bound.syntax
    name = syntax.name if isinstance(syntax, ast.Column) else bound.type.handle
    raise QueryTypeError(
        f"{show(bound)!r} is {bound.type.handle}, and a query does not decode its samples",
        text=text,
        span=span_of(bound),
        hint=(
            f"write SHAPE({show(bound)}); or choose {print_name(name)} under its own name and read"
            f" a region of a row, view[0][{name!r}][…]; or compute a tensor of it by ds.map(…)"
        ),
    )


def check_columns_decoded(columns: Mapping[str, ColumnType], text: str, span: ast.Span) -> None:
    """Refuse columns of handles where the values of a query are used.

    Raises:
        QueryTypeError: there is one.
    """
    for name, column_type in columns.items():
        check_decoded(ColumnRef(name, column_type, ast.Column(name, span=span)), text)
