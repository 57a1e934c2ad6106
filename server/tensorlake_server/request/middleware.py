"""The checks of a request before its route: host, origin, credentials, body size, headers.

* ``Host`` must be a served name (421 otherwise), or a page of another site could rebind its DNS
  name to 127.0.0.1 and read the lake with the visitor's browser.
* A request that another site's page makes changes nothing (403), whatever the browser sends along.
  No answer has CORS headers, so such a page reads nothing either.
* ``/v1`` needs valid credentials: request/access.py checks them.
* Bodies are counted as they arrive (413), and must arrive: within ``body_patience_s`` and a second
  for each ``min_nbytes_per_s`` (408). Unauthenticated requests have MAX_LOGIN_NBYTES.
* Memory held for bodies and responses of all clients is bounded (503): request/held_bytes.py.
* Requests a second are bounded for each token (429). Health checks have no bound: they decide
  whether this server is restarted, and must not share one with strangers. ``/metrics`` needs a
  token where there are tokens.
* ``HEAD`` is answered like ``GET``, without the body.
* Every answer has the request's id, is ``nosniff`` and names who may embed it; routes set what is
  special to them. Every request is counted, and a line of the log; with an audit log, each to
  ``/v1`` is a line of that. No line has a query string, which may hold a view.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import Headers, MutableHeaders

from tensorlake.format import MAX_ENTRY_NBYTES
from tensorlake.storage import Traced, reading_bases, span
from tensorlake_server.auth.principal import NOBODY
from tensorlake_server.http.methods import METHODS, is_head_of_get
from tensorlake_server.http.problems import CLIENT_GONE, Problem, fault_response, problem_response
from tensorlake_server.request.head import check_head
from tensorlake_server.request.held_bytes import HeldBytes
from tensorlake_server.request.jobs import JOB
from tensorlake_server.request.rate import Rate

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from tensorlake_server.auth.principal import Principal
    from tensorlake_server.request.access import Access
    from tensorlake_server.request.audit import AuditLog
    from tensorlake_server.request.held_bytes import Holding
    from tensorlake_server.request.metrics import Metrics
    from tensorlake_server.settings.settings import Settings

__all__ = ["Guard", "UnderWay"]

log = logging.getLogger("tensorlake.server.requests")

OPEN_ROUTES = frozenset({"/v1/session"})  # how the token is shown for the first time
HEALTH = frozenset({"/healthz", "/readyz"})
METRICS = "/metrics"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
REQUEST_ID_NBYTES = 8
MAX_LENGTH_DIGITS = 18
MAX_LOGIN_NBYTES = 16_384  # JWTs that list many groups have thousands of characters
SMALL_NBYTES = 64 << 10  # of an answer: it lies in the connection at once
ENTRY_PATH = re.compile(r"^/v1/datasets/[^/]+/objects/branches/")

DEFAULT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "SAMEORIGIN",
}
API_HEADERS = {
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        access: Access,
        audit: AuditLog | None,
        metrics: Metrics,
        under_way: UnderWay,
    ) -> None:
        self._app = app
        self._under_way = under_way
        self._metrics = metrics
        self._rate = Rate(settings.max_requests_per_s)
        self._held = HeldBytes(settings.max_held_nbytes)
        self._settings = settings
        self._access = access
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(REQUEST_ID_NBYTES)
        is_api = scope["path"].startswith("/v1/")
        headers = {**DEFAULT_HEADERS, **(API_HEADERS if is_api else {}), "X-Request-Id": request_id}
        state: dict[str, Any] = scope.setdefault("state", {})
        answered = _Answered(send, headers, state, has_body=scope["method"] != "HEAD")
        state |= {"principal": NOBODY, "request_id": request_id, "changed": {}}
        if self._audit is not None:
            state["audit"] = self._audit
        started = time.perf_counter()
        with span(_method(scope), kind="SERVER", parent=Headers(scope=scope)) as traced:
            traced.note(request=request_id)
            try:
                allowed = reading_bases(self._settings.follow_links)
                with self._under_way.noted(scope, answered), allowed:
                    await self._pass_on(scope, receive, answered)
            finally:
                self._note(scope, answered, time.perf_counter() - started, traced)

    def _note(self, scope: Scope, answered: _Answered, seconds: float, traced: Traced) -> None:
        """Count a request, and write it to the trace and the logs."""
        route = getattr(scope.get("route"), "path", "other")
        method, nbytes = _method(scope), answered.nbytes
        status = CLIENT_GONE if answered.status is None else answered.status
        self._metrics.note(method, route, status, seconds, nbytes)
        traced.answer(f"{method} {route}", route, status)
        record = audit_record(scope, status)
        if log.isEnabledFor(logging.INFO):
            timed = {**record, "seconds": round(seconds, 6), "nbytes": nbytes}
            log.info("%s", msgspec.json.encode(timed).decode())
        if self._audit is not None and scope["path"].startswith("/v1/"):
            self._audit.write(record)

    async def _pass_on(self, scope: Scope, receive: Receive, send: _Answered) -> None:
        try:
            headers = Headers(scope=scope)
            await self._access.prepare(headers)
            job = scope.get(JOB)  # checked when it was sent
            scope["state"]["principal"] = job or self._checked(scope, headers)
        except Problem as problem:
            await _refusal(problem)(scope, receive, send)
            return
        send.holding = self._held.holding(scope["state"]["principal"].name)
        send.is_object = "/objects/" in scope["path"]
        scope["state"]["holding"] = send.holding
        try:
            await self._ask_held(scope, receive, send)
        finally:
            send.holding.end()

    async def _ask_held(self, scope: Scope, receive: Receive, send: _Answered) -> None:
        body = _Body(receive, send, self._body_limit(scope), self._settings)
        if not is_head_of_get(scope["method"], scope["path"]):
            await self._ask(scope, body, send)
            return
        asked = {**scope, "method": "GET"}
        await self._ask(asked, body, send)
        scope["route"] = asked.get("route")

    async def _ask(self, scope: Scope, receive: Receive, send: _Answered) -> None:
        """Let the application answer; a fault of ours is an answer like any other, and counted."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if send.status is not None:  # half of an answer is out: its connection is cut
                raise
            refused, send.refused = send.refused, None
            answer = fault_response(error) if refused is None else _refusal(refused)
            await answer(scope, receive, send)

    def _checked(self, scope: Scope, headers: Headers) -> Principal:
        """Check a request before its body, and say who makes it.

        Raises:
            Problem: It is refused.
        """
        check_head(scope, headers)
        settings = self._settings
        served = settings.served_hosts
        host = _host_name(headers.get("host", ""))
        if served is not None and host not in served:
            raise Problem(
                421,
                "misdirected-request",
                f"this server does not answer for the host {host!r}"
                f"\nuse one of {', '.join(sorted(served))}",
            )
        if scope["method"] not in SAFE_METHODS and _is_cross_site(headers):
            raise Problem(
                403,
                "cross-site",
                f"a page of {headers.get('origin')!r} may not ask this of {host!r}"
                "\nask from the server's own page, or from a program",
            )
        path = scope["path"]
        is_open = not path.startswith("/v1/") or path in OPEN_ROUTES
        if path == METRICS and settings.knows_people:
            principal = self._access.known(headers)
        else:
            principal = NOBODY if is_open else self._access.principal(headers)
        if self._audit is not None and path.startswith("/v1/"):
            self._audit.check_room()
        wait_s = 0.0 if path in HEALTH else self._rate.wait_s(principal.name)
        if wait_s > 0:
            raise Problem(
                429,
                "too-many-requests",
                f"{settings.max_requests_per_s:g} requests a second are answered"
                "\nwait, and ask again",
                {"Retry-After": str(math.ceil(wait_s))},
            )
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise Problem(
                415,
                "unsupported-content-encoding",
                f"bodies are taken as they are, not packed by {encoding[:80]!r}"
                "\nsend it without Content-Encoding; Arrow streams may pack their buffers",
                {"Accept-Encoding": "identity"},
            )
        length, limit = headers.get("content-length", "0"), self._body_limit(scope)
        if not length.isdecimal() or len(length) > MAX_LENGTH_DIGITS or int(length) > limit:
            raise _too_long(limit)
        return principal

    def _body_limit(self, scope: Scope) -> int:
        path, settings = scope["path"], self._settings
        if path in OPEN_ROUTES or not path.startswith("/v1/"):
            return MAX_LOGIN_NBYTES  # of somebody whom nobody knows yet
        if ENTRY_PATH.search(path):
            return min(settings.max_write_nbytes, MAX_ENTRY_NBYTES)
        brings = path.startswith("/v1/") and (path.endswith("/transactions") or "/objects/" in path)
        return settings.max_write_nbytes if brings and settings.write else settings.max_body_nbytes


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"


class UnderWay:
    """The requests that are being answered, so that none is left without an answer at the end."""

    def __init__(self) -> None:
        self._answers: dict[_Answered, Scope] = {}

    @contextmanager
    def noted(self, scope: Scope, answered: _Answered) -> Generator[None]:
        """Count a request as under way."""
        self._answers[answered] = scope
        try:
            yield
        finally:
            del self._answers[answered]

    async def refuse(self) -> None:
        """Answer all that are not answered yet: this server stops."""
        for answered, scope in list(self._answers.items()):
            if answered.status is None:
                stopping = problem_response(
                    503,
                    "draining",
                    "this server stops, and the request took longer than it waits\ntry again",
                    headers={"Retry-After": "1", "Connection": "close"},
                )
                await answered.end_with(stopping, scope)


class _Body:
    """Hands on a body as it arrives, if it is neither too long nor too slow."""

    def __init__(
        self, receive: Receive, answered: _Answered, limit: int, settings: Settings
    ) -> None:
        self._receive = receive
        self._answered = answered
        self._limit = limit
        self._patience_s = settings.body_patience_s
        self._min_nbytes_per_s = settings.min_nbytes_per_s
        self._nbytes = 0
        self._started = 0.0
        self._is_whole = False

    async def __call__(self) -> Message:
        if self._is_whole:  # what is waited for is the client's going: as long as the answer takes
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._started = self._started or loop.time()
        allowed_s = self._patience_s + self._nbytes / self._min_nbytes_per_s
        try:
            async with asyncio.timeout_at(self._started + allowed_s):
                message = await self._receive()
        except TimeoutError as error:
            if self._answered.status is not None:  # whoever answered did without the body
                return {"type": "http.disconnect"}
            raise _too_slow(self._nbytes, allowed_s) from error
        self._nbytes += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self._nbytes > self._limit:
            raise _too_long(self._limit)
        if self._answered.holding is not None:
            self._answered.holding.take(len(message.get("body", b"")))
        return message


class _Answered:
    """Sends an answer with the default headers, and remembers its status.

    Attributes:
        holding: The bytes that the request holds; None before authentication.
        is_object: Whether an object of a dataset is asked for.
        refused: Why the answer that was made is not sent: too many wait for their readers.
    """

    def __init__(
        self, send: Send, headers: dict[str, str], state: Mapping[str, Any], *, has_body: bool
    ) -> None:
        self._send = send
        self._headers = headers
        self._state = state  # of the request
        self._has_body = has_body
        self.status: int | None = None  # there is no answer yet
        self.nbytes = 0
        self.holding: Holding | None = None
        self.is_object = False
        self.refused: Problem | None = None
        self._is_over = False

    async def end_with(self, response: Response, scope: Scope) -> None:
        """Answer in the application's place; its later messages are dropped."""
        await response(scope, _no_message, self)
        self._is_over = True

    async def __call__(self, message: Message) -> None:
        if self._is_over:
            return
        if message["type"] == "http.response.start":
            self._hold(message)
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
        elif not self._has_body:
            message = {**message, "body": b""}
        self.nbytes += len(message.get("body", b""))
        await self._send(message)

    def _hold(self, start: Message) -> None:
        """Count an answer that waits for its reader; of one in pieces, a piece.

        Objects are not: they are files in place, or come in pieces of which few are held, and a
        loader of many ranks asks for many at once.

        Raises:
            Problem: 503, too much waits already.
        """
        nbytes = int(Headers(raw=start["headers"]).get("content-length", "0"))
        nbytes = min(nbytes, self._state.get("piece_nbytes", nbytes))
        if nbytes < SMALL_NBYTES or self.holding is None or not self._has_body:
            return
        if self.is_object:
            return
        try:
            self.holding.take(nbytes)
        except Problem as problem:
            self.refused = problem
            raise


def _refusal(problem: Problem) -> Response:
    headers = None if problem.headers is None else dict(problem.headers)
    return problem_response(problem.status_code, problem.code, str(problem.detail), headers=headers)


async def _no_message() -> Message:
    return {"type": "http.disconnect"}


def audit_record(scope: Scope, status: int | None) -> dict[str, Any]:
    state, client = scope["state"], scope.get("client")
    return {
        "request": state["request_id"],
        "who": state["principal"].name,
        "from": None if client is None else client[0],
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        **state["changed"],
    }


def _is_cross_site(headers: Headers) -> bool:
    """Whether a browser reports a request by another site's page; programs send no such header."""
    site = headers.get("sec-fetch-site")  # no page can forge it; it also sees through proxies
    if site is not None:
        return site not in ("none", "same-origin")
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")


def _too_long(limit: int) -> Problem:
    return Problem(413, "content-too-large", f"a request body may have {limit:,} bytes at most")


def _too_slow(nbytes: int, seconds: float) -> Problem:
    return Problem(
        408,
        "request-timeout",
        f"{nbytes:,} bytes of the request's body came within {seconds:.0f} seconds, and no end"
        "\nsend it again, all of it",
        {"Connection": "close"},
    )


def _host_name(host: str) -> str:
    """Take the port off; an IPv6 address keeps its brackets."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()
