"""Into pandas: labels become categories, arrays objects, and the index is the row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow_stream import (
    VIRTUAL_COLUMNS,
    check_columns,
    check_in_memory,
)
from tensorlake.dataset.identity import row_id_texts
from tensorlake.errors import missing_extra
from tensorlake.types import Ragged, widened_column

if TYPE_CHECKING:
    from tensorlake.dataset.exported import Exported
    from tensorlake.dataset.view import View

__all__ = ["to_pandas"]


def to_pandas(rows: Exported, columns: Sequence[str] | None = None) -> Any:
    """Read every column into a DataFrame; labels become categories, arrays objects."""
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
        column = widened_column(reader.read(name, physical, decode=False))
        values = [tensor.type.present_one(column, at) for at in range(len(column))]
        names = tensor.names_or_none
        if names is not None and tensor.type.layout == "uniform":
            read[name] = _categories(values, names)
        elif column.valid is None and tensor.type.layout == "uniform" and not tensor.type.shape:
            read[name] = np.asarray(tensor.type.present(column))
        else:
            read[name] = pd.Series(values, dtype=object)
    for name, computed in shown.computed.items():
        presented = computed.present()
        names = computed.names
        if names is not None and not computed.type.shape:
            read[name] = _categories(presented, names)
        elif isinstance(presented, np.ndarray) and presented.ndim == 1:
            read[name] = presented
        else:
            read[name] = pd.Series(_listed(presented), dtype=object)
    if "_row_id" in asked:
        read["_row_id"] = row_id_texts(selection)
    frame = pd.DataFrame({name: read[name] for name in asked if name in read})
    if shown.has_rows:
        frame.index = pd.Index(selection.row_numbers(positions), name="_row")
    return frame


def _categories(codes: Iterable[Any], names: Sequence[str]) -> Any:
    """Make labels, None where NULL, a Categorical; a class that was dropped is no category."""
    import pandas as pd

    known = [one for one in names if one]
    place = {one: at for at, one in enumerate(known)}
    found = [-1 if code is None else place[names[int(code)]] for code in codes]
    return pd.Categorical.from_codes(found, dtype=pd.CategoricalDtype(known))


def _listed(values: Any) -> list[Any]:
    return [values[at] for at in range(len(values))] if isinstance(values, Ragged) else list(values)
