"""Out of a dataset: into other libraries' tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, missing_extra
from tensorlake.types import Ragged

if TYPE_CHECKING:
    from tensorlake.dataset.readable import Readable

__all__ = ["to_pandas"]

IN_MEMORY_NBYTES_MAX = 4 << 30
"""More than this is asked for by accident: the error names the way around."""


def to_pandas(rows: Readable) -> Any:
    """Read every column into a DataFrame; labels become categories, arrays objects."""
    try:
        import pandas as pd
    except ImportError as error:
        raise missing_extra("to_pandas()", "pandas") from error
    selection, reader = rows.selection(), rows.reader()
    positions = selection.all_positions()
    physical = selection.physical(positions)
    stored = sum(reader.stored_nbytes(name, physical) for name in selection.columns)
    if stored > IN_MEMORY_NBYTES_MAX:
        raise InvalidInputError(
            f"to_pandas() would read {stored:,} bytes into memory, more than"
            f" {IN_MEMORY_NBYTES_MAX:,}\nname the columns: ds[['label', 'score']].to_pandas()",
            actual=stored,
        )
    columns: dict[str, Any] = {}
    for name, tensor in rows.tensors.items():
        column = reader.read(name, physical, decode=False)
        values = [tensor.type.present_one(column, at) for at in range(len(column))]
        names = tensor.names_or_none
        if names is not None and tensor.type.layout == "uniform":
            known = [one for one in names if one]  # a class that was dropped is no category
            place = {one: at for at, one in enumerate(known)}
            codes = [-1 if value is None else place[names[int(value)]] for value in values]
            columns[name] = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(known))
        elif column.valid is None and tensor.type.layout == "uniform" and not tensor.type.shape:
            columns[name] = np.asarray(tensor.type.present(column))
        else:
            columns[name] = pd.Series(values, dtype=object)
    for name, computed in rows.computed.items():
        presented = computed.present()
        flat = isinstance(presented, np.ndarray) and presented.ndim == 1
        columns[name] = presented if flat else pd.Series(_listed(presented), dtype=object)
    frame = pd.DataFrame(columns)
    if rows.has_rows:
        frame.index = pd.Index(selection.row_numbers(positions), name="_row")
    return frame


def _listed(values: Any) -> list[Any]:
    return [values[at] for at in range(len(values))] if isinstance(values, Ragged) else list(values)
