"""Jobs: requests that are answered later, on the preference ``respond-async`` of their client.

    POST …/query, Prefer: respond-async  ──►  202, Location: /v1/jobs/{id}
    GET  /v1/jobs/{id}                   ──►  202 while it runs, then the answer of the request
    DELETE /v1/jobs/{id}                 ──►  it is cancelled, and forgotten

A job runs in this process, and its answer is kept in its memory for an hour, within a budget.
Only the token that started it finds it. Several workers have no jobs (501), because another process
would be asked for them.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from fastapi import Response
from pydantic import BaseModel

from tensorlake.errors import QueryLimitError
from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.dataset import QueryLimits
    from tensorlake_server.request.stream_limits import Place

__all__ = ["Job", "Jobs", "prefers_async"]

ID_NBYTES = 16
KEPT_S = 3600.0
ANSWERS_NBYTES = 64 << 20
"""Bytes of answers that wait to be fetched; the oldest expire first."""


def prefers_async(prefer: str) -> bool:
    """Whether a ``Prefer`` header (RFC 7240) asks for an answer later.

    >>> prefers_async('return=minimal, Respond-Async; wait=10'), prefers_async("wait=10")
    (True, False)
    """
    return any(
        one.partition(";")[0].strip().lower() == "respond-async" for one in prefer.split(",")
    )


@dataclass(slots=True)
class Job:
    """A request that is answered later.

    Attributes:
        id: Its name, which is not to be guessed.
        who: The caller that started it.
        started: When, in seconds since 1970.
        answer: Its answer; None while it runs.
        error: Why it failed; None when it did not.
        cancelled: Set to end it.
    """

    id: str
    who: str
    started: float
    answer: Response | None = None
    error: Exception | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def is_running(self) -> bool:
        """Whether it has no answer yet."""
        return self.answer is None and self.error is None

    @property
    def nbytes(self) -> int:
        """Bytes of its answer."""
        return 0 if self.answer is None else len(self.answer.body)


class Jobs:
    """The jobs of one process. Used on the event loop.

    Args:
        limit_s: How long one may run.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self, who: str, place: Place, limits: QueryLimits, work: Callable[[QueryLimits], Any]
    ) -> Job:
        """Start a job, which leaves its place when it ends."""
        self._forget_old()
        job = Job(secrets.token_urlsafe(ID_NBYTES), who, time.time())
        self._jobs[job.id] = job
        own = replace(limits, timeout_s=self._limit_s, cancelled=job.cancelled.is_set)
        task = asyncio.create_task(self._run(job, place, own, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def find(self, job_id: str, who: str) -> Job:
        """Return a job of who asks.

        Raises:
            Problem: 404, they have none of this id, or no longer.
        """
        self._forget_old()
        job = self._jobs.get(job_id)
        if job is None or job.who != who:
            raise Problem(
                404,
                "job-not-found",
                f"there is no job {job_id[:32]!r}: it was cancelled, or fetched too late,"
                " or the server was started again\nsend the request again",
            )
        return job

    def forget(self, job: Job) -> None:
        """Cancel a job, and forget its answer."""
        job.cancelled.set()
        self._jobs.pop(job.id, None)

    def cancel_all(self) -> None:
        """Cancel every job: the server stops."""
        for job in self._jobs.values():
            job.cancelled.set()

    async def _run(
        self, job: Job, place: Place, limits: QueryLimits, work: Callable[[QueryLimits], Any]
    ) -> None:
        try:
            found = await to_thread.run_sync(work, limits)
        except Exception as error:  # noqa: BLE001 - the client that fetches the answer gets it
            job.error = error
        else:
            job.answer = found if isinstance(found, Response) else _written(found)
            if job.nbytes > ANSWERS_NBYTES:
                job.answer, job.error = None, _too_large(job.nbytes)
        finally:
            place.leave()

    def _forget_old(self) -> None:
        """Let answers expire, the oldest first, within the budget."""
        left = ANSWERS_NBYTES
        oldest = time.time() - KEPT_S - self._limit_s
        for job in sorted(self._jobs.values(), key=lambda one: -one.started):
            left -= job.nbytes
            if not job.is_running and (left < 0 or job.started < oldest):
                del self._jobs[job.id]


def _written(found: BaseModel) -> Response:
    return Response(found.model_dump_json(), media_type="application/json")


def _too_large(nbytes: int) -> QueryLimitError:
    return QueryLimitError(
        f"the answer has {nbytes:,} bytes, and a job keeps {ANSWERS_NBYTES:,}"
        "\nask for fewer rows, with limit="
    )
