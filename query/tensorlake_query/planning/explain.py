"""Plans as text: one step a line, the last step first, each under what consumes it.

The inputs of a scan are below it: the plans of queries in FROM, joins and set operations.
"""

from collections.abc import Callable, Iterator

from tensorlake_query.planning.plan import (
    Aggregate,
    Arrange,
    Combined,
    Derived,
    Distinct,
    Expand,
    Filter,
    Filtered,
    Joined,
    Limit,
    Nothing,
    Other,
    Output,
    Plan,
    Project,
    Relation,
    Sample,
    Scan,
    Sort,
    TopK,
    Ungroup,
    Window,
    chain,
    expressions,
)
from tensorlake_query.syntax.printer import print_expr, print_name
from tensorlake_query.values.bound import CodesRef, ColumnRef, PartRef, show, walk_bound
from tensorlake_query.values.order import SortKey

Note = Callable[[Plan], str]


def explain(plan: Plan, note: Note | None = None) -> str:
    """Return the plan as text; `note` adds what is known of each step after a run."""
    return "\n".join(_lines(plan, note or (lambda _: ""), 0))


def _lines(plan: Plan, note: Note, depth: int) -> Iterator[str]:
    for step in chain(plan):
        yield f"{'  ' * depth}{_line(step)}{note(step)}"
        depth += 1
        if isinstance(step, Scan):
            yield from _relation(step.relation, note, depth)


def _relation(relation: Relation, note: Note, depth: int) -> Iterator[str]:
    indent = "  " * depth
    match relation:
        case Derived(_, statement):
            yield from _lines(statement.plan, note, depth)
        case Joined():
            yield f"{indent}{relation.kind} JOIN{relation.condition}"
            for side in (relation.left, relation.right):
                yield from _side(side, note, depth + 1)
        case Combined(op, keeps_all, left, right, by_identity):
            how = "rows" if by_identity else "values"
            yield f"{indent}{op}{' ALL' if keeps_all else ''} of {how}"
            yield from _lines(left.plan, note, depth + 1)
            yield from _lines(right.plan, note, depth + 1)
        case _:
            return


def _side(relation: Relation, note: Note, depth: int) -> Iterator[str]:
    if isinstance(relation, Derived | Joined | Combined):
        yield from _relation(relation, note, depth)
    elif isinstance(relation, Filtered):
        yield from _lines(relation.plan, note, depth)
    else:
        yield f"{'  ' * depth}{_named(relation).strip() or 'this'}"


def _named(relation: Relation) -> str:
    return f" {print_name(relation.name)}" if isinstance(relation, Other) else ""


def _line(step: Plan) -> str:
    match step:
        case Scan(columns, prunable, _, relation):
            reads = (
                f" reading {', '.join(map(print_name, columns))} of every row" if columns else ""
            )
            zones = f", zones where {' AND '.join(map(show, prunable))}" if prunable else ""
            return f"Scan{_named(relation)}{reads}{zones}"
        case Nothing():
            return "Nothing"
        case Filter(_, predicate):
            return f"Filter {show(predicate)}{_reads(step)}"
        case Expand(_, before, after, overlaps):
            return f"Expand by {before} before, {after} after{', overlapping' if overlaps else ''}"
        case Aggregate(_, keys, calls):
            by = f" by {', '.join(map(show, keys))}" if keys else ""
            shown = ", ".join(print_expr(call.syntax) for call in calls)
            what = "Aggregate " if calls else "Group"
            return f"{what}{shown}{by}{_reads(step)}"
        case Ungroup(_, split):
            return f"Ungroup {', '.join(map(print_name, split))}{_reads(step)}"
        case Window(_, calls):
            return f"Window {', '.join(print_expr(c.syntax) for c in calls)}{_reads(step)}"
        case Sort(_, keys):
            return f"Sort {', '.join(map(_key, keys))}{_reads(step)}"
        case TopK(_, keys, count):
            return f"TopK {count} by {', '.join(map(_key, keys))}{_reads(step)}"
        case Distinct(_, exprs):
            return f"Distinct {', '.join(map(show, exprs))}{_reads(step)}"
        case Arrange(_, keys):
            return f"Arrange by {', '.join(map(show, keys))}{_reads(step)}"
        case Sample():
            return _sample(step)
        case Limit(_, count, percent, offset):
            share = f" {percent:g} PERCENT" if percent is not None else ""
            number = f" {count}" if count is not None else share
            return f"Limit{number}{f' from {offset}' if offset else ''}"
        case Project(_, outputs):
            return f"Project {', '.join(map(_output, outputs))}{_reads(step)}"


def _sample(step: Sample) -> str:
    count = "" if step.count is None else f" {step.count}"
    share = "" if step.percent is None else f" {step.percent:g} PERCENT"
    how = "with" if step.replace else "without"
    return f"Sample{count}{share} by {show(step.weight)}, {how} replacement{_reads(step)}"


def _key(key: SortKey) -> str:
    direction = " DESC" if key.descending else ""
    approx = "APPROX " if key.is_approximate else ""
    return f"{approx}{show(key.expr)}{direction}{' NULLS FIRST' if key.nulls_first else ''}"


def _output(output: Output) -> str:
    shown, name = show(output.expr), print_name(output.name)
    return shown if shown == name else f"{shown} AS {name}"


def _reads(step: Plan) -> str:
    nodes = [node for expr in expressions(step) for node in walk_bound(expr)]
    whole = {node.name for node in nodes if isinstance(node, ColumnRef)}
    codes = {node.name for node in nodes if isinstance(node, CodesRef)} - whole
    parts = {node.name for node in nodes if isinstance(node, PartRef)} - whole
    shown = [
        f"{'parts of ' * (name in parts)}{'codes of ' * (name in codes)}{print_name(name)}"
        for name in sorted(whole | codes | parts)
        if not name.startswith("#")
    ]
    return f"   (reads {', '.join(shown)})" if shown else ""
