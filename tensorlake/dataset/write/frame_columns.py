"""Columns of pandas DataFrames: the forms that values of tensors have there, and their types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorlake.errors import TensorlakeError
from tensorlake.types import ClassLabel, SampleType, Timestamp, from_json, widened_dtype

__all__ = ["ATTRIBUTE", "category_column", "number_column", "time_column", "written_types"]

ATTRIBUTE = "tensorlake"
"""Under which the attributes of a frame have the types of its columns, as JSON."""


def written_types(frame: Any) -> Mapping[str, SampleType]:
    """Return the types of the columns of a frame that are as `to_pandas` wrote them."""
    written = getattr(frame, "attrs", {}).get(ATTRIBUTE)
    try:
        types = {name: from_json(one) for name, one in json.loads(written or "{}").items()}
    except (ValueError, TypeError, AttributeError, TensorlakeError):  # another program's, or newer
        return {}
    names = [name for name in types if name in frame.columns]
    return {name: types[name] for name in names if frame[name].dtype == dtype_of(types[name])}


def dtype_of(sample_type: SampleType) -> Any:
    """The dtype that a column of a type has."""
    import pandas as pd

    if sample_type.layout != "uniform" or sample_type.shape or sample_type.dtype is None:
        return np.dtype(object)
    if isinstance(sample_type, ClassLabel):
        return pd.CategoricalDtype([name for name in sample_type.names if name])
    if isinstance(sample_type, Timestamp):
        return time_column(np.zeros(0, np.int64), None, sample_type.unit, sample_type.tz).dtype
    dtype = widened_dtype(sample_type.dtype)
    if dtype.kind not in "biuf":
        return np.dtype(object) if sample_type.nullable else dtype
    return number_column(np.zeros(0, dtype), None, nullable=sample_type.nullable).dtype


def number_column(values: np.ndarray, valid: np.ndarray | None, *, nullable: bool) -> Any:
    """Make numbers a column, of pandas' types with NULLs where there may be some."""
    import pandas as pd

    if not nullable:
        return values
    missing = np.zeros(len(values), np.bool_) if valid is None else ~valid
    if values.dtype.kind == "f":
        return np.where(missing, values.dtype.type(np.nan), values) if missing.any() else values
    make = pd.arrays.BooleanArray if values.dtype.kind == "b" else pd.arrays.IntegerArray
    return make(np.array(values), missing)


def time_column(counts: np.ndarray, valid: np.ndarray | None, unit: str, tz: str | None) -> Any:
    """Make counts of a unit of time a column of times."""
    import pandas as pd

    moments = np.array(counts).view(f"datetime64[{unit}]")
    if valid is not None:
        moments[~valid] = np.datetime64("NaT")
    index = pd.DatetimeIndex(moments)
    return pd.Series(index if tz is None else index.tz_localize("UTC").tz_convert(tz))


def category_column(codes: Iterable[Any], names: Sequence[str]) -> Any:
    """Make labels, None where NULL, a Categorical; a dropped class is not a category."""
    import pandas as pd

    known = [one for one in names if one]
    place = {one: at for at, one in enumerate(known)}
    found = [-1 if code is None else place[names[int(code)]] for code in codes]
    return pd.Categorical.from_codes(found, dtype=pd.CategoricalDtype(known))
