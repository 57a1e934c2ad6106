"""Answers that are sent from where their bytes lie, in messages of a good size.

    parts      1, 360, 8, 96 MiB, 4, …       headers and arrays' memory, as a writer left them
    messages   377 bytes, 4 MiB, 4 MiB, …    short ones joined, long ones cut; no array is copied

A message is what the connection takes at once: many small ones cost a turn of the loop each, and
one of a hundred megabytes would hold all of it until a slow client has taken the last byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from starlette.types import Receive, Scope, Send

    from tensorlake.storage import Buffer

__all__ = ["PartsResponse", "messages_of"]

MESSAGE_NBYTES = 4 << 20
JOINED_NBYTES = 64 << 10  # copying less costs less than a message


class PartsResponse(Response):
    """An answer whose length is known and whose bytes are not copied."""

    def __init__(
        self, parts: Iterable[Buffer], headers: Mapping[str, str], media_type: str
    ) -> None:
        self._messages = list(messages_of(parts))
        nbytes = sum(map(len, self._messages))
        super().__init__(None, 200, {**headers, "Content-Length": str(nbytes)}, media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them, each when the connection has room."""
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for body in self._messages:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def messages_of(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """Join what is short and cut what is long; empty parts are left out.

    >>> long = bytes(MESSAGE_NBYTES + 3)
    >>> [len(one) for one in messages_of([b"ab", b"", b"c", long, b"de"])]
    [3, 4194304, 3, 2]
    """
    short: list[Buffer] = []
    for part in parts:
        view = memoryview(part).cast("B")
        if view.nbytes < JOINED_NBYTES:
            short.append(view)
            continue
        if joined := b"".join(short):
            yield joined
        short = []
        for start in range(0, view.nbytes, MESSAGE_NBYTES):
            yield view[start : start + MESSAGE_NBYTES]
    if joined := b"".join(short):
        yield joined
