"""How long responses may be cached: permanently for a version, with revalidation for a branch.

``main@12`` names the same rows permanently, so its responses may be cached permanently; ``main``
or nothing means the newest commit, so a cache must ask each time. An ETag is made of what the
answer depends on, never of its bytes: it is known before anything is read.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from starlette.responses import Response

from tensorlake.errors import shown
from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["asks_any", "cache_headers", "etag_of", "is_fixed", "not_modified"]

# Part of every ETag: raise it when the same samples are rendered or written otherwise.
RENDERER_VERSION = 1
ETAG_NBYTES = 12
IMMUTABLE = "private, max-age=31536000, immutable"


def is_fixed(version: str | None) -> bool:
    """Whether a version is a commit (``main@12``); branches move, and tags can be created again."""
    return version is not None and re.fullmatch(r"[^@]+@[0-9]+", version) is not None


def etag_of(*parts: object) -> str:
    """Make a strong ETag of all that an answer depends on."""
    text = "\x00".join(map(str, (RENDERER_VERSION, *parts)))
    return f'"{hashlib.blake2b(text.encode(), digest_size=ETAG_NBYTES).hexdigest()}"'


def cache_headers(version: str | None, etag: str) -> dict[str, str]:
    """Return the headers of an answer about a version, as the request named it."""
    return {
        "ETag": etag,
        "Cache-Control": IMMUTABLE if is_fixed(version) else "private, no-cache",
        "Vary": "Authorization, Cookie, Accept",
    }


def asks_any(request: Request) -> bool:
    """Whether the client wants no answer if there is one at all, whatever it has: ``*``."""
    return request.headers.get("if-none-match", "").strip() == "*"


def not_modified(request: Request, headers: dict[str, str]) -> Response | None:
    """Return 304 when the client has this answer already.

    Raises:
        Problem: 412, ``If-Match`` names only other answers.
    """
    wanted = request.headers.get("if-match")
    if wanted is not None and not {headers["ETag"], "*"} & _tags(wanted):  # weak tags match none
        raise Problem(
            412,
            "precondition-failed",
            f"If-Match names {shown(wanted)}, and this is {headers['ETag']}"
            "\nrequest it again without If-Match",
        )
    known = request.headers.get("if-none-match")
    if known is None:
        return None
    if {headers["ETag"], "*"} & {tag.removeprefix("W/") for tag in _tags(known)}:
        return Response(status_code=304, headers=headers)
    return None


def _tags(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",")}
