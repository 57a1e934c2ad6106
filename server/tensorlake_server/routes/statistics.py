"""``GET …/statistics/{tensor}``: class counts, and histograms of values, shapes and lengths.

``GET …/statistics/{tensor}/by/{other}``: rows by the values of two tensors.

The measures are TQL (stats/histogram_queries.py), evaluated by the query engine over a version
or a query's result, so that statistics and filters cannot disagree. How many rows are looked at
follows from what is stored (stats/row_budget.py); each part of the response reports their number.
Shapes are read from headers of chunks, no sample with them.

The work takes a place among the queries that run at once, ends when its client goes, and fails when
it takes longer than a query may.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from tensorlake.dataset import QueryLimits, rowset_of
from tensorlake_server.bodies.columns import check_names
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.messages.messages import Statistics
from tensorlake_server.messages.pairs import PairStatistics
from tensorlake_server.request.context import DatasetPath, NamePath, TensorPath, lake_of
from tensorlake_server.request.deadline import run_query_or_job
from tensorlake_server.stats.counting import CountedTensor
from tensorlake_server.stats.pairs import count_pairs
from tensorlake_server.stats.sampled_rows import SampledRows

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["rows"])

LAYOUT = 2  # part of the ETag: raise it when the answer means something else
Version = Annotated[str | None, Query(description="main when left out")]
View = Annotated[str | None, Query(description="id of a query's result")]


@router.get("/{name}/statistics/{tensor}", response_model=Statistics)
async def read_statistics(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    version: Version = None,
    view: View = None,
) -> Response:
    """Count the values of one tensor, and their shapes, over a version or a query's result."""
    return await run_query_or_job(request, partial(_answer, request, name, [tensor], version, view))


@router.get("/{name}/statistics/{tensor}/by/{other}", response_model=PairStatistics)
async def read_pair_statistics(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    other: NamePath,
    version: Version = None,
    view: View = None,
) -> Response:
    """Count rows by the values of two tensors: classes, or bars of a histogram, of each."""
    tensors = [tensor, other]
    return await run_query_or_job(request, partial(_answer, request, name, tensors, version, view))


def _answer(
    request: Request,
    name: str,
    tensors: list[str],
    version: str | None,
    view: str | None,
    limits: QueryLimits,
) -> Response:
    readable = lake_of(request).readable(name, version=version, view=view)
    check_names(readable, tensors)
    digest = rowset_of(readable).selection.snapshot.digest
    etag = etag_of("statistics", LAYOUT, name, digest, view, *tensors)
    headers = cache_headers(version if view is None else None, etag)
    known = not_modified(request, headers)
    if known is not None:
        return known
    rows = SampledRows(readable, " by ".join(map(repr, tensors)), limits)
    counted = [CountedTensor.of(rows, tensor) for tensor in tensors]
    found: BaseModel = counted[0].statistics() if len(counted) == 1 else count_pairs(*counted)
    return Response(found.model_dump_json(), 200, headers, "application/json")
