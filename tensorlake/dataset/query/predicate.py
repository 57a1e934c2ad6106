"""Predicates: conditions on rows, written in Python, evaluated by TQL.

``ds["label"] == "cat"`` makes the same expression tree as the text ``label = 'cat'``; ``&``, ``|``
and ``~`` join them. A predicate holds no data and belongs to no version: it is evaluated where it
is used, over the columns it names and nothing else. The query engine is loaded by the first one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tensorlake.errors import InvalidInputError, shown

if TYPE_CHECKING:
    import tensorlake_query as tql

__all__ = ["Predicate", "comparison", "membership", "nullness"]

NESTED_MAX = 32  # levels of lists in a value: the most axes of an array


@dataclass(frozen=True, slots=True, eq=False)
class Predicate:
    """A condition that each row meets or not (or, where it is NULL, cannot answer)."""

    expr: tql.ast.Expr

    @property
    def tql(self) -> str:
        """The condition as TQL text."""
        from tensorlake_query import print_expr

        return print_expr(self.expr)

    @property
    def is_writable(self) -> bool:
        """Whether TQL has literals for it: not for infinity, NaN and integers over 64 bits."""
        return _has_words(self.expr)

    def __and__(self, other: Predicate) -> Predicate:
        from tensorlake_query import ast

        return Predicate(ast.And((self.expr, _expr_of(other, "&"))))

    def __or__(self, other: Predicate) -> Predicate:
        from tensorlake_query import ast

        return Predicate(ast.Or((self.expr, _expr_of(other, "|"))))

    def __invert__(self) -> Predicate:
        from tensorlake_query import ast

        return Predicate(ast.Not(self.expr))

    def __bool__(self) -> NoReturn:
        raise InvalidInputError(
            f"the predicate {self.tql!r} has an answer for every row, not one\n"
            "join predicates by & | ~, each in parentheses; count matches by len(ds[predicate])"
        )

    def __repr__(self) -> str:
        return f"Predicate({self.tql})"


def comparison(column: str, operator: tql.ast.CompareOp, value: object) -> Predicate:
    """Compare a column with a value."""
    from tensorlake_query import ast

    return Predicate(ast.Compare(operator, ast.Column(column), _literal(value)))


def membership(column: str, values: Iterable[object]) -> Predicate:
    """Ask whether a column's value is one of several."""
    from tensorlake_query import ast

    is_list = isinstance(values, Iterable) and getattr(values, "ndim", 1)
    if isinstance(values, str | bytes) or not is_list:
        raise InvalidInputError(
            f"isin() takes several values, got {shown(values)}\nwrite isin([{shown(values)}])",
            actual=values,
        )
    items = tuple(_literal(value) for value in values)
    return Predicate(ast.InList(ast.Column(column), items))


def nullness(column: str) -> Predicate:
    """Ask whether a column is NULL."""
    from tensorlake_query import ast

    return Predicate(ast.IsNull(ast.Column(column)))


def _literal(value: object, depth: int = 0) -> tql.ast.Expr:
    from tensorlake_query import ast

    if depth > NESTED_MAX:  # a list may also contain itself
        raise InvalidInputError(
            f"a value has more than {NESTED_MAX} levels of lists: {shown(value)}\n"
            "compare with a number, a boolean, a string, None or an array",
            actual=value,
        )
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return ast.Array(tuple(_literal(item, depth + 1) for item in value))
    if value is None or isinstance(value, bool | int | float | str):
        return ast.Literal(value)
    raise InvalidInputError(
        f"a tensor cannot be compared with {type(value).__name__} {shown(value)}\n"
        "compare with a number, a boolean, a string, None or an array",
        actual=type(value).__name__,
    )


def _has_words(part: object) -> bool:
    if isinstance(part, tuple):
        items: tuple[object, ...] = part
        return all(map(_has_words, items))
    if isinstance(part, float):
        return math.isfinite(part)
    if isinstance(part, int):
        return -(2**63) <= part < 2**64
    names: tuple[str, ...] = getattr(type(part), "__match_args__", ())  # a node's fields
    return all(_has_words(getattr(part, name)) for name in names)


def _expr_of(other: object, operator: str) -> tql.ast.Expr:
    if isinstance(other, Predicate):
        return other.expr
    raise InvalidInputError(
        f"a predicate cannot be joined by {operator} with {type(other).__name__} {shown(other)}\n"
        'compare both sides: (ds["a"] == 1) & (ds["b"] > 2), each in parentheses'
    )
