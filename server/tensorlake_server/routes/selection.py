"""``POST …/selection``: which rows a query selects, all of them, or the values of its groups.

The request of ``ds.query`` over ``http://``: the response is NumPy's .npz, and nothing in it needs
pickle. ``rows`` are numbers in the version; where a query selects no rows, ``0.values`` and so on
are the columns that ``said`` names. ``said`` is JSON: ``names``, and the query's ``cost``.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from tensorlake.dataset import found_inside
from tensorlake_server.bodies.arrow import NPZ_TYPE
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.messages.row_request import AskedRows
from tensorlake_server.request.context import DatasetPath, lake_of
from tensorlake_server.request.deadline import run_query_for
from tensorlake_server.routes.results import costed

if TYPE_CHECKING:
    from tensorlake.dataset import QueryLimits
    from tensorlake_server.lake.authorized_lake import AllowedLake

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["query"], route_class=BodyRoute)


@router.post(
    "/{name}/selection", response_class=Response, responses={200: {"content": {NPZ_TYPE: {}}}}
)
async def select_rows(request: Request, name: DatasetPath, asked: AskedRows) -> Response:
    """Return which rows queries select, or the values of their groups, as .npz."""
    body = await run_query_for(request, partial(_found, lake_of(request), name, asked))
    return Response(body, 200, {"Cache-Control": "private, no-store"}, NPZ_TYPE)


def _found(lake: AllowedLake, name: str, asked: AskedRows, limits: QueryLimits) -> bytes:
    with costed() as cost:
        view = lake.rows(name, asked, limits)
        found_inside(view, {})  # groups are computed when they are read
    return found_inside(view, {"cost": asdict(cost)})
