"""Clauses and statements: what stands around the expressions."""

from typing import Literal as OneOf

from tensorlake_query.syntax.ast.expressions import (
    Column,
    Expr,
    Literal,
    Node,
    Parameter,
    Star,
    Subquery,
)

JoinKind = OneOf["INNER", "LEFT", "RIGHT", "FULL", "CROSS"]
VersionKind = OneOf["VERSION", "TAG", "AS OF"]
SetOp = OneOf["UNION", "INTERSECT", "EXCEPT"]
Count = Literal | Parameter


class Output(Node, frozen=True):
    """`expr [AS alias]` in a SELECT list; of `a.*` the table is a."""

    expr: Expr | Star
    alias: str | None = None
    table: str | None = None


class OrderKey(Node, frozen=True):
    """`expr [ASC|DESC] [NULLS FIRST|LAST]`."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False


class Limit(Node, frozen=True):
    """`LIMIT count` or `LIMIT count PERCENT`."""

    count: Count
    percent: bool = False


class Version(Node, frozen=True):
    """`VERSION 'main@12'`, `TAG 'v1'`, `AS OF '2026-01-01'`."""

    kind: VersionKind
    value: Count


class Table(Node, frozen=True):
    """A source: a name (a bare one, or a URL in quotes), a parameter, or a query."""

    source: Column | Parameter | Subquery
    version: Version | None = None
    alias: str | None = None


class Join(Node, frozen=True):
    """`left … JOIN right ON condition`, or `USING (names)`."""

    left: "Table | Join"
    right: Table
    kind: JoinKind
    on: Expr | None = None
    using: tuple[str, ...] = ()


class Distinct(Node, frozen=True):
    """`DISTINCT`, or `DISTINCT ON (exprs)`."""

    on: tuple[Expr, ...] = ()


class Expand(Node, frozen=True):
    """`EXPAND BY before after [OVERLAP bool]`: rows around each row."""

    before: Count
    after: Count
    overlap: Count | None = None


class Sample(Node, frozen=True):
    """`SAMPLE BY weight [REPLACE bool] [SEED n]`."""

    weight: Expr
    replace: Count | None = None
    seed: Count | None = None


class CommonTable(Node, frozen=True):
    """`name AS (query)` of a WITH clause."""

    name: str
    query: "Statement"


class Query(Node, frozen=True):
    """One SELECT; an empty `select` means that it was left out, which is `SELECT *`."""

    select: tuple[Output, ...] = ()
    distinct: Distinct | None = None
    source: Table | Join | None = None
    where: Expr | None = None
    expand: Expand | None = None
    group_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    ungroup_by: tuple[Expr, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    arrange_by: tuple[Expr, ...] = ()
    sample: Sample | None = None
    limit: Limit | None = None
    offset: Count | None = None
    tables: tuple[CommonTable, ...] = ()
    explain: bool = False
    analyze: bool = False


class SetQuery(Node, frozen=True):
    """`left UNION|INTERSECT|EXCEPT [ALL] right`, and what orders and cuts the whole."""

    op: SetOp
    left: "Statement"
    right: "Statement"
    keeps_all: bool = False
    order_by: tuple[OrderKey, ...] = ()
    arrange_by: tuple[Expr, ...] = ()
    sample: Sample | None = None
    limit: Limit | None = None
    offset: Count | None = None
    tables: tuple[CommonTable, ...] = ()
    explain: bool = False
    analyze: bool = False


Statement = Query | SetQuery


class Assignment(Node, frozen=True):
    """`name = expr` of an UPDATE."""

    name: str
    value: Expr


class Update(Node, frozen=True):
    """`UPDATE this SET name = expr, … [WHERE condition]`."""

    table: Column
    assignments: tuple[Assignment, ...]
    where: Expr | None = None


class Delete(Node, frozen=True):
    """`DELETE FROM this [WHERE condition]`."""

    table: Column
    where: Expr | None = None


class Insert(Node, frozen=True):
    """`INSERT INTO this [(names)] SELECT …`."""

    table: Column
    names: tuple[Column, ...]
    query: Statement


Change = Update | Delete | Insert
