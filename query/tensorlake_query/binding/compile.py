"""From a parsed query to its logical plan: clauses in the order they take effect.

    FROM → WHERE → EXPAND BY → (GROUP BY, aggregates → HAVING) → UNGROUP BY → windows → ORDER BY
         → DISTINCT → ARRANGE BY → SAMPLE BY → LIMIT, OFFSET → SELECT

WHERE sees the columns of the source; GROUP BY, HAVING, ORDER BY, ARRANGE BY and SAMPLE BY also see
the aliases of the SELECT list, where no column has the name.
"""

from collections import Counter

from msgspec import structs

from tensorlake_query.binding.binder import Binder
from tensorlake_query.binding.from_clause import Side, bind_source
from tensorlake_query.binding.group_clause import Aliases, Grouping
from tensorlake_query.binding.handles import check_columns_decoded, check_decoded
from tensorlake_query.binding.literals import bind_choice, bind_count, bind_limit
from tensorlake_query.binding.sampling import bind_weight
from tensorlake_query.binding.scope import Environment
from tensorlake_query.binding.set_operation import combined_schema
from tensorlake_query.functions.scalar.rows import ROW_COLUMN_NOUNS
from tensorlake_query.planning.plan import (
    Aggregate,
    Arrange,
    Combined,
    Derived,
    Distinct,
    Expand,
    Filter,
    Limit,
    Names,
    Output,
    Plan,
    Project,
    Relation,
    Sample,
    Scan,
    Sort,
    Statement,
    Ungroup,
    Window,
    base_of,
)
from tensorlake_query.planning.rules import optimized
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryNameError, QueryTypeError
from tensorlake_query.syntax.printer import print_expr
from tensorlake_query.values.bound import (
    ROW_COLUMNS,
    Bound,
    ColumnRef,
    is_joined_row_column,
    show,
)
from tensorlake_query.values.stacks import element_type
from tensorlake_query.values.types import describe

SPLIT = "split"  # Deep Lake's UNGROUP BY SPLIT


def bind_statement(query: ast.Statement, env: Environment) -> Statement:
    """Bind a query and all queries inside it.

    Raises:
        QueryNameError: a name, parameter or class does not exist, or two outputs share a name.
        QueryTypeError: parts do not fit together.
    """
    env.check()
    counts = Counter(table.name for table in query.tables)
    for number, table in enumerate(query.tables):
        if counts[table.name] > 1:
            raise QueryNameError(
                f"two queries of WITH are named {table.name!r}",
                text=env.text,
                span=table.span,
                hint="give one another name",
            )
        later = tuple(each.name for each in query.tables[number + 1 :])
        inside = env.within(table.name, later)
        env = env.naming(bind_derived(table.name, table.query, inside))
    if isinstance(query, ast.SetQuery):
        side = _combined(query, env)
        plain = ast.Query(
            order_by=query.order_by,
            arrange_by=query.arrange_by,
            sample=query.sample,
            limit=query.limit,
            offset=query.offset,
        )
        statement = _bind_query(plain, side, env)
    else:
        statement = _bind_query(query, bind_source(query.source, env, bind_derived), env)
    if not env.optimize:
        return statement
    return Statement(optimized(statement.plan), statement.base, statement.is_star)


def bind_derived(name: str, query: ast.Statement, env: Environment) -> Derived:
    """Bind a query of FROM or WITH."""
    return Derived(name, bind_statement(query, env))


def _combined(query: ast.SetQuery, env: Environment) -> Side:
    left, right = (bind_statement(each, env) for each in (query.left, query.right))
    by_identity = (
        left.is_star and right.is_star and left.base is not None and left.base == right.base
    )
    schema = combined_schema(left.columns, right.columns, query, env.text)
    if not by_identity:
        check_columns_decoded(schema, env.text, query.span)
    relation = Combined(query.op, query.keeps_all, left, right, by_identity, schema)
    return Side(relation, {("", name): name for name in schema})


def _bind_query(query: ast.Query, side: Side, env: Environment) -> Statement:
    names = side.names()
    binder = _binder(names, env)
    aliases = {
        output.alias: output.expr
        for output in query.select
        if output.alias is not None and not isinstance(output.expr, ast.Star)
    }
    plan: Plan = Scan(tuple(names.schema), relation=side.relation)
    if query.where is not None:
        binder.with_aliases(aliases, visible=False)
        plan = Filter(plan, binder.bind_condition(query.where, "WHERE"))
    if query.expand is not None:
        plan = _expanded(plan, query.expand, binder)
    if query.ungroup_by:
        plan, names = _ungrouped(plan, query, binder, names)
        binder = _binder(names, env)
    clauses = _Clauses(query, binder, aliases, side)
    return clauses.bound(plan, side.relation)


def _binder(names: Names, env: Environment) -> Binder:
    binder = Binder(names, env)
    binder.bind_statement = lambda query: bind_statement(query, env)
    return binder


class _Clauses:
    """The clauses from GROUP BY on, over one binder."""

    def __init__(self, query: ast.Query, binder: Binder, aliases: Aliases, side: Side) -> None:
        self._query = query
        self._binder = binder
        self._aliases = aliases
        self._side = side

    def bound(self, plan: Plan, relation: Relation) -> Statement:
        """Return the statement over a plan of rows."""
        query, binder = self._query, self._binder
        grouping = Grouping.of(query, binder, self._aliases)
        binder.windows = None if grouping is not None else []
        binder.with_aliases(self._aliases, visible=False)
        outputs = self._outputs(grouping)
        binder.with_aliases(self._aliases, visible=True)
        having = self._having(grouping)
        keys = tuple(binder.sort_key(key) for key in query.order_by)
        self._check_approximate(query)
        distinct = self._distinct(outputs)
        arrange = self._arranged()
        sample = None if query.sample is None else bind_weight(query.sample.weight, binder)
        if grouping is not None:
            plan = Aggregate(plan, grouping.keys, tuple(grouping.calls))
        if having is not None:
            plan = Filter(plan, having)
        if binder.windows:
            plan = Window(plan, tuple(binder.windows))
        if keys:
            plan = Sort(plan, keys)
        if distinct:
            plan = Distinct(plan, distinct)
        if arrange:
            plan = Arrange(plan, arrange)
        plan = self._cut(plan, sample)
        base = base_of(relation) if grouping is None else None
        is_star = base is not None and not query.ungroup_by and _passes_all(outputs, relation)
        return Statement(Project(plan, outputs), base, is_star)

    def _check_approximate(self, query: ast.Query) -> None:
        approximate = [key for key in query.order_by if key.is_approximate]
        if not approximate or (
            len(query.order_by) == 1 and query.limit is not None and not query.limit.percent
        ):
            return
        raise QueryTypeError(
            "APPROX needs LIMIT and no other key",
            text=self._binder.text,
            span=approximate[0].span,
            hint="write ORDER BY APPROX … LIMIT 10, or leave APPROX out for an exact order",
        )

    def _having(self, grouping: Grouping | None) -> Bound | None:
        having = self._query.having
        if having is None:
            return None
        if grouping is None:
            raise QueryTypeError(
                "HAVING needs GROUP BY or an aggregate",
                text=self._binder.text,
                span=having.span,
                hint="write WHERE",
            )
        return self._binder.bind_condition(having, "HAVING")

    def _distinct(self, outputs: tuple[Output, ...]) -> tuple[Bound, ...]:
        distinct = self._query.distinct
        if distinct is None:
            return ()
        if distinct.on:
            return tuple(self._binder.bind(expr) for expr in distinct.on)
        for output in outputs:
            check_decoded(output.expr, self._binder.text)
        return tuple(output.expr for output in outputs)

    def _arranged(self) -> tuple[Bound, ...]:
        return tuple(self._binder.bind_key(expr, "ARRANGE BY") for expr in self._query.arrange_by)

    def _cut(self, plan: Plan, weight: Bound | None) -> Plan:
        query, binder = self._query, self._binder
        if query.sample is None and query.limit is None and query.offset is None:
            return plan
        count, percent = bind_limit(query.limit, binder)
        offset = 0 if query.offset is None else bind_count(query.offset, binder)
        if query.sample is not None:
            assert weight is not None, "a sample has a weight"
            replace = True
            if query.sample.replace is not None:
                replace = bind_choice(query.sample.replace, binder, "REPLACE")
            seed = (
                binder.seed if query.sample.seed is None else bind_count(query.sample.seed, binder)
            )
            plan = Sample(plan, weight, replace, seed, count, percent)
            count = percent = None
        if count is None and percent is None and not offset:
            return plan
        return Limit(plan, count, percent, offset)

    def _outputs(self, grouping: Grouping | None) -> tuple[Output, ...]:
        outputs: list[Output] = []
        names: set[str] = set()
        for written in self._query.select or (ast.Output(ast.Star()),):
            if isinstance(written.expr, ast.Star):
                found = self._star(written, grouping)
            else:
                expr = written.expr
                is_renamed = isinstance(expr, ast.Column) and written.alias not in {None, expr.name}
                bound = self._binder.bind_undecoded(expr)
                if is_renamed:
                    check_decoded(bound, self._binder.text)
                default = expr.name if isinstance(expr, ast.Column) else print_expr(expr)
                beneath = bound if grouping is None else grouping.beneath(bound)
                if is_joined_row_column(beneath):  # that of the output is the first table's
                    default = print_expr(expr)
                self._check_row_alias(written, bound)
                found = [Output(written.alias or default, bound)]
            for output in found:
                if output.name in names:
                    raise QueryNameError(
                        f"two outputs are named {output.name!r}",
                        text=self._binder.text,
                        span=written.span,
                        hint="give one of them another name with AS",
                    )
                outputs.append(output)
                names.add(output.name)
        return tuple(outputs)

    def _check_row_alias(self, written: ast.Output, bound: Bound) -> None:
        """Refuse to name something else as what every row has beside its columns."""
        name, expr = written.alias, written.expr
        if name is None or name not in ROW_COLUMNS or isinstance(expr, ast.Star):
            return
        is_named_so = isinstance(expr, ast.Column) and expr.name == name
        if is_named_so and not is_joined_row_column(bound):
            return  # of a query in FROM
        if type(bound) is type(ROW_COLUMNS[name](expr)):
            return
        raise QueryNameError(
            f"{name!r} is the row's {ROW_COLUMN_NOUNS[name]} in every output, not"
            f" {print_expr(expr)}",
            text=self._binder.text,
            span=written.span,
            hint=f"give it another name: AS {name.strip('_')}",
        )

    def _star(self, written: ast.Output, grouping: Grouping | None) -> list[Output]:
        binder = self._binder
        if grouping is not None and not grouping.stacks:
            raise QueryTypeError(
                "'*' beside an aggregate has many values a group",
                text=binder.text,
                span=written.span,
                hint="name the group keys and aggregates",
            )
        if grouping is not None:
            return [Output(name, bound) for name, bound in grouping.columns()]
        names = list(binder.schema)
        if written.table is not None:
            tables = self._side.tables
            names = [
                name
                for (table, _), name in tables.items()
                if table == written.table and name in binder.schema
            ]
            for table, name in tables:
                if table == written.table:
                    binder.check_unmerged(table, name, written.span)
            if not names:
                known = sorted({table for table, _ in tables if table})
                raise QueryNameError(
                    f"no table {written.table!r} in FROM",
                    text=binder.text,
                    span=written.span,
                    hint=f"tables: {', '.join(known)}",
                )
        return [
            Output(name, ColumnRef(name, binder.schema[name], ast.Column(name))) for name in names
        ]


def _passes_all(outputs: tuple[Output, ...], relation: Relation) -> bool:
    passed = [
        output.expr.name
        for output in outputs
        if isinstance(output.expr, ColumnRef) and output.expr.name == output.name
    ]
    is_whole = len(passed) == len(outputs) and passed == list(relation.schema)
    if isinstance(relation, Derived):
        return is_whole and relation.statement.is_star
    return (is_whole and not isinstance(relation, Combined)) or (
        is_whole and isinstance(relation, Combined) and relation.by_identity
    )


def _expanded(plan: Plan, expand: ast.Expand, binder: Binder) -> Plan:
    overlaps = expand.overlap is not None and bind_choice(expand.overlap, binder, "OVERLAP")
    return Expand(
        plan, bind_count(expand.before, binder), bind_count(expand.after, binder), overlaps
    )


def _ungrouped(plan: Plan, query: ast.Query, binder: Binder, names: Names) -> tuple[Plan, Names]:
    if query.group_by or query.having is not None:
        raise QueryTypeError(
            "UNGROUP BY and GROUP BY in one query",
            text=binder.text,
            span=query.ungroup_by[0].span,
            hint="write SELECT … FROM (SELECT * GROUP BY …) UNGROUP BY …",
        )
    columns: list[ColumnRef] = [
        ColumnRef(name, column_type, ast.Column(name))
        for name, column_type in names.schema.items()
        if column_type.element is not None
    ]
    for expr in query.ungroup_by:
        is_split = isinstance(expr, ast.Column) and expr.name.lower() == SPLIT
        if is_split and SPLIT not in names.schema and columns:
            continue
        bound = binder.bind(expr)
        is_array = bool(bound.type.shape) or bound.type.element is not None
        if not isinstance(bound, ColumnRef) or not is_array:
            raise binder.type_error(
                f"UNNEST and UNGROUP BY take arrays apart, and {show(bound)} is"
                f" {describe(bound.type)}",
                bound,
                "name the columns that have one element for each row to be",
            )
        if all(bound.name != column.name for column in columns):
            columns.append(bound)
    split = {column.name: element_type(column.type) for column in columns}
    schema = {name: split.get(name, kind) for name, kind in names.schema.items()}
    made = Ungroup(plan, split, tuple(columns))
    return made, structs.replace(names, schema=schema)
