"""Grammar rules to `ast` nodes: clauses, statements, changes."""

# ruff: noqa: D102  a method is the grammar rule of its name

from typing import Any, cast

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.ast import Span
from tensorlake_query.syntax.ast_builder import Children, ExpressionBuilder, Token

_NO_TAIL = (
    (),
    (),
    None,
    None,
    None,
)  # ORDER BY, ARRANGE BY, SAMPLE BY, LIMIT, OFFSET, all left out
_NOTHING = ast.Table(ast.Column(""))  # stands for the left side of a join until it is known


class StatementBuilder(ExpressionBuilder):
    """Makes the nodes of statements."""

    def query(self, span: Span, children: Children) -> ast.Statement:
        explain, *parts = children
        made = self._whole(span, parts)
        if explain is None:
            return made
        is_analyze = explain == "ANALYZE"
        return ast.with_fields(made, explain=True, analyze=is_analyze, span=span)

    def nested(self, span: Span, children: Children) -> ast.Subquery:
        return ast.Subquery(self._whole(span, children), span=span)

    subquery = nested

    def _whole(self, span: Span, children: Children) -> ast.Statement:
        """Return a query with its WITH and with what orders and cuts the whole of it."""
        tables, body, *tail = children
        if isinstance(body, ast.Subquery):  # (SELECT …): its own clauses go first
            if (*tail,) == _NO_TAIL and not tables:
                return body.query
            body = ast.Query(source=ast.Table(body, span=body.span), span=span)
        order_by, arrange_by, sample, limit, offset = tail
        if limit is not None and body.limit is not None:
            raise self.fail("TOP and LIMIT say the same twice", limit.span, "write LIMIT alone")
        return ast.with_fields(
            body,
            tables=tables,
            order_by=order_by,
            arrange_by=arrange_by,
            sample=sample,
            limit=body.limit if limit is None else limit,
            offset=offset,
            span=span,
        )

    def predicate(self, _span: Span, children: Children) -> ast.Expr:
        return children[0]

    def explain(self, _span: Span, children: Children) -> str:
        return "EXPLAIN" if children[0] is None else "ANALYZE"

    def with_clause(self, _span: Span, children: Children) -> tuple[ast.CommonTable, ...]:
        return tuple(children)

    def cte(self, span: Span, children: Children) -> ast.CommonTable:
        return ast.CommonTable(children[0].name, children[1].query, span=span)

    def set_operation(self, span: Span, children: Children) -> ast.SetQuery:
        left, op, keeps_all, right = children
        return ast.SetQuery(
            cast("ast.SetOp", op.kind),
            _statement(left),
            _statement(right),
            keeps_all is not None,
            span=span,
        )

    def core(self, span: Span, children: Children) -> ast.Query:
        select, source, where, expand, group_by, having, ungroup_by = children
        outputs, distinct, top = ((), None, None) if select is None else select
        return ast.Query(
            outputs,
            distinct,
            source,
            where,
            expand,
            group_by,
            having,
            ungroup_by,
            limit=None if top is None else ast.Limit(top, span=top.span),
            span=span,
        )

    # SELECT

    def select_clause(self, _span: Span, children: Children) -> object:
        top, distinct, *outputs = children
        return tuple(outputs), distinct, top

    def top(self, _span: Span, children: Children) -> ast.Count:
        return children[0]

    def distinct(self, span: Span, children: Children) -> ast.Distinct:
        return ast.Distinct(children[1] or (), span=span)

    def distinct_on(self, _span: Span, children: Children) -> tuple[ast.Expr, ...]:
        return tuple(children)

    def star_output(self, span: Span, children: Children) -> ast.Output:
        table = children[0].name if len(children) > 1 else None
        return ast.Output(ast.Star(span=span), None, table, span=span)

    def output(self, span: Span, children: Children) -> ast.Output:
        expr, alias = children
        return ast.Output(expr, alias.name if alias is not None else None, span=span)

    # FROM

    def from_clause(self, _span: Span, children: Children) -> ast.Table | ast.Join | None:
        if not children:
            return None
        source, *joined = children
        for join in joined:
            source = ast.with_fields(
                join, left=source, span=Span(source.span.start, join.span.stop)
            )
        return source

    def source(self, span: Span, children: Children) -> ast.Table:
        table, version, alias = children
        if isinstance(table, ast.Literal):
            table = ast.Column(str(table.value), span=table.span)
        return ast.Table(table, version, None if alias is None else alias.name, span=span)

    def unnest(self, span: Span, children: Children) -> ast.Table:
        """Return the query that UNNEST is short for: (FROM source UNGROUP BY columns)."""
        source, *columns, alias = children
        query = ast.Query(source=source, ungroup_by=tuple(columns), span=span)
        name = None if alias is None else alias.name
        return ast.Table(ast.Subquery(query, span=span), None, name, span=span)

    def version(self, span: Span, children: Children) -> ast.Version:
        kind, value = children
        named = "AS OF" if kind.kind == "AS_OF" else kind.kind
        return ast.Version(cast("ast.VersionKind", named), value, span=span)

    def comma_join(self, span: Span, children: Children) -> ast.Join:
        return ast.Join(_NOTHING, children[0], "CROSS", span=span)

    def joined(self, span: Span, children: Children) -> ast.Join:
        kind, right, condition = children
        word = cast("ast.JoinKind", "INNER" if kind is None else kind)
        if word == "CROSS" and condition is not None:
            raise self.fail("CROSS JOIN takes every pair", span, "write JOIN … ON condition")
        if word != "CROSS" and condition is None:
            hint = "write ON a.id = b.id, USING (id), or CROSS JOIN"
            raise self.fail(f"{word} JOIN needs a condition", span, hint)
        if isinstance(condition, tuple):
            return ast.Join(_NOTHING, right, word, None, cast("Any", condition), span=span)
        return ast.Join(_NOTHING, right, word, condition, span=span)

    def on(self, _span: Span, children: Children) -> ast.Expr:
        return children[0]

    def using(self, _span: Span, children: Children) -> tuple[str, ...]:
        return tuple(child.name for child in children)

    # the other clauses

    def where_clause(self, _span: Span, children: Children) -> ast.Expr | None:
        return children[0] if children else None

    having_clause = offset_clause = where_clause

    def expand_clause(self, span: Span, children: Children) -> ast.Expand | None:
        if not children:
            return None
        before, after, overlap = children
        return ast.Expand(before, before if after is None else after, overlap, span=span)

    def overlap(self, _span: Span, children: Children) -> ast.Count:
        return children[0]

    replace = seed = overlap

    def group_clause(self, _span: Span, children: Children) -> tuple[ast.Expr, ...]:
        return tuple(children)

    order_clause = ungroup_clause = arrange_clause = group_clause

    def order_key(self, span: Span, children: Children) -> ast.OrderKey:
        approx, expr, direction, nulls = children
        is_approx = approx is not None
        return ast.OrderKey(expr, direction == "DESC", nulls == "FIRST", is_approx, span=span)

    def direction(self, _span: Span, children: Children) -> str:
        token: Token = children[0]
        return token.kind

    nulls = join_kind = direction

    def sample_clause(self, span: Span, children: Children) -> ast.Sample | None:
        return ast.Sample(*children, span=span) if children else None

    def limit_clause(self, span: Span, children: Children) -> ast.Limit | None:
        if not children or isinstance(children[0], Token):  # LIMIT ALL
            return None
        count, percent = children
        return ast.Limit(count, percent is not None, span=span)

    # changes

    def change(self, _span: Span, children: Children) -> ast.Change:
        return children[0]

    def update(self, span: Span, children: Children) -> ast.Update:
        table, *assignments, where = children
        return ast.Update(table, tuple(assignments), where, span=span)

    def assignment(self, span: Span, children: Children) -> ast.Assignment:
        name, sign, value = children
        if sign.text != "=":
            raise self.fail(f"unexpected {sign.text!r}", sign.span, "write SET name = value")
        return ast.Assignment(name.name, value, span=span)

    def delete(self, span: Span, children: Children) -> ast.Delete:
        return ast.Delete(children[0], children[1], span=span)

    def insert(self, span: Span, children: Children) -> ast.Insert:
        table, *names, query = children
        columns = tuple(name for name in names if name is not None)
        return ast.Insert(table, columns, query.query, span=span)


def _statement(term: ast.Statement | ast.Subquery) -> ast.Statement:
    return term.query if isinstance(term, ast.Subquery) else term
