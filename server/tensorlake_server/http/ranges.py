"""Byte ranges of requests: one range of a response (RFC 9110, 14).

    bytes=0-99    the first hundred     bytes=100-    all from there on     bytes=-5    the last

Invalid ranges, and several at once, get the whole response, as the RFC allows. So does a range of a
response that has changed since (``If-Range``): its client would join halves of two.
"""

from __future__ import annotations

import re

__all__ = ["asked_range", "is_same_answer"]

# Numbers as long as any object's: Python reads no text of thousands of digits as one.
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.IGNORECASE)


def asked_range(header: str) -> tuple[str, str] | None:
    """Return the first and the last byte that ``Range`` names, either may be empty; None for all.

    >>> asked_range("bytes=0-99"), asked_range("bytes=-5"), asked_range("bytes=7-")
    (('0', '99'), ('', '5'), ('7', ''))
    >>> asked_range("bytes=5-2"), asked_range("bytes=0-1,7-8"), asked_range("bytes=-")
    (None, None, None)
    """
    found = RANGE.fullmatch(header.strip())
    if found is None:
        return None
    first, last = found.groups()
    is_backwards = first and last and int(first) > int(last)
    return (first, last) if (first or last) and not is_backwards else None


def is_same_answer(if_range: str | None, etag: str) -> bool:
    """Whether a range may be answered: its client has no other part, or one of this answer.

    >>> is_same_answer(None, '"a"'), is_same_answer('"a"', '"a"'), is_same_answer('"b"', '"a"')
    (True, True, False)
    """
    return if_range is None or if_range.strip() == etag
