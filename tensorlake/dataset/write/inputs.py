"""Inputs of ``append`` and ``extend``, converted to one form: batches of columns.

Rows (mappings), columns (a mapping of sequences), Arrow tables and DataFrames, Views, and iterators
of any of these. Nothing is converted here but the outer shape; ``staging.py`` and each tensor's
type do the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.rowset import has_rows, rowset_of
from tensorlake.dataset.core.stored_columns import StoredColumn
from tensorlake.dataset.core.structs import members_of
from tensorlake.dataset.write.arrow.values import check_names, values_of
from tensorlake.errors import (
    InvalidInputError,
    MissingTensorError,
    missing_extra,
)
from tensorlake.format import Schema
from tensorlake.types import (
    Json,
    Ragged,
    SampleType,
    untiled,
)
from tensorlake.types import Sequence as SequenceType

__all__ = [
    "Batch",
    "batches",
    "holds_columns",
]

Batch = Mapping[str, Any]
"""Samples by tensor name: sequences, arrays or columns of equal length."""

ROWS_A_BATCH = 1024
"""Rows taken from an iterator of rows at once: enough for whole-column conversion to pay."""


NESTED_INPUTS = 8
"""Iterators of iterators of rows: deeper ones are a mistake, and would overflow the stack."""


def batches(data: Any, *, schema: Schema, call: str, depth: int = 0) -> Iterator[Batch]:
    """Convert input data to batches of columns.

    Raises:
        InvalidInputError: It is none of the forms that are known.
    """
    if isinstance(data, Mapping):
        yield data
    elif has_rows(data):
        yield from rowset_of(data).column_batches()
    elif hasattr(data, "iloc"):  # a pandas DataFrame: its columns convert without Arrow
        yield {str(name): data[name] for name in data.columns}
    elif hasattr(data, "__arrow_c_stream__"):
        yield _arrow_columns(data, schema)
    elif isinstance(data, str | bytes) or depth > NESTED_INPUTS or not isinstance(data, Iterable):
        raise InvalidInputError(
            f"{call} takes rows or columns, got {type(data).__name__}\n"
            'give {"name": [value, …], …}, a list of rows {"name": value, …}, an Arrow table,'
            " a DataFrame, a View, or an iterator of these",
            actual=type(data).__name__,
        )
    else:
        yield from _from_items(data, schema=schema, call=call, depth=depth)


def _from_items(items: Iterable[Any], *, schema: Schema, call: str, depth: int) -> Iterator[Batch]:
    if getattr(items, "ndim", 1) == 0:
        raise InvalidInputError(f"{call} takes rows or columns, got an array without axes")
    rows: list[Mapping[str, Any]] = []
    row_start = 0
    holds_rows: bool | None = None  # of the mappings that follow each other: all, or none
    for item in items:
        if isinstance(item, Mapping):
            if holds_rows is None:
                holds_rows = not holds_columns(item, schema)
            if holds_rows:
                rows.append(item)
                if len(rows) == ROWS_A_BATCH:
                    yield _transposed(rows, row_start=row_start, call=call)
                    row_start += len(rows)
                    rows = []
                continue
        else:
            holds_rows = None
        if rows:
            yield _transposed(rows, row_start=row_start, call=call)
            row_start += len(rows)
            rows = []
        yield from batches(item, schema=schema, call=call, depth=depth + 1)
    if rows:
        yield _transposed(rows, row_start=row_start, call=call)


def holds_columns(item: Mapping[str, Any], schema: Schema) -> bool:
    """Whether a mapping among others is columns rather than one row, by the schema.

    A value that is one sample of its tensor means "row", a sequence of samples "columns"; the first
    unambiguous value decides. Where none can (JSON values, empty lists) it is a
    row, which is what most mappings among others are.
    """
    for name, value in item.items():
        if isinstance(value, StoredColumn | Computed):
            return True
        if name in schema:
            found = _is_column(value, schema[name].type)
            if found is not None:
                return found
        elif members := members_of(name, schema.names):
            if _is_list_of_items(value, members, schema):
                if value:
                    return False
                continue
            if not isinstance(value, Mapping):
                return value is not None  # dicts for rows; a row has one dict
            inner = {f"{name}/{field}": one for field, one in value.items()}
            if holds_columns(inner, schema):
                return True
    return False


def _is_list_of_items(value: Any, members: Sequence[str], schema: Schema) -> bool:
    """Whether a group's value is one row's of sequences: a list of dicts, or an empty one."""
    return (
        isinstance(value, list | tuple)
        and all(isinstance(one, Mapping) for one in cast("Sequence[Any]", value))
        and all(isinstance(schema[name].type, SequenceType) for name in members)
    )


def _is_column(value: Any, sample_type: SampleType) -> bool | None:
    """Whether a value is samples (True) or one sample (False) of a type; None: either."""
    if isinstance(value, Ragged) or hasattr(value, "__arrow_c_array__"):
        return True
    if value is None or isinstance(value, str | bytes | os.PathLike):
        return False
    if isinstance(sample_type, Json):
        return None
    ndim = len(sample_type.shape)
    if untiled(
        sample_type
    ).is_media:  # one sample is an array, an image, bytes or a path; never a list
        return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > ndim
    depth = _depth(value)
    if depth is None:
        return None if ndim else True
    return depth > ndim


def _depth(value: Any) -> int | None:
    """How many times a value can be indexed until a scalar comes; None where it is empty."""
    if hasattr(value, "ndim"):
        return int(value.ndim)
    depth = 0
    while isinstance(value, Sequence) and not isinstance(value, str | bytes):
        depth += 1
        value = next((one for one in value if one is not None), value[0]) if len(value) else ()
        if hasattr(value, "ndim"):
            return depth + int(value.ndim)
        if isinstance(value, Sequence) and not isinstance(value, str | bytes) and not len(value):
            return None
    return depth


def _transposed(rows: Sequence[Mapping[str, Any]], *, row_start: int, call: str) -> Batch:
    names = rows[0].keys()
    for row, one in enumerate(rows, start=row_start):
        if one.keys() != names:
            _refuse_uneven(names, one.keys(), row, first_row=row_start, call=call)
    return {name: [row[name] for row in rows] for name in names}


def _refuse_uneven(
    first: Iterable[str], other: Iterable[str], row: int, *, first_row: int, call: str
) -> None:
    lacks = sorted(set(first) - set(other))
    has = sorted(set(other) - set(first))
    raise MissingTensorError(
        f"row {row} of {call} has other names than row {first_row}:"
        f" lacks {lacks or 'none'}, has also {has or 'none'}\n"
        "give every row the same names (None for NULL)",
        row=row,
    )


def _arrow_columns(table: Any, schema: Schema) -> Batch:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise missing_extra("reading Arrow data", "arrow") from error
    read = pa.table(table)
    check_names(read)
    return {
        name: values_of(read, name, schema[name].type)
        if name in schema
        else read.column(name).to_pylist()
        for name in read.column_names
    }
