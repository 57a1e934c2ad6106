"""A selection as the query engine sees it: named columns, read by row number.

The one place where samples become the engine's batches. Rows here are positions in the selection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as List
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.row_identity import row_id_texts, source_texts
from tensorlake.dataset.query.lookup import position_indexes
from tensorlake.quantities import is_whole_number
from tensorlake.reading import MATERIALISED_ROWS_MAX, Reader, Selection
from tensorlake.types import (
    BBox,
    ClassLabel,
    Column,
    EncodedColumn,
    PackedSamples,
    PartSource,
    Polygon,
    RaggedColumn,
    SampleParts,
    SampleType,
    SegmentMask,
    Sequence,
    Text,
    TiledSamples,
    Timestamp,
    UniformColumn,
    widened_column,
    widened_dtype,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["SelectionSource", "column_type"]

Int64Array = npt.NDArray[np.int64]
CHOSEN_ROWS_MIN = 4096  # fewer are read in less time than an index takes
REGIONS_TOGETHER = 256  # samples, whose tiles are in memory as they are stored: some 16 MB
PIECE_ROWS = 1 << 15  # whose shapes are found together: each chunk among them is sought in all


def column_type(sample_type: SampleType) -> tql.ColumnType:
    """Return how a query sees samples of a type; lists of numbers, or vectors, as arrays."""
    if _is_array(sample_type):
        item = column_type(sample_type.item)
        return replace(item, shape=(None, *item.shape), nullable=sample_type.nullable)
    return tql.ColumnType(
        kind=sample_type.query_kind,
        dtype=None if sample_type.dtype is None else widened_dtype(sample_type.dtype).name,
        shape=sample_type.shape,
        names=tuple(sample_type.names) if isinstance(sample_type, ClassLabel) else None,
        nullable=sample_type.nullable,
        timestamp_unit=sample_type.unit if isinstance(sample_type, Timestamp) else None,
        box_format=sample_type.format if isinstance(sample_type, BBox) else None,
        handle=sample_type.describe() if sample_type.is_lazy else None,
        has_polygons=isinstance(sample_type, Polygon),
        timezone=sample_type.tz if isinstance(sample_type, Timestamp) else None,
        class_names=_class_names(sample_type),
        is_parted=_is_parted(sample_type),
    )


def _is_parted(sample_type: SampleType) -> bool:
    """Whether a query has the values of samples, and may decode a region of them alone."""
    return sample_type.has_parts and not sample_type.is_lazy and sample_type.dtype is not None


def _class_names(sample_type: SampleType) -> tuple[str, ...] | None:
    names = sample_type.names if isinstance(sample_type, SegmentMask) else ()
    return tuple(names) or None


def _is_array(sample_type: SampleType) -> TypeGuard[Sequence]:
    return (
        isinstance(sample_type, Sequence)
        and sample_type.has_uniform_items
        and not isinstance(sample_type.item, Timestamp)
    )


class SelectionSource:
    """The columns of a selection (``tensorlake_query.ColumnSource``), computed ones among them."""

    def __init__(
        self,
        selection: Selection,
        reader: Reader,
        computed: Mapping[str, Computed] | None = None,
        *,
        view: RowSet | None = None,
    ) -> None:
        self.view = view
        self._selection = selection
        self._reader = reader
        self._computed = computed or {}
        added = {name: column.type for name, column in self._computed.items()}
        self._schema = _stored_schema(selection, added)

    @property
    def schema(self) -> Mapping[str, tql.ColumnType]:
        """Type of each column."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._selection.num_rows if self.view is None else len(self.view)

    def read(self, column: str, rows: Int64Array) -> tql.SourceBatch:
        """Read the samples of rows; media come decoded."""
        if column in self._computed:
            return self._computed[column].take(rows).batch
        sample_type = self._selection.snapshot.spec(column).type
        stored = self._reader.read(column, self._selection.physical(rows))
        return _source_batch(sample_type, stored)

    def read_run(self, column: str, start: int, stop: int) -> tql.SourceBatch:
        """Read the samples of rows ``start`` … ``stop`` - 1; media come decoded."""
        return self._run(self._reader.read_run, column, start, stop)

    def chunk_ends(self, column: str, start: int, stop: int) -> Int64Array | None:
        """Return where chunks end among rows ``start`` … ``stop`` - 1; None if not known."""
        first = None if column in self._computed else self._selection.first_physical
        if first is None or start >= stop:
            return None
        runs = self._reader.index(column).runs(first + start, first + stop)
        return None if runs is None else start + np.cumsum([run.stop - run.start for run in runs])

    def read_codes(self, column: str, start: int, stop: int) -> tql.SourceBatch:
        """Read the classes of rows ``start`` … ``stop`` - 1, as narrow as they are kept."""
        return self._run(self._reader.read_codes, column, start, stop)

    def _run(
        self, read: Callable[[str, int, int], Column], column: str, start: int, stop: int
    ) -> tql.SourceBatch:
        first = None if column in self._computed else self._selection.first_physical
        if first is None:
            return self.read(column, np.arange(start, stop))
        sample_type = self._selection.snapshot.spec(column).type
        return _source_batch(sample_type, read(column, first + start, first + stop))

    def cost(self, column: str, ranges: Int64Array) -> tql.ReadCost | None:
        """Return the cost of reading ranges; None if that requires listing too many rows."""
        if column in self._computed:  # it is not stored
            return tql.ReadCost(0, 0, 0)
        first = self._selection.first_physical
        if first is not None:
            chunks, nbytes = self._reader.index(column).stored(ranges + first)
        elif int((ranges[:, 1] - ranges[:, 0]).sum()) > MATERIALISED_ROWS_MAX:
            return None
        else:
            rows = [np.arange(*each) for each in ranges.tolist()]
            physical = self._selection.physical(np.concatenate([np.zeros(0, np.int64), *rows]))
            keys = self._reader.chunks(column, physical)
            chunks, nbytes = len(keys), sum(key.nbytes for key in keys)
        return tql.ReadCost(chunks, nbytes, 0 if self._reader.store.is_local else chunks)

    def shapes(self, column: str, rows: Int64Array) -> Int64Array:
        """Shapes of samples without decoding; −1 where NULL."""
        if column in self._computed:
            return _shapes_of(self._computed[column].take(rows).batch)
        if isinstance(self._selection.snapshot.spec(column).type, Sequence):
            return _shapes_of(cast("tql.Batch", self.read(column, rows)))
        pieces = [
            self._reader.shapes(column, self._selection.physical(rows[start : start + PIECE_ROWS]))
            for start in range(0, max(len(rows), 1), PIECE_ROWS)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def is_parted(self, column: str) -> bool:
        """Whether samples are stored in parts, of which regions are read."""
        if column in self._computed:
            return False
        spec = self._selection.snapshot.spec(column)
        return not spec.is_virtual and _is_parted(spec.type)

    def region(self, column: str, region: tql.Region, rows: Int64Array) -> tql.Batch:
        """Decode a region of samples from its parts; NULL where a sample lacks an element."""
        sample_type = self._selection.snapshot.spec(column).type
        found: list[npt.NDArray[Any] | None] = []
        for start in range(0, len(rows), REGIONS_TOGETHER):
            samples = self._samples(column, rows[start : start + REGIONS_TOGETHER])
            found += _regions(self._reader, sample_type, samples, region)
        ndim = len(sample_type.shape) - sum(is_whole_number(one) for one in region)
        return batch_of(sample_type, _joined(found, np.empty((0,) * ndim, sample_type.dtype)))

    def distinct(self, column: str, rows: Int64Array) -> tql.RaggedBatch | None:
        """Return the classes of masks from their maps; None where these do not have all."""
        sample_type = self._selection.snapshot.spec(column).type
        if not isinstance(sample_type, TiledSamples):
            return None
        found: list[npt.NDArray[Any] | None] = []
        nothing = np.empty((0,) * len(sample_type.shape), sample_type.dtype)
        for one in self._samples(column, rows):
            if one is None:
                found.append(None)
                continue
            head = sample_type.head_of(one.map, tensor=column, row=one.row)
            if head.classes is None:
                return None
            codes = np.array([*head.classes.classes], nothing.dtype)
            found.append(codes.reshape(-1, *(1,) * (nothing.ndim - 1)))
        joined = _joined(found, nothing)
        return tql.RaggedBatch(joined.values, joined.shapes, joined.valid)

    def _samples(self, column: str, rows: Int64Array) -> List[PartSource | None]:
        return self._reader.samples(column, self._selection.physical(rows))

    def nearest(
        self,
        column: str,
        vector: npt.NDArray[Any],
        metric: tql.Metric,
        count: int,
        rows: Int64Array | None,
    ) -> Int64Array | None:
        """Return rows among which the nearest to a vector likely are; None where no index helps."""
        from tensorlake.dataset.ranking.vectors import nearest_positions

        if column in self._computed or self.view is None:
            return None
        return nearest_positions(self.view, column, vector, metric, count, rows)

    def text_statistics(self, column: str, words: List[str]) -> tql.TextStatistics | None:
        """Return the statistics of all texts that BM25 needs; None where no index helps."""
        from tensorlake.dataset.ranking.texts import words_known

        if column in self._computed or self.view is None:
            return None
        found = words_known(self.view, column, words)
        if found is None:
            return None
        num_texts, num_words, having = found
        return tql.TextStatistics(num_texts, num_words, dict(zip(words, having, strict=True)))

    def best_texts(
        self, column: str, words: List[str], count: int, rows: Int64Array | None
    ) -> Int64Array | None:
        """Return rows among which the first by BM25 are; None where no index helps."""
        from tensorlake.dataset.ranking.texts import best_positions

        if column in self._computed or self.view is None:
            return None
        return best_positions(self.view, column, words, count, rows)

    def row_numbers(self, rows: Int64Array) -> Int64Array:
        """Places of rows in the version."""
        return self._selection.row_numbers(rows)

    def row_ids(self, rows: Int64Array) -> list[str]:
        """Identities of rows."""
        return row_id_texts(self._selection.with_rows(rows))

    def row_sources(self, rows: Int64Array) -> list[str | None]:
        """Items that rows were ingested from."""
        return source_texts(self._selection.with_rows(rows), self._reader)

    def indexes(self, column: str) -> List[tql.ColumnIndex]:
        """Return the indexes of a column; of few chosen rows none, which are read."""
        chosen = self._selection.rows
        if column in self._computed or (chosen is not None and len(chosen) < CHOSEN_ROWS_MIN):
            return ()
        sample_type = self._selection.snapshot.spec(column).type
        to_batch = partial(_source_batch, sample_type)
        return position_indexes(self._reader, self._selection, column, to_batch)

    def statistics(self, column: str) -> tql.ColumnStatistics | None:
        """Bounds of a column for each run of rows stored in one chunk; None where unknown."""
        rows = self._selection.rows
        if column in self._computed or (rows is not None and not _is_long_run(rows)):
            return None
        zones = self._selection.snapshot.zones(column)
        if zones is None:
            return None
        if rows is not None:
            zones = zones.within(int(rows[0]), int(rows[-1]) + 1)
        return tql.ColumnStatistics(
            starts=zones.starts,
            minimum=zones.minimum,
            maximum=zones.maximum,
            null_count=zones.null_count,
            known=zones.known,
            empty=zones.empty,
            has_nan=zones.has_nan,
        )


def _is_long_run(rows: Int64Array) -> bool:
    """Whether rows follow one another, and are more than take as long to read as their bounds."""
    count = len(rows)
    return count >= CHOSEN_ROWS_MIN and bool((rows == np.arange(rows[0], rows[0] + count)).all())


def _stored_schema(
    selection: Selection, added: Mapping[str, tql.ColumnType]
) -> Mapping[str, tql.ColumnType]:
    """Return how a query sees stored columns, and some more; those of a schema are seen once."""
    snapshot = selection.snapshot
    known: Mapping[str, tql.ColumnType] | None = snapshot.kept.get("column types")
    if known is None:
        known = {spec.name: column_type(spec.type) for spec in snapshot.schema.tensors}
        snapshot.kept["column types"] = known
    if not added and selection.columns == snapshot.schema.names:  # none is virtual
        return known
    return {**{name: known[name] for name in selection.columns}, **added}


def _shapes_of(batch: tql.Batch) -> Int64Array:
    assert not isinstance(batch, tql.ObjectBatch), "text and JSON have no shape"
    if isinstance(batch, tql.RaggedBatch):
        shapes = batch.shapes
    else:
        shape = np.array(batch.values.shape[1:], np.int64)
        shapes = np.broadcast_to(shape, (len(batch.values), len(shape)))
    return shapes if batch.valid is None else np.where(batch.valid[:, None], shapes, -1)


def _regions(
    reader: Reader, sample_type: SampleType, samples: List[PartSource | None], region: tql.Region
) -> list[npt.NDArray[Any] | None]:
    """Read the parts of a region of several samples together, and decode each."""
    asked = [
        (one, sample_type.wanted_parts(one.map, region, tensor=one.tensor, row=one.row))
        for one in samples
        if one is not None and _has(one, region)
    ]
    read = iter(zip(asked, reader.read_parts(asked), strict=True))
    found: list[npt.NDArray[Any] | None] = []
    for one in samples:
        if one is None or not _has(one, region):
            found.append(None)
            continue
        _, parts = next(read)
        decoded = sample_type.decode_parts(
            SampleParts(one.map, parts, one.each), region, tensor=one.tensor, row=one.row
        )
        found.append(np.asarray(decoded))
    return found


def _has(sample: PartSource, region: tql.Region) -> bool:
    """Whether a sample has the elements that the integers of a region choose."""
    assert sample.shape is not None, "shapes of samples in parts are recorded"
    at = region.index(...) if ... in region else len(region)
    after = region[at + 1 :]
    sides = (*zip(region[:at], sample.shape, strict=False),)
    sides += (*zip(after, sample.shape[len(sample.shape) - len(after) :], strict=True),)
    return all(-n <= one < n for one, n in sides if is_whole_number(one))


def _joined(arrays: List[npt.NDArray[Any] | None], nothing: npt.NDArray[Any]) -> RaggedColumn:
    """Join arrays of one dtype; None is NULL."""
    valid = np.array([one is not None for one in arrays], np.bool_)
    known = [nothing if one is None else one for one in arrays]
    shapes = np.array([one.shape for one in known], np.int64).reshape(len(known), nothing.ndim)
    values = np.concatenate([np.zeros(0, nothing.dtype), *(one.reshape(-1) for one in known)])
    return RaggedColumn(values, shapes, None if valid.all() else valid)


def _source_batch(sample_type: SampleType, column: Column) -> tql.SourceBatch:
    """Hand a column to a query; texts that are stored end to end as they are."""
    if _is_array(sample_type) and isinstance(column, EncodedColumn):  # as lists are stored
        items, counts = sample_type.uniform_items(column)
        inner = np.broadcast_to(np.array(items.shape[1:], np.int64), (len(counts), items.ndim - 1))
        shapes = np.column_stack((counts, inner))
        return batch_of(sample_type.item, RaggedColumn(items.reshape(-1), shapes, column.valid))
    samples = column.samples if isinstance(column, EncodedColumn) else None
    if isinstance(sample_type, Text) and isinstance(samples, PackedSamples):
        content = np.frombuffer(samples.content, np.uint8)
        return tql.TextBatch(content, samples.offsets, column.valid)
    return batch_of(sample_type, column)


def batch_of(sample_type: SampleType, column: Column) -> tql.Batch:
    """Hand a column to the engine, copying nothing but text, JSON and floats unknown to it."""
    match widened_column(column):
        case UniformColumn(values=values, valid=valid):
            return tql.UniformBatch(values, valid)
        case RaggedColumn(values=values, shapes=shapes, valid=valid):
            return tql.RaggedBatch(values, shapes, valid)
        case EncodedColumn() as column:
            valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
            samples = column.samples
            pairs = zip(samples, valid.tolist(), strict=True)
            return tql.ObjectBatch(
                [sample_type.query_sample(bytes(one)) if known else None for one, known in pairs],
                sum(map(len, samples)) if sample_type.query_kind == "json" else None,
            )
