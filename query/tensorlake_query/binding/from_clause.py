"""FROM and JOIN: from what is written to a relation, and the names that the query then sees.

An equality in ON between an expression of the left side and one of the right side is a key of a
hash join; what remains of ON is tested on the pairs that the keys leave.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct, structs

from tensorlake_query.binding.binder import Binder
from tensorlake_query.binding.handles import check_decoded
from tensorlake_query.binding.scope import Environment
from tensorlake_query.binding.set_operation import common_type
from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.scalar.conditional import unified
from tensorlake_query.functions.scalar.operators import bind_compare, conjunction
from tensorlake_query.planning.plan import Derived, Joined, Names, Relation, This, base_of
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryNameError, QueryTypeError, joined, listed, nearest
from tensorlake_query.syntax.printer import print_expr, print_name
from tensorlake_query.values.bound import (
    ROW_COLUMNS,
    Apply,
    Bound,
    ColumnRef,
    columns_of,
    joined_row_column,
    renamed,
)
from tensorlake_query.values.source import ColumnType
from tensorlake_query.values.types import describe

BindStatement = Callable[[str, ast.Statement, Environment], Derived]


class Side(Struct, frozen=True):
    """A relation, and its columns by table: (table, name there) → name in the relation.

    Those of a table whose rows are of a version include its row columns (`_row`). `merged` are the
    columns merged by USING that are of an outer side: NULL where it has no row.
    """

    relation: Relation
    tables: Mapping[tuple[str, str], str]
    merged: frozenset[tuple[str, str]] = frozenset()

    def names(self) -> Names:
        """Return what a clause over this relation sees."""
        owners: dict[str, list[str]] = {}
        for (table, name), there in self.tables.items():
            if there in self.relation.schema:
                owners.setdefault(name, []).append(table)
        ambiguous = {
            name: tuple(
                f"{print_name(table)}.{print_name(name)}" if table else "… AS a for the query's"
                for table in tables
            )
            for name, tables in owners.items()
            if len(tables) > 1 and name not in self.relation.schema
        }
        return Names(
            self.relation.schema, self.tables, ambiguous, self.merged, _row_columns(self.relation)
        )


def bind_source(source: ast.Table | ast.Join | None, env: Environment, bind: BindStatement) -> Side:
    """Bind FROM; without it the source is `this`."""
    if source is None:
        return _table(ast.Table(ast.Column("this")), env, bind)
    if isinstance(source, ast.Table):
        return _table(source, env, bind)
    left = bind_source(source.left, env, bind)
    right = _table(source.right, env, bind)
    return _joined(source, left, right, env, bind)


def _table(table: ast.Table, env: Environment, bind: BindStatement) -> Side:
    if isinstance(table.source, ast.Subquery):
        if table.version is not None:
            raise QueryTypeError(
                "a query has no versions",
                text=env.text,
                span=table.version.span,
                hint="give the version to the table inside it",
            )
        relation: Relation = bind(table.alias or "", table.source.query, env)
    else:
        relation = env.relation(table)
    default = table.source.name if isinstance(table.source, ast.Column | ast.Parameter) else ""
    alias = table.alias or default
    rows = () if base_of(relation) is None else ROW_COLUMNS
    return Side(relation, {(alias, name): name for name in (*relation.schema, *rows)})


def _row_columns(relation: Relation) -> Mapping[str, ColumnType]:
    return relation.rows if isinstance(relation, Joined) else {}


def _joined(join: ast.Join, left: Side, right: Side, env: Environment, bind: BindStatement) -> Side:
    shared_tables = {table for table, _ in left.tables} & {table for table, _ in right.tables}
    if shared_tables:
        name = min(shared_tables)
        raise QueryNameError(
            f"two tables of the join are named {name!r}" if name else "two queries have no name",
            text=env.text,
            span=join.right.span,
            hint="give one another name: … AS a",
        )
    merged = _merged(join, left, right, env)
    keys: list[tuple[Bound, Bound]] = list(_using_keys(join, merged, env))
    names = _joined_names(left, right, merged)
    outer = {"LEFT": (False, True), "RIGHT": (True, False), "FULL": (True, True)}.get(
        join.kind, (False, False)
    )
    schema: dict[str, ColumnType] = {}
    sides: dict[str, tuple[int, str]] = {}
    for number, side in enumerate((left, right)):
        for name, column_type in side.relation.schema.items():
            key = names[number].get(name)
            if key is None:
                continue
            nullable = column_type.nullable or outer[number]
            schema[key] = replace(column_type, nullable=nullable)
            sides[key] = (number, name)
    rows: dict[str, ColumnType] = {}
    for number, side in enumerate((left, right)):
        known = _row_columns(side.relation)
        for name, key in names[number].items():
            if name in side.relation.schema:
                continue
            kind = known[name] if name in known else ROW_COLUMNS[name](ast.Column(name)).type
            rows[key] = replace(kind, nullable=kind.nullable or outer[number])
            sides[key] = (number, name)
    merged_keys = {key: (pair[0].name, pair[1].name) for key, pair in merged.items()}
    for key, (a, b) in merged.items():
        both = outer[0] and outer[1]
        nullable = (a.type.nullable and b.type.nullable) if both else schema[key].nullable
        of_either = _type_of_either(join, key, a.type, b.type, env) if outer[0] else schema[key]
        schema[key] = replace(of_either, nullable=nullable)
    tables = {
        place: names[number].get(name, name)
        for number, side in enumerate((left, right))
        for place, name in side.tables.items()
    }
    outer_keys = {
        place
        for number, side in enumerate((left, right))
        for place, name in side.tables.items()
        if outer[number] and name in merged
    }
    residual: list[Bound] = []
    joined_side = Side(This(schema), tables, left.merged | right.merged | outer_keys)
    if join.on is not None:
        binder = Binder(structs.replace(joined_side.names(), rows=rows), env)
        binder.bind_statement = lambda query: bind("", query, env).statement
        for condition in _conjuncts(join.on):
            bound = binder.bind_condition(condition, "ON")
            pair = _key_pair(bound, sides)
            if pair is None:
                residual.append(bound)
            else:
                keys.append(pair)
    relation = Joined(
        left.relation,
        right.relation,
        join.kind,
        tuple(keys),
        _all_of(residual),
        merged_keys,
        sides,
        schema,
        rows,
        _condition_text(join),
    )
    return structs.replace(joined_side, relation=relation)


def _merged(
    join: ast.Join, left: Side, right: Side, env: Environment
) -> dict[str, tuple[ColumnRef, ColumnRef]]:
    merged: dict[str, tuple[ColumnRef, ColumnRef]] = {}
    for name in join.using:
        for side in (left, right):
            if name not in side.relation.schema:
                raise QueryNameError(
                    f"USING ({name}) names no column of {_shown(side)}",
                    text=env.text,
                    span=join.span,
                    hint=joined(
                        nearest(name, side.relation.schema),
                        listed("columns", side.relation.schema),
                    ),
                )
        written = ast.Column(name, span=join.span)
        merged[name] = (
            ColumnRef(name, left.relation.schema[name], written),
            ColumnRef(name, right.relation.schema[name], written),
        )
        for column in merged[name]:
            check_decoded(column, env.text)
    return merged


def _joined_names(
    left: Side, right: Side, merged: Mapping[str, object]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the joined name of each side's columns; a merged column is the left one's.

    A row column has its table's name before its own, however deep the join is.
    """
    clashing = (set(left.relation.schema) & set(right.relation.schema)) - set(merged)
    result: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for number, side in enumerate((left, right)):
        for (table, _), name in side.tables.items():
            if name in ROW_COLUMNS and name not in side.relation.schema:
                result[number][name] = joined_row_column(table, name)
            elif name in merged:
                if number == 0:
                    result[0][name] = name
            elif name in clashing:
                result[number][name] = f"{table}.{name}"
            else:
                result[number][name] = name
    return result


def _using_keys(
    join: ast.Join, merged: Mapping[str, tuple[ColumnRef, ColumnRef]], env: Environment
) -> Sequence[tuple[Bound, Bound]]:
    pairs: list[tuple[Bound, Bound]] = []
    for left, right in merged.values():
        refs = {"left": left, "right": right}

        def bind(expr: ast.Expr, refs: Mapping[str, ColumnRef] = refs) -> Bound:
            assert isinstance(expr, ast.Column), "USING compares columns"
            return refs[expr.name]

        equal = ast.Compare("=", ast.Column("left"), ast.Column("right"), span=join.span)
        site = Site(equal, (left, right), {}, env.text, bind)
        if join.kind in {"RIGHT", "FULL"} or not _are_integers(left.type, right.type):
            unified(site, [left, right])  # of one type, or an error
        pairs.append(_compared(site))
    return pairs


def _type_of_either(
    join: ast.Join, name: str, left: ColumnType, right: ColumnType, env: Environment
) -> ColumnType:
    """Return the type of a merged key that has the values of both sides, or fail."""
    common = common_type(left, right)
    if common is None:
        raise QueryTypeError(
            f"{join.kind} JOIN … USING ({name}) has values of both sides in one column, and no type"
            f" holds both: the left {name!r} is {describe(left)}, the right one {describe(right)}",
            text=env.text,
            span=join.span,
            hint="CAST one side to the other's type, or both AS TEXT: class numbers differ where"
            " class names do",
        )
    return common


def _are_integers(*types: ColumnType) -> bool:
    return all(each.dtype is not None and np.dtype(each.dtype).kind in "iu" for each in types)


def _compared(site: Site) -> tuple[Bound, Bound]:
    bound = bind_compare(site, "=")
    assert isinstance(bound, Apply), "columns are compared by a kernel"
    return bound.args[0], bound.args[1]


def _key_pair(bound: Bound, sides: Mapping[str, tuple[int, str]]) -> tuple[Bound, Bound] | None:
    """Return (left, right) of an equality between the sides, over their own names."""
    if not isinstance(bound, Apply) or bound.role != "compare" or bound.type.shape:
        return None
    if not isinstance(bound.syntax, ast.Compare) or bound.syntax.op != "=":
        return None
    a, b = bound.args
    owners = [{sides[name][0] for name in columns_of(each)} for each in (a, b)]
    names = {name: there for name, (_, there) in sides.items()}
    if owners == [{0}, {1}]:
        return renamed(a, names), renamed(b, names)
    if owners == [{1}, {0}]:
        return renamed(b, names), renamed(a, names)
    return None


def _conjuncts(expr: ast.Expr) -> Sequence[ast.Expr]:
    if isinstance(expr, ast.And):
        return [each for item in expr.items for each in _conjuncts(item)]
    return [expr]


def _all_of(conditions: Sequence[Bound]) -> Bound | None:
    return conjunction(conditions) if conditions else None


def _condition_text(join: ast.Join) -> str:
    if join.using:
        return f" using {', '.join(map(print_name, join.using))}"
    return "" if join.on is None else f" on {print_expr(join.on)}"


def _shown(side: Side) -> str:
    tables = sorted({table for table, _ in side.tables if table})
    return f"{' and '.join(map(repr, tables))}" if tables else "the query in FROM"
