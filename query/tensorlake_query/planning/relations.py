"""What a query reads: the source it was asked of, other sources, queries, joins, set operations.

A relation is bound: its columns and their types are known. Names are resolved here: a column that
several tables of a join have can be said only as `table.name`, which is also what it is called in
the result of `SELECT *`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound
from tensorlake_query.values.source import ColumnSource, ColumnType

if TYPE_CHECKING:
    from tensorlake_query.binding.compile import Statement

Schema = Mapping[str, ColumnType]


class Names(Struct, frozen=True):
    """The columns that a clause sees, and how a qualified name finds its own.

    Attributes:
        schema: types by name, in order; a name that several tables have stands as `table.name`.
        qualified: (table, name) → name in the schema.
        ambiguous: names that several tables have → what to write instead.
        merged: (table, name) of columns that USING has merged into another that has more values.
    """

    schema: Schema
    qualified: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    merged: frozenset[tuple[str, str]] = frozenset()


class This(Struct, frozen=True):
    """The source that the query was asked of."""

    schema: Schema


class Other(Struct, frozen=True):
    """Another source."""

    name: str
    source: ColumnSource

    @property
    def schema(self) -> Schema:
        """Types of its columns."""
        return self.source.schema


class Derived(Struct, frozen=True, eq=False):
    """A query in FROM or WITH, run once however often it is named."""

    name: str
    statement: "Statement"

    @property
    def schema(self) -> Schema:
        """Types of its outputs."""
        return self.statement.columns


class Joined(Struct, frozen=True, eq=False):
    """Pairs of rows of two relations.

    Attributes:
        keys: pairs of expressions (left, right) that must be equal, over the two sides' own names.
        residual: what must also hold, over the joined names.
        merged: USING columns: joined name → (left name, right name), the first that is not NULL.
        sides: joined name → (0 for left or 1 for right, name there).
    """

    left: "Relation"
    right: "Relation"
    kind: ast.JoinKind
    keys: tuple[tuple[Bound, Bound], ...]
    residual: Bound | None
    merged: Mapping[str, tuple[str, str]]
    sides: Mapping[str, tuple[int, str]]
    schema: Schema
    condition: str


class Combined(Struct, frozen=True, eq=False):
    """UNION, INTERSECT or EXCEPT of two queries, by row identity or by value."""

    op: ast.SetOp
    keeps_all: bool
    left: "Statement"
    right: "Statement"
    by_identity: bool
    schema: Schema


Relation = This | Other | Derived | Joined | Combined


def base_of(relation: Relation) -> object | None:
    """Return what plain source the rows of a relation are rows of; None where of none."""
    match relation:
        case This():
            return "this"
        case Other(_, source):
            return id(source)
        case Derived(_, statement):
            return statement.base
        case Joined(left, right, kind):
            kept = {"FULL": None, "RIGHT": right}.get(kind, left)
            return None if kept is None else base_of(kept)
        case Combined(left=left, by_identity=by_identity):
            return left.base if by_identity else None
