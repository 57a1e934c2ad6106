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

from tensorlake.dataset import QueryLimits
from tensorlake_server.request.context import queries_of, settings_of, take_place

if TYPE_CHECKING:
    from fastapi import Request

__all__ = ["run_query_for"]

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


async def _watch(request: Request, gone: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the body, which has been read
    gone.set()
