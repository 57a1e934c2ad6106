"""Nodes: expressions, and the clauses and statements around them; one frozen class per form.

Nodes are msgspec structs, since half a hundred dataclasses take longer to define than most queries
to run. Two are equal when all but their spans is.
"""

from typing import Literal as OneOf

from msgspec import Struct

JoinKind = OneOf["INNER", "LEFT", "RIGHT", "FULL", "CROSS"]
VersionKind = OneOf["VERSION", "TAG", "AS OF"]
SetOp = OneOf["UNION", "INTERSECT", "EXCEPT"]
Scalar = None | bool | int | float | str
ArithmeticOp = OneOf["+", "-", "*", "/", "//", "%", "^", "||"]
CompareOp = OneOf["=", "!=", "<", "<=", ">", ">="]
PatternForm = OneOf["LIKE", "ILIKE", "GLOB", "REGEXP"]


class Span(Struct, frozen=True):
    """Characters `start` … `stop` − 1 of the query text."""

    start: int
    stop: int


NOWHERE = Span(0, 0)


class Node(Struct, frozen=True, kw_only=True, eq=False):
    """Something written in a query."""

    span: Span = NOWHERE

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in parts_of(self))

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in parts_of(self))))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in parts_of(self))
        return f"{type(self).__name__}({shown})"


def parts_of(node: Node) -> tuple[str, ...]:
    """Return the names of a node's fields but its span."""
    return tuple(name for name in node.__struct_fields__ if name != "span")


class Literal(Node, frozen=True):
    """A number, text, true, false or null."""

    value: Scalar


class Moment(Node, frozen=True):
    """`DATE '2026-01-01'`, `TIMESTAMP '2026-01-01 12:00'`."""

    text: str


class Interval(Node, frozen=True):
    """`INTERVAL '7 days'`."""

    text: str


class Extract(Node, frozen=True):
    """`EXTRACT(part FROM operand)`; the part is kept in upper case."""

    part: str
    operand: "Expr"


class Array(Node, frozen=True):
    """`ARRAY[1, 2]`, `[[1, 2], [3, 4]]`."""

    items: "tuple[Expr, ...]"


class Column(Node, frozen=True):
    """A tensor of the source, `table.name` where there are several, or an alias of SELECT."""

    name: str
    table: str | None = None


class Parameter(Node, frozen=True):
    """`$name`: a value given beside the text."""

    name: str


class Unary(Node, frozen=True):
    """`-x`, `+x`."""

    op: OneOf["-", "+"]
    operand: "Expr"


class Binary(Node, frozen=True):
    """Arithmetic, or `||` on text."""

    op: ArithmeticOp
    left: "Expr"
    right: "Expr"


class Compare(Node, frozen=True):
    """`left op right`."""

    op: CompareOp
    left: "Expr"
    right: "Expr"


class And(Node, frozen=True):
    """All of two or more conditions."""

    items: "tuple[Expr, ...]"


class Or(Node, frozen=True):
    """Any of two or more conditions."""

    items: "tuple[Expr, ...]"


class Not(Node, frozen=True):
    """`NOT operand`."""

    operand: "Expr"


class Between(Node, frozen=True):
    """`operand [NOT] BETWEEN low AND high`, both ends included."""

    operand: "Expr"
    low: "Expr"
    high: "Expr"
    negated: bool = False


class InList(Node, frozen=True):
    """`operand [NOT] IN (items)`; an item may be a parameter that holds a list."""

    operand: "Expr"
    items: "tuple[Expr, ...]"
    negated: bool = False


class IsNull(Node, frozen=True):
    """`operand IS [NOT] NULL`."""

    operand: "Expr"
    negated: bool = False


class Like(Node, frozen=True):
    """`operand [NOT] LIKE pattern`; ILIKE ignores case, GLOB and REGEXP have other patterns."""

    operand: "Expr"
    pattern: "Expr"
    negated: bool = False
    form: PatternForm = "LIKE"


class When(Node, frozen=True):
    """One arm of a CASE."""

    condition: "Expr"
    result: "Expr"


class Case(Node, frozen=True):
    """`CASE [operand] WHEN … THEN … [ELSE …] END`."""

    operand: "Expr | None"
    whens: tuple[When, ...]
    otherwise: "Expr | None"


class Cast(Node, frozen=True):
    """`CAST(operand AS type_name)`."""

    operand: "Expr"
    type_name: str


class Slice(Node, frozen=True):
    """`start:stop:step` between brackets."""

    start: "Expr | None" = None
    stop: "Expr | None" = None
    step: "Expr | None" = None


class Rest(Node, frozen=True):
    """`...` between brackets: as many whole dimensions as are left."""


class Index(Node, frozen=True):
    """`operand[items]`: NumPy basic indexing, or a member of a JSON value."""

    operand: "Expr"
    items: "tuple[Expr | Slice | Rest, ...]"


class Named(Node, frozen=True):
    """`name => value` in a call."""

    name: str
    value: "Expr"


class Star(Node, frozen=True):
    """`*` as a SELECT item or in `COUNT(*)`."""


class Weighted(Node, frozen=True):
    """`condition: weight` in MAX_WEIGHT and SUM_WEIGHT."""

    condition: "Expr"
    weight: "Expr"


class Over(Node, frozen=True):
    """`OVER (PARTITION BY … ORDER BY …)`: the rows that a window function looks at."""

    partition_by: "tuple[Expr, ...]" = ()
    order_by: "tuple[OrderKey, ...]" = ()


class Call(Node, frozen=True):
    """A function; its name is kept in upper case."""

    name: str
    args: "tuple[Expr | Star | Weighted, ...]"
    named: tuple[Named, ...] = ()
    distinct: bool = False
    over: Over | None = None


class Subquery(Node, frozen=True):
    """`(SELECT …)` as one value: that of its one column in its one row."""

    query: "Statement"


class Exists(Node, frozen=True):
    """`EXISTS (SELECT …)`: has it any row."""

    query: "Statement"


class InQuery(Node, frozen=True):
    """`operand [NOT] IN (SELECT …)`."""

    operand: "Expr"
    query: "Statement"
    negated: bool = False


Expr = (
    Literal | Array | Column | Parameter | Unary | Binary | Compare | And | Or | Not
    | Between | InList | IsNull | Like | Case | Cast | Index | Call | Moment | Interval | Extract
    | Subquery | Exists | InQuery
)  # fmt: skip


Count = Literal | Parameter


class Output(Node, frozen=True):
    """`expr [AS alias]` in a SELECT list; of `a.*` the table is a."""

    expr: Expr | Star
    alias: str | None = None
    table: str | None = None


class OrderKey(Node, frozen=True):
    """`[APPROX] expr [ASC|DESC] [NULLS FIRST|LAST]`."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False
    is_approximate: bool = False


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
