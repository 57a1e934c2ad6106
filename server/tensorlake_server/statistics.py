"""``GET …/statistics/{tensor}``: class counts, and histograms of numbers and picture widths.

Counted over the rows that a request shows, the first MAX_ROWS of them; the answer says how many
that were, so that a part is never taken for the whole. No sample is decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from tensorlake.types import (
    ClassLabel,
    Column,
    EncodedColumn,
    RaggedColumn,
    SegmentMask,
    UniformColumn,
    null_count,
)
from tensorlake_server.caching import cache_headers, etag_of, not_modified
from tensorlake_server.columns import check_names, column_type, read_column
from tensorlake_server.messages import ClassCount, Histogram, Statistics
from tensorlake_server.request import DatasetPath, TensorPath, lake_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tensorlake_server.lake import Readable

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["rows"])

MAX_ROWS = 1_000_000  # 8 MB of labels; about half a second
MAX_MASKS = 128  # pixels of these: 40 million of 640 × 480
ROWS_AT_ONCE = 65_536
BINS = 20


@router.get("/{name}/statistics/{tensor}", response_model=Statistics)
def read_statistics(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    version: Annotated[str | None, Query(description="main when left out")] = None,
    view: Annotated[str | None, Query(description="id of a query's result")] = None,
) -> Response:
    """Count the values of one tensor over a version, or over a query's result."""
    readable = lake_of(request).readable(name, version=version, view=view)
    check_names(readable, [tensor])
    digest = readable.selection().snapshot.digest
    etag = etag_of("statistics", name, digest, view, tensor)
    headers = cache_headers(version if view is None else None, etag)
    known = not_modified(request, headers)
    if known is not None:
        return known
    body = count_values(readable, tensor).model_dump_json()
    return Response(body, 200, headers, "application/json")


def count_values(readable: Readable, tensor: str) -> Statistics:
    """Count one tensor's values, over the first MAX_ROWS rows."""
    rows = len(readable)
    counted = min(rows, MAX_ROWS)
    kind = column_type(readable, tensor)
    blank = Statistics(tensor=tensor, rows=rows, counted=counted, values=counted, nulls=0)
    if isinstance(kind, ClassLabel):
        return _count_classes(readable, kind, blank)
    if isinstance(kind, SegmentMask):
        counted = min(rows, MAX_MASKS)
        return _count_classes(readable, kind, blank.model_copy(update={"counted": counted}))
    if kind.drawn_as == "image":
        widths = _picture_widths(readable, tensor, counted)
        return _measure(widths, f"width of {tensor}", blank)
    if kind.drawn_as == "scalar":
        numbers = [_valid_numbers(column) for column in _columns(readable, tensor, counted)]
        return _measure(np.concatenate(numbers) if numbers else np.empty(0), tensor, blank)
    return blank


def _count_classes(
    readable: Readable, kind: ClassLabel | SegmentMask, blank: Statistics
) -> Statistics:
    counts = np.zeros(len(kind.names), dtype=np.int64)
    nulls = 0
    for column in _columns(readable, blank.tensor, blank.counted):
        nulls += null_count(column)
        codes = _codes(column)
        counts += np.bincount(codes, minlength=len(counts))[: len(counts)]
    classes = [
        ClassCount(code=code, name=name, count=count)
        for code, (name, count) in enumerate(zip(kind.names, counts.tolist(), strict=True))
        if name  # a class that was dropped has none
    ]
    return blank.model_copy(
        update={"values": int(counts.sum()), "nulls": nulls, "classes": classes}
    )


def _codes(column: Column) -> npt.NDArray[np.int64]:
    match column:
        case RaggedColumn():
            return column.values
        case UniformColumn():
            return column.values if column.valid is None else column.values[column.valid]
        case EncodedColumn():
            raise AssertionError("class labels are stored as numbers")


def _valid_numbers(column: Column) -> npt.NDArray[np.float64]:
    assert isinstance(column, UniformColumn)
    values = column.values if column.valid is None else column.values[column.valid]
    return values.astype(np.float64)


def _picture_widths(readable: Readable, tensor: str, counted: int) -> npt.NDArray[np.float64]:
    selection, reader = readable.selection(), readable.reader()
    widths = [
        reader.shapes(tensor, selection.physical(positions))[:, 1]
        for positions in _batches(counted)
    ]
    joined = np.concatenate(widths) if widths else np.empty(0, dtype=np.int64)
    return joined[joined > 0].astype(np.float64)


def _measure(values: npt.NDArray[np.float64], title: str, blank: Statistics) -> Statistics:
    finite = values[np.isfinite(values)]
    histogram = None
    if len(finite) and finite.min() < finite.max():
        counts, edges = np.histogram(finite, bins=BINS)
        histogram = Histogram(title=title, edges=edges.tolist(), counts=counts.tolist())
    nulls = blank.counted - len(values)
    return blank.model_copy(update={"values": len(values), "nulls": nulls, "histogram": histogram})


def _columns(readable: Readable, tensor: str, counted: int) -> Iterator[Column]:
    for positions in _batches(counted):
        yield read_column(readable, tensor, positions).column


def _batches(counted: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, counted, ROWS_AT_ONCE):
        yield np.arange(start, min(counted, start + ROWS_AT_ONCE), dtype=np.int64)
