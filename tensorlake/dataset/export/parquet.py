"""One Parquet file: a row group for each batch of the stream, so memory stays bounded.

Columns are those of Arrow (`write/arrow/columns.py`). Media are not compressed a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.export.arrow.stream import (
    arrow_schema,
    check_columns,
    check_lists,
    record_batches,
)
from tensorlake.dataset.export.destinations import new_file

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_parquet"]


def to_parquet(
    view: RowSet, dst: str | PathLike[str], *, columns: Sequence[str] | None, overwrite: bool
) -> None:
    """Write rows into a Parquet file."""
    import pyarrow.parquet as pq

    names = check_columns(view, columns)
    check_lists(view, names)
    schema, types = arrow_schema(view, names), view.exported_schema
    compression: Any = {
        leaf: "none"
        if field.name in types and types[field.name].is_media and leaf == field.name
        else "zstd"
        for field in schema
        for leaf in _leaves(field.name, field.type)
    }  # pyright knows only the short form
    with (
        new_file(dst, begins=b"PAR1", overwrite=overwrite) as path,
        pq.ParquetWriter(path, schema, compression=compression) as writer,
    ):
        for batch in record_batches(view, names):
            writer.write_batch(batch)


def _leaves(path: str, kind: Any) -> Iterator[str]:
    """Yield the paths of a column's leaves, by which Parquet's options are given."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.ExtensionType | pa.FixedShapeTensorType):
        yield from _leaves(path, kind.storage_type)
    elif types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
