"""From a parsed query to its logical plan: clauses in the order they take effect.

    scan → WHERE → (GROUP BY, aggregates → HAVING) → ORDER BY → LIMIT, OFFSET → SELECT

WHERE sees the columns of the source; GROUP BY, HAVING and ORDER BY also see the aliases of the
SELECT list, where no column has the name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tensorlake_query import ast
from tensorlake_query.binder import Binder
from tensorlake_query.bound import Bound, ColumnRef, Constant, show
from tensorlake_query.errors import QueryNameError, QueryTypeError
from tensorlake_query.functions.aggregates import AGGREGATES, AggregateCall, bind_aggregate
from tensorlake_query.functions.registry import Site
from tensorlake_query.plan import (
    Aggregate,
    Filter,
    Limit,
    Output,
    Plan,
    Project,
    Scan,
    Sort,
    SortKey,
)
from tensorlake_query.printer import print_expr
from tensorlake_query.source import ColumnType
from tensorlake_query.types import describe

ALL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Statement:
    """A bound query: its plan as written, and whether its result is rows of the source."""

    plan: Project
    selects_rows: bool


def bind_query(
    query: ast.Query, schema: Mapping[str, ColumnType], params: Mapping[str, object], text: str
) -> Statement:
    """Bind every clause of a query.

    Raises:
        QueryNameError: a name, parameter or class does not exist, or two outputs share a name.
        QueryTypeError: parts do not fit together.
    """
    binder = Binder(schema, params, text)
    aliases = {
        output.alias: output.expr
        for output in query.select
        if output.alias is not None and not isinstance(output.expr, ast.Star)
    }
    plan: Plan = Scan(tuple(schema))
    if query.where is not None:
        binder.with_aliases(aliases, visible=False)
        plan = Filter(plan, binder.bind_condition(query.where, "WHERE"))
    grouping = _Grouping.of(query, binder, aliases)
    having: Bound | None = None
    binder.with_aliases(aliases, visible=False)
    outputs = _outputs(query, binder, schema, grouped=grouping is not None)
    binder.with_aliases(aliases, visible=True)
    if query.having is not None:
        if grouping is None:
            raise QueryTypeError(
                "HAVING needs GROUP BY or an aggregate",
                text=text,
                span=query.having.span,
                hint="write WHERE",
            )
        having = binder.bind_condition(query.having, "HAVING")
    keys = tuple(_sort_key(key, binder) for key in query.order_by)
    if grouping is not None:
        plan = Aggregate(plan, grouping.keys, tuple(grouping.calls))
    if having is not None:
        plan = Filter(plan, having)
    if keys:
        plan = Sort(plan, keys)
    if query.limit is not None or query.offset is not None:
        plan = _limited(plan, query, binder)
    binder.check_params_used()
    return Statement(Project(plan, outputs), grouping is None)


class _Grouping:
    """Turns group keys and aggregates into slots '#0', '#1', … as expressions are bound."""

    def __init__(
        self, binder: Binder, keys: tuple[Bound, ...], written: tuple[ast.Expr, ...]
    ) -> None:
        self.keys = keys
        self.calls: list[AggregateCall] = []
        self._binder = binder
        self._written = written

    @staticmethod
    def of(query: ast.Query, binder: Binder, aliases: Mapping[str, ast.Expr]) -> "_Grouping | None":
        """Return the grouping of a query, or None where it has neither GROUP BY nor aggregates."""
        written: list[ast.Node] = [*query.select, *query.order_by]
        if query.having is not None:
            written.append(query.having)
        has_aggregates = any(
            isinstance(node, ast.Call) and node.name in AGGREGATES
            for each in written
            for node in ast.walk(each)
        )
        if not query.group_by and not has_aggregates:
            return None
        binder.with_aliases(aliases, visible=True)
        keys = tuple(binder.bind(expr) for expr in query.group_by)
        for key in keys:
            if key.type.shape or key.type.kind in {"json", "bytes"}:
                hint = f"write CAST({show(key)} AS TEXT)" if key.type.kind == "json" else ""
                raise binder.type_error(
                    f"GROUP BY needs one comparable value a row, "
                    f"and {show(key)} is {describe(key.type)}",
                    key,
                    hint,
                )
        expanded = tuple(_unaliased(e, aliases) for e in query.group_by)
        grouping = _Grouping(binder, keys, expanded)
        binder.with_special(grouping.slot)
        return grouping

    def slot(self, expr: ast.Expr) -> Bound | None:
        """Return the slot of a group key or an aggregate; refuse columns that are neither."""
        for position, (written, key) in enumerate(zip(self._written, self.keys, strict=True)):
            if expr == written:
                return ColumnRef(f"#{position}", key.type, expr)
        if isinstance(expr, ast.Call) and expr.name in AGGREGATES:
            return self._aggregate(expr)
        if isinstance(expr, ast.Column) and expr.name in self._binder.schema:
            name = print_expr(expr)
            raise QueryTypeError(
                f"{name!r} is neither in GROUP BY nor inside an aggregate",
                text=self._binder.text,
                span=expr.span,
                hint=f"write GROUP BY {name}, or MIN({name})",
            )
        return None

    def _aggregate(self, expr: ast.Call) -> Bound:
        slot = next((i for i, call in enumerate(self.calls) if call.syntax == expr), None)
        if slot is None:
            self._binder.with_special(None)
            args = tuple(self._binder.bind(operand) for operand in ast.operands(expr))
            self._binder.with_special(self.slot)
            site = Site(expr, args, {}, self._binder.text, self._binder.bind)
            slot = len(self.calls)
            self.calls.append(bind_aggregate(site, expr))
        return ColumnRef(f"#{len(self.keys) + slot}", self.calls[slot].type, expr)


def _unaliased(expr: ast.Expr, aliases: Mapping[str, ast.Expr]) -> ast.Expr:
    return aliases.get(expr.name, expr) if isinstance(expr, ast.Column) else expr


def _outputs(
    query: ast.Query, binder: Binder, schema: Mapping[str, ColumnType], *, grouped: bool
) -> tuple[Output, ...]:
    select = query.select or (ast.Output(ast.Star()),)
    outputs: list[Output] = []
    for written in select:
        if isinstance(written.expr, ast.Star):
            if grouped:
                raise QueryTypeError(
                    "'*' with GROUP BY or an aggregate is not supported yet",
                    text=binder.text,
                    span=written.span,
                    hint="name the group keys and aggregates",
                )
            outputs += [
                Output(name, ColumnRef(name, kind, ast.Column(name)))
                for name, kind in schema.items()
            ]
            continue
        bound = binder.bind(written.expr)
        default = (
            written.expr.name if isinstance(written.expr, ast.Column) else print_expr(written.expr)
        )
        outputs.append(Output(written.alias or default, bound))
        if any(output.name == outputs[-1].name for output in outputs[:-1]):
            raise QueryNameError(
                f"two outputs are named {outputs[-1].name!r}",
                text=binder.text,
                span=written.span,
                hint="give one of them another name with AS",
            )
    return tuple(outputs)


def _sort_key(key: ast.OrderKey, binder: Binder) -> SortKey:
    bound = binder.bind(key.expr)
    if bound.type.shape or bound.type.kind in {"json", "bytes"}:
        hint = (
            f"write CAST({show(bound)} AS FLOAT), or AS TEXT" if bound.type.kind == "json" else ""
        )
        if bound.type.shape:
            hint = f"write ARRAY_MAX({show(bound)}), or one element"
        raise binder.type_error(
            f"ORDER BY needs one comparable value a row, "
            f"and {show(bound)} is {describe(bound.type)}",
            bound,
            hint,
        )
    return SortKey(bound, key.descending, key.nulls_first)


def _limited(plan: Plan, query: ast.Query, binder: Binder) -> Limit:
    count: int | None = None
    percent: float | None = None
    if query.limit is not None:
        value = _known(query.limit.count, binder)
        if query.limit.percent:
            if not isinstance(value, int | float) or not 0 <= value <= ALL_PERCENT:
                raise _refused(query.limit.count, binder, "a share from 0 to 100 PERCENT")
            percent = float(value)
        else:
            count = _whole(value, query.limit.count, binder)
    offset = (
        0 if query.offset is None else _whole(_known(query.offset, binder), query.offset, binder)
    )
    return Limit(plan, count, percent, offset)


def _known(expr: ast.Literal | ast.Parameter, binder: Binder) -> object:
    bound = binder.bind(expr)
    return bound.value if isinstance(bound, Constant) else None


def _whole(value: object, expr: ast.Expr, binder: Binder) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _refused(expr, binder, "a whole number, 0 or more")
    return value


def _refused(expr: ast.Expr, binder: Binder, wanted: str) -> QueryTypeError:
    return QueryTypeError(f"LIMIT and OFFSET take {wanted}", text=binder.text, span=expr.span)
