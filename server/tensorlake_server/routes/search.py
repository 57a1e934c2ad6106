"""``POST …/search``: the rows nearest to a vector, to a row's own vector, or that match words best.

Beside it: rows whose labels predictions contradict, and rows that appear twice.

It is ``ds.search``, run beside the data, of one query or several. The page has the rows in their
order, with ``_score``; a condition reaches no other dataset, and no function of this process.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from fastapi import APIRouter, Query, Request, Response

from tensorlake.dataset import View, duplicates_of, label_issues_of, rowset_of, search_inside
from tensorlake_server.bodies.columns import check_names, column_names
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.messages.search import Duplicates, LabelIssues, SearchRequest, SearchResult
from tensorlake_server.request.context import DatasetPath, TensorPath, lake_of, settings_of
from tensorlake_server.request.deadline import run_query_or_job
from tensorlake_server.routes.rows import costed, make_page

if TYPE_CHECKING:
    from tensorlake.dataset import QueryLimits
    from tensorlake_server.lake.authorized_lake import AllowedLake

__all__ = ["router"]

MAX_FOUND = 10_000  # rows of one answer

Version = Annotated[str | None, Query(description="main when left out")]

router = APIRouter(prefix="/v1/datasets", tags=["query"], route_class=BodyRoute)


@router.post("/{name}/search", response_model=SearchResult)
async def search_rows(request: Request, name: DatasetPath, asked: SearchRequest) -> Response:
    """Rank the rows of one version by nearness to vectors, or by how well texts match words."""
    return await run_query_or_job(request, partial(_search, request, name, asked))


@router.get("/{name}/label-issues/{tensor}", response_model=LabelIssues)
async def find_label_issues(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    pred_probs: Annotated[str, Query(description="a probability for each class")],
    version: Version = None,
) -> LabelIssues | Response:
    """Find rows whose label is likely wrong, by predicted probabilities."""

    def find(limits: QueryLimits) -> LabelIssues:
        del limits  # one pass over two columns
        rows = rowset_of(lake_of(request).open(name, version))
        found, left_out = label_issues_of(rows, tensor, pred_probs)
        first = View(found.take(np.arange(min(len(found), MAX_FOUND))))
        return LabelIssues(
            version=rows.version,
            total=len(found),
            rows=first.rows.tolist(),
            scores=first["issue_score"].tolist(),
            given=np.asarray(first[tensor][:]).tolist(),
            suggested=first["suggested"].tolist(),
            left_out=left_out,
        )

    return await run_query_or_job(request, find)


@router.get("/{name}/duplicates/{tensor}", response_model=Duplicates)
async def find_duplicates(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    threshold: Annotated[
        float | None,
        Query(description="bits of an image's hash, or the least similarity of texts or vectors"),
    ] = None,
    version: Version = None,
) -> Duplicates | Response:
    """Find rows that appear twice, or nearly: the method depends on the type of the tensor."""

    def find(limits: QueryLimits) -> Duplicates:
        rows = rowset_of(lake_of(request).open(name, version))
        found = duplicates_of(rows, tensor, threshold=threshold, limits=limits)
        first = View(found.take(np.arange(min(len(found), MAX_FOUND))))
        return Duplicates(
            version=rows.version,
            total=len(found),
            rows=first.rows.tolist(),
            clusters=first["cluster"].tolist(),
        )

    return await run_query_or_job(request, find)


def _search(request: Request, name: str, asked: SearchRequest, limits: QueryLimits) -> Response:
    lake = lake_of(request)
    rows = lake.rows(name, asked, limits)
    hybrid = None if asked.hybrid is None else (asked.hybrid.column, asked.hybrid.query)
    with costed() as cost:
        found = search_inside(
            rows,
            asked.column,
            asked.query if asked.row is None else _own_vector(lake, name, asked),
            asked.k,
            where=asked.where,
            params=asked.params,
            exact=asked.exact,
            hybrid=hybrid,
            recall=asked.recall,
            limits=limits,
        )
    names = column_names(found)
    if asked.columns is not None:
        check_names(found, asked.columns)
        names = asked.columns
    body = {
        "version": found.version,
        "rows": found.rows.tolist(),
        "scores": found["_score"].tolist(),
        "queries": _computed(found, "_query"),
        "ranks": _computed(found, "_rank"),
        "hybrid_ranks": _computed(found, "_hybrid_rank"),
        "explanation": str(rowset_of(found).explanation),
        "cost": cost,
        "page": make_page(
            found,
            None,
            0,
            asked.limit,
            names,
            settings_of(request).max_page_nbytes,
            shown=request.app.state.shown,
        ),
    }
    headers = {"Cache-Control": "private, no-store"}
    return Response(msgspec.json.encode(body), 200, headers, "application/json")


def _own_vector(lake: AllowedLake, name: str, asked: SearchRequest) -> Any:
    """Read the sample of a row in a column; a missing column or row is an error with its name."""
    assert asked.row is not None, "checked by the caller"
    return lake.open(name, asked.version)[asked.row][asked.column]


def _computed(found: View, name: str) -> list[int | None] | None:
    """Return the integers of a computed column, None for NULL; None where it is missing."""
    if name not in rowset_of(found).computed:
        return None
    return [None if one is None else int(one) for one in found[name]]
