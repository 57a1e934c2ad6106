"""Functions of the user that queries call by name: ``tl.udf``.

They belong to the process, not to a dataset: a query that names one runs where it was defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorlake.errors import InvalidInputError, shown

if TYPE_CHECKING:
    import tensorlake_query as tql

__all__ = ["function_names", "known_functions", "udf"]

_functions: dict[str, tql.Function] = {}


def udf(
    name: str,
    function: Callable[..., Any],
    *,
    dtype: str,
    shape: tuple[int, ...] = (),
    vectorized: bool = False,
) -> None:
    """Let queries call a Python function by name.

    Args:
        name: How queries call it, in any case. Defined again, it is replaced.
        function: Takes one argument for each of the call, and is not called for NULLs. Vectorized
            it takes whole batches without the rows that have a NULL (arrays of n rows; lists where
            samples differ in shape, of text, of JSON) and returns n answers.
        dtype: Type of its result: a NumPy dtype, "text" or "json".
        shape: Shape of one result.
        vectorized: Whether it takes whole batches.

    Raises:
        InvalidInputError: The name is taken by the language, or the dtype is unknown.

    Example:
        >>> import tensorlake as tl
        >>> tl.udf("next_number", lambda x: x + 1, dtype="int64", vectorized=True)
        >>> ds = tl.create("memory://doc-udf", {"x": "int64"})
        >>> ds.extend({"x": [1, 9, 10]})
        >>> ds.query("WHERE next_number(x) >= 10")["x"][:]
        array([ 9, 10])
    """
    import tensorlake_query as tql

    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(f"udf() takes the function's name first, got {shown(name)}")
    if tql.is_function(name):
        raise InvalidInputError(
            f"{name.upper()} is a function of the language\nchoose another name"
        )
    try:
        made = tql.user_function(name, function, dtype=dtype, shape=shape, vectorized=vectorized)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"udf({shown(name)}): {error}") from error
    _functions[made.name] = made


def known_functions() -> dict[str, tql.Function]:
    """The functions defined so far."""
    return dict(_functions)


def function_names() -> tuple[str, ...]:
    """Return the names of the functions, on which depends what a query's names mean."""
    return tuple(_functions)
