"""The objects of a dataset over HTTP: what ``tl.open("http://host/pets")`` reads and writes.

Readers of a dataset read all of its objects, whole or a range. Writers put what a commit is made
of (bodies/put_rules.py); nothing is deleted. With ``presign`` packs are read from the object store
itself, by links that it is asked to honour for a while. All but hints and tags are immutable.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tensorlake.errors import CorruptionError
from tensorlake.storage import (
    LocalStore,
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    Store,
    run,
    runtime,
)
from tensorlake_server.http.problems import Problem
from tensorlake_server.http.ranges import asked_range
from tensorlake_server.messages.messages import FolderList, ObjectInfo, ObjectList
from tensorlake_server.request.context import DatasetPath, lake_of, note_change, settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tensorlake.storage import Buffer, ObjectMeta
    from tensorlake_server.bodies.put_rules import ObjectRules

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["objects"])

OCTETS = "application/octet-stream"
PACKS = "packs/"
PIECE_NBYTES = 8 << 20  # read and sent at once
PAGE_NBYTES = 4096  # of the machine's memory
MAX_LISTED = 1000
LINK_S = 900.0
CHANGING = re.compile(r"branches/[^/]+/HEAD|tags/.*")


@router.get("/{name}/objects", response_model=ObjectList)
def list_objects(
    request: Request,
    name: DatasetPath,
    prefix: Annotated[str, Query(max_length=1024)] = "",
    after: Annotated[str, Query(max_length=1024)] = "",
) -> ObjectList:
    """List the objects whose path starts with ``prefix``, in order, from behind ``after``."""
    store, is_object = lake_of(request).store(name), _rules(request).is_object

    async def collect() -> list[ObjectMeta]:
        found: list[ObjectMeta] = []
        async for meta in store.list(prefix):
            if meta.path > after and is_object(meta.path):
                found.append(meta)
            if len(found) > MAX_LISTED:
                break
        return found

    found = run(collect())
    page = found[:MAX_LISTED]
    return ObjectList(
        objects=[
            ObjectInfo(path=one.path, nbytes=one.nbytes, modified=one.modified.isoformat())
            for one in page
        ],
        next=page[-1].path if len(found) > len(page) else None,
    )


@router.get("/{name}/folders", response_model=FolderList)
def list_folders(
    request: Request, name: DatasetPath, prefix: Annotated[str, Query(max_length=1024)] = ""
) -> FolderList:
    """Name what lies directly under ``prefix`` and holds objects."""
    return FolderList(folders=list(run(lake_of(request).store(name).folders(prefix))))


@router.get("/{name}/objects/{path:path}", response_class=Response)
async def read_object(request: Request, name: DatasetPath, path: str) -> Response:
    """Read an object, whole or one range of it."""
    answer = _cached_range(request, name, path)
    return answer or await run_in_threadpool(_read, request, name, path)


def _cached_range(request: Request, name: str, path: str) -> Response | None:
    """Answer with a small range of a local pack that is in memory; None for all else.

    A thread, and the interpreter's going to and fro between that and the loop, would be two thirds
    of what the answer costs (docs/decisions/0030).
    """
    first, last = _asked_range(request) or ("", "")
    if not (first and last and path.startswith(PACKS)):
        return None
    store = lake_of(request).kept_store(name)
    if not isinstance(store, LocalStore) or not _rules(request).is_object(path):
        return None
    start = int(first)
    data, nbytes = store.range_if_cached(path, start, int(last) + 1) or (b"", 0)
    if not data:
        return None
    headers = _headers(path)
    headers["Content-Range"] = f"bytes {start}-{start + len(data) - 1}/{nbytes}"
    return Response(data, 206, headers, OCTETS)


def _read(request: Request, name: str, path: str) -> Response:
    store = _store(request, name, path)
    if settings_of(request).presign and path.startswith(PACKS) and isinstance(store, ObjectStore):
        link = run(store.presigned(path, expires_s=LINK_S))
        return Response(None, 307, {"Location": link, "Cache-Control": "no-store"})
    headers = _headers(path)
    if not path.startswith(PACKS):  # read before anything is published
        headers["X-Author"] = quote(lake_of(request).author)
    asked = _asked_range(request)
    if asked is not None:
        return _range_of(store, path, *asked, headers)
    if not path.startswith(PACKS):  # small: entries, hints, tags
        found = run(store.read(path))
        if found is None:
            raise _absent(path)
        if found.modified is not None:
            headers["X-Modified"] = found.modified.isoformat()
        return Response(found.data, 200, headers, OCTETS)
    return _streamed(store, path, 0, _meta_of(store, path).nbytes, 200, headers)


@router.head("/{name}/objects/{path:path}", response_class=Response)
def look_up_object(request: Request, name: DatasetPath, path: str) -> Response:
    """Return how long an object is, and when it was written."""
    meta = _meta_of(_store(request, name, path), path)
    nbytes = str(meta.nbytes)  # twice: proxies leave the length of an answer without a body out
    facts = {
        "Content-Length": nbytes,
        "X-Length": nbytes,
        "X-Modified": meta.modified.isoformat(),
    }
    return Response(None, 200, {**_headers(path), **facts}, OCTETS)


@router.put("/{name}/objects/{path:path}", status_code=204)
async def put_object(
    request: Request,
    name: DatasetPath,
    path: str,
    *,
    durable: Annotated[bool, Query(description="false: losing it changes nothing")] = True,
) -> Response:
    """Put an object that a commit is made of; with ``If-None-Match: *`` only where none is."""
    lake = lake_of(request)
    lake.check_writable(name, None)  # before the body is taken in
    body = await request.body()
    replaces = request.headers.get("if-none-match", "").strip() != "*"

    def put() -> None:
        store = lake.store(name)
        try:
            _rules(request).check_put(lake, name, store, path, body, replaces=replaces)
            if replaces:
                run(store.put(path, body, durable=durable))
            else:
                run(store.put_if_absent(path, body))
        except ObjectExistsError as error:
            raise Problem(412, "object-exists", str(error)) from error

    await run_in_threadpool(put)
    note_change(request, path)
    return Response(status_code=204)


def _asked_range(request: Request) -> tuple[str, str] | None:
    """Return the range that is asked for; none of an answer known before: objects have no ETag."""
    return None if "if-range" in request.headers else asked_range(request.headers.get("range", ""))


def _rules(request: Request) -> ObjectRules:
    return request.app.state.object_rules


def _store(request: Request, name: str, path: str) -> Store:
    store = lake_of(request).store(name)
    if not _rules(request).is_object(path):
        raise _absent(path)
    return store


def _range_of(store: Store, path: str, first: str, last: str, headers: dict[str, str]) -> Response:
    """Answer with one range: ``first`` to ``last``, from ``first`` on, or the ``last`` bytes.

    The object's length costs a request unless it is a file: it is only read if it matters.
    """
    is_closed = first != "" and last != ""
    start, stop = int(first or 0), int(last or 0) + 1
    nbytes: int | None = None
    if store.is_local or not is_closed or stop - start > PIECE_NBYTES:
        nbytes = _meta_of(store, path).nbytes
        if not first:
            start, stop = max(0, nbytes - int(last)), nbytes
        stop = min(stop, nbytes) if last else nbytes
        if start >= stop:
            raise _outside(path, start, nbytes)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{'*' if nbytes is None else nbytes}"
    if stop - start > PIECE_NBYTES:
        return _streamed(store, path, start, stop, 206, headers)
    try:
        data = _mapped(store, path, start, stop)
        if data is None:
            data = run(store.get_range(path, start, stop))
    except MissingObjectError as error:
        raise _absent(path) from error
    except CorruptionError:
        if nbytes is not None:
            raise
        # It has not all of them. Those that it has are asked for from where its end is.
        nbytes = _meta_of(store, path).nbytes
        if start >= nbytes:
            raise _outside(path, start, nbytes) from None
        return _range_of(store, path, first, str(nbytes - 1), headers)
    return Response(memoryview(data), 206, headers, OCTETS)


def _meta_of(store: Store, path: str) -> ObjectMeta:
    """Look up an object; a file at once, without a turn of the storage loop.

    Raises:
        Problem: 404, there is none.
    """
    meta = store.look_up(path) if isinstance(store, LocalStore) else run(store.head(path))
    if meta is None:
        raise _absent(path)
    return meta


def _mapped(store: Store, path: str, start: int, stop: int) -> Buffer | None:
    """View a range of a pack of a local folder where it lies; None elsewhere.

    It is brought into memory here, in a thread: sending it must not wait for a disk. The caller of
    this has looked the pack up: of one that is gone, a mapping may be left.
    """
    if not store.is_local or not path.startswith(PACKS):
        return None
    mapped = store.map_range(path, start, stop)
    if mapped is not None:
        np.frombuffer(mapped, np.uint8)[::PAGE_NBYTES].max(initial=0)
    return mapped


def _streamed(
    store: Store, path: str, start: int, stop: int, status: int, headers: dict[str, str]
) -> Response:
    """Send a long range in pieces: a pack is never held whole."""
    length = {"Content-Length": str(stop - start)}
    pieces = _pieces(store, path, start, stop)
    return StreamingResponse(pieces, status, {**headers, **length}, OCTETS)


async def _pieces(store: Store, path: str, start: int, stop: int) -> AsyncGenerator[memoryview]:
    """Read a range piece by piece, each while the one before is sent."""

    async def read(at: int) -> Buffer:
        end = min(stop, at + PIECE_NBYTES)
        mapped = await run_in_threadpool(_mapped, store, path, at, end)
        if mapped is not None:
            return mapped
        return await asyncio.wrap_future(runtime.submit(store.get_range(path, at, end)))

    ahead = asyncio.create_task(read(start))
    try:
        for at in range(start, stop, PIECE_NBYTES):
            piece = await ahead
            if at + PIECE_NBYTES < stop:
                ahead = asyncio.create_task(read(at + PIECE_NBYTES))
            yield memoryview(piece)
    finally:  # the client may be gone: what was read for it is given up
        ahead.add_done_callback(_noticed)
        ahead.cancel()


def _noticed(task: asyncio.Task[Buffer]) -> None:
    """Retrieve the result of a task that is no longer awaited."""
    if not task.cancelled():
        task.exception()


def _headers(path: str) -> dict[str, str]:
    is_changing = CHANGING.fullmatch(path) is not None
    return {
        "Cache-Control": "private, no-cache" if is_changing else "private, max-age=31536000",
        "Vary": "Authorization, Cookie",
        "Content-Disposition": 'attachment; filename="object.bin"',
        "Accept-Ranges": "bytes",
    }


def _absent(path: str) -> Problem:
    return Problem(404, "missing-object", f"there is no object {path!r}")


def _outside(path: str, start: int, nbytes: int) -> Problem:
    return Problem(
        416,
        "range-not-satisfiable",
        f"object {path!r} has {nbytes} bytes: none from {start} on",
        {"Content-Range": f"bytes */{nbytes}"},
    )
