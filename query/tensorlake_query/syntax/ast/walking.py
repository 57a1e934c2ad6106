"""Visiting trees: `operands` and `with_operands` walk and rebuild any expression.

Everything that visits all nodes is written with them. A query inside an expression is not entered:
its names are its own.
"""

import math
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

import numpy as np
from msgspec import structs

from tensorlake_query.syntax.ast.nodes import Array, Expr, Literal, Node, Statement, parts_of

N = TypeVar("N", bound=Node)


def operands(node: Node) -> Iterator[Expr]:
    """Yield the expressions directly inside `node`, as written; none of a query inside it."""
    for item in _parts(node):
        if isinstance(item, Statement):
            continue
        if isinstance(item, Expr):
            yield item
        else:
            yield from operands(item)


def with_operands(node: N, replacements: Iterable[Expr]) -> N:
    """Return `node` with the expressions that `operands` yields replaced, in order."""
    return _rebuilt(node, iter(replacements))


def with_fields(node: N, **changes: object) -> N:
    """Return `node` with some of its fields replaced."""
    return structs.replace(node, **changes)


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and everything inside it but other queries, without recursion."""
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(part for part in _parts(current) if not isinstance(part, Statement))


def depth_of(node: Node) -> tuple[int, int]:
    """Return how many nodes, and how many queries, lie on the longest way down; no recursion."""
    deepest = most_queries = 0
    stack: list[tuple[Node, int, int]] = [(node, 1, 0)]
    while stack:
        current, depth, queries = stack.pop()
        queries += isinstance(current, Statement)
        deepest, most_queries = max(deepest, depth), max(most_queries, queries)
        stack.extend((part, depth + 1, queries) for part in _parts(current))
    return deepest, most_queries


def value_expr(value: object) -> Expr:
    """Return the literal that stands for a Python or numpy value.

    Raises:
        TypeError: `value` has no literal form in TQL.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = cast("object", value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"{value} has no literal form in TQL; pass it as a parameter")
    if value is None or isinstance(value, bool | int | float | str):
        return Literal(value)
    if isinstance(value, list | tuple):
        return Array(tuple(value_expr(item) for item in cast("Iterable[object]", value)))
    raise TypeError(f"{type(value).__name__} has no literal form in TQL; pass it as a parameter")


def _parts(node: Node) -> Iterator[Node]:
    for name in parts_of(node):
        value: object = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (
                item for item in cast("tuple[object, ...]", value) if isinstance(item, Node)
            )


def _rebuilt(node: N, replacements: Iterator[Expr]) -> N:
    changes: dict[str, object] = {}
    for name in parts_of(node):
        value: object = getattr(node, name)
        if isinstance(value, Node):
            changes[name] = _replaced(value, replacements)
        elif isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            changes[name] = tuple(
                _replaced(item, replacements) if isinstance(item, Node) else item for item in items
            )
    return with_fields(node, **changes)


def _replaced(node: Node, replacements: Iterator[Expr]) -> Node:
    if isinstance(node, Statement):
        return node
    return next(replacements) if isinstance(node, Expr) else _rebuilt(node, replacements)
