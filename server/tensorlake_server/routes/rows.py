"""``GET …/rows``: a page of rows, as JSON, as an Arrow stream, or as .npz, by ``Accept``.

Results of queries begin with such a page, too.

A page has ``limit`` rows, or fewer where their samples are many bytes (bodies/page_size.py);
whatever its form, ``Link`` points to the next one.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from fastapi import APIRouter, Query, Request, Response

from tensorlake.dataset import rowset_of
from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.storage import counted
from tensorlake_server.bodies.arrow import ARROW_TYPE, NPZ_TYPE, write_arrow, write_npz
from tensorlake_server.bodies.cells import error_cell, handle_cells, make_cells
from tensorlake_server.bodies.columns import (
    IDENTITY,
    HandleColumn,
    check_names,
    column_names,
    list_tensors,
    page_positions,
    read_identity,
    read_rows,
)
from tensorlake_server.bodies.page_size import JSON_WEIGHT, join_parts, read_parts
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.http.chunked_body import PartsResponse
from tensorlake_server.http.negotiation import choose_type
from tensorlake_server.messages.messages import RowsPage
from tensorlake_server.request.context import DatasetPath, lake_of, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from tensorlake.dataset import View
    from tensorlake_server.bodies.columns import TypedColumn
    from tensorlake_server.bodies.page_size import Part
    from tensorlake_server.lake.lake import Readable

__all__ = ["QueryCost", "costed", "make_page", "router", "write_result"]

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
    columns: Annotated[
        str | None,
        Query(
            description="names, by commas; all if left out; `_row`, `_row_id` and `_source` may be"
            " among them"
        ),
    ] = None,
) -> Response:
    """Read rows by position in the version, or in a query's result."""
    settings = settings_of(request)
    most, most_nbytes = settings.max_page_rows, settings.max_page_nbytes
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
    digest = rowset_of(readable).selection.snapshot.digest
    etag = etag_of("rows", name, digest, view, offset, limit, names, media_type, most_nbytes)
    headers = cache_headers(version if view is None else None, etag)
    known = not_modified(request, headers)
    if known is not None:
        return known
    if media_type == JSON_TYPE:
        page = make_page(
            readable, view, offset, limit, names, most_nbytes, shown=request.app.state.shown
        )
        return Response(
            msgspec.json.encode(page), 200, headers | _link(request, page["next"]), media_type
        )
    positions = page_positions(readable, offset, limit)
    parts = read_parts(readable, _without_identity(names), positions, most_nbytes)
    headers |= _link(request, _next(readable, parts))
    written = WRITERS[media_type](_columns_of(readable, names, parts))
    return PartsResponse(written, headers, media_type)


def make_page(
    readable: Readable,
    view: str | None,
    offset: int,
    limit: int,
    names: Sequence[str],
    most_nbytes: int,
    *,
    shown: Callable[[str], str],
) -> dict[str, Any]:
    """Read a page as JSON has it: see `RowsPage`; it ends before its samples are too many bytes.

    Errors of single cells are written by `shown`, without places that clients need not know.
    """
    positions = page_positions(readable, offset, limit)
    parts = read_parts(
        readable,
        _without_identity(names),
        positions,
        most_nbytes,
        weight=JSON_WEIGHT,
        as_cells=True,
    )
    rows = [row for part in parts for row in _rows_of(readable, part, shown=shown)]
    return {
        "version": readable.version,
        "view": view,
        "offset": offset,
        "total": len(readable),
        "next": _next(readable, parts),
        "rows": rows,
    }


@dataclass(slots=True)
class QueryCost:
    """The cost of a query: seconds, bytes of packs, requests to the store."""

    seconds: float = 0.0
    nbytes: int = 0
    requests: int = 0


@contextmanager
def costed() -> Generator[QueryCost]:
    """Measure what the body takes; known when it has ended."""
    cost = QueryCost()
    started = time.perf_counter()
    with counted() as tally:
        yield cost
    cost.seconds = time.perf_counter() - started
    cost.nbytes, cost.requests = tally.nbytes, tally.requests


def write_result(
    view: View,
    token: str,
    *,
    text: str,
    cost: QueryCost,
    limit: int,
    columns: list[str] | None,
    most_nbytes: int,
    shown: Callable[[str], str],
) -> Response:
    """Write a result: its id, its columns, how many rows, and the first page of them."""
    names = column_names(view)
    if columns is not None:
        check_names(view, columns)
        names = columns
    body = {
        "view": token,
        "version": view.version,
        "tql": text,
        "tensors": [tensor.model_dump() for tensor in list_tensors(view)],
        "rows": len(view),
        "is_computed": not rowset_of(view).has_rows,
        "cost": cost,
        "page": make_page(view, token, 0, limit, names, most_nbytes, shown=shown),
    }
    headers = {"Cache-Control": "private, no-store"}
    return Response(msgspec.json.encode(body), 200, headers, "application/json")


def _rows_of(
    readable: Readable, part: Part, *, shown: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Write rows as JSON; damage is reported in its cells, the rest is shown."""
    rows = read_rows(readable, part.positions)
    for name, read in part.columns.items():
        if isinstance(read, CorruptionError):
            cells = [error_cell(shown(str(read)))] * len(rows)
        elif isinstance(read, HandleColumn):
            cells = handle_cells(read.type, read.handles, shown=shown)
        else:
            cells = make_cells(read.type, read.column)
        for row, cell in zip(rows, cells, strict=True):
            row[name] = cell
    return rows


def _columns_of(
    readable: Readable, names: Sequence[str], parts: Sequence[Part]
) -> dict[str, TypedColumn]:
    """Put the columns of a page together, in the order they were asked for."""
    columns = join_parts(parts)
    if any(name in IDENTITY for name in names):
        positions = np.concatenate([part.positions for part in parts])
        columns |= read_identity(readable, positions)
    return {name: columns[name] for name in names}


def _without_identity(names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in IDENTITY]


def _next(readable: Readable, parts: Sequence[Part]) -> int | None:
    """Where the next page begins; None at the end, and behind a page of no rows."""
    last = parts[-1].positions[-1:].tolist()
    stop = last[0] + 1 if last else len(readable)
    return stop if stop < len(readable) else None


def _link(request: Request, following: int | None) -> dict[str, str]:
    """Return where the next page is, as RFC 8288 has it: what follows the path of this one."""
    if following is None:
        return {}
    query = request.url.include_query_params(offset=following).query
    return {"Link": f'<?{query}>; rel="next"'}


def _chosen_names(readable: Readable, columns: str | None) -> list[str]:
    """Columns by name; names with a comma in them cannot be asked for one by one."""
    if columns is None:
        return column_names(readable)
    names = [name for name in columns.split(",") if name]
    check_names(readable, _without_identity(names))
    return names
