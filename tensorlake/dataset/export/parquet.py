"""One Parquet file: a row group for each batch of the stream, so memory stays bounded.

Columns are those of Arrow (`write/arrow_columns.py`). Media are not compressed a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.export.arrow_stream import (
    arrow_schema,
    check_columns,
    check_lists,
    record_batches,
)
from tensorlake.dataset.export.files import new_file

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
    packed = {name for name, one in view.schema.items() if one.is_media}
    compression: Any = {
        name: "none" if name in packed else "zstd" for name in names
    }  # pyright knows only the short form
    with (
        new_file(dst, overwrite=overwrite) as path,
        pq.ParquetWriter(path, arrow_schema(view, names), compression=compression) as writer,
    ):
        for batch in record_batches(view, names):
            writer.write_batch(batch)
