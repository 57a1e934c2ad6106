"""Bound expressions: names resolved, types known, functions chosen.

    ColumnRef   a column of the source (or a slot of an aggregation)
    CodesRef    a label column's codes, as narrow as the source keeps them
    ShapeRef    a column's sample shapes, which a source gives without decoding
    PartRef     a region of a column's samples, or their distinct elements
    RowNumber   the row's number in the source
    Constant    a value
    DataRef     a column's sample at another row
    QueryRef    what a query in parentheses gives, found once a run
    CorpusRef   what a ranking needs to know of all texts, found once a run
    Apply       a kernel over arguments

An `Apply` keeps the syntax it came from, so that plans and errors can show it. Its arguments line
up with `ast.operands(syntax)`; with no syntax it is a conversion the binder added, and shows as its
only argument. These, and a plan's steps, are msgspec structs for the reason that syntax trees are
(`ast/nodes.py`): they are defined at the first query.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from msgspec import Struct, structs

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.printer import print_expr
from tensorlake_query.values.source import ColumnType, Region
from tensorlake_query.values.types import INT, TEXT
from tensorlake_query.values.vectors import Vector

# Rows a kernel is asked about come as vectors of one length, given again as a number for kernels of
# no argument.
Kernel = Callable[[Sequence[Vector], int], Vector]


class ColumnRef(Struct, frozen=True, eq=False):
    """A column, read for exactly the rows that are asked about.

    `slot` is its number among the keys and aggregates of a group, if it is one of these.
    """

    name: str
    type: ColumnType
    syntax: ast.Expr
    slot: int | None = None


class CodesRef(Struct, frozen=True, eq=False):
    """A label column where only its codes matter, not their dtype.

    `syntax` is the column, or the whole condition that is looked up by its codes.
    """

    name: str
    type: ColumnType
    syntax: ast.Expr


class ShapeRef(Struct, frozen=True, eq=False):
    """`SHAPE(column)`: nothing is decoded."""

    name: str
    type: ColumnType
    syntax: ast.Expr


class PartRef(Struct, frozen=True, eq=False):
    """A column stored in parts, of which an expression does not need all.

    `region` indexes each sample as NumPy does; None stands for the distinct elements of each, with
    as many axes as the sample. `whole` is the same of whole samples, for sources without parts.
    """

    name: str
    region: Region | None
    whole: "Bound"

    @property
    def type(self) -> ColumnType:
        """The type of the region, or of the column."""
        return self.whole.type

    @property
    def syntax(self) -> ast.Expr:
        """The index, or the column."""
        return syntax_of(self.whole)


class RowNumber(Struct, frozen=True, eq=False):
    """`ROW_NUMBER()`; or `_row`, the row's number in the version that is queried, `is_stored`."""

    type: ColumnType
    syntax: ast.Expr
    is_stored: bool = False


class RowId(Struct, frozen=True, eq=False):
    """`ROW_ID()`: the row's identity, where the source gives one."""

    type: ColumnType
    syntax: ast.Expr


class RowSource(Struct, frozen=True, eq=False):
    """`_source`: the item that the row was ingested from."""

    type: ColumnType
    syntax: ast.Expr


class Constant(Struct, frozen=True, eq=False):
    """One value for all rows: a scalar, an ndarray, or None.

    A `weak` number was written without a dtype (a literal, a Python number): it takes the dtype of
    what it meets, so that `score = 0.05` finds the float32 nearest to 0.05.
    """

    value: object
    type: ColumnType
    syntax: ast.Expr
    weak: bool = True


class DataRef(Struct, frozen=True, eq=False):
    """`DATA(column, row)`: NULL where there is no such row; negative rows count from the end."""

    name: str
    row: "Bound"
    type: ColumnType
    syntax: ast.Expr


class QueryRef(Struct, frozen=True, eq=False):
    """A query inside an expression, which does not see the rows around it.

    `use` selects the result: its one value, whether it has a row, or the values it has.
    """

    statement: Any  # a Statement, whose plan is made of these very nodes
    use: Literal["value", "exists", "members"]
    type: ColumnType
    syntax: ast.Expr


class CorpusRef(Struct, frozen=True, eq=False):
    """The statistics of all texts of the source that a ranking needs, computed once per run."""

    texts: "Bound"
    words: tuple[str, ...]
    syntax: ast.Expr

    @property
    def type(self) -> ColumnType:
        """It is not a value of a query; it passes as one of the kernel's arguments."""
        return ColumnType("json", None, ())


class Apply(Struct, frozen=True, eq=False):
    """A kernel over arguments.

    A strict kernel is NULL where any argument is; the evaluator sees to it. `cost` is relative to
    one arithmetic operation on one element. `role` lets a rule recognise what it rewrites ("and",
    "compare", …).
    """

    kernel: Kernel
    args: "tuple[Bound, ...]"
    type: ColumnType
    syntax: ast.Expr | None
    strict: bool = True
    cost: float = 1.0
    role: str = ""


Bound = (
    ColumnRef | CodesRef | ShapeRef | PartRef | RowNumber | RowId | RowSource | Constant | DataRef
    | QueryRef | CorpusRef | Apply
)  # fmt: skip


def walk_bound(expr: Bound) -> Iterator[Bound]:
    """Yield `expr` and everything inside it."""
    stack: list[Bound] = [expr]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, Apply):
            stack.extend(current.args)
        elif isinstance(current, DataRef):
            stack.append(current.row)


def is_placed(expr: Bound) -> bool:
    """Return whether an expression depends on a row's place in its source, or on other rows."""
    return any(
        isinstance(node, DataRef | CorpusRef)
        or (isinstance(node, RowNumber) and not node.is_stored)
        for node in walk_bound(expr)
    )


def columns_of(expr: Bound) -> frozenset[str]:
    """Return the columns whose samples the expression reads."""
    return frozenset(
        node.name for node in walk_bound(expr) if isinstance(node, ColumnRef | CodesRef | PartRef)
    )


# What every row has beside its tensors, where no tensor or alias has the name.
ROW_COLUMNS: Mapping[str, Callable[[ast.Expr], Bound]] = {
    "_row": lambda syntax: RowNumber(INT, syntax, is_stored=True),
    "_row_id": lambda syntax: RowId(TEXT, syntax),
    "_source": lambda syntax: RowSource(replace(TEXT, nullable=True), syntax),
}


def joined_row_column(table: str, name: str) -> str:
    """Return what a join names a row column of one of its tables; no other column has the name."""
    return f"#{table}.{name}"


def is_joined_row_column(expr: Bound) -> bool:
    """Return whether an expression is a row column of one table of a join."""
    if not isinstance(expr, ColumnRef) or not isinstance(expr.syntax, ast.Column):
        return False
    written = expr.syntax
    return expr.name == joined_row_column(written.table or "", written.name)


def renamed(expr: Bound, names: Mapping[str, str]) -> Bound:
    """Return an expression with its columns under the names that a side of their join has.

    Samples at other rows have none. A row column is the side's own, where the side is its table.
    """
    match expr:
        case Apply():
            return structs.replace(expr, args=tuple(renamed(arg, names) for arg in expr.args))
        case ColumnRef() if is_joined_row_column(expr) and names[expr.name] in ROW_COLUMNS:
            return ROW_COLUMNS[names[expr.name]](expr.syntax)
        case ColumnRef() | CodesRef() | ShapeRef():
            return structs.replace(expr, name=names[expr.name])
        case PartRef():
            return PartRef(names[expr.name], expr.region, renamed(expr.whole, names))
        case _:
            return expr


def syntax_of(expr: Bound) -> ast.Expr:
    """Return the syntax that a bound expression stands for now, after any rewriting."""
    if not isinstance(expr, Apply):
        return expr.syntax
    if expr.syntax is None:
        return syntax_of(expr.args[0])
    return ast.with_operands(expr.syntax, map(syntax_of, expr.args))


def show(expr: Bound) -> str:
    """Return the text of a bound expression."""
    return print_expr(syntax_of(expr))


def span_of(expr: Bound) -> ast.Span:
    """Return where in the query an expression is written."""
    while isinstance(expr, Apply):
        if expr.syntax is not None:
            return expr.syntax.span
        expr = expr.args[0]
    return expr.syntax.span
