"""Samples as cells of a table, and as JSON.

Images and other media are never decoded: a cell shows codec, shape and size (``jpeg 375×500×3
43.2 kB``). Labels are shown by name. An array that does not fit a cell is shown as dtype and shape.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tensorlake.cli.output import as_document
from tensorlake.dataset import Dataset, View, rowset_of
from tensorlake.quantities import human_nbytes
from tensorlake.types import ClassLabel, EncodedColumn

__all__ = [
    "Media",
    "as_cell",
    "column_names",
    "display_values",
    "read_rows",
    "row_document",
    "shape_text",
]

CELL_WIDTH = 60
ROWS_AT_ONCE = 64
SHOWN_ELEMENTS = 12


@dataclass(frozen=True, slots=True)
class Media:
    """Codec, shape and size of a stored media sample."""

    codec: str
    shape: tuple[int, ...]
    nbytes: int

    def __str__(self) -> str:
        return f"{self.codec} {shape_text(self.shape)} {human_nbytes(self.nbytes)}"


def column_names(view: Dataset | View) -> list[str]:
    """List the columns, in the order of a query or of the schema."""
    return list(rowset_of(view).columns)


def read_rows(view: Dataset | View, *, stop: int | None = None) -> Iterator[dict[str, Any]]:
    """Read rows one after another, with media as `Media` and labels by name."""
    names = column_names(view)
    shown = view[:stop]
    columns = [display_values(shown, name) for name in names]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def display_values(view: Dataset | View, name: str) -> Iterator[Any]:
    """Read a column for display: class names instead of codes, `Media` instead of pixels."""
    computed = rowset_of(view).computed.get(name)
    if computed is not None:
        values, names = computed.present(), computed.names
    elif view[name].type.is_media:
        yield from _media(view, name)
        return
    else:
        kind = view.schema[name]
        values, names = view[name], kind.names if isinstance(kind, ClassLabel) else None
    for value in values:
        if value is None or names is None:
            yield value
        elif np.ndim(value) == 0:
            yield names[int(value)]
        else:
            yield [names[code] for code in np.asarray(value).tolist()]


def _media(view: Dataset | View, name: str) -> Iterator[Media | None]:
    rows = rowset_of(view)
    sample_type = view.schema[name]
    for start in range(0, len(view), ROWS_AT_ONCE):
        positions = np.arange(start, min(start + ROWS_AT_ONCE, len(view)))
        column = rows.read(name, positions, decode=False)
        assert isinstance(column, EncodedColumn)  # media are stored encoded
        for place, sample in enumerate(column.samples):
            if column.valid is not None and not column.valid[place]:
                yield None
                continue
            shape = () if column.shapes is None else tuple(column.shapes[place].tolist())
            codec = (sample_type.media_type_of(sample) or "").rpartition("/")[2]
            yield Media(codec, shape, len(sample))


def as_cell(value: Any) -> str:
    """Format a value in at most 60 characters, on one line."""
    if value is None:
        return "NULL"
    if isinstance(value, np.ndarray):
        if value.size > SHOWN_ELEMENTS:
            return f"{value.dtype} {shape_text(value.shape)}"
        return _cut(_elements(value.tolist()))
    if isinstance(value, bytes | bytearray | memoryview):
        return human_nbytes(len(value))
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, list):
        return _cut(", ".join(map(str, value)))
    return _cut(" ".join(str(value).split()))


def _elements(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_elements, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shape_text(shape: Sequence[int | None]) -> str:
    """Format a shape as a product.

    >>> shape_text((375, 500, 3)), shape_text((None, 4)), shape_text(())
    ('375×500×3', '?×4', '()')
    """
    return "×".join("?" if n is None else str(n) for n in shape) or "()"


def row_document(row: dict[str, Any]) -> dict[str, object]:
    """Convert a row to a JSON object."""
    return {
        name: asdict(value) if isinstance(value, Media) else as_document(value)
        for name, value in row.items()
    }


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"
