"""Stored samples, copied into another dataset.

Between tensors of one type they are copied as stored: nothing is decoded, and no image is encoded
again. Otherwise they are converted and checked by the new type like other values; class labels are
matched by name, because codes differ between datasets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorlake.types import (
    NO_DEFAULT,
    ClassLabel,
    Column,
    EncodedColumn,
    SampleType,
    UniformColumn,
)

__all__ = ["StoredColumn"]


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Samples as stored in a dataset, with their type."""

    sample_type: SampleType
    column: Column

    def __len__(self) -> int:
        return len(self.column)

    def converted(self, wanted: SampleType, *, tensor: str, row_start: int, call: str) -> Column:
        """Convert the samples to another tensor's type.

        Raises:
            InvalidInputError: A sample does not match it.
        """
        has_nulls = self.column.valid is not None and not self.column.valid.all()
        if _without_null(self.sample_type) == _without_null(wanted) and (
            wanted.nullable or not has_nulls
        ):
            return self.column if has_nulls else replace(self.column, valid=None)
        samples = self._values(wanted, tensor=tensor, has_nulls=has_nulls)
        return wanted.convert(samples, tensor=tensor, row_start=row_start, call=call)

    def _values(self, wanted: SampleType, *, tensor: str, has_nulls: bool) -> Any:
        """Return values that a user would pass to store these samples."""
        column, sample_type = self.column, self.sample_type
        if isinstance(column, EncodedColumn) and sample_type.is_media and wanted.is_media:
            valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
            pairs = zip(column.samples, valid.tolist(), strict=True)
            return [bytes(sample) if is_valid else None for sample, is_valid in pairs]
        if sample_type.is_media:
            column = sample_type.decode(column, tensor=tensor)
        values = [sample_type.present_one(column, row) for row in range(len(column))]
        if isinstance(sample_type, ClassLabel) and isinstance(wanted, ClassLabel):
            return [_named(value, sample_type.names) for value in values]
        if isinstance(column, UniformColumn) and not has_nulls:
            return np.asarray(column.values)
        return values


def _without_null(sample_type: SampleType) -> SampleType:
    return replace(sample_type, nullable=False, default=NO_DEFAULT)


def _named(value: Any, names: Any) -> Any:
    if value is None:
        return None
    codes = np.asarray(value)
    return names[int(codes)] if codes.ndim == 0 else [names[code] for code in codes.tolist()]
