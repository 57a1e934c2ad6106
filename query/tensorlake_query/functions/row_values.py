"""Functions of constants that have a value for each row of a version: RUN('name', 'loss')."""

from collections.abc import Callable, Sequence

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.values.bound import Bound, ColumnRef, Constant, RowNumber, show
from tensorlake_query.values.source import ColumnType, IntArray, UniformBatch
from tensorlake_query.values.source import RaggedBatch as _Ragged
from tensorlake_query.values.types import INT
from tensorlake_query.values.vectors import Vector

ReadRows = Callable[[IntArray], UniformBatch | _Ragged]
"""Returns the values of rows, by their numbers in the version that is queried."""


def row_function(
    name: str,
    make: Callable[..., tuple[ColumnType, ReadRows]],
    *,
    usage: str,
    summary: str,
    arity: tuple[int, int],
    options: Sequence[str] = (),
    takes_names: bool = False,
) -> Function:
    """Make a function that queries can call with constants.

    Args:
        name: how queries call it, in any case.
        make: takes the constants of a call, once a query, and returns the type of a value and a
            function that reads values; a ValueError or LookupError becomes
            the query's, at the call.
        usage: how a call of it is written.
        summary: what it gives, in one sentence.
        arity: the least and the greatest number of arguments.
        options: names of arguments that are given by name.
        takes_names: whether an argument may be a column, which is then given by its name.
    """

    def bind(site: Site) -> Bound:
        constants = [
            arg.name if takes_names and isinstance(arg, ColumnRef) else _constant(site, arg)
            for arg in site.args
        ]
        named = {option: _constant(site, arg) for option, arg in site.named.items()}
        try:
            column_type, read = make(*constants, **named)
        except (ValueError, LookupError) as error:
            raise site.fail(str(error)) from error

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return read(vectors[0].values)

        rows = RowNumber(INT, site.syntax, is_stored=True)
        return site.apply(kernel, column_type, args=(rows,), cost=8.0)

    return Function(name.upper(), usage, summary, arity, bind, frozenset(options))


def _constant(site: Site, arg: Bound) -> object:
    if not isinstance(arg, Constant):
        raise site.fail(f"a constant is expected, not {show(arg)}", at=arg)
    return arg.value
