"""What came of a request over HTTP, whichever client sent it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

__all__ = ["Answer", "AttemptError"]


class AttemptError(Exception):
    """An attempt failed, and another could succeed.

    Attributes:
        status: What the server answered, or what it amounts to.
        was_sent: Whether the server may have seen the request.
    """

    def __init__(self, why: str, *, status: int | None = None, was_sent: bool = True) -> None:
        super().__init__(why)
        self.status = status
        self.was_sent = was_sent


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that came whole; its headers are found in any case.

    >>> Answer(404, {}, b"").reason_phrase
    'Not Found'
    """

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def reason_phrase(self) -> str:
        """Its status in words; empty where HTTP has none."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""
