"""How many rows have which values of two tensors: classes by classes, bars by bars, or both.

    x, y       classes, the most frequent          bars of the first measure that a row has one of
    a row      is in each class that it holds      is in one bar
    a cell     counts the rows of both             and is a filter that finds exactly those

Each axis is what the statistics of its tensor are, over the same rows; then both expressions are
evaluated together by one query, and each row gets its places. A table of places by rows is small
(at most 30 wide), so cells are the product of two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import tensorlake_query as tql
from tensorlake.errors import InvalidInputError
from tensorlake_server.messages.pairs import PairAxis, PairStatistics
from tensorlake_server.stats.class_counts import row_of_values
from tensorlake_server.stats.histogram_queries import list_measures

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tensorlake_server.messages.messages import ClassCounts
    from tensorlake_server.stats.counting import CountedTensor, Measured
    from tensorlake_server.stats.histogram_queries import Measure

__all__ = ["count_pairs"]

MOST_CLASSES = 24  # of an axis: as many as fit beside their names


@dataclass(frozen=True, slots=True)
class _Axis:
    """One of two tensors: its expression, and the places of its values."""

    message: PairAxis
    expression: str
    width: int
    place: Callable[[tql.Batch], npt.NDArray[np.float32]]
    """A column a place, 1 where the row is in it."""
    is_number: bool
    """Whether a row has one number: the other axis has its medians."""


def count_pairs(first: CountedTensor, second: CountedTensor) -> PairStatistics:
    """Count rows by the values of two tensors.

    Raises:
        InvalidInputError: One has neither classes nor a number a row.
        QueryLimitError: Counting took too long.
    """
    tensors = (first, second)
    measures = [_measure_of(tensor) for tensor in tensors]
    counted = min(
        tensor.affordable(one)
        for tensor, measure in zip(tensors, measures, strict=True)
        for one in ([None, measure] if tensor.has_words else [measure])
    )
    x, y = (_axis_of(tensor, one, counted) for tensor, one in zip(tensors, measures, strict=True))
    heavy = max(tensors, key=lambda tensor: tensor.weight).size
    counts = np.zeros((y.width, x.width), dtype=np.int64)
    placed = 0
    number, classes = (x, y) if x.is_number else (y, x)
    has_medians = number.is_number and classes.message.classes is not None
    parts: list[list[npt.NDArray[np.float64]]] = [[] for _ in range(classes.width)]
    pairs = first.rows.together([x.expression, y.expression], counted=counted, heavy=heavy)
    for of_x, of_y in pairs:
        xs, ys = x.place(of_x), y.place(of_y)
        counts += (ys.T @ xs).astype(np.int64)  # float32 is exact below 2²⁴ rows
        is_in = xs.any(axis=1) & ys.any(axis=1)
        placed += int(np.count_nonzero(is_in))
        if has_medians:
            of_number, of_classes = (of_x, ys) if number is x else (of_y, xs)
            owners, values = row_of_values(of_number)  # pyright: ignore[reportArgumentType] - a number a row
            for part, is_held in zip(parts, of_classes.astype(np.bool_).T, strict=True):
                of_class = values[is_held[owners]].astype(np.float64)
                part.append(of_class[np.isfinite(of_class)])
    return PairStatistics(
        rows=first.stored.rows,
        counted=counted,
        placed=placed,
        x=x.message,
        y=y.message,
        counts=counts.tolist(),
        medians=[_median(part) for part in parts] if has_medians else None,
    )


def _measure_of(tensor: CountedTensor) -> Measure | None:
    """Return the first measure that a row has one value of; None for classes."""
    if tensor.class_names is not None:
        return None
    measures = list_measures(tensor.name, tensor.kind)
    measure = next((one for one in measures if one.per == "row"), None)
    if measure is None:
        raise InvalidInputError(
            f"{tensor.name!r} ({tensor.kind}) has neither classes nor a number a row,"
            " by which rows could be counted\nchoose a class label, a number, a time, a text that"
            " repeats, or what has a length"
        )
    return measure


def _axis_of(tensor: CountedTensor, measure: Measure | None, counted: int) -> _Axis:
    classes = tensor.classes(counted)
    if classes is not None:
        return _axis_of_classes(tensor, classes)
    assert measure is not None, "what has no classes has a measure"
    measured = tensor.measure(measure, counted)
    message = PairAxis(tensor=tensor.name, classes=None, histogram=measured.histogram)
    width = len(measured.bars.counts)

    def place(batch: tql.Batch) -> npt.NDArray[np.float32]:
        return _places_of_bars(batch, measured, width)

    is_number = measured.histogram.mean is not None
    return _Axis(message, measure.expression, width, place, is_number)


def _axis_of_classes(tensor: CountedTensor, classes: ClassCounts) -> _Axis:
    held = [entry for entry in classes.entries if entry.rows > 0]
    held.sort(key=lambda entry: (-entry.rows, entry.code))
    shown = held[:MOST_CLASSES]
    message = PairAxis(
        tensor=tensor.name,
        classes=classes.model_copy(update={"entries": shown}),
        histogram=None,
    )
    width = len(shown)
    if tensor.class_names is None:
        columns = {entry.name: place for place, entry in enumerate(shown)}
        return _Axis(
            message,
            tensor.column,
            width,
            lambda batch: _places_of_words(batch, columns),
            is_number=False,
        )
    column_of = np.full(len(tensor.class_names), -1, dtype=np.int64)
    column_of[[entry.code for entry in shown]] = np.arange(width)
    return _Axis(
        message,
        tensor.column,
        width,
        lambda batch: _places_of_codes(batch, column_of, width),
        is_number=False,
    )


def _places_of_codes(
    batch: tql.Batch, column_of: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.float32]:
    assert not isinstance(batch, tql.ObjectBatch), "codes are numbers"
    owners, codes = row_of_values(batch)
    is_class = (codes >= 0) & (codes < len(column_of))
    owners, columns = owners[is_class], column_of[codes[is_class].astype(np.int64)]
    places = np.zeros((_rows_of(batch), width), dtype=np.float32)
    places[owners[columns >= 0], columns[columns >= 0]] = 1
    return places


def _places_of_words(batch: tql.Batch, columns: dict[str, int]) -> npt.NDArray[np.float32]:
    assert isinstance(batch, tql.ObjectBatch), "texts are objects"
    places = np.zeros((_rows_of(batch), len(columns)), dtype=np.float32)
    for row, value in enumerate(batch.values):
        words: list[object] = value if isinstance(value, list) else [value]
        for word in words:
            column = columns.get(str(word)) if word is not None else None
            if column is not None:
                places[row, column] = 1
    return places


def _places_of_bars(batch: tql.Batch, measured: Measured, width: int) -> npt.NDArray[np.float32]:
    places = np.zeros((_rows_of(batch), width), dtype=np.float32)
    if isinstance(batch, tql.ObjectBatch) or width == 0:
        return places  # NULLs alone
    owners, values = row_of_values(batch)
    if values.dtype.kind == "f":
        is_finite = np.isfinite(values)
        owners, values = owners[is_finite], values[is_finite]
    places[owners, measured.bars.place(values)] = 1
    return places


def _rows_of(batch: tql.Batch) -> int:
    return len(batch.shapes) if isinstance(batch, tql.RaggedBatch) else len(batch.values)


def _median(parts: list[npt.NDArray[np.float64]]) -> float | None:
    values = np.concatenate([np.empty(0), *parts])
    return float(np.median(values)) if len(values) else None
