"""Bodies of requests as JSON: never longer, deeper or fuller than a bound, and read off the loop.

    Content-Encoding    none but identity (415): nothing is unpacked before it is known who asks
    bytes               counted as they come, by the guard (413)
    values              MAX_ASKED_VALUES, or MAX_BROUGHT_VALUES of rows that are brought (413)
    depth               MAX_DEPTH levels of arrays and objects within each other (422)
    names               each member of an object once (422); of a body that brings rows, up to
                        MAX_COMPARED_NBYTES

A megabyte of ``[],[],…`` is 20 megabytes of Python, and as many of its errors half a gigabyte: the
bounds on values and the types of requests (`messages.Asked`) keep both small. A body is decoded
and validated in one of a few threads, while the loop answers other requests. The decoder holds the
interpreter's lock all the while, so the garbage collector, which would visit every list several
times as they are made, is paused for as long.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyio import to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from anyio import CapacityLimiter

__all__ = ["MAX_BROUGHT_VALUES", "BodyRoute", "in_body_thread", "parsed_json", "too_many_values"]

MAX_ASKED_VALUES = 200_000  # of a list of ids in a query's parameters, say
MAX_BROUGHT_VALUES = 1_000_000
MAX_DEPTH = 64
MAX_COMPARED_NBYTES = 64 << 10

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class BodyRoute(APIRoute):
    """A route whose JSON body is decoded and validated in a thread, within the bounds above."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give the route a request that reads its body so."""
        handle = super().get_route_handler()
        params = self.dependant.body_params
        whole = [field for field in params if field is self.body_field]  # the body, not a member

        def read(body: bytes) -> Any:
            with COLLECTOR.paused():
                value = _bounded(_loads, body, most=MAX_ASKED_VALUES)
                for field in whole:
                    value, errors = field.validate(value, loc=("body",))
                    if errors:
                        raise RequestValidationError(errors)
            return value

        async def handled(request: Request) -> Response:
            try:
                return await handle(_BoundedRequest(request, read))
            except HTTPException as error:
                if isinstance(error.__cause__, RequestValidationError):
                    raise error.__cause__ from None  # FastAPI made a 400 of what json() raised
                raise

        return handled


class _BoundedRequest(Request):
    """A request whose ``json()`` is an instance of the route's model: FastAPI takes it as it is."""

    def __init__(self, request: Request, read: Callable[[bytes], Any]) -> None:
        super().__init__(request.scope, request.receive)
        self._read = read

    async def json(self) -> Any:
        return await in_body_thread(self, partial(self._read, await self.body()))


class _Collector:
    """Python's garbage collector, paused while any thread decodes a body."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._decoding = 0
        self._was_enabled = False

    @contextmanager
    def paused(self) -> Generator[None]:
        """Let it visit no object until all such blocks have ended."""
        with self._lock:
            if self._decoding == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._decoding += 1
        try:
            yield
        finally:
            with self._lock:
                self._decoding -= 1
                if self._decoding == 0 and self._was_enabled:
                    gc.enable()


COLLECTOR = _Collector()


async def in_body_thread(request: Request, work: Callable[[], T]) -> T:
    """Do what takes a body apart in one of the few threads for it."""
    limiter = cast("CapacityLimiter", request.app.state.body_threads)
    return await to_thread.run_sync(work, limiter=limiter)


def parsed_json(model: type[M], body: bytes) -> M:
    """Read a body that brings rows.

    Raises:
        Problem: 413, it has too many values; 422, it cannot be read.
        RequestValidationError: It does not match the model.
    """
    try:
        with COLLECTOR.paused():
            try:
                value = _bounded(from_json, body, most=MAX_BROUGHT_VALUES)
            except ValueError:
                return model.model_validate_json(body)  # says where it breaks off
            if len(body) <= MAX_COMPARED_NBYTES:
                _loads(body)
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


def _loads(body: bytes) -> Any:
    return json.loads(body, object_pairs_hook=_members)


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        known: set[str] = set()
        twice = next(name for name, _ in pairs if name in known or known.add(name))
        detail = f"the body's JSON gives the member {twice[:80]!r} twice\nname each member once"
        raise Problem(422, "invalid-input", detail)
    return members


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
    """Whether arrays and objects are nested at most MAX_DEPTH levels within each other."""
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
