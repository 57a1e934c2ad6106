"""What every request passes before it reaches a route: host, token, body size, headers.

* ``Host`` must be a served name (421 otherwise), or a page of another site could rebind its DNS
  name to 127.0.0.1 and read the lake with the visitor's browser.
* ``/v1`` needs the token, as a bearer token or as the cookie that ``POST /v1/session`` exchanges it
  for. The cookie is HttpOnly and SameSite=Strict, and holds a digest, so that it does not give the
  token away; its name holds the port, because cookies do not tell ports apart.
* Bodies are counted as they arrive.
* Every answer is ``nosniff`` and names who may embed it; routes set what is special to them.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from tensorlake_server.problems import Problem, problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from tensorlake_server.settings import Settings

__all__ = ["Guard", "cookie_name", "cookie_value", "is_token"]

OPEN_ROUTES = frozenset({"/v1/session"})  # how the token is shown for the first time

DEFAULT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "SAMEORIGIN",
}


def cookie_name(settings: Settings) -> str:
    """Name this server's cookie; servers on other ports of the host have their own."""
    return f"tensorlake-{settings.port}"


def cookie_value(settings: Settings) -> str:
    """Derive what the cookie holds from the token."""
    return hmac.new(settings.token.encode(), b"session", hashlib.sha256).hexdigest()


def is_token(settings: Settings, given: str) -> bool:
    """Compare a token in constant time."""
    return hmac.compare_digest(given.encode(), settings.token.encode())


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_default_headers(send)
        headers = Headers(scope=scope)
        problem = self._refusal(scope["path"], headers)
        if problem is not None:
            refusal = problem_response(
                problem.status_code,
                problem.code,
                str(problem.detail),
                headers=None if problem.headers is None else dict(problem.headers),
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _refusal(self, path: str, headers: Headers) -> Problem | None:
        settings = self._settings
        served = settings.served_hosts
        host = _host_name(headers.get("host", ""))
        if served is not None and host not in served:
            return Problem(
                421,
                "misdirected-request",
                f"this server does not answer for the host {host!r}"
                f"\nuse one of {', '.join(sorted(served))}",
            )
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > settings.max_body_nbytes:
            return _too_long(settings)
        if not settings.needs_token or not path.startswith("/v1/") or path in OPEN_ROUTES:
            return None
        if self._has_token(headers):
            return None
        return Problem(
            401,
            "unauthorized",
            "this server needs its token\nopen the link that `tensorlake serve` printed,"
            " or send it: Authorization: Bearer <token>",
            {"WWW-Authenticate": 'Bearer realm="tensorlake"'},
        )

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and is_token(self._settings, bearer.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False  # a malformed cookie is no cookie
        shown = cookies.get(cookie_name(self._settings))
        expected = cookie_value(self._settings)
        return shown is not None and hmac.compare_digest(shown.value.encode(), expected.encode())

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._settings.max_body_nbytes:
                raise _too_long(self._settings)
            return message

        return counted


def _too_long(settings: Settings) -> Problem:
    limit = settings.max_body_nbytes
    return Problem(413, "content-too-large", f"a request body may have {limit:,} bytes at most")


def _host_name(host: str) -> str:
    """Take the port off; an IPv6 address keeps its brackets."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _with_default_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in DEFAULT_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers
