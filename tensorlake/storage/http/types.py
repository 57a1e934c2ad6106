"""What came of a request over HTTP, whichever client sent it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from tensorlake.storage.api.store import Buffer

__all__ = ["SMALL_NBYTES", "Answer", "AttemptError", "check_length", "no_answer"]

SMALL_NBYTES: Final = 1 << 20
"""What an answer to a read may always hold: an entry, or what a server says went wrong."""


class AttemptError(Exception):
    """An attempt failed, and another could succeed.

    Attributes:
        status: What the server answered, or what it amounts to.
        was_sent: Whether the server may have seen the request.
        answer: What it answered, where it did.
    """

    def __init__(
        self,
        why: str,
        *,
        status: int | None = None,
        was_sent: bool = True,
        answer: Answer | None = None,
    ) -> None:
        super().__init__(why)
        self.status = status
        self.was_sent = was_sent
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that came whole; its headers are found by lower case.

    >>> Answer(404, {}, b"").reason_phrase
    'Not Found'
    """

    status_code: int
    headers: Mapping[str, str]
    content: Buffer

    @property
    def reason_phrase(self) -> str:
        """Its status in words; empty where HTTP has none."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""


def check_length(nbytes: int, most_nbytes: int | None) -> None:
    """Refuse a body that is longer than what was asked for.

    Raises:
        AttemptError: It is.
    """
    if most_nbytes is not None and nbytes > max(most_nbytes, SMALL_NBYTES):
        raise AttemptError(f"{nbytes} bytes came where {most_nbytes} were asked for")


def no_answer() -> AttemptError:
    """Build the error of a server that says no more."""
    return AttemptError("no answer in time", status=HTTPStatus.REQUEST_TIMEOUT)
