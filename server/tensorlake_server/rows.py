"""``GET …/rows``: a page of rows, as JSON, as an Arrow stream, or as .npz, by ``Accept``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from tensorlake.errors import InvalidInputError
from tensorlake_server.arrow import ARROW_TYPE, NPZ_TYPE, write_arrow, write_npz
from tensorlake_server.caching import cache_headers, etag_of, not_modified
from tensorlake_server.columns import (
    check_names,
    column_names,
    page_positions,
    read_cells,
    read_column,
    read_rows,
)
from tensorlake_server.messages import RowsPage
from tensorlake_server.negotiation import choose_type
from tensorlake_server.parts import PartsResponse
from tensorlake_server.request import DatasetPath, lake_of, settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake_server.lake import Readable

__all__ = ["make_page", "router"]

router = APIRouter(prefix="/v1/datasets", tags=["rows"])

JSON_TYPE = "application/json"
WRITERS = {ARROW_TYPE: write_arrow, NPZ_TYPE: write_npz}


@router.get(
    "/{name}/rows",
    response_model=RowsPage,
    responses={200: {"content": {ARROW_TYPE: {}, NPZ_TYPE: {}}}},
)
def read_page(
    request: Request,
    name: DatasetPath,
    version: Annotated[str | None, Query(description="main when left out")] = None,
    view: Annotated[str | None, Query(description="id of a query's result")] = None,
    digest: Annotated[str | None, Query(description="the version must have it")] = None,
    offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    limit: Annotated[int, Query(ge=0)] = 100,
    columns: Annotated[str | None, Query(description="names, by commas; all if left out")] = None,
) -> Response:
    """Read rows by position in the version, or in a query's result."""
    most = settings_of(request).max_page_rows
    if limit > most:
        raise InvalidInputError(
            f"limit={limit} is more than one page has"
            f"\nask for {most} rows at most, then for the next ones",
            expected=most,
            actual=limit,
        )
    readable = lake_of(request).readable(name, version=version, view=view, digest=digest)
    names = _chosen_names(readable, columns)
    media_type = choose_type(request.headers.get("accept", ""), (JSON_TYPE, *WRITERS))
    digest = readable.selection().snapshot.digest
    etag = etag_of("rows", name, digest, view, offset, limit, names, media_type)
    headers = cache_headers(version if view is None else None, etag)
    known = not_modified(request, headers)
    if known is not None:
        return known
    if media_type == JSON_TYPE:
        body = msgspec.json.encode(make_page(readable, view, offset, limit, names))
        return Response(body, 200, headers, media_type)
    positions = page_positions(readable, offset, limit)
    read = {one: read_column(readable, one, positions) for one in names}
    return PartsResponse(WRITERS[media_type](read), headers, media_type)


def make_page(
    readable: Readable, view: str | None, offset: int, limit: int, names: Sequence[str]
) -> dict[str, Any]:
    """Read a page as JSON has it: see `RowsPage`."""
    positions = page_positions(readable, offset, limit)
    rows = read_rows(readable, positions)
    for name in names:
        for row, cell in zip(rows, read_cells(readable, name, positions), strict=True):
            row[name] = cell
    return {
        "version": readable.version,
        "view": view,
        "offset": offset,
        "total": len(readable),
        "rows": rows,
    }


def _chosen_names(readable: Readable, columns: str | None) -> list[str]:
    """Columns by name; names with a comma in them cannot be asked for one by one."""
    if columns is None:
        return column_names(readable)
    names = [name for name in columns.split(",") if name]
    check_names(readable, names)
    return names
