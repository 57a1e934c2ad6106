"""Byte ranges of requests: one range of a response (RFC 9110, 14).

    bytes=0-99    the first hundred     bytes=100-    all from there on     bytes=-5    the last

Invalid ranges, and several at once, get the whole response, as the RFC allows. So does a range of a
response that has changed since (``If-Range``): its client would join halves of two.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Protocol

from fastapi import Response
from starlette.responses import StreamingResponse

from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import Request

__all__ = ["OpenFile", "StoredFile", "asked_range", "is_same_answer", "ranged_response"]

PIECE_NBYTES = 1 << 20
"""Read and sent at once: a player leaves a film long before its end."""

RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)", re.IGNORECASE)
DIGITS = 18
"""A longer number exceeds the size of every object; Python parses none of thousands of digits."""


def asked_range(header: str) -> tuple[str, str] | None:
    """Return the first and the last byte that ``Range`` names, either may be empty; None for all.

    >>> asked_range("bytes=0-99"), asked_range("bytes=-5"), asked_range("bytes=7-")
    (('0', '99'), ('', '5'), ('7', ''))
    >>> asked_range(f"bytes=0-{10**20}")  # as good as any number behind the end
    ('0', '999999999999999999')
    >>> asked_range("bytes=5-2"), asked_range("bytes=0-1,7-8"), asked_range("bytes=-")
    (None, None, None)
    """
    found = RANGE.fullmatch(header.strip())
    if found is None:
        return None
    first, last = map(_bounded, found.groups())
    is_backwards = first and last and int(first) > int(last)
    return (first, last) if (first or last) and not is_backwards else None


def _bounded(digits: str) -> str:
    is_long = len(digits.lstrip("0")) > DIGITS
    return "9" * DIGITS if is_long else digits[-DIGITS:]


def is_same_answer(if_range: str | None, etag: str) -> bool:
    """Whether a range may be answered: its client has no other part, or one of this answer.

    >>> is_same_answer(None, '"a"'), is_same_answer('"a"', '"a"'), is_same_answer('"b"', '"a"')
    (True, True, False)
    """
    return if_range is None or if_range.strip() == etag


class StoredFile(Protocol):
    """Bytes of which some can be read alone."""

    @property
    def nbytes(self) -> int:
        """How many there are."""
        ...

    def content_between(self, start: int, stop: int) -> bytes:
        """Read the bytes [start, stop)."""
        ...


class OpenFile:
    """A file of this machine, which stays readable when it is removed while it is sent.

    It is closed when its answer is gone: a client that leaves ends the answer at any piece.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.nbytes = os.fstat(self._file.fileno()).st_size

    def content_between(self, start: int, stop: int) -> bytes:
        """Read the bytes [start, stop)."""
        self._file.seek(start)
        return self._file.read(stop - start)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


def ranged_response(
    request: Request, body: bytes | StoredFile, headers: dict[str, str], media_type: str
) -> Response:
    """Answer with the bytes that are asked for, or with all; those of a file are read as they go.

    Raises:
        Problem: The body does not have them.
    """
    asked = asked_range(request.headers.get("range", ""))
    nbytes = len(body) if isinstance(body, bytes) else body.nbytes
    start, stop, status = 0, nbytes, 200
    if asked is not None and is_same_answer(request.headers.get("if-range"), headers["ETag"]):
        first, last = asked
        start = int(first) if first else max(0, nbytes - int(last))
        stop = min(nbytes, int(last) + 1) if first and last else nbytes
        if start >= stop:
            raise Problem(
                416,
                "range-not-satisfiable",
                f"there are {nbytes:,} bytes: none from {start} on",
                {"Content-Range": f"bytes */{nbytes}"},
            )
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{nbytes}"
        status = 206
    if isinstance(body, bytes):
        return Response(body[start:stop], status, headers, media_type)
    head = body.content_between(start, min(stop, start + PIECE_NBYTES))  # errors come as answers
    if len(head) == stop - start:
        return Response(head, status, headers, media_type)
    headers["Content-Length"] = str(stop - start)
    request.state.piece_nbytes = PIECE_NBYTES  # all that is held of it at a time
    pieces = _pieces(body, head, start + len(head), stop)
    return StreamingResponse(pieces, status, headers, media_type)


def _pieces(body: StoredFile, head: bytes, start: int, stop: int) -> Iterator[bytes]:
    yield head
    for first in range(start, stop, PIECE_NBYTES):
        yield body.content_between(first, min(stop, first + PIECE_NBYTES))
