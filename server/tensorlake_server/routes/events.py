"""``GET …/events``: a line for each new commit of a branch, as server-sent events.

    id: main@13                     the browser sends it back as Last-Event-ID, and misses nothing
    event: commit
    data: {"version": "main@13", …}                                      a commit, as in `Versions`

    : still here                    now and then, so that a client that went is noticed

A branch is polled once for all streams that follow it.

A stream ends after MAX_STREAM_S, and when its token becomes invalid, which is checked with each
poll.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tensorlake.errors import InvalidInputError, TensorlakeError, VersionNotFoundError
from tensorlake_server.http.caching import is_fixed
from tensorlake_server.http.problems import describe_error
from tensorlake_server.request.context import DatasetPath, lake_of, streams_of, take_place
from tensorlake_server.request.stream_limits import BoundedStream
from tensorlake_server.routes.datasets import describe_commit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tensorlake.dataset import Commit
    from tensorlake_server.lake.authorized_lake import AllowedLake
    from tensorlake_server.lake.lake import Lake
    from tensorlake_server.request.stream_limits import Place

__all__ = ["Heads", "router"]

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
    """Report when a branch gets a new commit."""
    lake, streams = lake_of(request), streams_of(request)
    start = last_event_id or after
    if start is not None and (not is_fixed(start) or start.rpartition("@")[0] != branch):
        raise InvalidInputError(
            f"{start!r} is not a commit of {branch!r}\ngive one like '{branch}@12'", actual=start
        )
    handle = await run_in_threadpool(lake.open, name, start or branch)
    if handle.version.rpartition("@")[0] != branch:
        raise VersionNotFoundError(
            f"{branch!r} of {name!r} is not a branch but {handle.version}, which gets no commits"
            f"\nfollow its branch: branch={handle.version.rpartition('@')[0]}",
            version=branch,
        )
    place = take_place(request, streams)
    heads: Heads = request.app.state.heads
    events = _events(lake, heads, name, handle.version, place, waits=wait)
    first = await anext(events)
    headers = {"Cache-Control": "no-store"}
    return BoundedStream(first, events, headers, EVENTS_TYPE, patience_s=QUIET_S)


class Heads:
    """Branches that are followed: each is polled by one task while anybody follows it.

    Args:
        lake: All of it; who follows was let in before.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._followed: dict[tuple[str, str], _Head] = {}

    @asynccontextmanager
    async def follow(self, name: str, version: str) -> AsyncGenerator[_Head]:
        """Follow the branch that a version is of."""
        key = (name, version.rpartition("@")[0])
        head = self._followed.get(key)
        if head is None:
            head = self._followed[key] = _Head(self._lake, name, version)
        head.followers += 1
        try:
            yield head
        finally:
            head.followers -= 1
            if not head.followers:
                head.close()
                del self._followed[key]


class _Head:
    """The newest commit of a branch, as far as it was polled."""

    def __init__(self, lake: Lake, name: str, version: str) -> None:
        self.followers = 0
        self._lake = lake
        self._name = name
        self._version = version
        self._error: TensorlakeError | None = None
        self._moved = asyncio.Event()
        self._polling = asyncio.create_task(self._poll())

    def close(self) -> None:
        """Poll no more."""
        self._polling.cancel()

    async def has_after(self, seen: str, *, timeout_s: float) -> bool:
        """Wait until the branch has a commit after the one that was seen, or the time is over.

        Raises:
            TensorlakeError: The branch cannot be read.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._error is None and _number(self._version) <= _number(seen):
                    await self._moved.wait()
        if self._error is not None:
            raise self._error
        return _number(self._version) > _number(seen)

    async def _poll(self) -> None:
        while self._error is None:
            await asyncio.sleep(POLL_S)
            try:
                commits = await run_in_threadpool(self._newer)
            except TensorlakeError as error:
                self._error = error
            else:
                if not commits:
                    continue
                self._version = commits[-1].version
            self._moved.set()
            self._moved = asyncio.Event()

    def _newer(self) -> list[Commit]:
        return list(self._lake.open(self._name, self._version).follow(timeout=0))


def _number(version: str) -> int:
    return int(version.rpartition("@")[2])


async def _events(
    lake: AllowedLake, heads: Heads, name: str, seen: str, place: Place, *, waits: bool
) -> AsyncGenerator[bytes]:
    def newer(version: str) -> list[Commit]:
        return list(lake.open(name, version).follow(timeout=0))

    try:
        ends, sent_at = time.monotonic() + MAX_STREAM_S, time.monotonic()
        yield b"retry: %d\n\n" % RETRY_MS
        async with heads.follow(name, seen) if waits else nullcontext() as head:
            has_more = True
            while time.monotonic() < ends and not place.is_ending:
                for commit in await run_in_threadpool(newer, seen) if has_more else ():
                    seen, sent_at = commit.version, time.monotonic()
                    data = describe_commit(commit).model_dump_json()
                    yield f"id: {seen}\nevent: commit\ndata: {data}\n\n".encode()
                if head is None:
                    return
                if time.monotonic() - sent_at > QUIET_S:
                    sent_at = time.monotonic()
                    yield b": still here\n\n"
                has_more = await head.has_after(seen, timeout_s=POLL_S)
    except TensorlakeError as error:  # sent in the stream: the response has begun
        status, _ = describe_error(error)
        data = f'{{"code": "{error.code}", "status": {status}}}'
        yield f"event: error\ndata: {data}\n\n".encode()
    finally:
        place.leave()
