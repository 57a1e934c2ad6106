"""Picking: samples of many chunks, one by one, for columns that are lists; gathers for the others.

Ragged samples are copied out of their chunk, because batches are the user's to change; encoded ones
are passed on without a copy. A NULL is None. Fill chunks have one sample for all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import CorruptionError, CorruptSampleError
from tensorlake.loader.config.collate import null_in_batch, split_ragged
from tensorlake.loader.decode import PickedParts, Sample
from tensorlake.loader.sources.damaged_rows import lost_rows
from tensorlake.loader.sources.gather import RowGather, prepare_gather
from tensorlake.types import EncodedColumn, Image, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.decode.step import LinearMap
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.virtual_columns import VirtualValues
    from tensorlake.loader.sources.batch_group import Group
    from tensorlake.loader.sources.chunk_cache import GroupRows, LoadedChunk, TensorChunks
    from tensorlake.types import Buffer, Column, SampleType

__all__ = [
    "check_rows",
    "gather_uniform",
    "pick_encoded",
    "pick_images",
    "pick_parts",
    "pick_ragged",
    "pick_valid",
    "pick_virtual",
]


def check_rows(chunks: TensorChunks, rows: GroupRows) -> None:
    """Refuse rows that loaded chunks do not have.

    Raises:
        CorruptionError: The index points past the end of a chunk.
    """
    if bool((rows.row_in_chunk >= chunks.lengths[rows.chunk]).any()):
        raise CorruptionError(
            f"the index of {chunks.tensor!r} points past the end of a chunk"
            "\nthe dataset is damaged: run ds.check()",
            tensor=chunks.tensor,
        )


def gather_uniform(
    column: ColumnPlan, chunks: TensorChunks, rows: GroupRows, *, is_array: bool
) -> RowGather | NDArray[np.generic] | list[Any]:
    """Return the rows of a uniform column: a gather to be made, an array, or a list with NULLs.

    Raises:
        InvalidInputError: One of an array's values is NULL.
    """
    assert column.type is not None
    check_rows(chunks, rows)
    stored = column.type.dtype
    assert stored is not None
    gather = prepare_gather(
        chunks.loaded,
        chunks.addresses,
        chunks.strides,
        rows.chunk,
        rows.row_in_chunk,
        rows.used,
        shape=tuple(length or 0 for length in column.type.shape),
        dtype=stored,
    )
    valid = pick_valid(chunks, rows) if chunks.has_null else None
    if valid is not None and (lost := lost_rows(chunks, rows)) is not None:
        valid |= lost  # their values are zeros, which are left out
    is_whole = valid is None or bool(valid.all())
    if is_array and not is_whole and column.null is None:
        raise null_in_batch(column.name)
    if is_array and is_whole:
        return gather
    values = gather.take(0, len(rows.chunk))
    if valid is not None and column.null is not None:
        values[~valid] = column.null.values[0]
        valid = None
    values = values if column.linear is None else column.linear.apply(values)
    if is_array:
        return values
    valid = np.ones(len(values), np.bool_) if valid is None else valid
    return [one if own else None for one, own in zip(values, valid, strict=True)]


def pick_ragged(
    chunks: TensorChunks,
    rows: GroupRows,
    null: Column | None = None,
    linear: LinearMap | None = None,
) -> list[NDArray[np.generic] | None]:
    """Copy the samples of a ragged tensor, mapped; NULL becomes its replacement, or None."""
    filled = null.sample(0) if isinstance(null, RaggedColumn) else None
    picked: list[NDArray[np.generic] | None] = []
    for chunk, row in _each(chunks, rows):
        column, offsets = chunk.column, chunk.offsets
        assert isinstance(column, RaggedColumn)
        assert offsets is not None
        if column.valid is not None and not column.valid[row]:
            picked.append(None if filled is None else filled.copy())
            continue
        part = column.values[offsets.item(row) : offsets.item(row + 1)]
        picked.append(part.reshape(column.shapes[row]).copy())
    if linear is not None:
        return [None if one is None else linear.apply(one) for one in picked]
    return picked


def pick_encoded(
    chunks: TensorChunks, rows: GroupRows, null: Column | None = None
) -> list[bytes | None]:
    """Copy the stored bytes of text, JSON and bytes samples."""
    filled = bytes(null.samples[0]) if isinstance(null, EncodedColumn) else None
    picked: list[bytes | None] = []
    for chunk, row in _each(chunks, rows):
        column = chunk.column
        assert isinstance(column, EncodedColumn)
        is_null = column.valid is not None and not column.valid[row]
        picked.append(filled if is_null else bytes(column.samples[row]))
    return picked


def pick_parts(
    chunks: TensorChunks, rows: GroupRows, null: Column | None = None
) -> list[PickedParts | None]:
    """List the parts of samples that were read, with their maps."""
    picked: list[PickedParts | None] = []
    for chunk, number in _each(chunks, rows):
        column, row = chunk.column, number
        assert isinstance(column, EncodedColumn)
        if column.valid is not None and not column.valid[row]:
            if null is None:
                picked.append(None)
                continue
            assert isinstance(null, EncodedColumn)
            column, row = null, 0
        own = None if column.maps is None else column.maps[row]
        shape = None if column.shapes is None else tuple(column.shapes[row].tolist())
        picked.append(PickedParts(column.samples[row], own, shape))
    return picked


def pick_images(
    chunks: TensorChunks,
    group: Group,
    which: Int64Array,
    sample_type: SampleType,
    null: Column | None = None,
) -> list[Sample | None]:
    """List stored images of some rows of a group, with their rows and places."""
    picked: list[Sample | None] = []
    rows = group.tensors[chunks.tensor].part(which)
    numbers = zip(group.rows[which].tolist(), group.places[which].tolist(), strict=True)
    for (chunk, row), (number, place) in zip(_each(chunks, rows), numbers, strict=True):
        column = chunk.column
        assert isinstance(column, EncodedColumn)
        if column.valid is not None and not column.valid[row]:
            if null is None:
                picked.append(None)
                continue
            assert isinstance(null, EncodedColumn)
            column, row = null, 0  # noqa: PLW2901 - it replaces the row
        data = column.samples[row]
        if column.shapes is not None:
            shape = tuple(column.shapes[row].tolist())
        else:
            shape = _parsed_shape(data, chunks.tensor, number, sample_type)
        picked.append(Sample(data, shape, number, place))
    return picked


def pick_valid(chunks: TensorChunks, rows: GroupRows) -> NDArray[np.bool_]:
    """Return which samples are not NULL."""
    valid = np.ones(len(rows.chunk), np.bool_)
    order = np.argsort(rows.chunk, kind="stable")
    numbers, starts = np.unique(rows.chunk[order], return_index=True)
    for number, at in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        chunk = chunks.loaded[number]
        assert chunk is not None, "it is pinned"
        own = chunk.column.valid
        if own is not None:
            valid[at] = own[0] if chunk.is_constant else own[rows.row_in_chunk[at]]
    return valid


def pick_virtual(
    values: VirtualValues, name: str, *, is_whole: bool, is_array: bool, null: Any = None
) -> Any:
    """Return computed values: an array if all rows are taken at once, else a list.

    Raises:
        InvalidInputError: One of an array's values is NULL.
    """
    if isinstance(values, list):
        return values if null is None else [null if one is None else one for one in values]
    if isinstance(values, RaggedColumn):
        filled = None if null is None else np.atleast_1d(null).astype(values.values.dtype)
        return [filled if one is None else one for one in split_ragged(values)]
    if values.valid is not None and null is not None:
        filled = values.values.copy()
        filled[~values.valid] = null
        values = UniformColumn(filled)
    if values.valid is None:
        return values.values if is_whole else list(values.values)
    if is_array and not bool(values.valid.all()):
        raise null_in_batch(name)
    pairs = zip(values.values, values.valid, strict=True)
    return [one if own else None for one, own in pairs]


def _each(chunks: TensorChunks, rows: GroupRows) -> Iterator[tuple[LoadedChunk, int]]:
    loaded: list[Any] = chunks.loaded  # pinned: each requested chunk is there
    for number, row in zip(rows.chunk.tolist(), rows.row_in_chunk.tolist(), strict=True):
        chunk: LoadedChunk = loaded[number]
        yield chunk, 0 if chunk.is_constant else row


def _parsed_shape(data: Buffer, tensor: str, row: int, sample_type: SampleType) -> tuple[int, ...]:
    """Parse the shape of an image that was read without its chunk's header."""
    assert isinstance(sample_type, Image)  # the only media type whose rows are read individually
    try:
        return sample_type.reading(data).parse_shape(data)
    except ValueError as error:
        raise CorruptSampleError(
            f"row {row} of {tensor!r} ({len(data):,} bytes) is not a whole image: {error}"
            "\nto train without it: on_error='skip'; to find all: ds.check(decode=True)",
            tensor=tensor,
            row=row,
        ) from error
