"""The abstract syntax of TQL: frozen nodes that remember where in the text they came from.

Two nodes are equal when they mean the same text; spans do not count. The same classes are the
vocabulary of a fluent API, which builds predicates without text:

    And((Compare("=", Column("label"), Literal("cat")), IsNull(Column("caption"))))

`operands` and `with_operands` walk and rebuild any expression; everything that visits all nodes is
written with them.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from dataclasses import replace as with_fields
from typing import Literal as OneOf
from typing import TypeVar, cast

import numpy as np

Scalar = None | bool | int | float | str
ArithmeticOp = OneOf["+", "-", "*", "/", "//", "%", "^", "||"]
CompareOp = OneOf["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` … `stop` − 1 of the query text."""

    start: int
    stop: int


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Something written in a query."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number, text, true, false or null."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Array(Node):
    """`ARRAY[1, 2]`, `[[1, 2], [3, 4]]`."""

    items: "tuple[Expr, ...]"


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A tensor of the source, or an alias of the SELECT list."""

    name: str


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """`$name`: a value given beside the text."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `+x`."""

    op: OneOf["-", "+"]
    operand: "Expr"


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic, or `||` on text."""

    op: ArithmeticOp
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`left op right`."""

    op: CompareOp
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True)
class And(Node):
    """All of two or more conditions."""

    items: "tuple[Expr, ...]"


@dataclass(frozen=True, slots=True)
class Or(Node):
    """Any of two or more conditions."""

    items: "tuple[Expr, ...]"


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`NOT operand`."""

    operand: "Expr"


@dataclass(frozen=True, slots=True)
class Between(Node):
    """`operand [NOT] BETWEEN low AND high`, both ends included."""

    operand: "Expr"
    low: "Expr"
    high: "Expr"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList(Node):
    """`operand [NOT] IN (items)`; an item may be a parameter that holds a list."""

    operand: "Expr"
    items: "tuple[Expr, ...]"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """`operand IS [NOT] NULL`."""

    operand: "Expr"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Node):
    """`operand [NOT] LIKE pattern`; ILIKE ignores case."""

    operand: "Expr"
    pattern: "Expr"
    negated: bool = False
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class When(Node):
    """One arm of a CASE."""

    condition: "Expr"
    result: "Expr"


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`CASE [operand] WHEN … THEN … [ELSE …] END`."""

    operand: "Expr | None"
    whens: tuple[When, ...]
    otherwise: "Expr | None"


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`CAST(operand AS type_name)`."""

    operand: "Expr"
    type_name: str


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`start:stop:step` between brackets."""

    start: "Expr | None" = None
    stop: "Expr | None" = None
    step: "Expr | None" = None


@dataclass(frozen=True, slots=True)
class Rest(Node):
    """`...` between brackets: as many whole dimensions as are left."""


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`operand[items]`: NumPy basic indexing, or a member of a JSON value."""

    operand: "Expr"
    items: "tuple[Expr | Slice | Rest, ...]"


@dataclass(frozen=True, slots=True)
class Named(Node):
    """`name => value` in a call."""

    name: str
    value: "Expr"


@dataclass(frozen=True, slots=True)
class Star(Node):
    """`*` as a SELECT item or in `COUNT(*)`."""


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function; its name is kept in upper case."""

    name: str
    args: "tuple[Expr | Star, ...]"
    named: tuple[Named, ...] = ()


Expr = (
    Literal | Array | Column | Parameter | Unary | Binary | Compare | And | Or | Not
    | Between | InList | IsNull | Like | Case | Cast | Index | Call
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Output(Node):
    """`expr [AS alias]` in a SELECT list."""

    expr: "Expr | Star"
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class OrderKey(Node):
    """`expr [ASC|DESC] [NULLS FIRST|LAST]`."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Limit(Node):
    """`LIMIT count` or `LIMIT count PERCENT`."""

    count: Literal | Parameter
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Query(Node):
    """One statement; an empty `select` means that SELECT was left out, which is `SELECT *`."""

    select: tuple[Output, ...] = ()
    from_this: bool = False
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    order_by: tuple[OrderKey, ...] = ()
    limit: Limit | None = None
    offset: Literal | Parameter | None = None
    explain: bool = False


N = TypeVar("N", bound=Node)


def operands(node: Node) -> Iterator[Expr]:
    """Yield the expressions directly inside `node`, in the order they are written."""
    for item in _parts(node):
        if isinstance(item, Expr):
            yield item
        else:
            yield from operands(item)


def with_operands(node: N, replacements: Iterable[Expr]) -> N:
    """Return `node` with the expressions that `operands` yields replaced, in order."""
    return _rebuilt(node, iter(replacements))


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and everything inside it, without recursion."""
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(_parts(current))


def depth_of(node: Node) -> int:
    """Return how many nodes lie on the longest way down, without recursion."""
    deepest = 0
    stack: list[tuple[Node, int]] = [(node, 1)]
    while stack:
        current, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((part, depth + 1) for part in _parts(current))
    return deepest


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
    for each in fields(node):
        value: object = getattr(node, each.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (
                item for item in cast("tuple[object, ...]", value) if isinstance(item, Node)
            )


def _rebuilt(node: N, replacements: Iterator[Expr]) -> N:
    changes: dict[str, object] = {}
    for each in fields(node):
        value: object = getattr(node, each.name)
        if isinstance(value, Node):
            changes[each.name] = _replaced(value, replacements)
        elif isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            changes[each.name] = tuple(
                _replaced(item, replacements) if isinstance(item, Node) else item for item in items
            )
    return with_fields(node, **changes)


def _replaced(node: Node, replacements: Iterator[Expr]) -> Node:
    return next(replacements) if isinstance(node, Expr) else _rebuilt(node, replacements)
