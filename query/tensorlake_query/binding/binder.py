"""Names and types: from syntax to bound expressions, checked against a schema.

`Binder.bind` resolves columns, aliases, parameters and functions, and rewrites the forms that are
short for others: `BETWEEN` into two comparisons, a simple CASE into a searched one, `IN` with
anything but constants into ORs. Errors are raised here, before any data is read, wherever the types
allow it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from tensorlake_query.binding.arguments import check_arguments
from tensorlake_query.binding.handles import (
    SHAPE_FUNCTIONS,
    check_columns_decoded,
    check_decoded,
    counts_rows,
)
from tensorlake_query.binding.scope import NOT_FINITE, Environment
from tensorlake_query.functions import ALIASES, FUNCTIONS
from tensorlake_query.functions.aggregate.aggregates import AGGREGATES, WITHIN_SAMPLE
from tensorlake_query.functions.array.indexing import bind_index
from tensorlake_query.functions.plug_ins import plug_in_names
from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.scalar.conditional import bind_case, bind_cast
from tensorlake_query.functions.scalar.dates import bind_extract
from tensorlake_query.functions.scalar.membership import (
    bind_in_constants,
    bind_in_query,
    bind_in_values,
    item_by_item,
)
from tensorlake_query.functions.scalar.operators import (
    bind_arithmetic,
    bind_compare,
    bind_is_null,
    bind_logic,
    bind_sign,
)
from tensorlake_query.functions.text.patterns import bind_like
from tensorlake_query.functions.window.windows import WINDOWS, WindowCall, bind_window
from tensorlake_query.planning.nearest import APPROX_ORDERS, vector_key
from tensorlake_query.planning.plan import Names, Statement
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import (
    QueryNameError,
    QueryTypeError,
    joined,
    listed,
    nearest,
    unknown_function,
)
from tensorlake_query.values.bound import (
    ROW_COLUMNS,
    Bound,
    ColumnRef,
    Constant,
    QueryRef,
    show,
    span_of,
)
from tensorlake_query.values.conversions import as_condition, condition_hint
from tensorlake_query.values.order import SortKey
from tensorlake_query.values.parameters import parameter_value, plain_values, scalar_type
from tensorlake_query.values.times import interval_of_text, moment_of_text
from tensorlake_query.values.types import BOOL, describe, example_index, number

OF_ARRAYS = frozenset({"SHAPE", "NDIM", "SIZE", "INFO", "DTYPE", "DATA"})


class Binder:
    """Binds the expressions of one query over what its FROM gives."""

    def __init__(self, names: Names, env: Environment) -> None:
        self.text = env.text
        self.schema = names.schema
        self.windows: list[WindowCall] | None = None  # None where window functions are not allowed
        self.bind_statement: Callable[[ast.Statement], Statement] | None = None
        self.seed = env.seed
        self._is_array = False  # what is bound is an array's name, and no text without quotes
        self._names = names
        self._env = env
        self._aliases: Mapping[str, ast.Expr] = {}
        self._hidden_aliases: Mapping[str, ast.Expr] = {}
        self._special: Callable[[ast.Expr], Bound | None] | None = None

    def with_aliases(self, aliases: Mapping[str, ast.Expr], *, visible: bool) -> None:
        """Set the aliases of the SELECT list: seen from here on, or only known for errors."""
        self._aliases, self._hidden_aliases = (aliases, {}) if visible else ({}, aliases)

    def with_special(self, special: Callable[[ast.Expr], Bound | None] | None) -> None:
        """Set what binds certain expressions first: group keys and aggregates to their slots."""
        self._special = special

    def bind(self, expr: ast.Expr) -> Bound:
        """Return the bound form of an expression.

        Raises:
            QueryNameError: a name in it does not exist.
            QueryTypeError: its parts do not fit together, or it is a column of handles.
        """
        bound = self.bind_undecoded(expr)
        check_decoded(bound, self.text)
        return bound

    def bind_undecoded(self, expr: ast.Expr) -> Bound:
        """Return the bound form of an expression whose samples are not looked into.

        Raises:
            QueryNameError: a name in it does not exist.
            QueryTypeError: its parts do not fit together.
        """
        self._env.check()
        if self._special is not None and (found := self._special(expr)) is not None:
            return found
        match expr:
            case ast.Literal(value):
                return Constant(value, scalar_type(value), expr)
            case ast.Array():
                return self._array(expr)
            case ast.Column():
                return self._column(expr)
            case ast.Parameter():
                return self._parameter(expr)
            case ast.Call():
                return self._call(expr)
            case ast.Moment(text):
                return moment_of_text(text, self.text, expr)
            case ast.Interval(text):
                return interval_of_text(text, self.text, expr)
            case ast.Extract(part):
                return bind_extract(self._site(expr, [self.bind(expr.operand)]), part)
            case ast.Between(operand, low, high, negated):
                within = ast.And(
                    (
                        ast.Compare(">=", operand, low, span=expr.span),
                        ast.Compare("<=", operand, high, span=expr.span),
                    ),
                    span=expr.span,
                )
                return self.bind(ast.Not(within, span=expr.span) if negated else within)
            case ast.InList():
                return self._in_list(expr)
            case ast.Subquery() | ast.Exists() | ast.InQuery():
                return self._query(expr)
            case ast.Case(operand, whens, otherwise) if operand is not None:
                searched = tuple(
                    ast.When(
                        ast.Compare("=", operand, when.condition, span=when.span),
                        when.result,
                        span=when.span,
                    )
                    for when in whens
                )
                return self.bind(ast.Case(None, searched, otherwise, span=expr.span))
            case _:
                return self._operator(expr)

    def bind_condition(self, expr: ast.Expr, clause: str) -> Bound:
        """Return the bound form of a condition: one boolean per row.

        Raises:
            QueryTypeError: it gives something else, in particular an array of booleans.
        """
        bound = self.bind(expr)
        condition = as_condition(bound)
        if condition is None:
            raise self.type_error(
                f"{clause} needs a condition, and {show(bound)} is {describe(bound.type)}",
                bound,
                condition_hint(bound),
            )
        if condition.type.shape:
            raise self._array_condition(expr, clause)
        return condition

    def type_error(self, message: str, at: Bound, hint: str = "") -> QueryTypeError:
        """Return a type error that points at an expression."""
        return QueryTypeError(message, text=self.text, span=span_of(at), hint=hint)

    def _site(
        self, expr: ast.Expr, args: Sequence[Bound], named: Mapping[str, Bound] | None = None
    ) -> Site:
        return Site(expr, tuple(args), named or {}, self.text, self.bind, self._env.seed)

    def _operator(self, expr: ast.Expr) -> Bound:
        bind = self.bind_undecoded if isinstance(expr, ast.IsNull) else self.bind
        site = self._site(expr, [bind(operand) for operand in ast.operands(expr)])
        match expr:
            case ast.Unary(op):
                return bind_sign(site, op)
            case ast.Binary(op):
                return bind_arithmetic(site, op)
            case ast.Compare(op):
                return bind_compare(site, op)
            case ast.And():
                return bind_logic(site, "and")
            case ast.Or():
                return bind_logic(site, "or")
            case ast.Not():
                return bind_logic(site, "not")
            case ast.IsNull(_, negated):
                return bind_is_null(site, negated=negated)
            case ast.Like():
                return bind_like(site, expr)
            case ast.Case(_, _, otherwise):
                return bind_case(site, has_otherwise=otherwise is not None)
            case ast.Cast(_, type_name):
                return bind_cast(site, type_name)
            case ast.Index():
                return bind_index(site, expr)
            case _:
                raise AssertionError(f"{type(expr).__name__} is bound elsewhere")

    def _column(self, expr: ast.Column) -> Bound:
        name = expr.name
        if expr.table is not None:
            return self._qualified(expr)
        if name in self.schema:
            return ColumnRef(name, self.schema[name], expr)
        if name in self._names.ambiguous:
            raise QueryNameError(
                f"{name!r} is a column of several tables",
                text=self.text,
                span=expr.span,
                hint=f"write {' or '.join(self._names.ambiguous[name])}",
            )
        if name in self._aliases:
            return self.bind_undecoded(self._aliases[name])
        if name in ROW_COLUMNS:
            return ROW_COLUMNS[name](expr)
        names = [*self.schema, *self._aliases]
        is_quoted = self.text[expr.span.start : expr.span.start + 1] == '"'
        if name in self._hidden_aliases:
            hint = "an alias of SELECT is not seen here: repeat its expression"
        elif is_quoted:
            hint = joined(f"text takes single quotes: '{name}'", nearest(name, names))
        elif name.upper() in NOT_FINITE:
            hint = NOT_FINITE[name.upper()]
        elif self._is_array:
            hint = nearest(name, names)
        else:
            hint = nearest(name, names) or f"text takes quotes: '{name}'"
        raise QueryNameError(
            f"no tensor or function {name!r}",
            text=self.text,
            span=expr.span,
            hint=joined(hint, listed("tensors", self.schema)),
        )

    def _qualified(self, expr: ast.Column) -> Bound:
        tables = list(dict.fromkeys(table for table, _ in self._names.qualified))
        self.check_unmerged(expr.table or "", expr.name, expr.span)
        key = self._names.qualified.get((expr.table or "", expr.name))
        if key is not None and key in self.schema:
            return ColumnRef(key, self.schema[key], expr)
        if key is not None and key in self._names.rows:
            return ColumnRef(key, self._names.rows[key], expr)
        if key is not None and key in ROW_COLUMNS:
            return ROW_COLUMNS[key](expr)
        member = f"{expr.table}/{expr.name}"  # of a group of tensors, which need not be quoted
        if expr.table not in tables and member in self.schema:
            return ColumnRef(member, self.schema[member], expr)
        if expr.table in tables:
            known = [
                name
                for (table, name), key in self._names.qualified.items()
                if table == expr.table and key in self.schema
            ]
            message = f"{expr.table!r} has no column {expr.name!r}"
            hint = joined(nearest(expr.name, known), listed("columns", known))
            if expr.name in ROW_COLUMNS:
                message += ": its rows are made by a query, and are rows of no version"
                hint = "select in that query what its rows are known by"
        else:
            message = f"no table {expr.table!r} in FROM"
            hint = joined(nearest(expr.table or "", tables), listed("tables", filter(None, tables)))
            if expr.table in self.schema:
                message = f"{expr.table!r} is a tensor and has no columns"
                hint = f"a member of JSON is {expr.table}['{expr.name}']"
        raise QueryNameError(message, text=self.text, span=expr.span, hint=hint)

    def check_unmerged(self, table: str, name: str, span: ast.Span) -> None:
        """Refuse a column of an outer side that USING has merged with that of the other side.

        Raises:
            QueryNameError: it is one.
        """
        if (table, name) in self._names.merged:
            raise QueryNameError(
                f"'{table}.{name}' is merged into {name!r} by USING, which has a value also where"
                f" {table!r} has no row",
                text=self.text,
                span=span,
                hint=f"write {name}, or ON instead of USING ({name}): it keeps both columns",
            )

    def _query(self, expr: ast.Subquery | ast.Exists | ast.InQuery) -> Bound:
        assert self.bind_statement is not None, "a query is bound where queries are allowed"
        statement = self.bind_statement(expr.query)
        if isinstance(expr, ast.Exists):
            return QueryRef(statement, "exists", BOOL, expr)
        check_columns_decoded(statement.columns, self.text, expr.span)
        columns = list(statement.columns.values())
        if len(columns) != 1 or columns[0].shape:
            raise QueryTypeError(
                f"a query used as a value gives one column of single values, not {len(columns)}"
                if len(columns) != 1
                else f"a query used as a value gives single values, not {describe(columns[0])}",
                text=self.text,
                span=expr.span,
                hint="select one expression",
            )
        if isinstance(expr, ast.InQuery):
            members = QueryRef(statement, "members", columns[0], expr)
            operand = self.bind(expr.operand)
            return bind_in_query(self._site(expr, [operand]), members, negated=expr.negated)
        return QueryRef(statement, "value", replace(columns[0], nullable=True), expr)

    def _call(self, expr: ast.Call) -> Bound:
        name = ALIASES.get(expr.name, expr.name)
        if name in WITHIN_SAMPLE and expr.named and expr.over is None:  # AVG(x, axis => 0)
            name = WITHIN_SAMPLE[name]
        if expr.over is not None:
            return self._window(expr, expr.over)
        if name in AGGREGATES:
            raise QueryTypeError(
                f"aggregate {name} is not allowed here",
                text=self.text,
                span=expr.span,
                hint="aggregates belong in SELECT, HAVING or ORDER BY, and not inside each other",
            )
        function = FUNCTIONS.get(name) or self._env.function(expr)
        if function is None:
            raise self._unknown_function(expr)
        check_arguments(expr, function, self.text)
        args: list[Bound] = []
        bind = self.bind_undecoded if name in SHAPE_FUNCTIONS else self.bind
        for arg in expr.args:
            self._is_array = name in OF_ARRAYS and isinstance(arg, ast.Column)
            if isinstance(arg, ast.Weighted):
                args += [self.bind(arg.condition), self.bind(arg.weight)]
            elif not isinstance(arg, ast.Star):
                args.append(bind(arg))
        self._is_array = False
        named = {each.name: self.bind(each.value) for each in expr.named}
        return function.bind(self._site(expr, args, named))

    def _unknown_function(self, expr: ast.Call) -> QueryNameError:
        known = [*FUNCTIONS, *AGGREGATES, *WINDOWS, *self._env.functions, *plug_in_names()]
        hint = f"write {expr.name}(…) OVER (ORDER BY …)" if expr.name in WINDOWS else ""
        return unknown_function(expr.name, known, hint, text=self.text, start=expr.span.start)

    def _window(self, expr: ast.Call, over: ast.Over) -> Bound:
        if expr.name not in WINDOWS and expr.name not in AGGREGATES:
            raise QueryNameError(
                f"{expr.name!r} is not a window function",
                text=self.text,
                span=expr.span,
                hint=joined(nearest(expr.name, WINDOWS), listed("window functions", WINDOWS)),
            )
        if self.windows is None:
            raise QueryTypeError(
                f"{expr.name} OVER (…) is a window function, which is not allowed here",
                text=self.text,
                span=expr.span,
                hint="window functions belong in SELECT and ORDER BY of a query without GROUP BY:"
                " filter by them in a query around it",
            )
        windows, self.windows = self.windows, None  # none inside another
        bind = self.bind_undecoded if counts_rows(expr) else self.bind
        args = [bind(arg) for arg in expr.args if not isinstance(arg, ast.Star | ast.Weighted)]
        partition = tuple(self._single(self.bind(each)) for each in over.partition_by)
        keys = tuple(self.sort_key(key) for key in over.order_by)
        self.windows = windows
        call = bind_window(self._site(expr, args), expr, partition, keys)
        windows.append(call)
        return ColumnRef(f"#w{len(windows) - 1}", call.type, expr)

    def sort_key(self, key: ast.OrderKey) -> SortKey:
        """Bind one key of an order: one comparable value a row.

        Raises:
            QueryTypeError: it gives something else.
        """
        bound = self.bind_key(key.expr, "ORDER BY")
        made = SortKey(bound, key.descending, key.nulls_first, key.is_approximate)
        if key.is_approximate and vector_key(made) is None:
            raise self.type_error(f"APPROX cannot order by {show(bound)}", bound, APPROX_ORDERS)
        return made

    def bind_key(self, expr: ast.Expr, clause: str) -> Bound:
        """Bind what a clause orders or groups by: one comparable value a row.

        Raises:
            QueryTypeError: it gives something else, or one value for all rows.
        """
        bound = self.bind(expr)
        if isinstance(expr, ast.Literal):
            raise self.type_error(
                f"{clause} {show(bound)} is one value for all rows",
                bound,
                "name a column or an alias: outputs are not counted",
            )
        if bound.type.shape or bound.type.kind in {"json", "bytes"}:
            shown = show(bound)
            hints = {"json": f"write CAST({shown} AS FLOAT), or AS TEXT"}
            is_array = f"write ARRAY_MAX({shown}), or one element" if bound.type.shape else ""
            message = f"{clause} needs one comparable value a row"
            raise self.type_error(
                f"{message}, and {shown} is {describe(bound.type)}",
                bound,
                is_array or hints.get(bound.type.kind, ""),
            )
        return bound

    def _single(self, bound: Bound) -> Bound:
        if bound.type.shape or bound.type.kind == "bytes":
            shown = f"{show(bound)} is {describe(bound.type)}"
            raise self.type_error(f"one value a row is needed, and {shown}", bound)
        return bound

    def _in_list(self, expr: ast.InList) -> Bound:
        if len(expr.items) == 1 and isinstance(expr.items[0], ast.Parameter):
            parameter = expr.items[0]
            values = plain_values(self._env.parameter(parameter))
            if values is not None:
                first = parameter_value(values[0], parameter, self.text)
                site = self._site(expr, [self.bind(expr.operand), first])
                found = bind_in_values(site, values, negated=expr.negated)
                if found is not None:
                    return found
        items: list[ast.Expr] = []
        bound: list[Bound] = []
        for item in expr.items:
            if isinstance(item, ast.Parameter):
                value = self._env.parameter(item)
                if isinstance(value, list | tuple | np.ndarray | set | frozenset):
                    for each in cast("Sequence[object]", value):
                        items.append(item)
                        bound.append(parameter_value(each, item, self.text))
                    continue
            items.append(item)
            bound.append(self.bind(item))
        if not all(isinstance(each, Constant) for each in bound):
            return self.bind(item_by_item(expr))
        written = ast.with_fields(expr, items=tuple(items))
        return bind_in_constants(
            self._site(written, [self.bind(expr.operand), *bound]), negated=expr.negated
        )

    def _array(self, expr: ast.Array) -> Bound:
        items: list[object] = []
        for item in expr.items:
            bound = self.bind(item)
            if not isinstance(bound, Constant) or bound.type.dtype is None:
                raise self.type_error(
                    "an array literal holds constant numbers",
                    bound,
                    "pass other arrays as parameters: $name",
                )
            items.append(bound.value)
        try:
            value = np.array(items) if items else np.zeros(0)
        except ValueError:
            value = np.array(None)
        if value.dtype.kind not in "biuf":
            raise QueryTypeError(
                "the rows of an array literal differ in length", text=self.text, span=expr.span
            )
        return Constant(value, number(value.dtype, value.shape), expr)

    def _parameter(self, expr: ast.Parameter) -> Bound:
        return parameter_value(self._env.parameter(expr), expr, self.text)

    def _array_condition(self, expr: ast.Expr, clause: str) -> QueryTypeError:
        """Explain that a condition gives an array, at the comparison that makes it one."""
        while isinstance(expr, ast.And | ast.Or | ast.Not):
            expr = next(each for each in ast.operands(expr) if self.bind(each).type.shape)
        bound = self.bind(expr)
        written = self.text[expr.span.start : expr.span.stop] or show(bound)
        hint = f"write ANY({written}) or ALL({written})"
        message = f"{clause} needs one boolean per row, and this gives {describe(bound.type)}"
        if isinstance(expr, ast.Compare):
            left, right = self.bind(expr.left), self.bind(expr.right)
            if bool(left.type.shape) != bool(right.type.shape):
                array, other = (left, right) if left.type.shape else (right, left)
                what = "a class name" if other.type.kind == "text" else describe(other.type)
                message = (
                    f"{show(array)!r} is {describe(array.type)}; "
                    f"a comparison with {what} gives many answers a row"
                )
                if array is left and isinstance(array, ColumnRef):
                    one = f"{show(array)}[{example_index(array.type)}]"
                    hint += f", or one element: {one} {expr.op} {show(right)}"
        return QueryTypeError(message, text=self.text, span=expr.span, hint=hint)
