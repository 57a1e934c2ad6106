"""Samples as JSON: small ones whole, large ones and media as a summary.

    number, bool, label    themselves (a label is its code; the schema has the names)
    NaN, ±inf, |int|>2^53  "NaN", "Infinity", "-Infinity", "9007199254740993": JSON has no other way
    text, JSON             themselves up to TEXT_SHOWN characters
    array                  nested lists up to ARRAY_SHOWN elements, or SHAPES_SHOWN of what is drawn
    outlines               a list of lists of points
    sequence               a list of its items, if these are plain and short; else their number
    time, UUID             ISO 8601, and its 36 characters
    everything else        {"$summary": kind, …}: dtype, shape, nbytes, the first elements

Nothing is cut silently: an incomplete value is a summary. A JSON sample that itself has
a key "$summary" is always summarised, so that the two cannot be taken for each other.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tensorlake.errors import CorruptionError
from tensorlake.storage import parallel_map
from tensorlake.types import (
    EncodedColumn,
    Polygon,
    RaggedColumn,
    Sequence,
    Timestamp,
    UniformColumn,
    widened_column,
)
from tensorlake_server.media.handles import OCTETS, file_type

if TYPE_CHECKING:
    import collections.abc

    from tensorlake.types import Column, SampleHandle, SampleType

__all__ = ["elements_shown", "error_cell", "handle_cells", "make_cells"]

ARRAY_SHOWN = 1024
SHAPES_SHOWN = 32_768  # of boxes 8,192, and their labels: an image with all of them is worth it
DRAWN_KINDS = frozenset({"bbox", "bbox_3d", "class_label", "keypoints", "polygon"})
PLAIN_KINDS = frozenset({"number", "bool", "label", "text", "json"})  # of items shown in a list
PREVIEW_ELEMENTS = 8
TEXT_SHOWN = 4096
READ_AT_ONCE = 16
SAFE_INTEGER = 2**53  # JavaScript's numbers are doubles

Cell = Any  # JSON: None, bool, int, float, str, list or dict of these


def make_cells(sample_type: SampleType, column: Column) -> list[Cell]:
    """Turn a column, media as stored, into one cell a row."""
    column = widened_column(column)
    limit = elements_shown(sample_type)
    match column:
        case UniformColumn() if isinstance(sample_type, Timestamp):
            cells = _time_cells(sample_type, column)
        case UniformColumn():
            cells = _uniform_cells(column.values, limit)
        case RaggedColumn():
            cells = _ragged_cells(column, limit)
        case EncodedColumn():
            cells = _encoded_cells(sample_type, column)
    if column.valid is None:
        return cells
    pairs = zip(cells, column.valid.tolist(), strict=True)
    return [cell if is_valid else None for cell, is_valid in pairs]


def handle_cells(
    sample_type: SampleType,
    handles: collections.abc.Sequence[SampleHandle | None],
    *,
    shown: collections.abc.Callable[[str], str],
) -> list[Cell]:
    """Describe samples by their maps, and by the first bytes of files whose kind those name.

    Args:
        sample_type: Their type.
        handles: One for each sample; None for a missing one.
        shown: Returns an error's message without places that those who ask need not know.
    """
    describe = partial(_handle_cell, sample_type, shown=shown)
    return [*parallel_map(describe, handles, ahead=READ_AT_ONCE)]


def elements_shown(sample_type: SampleType) -> int:
    """How many elements an array may have to be shown whole."""
    return SHAPES_SHOWN if sample_type.drawn_as in DRAWN_KINDS else ARRAY_SHOWN


def error_cell(message: str) -> Cell:
    """Stand for a value that could not be read."""
    return {"$summary": "error", "message": message}


def _handle_cell(
    sample_type: SampleType,
    sample: SampleHandle | None,
    *,
    shown: collections.abc.Callable[[str], str],
) -> Cell:
    if sample is None:
        return None
    try:
        found = file_type(sample)
    except CorruptionError as error:
        return error_cell(shown(str(error)))
    media_type = sample_type.media_type if found == OCTETS else found
    facts = {"media_type": media_type, "nbytes": sample.nbytes, "shape": list(sample.shape)}
    return {"$summary": "media", **facts}


def _time_cells(sample_type: Timestamp, column: UniformColumn) -> list[Cell]:
    shown = (sample_type.present_one(column, position) for position in range(len(column)))
    return [None if one is None else _time_name(one) for one in shown]


def _time_name(moment: Any) -> str:
    """Write a datetime, or NumPy's of nanoseconds, as ISO 8601."""
    return str(moment) if isinstance(moment, np.datetime64) else moment.isoformat()


def _uniform_cells(values: np.ndarray, limit: int) -> list[Cell]:
    if math.prod(values.shape[1:]) > limit:
        return [_array_summary(value, value.shape) for value in values]
    return _plain(values)


def _ragged_cells(column: RaggedColumn, limit: int) -> list[Cell]:
    offsets = column.offsets.tolist()
    shapes = column.shapes.tolist()
    cells: list[Cell] = []
    for start, stop, shape in zip(offsets, offsets[1:], shapes, strict=False):
        values = column.values[start:stop]
        if stop - start > limit:
            cells.append(_array_summary(values, shape))
        else:
            cells.append(_plain(values.reshape(shape)))
    return cells


def _encoded_cells(sample_type: SampleType, column: EncodedColumn) -> list[Cell]:
    if sample_type.is_media:
        shapes = [None] * len(column) if column.shapes is None else column.shapes.tolist()
        return [
            {
                "$summary": "media",
                "media_type": sample_type.media_type_of(sample),
                "nbytes": len(sample),
                **({} if shape is None else {"shape": shape}),
            }
            for sample, shape in zip(column.samples, shapes, strict=True)
        ]
    if isinstance(sample_type, Sequence):
        return [_items_cell(sample_type, bytes(sample)) for sample in column.samples]
    if isinstance(sample_type, Polygon):
        return [_outlines_cell(sample_type, bytes(sample)) for sample in column.samples]
    if sample_type.query_kind == "text":
        return [_text_cell(str(bytes(sample), "utf-8", "replace")) for sample in column.samples]
    if sample_type.query_kind == "json":
        return [_json_cell(bytes(sample)) for sample in column.samples]
    return [{"$summary": "bytes", "nbytes": len(sample)} for sample in column.samples]


def _outlines_cell(sample_type: Polygon, sample: bytes) -> Cell:
    if not sample:
        return None
    outlines: list[np.ndarray] = sample_type.present_sample(sample)
    if sum(outline.size for outline in outlines) > SHAPES_SHOWN:
        return {"$summary": "bytes", "nbytes": len(sample)}
    return [_plain(outline) for outline in outlines]


def _items_cell(sample_type: Sequence, sample: bytes) -> Cell:
    """Write short lists of plain values whole; of others, how many items they have."""
    if not sample:
        return None
    item = sample_type.item
    if len(sample) <= TEXT_SHOWN and item.query_kind in PLAIN_KINDS and not item.is_media:
        return make_cells(item, sample_type.items_of(sample))
    media = {"$summary": "media", "media_type": item.media_type} if item.is_media else {}
    count = sample_type.item_counter(sample)
    return {"$summary": "bytes", **media, "nbytes": len(sample), "items": count}


def _text_cell(text: str) -> Cell:
    if len(text) <= TEXT_SHOWN:
        return text
    return {"$summary": "text", "nbytes": len(text.encode()), "preview": text[:TEXT_SHOWN]}


def _json_cell(sample: bytes) -> Cell:
    if not sample:
        return None
    if len(sample) <= TEXT_SHOWN:
        value = msgspec.json.decode(sample)
        if not isinstance(value, dict) or "$summary" not in value:
            return value
    preview = str(sample[:TEXT_SHOWN], "utf-8", "replace")
    return {"$summary": "json", "nbytes": len(sample), "preview": preview}


def _array_summary(values: np.ndarray, shape: collections.abc.Sequence[int]) -> Cell:
    return {
        "$summary": "array",
        "dtype": values.dtype.name,
        "shape": list(shape),
        "nbytes": values.nbytes,
        "preview": _plain(values.reshape(-1)[:PREVIEW_ELEMENTS]),
    }


def _plain(values: np.ndarray) -> list[Cell]:
    """Return nested lists of JSON numbers; the rare values JSON lacks become strings."""
    kind = values.dtype.kind
    if kind in "iu" and values.size and values.dtype.itemsize == np.dtype(np.int64).itemsize:
        is_safe = (values <= SAFE_INTEGER) & (values >= (-SAFE_INTEGER if kind == "i" else 0))
        if not bool(is_safe.all()):
            return _replaced(values, ~is_safe, str)
    if kind == "f" and not bool(np.isfinite(values).all()):
        return _replaced(values, ~np.isfinite(values), _float_name)
    if kind not in "biuf":
        return np.vectorize(str, otypes=[object])(values).tolist()
    return _rounded(values).tolist()


def _rounded(values: np.ndarray) -> np.ndarray:
    """Give float32 and narrower the few digits that they have: 0.1, not 0.10000000149011612."""
    if values.dtype.kind != "f" or values.dtype.itemsize >= np.dtype(np.float64).itemsize:
        return values
    return values.astype(np.str_).astype(np.float64)  # NumPy writes the shortest text that is exact


def _replaced(values: np.ndarray, where: np.ndarray, name: Any) -> list[Cell]:
    cells = values.astype(object)
    cells[where] = [name(value) for value in values[where].tolist()]
    return cells.tolist()


def _float_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
