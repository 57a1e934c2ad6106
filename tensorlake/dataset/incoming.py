"""What ``append`` and ``extend`` take, brought to one form: batches of columns.

Rows (mappings), columns (a mapping of sequences), Arrow tables and DataFrames, Views, and iterators
of any of these. Nothing is converted here but the outer shape; each tensor's type does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorlake.dataset.stored import StoredColumn
from tensorlake.errors import (
    InvalidInputError,
    MissingTensorError,
    ShapeMismatchError,
    missing_extra,
)
from tensorlake.format import Schema, TensorSpec
from tensorlake.types import Column, EncodedColumn

__all__ = ["Batch", "batches", "convert_batch", "owned"]

Batch = Mapping[str, Any]
"""Samples by tensor name: sequences, arrays or columns of equal length."""

ROWS_A_BATCH = 1024
"""Rows taken from an iterator of rows at once: enough for whole-column conversion to pay."""


def batches(data: Any, *, call: str) -> Iterator[Batch]:
    """Bring what a user gives to batches of columns.

    Raises:
        InvalidInputError: It is none of the forms that are known.
    """
    if isinstance(data, Mapping):
        yield data
    elif hasattr(data, "iter_column_batches"):  # a Dataset or View
        yield from data.iter_column_batches()
    elif hasattr(data, "iloc"):  # a pandas DataFrame: its columns convert without Arrow
        yield {str(name): data[name].to_numpy() for name in data.columns}
    elif hasattr(data, "__arrow_c_stream__"):
        yield _arrow_columns(data)
    elif isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise InvalidInputError(
            f"{call} takes rows or columns, got {type(data).__name__}\n"
            'give {"name": [value, …], …}, a list of rows {"name": value, …}, an Arrow table,'
            " a DataFrame, a View, or an iterator of these",
            actual=type(data).__name__,
        )
    else:
        yield from _from_items(data, call=call)


def _from_items(items: Iterable[Any], *, call: str) -> Iterator[Batch]:
    rows: list[Mapping[str, Any]] = []
    row_start = 0
    for item in items:
        if isinstance(item, Mapping) and _is_row(item):
            rows.append(item)
            if len(rows) == ROWS_A_BATCH:
                yield _transposed(rows, row_start=row_start, call=call)
                row_start += len(rows)
                rows = []
            continue
        if rows:
            yield _transposed(rows, row_start=row_start, call=call)
            row_start += len(rows)
            rows = []
        yield from batches(item, call=call)
    if rows:
        yield _transposed(rows, row_start=row_start, call=call)


def _is_row(item: Mapping[str, Any]) -> bool:
    """A list holds rows; an iterator may yield rows or whole columns: those are stored ones."""
    return not all(isinstance(value, StoredColumn) for value in item.values())


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


def _arrow_columns(table: Any) -> Batch:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise missing_extra("reading Arrow data", "arrow") from error
    read = pa.table(table)
    return {name: _arrow_values(read.column(name)) for name in read.column_names}


def _arrow_values(column: Any) -> Any:
    import pyarrow.types as pt

    simple = pt.is_integer(column.type) or pt.is_floating(column.type) or pt.is_boolean(column.type)
    if simple and column.null_count == 0:
        return column.to_numpy()
    return column.to_pylist()


def convert_batch(
    schema: Schema, batch: Batch, *, row_start: int, call: str
) -> tuple[dict[str, Column], int]:
    """Check and cast one batch; columns by tensor id, and the number of rows.

    Raises:
        TensorlakeError: The first thing that does not fit; nothing is staged.
    """
    for name in batch:
        schema[name]  # raises for a name that is no tensor
    lengths = {name: _length(name, samples, call=call) for name, samples in batch.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise ShapeMismatchError(
            f"{call}: columns of different lengths: {shown}\n"
            "give every column one value for each row; nothing was staged",
            actual=lengths,
        )
    rows = next(iter(lengths.values()), 0)
    if not batch and any(not spec.type.has_default for spec in schema.tensors):
        raise _missing(next(s for s in schema.tensors if not s.type.has_default), batch, call=call)
    return {
        spec.id: _convert(spec, batch, rows, row_start=row_start, call=call)
        for spec in schema.tensors
    }, rows


def _convert(spec: TensorSpec, batch: Batch, rows: int, *, row_start: int, call: str) -> Column:
    if spec.name not in batch:
        if not spec.type.has_default:
            raise _missing(spec, batch, call=call)
        return spec.type.fill_column(spec.type.fill_value, rows)
    samples = batch[spec.name]
    if isinstance(samples, StoredColumn):
        return samples.converted(spec.type, tensor=spec.name, row_start=row_start, call=call)
    column = spec.type.convert(samples, tensor=spec.name, row_start=row_start, call=call)
    return owned(column, samples)


def owned(column: Column, given: object) -> Column:
    """Copy what the caller could still change: it may fill its array anew for the next batch."""
    if isinstance(column, EncodedColumn):
        return column
    if column.values is given or not column.values.flags.owndata:
        return replace(column, values=column.values.copy())
    return column


def _length(name: str, samples: Any, *, call: str) -> int:
    if isinstance(samples, np.ndarray) and samples.ndim == 0:
        length = None
    else:
        length = None if isinstance(samples, str | bytes) else getattr(samples, "__len__", None)
    if length is None:
        raise ShapeMismatchError(
            f"{call}: column {name!r} is a {type(samples).__name__}, not a sequence of samples\n"
            "give one value for each row; for a single row use append()",
            tensor=name,
        )
    return int(length())


def _missing(spec: TensorSpec, batch: Batch, *, call: str) -> MissingTensorError:
    given = ", ".join(repr(name) for name in batch) or "nothing"
    return MissingTensorError(
        f"{call} lacks {spec.name!r} (required: {spec.type.describe()}); given: {given}\n"
        f"give it, or make it optional: ds.alter_tensor({spec.name!r}, nullable=True)",
        tensor=spec.name,
    )
