"""Errors as RFC 9457 problem JSON, with the SDK's stable ``code``.

    {"type": "about:blank", "title": "Not Found", "status": 404,
     "code": "tensor-not-found", "detail": "<the error's message, whole>",
     "start": 6, "stop": 11, "line": 1, "column": 7,          ← of a query's text only
     "conflict": {"base": …, "head": …, "tensor": …, "rows": […], …},         ← of a 409 only
     "constraint": {"check": …, "rows": […]}}                                 ← likewise

The message of a `TensorlakeError` is written for its reader and is sent as it is. Anything else is
a fault of ours: it is logged, and its reader learns only that.
"""

from __future__ import annotations

import json
import logging
import reprlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from tensorlake.errors import (
    AccessError,
    ConflictError,
    ConstraintError,
    CorruptionError,
    ExpiredError,
    InvalidInputError,
    InvalidStateError,
    MissingExtraError,
    NotFoundError,
    QueryError,
    QueryLimitError,
    StorageError,
    StorageTimeoutError,
    TensorlakeError,
    UnsupportedError,
)
from tensorlake_server.http.methods import allowed_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

__all__ = [
    "CLIENT_GONE",
    "PROBLEM_TYPE",
    "ImageTooLargeError",
    "Problem",
    "add_problem_answers",
    "describe_error",
    "fault_response",
    "problem_of",
    "problem_response",
]

log = logging.getLogger("tensorlake.server")

PROBLEM_TYPE = "application/problem+json"
CLIENT_GONE = 499  # noted where a client went before it was answered; nobody receives it


class ImageTooLargeError(UnsupportedError):
    """An image has more pixels than a server decodes to show it."""


# The most special first: the first that fits decides.
STATUSES: tuple[tuple[type[TensorlakeError], int], ...] = (
    (NotFoundError, 404),
    (QueryLimitError, 413),
    (QueryError, 400),
    (ConstraintError, 409),
    (InvalidInputError, 400),
    (ConflictError, 409),
    (InvalidStateError, 409),
    (ExpiredError, 410),
    (AccessError, 403),
    (ImageTooLargeError, 422),
    (UnsupportedError, 501),
    (MissingExtraError, 501),
    (CorruptionError, 500),
    (StorageTimeoutError, 504),
    (StorageError, 502),
)


CONFLICT_FACTS = ("branch", "base", "head", "tensor", "rows", "row_ids", "author", "commit_message")


class Problem(HTTPException):
    """A refusal of the server's own, with its code."""

    def __init__(
        self, status: int, code: str, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, detail, headers)
        self.code = code


class _ProblemResponse(JSONResponse):
    """An answer that repeats what it was given, half characters of it as question marks."""

    media_type = PROBLEM_TYPE

    def render(self, content: Any) -> bytes:
        """Write JSON that every reader takes."""
        body_text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return body_text.encode(errors="replace")


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    facts: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Build the answer for one problem."""
    body = _body(status, code, detail, facts or {})
    return _ProblemResponse(body, status, {"Cache-Control": "no-store", **(headers or {})})


def fault_response(error: Exception) -> JSONResponse:
    """Build the answer for a fault of ours: its reader learns only that, the log has it all."""
    log.error("a request failed", exc_info=error)
    return problem_response(500, "internal", "internal server error; see the server's log")


def problem_of(error: TensorlakeError, *, shown: Callable[[str], str]) -> dict[str, Any]:
    """Describe an error where it can have no status of its own: in an answer that has begun.

    Args:
        error: The error.
        shown: Returns a message without places that those who ask need not know.
    """
    status, facts = describe_error(error)
    return _body(status, error.code, shown(str(error)), facts)


def _body(status: int, code: str, detail: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        **facts,
    }


def describe_error(error: TensorlakeError) -> tuple[int, dict[str, Any]]:
    """Return the status of an error, and its facts: the place in a text, what conflicts."""
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
    facts = {name: getattr(error, name, None) for name in ("line", "column", "start", "stop")}
    span = getattr(error, "span", None)
    if span is not None:
        facts |= {"start": span.start, "stop": span.stop}
    shown: dict[str, Any] = {name: one for name, one in facts.items() if isinstance(one, int)}
    if isinstance(error, ConflictError):
        found = {name: error.facts.get(name) for name in CONFLICT_FACTS}
        shown["conflict"] = {name: one for name, one in found.items() if one is not None}
    if isinstance(error, ConstraintError):
        shown["constraint"] = {name: error.facts.get(name) for name in ("check", "rows")}
    return status, shown


def add_problem_answers(app: FastAPI, *, shown: Callable[[str], str]) -> None:
    """Make every failure of the app's routes a problem.

    Args:
        app: The application.
        shown: Returns a message without places that those who ask need not know.
    """

    def on_tensorlake_error(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, TensorlakeError)
        status, facts = describe_error(error)
        detail = str(error)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("%s: %s", type(error).__name__, detail)
        return problem_response(status, error.code, shown(detail), facts=facts)

    def on_http_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if not isinstance(error, Problem):  # of the router
            error = _misdirected(request, error)
        code, detail = error.code, str(error.detail)
        headers = None if error.headers is None else dict(error.headers)
        if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("%s: %s", code, detail)
        return problem_response(error.status_code, code, shown(detail), headers=headers)

    def on_validation_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        if any(one["loc"] == ("body",) and isinstance(one.get("input"), bytes) for one in found):
            given = request.headers.get("content-type", "")  # FastAPI read no JSON in it
            detail = (
                f"the body's Content-Type is {given!r}\nsend it as Content-Type: application/json"
            )
            return problem_response(415, "unsupported-media-type", detail)
        return problem_response(422, "invalid-input", "\n".join(map(_invalid, found)))

    def on_gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=CLIENT_GONE)

    app.add_exception_handler(TensorlakeError, on_tensorlake_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(ClientDisconnect, on_gone)


def _misdirected(request: Request, error: HTTPException) -> Problem:
    """Describe the routes or methods that exist, for a path or method that does not."""
    path, status = request.url.path, HTTPStatus(error.status_code)
    if status is HTTPStatus.NOT_FOUND:
        detail = (
            f"there is nothing at {path!r}\nGET /v1/openapi.json lists the routes;"
            " in paths write ~ for the / in names"
        )
        return Problem(status, "not-found", detail)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(allowed_methods(request))
        detail = f"{request.method} is not allowed for {path!r}\nuse one of {allowed}"
        return Problem(status, "method-not-allowed", detail, {"Allow": allowed})
    if status is HTTPStatus.BAD_REQUEST:  # FastAPI's, and it says no more
        detail = (
            "the body cannot be read as JSON: it is not UTF-8, is nested too deeply, or has a"
            " number of thousands of digits\nsend UTF-8, and long numbers as strings"
        )
        return Problem(422, "invalid-input", detail)
    code = status.phrase.lower().replace(" ", "-")
    headers = None if error.headers is None else dict(error.headers)
    return Problem(status, code, str(error.detail), headers)


def _invalid(found: Mapping[str, Any]) -> str:
    """Describe what is wrong with one member of a request."""
    if found["type"] == "json_invalid":
        at = "".join(f" at character {place}" for place in found["loc"][1:])
        return f"the body is not JSON: {found['ctx']['error']}{at}"
    place = ".".join(map(str, found["loc"]))
    given = found.get("input")
    shown = given[:80] if isinstance(given, str) else reprlib.repr(given)  # never all of a body
    return f"{place}: {found['msg']} (got {str(shown)[:80]!r})"
