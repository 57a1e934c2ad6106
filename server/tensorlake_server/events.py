"""``GET …/events``: a line for each new commit of a branch, as server-sent events.

    id: main@13                     the browser sends it back as Last-Event-ID, and misses nothing
    event: commit
    data: {"version": "main@13", …}                                      a commit, as in `Versions`

    : still here                    now and then, so that a client that went is noticed

A stream ends after MAX_STREAM_S, with what was allowed then: its client comes back and is asked
who it is again.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tensorlake.errors import InvalidInputError, TensorlakeError, VersionNotFoundError
from tensorlake_server.caching import is_fixed
from tensorlake_server.datasets import describe_commit
from tensorlake_server.problems import describe_error
from tensorlake_server.request import DatasetPath, lake_of, streams_of, take_place
from tensorlake_server.streams import BoundedStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tensorlake.dataset import Commit
    from tensorlake_server.allowed import AllowedLake
    from tensorlake_server.streams import Place

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["versions"])

EVENTS_TYPE = "text/event-stream"
POLL_S = 1.0
QUIET_S = 15.0
MAX_STREAM_S = 900.0
RETRY_MS = 2000


@router.get(
    "/{name}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {EVENTS_TYPE: {}}}},
)
async def stream_events(
    request: Request,
    name: DatasetPath,
    branch: Annotated[str, Query(max_length=1024)] = "main",
    after: Annotated[str | None, Query(description="a commit: those after it")] = None,
    last_event_id: Annotated[str | None, Header()] = None,
    *,
    wait: Annotated[bool, Query(description="false: those that are there, and no more")] = True,
) -> BoundedStream:
    """Say when a branch gets a new commit."""
    lake, streams = lake_of(request), streams_of(request)
    start = last_event_id or after
    if start is not None and (not is_fixed(start) or start.rpartition("@")[0] != branch):
        raise InvalidInputError(
            f"{start!r} is no commit of {branch!r}\ngive one like '{branch}@12'", actual=start
        )
    handle = await run_in_threadpool(lake.open, name, start or branch)
    if handle.version.rpartition("@")[0] != branch:
        raise VersionNotFoundError(
            f"{branch!r} of {name!r} is no branch but {handle.version}, which never gets a commit"
            f"\nfollow its branch: branch={handle.version.rpartition('@')[0]}",
            version=branch,
        )
    place = take_place(request, streams)
    events = _events(lake, name, handle.version, place, waits=wait)
    first = await anext(events)
    headers = {"Cache-Control": "no-store"}
    return BoundedStream(first, events, headers, EVENTS_TYPE, patience_s=QUIET_S)


async def _events(
    lake: AllowedLake, name: str, seen: str, place: Place, *, waits: bool
) -> AsyncGenerator[bytes]:
    def newer(version: str) -> list[Commit]:
        return list(lake.open(name, version).follow(timeout_s=0))

    try:
        ends, said = time.monotonic() + MAX_STREAM_S, time.monotonic()
        yield b"retry: %d\n\n" % RETRY_MS
        while time.monotonic() < ends and not place.is_draining:
            for commit in await run_in_threadpool(newer, seen):
                seen, said = commit.version, time.monotonic()
                data = describe_commit(commit).model_dump_json()
                yield f"id: {seen}\nevent: commit\ndata: {data}\n\n".encode()
            if not waits:
                return
            if time.monotonic() - said > QUIET_S:
                said = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(POLL_S)
    except TensorlakeError as error:  # said in the stream: the answer has begun already
        status, _ = describe_error(error)
        data = f'{{"code": "{error.code}", "status": {status}}}'
        yield f"event: error\ndata: {data}\n\n".encode()
    finally:
        place.leave()
