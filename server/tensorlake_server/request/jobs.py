"""Jobs: requests that are answered later, on the preference ``respond-async`` of their client.

    POST …/query, Prefer: respond-async  ──►  202, Location: /v1/jobs/{id}
    GET  /v1/jobs/{id}                   ──►  202 while it runs, then the answer of the request
    GET  /v1/jobs                        ──►  those of the client
    DELETE /v1/jobs/{id}                 ──►  it is cancelled, and forgotten

A job is the request itself, written to the database of flows (``--flows``) with its principal, and
sent to the application again by a process that has a place for it. So it has no code of its own to
be correct in, and outlives a restart. Only the caller that started it finds it.
"""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tensorlake.errors import shown
from tensorlake.storage import name_of_part
from tensorlake_server.auth.principal import Principal
from tensorlake_server.auth.scopes import Scope
from tensorlake_server.http.problems import Problem, problem_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI, Request, Response
    from starlette.types import Message

    from tensorlake.workloads import flows
    from tensorlake_server.settings.settings import Settings

__all__ = ["JOB", "ServedJobs", "dataset_asked", "prefers_async", "read_answer"]

JOB = "tensorlake.job"
"""The key of a request's scope that has a job's principal: no client can set it."""

KEPT_S = 3600.0
LOOK_S = 0.5
WHAT_CHARACTERS = 2000  # of a path, in a list
ANSWER_NBYTES_MAX = 64 << 20
KEPT_HEADERS = frozenset({b"accept", b"content-type", b"host"})
DROPPED_HEADERS = frozenset({b"x-request-id", b"content-length", b"date", b"server"})


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """A request, and who sent it."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: str
    name: str
    author: str | None
    scopes: tuple[str, ...]


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def prefers_async(prefer: str) -> bool:
    """Whether a ``Prefer`` header (RFC 7240) asks for an answer later.

    >>> prefers_async('return=minimal, Respond-Async; wait=10'), prefers_async("wait=10")
    (True, False)
    """
    return any(
        one.partition(";")[0].strip().lower() == "respond-async" for one in prefer.split(",")
    )


class ServedJobs:
    """The jobs of an application, from its start to its end. Made in a thread: it takes a while.

    Args:
        app: The application, which answers them.
        settings: With the limits.
        database: The database of flows.
        loop: That it is served on.
    """

    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        database: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        from tensorlake.workloads import flows

        self._app = app
        self._loop = loop
        self._stopping = asyncio.Event()
        self._most_each = settings.max_queries_each
        self._jobs = flows.Jobs(
            database,
            self._answer,
            at_once=settings.max_queries,
            kept_s=KEPT_S,
        )

    def stop(self) -> None:
        """Leave the jobs under way to another process, or to the next start. On the loop."""
        self._stopping.set()

    def close(self) -> None:
        """Close the database, after `stop`."""
        self._jobs.close()

    def start(self, request: Request, body: bytes, principal: Principal) -> str:
        """Write a request as a job, and return its id. Blocks.

        Raises:
            Problem: 429, its principal has too many that have no answer.
        """
        if self._jobs.unfinished(principal.name) >= self._most_each:
            raise Problem(
                429,
                "too-many-jobs",
                f"this server keeps {self._most_each} jobs without an answer of each token"
                "\ncancel one with DELETE, or try again later",
                {"Retry-After": "5"},
            )
        scope = request.scope
        asked = _Asked(
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"].decode("latin-1"),
            headers=_text(one for one in scope["headers"] if one[0] in KEPT_HEADERS),
            body=base64.b64encode(body).decode(),
            name=principal.name,
            author=principal.author,
            scopes=tuple(map(str, principal.scopes)),
        )
        what = f"{asked.method} {asked.path}"[:WHAT_CHARACTERS]
        return self._jobs.enqueue(principal.name, msgspec.json.encode(asked), what=what)

    def list(self, who: str, limit: int) -> list[flows.Job]:
        """Return the jobs of a caller, the newest first. Blocks."""
        return self._jobs.list(who, limit)

    def find(self, job_id: str, who: str) -> flows.Job:
        """Return a job of a caller. Blocks.

        Raises:
            Problem: 404, they have none of this id, or no longer; 500, it cannot be answered.
        """
        job = self._jobs.find(job_id, who)
        if job is None:
            raise Problem(
                404,
                "job-not-found",
                f"there is no job {shown(job_id)} of this token, or its answer is no longer kept"
                "\nsend the request again",
            )
        if job.state == "failed":
            raise Problem(500, "job-failed", f"the job {job_id!r} failed\nsend the request again")
        return job

    def forget_old(self) -> None:
        """Delete answers that were kept for long enough. Blocks."""
        self._jobs.forget_old()

    def forget(self, job: flows.Job) -> None:
        """Cancel a job, and forget its answer. Blocks."""
        self._jobs.forget(job.id)

    def _answer(self, asked: bytes, is_cancelled: Callable[[], bool]) -> bytes:
        """Answer a job; in a thread of its own, which waits for the loop."""
        from tensorlake.workloads import flows

        work = self._ask(msgspec.json.decode(asked, type=_Asked), is_cancelled)
        try:
            answer = asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (CancelledError, RuntimeError):  # the loop ends, or has ended
            work.close()
            raise flows.Interrupted from None
        if self._stopping.is_set():  # the answer may be that its client has gone
            raise flows.Interrupted
        return answer

    async def _ask(self, asked: _Asked, is_cancelled: Callable[[], bool]) -> bytes:
        """Send a request to the application as its principal, and take in the answer."""
        sent = [{"type": "http.request", "body": base64.b64decode(asked.body), "more_body": False}]
        got: dict[str, Any] = {"status": 500, "headers": [], "body": b""}

        async def receive() -> Message:
            if sent:
                return sent.pop()
            while not await asyncio.to_thread(is_cancelled):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), LOOK_S)
                    break
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                got.update(status=message["status"], headers=message["headers"])
            elif len(got["body"]) <= ANSWER_NBYTES_MAX:
                got["body"] += message.get("body", b"")

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": asked.method,
            "path": asked.path,
            "raw_path": asked.path.encode(),
            "root_path": "",
            "query_string": asked.query.encode("latin-1"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in asked.headers],
            "client": ("job", 0),
            "server": ("job", 0),
            "app": self._app,
            JOB: Principal(asked.name, tuple(map(Scope.parse, asked.scopes)), asked.author),
        }
        await self._app(scope, receive, send)
        if len(got["body"]) > ANSWER_NBYTES_MAX:
            refused = _too_large()
            got = {"status": 413, "headers": refused.raw_headers, "body": bytes(refused.body)}
        kept = _text(one for one in got["headers"] if one[0].lower() not in DROPPED_HEADERS)
        return msgspec.msgpack.encode(_Answer(got["status"], kept, got["body"]))


def dataset_asked(request: bytes) -> str | None:
    """Return the dataset that a job's request names; None if it names none."""
    parts = msgspec.json.decode(request, type=_Asked).path.split("/")
    return name_of_part(parts[3]) if parts[1:3] == ["v1", "datasets"] and parts[3:] else None


def read_answer(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return the status, headers and body of a job's answer."""
    found = msgspec.msgpack.decode(answer, type=_Answer)
    return found.status, dict(found.headers), found.body


def _text(headers: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode(), value.decode("latin-1")) for name, value in headers)


def _too_large() -> Response:
    return problem_response(
        413,
        "query-limit",
        f"the answer has more than {ANSWER_NBYTES_MAX:,} bytes, which a job keeps"
        "\nask for fewer rows, with limit=",
    )
