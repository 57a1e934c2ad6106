"""``POST …/exports``: rows as a file of another format, and ``/v1/exports/{id}`` to download it.

The file is written on the server, in the folder of ``--exports``, and is its client's alone. Most
take longer than a client waits: they are meant for ``Prefer: respond-async``.
"""

from __future__ import annotations

import datetime as dt
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response

from tensorlake.dataset import export_inside
from tensorlake.errors import QueryLimitError, shown
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.http.problems import Problem
from tensorlake_server.http.ranges import OpenFile, ranged_response
from tensorlake_server.messages.exports import ExportInfo, ExportRequest
from tensorlake_server.request.context import DatasetPath, caller_of, lake_of
from tensorlake_server.request.deadline import run_query_or_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path as FilePath

    from tensorlake.dataset import QueryLimits
    from tensorlake_server.lake.exports import Export, Exports

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["exports"], route_class=BodyRoute)

ExportId = Annotated[str, Path(max_length=64)]
OCTETS = "application/octet-stream"

FILES = {
    "parquet": ("parquet", "application/vnd.apache.parquet"),
    "csv": ("csv", "text/csv; charset=utf-8"),
    "jsonl": ("jsonl", "application/jsonl"),
    "hdf5": ("h5", "application/x-hdf5"),
}
"""The ending and type of each format that is one file; the others are folders."""


@router.post(
    "/datasets/{name}/exports",
    response_model=ExportInfo,
    status_code=201,
    responses={202: {"description": "a job, with `Prefer: respond-async`"}},
)
async def export_rows(
    request: Request, response: Response, name: DatasetPath, asked: ExportRequest
) -> Any:
    """Write rows to a file of another format, which the client downloads."""
    exports = _exports_of(request)
    lake_of(request).check_readable(name)
    made = await run_query_or_job(request, partial(_export, request, exports, name, asked))
    if isinstance(made, Response):
        return made
    response.headers["Location"] = made.url
    return made


@router.get(
    "/exports/{export}", response_class=Response, responses={200: {"content": {OCTETS: {}}}}
)
def download_export(request: Request, export: ExportId) -> Response:
    """Download an export, or a range of it."""
    found = _find(request, export)
    headers = cache_headers(None, etag_of("export", found.id))  # it never changes, but is removed
    known = not_modified(request, headers)
    if known is not None:
        return known
    headers["Accept-Ranges"] = "bytes"
    headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(found.path.name)}"
    if found.path.name.isascii():  # as every program reads it
        headers["Content-Disposition"] = f'attachment; filename="{found.path.name}"'
    return ranged_response(request, _opened(found.path), headers, found.media_type)


@router.delete("/exports/{export}", status_code=204)
def delete_export(request: Request, export: ExportId) -> Response:
    """Delete an export before it expires."""
    _exports_of(request).remove(_find(request, export))
    return Response(status_code=204)


def _export(
    request: Request, exports: Exports, name: str, asked: ExportRequest, limits: QueryLimits
) -> ExportInfo:
    began_s = time.monotonic()
    view = lake_of(request).rows(name, asked, limits)

    def fill(path: FilePath, check_room: Callable[[], None]) -> None:
        def check() -> None:
            _check_time(limits, began_s)
            check_room()

        export_inside(view, asked.format, path, columns=asked.columns, check=check)

    stem = name.rpartition("/")[2].replace("#", "-")
    ending, media_type = FILES.get(asked.format, (None, "application/zip"))
    file = stem if ending is None else f"{stem}.{ending}"
    made = exports.write(caller_of(request), name, file, media_type, fill)
    return ExportInfo(
        id=made.id,
        url=f"/v1/exports/{made.id}",
        file=made.path.name,
        format=asked.format,
        version=view.version,
        rows=len(view),
        nbytes=made.nbytes,
        expires=dt.datetime.fromtimestamp(made.expires_s, dt.UTC).isoformat(),
    )


def _check_time(limits: QueryLimits, began_s: float) -> None:
    if limits.cancelled is not None and limits.cancelled():
        raise QueryLimitError("the export was cancelled")
    if limits.timeout_s is not None and time.monotonic() > began_s + limits.timeout_s:
        raise QueryLimitError(
            f"the export took longer than {limits.timeout_s:g} s\nexport fewer rows, or send it as"
            " a job: Prefer: respond-async"
        )


def _opened(path: FilePath) -> OpenFile:
    """Open the file of an export.

    Raises:
        Problem: 404, it was just removed.
    """
    try:
        return OpenFile(path)
    except FileNotFoundError as error:
        raise _no_export(path.parent.name) from error


def _no_export(export: str) -> Problem:
    return Problem(
        404,
        "export-not-found",
        f"there is no export {shown(export)} of this token, or it is no longer kept"
        f"\nexport the rows again",
    )


def _exports_of(request: Request) -> Exports:
    """Return the exports of the server.

    Raises:
        Problem: 501, it has none.
    """
    exports: Exports | None = request.app.state.exports
    if exports is None:
        raise Problem(
            501,
            "no-exports",
            "this server has no folder for exports\nread the rows (GET …/rows), or start it with"
            " --exports FOLDER",
        )
    return exports


def _find(request: Request, export: str) -> Export:
    """Return an export of the client, whose dataset they may still read.

    Raises:
        Problem: 404, they have none of this id, or no longer.
        DatasetNotFoundError: The dataset is gone, or they may not read it.
    """
    found = _exports_of(request).find(export, caller_of(request))
    if found is None:
        raise _no_export(export)
    lake_of(request).check_there(found.dataset)
    return found
