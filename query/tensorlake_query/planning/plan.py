"""The logical plan: what a query does, as a chain of small steps over a relation.

    Scan      rows 0 … n − 1 in order, without zones that cannot match; reads `columns` of each row
    Nothing   no row: a condition is known to be false
    Filter    keeps the rows where a condition is true
    Expand    adds the rows before and after each
    Aggregate one row a group (or one in all); its slots are columns named '#0', '#1', …
    Ungroup   one row for each element of some columns
    Window    puts values beside the rows, as columns '#w0', '#w1', …
    Sort      orders rows; TopK keeps only the first `count` while it does
    Distinct  keeps the first of the rows that are equal
    Arrange   interleaves groups
    Sample    draws rows at random
    Limit     cuts out a range of rows
    Project   the outputs

A relation is where its rows come from: the source that the query reads, other sources, queries,
joins and set operations. It is bound: its columns and their types are known. A column that several
tables of a join have is named `table.name`, also in the result of `SELECT *`.

Rules rewrite plans; `planning/explain.py` prints one, the last step first.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field, structs

from tensorlake_query.functions.aggregate.aggregates import AggregateCall
from tensorlake_query.functions.window.windows import WindowCall
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, ColumnRef
from tensorlake_query.values.order import SortKey
from tensorlake_query.values.source import ColumnSource, ColumnType, IndexOperator

Schema = Mapping[str, ColumnType]


class Names(Struct, frozen=True):
    """The columns that a clause sees, and how a qualified name finds its own.

    Attributes:
        schema: types by name, in order; a name that several tables have appears as `table.name`.
        qualified: (table, name) → name in the schema.
        ambiguous: names that several tables have → what to write instead.
        merged: (table, name) of columns that USING has merged into another that has more values.
        rows: types of the row columns of the tables of a join, which `*` does not select.
    """

    schema: Schema
    qualified: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    merged: frozenset[tuple[str, str]] = frozenset()
    rows: Schema = field(default_factory=dict[str, ColumnType])


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
        sides: joined name → (0 for left or 1 for right, name there), of columns and row columns.
        rows: types of the row columns of its tables, such as `a._row`, by their joined names.
    """

    left: "Relation"
    right: "Relation"
    kind: ast.JoinKind
    keys: tuple[tuple[Bound, Bound], ...]
    residual: Bound | None
    merged: Mapping[str, tuple[str, str]]
    sides: Mapping[str, tuple[int, str]]
    schema: Schema
    rows: Schema
    condition: str


class Combined(Struct, frozen=True, eq=False):
    """UNION, INTERSECT or EXCEPT of two queries, by row identity or by value."""

    op: ast.SetOp
    keeps_all: bool
    left: "Statement"
    right: "Statement"
    by_identity: bool
    schema: Schema


class Filtered(Struct, frozen=True, eq=False):
    """The rows of a side of a join that meet conditions: a chain of filters over its scan."""

    plan: "Filter"

    @property
    def relation(self) -> "Relation":
        """The relation of the rows."""
        *_, scan = chain(self.plan)
        assert isinstance(scan, Scan), "a side is filtered from its scan up"
        return scan.relation

    @property
    def schema(self) -> Schema:
        """Types of its columns."""
        return self.relation.schema


Relation = This | Other | Derived | Joined | Combined | Filtered


class Output(Struct, frozen=True, eq=False):
    """A result column."""

    name: str
    expr: Bound

    @property
    def type(self) -> ColumnType:
        """The type of the column's values."""
        return self.expr.type


class Question(Struct, frozen=True, eq=False):
    """A condition of one column, as an index of that column is asked about it.

    Attributes:
        condition: the condition.
        column: the column.
        path: keys of objects; of a JSON column only the values under them are looked at.
        op: how the column is compared with `values`.
        values: constants.
        is_fixed: whether it depends on the sample alone, and not on the answer of a query.
    """

    condition: Bound
    column: str
    path: tuple[str, ...]
    op: IndexOperator
    values: tuple[object, ...]
    is_fixed: bool


class Lookup(Struct, frozen=True, eq=False):
    """A condition that is true of the rows of which all questions of any alternative are.

    Attributes:
        condition: the condition.
        alternatives: itself, or the operands of its OR; each one question, or those joined by AND.
    """

    condition: Bound
    alternatives: tuple[tuple[Question, ...], ...]

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        return tuple(question for each in self.alternatives for question in each)


class Scan(Struct, frozen=True, eq=False):
    """All rows of the relation that the zone maps cannot rule out.

    Attributes:
        columns: read of every row before any step asks; none after optimization (`read_late`).
        prunable: conditions above it that zone maps can answer.
        lookups: conditions above it that indexes can answer, if the source has them.
        relation: what its rows are of.
    """

    columns: tuple[str, ...]
    prunable: tuple[Bound, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    relation: Relation = field(default_factory=lambda: This({}))


class Nothing(Struct, frozen=True, eq=False):
    """No rows of the relation."""

    relation: Relation = field(default_factory=lambda: This({}))


class Filter(Struct, frozen=True, eq=False):
    """The rows where `predicate` is true (not false, not NULL)."""

    input: "Plan"
    predicate: Bound


class Aggregate(Struct, frozen=True, eq=False):
    """One row for each distinct `keys`, in order of first appearance; without keys one row."""

    input: "Plan"
    keys: tuple[Bound, ...]
    calls: tuple[AggregateCall, ...]


class Expand(Struct, frozen=True, eq=False):
    """Each row with `before` rows before it and `after` after it; once each, unless overlapping."""

    input: "Plan"
    before: int
    after: int
    overlaps: bool


class Ungroup(Struct, frozen=True, eq=False):
    """One row for each element of `split` columns (name → type of an element); others repeat."""

    input: "Plan"
    split: Mapping[str, ColumnType]
    columns: tuple[Bound, ...]  # the split columns, as they were


class Window(Struct, frozen=True, eq=False):
    """The same rows, with what window functions say of them."""

    input: "Plan"
    calls: tuple[WindowCall, ...]


class Distinct(Struct, frozen=True, eq=False):
    """The first of the rows with equal values."""

    input: "Plan"
    exprs: tuple[Bound, ...]


class Arrange(Struct, frozen=True, eq=False):
    """Rows in an order that spreads the rows of each group evenly; within a group as they came."""

    input: "Plan"
    keys: tuple[Bound, ...]


class Sample(Struct, frozen=True, eq=False):
    """Rows drawn at random by weight: `count` of them, or `percent`, or as many as there are."""

    input: "Plan"
    weight: Bound
    replace: bool
    seed: int
    count: int | None
    percent: float | None


class Sort(Struct, frozen=True, eq=False):
    """Rows in order, ties as they came."""

    input: "Plan"
    keys: tuple[SortKey, ...]


class TopK(Struct, frozen=True, eq=False):
    """The first `count` rows of an order, without keeping the others."""

    input: "Plan"
    keys: tuple[SortKey, ...]
    count: int


class Limit(Struct, frozen=True, eq=False):
    """Rows from `offset`: `count` of them, or `percent` of all rows, or all where both are None."""

    input: "Plan"
    count: int | None
    percent: float | None
    offset: int


class Project(Struct, frozen=True, eq=False):
    """The outputs of a query."""

    input: "Plan"
    outputs: tuple[Output, ...]


Plan = (
    Scan | Nothing | Filter | Expand | Aggregate | Ungroup | Window | Sort | TopK | Distinct
    | Arrange | Sample | Limit | Project
)  # fmt: skip


def chain(plan: Plan) -> Iterator[Plan]:
    """Yield the steps of a plan, the last one first."""
    current = plan
    while True:
        yield current
        if isinstance(current, Scan | Nothing):
            return
        current = current.input


def with_input(plan: Plan, new_input: Plan) -> Plan:
    """Return a step over another input."""
    return plan if isinstance(plan, Scan | Nothing) else structs.replace(plan, input=new_input)


def rewritten(plan: Plan, rule: Callable[[Plan], Plan]) -> Plan:
    """Apply `rule` to every step, from the scan up."""
    result: Plan | None = None
    for step in reversed(list(chain(plan))):
        result = rule(step if result is None else with_input(step, result))
    assert result is not None, "a plan has at least its scan"
    return result


def expressions(plan: Plan) -> tuple[Bound, ...]:
    """Return the expressions that one step evaluates."""
    match plan:
        case Filter(_, predicate):
            return (predicate,)
        case Aggregate(_, keys, calls):
            return (*keys, *(call.argument for call in calls if call.argument is not None))
        case Window(_, calls):
            return tuple(expr for call in calls for expr in call.expressions)
        case Sort(_, keys) | TopK(_, keys, _):
            return tuple(key.expr for key in keys)
        case Distinct(_, exprs) | Arrange(_, exprs):
            return exprs
        case Sample(_, weight):
            return (weight,)
        case Ungroup():
            return plan.columns
        case Project(_, outputs):
            return tuple(
                output.expr for output in outputs if not isinstance(output.expr, ColumnRef)
            )
        case Scan() | Nothing() | Expand() | Limit():
            return ()


def with_expressions(plan: Plan, change: Callable[[Bound], Bound]) -> Plan:
    """Return a step with each of its expressions replaced."""
    match plan:
        case Filter(_, predicate):
            return structs.replace(plan, predicate=change(predicate))
        case Aggregate(_, keys, calls):
            changed = tuple(
                call
                if call.argument is None
                else structs.replace(call, argument=change(call.argument))
                for call in calls
            )
            return structs.replace(plan, keys=tuple(map(change, keys)), calls=changed)
        case Window(_, calls):
            return structs.replace(
                plan, calls=tuple(call.with_expressions(change) for call in calls)
            )
        case Sort(_, keys) | TopK(_, keys, _):
            return structs.replace(
                plan, keys=tuple(structs.replace(key, expr=change(key.expr)) for key in keys)
            )
        case Distinct(_, exprs):
            return structs.replace(plan, exprs=tuple(map(change, exprs)))
        case Arrange(_, keys):
            return structs.replace(plan, keys=tuple(map(change, keys)))
        case Sample(_, weight):
            return structs.replace(plan, weight=change(weight))
        case Project(_, outputs):
            return structs.replace(
                plan,
                outputs=tuple(structs.replace(each, expr=change(each.expr)) for each in outputs),
            )
        case Scan() | Nothing() | Expand() | Ungroup() | Limit():
            return plan


class Statement(Struct, frozen=True):
    """A bound query.

    Attributes:
        plan: what it does.
        base: what plain source its result is rows of; None for groups and values.
        is_star: whether its columns are all of that source's, as they are.
    """

    plan: Project
    base: object | None
    is_star: bool

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        """Names and types of the outputs, in order."""
        return {output.name: output.type for output in self.plan.outputs}

    @property
    def selects_rows(self) -> bool:
        """Whether the result is rows of a source."""
        return self.base is not None


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
        case Filtered():
            return base_of(relation.relation)
