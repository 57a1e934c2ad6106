"""Lark's tree to `ast` nodes: one method a grammar rule.

Lark calls the methods bottom-up without recursion; each gets the place in the text and its
children, already built (tokens of clause words are filtered by the grammar, an absent optional part
is None).
"""

import math
from typing import TYPE_CHECKING, Any, cast

from lark import Token, Transformer_NonRecursive, v_args
from lark.exceptions import VisitError

from tensorlake_query import ast
from tensorlake_query.ast import Span
from tensorlake_query.errors import QueryError, QuerySyntaxError

if TYPE_CHECKING:
    from lark.tree import Meta

MAX_DIGITS = 400  # no 64-bit number needs more; Python's own conversion is quadratic in them
INT_MIN, UINT_MAX = -(2**63), 2**64 - 1

# Lark's children are untyped at this border; each method knows from its grammar rule what it gets.
Children = list[Any]


def built(tree: object, text: str) -> ast.Node:
    """Return the node for Lark's tree of `text`.

    Raises:
        QuerySyntaxError: a part that the grammar admits but the language does not.
    """
    try:
        return cast("ast.Node", _Builder(text).transform(cast("Any", tree)))
    except VisitError as error:
        if isinstance(error.orig_exc, QueryError):
            raise error.orig_exc from None
        raise


def _span(meta: "Meta") -> Span:
    return Span(meta.start_pos, meta.end_pos) if not meta.empty else ast.NOWHERE


def _nodes(children: Children) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None and not isinstance(child, Token))


def _has(children: Children, kind: str) -> bool:
    return any(isinstance(child, Token) and child.type == kind for child in children)


@v_args(meta=True)
class _Builder(Transformer_NonRecursive[Any, Any]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def _fail(self, message: str, span: Span, hint: str = "") -> QuerySyntaxError:
        return QuerySyntaxError(message, text=self._text, span=span, hint=hint)

    # clauses

    def query(self, meta: "Meta", children: Children) -> ast.Query:
        explain, select, from_this, where, group, having, order, limit, offset = children
        return ast.Query(
            select=select,
            from_this=from_this,
            where=where,
            group_by=group,
            having=having,
            order_by=order,
            limit=limit,
            offset=offset,
            explain=explain is not None,
            span=_span(meta),
        )

    def predicate(self, _meta: "Meta", children: Children) -> ast.Expr:
        return children[0]

    def explain(self, _meta: "Meta", _children: Children) -> bool:
        return True

    def select_clause(self, _meta: "Meta", children: Children) -> tuple[ast.Output, ...]:
        return _nodes(children)

    def star_output(self, meta: "Meta", _children: Children) -> ast.Output:
        return ast.Output(ast.Star(span=_span(meta)), span=_span(meta))

    def output(self, meta: "Meta", children: Children) -> ast.Output:
        expr, alias = children
        return ast.Output(expr, alias.name if alias is not None else None, span=_span(meta))

    def from_clause(self, _meta: "Meta", children: Children) -> bool:
        return bool(children)

    def table(self, meta: "Meta", children: Children) -> bool:
        source = children[0]
        name = source.name if isinstance(source, ast.Column) else str(source)
        if name != "this":
            raise self._fail(
                f"FROM reads only 'this' for now, not {name!r}",
                _span(meta),
                "leave FROM out, and query that dataset instead",
            )
        return True

    def where_clause(self, _meta: "Meta", children: Children) -> ast.Expr | None:
        return children[0] if children else None

    having_clause = where_clause
    offset_clause = where_clause

    def group_clause(self, _meta: "Meta", children: Children) -> tuple[ast.Expr, ...]:
        return tuple(children)

    order_clause = group_clause

    def order_key(self, meta: "Meta", children: Children) -> ast.OrderKey:
        expr, direction, nulls = children
        return ast.OrderKey(expr, direction == "DESC", nulls == "FIRST", span=_span(meta))

    def direction(self, _meta: "Meta", children: Children) -> str:
        return str(children[0].type)

    nulls = direction

    def limit_clause(self, meta: "Meta", children: Children) -> ast.Limit | None:
        if not children:
            return None
        count, percent = children
        return ast.Limit(count, percent is not None, span=_span(meta))

    # logic

    def or_(self, meta: "Meta", children: Children) -> ast.Or:
        return ast.Or(tuple(children), span=_span(meta))

    def and_(self, meta: "Meta", children: Children) -> ast.And:
        return ast.And(tuple(children), span=_span(meta))

    def negation(self, meta: "Meta", children: Children) -> ast.Not:
        return ast.Not(children[1], span=_span(meta))

    def compare(self, meta: "Meta", children: Children) -> ast.Compare:
        left, op, right = children
        spelled = {"==": "=", "<>": "!="}.get(str(op), str(op))
        return ast.Compare(cast("ast.CompareOp", spelled), left, right, span=_span(meta))

    def between(self, meta: "Meta", children: Children) -> ast.Between:
        operand, low, high = _nodes(children)
        return ast.Between(operand, low, high, _has(children, "NOT"), span=_span(meta))

    def in_list(self, meta: "Meta", children: Children) -> ast.InList:
        operand, *items = _nodes(children)
        return ast.InList(operand, tuple(items), _has(children, "NOT"), span=_span(meta))

    def like(self, meta: "Meta", children: Children) -> ast.Like:
        operand, pattern = _nodes(children)
        negated, ignore_case = _has(children, "NOT"), _has(children, "ILIKE")
        return ast.Like(operand, pattern, negated, ignore_case, span=_span(meta))

    def is_null(self, meta: "Meta", children: Children) -> ast.IsNull:
        return ast.IsNull(children[0], _has(children, "NOT"), span=_span(meta))

    # arithmetic and indexing

    def binary(self, meta: "Meta", children: Children) -> ast.Binary:
        left, op, right = children
        return ast.Binary(cast("ast.ArithmeticOp", str(op)), left, right, span=_span(meta))

    def sign(self, meta: "Meta", children: Children) -> ast.Unary | ast.Literal:
        op, operand = children
        if op == "-" and isinstance(operand, ast.Literal) and _is_positive(operand.value):
            value = -cast("int | float", operand.value)
            if isinstance(value, int) and value < INT_MIN:
                raise self._fail(
                    f"{value} does not fit in 64 bits", _span(meta), "write it as 1e20"
                )
            return ast.Literal(value, span=_span(meta))
        return ast.Unary("-" if op == "-" else "+", operand, span=_span(meta))

    def index(self, meta: "Meta", children: Children) -> ast.Index:
        operand, *items = children
        return ast.Index(operand, tuple(items), span=_span(meta))

    def slice(self, meta: "Meta", children: Children) -> ast.Slice:
        start, stop, step = children
        return ast.Slice(start, stop, step, span=_span(meta))

    def slice_start(self, _meta: "Meta", children: Children) -> ast.Expr:
        return children[0]

    slice_stop = slice_step = case_operand = case_else = slice_start

    def rest(self, meta: "Meta", _children: Children) -> ast.Rest:
        return ast.Rest(span=_span(meta))

    # values

    def number(self, meta: "Meta", children: Children) -> ast.Literal:
        written = str(children[0])
        if len(written) > MAX_DIGITS:
            raise self._fail(f"a number of {len(written)} characters", _span(meta), "too long")
        if written.isdecimal():
            value = int(written)
            if value > UINT_MAX:
                raise self._fail(
                    f"{written} does not fit in 64 bits", _span(meta), "write it as 1e20"
                )
            return ast.Literal(value, span=_span(meta))
        real = float(written)
        if math.isinf(real):
            raise self._fail(f"{written} is beyond float64", _span(meta))
        return ast.Literal(real, span=_span(meta))

    def text(self, meta: "Meta", children: Children) -> ast.Literal:
        return ast.Literal(str(children[0])[1:-1].replace("''", "'"), span=_span(meta))

    def true(self, meta: "Meta", _children: Children) -> ast.Literal:
        return ast.Literal(value=True, span=_span(meta))

    def false(self, meta: "Meta", _children: Children) -> ast.Literal:
        return ast.Literal(value=False, span=_span(meta))

    def null(self, meta: "Meta", _children: Children) -> ast.Literal:
        return ast.Literal(None, span=_span(meta))

    def array(self, meta: "Meta", children: Children) -> ast.Array:
        return ast.Array(_nodes(children), span=_span(meta))

    def parameter(self, meta: "Meta", children: Children) -> ast.Parameter:
        return ast.Parameter(str(children[0])[1:], span=_span(meta))

    def name(self, meta: "Meta", children: Children) -> ast.Column:
        token: Token = children[0]
        written = str(token)
        name = written[1:-1].replace('""', '"') if token.type == "QUOTED" else written
        return ast.Column(name, span=_span(meta))

    def column(self, _meta: "Meta", children: Children) -> ast.Column:
        return children[0]

    # calls

    def star(self, meta: "Meta", _children: Children) -> ast.Star:
        return ast.Star(span=_span(meta))

    def named(self, meta: "Meta", children: Children) -> ast.Named:
        return ast.Named(str(children[0]).lower(), children[1], span=_span(meta))

    def call(self, meta: "Meta", children: Children) -> ast.Call:
        name, *arguments = children
        args: list[ast.Expr | ast.Star] = []
        named: list[ast.Named] = []
        for argument in _nodes(arguments):
            if isinstance(argument, ast.Named):
                named.append(argument)
            elif args and _spells_axis(argument):  # Deep Lake's axis=0
                named.append(ast.Named("axis", argument.right, span=argument.span))
            elif named:
                raise self._fail("a positional argument after a named one", argument.span)
            else:
                args.append(argument)
        return ast.Call(str(name).upper(), tuple(args), tuple(named), span=_span(meta))

    def case(self, meta: "Meta", children: Children) -> ast.Case:
        operand, *whens, otherwise = children
        return ast.Case(operand, tuple(whens), otherwise, span=_span(meta))

    def when(self, meta: "Meta", children: Children) -> ast.When:
        return ast.When(children[0], children[1], span=_span(meta))

    def cast(self, meta: "Meta", children: Children) -> ast.Cast:
        return ast.Cast(children[0], str(children[1]).lower(), span=_span(meta))


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
