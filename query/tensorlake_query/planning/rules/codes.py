"""Conditions of one label column: evaluated once per class code, and looked up for the rows.

A label column of up to 256 classes is stored as one byte per row. For any condition on it (`=`,
`IN`, `LIKE`, any AND, OR and NOT of these) there is one answer per code, and one for NULL: it costs
about as much as one comparison. Neighbouring filters of one column become one filter.
"""

from collections.abc import Iterator

from msgspec import structs

from tensorlake_query.functions.scalar.operators import conjunction
from tensorlake_query.planning.label_tables import CodeTable
from tensorlake_query.planning.plan import Filter, Plan, rewritten
from tensorlake_query.values.bound import (
    Apply,
    Bound,
    CodesRef,
    ColumnRef,
    Constant,
    QueryRef,
    syntax_of,
    walk_bound,
)

# These answer for any code, also for one that no row has, and never fail.
ROLES = frozenset(
    {"compare", "in", "not in", "in query", "like", "and", "or", "not", "is null", "is not null"}
)


def compare_codes(plan: Plan) -> Plan:
    """Let filters look conditions of one label column up by its codes, as narrow as they are."""
    return rewritten(rewritten(plan, _joined), _narrowed_filter)


def _joined(step: Plan) -> Plan:
    """Join a filter and the one under it where both look at the same label column alone."""
    if not isinstance(step, Filter) or not isinstance(step.input, Filter):
        return step
    below, above = step.input.predicate, step.predicate
    column, other = _only_column(below), _only_column(above)
    if column is None or other is None or column.name != other.name:
        return step
    return Filter(step.input.input, conjunction([*_conditions(below), *_conditions(above)]))


def _conditions(expr: Bound) -> Iterator[Bound]:
    if isinstance(expr, Apply) and expr.role == "and":
        yield from expr.args
    else:
        yield expr


def _narrowed_filter(step: Plan) -> Plan:
    if not isinstance(step, Filter):
        return step
    return structs.replace(step, predicate=_narrowed(step.predicate))


def _narrowed(expr: Bound) -> Bound:
    if not isinstance(expr, Apply):
        return expr
    column = _only_column(expr)
    if column is None:
        return structs.replace(expr, args=tuple(map(_narrowed, expr.args)))
    queries = tuple(node for node in walk_bound(expr) if isinstance(node, QueryRef))
    codes = CodesRef(column.name, column.type, syntax_of(expr))
    kernel = CodeTable(expr, column.type, queries)
    return Apply(kernel, (codes, *queries), expr.type, None, strict=False)


def _only_column(expr: Bound) -> ColumnRef | None:
    """Return the label column that a condition is about, where it is about nothing else."""
    if not isinstance(expr, Apply) or expr.type.kind != "bool" or expr.type.shape:
        return None
    columns: list[ColumnRef] = []
    for node in walk_bound(expr):
        match node:
            case ColumnRef() if node.type.kind == "label" and not node.type.shape:
                columns.append(node)
            case Constant():
                pass
            case QueryRef() if node.use == "members":
                pass
            case Apply() if node.role in ROLES or _is_name(node):
                pass
            case _:
                return None
    return columns[0] if len({column.name for column in columns}) == 1 else None


def _is_name(expr: Apply) -> bool:
    """Tell whether an expression is the conversion of a label into its class name."""
    (first, *more) = expr.args
    is_label = isinstance(first, ColumnRef) and first.type.kind == "label"
    return expr.syntax is None and expr.type.kind == "text" and is_label and not more
