"""The head of a request: its bytes are bounded, and headers that decide are given once.

Host             one, whose name may be checked (RFC 9112, 3.2); HTTP/1.0 needs none
Authorization    one at most: of two, a proxy and this server could read different ones
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

__all__ = ["MAX_HEADERS_NBYTES", "check_head", "headers_too_large"]

MAX_HEADERS_NBYTES = 64 << 10


def check_head(scope: Scope, headers: Headers) -> None:
    """Check the head of a request that came whole.

    Raises:
        Problem: 400, a header is missing or given twice; 431, there are too many bytes.
    """
    if sum(len(name) + len(value) for name, value in headers.raw) > MAX_HEADERS_NBYTES:
        raise headers_too_large()
    hosts = len(headers.getlist("host"))
    if hosts > 1 or (hosts == 0 and scope.get("http_version") != "1.0"):
        raise _not_once("Host", hosts)
    if (given := len(headers.getlist("authorization"))) > 1:
        raise _not_once("Authorization", given)


def headers_too_large() -> Problem:
    """Build the refusal of a request with too many bytes before its body."""
    detail = (
        f"a request's address and headers may have {MAX_HEADERS_NBYTES:,} bytes at most"
        "\nsend long texts in a body"
    )
    return Problem(431, "headers-too-large", detail)


def _not_once(name: str, count: int) -> Problem:
    return Problem(400, "bad-request", f"a request has {count} {name} headers\nsend one")
