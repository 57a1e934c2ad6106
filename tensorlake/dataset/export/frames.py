"""Into pandas: the index is the row, and each column's dtype follows from the schema.

    tensor                        pandas
    Scalar                        its NumPy dtype (bfloat16 and float8: float32)
      that may be NULL            floats the same, NULL as NaN; integers Int8 … UInt64
    Bool                          bool; that may be NULL: boolean
    ClassLabel                    category, NULL missing
    Timestamp                     datetime64 of its unit and zone, NULL as NaT
    all others                    object, NULL as None

``frame.attrs`` has the types, so that ``tl.ingest.arrow(frame, url)`` makes the tensors again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow_stream import (
    VIRTUAL_COLUMNS,
    check_columns,
    check_in_memory,
)
from tensorlake.dataset.identity import row_id_texts
from tensorlake.errors import TensorlakeError, missing_extra
from tensorlake.types import (
    ClassLabel,
    Column,
    Ragged,
    SampleType,
    Timestamp,
    UniformColumn,
    from_json,
    widened_column,
    widened_dtype,
)

if TYPE_CHECKING:
    from tensorlake.dataset.computed import Computed
    from tensorlake.dataset.exported import Exported
    from tensorlake.dataset.view import View

__all__ = ["to_pandas", "written_types"]

ATTRIBUTE = "tensorlake"
"""Under which the attributes of a frame have the types of its columns, as JSON."""


def to_pandas(rows: Exported, columns: Sequence[str] | None = None) -> Any:
    """Read every column into a DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise missing_extra("to_pandas()", "pandas") from error
    view = rows.frozen()
    asked = check_columns(view, columns)
    shown: View = view[[name for name in asked if name not in VIRTUAL_COLUMNS]]
    check_in_memory(view, asked, call="to_pandas()")
    selection, reader = shown.selection(), shown.reader()
    positions = selection.all_positions()
    physical = selection.physical(positions)
    read: dict[str, Any] = {}
    for name, tensor in shown.tensors.items():
        read[name] = _values(tensor.type, reader.read(name, physical, decode=False))
    for name, computed in shown.computed.items():
        read[name] = _computed(computed)
    if "_row_id" in asked:
        read["_row_id"] = row_id_texts(selection)
    frame = pd.DataFrame({name: read[name] for name in asked if name in read})
    if shown.has_rows:
        frame.index = pd.Index(selection.row_numbers(positions), name="_row")
    types = {name: tensor.type.to_json() for name, tensor in shown.tensors.items()}
    frame.attrs[ATTRIBUTE] = json.dumps(types)
    return frame


def written_types(frame: Any) -> Mapping[str, SampleType]:
    """Return the types of the columns of a frame that are as `to_pandas` wrote them."""
    written = getattr(frame, "attrs", {}).get(ATTRIBUTE)
    try:
        types = {name: from_json(one) for name, one in json.loads(written or "{}").items()}
    except (ValueError, TypeError, AttributeError, TensorlakeError):  # another program's, or newer
        return {}
    names = [name for name in types if name in frame.columns]
    return {name: types[name] for name in names if frame[name].dtype == _dtype(types[name])}


def _values(sample_type: SampleType, column: Column) -> Any:
    import pandas as pd

    column = widened_column(column)
    if isinstance(column, UniformColumn) and not sample_type.shape:
        if isinstance(sample_type, ClassLabel):
            codes = [sample_type.present_one(column, at) for at in range(len(column))]
            return _categories(codes, sample_type.names)
        if isinstance(sample_type, Timestamp):
            return _moments(column.values, column.valid, sample_type.unit, sample_type.tz)
        if column.values.dtype.kind in "biuf":  # noqa: PD011 - a column of ours
            return _numbers(column.values, column.valid, nullable=sample_type.nullable)
        if column.valid is None:
            return np.asarray(sample_type.present(column))
    return pd.Series(
        [sample_type.present_one(column, at) for at in range(len(column))], dtype=object
    )


def _dtype(sample_type: SampleType) -> Any:
    """The dtype that a column of a type has."""
    import pandas as pd

    if sample_type.layout != "uniform" or sample_type.shape or sample_type.dtype is None:
        return np.dtype(object)
    if isinstance(sample_type, ClassLabel):
        return pd.CategoricalDtype([name for name in sample_type.names if name])
    if isinstance(sample_type, Timestamp):
        return _moments(np.zeros(0, np.int64), None, sample_type.unit, sample_type.tz).dtype
    dtype = widened_dtype(sample_type.dtype)
    if dtype.kind not in "biuf":
        return np.dtype(object) if sample_type.nullable else dtype
    return _numbers(np.zeros(0, dtype), None, nullable=sample_type.nullable).dtype


def _numbers(values: np.ndarray, valid: np.ndarray | None, *, nullable: bool) -> Any:
    import pandas as pd

    if not nullable:
        return values
    missing = np.zeros(len(values), np.bool_) if valid is None else ~valid
    if values.dtype.kind == "f":
        return np.where(missing, values.dtype.type(np.nan), values) if missing.any() else values
    make = pd.arrays.BooleanArray if values.dtype.kind == "b" else pd.arrays.IntegerArray
    return make(np.array(values), missing)


def _moments(counts: np.ndarray, valid: np.ndarray | None, unit: str, tz: str | None) -> Any:
    import pandas as pd

    moments = np.array(counts).view(f"datetime64[{unit}]")
    if valid is not None:
        moments[~valid] = np.datetime64("NaT")
    index = pd.DatetimeIndex(moments)
    return pd.Series(index if tz is None else index.tz_localize("UTC").tz_convert(tz))


def _computed(computed: Computed) -> Any:
    """The values of a column that a query computed, by its type and whether some are NULL."""
    import pandas as pd

    import tensorlake_query as tql

    batch, kind = computed.batch, computed.type
    if isinstance(batch, tql.UniformBatch) and not kind.shape and computed.names is None:
        if kind.timestamp_unit is not None:
            return _moments(batch.values, batch.valid, kind.timestamp_unit, kind.timezone)
        if batch.values.dtype.kind in "biuf":  # noqa: PD011 - a column of ours
            return _numbers(batch.values, batch.valid, nullable=batch.valid is not None)
    presented = computed.present()
    if computed.names is not None and not kind.shape:
        return _categories(presented, computed.names)
    if isinstance(presented, np.ndarray) and presented.ndim == 1:
        return presented
    return pd.Series(_listed(presented), dtype=object)


def _categories(codes: Iterable[Any], names: Sequence[str]) -> Any:
    """Make labels, None where NULL, a Categorical; a class that was dropped is no category."""
    import pandas as pd

    known = [one for one in names if one]
    place = {one: at for at, one in enumerate(known)}
    found = [-1 if code is None else place[names[int(code)]] for code in codes]
    return pd.Categorical.from_codes(found, dtype=pd.CategoricalDtype(known))


def _listed(values: Any) -> list[Any]:
    return [values[at] for at in range(len(values))] if isinstance(values, Ragged) else list(values)
