"""Saved views: named rows, listed, opened and saved.

A saved view is opened as a result, with an id like a query's: everything that reads a result reads
it. A saved view is a result too, by its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from tensorlake.dataset import rowset_of, saved_inside
from tensorlake.storage import runtime
from tensorlake.versions import authored_by, list_views
from tensorlake_server.auth.view_token import ViewQuery, write_token
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.messages.messages import (
    QueryResult,
    SavedViewInfo,
    SavedViews,
    SaveViewRequest,
)
from tensorlake_server.request.context import (
    DatasetPath,
    NamePath,
    lake_of,
    note_change,
    settings_of,
)
from tensorlake_server.routes.rows import costed, write_result

if TYPE_CHECKING:
    from tensorlake.versions import SavedView

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["views"], route_class=BodyRoute)


@router.get("/{name}/views", response_model=SavedViews)
def list_saved(request: Request, name: DatasetPath) -> SavedViews:
    """List the saved views."""
    lake = lake_of(request)
    found = runtime.run(list_views(lake.store(name)))
    views = [_describe(found[one]) for one in sorted(found)]
    return SavedViews(views=views, may_save=lake.may_write(name))


@router.post("/{name}/views", response_model=SavedViewInfo, status_code=201)
def save_view(request: Request, name: DatasetPath, asked: SaveViewRequest) -> SavedViewInfo:
    """Give a query's rows a name, for good and for everyone."""
    lake = lake_of(request)
    with authored_by(lake.author):
        view = lake.save_view(name, asked.view, asked.name, asked.message)
    note_change(request, view.version)
    return _describe(runtime.run(list_views(lake.store(name)))[asked.name])


@router.get("/{name}/views/{view}", response_model=QueryResult)
def open_saved(
    request: Request,
    name: DatasetPath,
    view: NamePath,
    limit: Annotated[int, Query(ge=0, le=1000)] = 64,
) -> Response:
    """Open a saved view as a query's result."""
    lake = lake_of(request)
    with costed() as cost:
        opened = saved_inside(lake.open(name), view, settings_of(request).query_limits())
    query = ViewQuery(
        dataset=name,
        version=opened.version,
        digest=rowset_of(opened).selection.snapshot.digest,
        tql=opened.tql or "",
        saved=view,
    )
    token = write_token(query, key=settings_of(request).signing_key)
    lake.keep_view(token, opened)
    return write_result(
        opened,
        token,
        text=query.tql,
        cost=cost,
        limit=limit,
        columns=None,
        most_nbytes=settings_of(request).max_page_nbytes,
        shown=request.app.state.shown,
    )


def _describe(saved: SavedView) -> SavedViewInfo:
    texts = [str(step["tql"]) for step in saved.query or () if "tql" in step]
    return SavedViewInfo(
        name=saved.name,
        version=saved.version,
        rows=saved.rows.rows,
        tql=" → ".join(texts) or None,
        message=saved.message,
        author=saved.author or None,
    )
