"""Work for a waiting client: within its limits, and no longer than it waits.

A query takes a place among those that run at once, of all and of its token, ends by itself after
seconds or bytes that the settings name, and is called off when its client goes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread
from fastapi import Response

from tensorlake.dataset import QueryLimits
from tensorlake_server.http.problems import Problem
from tensorlake_server.request.context import queries_of, settings_of, take_place
from tensorlake_server.request.jobs import JOB, ServedJobs, prefers_async

if TYPE_CHECKING:
    from fastapi import Request

    from tensorlake_server.auth.principal import Principal

__all__ = ["jobs_of", "run_query_for", "run_query_or_job"]

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
    place = None
    if JOB in request.scope:  # it had its place in the queue
        limits = replace(limits, timeout_s=settings.max_job_s)
    else:
        place = take_place(request, queries_of(request), what="queries")
    watching = asyncio.create_task(_watch(request, gone))
    try:
        return await to_thread.run_sync(work, limits)
    finally:
        watching.cancel()
        if place is not None:
            place.leave()


async def run_query_or_job(request: Request, work: Callable[[QueryLimits], T]) -> T | Response:
    """Run a query for a waiting client, or as a job, if its client prefers that.

    Raises:
        Problem: 429, too many run already, or too many are jobs; 501, this server has no jobs.
        QueryLimitError: It passed a limit, or the client has gone.
    """
    if not prefers_async(request.headers.get("prefer", "")):
        return await run_query_for(request, work)
    jobs = jobs_of(request)
    principal: Principal = request.state.principal
    body = await request.body()
    job = await to_thread.run_sync(jobs.start, request, body, principal)
    headers = {
        "Location": f"/v1/jobs/{job}",
        "Preference-Applied": "respond-async",
        "Retry-After": "1",
        "Cache-Control": "no-store",
    }
    return Response(None, 202, headers)


def jobs_of(request: Request) -> ServedJobs:
    """Return the jobs of the server.

    Raises:
        Problem: 501, it has none.
    """
    jobs: ServedJobs | None = request.app.state.jobs
    if jobs is None:
        raise Problem(
            501,
            "no-jobs",
            "this server has no database for jobs"
            "\nask without Prefer: respond-async, or start it with --flows jobs.sqlite",
        )
    return jobs


async def _watch(request: Request, gone: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the body, which has been read
    gone.set()
