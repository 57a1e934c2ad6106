"""Answers and errors of an HTTP request, common to both clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from tensorlake.storage.api.store import Buffer

__all__ = ["SMALL_NBYTES", "Answer", "AttemptError", "check_length", "no_answer"]

SMALL_NBYTES: Final = 1 << 20
"""Size that an answer to a read may always have: for an entry, or an error's description."""


class AttemptError(Exception):
    """An attempt failed, and another could succeed.

    Attributes:
        status: The server's status, or an equivalent one.
        was_sent: Whether the server may have seen the request.
        answer: Its answer, if any.
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
    """A complete answer; its headers are keyed by lower-case names.

    >>> Answer(404, {}, b"").reason_phrase
    'Not Found'
    """

    status_code: int
    headers: Mapping[str, str]
    content: Buffer

    @property
    def reason_phrase(self) -> str:
        """The reason phrase of its status; empty where HTTP has none."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""


def check_length(nbytes: int, most_nbytes: int | None) -> None:
    """Reject a body that is longer than requested.

    Raises:
        AttemptError: It is.
    """
    if most_nbytes is not None and nbytes > max(most_nbytes, SMALL_NBYTES):
        raise AttemptError(f"received {nbytes} bytes where {most_nbytes} were requested")


def no_answer() -> AttemptError:
    """Build the error of a server that stopped answering."""
    return AttemptError("no answer in time", status=HTTPStatus.REQUEST_TIMEOUT)
