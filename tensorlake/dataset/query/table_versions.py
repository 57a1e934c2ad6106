"""Whether a query always reads the same data, or the current data of another dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

import tensorlake_query as tql

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["unpinned_tables"]


def unpinned_tables(text: str) -> list[str]:
    """Names of the datasets that a query reads without naming a version of them.

    ``this`` is the version that the query is asked of, and a name of WITH is a query.

    >>> unpinned_tables("SELECT * FROM this AS a JOIN pets AS b USING (x), cars VERSION 'main@1'")
    ['pets']
    """
    found: list[str] = []
    named = {"this"}
    for node in _nodes(tql.parse(text)):
        match node:
            case tql.ast.CommonTable(name):
                named.add(name)
            case tql.ast.Table(tql.ast.Column(name=name), None):
                found.append(name)
            case _:
                pass
    return [name for name in dict.fromkeys(found) if name not in named]


def _nodes(tree: msgspec.Struct) -> Iterator[msgspec.Struct]:
    """Yield every node of a syntax tree, those of queries inside expressions among them."""
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(cast("tuple[Any, ...]", node))
        elif isinstance(node, msgspec.Struct):
            yield node
            stack.extend(getattr(node, name) for name in node.__struct_fields__)
