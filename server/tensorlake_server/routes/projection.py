"""``GET …/projection/{tensor}``: each row's vector as a point of the plane, for a map.

The response is NumPy's .npz: ``xy``, the ``row`` of each point, and ``color``, where it is asked
for, in the order that stats/projection.py gives. Points of a version never change: they are kept in
memory, within a budget, and by clients permanently.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from tensorlake.dataset import rowset_of
from tensorlake.storage import LruCache
from tensorlake_server.bodies.arrow import NPZ_TYPE
from tensorlake_server.bodies.columns import check_names
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.request.context import DatasetPath, TensorPath, hold_more, lake_of
from tensorlake_server.request.deadline import run_query_for
from tensorlake_server.stats.projection import Projection, color_values, project

if TYPE_CHECKING:
    from tensorlake.dataset import QueryLimits

__all__ = ["KEPT_NBYTES", "Projections", "router"]

router = APIRouter(prefix="/v1/datasets", tags=["rows"])

LAYOUT = 1  # part of the ETag: raise it when the answer means something else
KEPT_NBYTES = 64 << 20

Projections = LruCache[tuple[str, str], Projection]


@router.get(
    "/{name}/projection/{tensor}",
    response_class=Response,
    responses={200: {"content": {NPZ_TYPE: {}}}},
)
async def read_projection(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    version: Annotated[str | None, Query(description="main when left out")] = None,
    color: Annotated[
        str | None, Query(description="a class label, number or boolean of each row")
    ] = None,
) -> Response:
    """Project vectors to the plane: .npz of `xy`, `row`, and `color` where it is asked for."""
    return await run_query_for(request, partial(_answer, request, name, tensor, version, color))


def _answer(
    request: Request,
    name: str,
    tensor: str,
    version: str | None,
    color: str | None,
    limits: QueryLimits,
) -> Response:
    dataset = lake_of(request).open(name, version)
    check_names(dataset, [tensor] if color is None else [tensor, color])
    digest = rowset_of(dataset).selection.snapshot.digest
    etag = etag_of("projection", LAYOUT, name, digest, tensor, color)
    headers = cache_headers(version, etag)
    known = not_modified(request, headers)
    if known is not None:
        return known
    kept = cast("Projections", request.app.state.projections)
    points = kept.get((digest, tensor))
    if points is None:
        points = project(dataset, tensor, limits)
        kept.put((digest, tensor), points, points.nbytes)
    arrays: dict[str, Any] = {
        "xy": points.xy,
        "row": points.rows.astype(np.min_scalar_type(int(points.rows.max(initial=0)))),
        "projected": np.array([points.projected], dtype=np.uint32),
    }
    if color is not None:
        arrays["color"] = color_values(dataset, color, points.rows)
    hold_more(request, sum(one.nbytes for one in arrays.values()))
    out = io.BytesIO()
    np.savez(out, **arrays)
    return Response(out.getvalue(), 200, headers, NPZ_TYPE)
