"""The logical plan: what a query does, as a chain of small steps.

    Scan      rows 0 … n − 1 in order, without zones that cannot match; reads `columns` for each row
    Nothing   no row: a condition is known to be false
    Filter    keeps the rows where a condition is true
    Aggregate one row a group (or one in all); its slots are columns named '#0', '#1', …
    Sort      orders rows; TopK keeps only the first `count` while it does
    Limit     cuts out a range of rows
    Project   the outputs

Rules rewrite plans; `explain` prints one, the last step first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tensorlake_query.bound import Bound, ColumnRef, columns_of, show
from tensorlake_query.functions.aggregates import AggregateCall
from tensorlake_query.printer import print_expr, print_name
from tensorlake_query.source import ColumnType


@dataclass(frozen=True, slots=True)
class Output:
    """A result column."""

    name: str
    expr: Bound

    @property
    def type(self) -> ColumnType:
        """What the column holds."""
        return self.expr.type


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of an order; NaN comes after every number in both directions."""

    expr: Bound
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of the source that the zone maps cannot rule out."""

    columns: tuple[str, ...]
    prunable: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Nothing:
    """No rows."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows where `predicate` is true (not false, not NULL)."""

    input: "Plan"
    predicate: Bound


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row for each distinct `keys`, in order of first appearance; without keys one row."""

    input: "Plan"
    keys: tuple[Bound, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """Rows in order, ties as they came."""

    input: "Plan"
    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class TopK:
    """The first `count` rows of an order, without keeping the others."""

    input: "Plan"
    keys: tuple[SortKey, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Limit:
    """Rows from `offset`: `count` of them, or `percent` of all rows, or all where both are None."""

    input: "Plan"
    count: int | None
    percent: float | None
    offset: int


@dataclass(frozen=True, slots=True)
class Project:
    """The outputs of a query."""

    input: "Plan"
    outputs: tuple[Output, ...]


Plan = Scan | Nothing | Filter | Aggregate | Sort | TopK | Limit | Project


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
    return plan if isinstance(plan, Scan | Nothing) else replace(plan, input=new_input)


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
        case Sort(_, keys) | TopK(_, keys, _):
            return tuple(key.expr for key in keys)
        case Project(_, outputs):
            return tuple(
                output.expr for output in outputs if not isinstance(output.expr, ColumnRef)
            )
        case Scan() | Nothing() | Limit():
            return ()


def with_expressions(plan: Plan, change: Callable[[Bound], Bound]) -> Plan:
    """Return a step with each of its expressions replaced."""
    match plan:
        case Filter(_, predicate):
            return replace(plan, predicate=change(predicate))
        case Aggregate(_, keys, calls):
            changed = tuple(
                call if call.argument is None else replace(call, argument=change(call.argument))
                for call in calls
            )
            return replace(plan, keys=tuple(map(change, keys)), calls=changed)
        case Sort(_, keys) | TopK(_, keys, _):
            return replace(plan, keys=tuple(replace(key, expr=change(key.expr)) for key in keys))
        case Project(_, outputs):
            return replace(
                plan, outputs=tuple(replace(each, expr=change(each.expr)) for each in outputs)
            )
        case Scan() | Nothing() | Limit():
            return plan


def explain(plan: Plan) -> str:
    """Return the plan as text, one step a line, each under what consumes it."""
    return "\n".join(f"{'  ' * depth}{_line(step)}" for depth, step in enumerate(chain(plan)))


def _line(step: Plan) -> str:
    match step:
        case Scan(columns, prunable):
            reads = (
                f" reading {', '.join(map(print_name, columns))} of every row" if columns else ""
            )
            zones = f", zones where {' AND '.join(map(show, prunable))}" if prunable else ""
            return f"Scan{reads}{zones}"
        case Nothing():
            return "Nothing"
        case Filter(_, predicate):
            return f"Filter {show(predicate)}{_reads(step)}"
        case Aggregate(_, keys, calls):
            by = f" by {', '.join(map(show, keys))}" if keys else ""
            shown = ", ".join(print_expr(call.syntax) for call in calls)
            return f"Aggregate {shown}{by}{_reads(step)}"
        case Sort(_, keys):
            return f"Sort {', '.join(map(_key, keys))}{_reads(step)}"
        case TopK(_, keys, count):
            return f"TopK {count} by {', '.join(map(_key, keys))}{_reads(step)}"
        case Limit(_, count, percent, offset):
            share = f" {percent:g} PERCENT" if percent is not None else ""
            number = f" {count}" if count is not None else share
            return f"Limit{number}{f' from {offset}' if offset else ''}"
        case Project(_, outputs):
            return f"Project {', '.join(map(_output, outputs))}{_reads(step)}"


def _key(key: SortKey) -> str:
    direction = " DESC" if key.descending else ""
    return f"{show(key.expr)}{direction}{' NULLS FIRST' if key.nulls_first else ''}"


def _output(output: Output) -> str:
    shown, name = show(output.expr), print_name(output.name)
    return shown if shown == name else f"{shown} AS {name}"


def _reads(step: Plan) -> str:
    names = sorted({name for expr in expressions(step) for name in columns_of(expr)})
    names = [name for name in names if not name.startswith("#")]
    return f"   (reads {', '.join(map(print_name, names))})" if names else ""
