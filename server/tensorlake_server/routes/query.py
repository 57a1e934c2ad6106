"""``POST …/query``: a TQL query, run beside the data; its response names the result permanently.

``/query/explain`` returns its plan, or its error, and ``/query/complete`` its
completions: an editor requests both while a query is typed. Neither reads a sample.

``POST …/selection`` returns which rows a query selects, all of them, or the values of its groups:
the request of ``ds.query`` over ``http://``. The response is NumPy's .npz, and nothing in it needs
pickle. ``rows`` are numbers in the version; where a query selects no rows, ``0.values`` and so on
are the columns that ``said`` names. ``said`` is JSON: ``names``, and the query's ``cost``.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from tensorlake.dataset import (
    complete_inside,
    explain_inside,
    found_inside,
    query_inside,
    rowset_of,
)
from tensorlake.errors import InvalidInputError
from tensorlake_server.auth.view_token import ViewQuery, write_token
from tensorlake_server.bodies.arrow import NPZ_TYPE
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.messages.messages import (
    CompletionRequest,
    Completions,
    ExplainRequest,
    Explanation,
    Offer,
    QueryRequest,
    QueryResult,
)
from tensorlake_server.messages.row_request import AskedRows
from tensorlake_server.request.context import DatasetPath, lake_of, settings_of
from tensorlake_server.request.deadline import run_query_or_job
from tensorlake_server.routes.rows import costed, write_result

if TYPE_CHECKING:
    from tensorlake.dataset import QueryLimits, View
    from tensorlake_server.lake.authorized_lake import AllowedLake
    from tensorlake_server.routes.rows import QueryCost

__all__ = ["router"]

MAX_OFFERS = 200  # more than anybody scrolls through; another letter narrows them
TAKEN_NAMES = frozenset({"self", "tql"})  # of query()'s own arguments

router = APIRouter(prefix="/v1/datasets", tags=["query"], route_class=BodyRoute)


@router.post("/{name}/query", response_model=QueryResult)
async def run_query(request: Request, name: DatasetPath, asked: QueryRequest) -> Response:
    """Run a query over one version, or select rows of it: their count, columns, first page."""
    if asked.rows is not None:
        work = partial(_select, request, name, asked, _unpacked(asked.rows))
        return await run_query_or_job(request, work)
    return await run_query_or_job(request, partial(_run, request, name, asked, asked.tql or ""))


@router.get("/{name}/query", response_model=QueryResult)
async def open_result(
    request: Request,
    name: DatasetPath,
    view: Annotated[str, Query(description="id of a query's result")],
    limit: Annotated[int, Query(ge=0, le=1000)] = 64,
) -> Response:
    """Open the result of a query again, or of selected rows, by its id."""
    return await run_query_or_job(request, partial(_open, request, name, view, limit))


@router.post(
    "/{name}/selection", response_class=Response, responses={200: {"content": {NPZ_TYPE: {}}}}
)
async def select_rows(request: Request, name: DatasetPath, asked: AskedRows) -> Response:
    """Return which rows queries select, or the values of their groups, as .npz."""
    return await run_query_or_job(request, partial(_found, lake_of(request), name, asked))


def _found(lake: AllowedLake, name: str, asked: AskedRows, limits: QueryLimits) -> Response:
    with costed() as cost:
        view = lake.rows(name, asked, limits)
        found_inside(view, {})  # groups are computed when they are read
    body = found_inside(view, {"cost": asdict(cost)})
    return Response(body, 200, {"Cache-Control": "private, no-store"}, NPZ_TYPE)


def _open(request: Request, name: str, token: str, limit: int, _limits: QueryLimits) -> Response:
    lake = lake_of(request)
    with costed() as cost:
        query, view = lake.view(name, token)
    return _result(request, view, token, query.tql, cost, limit)


def _select(
    request: Request, name: str, asked: QueryRequest, runs: bytes, _limits: QueryLimits
) -> Response:
    lake = lake_of(request)
    with costed() as cost:
        query, view = lake.select(name, asked.version, runs)
    token = write_token(query, key=settings_of(request).signing_key)
    lake.keep_view(token, view)
    return _result(request, view, token, query.tql, cost, asked.limit, asked.columns)


def _run(
    request: Request, name: str, asked: QueryRequest, text: str, limits: QueryLimits
) -> Response:
    lake = lake_of(request)
    dataset = lake.open(name, asked.version)
    _check_params(asked)
    with costed() as cost:
        view = query_inside(dataset, text, asked.params, limits)
    query = ViewQuery(
        dataset=name,
        version=dataset.version,
        digest=rowset_of(dataset).selection.snapshot.digest,
        tql=view.tql or text,  # the text with its seed: evaluated again it gives the same
        params=asked.params,
    )
    token = write_token(query, key=settings_of(request).signing_key)
    lake.keep_view(token, view)
    return _result(request, view, token, query.tql, cost, asked.limit, asked.columns)


def _result(
    request: Request,
    view: View,
    token: str,
    text: str,
    cost: QueryCost,
    limit: int,
    columns: list[str] | None = None,
) -> Response:
    return write_result(
        view,
        token,
        text=text,
        cost=cost,
        limit=limit,
        columns=columns,
        most_nbytes=settings_of(request).max_page_nbytes,
        shown=request.app.state.shown,
    )


@router.post("/{name}/query/explain", response_model=Explanation)
def explain_query(
    request: Request, response: Response, name: DatasetPath, asked: ExplainRequest
) -> Explanation:
    """Return the plan of a query; an invalid query is an error with its place."""
    dataset = lake_of(request).open(name, asked.version)
    _check_params(asked)
    response.headers["Cache-Control"] = "private, no-store"
    return Explanation(plan=explain_inside(dataset, asked.tql, asked.params))


@router.post("/{name}/query/complete", response_model=Completions)
def complete_query(
    request: Request, response: Response, name: DatasetPath, asked: CompletionRequest
) -> Completions:
    """Describe what the word before the cursor could become."""
    dataset = lake_of(request).open(name, asked.version)
    offers = complete_inside(dataset, asked.tql, asked.cursor)[:MAX_OFFERS]
    response.headers["Cache-Control"] = "private, no-store"
    return Completions(
        offers=[Offer(text=one.text, kind=one.kind, detail=one.detail) for one in offers]
    )


def _unpacked(rows: str) -> bytes:
    try:
        return base64.b64decode(rows, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError(
            f"rows is not base64: {error}\nsee docs/reference/rest.md: Selected rows"
        ) from error


def _check_params(asked: QueryRequest | ExplainRequest) -> None:
    """Refuse parameters that a query cannot have, or that its result's id could not hold.

    Raises:
        InvalidInputError: One is such.
    """
    for name in asked.params:
        if not name.isidentifier() or name in TAKEN_NAMES:
            raise InvalidInputError(
                f"{name!r} cannot be the name of a parameter"
                "\nuse another word, made of letters, digits and _",
                actual=name,
            )
        if not _is_json(asked.params[name]):
            raise InvalidInputError(
                f"the parameter {name!r} holds what no JSON does: NaN, an infinity or half a"
                " character\ngive another value, or write it into the query's text",
                parameter=name,
            )


def _is_json(value: Any) -> bool:
    """Whether a value is read back as it was written; Python's reader takes more than JSON."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value)) == value
    except UnicodeEncodeError:
        return False
