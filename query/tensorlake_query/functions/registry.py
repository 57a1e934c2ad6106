"""The type of a built-in function, and the arguments for its binding.

A `Function` checks its arguments' types once, when the query is bound, and returns a bound
expression whose kernel then runs on whole batches. Adding one means adding a `Function` to its
group's tuple.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.bound import Apply, Bound, Constant, Kernel, span_of
from tensorlake_query.values.source import ColumnType


class Site(Struct, frozen=True):
    """One place in a query where an operator or function is used."""

    syntax: ast.Expr
    args: tuple[Bound, ...]
    named: Mapping[str, Bound]
    text: str
    bind: Callable[[ast.Expr], Bound]
    seed: int = 0

    def fail(self, message: str, *, at: Bound | None = None, hint: str = "") -> QueryTypeError:
        """Return a type error that points at an argument, or at the whole expression."""
        span = span_of(at) if at is not None else self.syntax.span
        return QueryTypeError(message, text=self.text, span=span, hint=hint)

    def apply(
        self,
        kernel: Kernel,
        column_type: ColumnType,
        *,
        args: Sequence[Bound] | None = None,
        strict: bool = True,
        cost: float = 1.0,
        role: str = "",
    ) -> Apply:
        """Return the bound call; `args` are the positional arguments after conversion."""
        given = tuple(self.args if args is None else args)
        return Apply(
            kernel, (*given, *self.named.values()), column_type, self.syntax, strict, cost, role
        )

    def static_int(self, name: str) -> int | None:
        """Return a named argument that must be an integer known now, such as `axis => 0`."""
        given = self.named.get(name)
        if given is None:
            return None
        if not isinstance(given, Constant) or type(given.value) is not int:
            raise self.fail(f"{name} must be an integer", at=given, hint=f"write {name} => 0")
        return given.value


class Function(Struct, frozen=True):
    """A built-in function: how it is written, what it does, and how it is bound."""

    name: str
    usage: str
    summary: str
    arity: tuple[int, int]
    bind: Callable[[Site], Bound]
    options: frozenset[str] = frozenset()
    is_weighted: bool = False  # its arguments are `condition: weight`
