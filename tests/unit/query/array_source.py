"""A column source over plain Python samples, which remembers what was read of it.

`samples` turns a batch back into one Python value a row: what the tests compare with.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tensorlake_query import (
    ColumnStatistics,
    ColumnType,
    IndexCondition,
    ObjectBatch,
    RaggedBatch,
    Region,
    SourceBatch,
    TextBatch,
    UniformBatch,
)

NUMBER = ColumnType("number", "float64", ())


class ArraySource:
    """Columns of samples held in lists; None is NULL. Zone maps cover `zone_rows` rows each."""

    def __init__(
        self,
        columns: Mapping[str, tuple[ColumnType, Sequence[Any]]],
        *,
        zone_rows: int | None = None,
    ) -> None:
        self.columns = dict(columns)
        self.zone_rows = zone_rows
        self.reads: dict[str, list[int]] = {}
        self.shape_reads: dict[str, int] = {}

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        return {name: kind for name, (kind, _) in self.columns.items()}

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.columns.values()))[1]) if self.columns else 0

    def read(self, column: str, rows: np.ndarray) -> SourceBatch:
        self.reads.setdefault(column, []).extend(rows.tolist())
        kind, data = self.columns[column]
        return batch_of([data[row] for row in rows.tolist()], kind)

    def shapes(self, column: str, rows: np.ndarray) -> np.ndarray:
        self.shape_reads[column] = self.shape_reads.get(column, 0) + len(rows)
        kind, data = self.columns[column]
        missing = (-1,) * len(kind.shape)
        shapes = [missing if data[row] is None else np.shape(data[row]) for row in rows.tolist()]
        return np.array(shapes, np.int64).reshape(len(rows), len(kind.shape))

    def is_parted(self, column: str) -> bool:
        return self.columns[column][0].is_parted

    def region(self, column: str, region: Region, rows: np.ndarray) -> SourceBatch:
        self.reads.setdefault(column, []).extend(rows.tolist())
        kind, data = self.columns[column]
        found = [_element(data[row], region, kind.dtype) for row in rows.tolist()]
        ndim = len(kind.shape) - sum(isinstance(one, int) for one in region)
        return batch_of(found, ColumnType(kind.kind, kind.dtype, (None,) * ndim))

    def distinct(self, column: str, rows: np.ndarray) -> SourceBatch:
        kind, data = self.columns[column]
        sides = (-1,) + (1,) * (len(kind.shape) - 1)
        found = [None if data[row] is None else np.unique(data[row]) for row in rows.tolist()]
        return batch_of([None if one is None else one.reshape(sides) for one in found], kind)

    def statistics(self, column: str) -> ColumnStatistics | None:
        kind, data = self.columns[column]
        if self.zone_rows is None or kind.kind in {"json", "bytes", "media"}:
            return None
        starts = [*range(0, self.num_rows, self.zone_rows), self.num_rows]
        low, high, nulls, known, empty, has_nan = [], [], [], [], [], []
        for start, stop in pairwise(starts):
            zone = [each for each in data[start:stop] if each is not None]
            nulls.append(stop - start - len(zone))
            flat = [item for each in zone for item in np.asarray(each).reshape(-1).tolist()]
            empty.append(not flat)
            has_nan.append(any(item != item for item in flat))  # noqa: PLR0124 only NaN differs
            flat = [item for item in flat if item == item]  # noqa: PLR0124 NaN is outside every order
            known.append(bool(flat))
            filler = "" if kind.kind == "text" else 0
            low.append(min(flat, default=filler))
            high.append(max(flat, default=filler))
        dtype = object if kind.dtype is None else kind.dtype
        return ColumnStatistics(
            np.array(starts, np.int64),
            np.array(low, dtype),
            np.array(high, dtype),
            np.array(nulls, np.int64),
            np.array(known, np.bool_),
            np.array(empty, np.bool_),
            np.array(has_nan, np.bool_),
        )


class ArrayIndex:
    """An index that knows all rows but those of some ranges, and tells any condition by them."""

    name = "'test'"

    def __init__(self, source: ArraySource, column: str, unindexed: np.ndarray) -> None:
        self.source, self.column, self.unindexed = source, column, unindexed

    def answers(self, op: str, path: tuple[str, ...] = ()) -> bool:
        return not path and op not in {"nearest", "best"}

    def rows(self, conditions: Sequence[IndexCondition], most: int) -> np.ndarray | None:
        kind, data = self.source.columns[self.column]
        known = np.ones(len(data), np.bool_)
        for start, stop in self.unindexed.tolist():
            known[start:stop] = False
        rows = np.flatnonzero(known)
        batch = batch_of([data[row] for row in rows.tolist()], kind)
        for one in conditions:
            known[rows] &= one.matches(batch)
        found = np.flatnonzero(known)
        return None if len(found) > most else found


class IndexedSource(ArraySource):
    """A source with an index of some columns, or of each."""

    def __init__(
        self,
        *args: Any,
        indexed: Sequence[str] | None = None,
        unindexed: Sequence[tuple[int, int]] = (),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.indexed = indexed
        self.unindexed = np.array(unindexed, np.int64).reshape(-1, 2)

    def indexes(self, column: str) -> list[ArrayIndex]:
        if self.indexed is not None and column not in self.indexed:
            return []
        return [ArrayIndex(self, column, self.unindexed)]


def _element(sample: object, region: Region, dtype: str | None) -> np.ndarray | None:
    try:
        return None if sample is None else np.asarray(np.asarray(sample, dtype)[region])
    except IndexError:
        return None


def batch_of(samples: Sequence[object], kind: ColumnType) -> SourceBatch:
    """Return samples in the form that a source gives for a column's type."""
    if kind.kind == "text" and not kind.shape and len(samples) % 2:
        packed = text_batch(samples)
        if packed is not None:
            return packed
    if kind.dtype is None:
        return ObjectBatch(list(samples))
    valid = np.array([each is not None for each in samples], np.bool_)
    checked = None if valid.all() else valid
    if None not in kind.shape:
        zero = np.zeros([size or 0 for size in kind.shape], kind.dtype)
        filled = [zero if each is None else np.asarray(each, kind.dtype) for each in samples]
        stacked = np.array(filled, kind.dtype).reshape(len(samples), *kind.shape)
        return UniformBatch(stacked, checked)
    empty = np.zeros([size or 0 for size in kind.shape], kind.dtype)
    arrays = [empty if each is None else np.asarray(each, kind.dtype) for each in samples]
    flat = [array.reshape(-1) for array in arrays]
    values = np.concatenate(flat) if flat else np.zeros(0, kind.dtype)
    shapes = np.array([array.shape for array in arrays], np.int64)
    return RaggedBatch(values, shapes.reshape(len(samples), len(kind.shape)), checked)


def text_batch(samples: Sequence[object]) -> TextBatch | None:
    """Return texts as they are stored; None where one has half of a surrogate pair."""
    valid = np.array([each is not None for each in samples], np.bool_)
    try:
        encoded = [b"" if each is None else str(each).encode() for each in samples]
    except UnicodeEncodeError:
        return None
    offsets = np.cumsum([0, *map(len, encoded)])
    content = np.frombuffer(b"".join(encoded), np.uint8)
    return TextBatch(content, offsets, None if valid.all() else valid)


def samples(batch: SourceBatch) -> list[object]:
    """Return one value a row: None, a Python scalar, or nested lists."""
    if isinstance(batch, ObjectBatch):
        return list(batch.values)
    if isinstance(batch, TextBatch):
        bounds = pairwise(batch.offsets.tolist())
        texts = [batch.content[start:stop].tobytes().decode() for start, stop in bounds]
        valid = np.ones(len(texts), bool) if batch.valid is None else batch.valid
        return [text if ok else None for text, ok in zip(texts, valid, strict=True)]
    if isinstance(batch, UniformBatch):
        valid = np.ones(len(batch.values), bool) if batch.valid is None else batch.valid
        return [row if ok else None for row, ok in zip(batch.values.tolist(), valid, strict=True)]
    valid = np.ones(len(batch.shapes), bool) if batch.valid is None else batch.valid
    rows: list[object] = []
    start = 0
    for shape, ok in zip(batch.shapes.tolist(), valid, strict=True):
        stop = start + int(np.prod(shape, dtype=np.int64))
        rows.append(batch.values[start:stop].reshape(shape).tolist() if ok else None)
        start = stop
    assert start == len(batch.values), "shapes and values disagree"
    return rows
