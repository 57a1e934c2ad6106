"""The environment shared by all parts of a query during binding: parameters, tables, functions."""

from collections.abc import Callable, Mapping
from typing import cast

from msgspec import Struct, field, structs

from tensorlake_query.functions.plug_ins import PlugInError, plug_in
from tensorlake_query.functions.registry import Function
from tensorlake_query.planning.plan import Derived, Other, Relation, Schema, This
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import (
    NOT_RECURSIVE,
    QueryNameError,
    QueryTypeError,
    joined,
    listed,
    nearest,
)
from tensorlake_query.values.source import ColumnSource, Tables

# Numbers that have no literal, and how they are written.
NOT_FINITE = {
    "NAN": "NaN equals nothing: x != x finds it, and 0 / 0 makes it",
    **dict.fromkeys(("INF", "INFINITY"), "infinity is written 1 / 0"),
}


def _never() -> None:
    """Check nothing."""


class Environment(Struct, frozen=True):
    """The surroundings of a query.

    Attributes:
        this: the schema of the source that the query runs over.
        params: values of `$name`.
        text: the query, for errors to point at.
        tables: finds other sources; None where there are none.
        functions: the user's functions, beside the built-in ones.
        seed: what RANDOM and SAMPLE BY draw from.
        common: the queries that WITH has named.
        begun: the queries of WITH that are being bound, the innermost first.
        later: those that are written after them.
        used_params: the parameters that some part of the query mentions.
        used_functions: the user's functions that some part of it calls.
        check: raises where the time is up; called for each part that is bound.
    """

    this: Schema
    params: Mapping[str, object]
    text: str
    tables: Tables | None = None
    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])
    seed: int = 0
    optimize: bool = True
    common: Mapping[str, Derived] = field(default_factory=dict[str, Derived])
    begun: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    used_params: set[str] = field(default_factory=set[str])
    used_functions: set[str] = field(default_factory=set[str])
    check: Callable[[], None] = _never

    def naming(self, table: Derived) -> "Environment":
        """Return the environment with one more query named."""
        return structs.replace(self, common={**self.common, table.name: table})

    def within(self, name: str, later: tuple[str, ...]) -> "Environment":
        """Return the environment inside a query of WITH, from the names of those after it."""
        return structs.replace(self, begun=(name, *self.begun), later=(*later, *self.later))

    def function(self, expr: ast.Call) -> Function | None:
        """Return the function of the user, or of a plug-in, that a call names; None for neither.

        Raises:
            QueryNameError: the plug-in cannot be used.
        """
        try:
            if expr.name in self.functions:
                self.used_functions.add(expr.name)
                return self.functions[expr.name]
            return plug_in(expr.name)
        except PlugInError as error:
            raise QueryNameError(
                str(error), text=self.text, span=expr.span, hint=error.hint
            ) from error

    def parameter(self, expr: ast.Parameter) -> object:
        """Return the value given for a parameter.

        Raises:
            QueryNameError: none was given.
        """
        if expr.name not in self.params:
            raise QueryNameError(
                f"no value for the parameter ${expr.name}",
                text=self.text,
                span=expr.span,
                hint=joined(
                    nearest(expr.name, self.params), f"give it beside the text: {expr.name}=…"
                ),
            )
        self.used_params.add(expr.name)
        return self.params[expr.name]

    def check_params_used(self) -> None:
        """Refuse parameters that no part of the query mentions.

        Raises:
            QueryNameError: a parameter was given and not used.
        """
        for name in self.params:
            if name not in self.used_params:
                used = sorted(self.used_params)
                raise QueryNameError(
                    f"unused query parameter {name!r}",
                    text=self.text,
                    span=ast.Span(0, len(self.text)),
                    hint=joined(
                        nearest(name, used),
                        listed("it uses", [f"${each}" for each in used])
                        if used
                        else "it uses none",
                    ),
                )

    def relation(self, table: ast.Table) -> Relation:
        """Find what FROM names.

        Raises:
            QueryNameError: there is nothing of that name.
            QueryTypeError: a parameter holds no table.
        """
        version = self._version(table.version)
        if isinstance(table.source, ast.Parameter):
            return self._given(table.source, table)
        assert isinstance(table.source, ast.Column), "queries are bound elsewhere"
        name = table.source.name
        if version is None and name in self.common:
            return self.common[name]
        if version is None and name == "this":
            return This(self.this)
        is_unbound = version is None and name in {*self.begun, *self.later}
        if self.tables is None and is_unbound:
            raise self._unbound(name, table)
        if self.tables is None:
            known = ["this", *self.common]
            raise QueryNameError(
                f"no table {name!r}" if version is None else "there are no versions here",
                text=self.text,
                span=table.span,
                hint=joined(nearest(name, known), listed("tables", known)),
            )
        try:
            source = self.tables.table(name, version)
        except LookupError as error:
            if is_unbound:
                raise self._unbound(name, table) from error
            shown = str(error.args[0]) if error.args else f"no table {name!r}"
            # The source names what is beside it; of a version that is missing, the table exists.
            named = nearest(name, ["this", *self.common]) if version is None else ""
            raise QueryNameError(shown, text=self.text, span=table.span, hint=named) from error
        return Other(name, source)

    def _unbound(self, name: str, table: ast.Table) -> QueryNameError:
        if name in self.begun:
            message, hint = "a query of WITH cannot read itself", NOT_RECURSIVE
        else:
            message = f"{name!r} is bound after the query that reads it"
            hint = f"write {name} AS (…) before {self.begun[0]} AS (…)"
        return QueryNameError(message, text=self.text, span=table.span, hint=hint)

    def _given(self, parameter: ast.Parameter, table: ast.Table) -> Relation:
        value = self.parameter(parameter)
        if not isinstance(value, ColumnSource) or table.version is not None:
            what = type(value).__name__
            raise QueryTypeError(
                f"the parameter ${parameter.name} is {what}, and no table"
                if table.version is None
                else "a table given as a parameter has no versions here",
                text=self.text,
                span=table.span,
                hint="give a dataset, a view, a DataFrame or an Arrow table",
            )
        return Other(parameter.name, value)

    def _version(self, version: ast.Version | None) -> tuple[str, str] | None:
        if version is None:
            return None
        value = version.value
        given: object = value.value if isinstance(value, ast.Literal) else self.parameter(value)
        if not isinstance(given, str):
            raise QueryTypeError(
                f"a version is a text, not {given!r}",
                text=self.text,
                span=value.span,
                hint="write VERSION 'main@12', TAG 'v1' or AS OF '2026-01-01'",
            )
        return cast("str", version.kind), given
