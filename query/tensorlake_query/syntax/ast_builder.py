"""Grammar rules to `ast` nodes: one method a rule of `tql.lark`.

The parser calls `build` for each rule, from the inside out, with the rule's place in the text and
its parts, already built (clause words are filtered by the grammar, an absent optional part is
None). Expressions are here, clauses and statements in `syntax/clause_builder.py`.
"""

# ruff: noqa: D102  a method is the grammar rule of its name

import math
import re
from typing import Any, cast

from msgspec import Struct

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.ast import Span
from tensorlake_query.syntax.errors import QuerySyntaxError

MAX_DIGITS = 400  # no 64-bit number needs more; Python's own conversion is quadratic in them
INT_MIN, UINT_MAX = -(2**63), 2**64 - 1


_COUNTED = re.compile(r"\b(LIMIT|TOP|OFFSET|SEED|EXPAND BY)\s+\Z", re.IGNORECASE)
# Clauses that take a count, and what to write for one that is too large.
COUNT_HINTS = {
    "LIMIT": "leave LIMIT out for all rows",
    "TOP": "leave TOP out for all rows",
    "OFFSET": "no dataset has as many rows",
    "SEED": "a seed is an integer below 2^64",
    "EXPAND BY": "no dataset has as many rows",
}


class Token(Struct, frozen=True):
    """A word or sign of the text, as the grammar's terminal `kind`."""

    kind: str
    text: str
    span: Span


class Condition(Struct, frozen=True):
    """`FILTER (WHERE condition)` of an aggregate, until its call is made."""

    expr: ast.Expr
    span: Span


# Aggregates that skip NULLs: a row that FILTER leaves out has one. FIRST takes them.
FILTERED = frozenset({
    "COUNT", "SUM", "AVG", "MIN", "MAX", "STD", "STDDEV", "VAR", "MEDIAN", "QUANTILE", "HISTOGRAM",
    "ANY_VALUE", "ARRAY_AGG",
})  # fmt: skip


# A rule's parts are untyped at this border; each method knows from its grammar rule what it gets.
Children = list[Any]


def _nodes(children: Children) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None and not isinstance(child, Token))


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _has(children: Children, kind: str) -> bool:
    return any(isinstance(child, Token) and child.kind == kind for child in children)


class ExpressionBuilder:
    """Makes the nodes of expressions."""

    def __init__(self, text: str) -> None:
        self._text = text

    def build(self, rule: str, span: Span, children: Children) -> object:
        """Return the node of a rule."""
        return getattr(self, rule)(span, children)

    def fail(self, message: str, span: Span, hint: str = "") -> QuerySyntaxError:
        """Return an error at a place of the text."""
        return QuerySyntaxError(message, text=self._text, span=span, hint=hint)

    # logic

    def or_(self, span: Span, children: Children) -> ast.Or:
        return ast.Or(tuple(children), span=span)

    def and_(self, span: Span, children: Children) -> ast.And:
        return ast.And(tuple(children), span=span)

    def negation(self, span: Span, children: Children) -> ast.Not:
        return ast.Not(children[1], span=span)

    def compare(self, span: Span, children: Children) -> ast.Compare:
        left, op, right = children
        spelled = {"==": "=", "<>": "!="}.get(op.text, op.text)
        return ast.Compare(cast("ast.CompareOp", spelled), left, right, span=span)

    def between(self, span: Span, children: Children) -> ast.Between:
        operand, low, high = _nodes(children)
        return ast.Between(operand, low, high, _has(children, "NOT"), span=span)

    def in_list(self, span: Span, children: Children) -> ast.InList:
        operand, *items = _nodes(children)
        return ast.InList(operand, tuple(items), _has(children, "NOT"), span=span)

    def like(self, span: Span, children: Children) -> ast.Like:
        operand, negation, form, pattern = children
        return ast.Like(operand, pattern, negation is not None, form.kind, span=span)

    def is_null(self, span: Span, children: Children) -> ast.IsNull:
        return ast.IsNull(children[0], _has(children, "NOT"), span=span)

    # arithmetic and indexing

    def binary(self, span: Span, children: Children) -> ast.Binary:
        left, op, right = children
        return ast.Binary(cast("ast.ArithmeticOp", op.text), left, right, span=span)

    def sign(self, span: Span, children: Children) -> ast.Unary | ast.Literal:
        op, operand = children[0].text, children[1]
        if op == "-" and isinstance(operand, ast.Literal) and _is_positive(operand.value):
            value = -cast("int | float", operand.value)
            if isinstance(value, int) and value < INT_MIN:
                raise self._too_large(str(value), span)
            return ast.Literal(value, span=span)
        return ast.Unary("-" if op == "-" else "+", operand, span=span)

    def index(self, span: Span, children: Children) -> ast.Index:
        operand, *items = children
        return ast.Index(operand, tuple(items), span=span)

    def slice(self, span: Span, children: Children) -> ast.Slice:
        start, stop, step = children
        return ast.Slice(start, stop, step, span=span)

    def group(self, _span: Span, children: Children) -> Any:
        return children[0]

    step = otherwise = member = alias = group

    def rest(self, span: Span, _children: Children) -> ast.Rest:
        return ast.Rest(span=span)

    # values

    def number(self, span: Span, children: Children) -> ast.Literal:
        written: str = children[0].text
        if len(written) > MAX_DIGITS:
            raise self.fail(f"a number of {len(written)} characters", span, "too long")
        if written.isdecimal():
            value = int(written)
            if value > UINT_MAX:
                raise self._too_large(written, span)
            return ast.Literal(value, span=span)
        real = float(written)
        if math.isinf(real):
            raise self.fail(f"{written} is beyond float64", span)
        return ast.Literal(real, span=span)

    def _too_large(self, written: str, span: Span) -> QuerySyntaxError:
        """Refuse an integer; a count has no other form, a value has that of a float."""
        real = float(written)
        hint = "" if math.isinf(real) else f"write it as a float, which rounds: {real!r}"
        if counted := _COUNTED.search(self._text[: span.start]):
            hint = COUNT_HINTS[counted[1].upper()]
        return self.fail(f"{written} does not fit in 64 bits", span, hint)

    def text(self, span: Span, children: Children) -> ast.Literal:
        return ast.Literal(_unquoted(children[0]), span=span)

    def true(self, span: Span, _children: Children) -> ast.Literal:
        return ast.Literal(value=True, span=span)

    def false(self, span: Span, _children: Children) -> ast.Literal:
        return ast.Literal(value=False, span=span)

    def null(self, span: Span, _children: Children) -> ast.Literal:
        return ast.Literal(None, span=span)

    def array(self, span: Span, children: Children) -> ast.Array:
        return ast.Array(_nodes(children), span=span)

    def parameter(self, span: Span, children: Children) -> ast.Parameter:
        return ast.Parameter(children[0].text[1:], span=span)

    def name(self, span: Span, children: Children) -> ast.Column:
        token: Token = children[0]
        is_quoted = token.kind == "QUOTED"
        name = token.text[1:-1].replace('""', '"') if is_quoted else token.text
        return ast.Column(name, span=span)

    bare = name

    def column(self, span: Span, children: Children) -> ast.Column:
        first, second = children
        return first if second is None else ast.Column(second.name, first.name, span=span)

    # calls

    def star(self, span: Span, _children: Children) -> ast.Star:
        return ast.Star(span=span)

    def named(self, span: Span, children: Children) -> ast.Named:
        return ast.Named(children[0].text.lower(), children[1], span=span)

    def weighted(self, span: Span, children: Children) -> ast.Weighted:
        return ast.Weighted(children[0], children[1], span=span)

    def call(self, span: Span, children: Children) -> ast.Call:
        name, *arguments = children
        args: list[ast.Expr | ast.Star | ast.Weighted] = []
        named: list[ast.Named] = []
        over: ast.Over | None = None
        condition: Condition | None = None
        for argument in _nodes(arguments):
            if isinstance(argument, ast.Over):
                over = argument
            elif isinstance(argument, Condition):
                condition = argument
            elif isinstance(argument, ast.Named):
                named.append(argument)
            elif args and _spells_axis(argument):  # Deep Lake's axis=0
                named.append(ast.Named("axis", argument.right, span=argument.span))
            elif named:
                raise self.fail("a positional argument after a named one", argument.span)
            else:
                args.append(argument)
        is_distinct = _has(arguments, "DISTINCT")
        if condition is not None:
            args[:1] = [self._filtered(name, args, named, condition)]
        return ast.Call(name.text.upper(), tuple(args), tuple(named), is_distinct, over, span=span)

    def filter(self, span: Span, children: Children) -> Condition:
        return Condition(children[0], span)

    def _filtered(
        self,
        name: Token,
        args: list[ast.Expr | ast.Star | ast.Weighted],
        named: list[ast.Named],
        condition: Condition,
    ) -> ast.Expr:
        """Return what an aggregate with FILTER is of: CASE WHEN condition THEN its argument END."""
        if name.text.upper() not in FILTERED or named or not args:
            hint = f"these take it: {', '.join(sorted(FILTERED))}"
            if name.text.upper() == "FIRST":
                hint = "ANY_VALUE takes the first value that is not NULL"
            raise self.fail(f"{name.text.upper()} takes no FILTER", condition.span, hint)
        given, span = args[0], condition.span
        if isinstance(given, ast.Weighted):
            raise self.fail("an aggregate takes no weights", given.span)
        counted = ast.Literal(1, span=given.span) if isinstance(given, ast.Star) else given
        return ast.Case(None, (ast.When(condition.expr, counted, span=span),), None, span=span)

    def over(self, span: Span, children: Children) -> ast.Over:
        return ast.Over(children[0], children[1], span=span)

    def partition(self, _span: Span, children: Children) -> tuple[ast.Expr, ...]:
        return tuple(children)

    def exists(self, span: Span, children: Children) -> ast.Exists:
        return ast.Exists(children[0].query, span=span)

    def in_query(self, span: Span, children: Children) -> ast.InQuery:
        operand, negation, query = children
        return ast.InQuery(operand, query.query, negation is not None, span=span)

    def case(self, span: Span, children: Children) -> ast.Case:
        operand, *whens, otherwise = children
        return ast.Case(operand, tuple(whens), otherwise, span=span)

    def when(self, span: Span, children: Children) -> ast.When:
        return ast.When(children[0], children[1], span=span)

    def date(self, span: Span, children: Children) -> ast.Moment:
        return ast.Moment(_unquoted(children[0]), span=span)

    def interval(self, span: Span, children: Children) -> ast.Interval:
        return ast.Interval(_unquoted(children[0]), span=span)

    def extract(self, span: Span, children: Children) -> ast.Extract:
        return ast.Extract(children[0].text.upper(), children[1], span=span)

    def cast(self, span: Span, children: Children) -> ast.Cast:
        return ast.Cast(children[0], children[1].text.lower(), span=span)


def _is_positive(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.copysign(1, value) > 0
    )


def _spells_axis(node: ast.Node) -> bool:
    return (
        isinstance(node, ast.Compare)
        and node.op == "="
        and node.left == ast.Column("axis")
        and isinstance(node.right, ast.Literal)
    )
