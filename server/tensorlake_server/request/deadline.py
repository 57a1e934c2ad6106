"""Work for a waiting client: within its limits, and no longer than it waits.

A query takes a place among those that run at once, of all and of its token, ends by itself after
seconds or bytes that the settings name, and is called off when its client goes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread
from fastapi import Response

from tensorlake.dataset import QueryLimits
from tensorlake_server.http.problems import Problem
from tensorlake_server.request.context import caller_of, queries_of, settings_of, take_place
from tensorlake_server.request.jobs import prefers_async

if TYPE_CHECKING:
    from fastapi import Request

    from tensorlake_server.request.jobs import Jobs

__all__ = ["run_query_for", "run_query_or_job"]

T = TypeVar("T")


async def run_query_for(request: Request, work: Callable[[QueryLimits], T]) -> T:
    """Run a query in a thread, within the limits of who asks.

    Raises:
        Problem: 429, too many run already.
        QueryLimitError: It passed a limit, or the client has gone.
    """
    settings = settings_of(request)
    gone = threading.Event()
    limits = settings.query_limits(gone.is_set)
    place = take_place(request, queries_of(request), what="queries")
    watching = asyncio.create_task(_watch(request, gone))
    try:
        return await to_thread.run_sync(work, limits)
    finally:
        watching.cancel()
        place.leave()


async def run_query_or_job(request: Request, work: Callable[[QueryLimits], T]) -> T | Response:
    """Run a query for a waiting client, or as a job, if its client prefers that.

    Raises:
        Problem: 429, too many run already; 501, this server has no jobs.
        QueryLimitError: It passed a limit, or the client has gone.
    """
    if not prefers_async(request.headers.get("prefer", "")):
        return await run_query_for(request, work)
    settings = settings_of(request)
    if settings.workers > 1:
        raise Problem(
            501,
            "no-jobs",
            f"this server has {settings.workers} workers, and none of them finds jobs of another"
            "\nask without Prefer: respond-async, or a server without --workers",
        )
    jobs: Jobs = request.app.state.jobs
    place = take_place(request, queries_of(request), what="queries")
    job = jobs.start(caller_of(request), place, settings.query_limits(), work)
    headers = {
        "Location": f"/v1/jobs/{job.id}",
        "Preference-Applied": "respond-async",
        "Retry-After": "1",
        "Cache-Control": "no-store",
    }
    return Response(None, 202, headers)


async def _watch(request: Request, gone: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the body, which has been read
    gone.set()
