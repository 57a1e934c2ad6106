"""Streams: how many are open, and how they end.

Each costs a connection and memory, so they are bounded, all together and for each who asks. Before
the server stops they drain: each ends after what it is about to send, and its client comes back, to
this server or another. So does each whose token is revoked or expires; its client gets a 401 then.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

import anyio
from starlette.responses import StreamingResponse

from tensorlake_server.request.slow_clients import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from starlette.types import Receive, Scope, Send

__all__ = ["BoundedStream", "Place", "Streams"]

log = logging.getLogger("tensorlake.server")


class Streams:
    """Counts open streams. Thread-safe.

    >>> streams = Streams(2, most_each=1)
    >>> streams.enter("ana"), streams.enter("ana"), streams.enter("ben"), streams.enter("eve")
    (True, False, True, False)
    >>> streams.leave("ana"), streams.enter("eve"), streams.count
    (None, True, 2)
    """

    def __init__(self, most: int, *, most_each: int | None = None) -> None:
        self._most = most
        self._most_each = most if most_each is None else most_each
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.is_draining = False

    @property
    def count(self) -> int:
        """How many are open."""
        return self._open.total()

    def enter(self, who: str) -> bool:
        """Take a place; False when there is none."""
        with self._lock:
            if self._open.total() >= self._most or self._open[who] >= self._most_each:
                return False
            self._open[who] += 1
            return True

    def leave(self, who: str) -> None:
        """Give a place back."""
        with self._lock:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    def place(self, who: str, is_allowed: Callable[[], bool] = lambda: True) -> Place | None:
        """Take a place that gives itself back once; None when there is none.

        Args:
            who: The caller.
            is_allowed: Whether the caller's credentials are still valid.
        """
        return Place(self, who, is_allowed) if self.enter(who) else None

    def why_full(self, who: str) -> str:
        """Return which limit leaves no place.

        >>> Streams(2, most_each=0).why_full("ana")
        '0 of yours are under way, the most for one token'
        """
        if self._open[who] >= self._most_each:
            return f"{self._open[who]} of yours are under way, the most for one token"
        return f"{self.count} are under way on this server, its most"

    def drain(self) -> None:
        """Let streams end as soon as they have sent what they are about to send."""
        self.is_draining = True


class Place:
    """The place of one stream."""

    def __init__(self, streams: Streams, who: str, is_allowed: Callable[[], bool]) -> None:
        self._streams = streams
        self._who = who
        self._is_allowed = is_allowed
        self._is_left = False

    @property
    def is_ending(self) -> bool:
        """Whether the stream should send no more: the server drains, or the token is invalid."""
        return self._streams.is_draining or not self._is_allowed()

    def leave(self) -> None:
        """Give the place back."""
        if not self._is_left:
            self._is_left = True
            self._streams.leave(self._who)


class BoundedStream(StreamingResponse):
    """A response that continues until its client disconnects or takes nothing for too long.

    However it ends, its generator is closed before the answer is over.

    Args:
        first: The first piece; b"" when there is none.
        body: The generator that yielded it. It has begun: closing a generator that has not
            begun runs nothing of it, and it would keep its place.
        headers: The response's headers.
        media_type: The response's media type.
        patience_s: How long its client may take nothing.
    """

    def __init__(
        self,
        first: bytes,
        body: AsyncGenerator[bytes],
        headers: Mapping[str, str],
        media_type: str,
        *,
        patience_s: float,
    ) -> None:
        super().__init__(body, 200, headers, media_type)
        self._first = first
        self._body = body
        self._patience_s = patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; the connection is as patient as the stream."""
        scope.setdefault("state", {})[PATIENCE] = self._patience_s
        try:
            await super().__call__(scope, receive, send)
        finally:  # not where it is sent: a client that is gone may end that before it begins
            with anyio.CancelScope(shield=True):
                await self._body.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send the pieces, each within the time that a client is waited for."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        piece = self._first
        while piece:
            with anyio.move_on_after(self._patience_s) as waited:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if waited.cancelled_caught:  # it reads nothing: the connection is given up
                log.info("a stream ended: its client took nothing for %g s", self._patience_s)
                return
            piece = await anext(self._body, b"")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
