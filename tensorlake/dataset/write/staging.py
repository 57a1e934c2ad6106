"""Staging rows: append, extend, assign, delete. Each call is all or nothing.

Values are checked and cast to columns before anything is staged; where a call arrives in several
batches (an iterator) a savepoint is taken first and returned to on any error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.buffers import MemoryBlocks, parts_of
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.item_counts import check_assigned, check_batch
from tensorlake.dataset.core.row_identity import matched_by_row_id
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.core.stored_columns import StoredColumn
from tensorlake.dataset.core.structs import flattened
from tensorlake.dataset.write.inputs import Batch, batches
from tensorlake.dataset.write.links import linked_files, relinked
from tensorlake.dataset.write.rewrite import edits_for
from tensorlake.errors import InvalidInputError, MissingTensorError, ShapeMismatchError
from tensorlake.format import Schema, TensorSpec
from tensorlake.reading import Reader, Selection
from tensorlake.storage import LinkStore
from tensorlake.types import Column, EncodedColumn, Link, take
from tensorlake.versions import Transaction, distinct

__all__ = [
    "all_or_nothing",
    "append",
    "assign",
    "assign_by_selection",
    "convert_columns",
    "delete",
    "extend",
    "missing_tensor",
    "stage_at",
    "stage_values",
]

Int64Array = npt.NDArray[np.int64]


def append(session: Session, row: Mapping[str, Any]) -> None:
    """Stage one row."""
    if not isinstance(row, Mapping):
        raise InvalidInputError(
            f"append() takes one row {{'name': value, …}}, got {type(row).__name__}\n"
            "for many rows use extend()",
            actual=type(row).__name__,
        )
    with session.lock:
        transaction = session.staging()
        batch = {name: [value] for name, value in row.items()}
        columns, _ = _convert_batch(
            transaction.schema, batch, session.packs.links, row_start=0, call="append()"
        )
        transaction.append(columns, 1)


def extend(
    session: Session,
    data: Any,
    *,
    call: str = "extend()",
    note: Callable[[Mapping[str, Column]], None] | None = None,
) -> None:
    """Stage rows, in as many batches as the data come in; errors name the call.

    ``note`` is called with the columns of each batch as they are stored, by tensor id; on an error,
    none of them counts.
    """
    with session.lock:
        transaction = session.staging()
        savepoint = transaction.savepoint()
        schema = transaction.schema
        stage = transaction.stage
        given = batches(data, schema=schema, call=call)
        cut = partial(parts_of, schema=schema, fills_packs=stage.fills_packs)
        row_start = 0
        try:
            for part in (part for batch in given for part in cut(batch)):
                columns, rows = _convert_batch(
                    schema,
                    part,
                    session.packs.links,
                    row_start=row_start,
                    call=call,
                    blocks=session.blocks,
                    is_kept=stage.keeps,
                )
                if rows:
                    if note is not None:
                        note(columns)
                    transaction.append(columns, rows)
                row_start += rows
        except BaseException:
            transaction.roll_back(savepoint)
            raise


def assign(
    session: Session,
    name: str,
    positions: Int64Array,
    values: Any,
    *,
    kept: Int64Array | None = None,
    given: int | None = None,
    call: str | None = None,
) -> int:
    """Stage values for rows (positions in what the handle sees) of one tensor.

    Args:
        session: The handle's.
        name: The tensor.
        positions: The rows.
        values: One for all rows named, or one for each.
        kept: Where rows were named that are gone: which of those named the positions are.
        given: The number of rows named in that case.
        call: Name of the call in errors; None: an assignment by index.

    Returns:
        How many rows got a value.
    """
    with session.lock:
        session.staging()
        spec = session.snapshot().spec(name)
        if len(distinct(positions)) < len(positions):
            raise InvalidInputError(
                f"an assignment to {name!r} names rows more than once\nname every row once",
                tensor=name,
            )
        call = call or f"ds[{name!r}][rows] ="
        count = len(positions) if given is None else given
        column = _converted(session, name, values, count, call=call)
        if kept is not None and len(kept) < count:
            column = take(column, kept)
        stage_values(session, spec, positions, column, call=call)
        return len(positions)


def assign_by_selection(
    session: Session,
    name: str,
    named: Selection,
    here: Selection,
    values: Any,
    *,
    call: str | None = None,
) -> int:
    """Stage values for the rows of a view, by identity; rows that are gone are left out."""
    positions, kept = matched_by_row_id(named, here)
    return assign(session, name, positions, values, kept=kept, given=named.num_rows, call=call)


def stage_values(
    session: Session, spec: TensorSpec, positions: Int64Array, column: Column, *, call: str
) -> None:
    """Stage checked values for rows (positions in what the handle sees, each once)."""
    refuse_virtual(spec, call=call)
    if len(positions) == 0:
        return
    snapshot = session.snapshot()
    reader = session.reader(snapshot)
    check_assigned(reader, spec, positions, column, call=call)
    stage_at(session.staging(), reader, spec, snapshot.physical(positions), column)


def stage_at(
    transaction: Transaction, reader: Reader, spec: TensorSpec, rows: Int64Array, column: Column
) -> None:
    """Stage checked values for physical rows, each once; the reader is of what is seen now."""
    order = np.argsort(rows, kind="stable")
    rows, column = rows[order], take(column, order)
    edits = edits_for(reader, transaction, spec, physical=rows, column=column)
    transaction.edit(spec, edits, rows)


def _converted(session: Session, name: str, values: Any, rows: int, *, call: str) -> Column:
    """Check values for ``rows`` rows; a single value stands for every row."""
    sample_type = session.snapshot().spec(name).type
    if isinstance(sample_type, Link):
        given = [values] if _is_single(values, ndim=1) else values
        values = linked_files(session.packs.links, sample_type, name, given, call=call)
        if len(values) == 1 < rows:
            return take(sample_type.convert(values, tensor=name, call=call), np.zeros(rows, int))
    elif _is_single(values, ndim=len(sample_type.shape)):
        one = sample_type.convert([values], tensor=name, call=call)
        return take(one, np.zeros(rows, dtype=np.int64))
    column = _owned(sample_type.convert(values, tensor=name, call=call), values, session.blocks)
    if len(column) != rows:
        raise ShapeMismatchError(
            f"{call} got {len(column):,} values for {rows:,} rows of {name!r}\n"
            "give one value for each row, or a single one for all; nothing was staged",
            tensor=name,
            expected=rows,
            actual=len(column),
        )
    return column


def _is_single(values: Any, *, ndim: int) -> bool:
    """Whether this is one sample, to be broadcast, rather than a sequence of samples."""
    if values is None or isinstance(values, str | bytes | Mapping):
        return True
    if hasattr(values, "ndim"):
        is_of_objects = values.ndim and str(getattr(values, "dtype", "")) == "object"
        return int(values.ndim) == ndim and not is_of_objects  # those are samples each
    return not isinstance(values, list | tuple) and not hasattr(values, "__len__")


def delete(session: Session, selection: Selection, positions: Int64Array) -> int:
    """Stage that rows (positions in ``selection``) are no longer shown."""
    with session.lock:
        transaction = session.staging()
        rows = distinct(selection.row_numbers(positions))
        if len(rows):
            transaction.delete(rows, selection.snapshot.physical(rows))
        return len(rows)


@contextmanager
def all_or_nothing(session: Session) -> Generator[None]:
    """Stage several changes, or none of them where one raises."""
    was_staging = session.transaction is not None
    transaction = session.staging()
    savepoint = transaction.savepoint()
    try:
        yield
    except BaseException:
        transaction.roll_back(savepoint)
        if not was_staging:
            session.discard()
        raise


def _always(_spec: TensorSpec, _column: Column) -> bool:
    return True


def _convert_batch(
    schema: Schema,
    batch: Batch,
    files: LinkStore,
    *,
    row_start: int,
    call: str,
    blocks: MemoryBlocks | None = None,
    is_kept: Callable[[TensorSpec, Column], bool] = _always,
) -> tuple[dict[str, Column], int]:
    """Check and cast one batch; columns by tensor id, and the number of rows.

    Args:
        schema: Schema of the dataset.
        batch: The input.
        files: Reads linked files.
        row_start: Row of the first sample, as the user counts.
        call: The call that the user made, for errors.
        blocks: Where large arrays are copied to; None: memory of their own.
        is_kept: Whether a column is looked at once staging it is over: then it is copied.

    Raises:
        TensorlakeError: The first thing that does not fit; nothing is staged.
    """
    batch = _by_tensor(schema, batch, call=call)
    lacking = [
        s
        for s in schema.tensors
        if s.name not in batch and s.compute is None and not s.type.has_default
    ]
    if lacking and not batch:
        raise missing_tensor(lacking[0], batch, call=call)
    rows = _common_length(batch, call=call)
    columns = {
        spec.id: _convert(spec, batch, files, rows, blocks, is_kept, row_start=row_start, call=call)
        for spec in schema.tensors
        if spec.compute is None or spec.name in batch
    }
    if schema.paired or schema.cut:
        check_batch(schema, columns, range(row_start, row_start + rows), call=call)
    return columns, rows


def convert_columns(
    schema: Schema, batch: Batch, files: LinkStore, *, row_start: int, call: str
) -> tuple[dict[str, Column], int]:
    """Check and cast a batch; columns by id of the tensors that it names, and the number of rows.

    Raises:
        TensorlakeError: The first thing that does not fit.
    """
    batch = _by_tensor(schema, batch, call=call)
    rows = _common_length(batch, call=call)
    blocks = MemoryBlocks()
    return {
        spec.id: _convert(spec, batch, files, rows, blocks, _always, row_start=row_start, call=call)
        for spec in schema.tensors
        if spec.name in batch
    }, rows


def _by_tensor(schema: Schema, batch: Batch, *, call: str) -> Batch:
    """Return the batch by names of tensors: groups become their fields."""
    if not batch.keys() <= schema.by_name.keys():
        batch = flattened(batch, schema.names, call=call)
        for name in batch:
            schema[name]  # raises for a name that is no tensor
    if len(schema.stored) == len(schema.tensors):
        return batch
    return {name: one for name, one in batch.items() if not _is_same_expression(schema[name], one)}


def _is_same_expression(spec: TensorSpec, given: object) -> bool:
    """Whether a column of another dataset has what an expression computes here likewise."""
    if spec.compute is None or spec.compute.tql is None or not isinstance(given, Computed):
        return False
    return given.expression == spec.compute.tql


def _common_length(batch: Batch, *, call: str) -> int:
    lengths = {name: _length(name, samples, call=call) for name, samples in batch.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise ShapeMismatchError(
            f"{call}: columns of different lengths: {shown}\n"
            "give every column one value for each row; nothing was staged",
            actual=lengths,
        )
    return next(iter(lengths.values()), 0)


def _convert(
    spec: TensorSpec,
    batch: Batch,
    files: LinkStore,
    rows: int,
    blocks: MemoryBlocks | None,
    is_kept: Callable[[TensorSpec, Column], bool],
    *,
    row_start: int,
    call: str,
) -> Column:
    refuse_virtual(spec, call=call)
    if spec.name not in batch:
        if not spec.type.has_default:
            raise missing_tensor(spec, batch, call=call)
        return spec.type.fill_column(spec.type.fill_value, rows)
    samples = batch[spec.name]
    if isinstance(samples, StoredColumn) and isinstance(spec.type, Link):
        samples = relinked(files, spec.type, samples)
    if isinstance(samples, StoredColumn | Computed):
        return samples.converted(spec.type, tensor=spec.name, row_start=row_start, call=call)
    if isinstance(spec.type, Link):
        samples = linked_files(files, spec.type, spec.name, samples, row_start=row_start, call=call)
    column = spec.type.convert(samples, tensor=spec.name, row_start=row_start, call=call)
    return _owned(column, samples, blocks) if is_kept(spec, column) else column


def refuse_virtual(spec: TensorSpec, *, call: str) -> None:
    if spec.compute is not None and spec.compute.tql is not None:
        raise InvalidInputError(
            f"{call} gives values of {spec.name!r}, which an expression computes\nleave it out, or"
            f" change the expression: ds.alter_tensor({spec.name!r}, compute='…')",
            tensor=spec.name,
        )


def _owned(column: Column, given: object, blocks: MemoryBlocks | None) -> Column:
    """Copy what the caller could still change: it may fill its array again for the next batch."""
    if isinstance(column, EncodedColumn):
        return column
    if column.values is given or not column.values.flags.owndata:
        values = column.values
        return replace(column, values=blocks.copy_of(values) if blocks else values.copy())
    return column


def _length(name: str, samples: Any, *, call: str) -> int:
    has_length = not isinstance(samples, str | bytes) and hasattr(samples, "__len__")
    try:
        length = len(samples) if has_length else None
    except (TypeError, RuntimeError, NotImplementedError):  # an array without axes
        length = None
    if length is None:
        raise ShapeMismatchError(
            f"{call}: column {name!r} is a {type(samples).__name__}, not a sequence of samples\n"
            "give one value for each row; for a single row use append()",
            tensor=name,
        )
    return length


def missing_tensor(spec: TensorSpec, given: Iterable[str], *, call: str) -> MissingTensorError:
    """Build the error for rows without a tensor that has no default."""
    shown = ", ".join(repr(name) for name in given) or "nothing"
    return MissingTensorError(
        f"{call} lacks {spec.name!r} (required: {spec.type.describe()}); given: {shown}\n"
        f"give it, or make it optional: ds.alter_tensor({spec.name!r}, nullable=True)",
        tensor=spec.name,
    )
