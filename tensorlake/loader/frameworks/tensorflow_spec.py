"""The ``tf.TypeSpec`` of each entry of a batch, from its columns.

    one array                 TensorSpec((rows, *shape), dtype)
    samples that differ       RaggedTensorSpec: ragged up to the last axis that varies
    "pad"                     TensorSpec with None where lengths vary, and <name>_mask, bool
    "concat"                  TensorSpec((None, *shape[1:])), and <name>_offsets, int64
    text, bytes; lists of text  TensorSpec((rows,), tf.string); RaggedTensorSpec of tf.string

The number of rows is None unless all batches have ``batch_size``, by ``drop_last=True``.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.loader.config.collate import Pad
from tensorlake.loader.config.column_plan import VALID, ColumnPlan
from tensorlake.loader.engine.composed.rows import form_of, shown_columns
from tensorlake.types import Bytes, Sequence, Tags, Text

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["specs_of"]

tf: Any = import_module("tensorflow")  # Any: its stubs describe a part of it


def specs_of(
    rows: OrderedRows,
    arguments: LoaderArguments,
    columns: Iterable[ColumnPlan],
    channels_first: frozenset[str],
) -> dict[str, Any]:
    """Return the spec of each entry that is known from the columns.

    Entries that a function makes are left out: of ``transform`` all but ``_valid``.

    Raises:
        UnsupportedFeatureError: TensorFlow has no type for a column.
    """
    is_whole = (arguments.drop_last or rows.is_endless) and arguments.batch_by is None
    size = arguments.batch_size if is_whole else None
    specs: dict[str, Any] = {}
    columns = shown_columns(rows, tuple(columns))
    if (form := form_of(rows)) is not None and form.is_flat:
        specs = {one.name: tf.TensorSpec(one.shape, _dtype_of(one)) for one in columns}
    elif arguments.transform is None:
        for column in columns:
            specs |= _of_column(column, size, is_first=column.name in channels_first)
    return {**specs, VALID: tf.TensorSpec((size,), tf.bool)}


def _of_column(column: ColumnPlan, size: int | None, *, is_first: bool) -> dict[str, Any]:
    name, how = column.name, column.collate
    if callable(how):
        return {}
    if column.dtype is None:
        return {name: _of_texts(column, size)}
    shape, dtype = column.shape, _dtype_of(column)
    if is_first:
        *before, height, width, channels = shape
        shape = (*before, channels, height, width)
    if None not in shape:
        return {name: tf.TensorSpec((size, *shape), dtype)}
    varying = 1 + max(axis for axis, length in enumerate(shape) if length is None)
    match how:
        case "pad" | Pad():
            to = how.to if isinstance(how, Pad) else None
            padded = [to if length is None else length for length in shape]
            mask = [to if length is None else length for length in column.shape]
            of_mask = 1 + max(axis for axis, length in enumerate(column.shape) if length is None)
            return {
                name: tf.TensorSpec((size, *padded), dtype),
                f"{name}_mask": tf.TensorSpec((size, *mask[:of_mask]), tf.bool),
            }
        case "concat":
            return {
                name: tf.TensorSpec((None, *shape[1:]), dtype),
                f"{name}_offsets": tf.TensorSpec((None if size is None else size + 1,), tf.int64),
            }
        case _:
            return {name: tf.RaggedTensorSpec((size, *shape), dtype, ragged_rank=varying)}


def _of_texts(column: ColumnPlan, size: int | None) -> Any:
    kind = column.type
    if kind is None or isinstance(kind, Text | Bytes):
        return tf.TensorSpec((size,), tf.string)
    if isinstance(kind, Tags) or (isinstance(kind, Sequence) and isinstance(kind.item, Text)):
        return tf.RaggedTensorSpec((size, None), tf.string, ragged_rank=1)
    raise UnsupportedFeatureError(
        f"TensorFlow has no type for {column.name!r}, which is {kind.describe()}"
        "\nleave it out of columns=, or return arrays of it from transform= and describe them by"
        " element_spec=",
        tensor=column.name,
    )


def _dtype_of(column: ColumnPlan) -> Any:
    try:
        return tf.as_dtype(column.dtype)
    except TypeError as error:
        raise UnsupportedFeatureError(
            f"TensorFlow has no dtype {column.dtype}, which {column.name!r} has"
            f"\ncast it: decode={{{column.name!r}: tl.decode.Cast('float32')}}",
            tensor=column.name,
            actual=str(column.dtype),
        ) from error
