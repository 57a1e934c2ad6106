"""``GET …/statistics/{tensor}``: class counts, and histograms of values, shapes and lengths.

The measures are TQL (stats/histogram_queries.py), evaluated by the query engine over a version
or a query's result, so that statistics and filters cannot disagree. How many rows are looked at
follows from what is stored (stats/row_budget.py); each part of the response reports their number.
Shapes are read from headers of chunks, no sample with them.

The work takes a place among the queries that run at once, ends when its client goes, and fails when
it takes longer than a query may.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

import tensorlake_query as tql
from tensorlake.dataset import QueryLimits, query_inside, rowset_of
from tensorlake.errors import QueryLimitError
from tensorlake.types import ClassLabel, SegmentMask, Tags, Text, Timestamp
from tensorlake_server.bodies.columns import check_names, column_type
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.messages.messages import ClassCounts, Histogram, Statistics
from tensorlake_server.request.context import DatasetPath, TensorPath, lake_of
from tensorlake_server.request.deadline import run_query_for
from tensorlake_server.stats.class_counts import count_codes, count_words, row_of_values
from tensorlake_server.stats.histogram_queries import Measure, list_measures
from tensorlake_server.stats.histograms import count_bars, tally_values
from tensorlake_server.stats.row_budget import (
    Stored,
    affordable_rows,
    iter_spread,
    measure_stored,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tensorlake.dataset import View
    from tensorlake.types import SampleType
    from tensorlake_server.lake.lake import Readable

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["rows"])

LAYOUT = 2  # part of the ETag: raise it when the answer means something else
MAX_ELEMENTS = 4_000_000  # of arrays, in one histogram: 32 MB
MAX_CODES = 40_000_000  # labels, or pixels of masks
ROWS_AT_ONCE = 65_536
ELEMENTS_AT_ONCE = 4_000_000
TASTED_ROWS = 1024  # are asked how many elements they have
VALUE = "value"


@router.get("/{name}/statistics/{tensor}", response_model=Statistics)
async def read_statistics(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    version: Annotated[str | None, Query(description="main when left out")] = None,
    view: Annotated[str | None, Query(description="id of a query's result")] = None,
) -> Response:
    """Count the values of one tensor, and their shapes, over a version or a query's result."""
    return await run_query_for(request, partial(_answer, request, name, tensor, version, view))


def _answer(
    request: Request,
    name: str,
    tensor: str,
    version: str | None,
    view: str | None,
    limits: QueryLimits,
) -> Response:
    readable = lake_of(request).readable(name, version=version, view=view)
    check_names(readable, [tensor])
    digest = rowset_of(readable).selection.snapshot.digest
    etag = etag_of("statistics", LAYOUT, name, digest, view, tensor)
    headers = cache_headers(version if view is None else None, etag)
    known = not_modified(request, headers)
    if known is not None:
        return known
    body = _Counting(readable, tensor, limits).statistics().model_dump_json()
    return Response(body, 200, headers, "application/json")


@dataclass(frozen=True, slots=True)
class _Counting:
    """One tensor of some rows, and how long counting may take."""

    readable: Readable
    tensor: str
    limits: QueryLimits
    started: float = field(default_factory=time.monotonic)

    def statistics(self) -> Statistics:
        kind = column_type(self.readable, self.tensor)
        stored = measure_stored(self.readable, self.tensor)
        column = tql.print_name(self.tensor)
        is_array = kind.dtype is not None and bool(kind.shape)
        weight = self._mean_size(column) if is_array else 1
        measures = list_measures(self.tensor, kind)
        histograms: list[Histogram] = []
        is_empty: npt.NDArray[np.bool_] | None = None
        counted = affordable_rows(stored, reads_samples=not is_array)
        for measure in measures:
            histogram, values = self._measure(measure, kind, stored, weight)
            histograms.append(histogram)
            if measure.is_size:
                is_zero = values == 0
                is_empty = is_zero if is_empty is None else is_empty | is_zero
        return Statistics(
            tensor=self.tensor,
            rows=stored.rows,
            counted=counted,
            nulls=self._nulls(column, counted),
            empty=None if is_empty is None else int(np.count_nonzero(is_empty)),
            classes=self._classes(kind, column, stored, weight),
            histograms=histograms,
        )

    def _measure(
        self, measure: Measure, kind: SampleType, stored: Stored, weight: int
    ) -> tuple[Histogram, npt.NDArray[Any]]:
        is_heavy = measure.reads == "samples"
        most = MAX_ELEMENTS // weight if is_heavy and weight > 1 else stored.rows
        counted = affordable_rows(stored, reads_samples=is_heavy, most=most)
        flat = [
            row_of_values(batch)[1]
            for batch in self._batches(
                measure.expression, counted, is_heavy=weight > 1 and is_heavy
            )
            if not isinstance(batch, tql.ObjectBatch)
        ]
        values = np.concatenate(flat) if flat else np.empty(0, dtype=np.int64)
        tally = tally_values(values)
        unit = kind.unit if isinstance(kind, Timestamp) else None
        bars = count_bars(tally.finite, time_unit=unit)
        histogram = Histogram(
            title=measure.title,
            expression=measure.expression,
            per=measure.per,
            is_whole=values.dtype.kind in "iu" and unit is None,
            is_rising=bars.is_rising,
            counted=counted,
            values=len(values),
            nans=tally.nans,
            infinities=tally.infinities,
            minimum=bars.minimum,
            maximum=bars.maximum,
            mean=None if unit else tally.mean,
            edges=bars.edges,
            bounds=bars.bounds,
            counts=bars.counts,
        )
        return histogram, values

    def _classes(
        self, kind: SampleType, column: str, stored: Stored, weight: int
    ) -> ClassCounts | None:
        names = _names_of(kind)
        if names is None and not isinstance(kind, Text | Tags):
            return None
        counted = affordable_rows(stored, reads_samples=True, most=MAX_CODES // weight)
        batches = self._batches(column, counted, is_heavy=weight > 1)
        if names is None:
            texts = (batch for batch in batches if isinstance(batch, tql.ObjectBatch))
            return count_words(texts, counted)
        codes = (batch for batch in batches if not isinstance(batch, tql.ObjectBatch))
        return count_codes(codes, names, counted)

    def _nulls(self, column: str, counted: int) -> int:
        batches = self._batches(f"{column} IS NULL", counted)
        return sum(
            int(np.count_nonzero(batch.values))
            for batch in batches
            if isinstance(batch, tql.UniformBatch)
        )

    def _mean_size(self, column: str) -> int:
        """How many elements a row has, by some of them; at least 1."""
        tasted = min(len(self.readable), TASTED_ROWS)
        batches = self._batches(f"SIZE({column})", tasted)
        sizes = [row_of_values(one)[1] for one in batches if isinstance(one, tql.UniformBatch)]
        found = np.concatenate([np.ones(1), *sizes])
        return max(1, math.ceil(found.mean()))

    def _batches(
        self, expression: str, counted: int, *, is_heavy: bool = False
    ) -> Iterator[tql.Batch]:
        """Evaluate an expression over rows that are spread over all, as many at once as fit."""
        if counted == 0:
            return
        values = self._evaluated(expression)
        sizes = self._evaluated(f"SIZE({tql.print_name(self.tensor)})") if is_heavy else None
        for positions in iter_spread(len(self.readable), counted, at_once=ROWS_AT_ONCE):
            parts = [positions] if sizes is None else _parts(positions, _taken(sizes, positions))
            for part in parts:
                self._check_wanted()
                yield _taken(values, part)

    def _evaluated(self, expression: str) -> View:
        select = f"SELECT {expression} AS {VALUE}"
        return query_inside(self.readable, select, {}, self.limits)

    def _check_wanted(self) -> None:
        limits = self.limits
        taken = time.monotonic() - self.started
        if limits.timeout_s is not None and taken > limits.timeout_s:
            raise QueryLimitError(
                f"statistics of {self.tensor!r} were not counted within {limits.timeout_s:g} s"
                "\nask for fewer rows: those of a query"
            )
        if limits.cancelled is not None and limits.cancelled():
            raise QueryLimitError(
                f"request cancelled by client: statistics of {self.tensor!r}\nsend it again"
            )


def _taken(view: View, positions: npt.NDArray[np.int64]) -> tql.Batch:
    return rowset_of(view).computed[VALUE].take(positions).batch


def _parts(positions: npt.NDArray[np.int64], sizes: tql.Batch) -> list[npt.NDArray[np.int64]]:
    """Part rows so that the elements of each part fit into memory."""
    assert isinstance(sizes, tql.UniformBatch), "one size a row"
    ends = np.cumsum(np.maximum(sizes.values, 0))
    cuts = np.searchsorted(ends, np.arange(ELEMENTS_AT_ONCE, int(ends[-1]), ELEMENTS_AT_ONCE))
    return [part for part in np.split(positions, np.unique(cuts)) if len(part)]


def _names_of(kind: SampleType) -> tuple[str, ...] | None:
    if isinstance(kind, ClassLabel | SegmentMask):
        return tuple(kind.names)
    return (
        ("false", "true")
        if kind.drawn_as in {"bool", "array"} and kind.query_kind == "bool"
        else None
    )
