"""Connections: time limits for a client to send its request and to read the response.

uvicorn waits without a limit for the end of a request's headers, takes any number of them, and
keeps unread responses for as long as the client is connected. `PatientProtocol` is its protocol
with ends:

    nothing, or a part of headers         closed after ``header_patience_s``, with 408 if it began
    headers without an end                431 after MAX_HEADERS_NBYTES
    the rest of a body that was refused   read and dropped, and closed at its end, or after
                                          ``header_patience_s``
    an answer that is hardly read         aborted after ``answer_patience_s``: what waits is dropped
    one more than ``max_connections``     takes the place of that which is idle longest, or of a
                                          stranger's; 503 where all are of those who are known

A request that is answered before its body is here (401, 413) is the last of its connection
(``Connection: close``): later bytes, which may be the rest of that body, have no answer. Closing
at once would reset the connection, so that the client could lose the answer.

Streams have a patience of their own (``PATIENCE`` in the request's state): training takes a batch
and comes back minutes later. How long a body may take is the guard's affair, which can say so in
words.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tensorlake_server.auth.principal import NOBODY
from tensorlake_server.http.problems import problem_response
from tensorlake_server.request.head import MAX_HEADERS_NBYTES, headers_too_large

if TYPE_CHECKING:
    import asyncio

    from fastapi import FastAPI

    from tensorlake_server.settings.settings import Settings

__all__ = ["PATIENCE", "PatientProtocol", "configure"]

PATIENCE = "patience_s"  # in a request's state: how long its answer may wait for its client
LOOKS = 4  # at a client that reads nothing, within its patience


def configure(app: FastAPI, *, log_level: str, shutdown_s: int | None = None) -> uvicorn.Config:
    """Return how uvicorn serves our application.

    Args:
        app: The application of `create_app`.
        log_level: The level of uvicorn's own log.
        shutdown_s: How long answers under way may take when it is stopped; None: as they need.
    """
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",  # we have none; a connection that became one would be out of these ends
        log_level=log_level,
        access_log=False,  # it would show query strings; the guard's log has no secrets
        timeout_graceful_shutdown=shutdown_s,
    )


class PatientProtocol(HttpToolsProtocol):
    """One connection, with a bounded wait for its client."""

    def __init__(self, config: uvicorn.Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        app: Any = config.app
        settings: Settings = app.state.settings
        self._header_patience_s = settings.header_patience_s
        self._answer_patience_s = settings.answer_patience_s
        self._min_nbytes_per_s = settings.min_nbytes_per_s
        self._max_connections = settings.max_connections
        self._waits_since = 0.0
        self._unanswered: list[RequestResponseCycle] = []
        self._is_in_body = False
        self._is_last = False  # the request under way, which was answered before its body was here
        self._headers_nbytes = 0
        self._waiting: asyncio.TimerHandle | None = None  # for headers
        self._looking: asyncio.TimerHandle | None = None  # whether an answer is read
        self._left_nbytes = 0
        self._read_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the first headers, if there is room for one more."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        if len(self.connections) > self._max_connections and not self._make_room():
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too-many-connections",
                f"{self._max_connections:,} connections are open, and each is answered"
                "\ntry again later, or keep connections and use them again",
            )
            return
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more, and let no request of the client do so."""
        self._stop_waiting()
        self._stop_looking()
        for one in self._unanswered:  # uvicorn tells it only to the last of those sent at once
            one.disconnected = True
            one.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; without a request under way it is a part of headers, or too late."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.transport.is_closing() or not self._is_idle:
            return
        self._wait_for_headers()
        if not self._is_in_body:
            self._headers_nbytes += len(data)
            if self._headers_nbytes > MAX_HEADERS_NBYTES:
                problem = headers_too_large()
                status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                self._refuse(status, problem.code, str(problem.detail))

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that uvicorn cannot parse with a problem; uvicorn would send text."""
        self._refuse(
            HTTPStatus.BAD_REQUEST,
            "bad-request",
            f"{msg}\nsend HTTP/1.1, an address of ASCII characters (others as %XX) and of 64 KiB at"
            " most, and headers that agree with each other",
        )

    def on_headers_complete(self) -> None:
        """Begin a request: its headers are here."""
        if self._is_last:
            return
        self._stop_waiting()
        self._headers_nbytes = 0
        self._waits_since = self.loop.time()
        self._is_in_body = True
        _take_host(self.url, self.headers)
        super().on_headers_complete()
        self._unanswered = [one for one in self._unanswered if not one.response_complete]
        self._unanswered.append(self.cycle)
        cycle, send = self.cycle, self.cycle.send

        async def send_early(message: Any) -> None:
            is_early = message["type"] == "http.response.start" and cycle.more_body
            if not is_early:
                await send(message)
                return
            self._is_last = True
            early: Any = dict(message)
            early["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(early)
            cycle.keep_alive = cycle.more_body  # then it is closed at the end of the body

        cycle.send = send_early

    def on_message_complete(self) -> None:
        """Note that the whole of a request is here."""
        self._is_in_body = False
        was_last = self._is_last and not self.transport.is_closing()
        super().on_message_complete()
        if was_last and self.cycle.response_complete:
            self.transport.close()
        elif was_last:
            self.cycle.more_body = self.cycle.keep_alive = False  # it is closed after the answer

    def pause_writing(self) -> None:
        """Begin to look whether the client reads."""
        super().pause_writing()
        self._left_nbytes = self.transport.get_write_buffer_size()
        self._read_at = self.loop.time()
        self._look_later()

    def resume_writing(self) -> None:
        """Stop looking: it reads."""
        self._stop_looking()
        super().resume_writing()

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_headers(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self._header_patience_s, self._give_up)

    def _make_room(self) -> bool:
        """End the connection that has asked nothing for longest, then that of a stranger.

        Returns:
            False where all ask something, and are known.
        """
        others = [one for one in self.connections if isinstance(one, PatientProtocol)]
        ended = [one for one in others if one is not self and one.may_end]
        if not ended:
            return False
        min(ended, key=_waits_since).transport.close()
        return True

    @property
    def may_end(self) -> bool:
        """Whether no request is open, or one without authentication: a login, a probe."""
        if self.transport.is_closing():
            return False
        return self._is_idle or self.cycle.scope.get("state", {}).get("principal") is NOBODY

    @property
    def waits_since(self) -> tuple[bool, float]:
        """Whether something is asked here, and since when this is so, by the loop's clock."""
        return not self._is_idle, self._waits_since

    def on_response_complete(self) -> None:
        """Note that the client may ask again, or be ended where there is no room."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self._headers_nbytes and not self._is_in_body:
            patience = f"{self._header_patience_s:g} seconds"
            self._refuse(
                HTTPStatus.REQUEST_TIMEOUT,
                "request-timeout",
                f"the headers of a request did not end within {patience}\nsend it again, all of it",
            )
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, code: str, detail: str) -> None:
        """Answer an incomplete request with a problem, and end the connection.

        Bytes after an early answer, or in the middle of an answer, get none: it is ended only.
        """
        is_answered = self.cycle is not None and self.cycle.response_started
        if self._is_last or (is_answered and not self.cycle.response_complete):
            self.transport.close()
            return
        problem = problem_response(status, code, detail, headers={"Connection": "close"})
        headers = b"".join(b"%s: %s\r\n" % one for one in problem.raw_headers)
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
        self.transport.write(b"%s%s\r\n%s" % (line, headers, problem.body))
        self.transport.close()

    def _look_later(self) -> None:
        self._looking = self.loop.call_later(self._answer_patience_s / LOOKS, self._look)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look(self) -> None:
        """Abort the connection when its client has read too little for too long."""
        left, now = self.transport.get_write_buffer_size(), self.loop.time()
        state: dict[str, Any] = self.cycle.scope.get("state", {})
        patience_s: float = state.get(PATIENCE, self._answer_patience_s)
        least = self._answer_patience_s / LOOKS * self._min_nbytes_per_s
        if self._left_nbytes - left >= least:
            self._left_nbytes, self._read_at = left, now
        elif now - self._read_at >= patience_s:
            self.transport.abort()
            return
        self._look_later()


def _take_host(url: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Replace the Host of a request whose address has one, as RFC 9112 specifies (3.2.2)."""
    authority = url.partition(b"://")[2] if not url.startswith((b"/", b"*")) else b""
    host = re.split(rb"[/?#]", authority, maxsplit=1)[0].rpartition(b"@")[2]
    given = [at for at, (name, _) in enumerate(headers) if name == b"host"]
    if host and len(given) == 1:
        headers[given[0]] = (b"host", host)


def _waits_since(connection: PatientProtocol) -> tuple[bool, float]:
    return connection.waits_since
