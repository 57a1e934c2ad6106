"""Convert a tensorlake server's error answers to the SDK's own errors.

Problems (RFC 9457) carry the ``code`` of the error that the server met: the same class is raised
here, with the same message. Any other error answer comes from a different kind of server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tensorlake import errors
from tensorlake.errors import AccessError, StorageError, TensorlakeError
from tensorlake.storage.http.types import Answer

__all__ = ["detail_of", "error_of", "error_of_problem", "is_problem"]

PROBLEM_TYPE = "application/problem+json"
FORBIDDEN = frozenset({401, 403})
KINDS: Mapping[str, type[TensorlakeError]] = {
    kind.code: kind
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type) and issubclass(kind, TensorlakeError)
}


def error_of_problem(problem: Mapping[str, Any], url: str) -> TensorlakeError:
    """Build the error that a problem describes.

    >>> error_of_problem({"code": "query-limit", "detail": "30 s are over"}, "http://host/pets")
    QueryLimitError('30 s are over')
    """
    kind = KINDS.get(str(problem.get("code")))
    if kind is None:
        kind = AccessError if problem.get("status") in FORBIDDEN else StorageError
    return kind(str(problem.get("detail", "the server gave no reason")), url=url)


def error_of(answer: Answer, url: str) -> TensorlakeError:
    """Build the error that an answer describes."""
    if is_problem(answer):
        return error_of_problem(msgspec.json.decode(answer.content), url)
    return StorageError(
        f"{url!r} answered with status {answer.status_code}: {detail_of(answer)}\n"
        "check that a tensorlake server answers there",
        url=url,
        status=answer.status_code,
    )


def detail_of(answer: Answer) -> str:
    """Return the detail of a tensorlake problem, or the status of another server's answer."""
    if is_problem(answer):
        return str(msgspec.json.decode(answer.content).get("detail", ""))
    return answer.reason_phrase or "no reason given"


def is_problem(answer: Answer) -> bool:
    """Whether an answer is a problem of a tensorlake server."""
    return answer.headers.get("content-type", "").startswith(PROBLEM_TYPE)
