"""Into pandas: the index is the row, and each column's dtype follows from the schema.

    tensor                        pandas
    Scalar                        its NumPy dtype (bfloat16 and float8: float32)
      that may be NULL            floats the same, NULL as NaN; integers Int8 … UInt64
    Bool                          bool; that may be NULL: boolean
    ClassLabel                    category, NULL missing
    Timestamp                     datetime64 of its unit and zone, NULL as NaT
    video, audio, volumes, …      handles, NULL as None; linked files are read when a handle is
    all others                    object, NULL as None

``frame.attrs`` has the types, so that ``tl.ingest.arrow(frame, url)`` makes the tensors again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.core.row_identity import row_id_texts, source_texts
from tensorlake.dataset.export.arrow.stream import (
    VIRTUAL_COLUMNS,
    check_columns,
    check_in_memory,
)
from tensorlake.dataset.write.frame_columns import (
    ATTRIBUTE,
    category_column,
    number_column,
    time_column,
)
from tensorlake.errors import missing_extra
from tensorlake.types import (
    ClassLabel,
    Column,
    Link,
    Ragged,
    SampleType,
    Timestamp,
    UniformColumn,
    widened_column,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.computed import Computed
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_pandas"]


def to_pandas(view: RowSet, columns: Sequence[str] | None = None) -> Any:
    """Read every column into a DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise missing_extra("to_pandas()", "pandas") from error
    asked = check_columns(view, columns)
    virtual = {*VIRTUAL_COLUMNS} - view.computed.keys()
    shown = view.with_columns([name for name in asked if name not in virtual])
    unread = [name for name, one in view.schema.items() if isinstance(one, Link) and one.is_lazy]
    check_in_memory(view, [name for name in asked if name not in unread], call="to_pandas()")
    selection, reader, types = shown.selection, shown.reader(), shown.exported_schema
    positions = selection.all_positions()
    read: dict[str, Any] = {}
    for name, one in types.items():
        column = shown.read(name) if name in unread else shown.read_exported(name, positions)
        read[name] = _values(shown.schema[name] if name in unread else one, column)
    for name, computed in shown.computed.items():
        read[name] = _computed(computed)
    if "_row_id" in virtual.intersection(asked):
        read["_row_id"] = row_id_texts(selection)
    if "_source" in virtual.intersection(asked):
        read["_source"] = pd.Series(source_texts(selection, reader), dtype=object)
    frame = pd.DataFrame({name: read[name] for name in asked if name in read})
    if shown.has_rows:
        frame.index = pd.Index(selection.row_numbers(positions), name="_row")
    frame.attrs[ATTRIBUTE] = json.dumps({name: one.to_json() for name, one in types.items()})
    return frame


def _values(sample_type: SampleType, column: Column) -> Any:
    import pandas as pd

    column = widened_column(column)
    if isinstance(column, UniformColumn) and not sample_type.shape:
        if isinstance(sample_type, ClassLabel):
            codes = [sample_type.present_one(column, at) for at in range(len(column))]
            return category_column(codes, sample_type.names)
        if isinstance(sample_type, Timestamp):
            return time_column(column.values, column.valid, sample_type.unit, sample_type.tz)
        if column.values.dtype.kind in "biuf":  # noqa: PD011 - a column of ours
            return number_column(column.values, column.valid, nullable=sample_type.nullable)
        if column.valid is None:
            return np.asarray(sample_type.present(column))
    return pd.Series(
        [sample_type.present_one(column, at) for at in range(len(column))], dtype=object
    )


def _computed(computed: Computed) -> Any:
    """The values of a column that a query computed, by its type and whether some are NULL."""
    import pandas as pd

    import tensorlake_query as tql

    batch, kind = computed.batch, computed.type
    if isinstance(batch, tql.UniformBatch) and not kind.shape and computed.names is None:
        if kind.timestamp_unit is not None:
            return time_column(batch.values, batch.valid, kind.timestamp_unit, kind.timezone)
        if batch.values.dtype.kind in "biuf":  # noqa: PD011 - a column of ours
            return number_column(batch.values, batch.valid, nullable=batch.valid is not None)
    presented = computed.present()
    if computed.names is not None and not kind.shape:
        return category_column(presented, computed.names)
    if isinstance(presented, np.ndarray) and presented.ndim == 1:
        return presented
    return pd.Series(_listed(presented), dtype=object)


def _listed(values: Any) -> list[Any]:
    return [values[at] for at in range(len(values))] if isinstance(values, Ragged) else list(values)
