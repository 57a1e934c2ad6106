"""GROUP BY and aggregates: which expressions are slots of a group, and which are stacks.

With an aggregate in SELECT the clause is SQL's: each column selected is a key or inside an
aggregate. Without one it stacks: a column that is not a key becomes an array with one more axis,
one sample after the other, so that `SELECT * GROUP BY video` makes one row per video.
"""

from collections.abc import Mapping

from tensorlake_query.binding.binder import Binder
from tensorlake_query.binding.handles import counts_rows
from tensorlake_query.functions.aggregate.aggregates import (
    AggregateCall,
    bind_aggregate,
    is_aggregate,
)
from tensorlake_query.functions.registry import Site
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.syntax.printer import print_expr
from tensorlake_query.values.bound import Bound, ColumnRef
from tensorlake_query.values.source import ColumnType
from tensorlake_query.values.stacks import stacked_type

Aliases = Mapping[str, ast.Expr]


class Grouping:
    """Turns group keys and aggregates into slots '#0', '#1', … as expressions are bound."""

    def __init__(
        self,
        binder: Binder,
        keys: tuple[Bound, ...],
        written: tuple[ast.Expr, ...],
        *,
        stacks: bool,
    ) -> None:
        self.keys = keys
        self.calls: list[AggregateCall] = []
        self.stacks = stacks
        self._binder = binder
        self._key_of: dict[ast.Expr, int] = {}
        for position, expr in enumerate(written):
            self._key_of.setdefault(expr, position)
        self._call_of: dict[ast.Expr, int] = {}

    @staticmethod
    def of(query: ast.Query, binder: Binder, aliases: Aliases) -> "Grouping | None":
        """Return the grouping of a query, or None where it has neither GROUP BY nor aggregates."""
        selects = any(is_aggregate(node) for each in query.select for node in ast.walk(each))
        others: list[ast.Node] = [*query.order_by]
        if query.having is not None:
            others.append(query.having)
        has_aggregates = selects or any(
            is_aggregate(node) for each in others for node in ast.walk(each)
        )
        if not query.group_by and not has_aggregates:
            return None
        binder.with_aliases(aliases, visible=True)
        keys = tuple(binder.bind_key(expr, "GROUP BY") for expr in query.group_by)
        expanded = tuple(_unaliased(e, aliases) for e in query.group_by)
        stacks = bool(query.group_by) and not selects
        grouping = Grouping(binder, keys, expanded, stacks=stacks)
        binder.with_special(grouping.slot)
        return grouping

    def slot(self, expr: ast.Expr) -> Bound | None:
        """Return the slot of a group key or an aggregate, or a stack; refuse other columns."""
        position = self._key_of.get(expr)
        if position is not None:
            return _slot_ref(position, self.keys[position].type, expr)
        if isinstance(expr, ast.Call) and is_aggregate(expr):
            return self._aggregate(expr)
        if isinstance(expr, ast.Column):
            return self._column(expr)
        return None

    def beneath(self, bound: Bound) -> Bound:
        """Return the key whose slot an expression is; of others itself."""
        slot = bound.slot if isinstance(bound, ColumnRef) else None
        return bound if slot is None or slot >= len(self.keys) else self.keys[slot]

    def columns(self) -> list[tuple[str, Bound]]:
        """Return what `*` is: every column, keys as they are, the others stacked."""
        return [(name, self._star(name)) for name in self._binder.schema]

    def _star(self, name: str) -> Bound:
        bound = self.slot(ast.Column(name))
        assert bound is not None, "a column of the schema is a key or a stack"
        return bound

    def _column(self, expr: ast.Column) -> Bound | None:
        self._binder.with_special(None)
        known = expr.table is not None or expr.name in self._binder.schema
        bound = self._binder.bind(expr) if known else None
        self._binder.with_special(self.slot)
        if not isinstance(bound, ColumnRef):
            return None
        for position, key in enumerate(self.keys):
            if isinstance(key, ColumnRef) and key.name == bound.name:
                return _slot_ref(position, key.type, expr)
        if self.stacks:
            return ColumnRef(bound.name, stacked_type(bound.type), expr)
        name = print_expr(expr)
        raise QueryTypeError(
            f"{name!r} is neither in GROUP BY nor inside an aggregate",
            text=self._binder.text,
            span=expr.span,
            hint=f"write GROUP BY {name}, or MIN({name})",
        )

    def _aggregate(self, expr: ast.Call) -> Bound:
        slot = self._call_of.get(expr)
        if slot is None:
            self._binder.with_special(None)
            bind = self._binder.bind_undecoded if counts_rows(expr) else self._binder.bind
            args = tuple(bind(operand) for operand in ast.operands(expr))
            self._binder.with_special(self.slot)
            site = Site(expr, args, {}, self._binder.text, self._binder.bind)
            slot = self._call_of[expr] = len(self.calls)
            self.calls.append(bind_aggregate(site, expr))
        return _slot_ref(len(self.keys) + slot, self.calls[slot].type, expr)


def _slot_ref(slot: int, kind: ColumnType, expr: ast.Expr) -> ColumnRef:
    return ColumnRef(f"#{slot}", kind, expr, slot)


def _unaliased(expr: ast.Expr, aliases: Aliases) -> ast.Expr:
    if isinstance(expr, ast.Column) and expr.table is None:
        return aliases.get(expr.name, expr)
    return expr
