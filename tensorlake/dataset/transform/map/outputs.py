"""The outputs of the function of ``map``: checked, by tensor, and named by the rows it is of."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.core.structs import flattened
from tensorlake.dataset.transform.map.calls import rows_shown
from tensorlake.errors import InvalidInputError, MissingTensorError, SchemaError, shown
from tensorlake.quantities import plural
from tensorlake.types import SampleType, as_type, expand_structs, with_tiles_of

__all__ = [
    "check_column",
    "named_output",
    "naming_the_row",
    "output_nbytes",
    "rows_of_output",
    "types_of",
]

Int64Array = npt.NDArray[np.int64]


def types_of(
    schema: Mapping[str, Any] | None, there: Mapping[str, SampleType] | None = None
) -> dict[str, SampleType]:
    """Return the types of the outputs, a struct as its fields.

    Args:
        schema: As the user gave it.
        there: The types of tensors that exist already.
    """
    if not isinstance(schema, Mapping) or not schema:
        raise SchemaError(
            f"map() makes no tensor: schema={shown(schema)}"
            "\nname what the function returns: schema={…: type}"
        )
    types = {name: as_type(one) for name, one in expand_structs(schema).items()}
    return with_tiles_of(types, there or {})


def check_column(name: str, values: Any, rows: int) -> None:
    """Refuse an output for several rows that is not a column."""
    if not _is_column(values):
        raise InvalidInputError(
            f"the function of map() returned {type(values).__name__} as {name!r} of"
            f" {plural(rows, 'row')}\nreturn an array or a list, with a value for each row",
            tensor=name,
            actual=type(values).__name__,
        )


def named_output(output: Any, names: Sequence[str], *, is_batch: bool) -> Mapping[str, Any]:
    """Return an output by tensor, checked; the output of a struct becomes its fields."""
    if not isinstance(output, Mapping):
        raise InvalidInputError(
            f"the function of map() returned {type(output).__name__}, not a dict"
            f"\nreturn {{{', '.join(f'{name!r}: …' for name in names)}}}",
            actual=type(output).__name__,
        )
    given = cast("Mapping[str, Any]", output)
    if is_batch:
        given = flattened(given, names, call="map()")
    elif not given.keys() <= set(names):
        columns = flattened({key: [one] for key, one in given.items()}, names, call="map()")
        given = {key: column[0] for key, column in columns.items()}
    if set(given) != set(names):
        raise MissingTensorError(
            f"the function of map() returned {sorted(given)}, and schema= names {sorted(names)}"
            "\nreturn a value for each name of the schema",
            expected=sorted(names),
            actual=sorted(given),
        )
    return given


def rows_of_output(output: Any, names: Sequence[str], *, is_batch: bool) -> Any:
    """Return one output as input of `extend`: nothing, one row, several, or columns."""
    if output is None:
        return None
    if isinstance(output, list | tuple):
        many: list[Any] = [*output]
        return [named_output(row, names, is_batch=False) for row in many]
    named = dict(named_output(output, names, is_batch=is_batch))
    return named if is_batch else [named]


def output_nbytes(value: Any) -> int:
    """Return about how many bytes one value takes."""
    size = getattr(value, "nbytes", None)
    return int(size) if size is not None else len(value) if isinstance(value, bytes | str) else 64


@contextmanager
def naming_the_row(view: RowSet, positions: Int64Array, *, is_one: bool = False) -> Generator[None]:
    """Add to an error the source row of the refused output: the error counts staged rows."""
    try:
        yield
    except InvalidInputError as error:
        at = error.facts.get("row")
        made_from = positions
        if not is_one and isinstance(at, int) and 0 <= at < len(positions):
            made_from = positions[at : at + 1]
        error.add_note(f"returned by the function of map(), for {rows_shown(view, made_from)}")
        raise


def _is_column(values: Any) -> bool:
    is_one_value = isinstance(values, str | bytes | Mapping) or getattr(values, "ndim", 1) == 0
    return isinstance(values, Sized) and not is_one_value and not isinstance(values, AbstractSet)
