"""Bodies of requests as JSON: never longer, deeper or fuller than a bound, and read off the loop.

    Content-Encoding    none but identity (415): nothing is unpacked before it is known who asks
    bytes               counted as they come, by the guard (413)
    values              MAX_ASKED_VALUES, or MAX_BROUGHT_VALUES of rows that are brought (413)
    depth               MAX_DEPTH levels of arrays and objects within each other (422)

A megabyte of ``[],[],…`` is 20 megabytes of Python, and as many of its errors half a gigabyte: the
bounds on values and the types of requests (`messages.Asked`) keep both small. A body is parsed in
one of a few threads, for the loop answers everybody else meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyio import to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from tensorlake_server.problems import Problem

if TYPE_CHECKING:
    from anyio import CapacityLimiter

__all__ = ["MAX_BROUGHT_VALUES", "BodyRoute", "in_body_thread", "parsed_json", "too_many_values"]

MAX_ASKED_VALUES = 200_000  # of a list of ids in a query's parameters, say
MAX_BROUGHT_VALUES = 1_000_000
MAX_DEPTH = 64

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class BodyRoute(APIRoute):
    """A route whose JSON body is parsed in a thread, within the bounds above."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give the route a request that reads its body so."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handle(_BoundedRequest(request.scope, request.receive))

        return handled


class _BoundedRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        read = partial(_bounded, json.loads, body, most=MAX_ASKED_VALUES)
        return await in_body_thread(self, read)


async def in_body_thread(request: Request, work: Callable[[], T]) -> T:
    """Do what takes a body apart in one of the few threads for it."""
    limiter = cast("CapacityLimiter", request.app.state.body_threads)
    return await to_thread.run_sync(work, limiter=limiter)


def parsed_json(model: type[M], body: bytes) -> M:
    """Read a body that brings rows.

    Raises:
        Problem: 413, it has too many values; 422, it cannot be read.
        RequestValidationError: It is not what the model says.
    """
    try:
        try:
            value = _bounded(from_json, body, most=MAX_BROUGHT_VALUES)
        except ValueError:
            return model.model_validate_json(body)  # says where it breaks off
        return model.model_validate(value)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from error


def too_many_values(what: str, most: int) -> Problem:
    """Build the refusal of a body that would take too much memory."""
    return Problem(
        413,
        "content-too-large",
        f"a request may have {most:,} {what} at most\nsend them in several requests",
    )


def _bounded(read: Callable[[bytes], Any], body: bytes, *, most: int) -> Any:
    opened = body.count(b"[") + body.count(b"{")
    if body.count(b",") + opened > most:
        raise too_many_values("values in its JSON", most)
    value = read(body)
    if opened > MAX_DEPTH and not _is_flat(value):
        raise Problem(
            422,
            "invalid-input",
            f"the body's JSON is nested deeper than {MAX_DEPTH} levels"
            "\nsend arrays as Arrow, and JSON as a text",
        )
    return value


def _is_flat(value: Any) -> bool:
    """Whether arrays and objects lie at most MAX_DEPTH levels within each other."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += cast("dict[str, Any]", one).values()
            elif isinstance(one, list):
                below += cast("list[Any]", one)
        level = [one for one in below if isinstance(one, dict | list)]
        if not level:
            return True
    return False
