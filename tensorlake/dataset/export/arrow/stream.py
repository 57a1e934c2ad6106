"""Rows as a stream of Arrow record batches: what every other way out into tables is made of.

Batches are cut so that each holds about `BATCH_NBYTES` of samples, whatever the samples are; one
is made when it is asked for, so a dataset of any size passes through bounded memory. Rows are those
of one version, frozen when the stream is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.row_identity import row_id_texts, source_texts
from tensorlake.dataset.core.structs import expand_names
from tensorlake.dataset.write.arrow.columns import (
    arrow_array,
    arrow_field,
    computed_array,
    computed_field,
)
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.reading import column_nbytes
from tensorlake.types import InstanceMask, untiled

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = [
    "BATCH_NBYTES",
    "IN_MEMORY_NBYTES_MAX",
    "VIRTUAL_COLUMNS",
    "arrow_schema",
    "check_columns",
    "check_in_memory",
    "check_lists",
    "record_batches",
    "to_arrow",
    "to_reader",
]

Int64Array = npt.NDArray[np.int64]
Arrow = Any  # pyarrow ships no types

BATCH_NBYTES = 32 << 20
"""Bytes of samples a batch: a few chunks of media, and far from the 2 GiB of Arrow's offsets."""

BATCH_ROWS_MAX = 65_536
"""Rows a batch: no consumer gains by more."""

IN_MEMORY_NBYTES_MAX = 4 << 30
"""More than this is asked for by accident: the error names the way around."""

VIRTUAL_COLUMNS = ("_row", "_row_id", "_source")
"""Columns that every row of a dataset has, and that come only when they are named."""


def to_arrow(view: RowSet, columns: Sequence[str] | None = None) -> Arrow:
    """Read rows into a ``pyarrow.Table``."""
    import pyarrow as pa

    names = check_columns(view, columns)
    check_in_memory(view, names, call="to_arrow()")
    return pa.Table.from_batches(record_batches(view, names), arrow_schema(view, names))


def to_reader(view: RowSet, columns: Sequence[str] | None = None) -> Arrow:
    """Return a ``pyarrow.RecordBatchReader`` over rows, which reads a batch when it is asked."""
    import pyarrow as pa

    names = check_columns(view, columns)
    return pa.RecordBatchReader.from_batches(arrow_schema(view, names), record_batches(view, names))


def check_columns(view: RowSet, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the requested names of columns, all by default.

    Raises:
        TensorNotFoundError: There is no such column.
    """
    known = view.columns
    if columns is None:
        return known
    if isinstance(columns, str):
        raise InvalidInputError(
            f"columns={shown(columns)}: give a list of names: columns=[{shown(columns)}]"
        )
    virtual = VIRTUAL_COLUMNS if view.has_rows else ()
    columns = expand_names(columns, (*known, *virtual))
    for name in columns:
        if name not in known and name not in virtual:
            raise unknown_column(name, (*known, *virtual))
    return tuple(dict.fromkeys(columns))


def check_in_memory(view: RowSet, columns: Sequence[str], *, call: str) -> None:
    """Refuse to read more into memory than anybody means to.

    Raises:
        InvalidInputError: The columns are larger; it names the largest, and ``columns=``.
    """
    selection, reader = view.selection, view.reader()
    physical = selection.physical(selection.all_positions())
    sizes = {name: column_nbytes(reader, name, physical) for name in view.schema if name in columns}
    if sum(sizes.values()) <= IN_MEMORY_NBYTES_MAX:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    others = [name for name in columns if name != largest][:3] or ["label"]
    raise InvalidInputError(
        f"{call} would read {sum(sizes.values()):,} bytes into memory, more than"
        f" {IN_MEMORY_NBYTES_MAX:,}; {largest!r} has {sizes[largest]:,} of them"
        f"\nname the columns: columns={others}, or fewer rows: ds[:1000]",
        actual=sum(sizes.values()),
        expected=IN_MEMORY_NBYTES_MAX,
    )


def check_lists(view: RowSet, columns: Sequence[str]) -> None:
    """Refuse arrays whose shape lists in a file would lose: (0, 5) would come back as (0, 0).

    Instance masks without objects have the size of their image, if that is a column, too.

    Raises:
        UnsupportedFeatureError: It names the first row.
    """
    selection, reader = view.selection, view.reader()
    physical = selection.physical(selection.all_positions())
    for name, one in view.schema.items():
        is_sized = isinstance(one, InstanceMask) and one.of not in columns
        has_lengths = untiled(one).layout == "ragged" or is_sized
        if name not in columns or not has_lengths or None not in one.shape[1:]:
            continue
        shapes = reader.shapes(name, physical)
        lost = np.zeros(len(shapes), np.bool_)
        for axis, length in enumerate(one.shape):
            if axis and length is None:
                lost |= (shapes[:, :axis] == 0).any(axis=1) & (shapes[:, axis] > 0)
        if lost.any():
            row = int(np.argmax(lost))
            raise UnsupportedFeatureError(
                f"row {row} of {name!r} has the shape {tuple(shapes[row].tolist())}, and lists"
                " have no lengths within an empty one"
                "\nleave it out: columns=[…]; to_webdataset(dst) and to_zarr(dst) have shapes",
                tensor=name,
                row=row,
            )


def arrow_schema(view: RowSet, columns: Sequence[str]) -> Arrow:
    """Return the schema of columns."""
    import pyarrow as pa

    text = pa.string()
    types, virtual = view.exported_schema, {"_row": pa.int64(), "_row_id": text, "_source": text}
    return pa.schema(
        [
            arrow_field(name, types[name])
            if name in types
            else computed_field(name, view.computed[name].type)
            if name in view.computed
            else pa.field(name, virtual[name], nullable=name == "_source")
            for name in columns
        ]
    )


def record_batches(
    view: RowSet, columns: Sequence[str], *, batch_rows: int = BATCH_ROWS_MAX
) -> Iterator[Arrow]:
    """Read columns batch by batch, in the order of the rows."""
    import pyarrow as pa

    schema = arrow_schema(view, columns)
    for start, stop in view.spans(columns, rows_max=batch_rows, nbytes=BATCH_NBYTES):
        positions = np.arange(start, stop, dtype=np.int64)
        arrays = [_array(view, name, positions) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(view: RowSet, name: str, positions: Int64Array) -> Arrow:
    import pyarrow as pa

    selection = view.selection
    if name in view.computed:
        return computed_array(name, view.computed[name].take(positions))
    if name == "_row":
        return pa.array(selection.row_numbers(positions))
    if name == "_row_id":
        return pa.array(row_id_texts(selection.with_rows(positions)), pa.string())
    if name == "_source":
        return pa.array(source_texts(selection.with_rows(positions), view.reader()), pa.string())
    return arrow_array(view.exported_schema[name], view.read_exported(name, positions))
