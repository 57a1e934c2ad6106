"""Rows one by one, with their samples as stored, for exports to sample files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow_stream import VIRTUAL_COLUMNS
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.types import EncodedColumn, InstanceMask, SampleType

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["ROWS_AT_ONCE", "as_stored", "plain_columns", "stored_rows"]

ROWS_AT_ONCE = 256
"""Rows read together: at 100 kB per image a few chunks, and bounded for larger ones."""


def plain_columns(view: RowSet, columns: Sequence[str], *, call: str) -> None:
    """Reject columns that are not tensors: computed columns have no type for export."""
    for name in columns:
        if name in view.computed or name in VIRTUAL_COLUMNS:
            raise UnsupportedFeatureError(
                f"{call} writes tensors, and {name!r} is computed"
                "\nleave it out by columns=, or make a dataset of it: view.materialize(url)",
                column=name,
            )
    if not columns:
        raise InvalidInputError(f"{call} has no columns to write")


def stored_rows(view: RowSet, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Read rows: images as stored bytes, masks as RLE, all others as users see them."""
    selection, reader, types = view.selection, view.reader(), view.schema
    for start in range(0, len(view), ROWS_AT_ONCE):
        positions = np.arange(start, min(len(view), start + ROWS_AT_ONCE), dtype=np.int64)
        physical = selection.physical(positions)
        read = {name: reader.read(name, physical, decode=False) for name in columns}
        for at in range(len(positions)):
            yield {name: as_stored(types[name], column, at) for name, column in read.items()}


def as_stored(sample_type: SampleType, column: Any, at: int) -> Any:
    """Return one sample: an image as bytes, a mask as RLE, any other as users see it."""
    if isinstance(column, EncodedColumn) and sample_type.is_media:
        if column.valid is not None and not column.valid[at]:
            return None
        sample = column.samples[at]
        runs = isinstance(sample_type, InstanceMask)
        return sample_type.run_lengths(sample) if runs else bytes(sample)
    return sample_type.present_one(column, at)
