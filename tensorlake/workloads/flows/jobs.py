"""Jobs: requests to a server that are answered later, as flows of one function.

    enqueue(who, request)      a row in the database, which is durable on return
    answer(request, …)         called by a process that serves; its bytes are another row
    find(id, who)              the state of the job, and its answer
    list(who)                  the jobs of a client

They are flows of another application than those of `flow`, whose code is not here: neither takes
the other's. Jobs that had begun in a process that ended are taken up by another one (`executors`).
"""

from __future__ import annotations

import builtins
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tensorlake.workloads.flows.database import (
    connect,
    dbos,
    launch,
    migrate,
    opened,
    stop_engine,
)
from tensorlake.workloads.flows.executors import Interrupted

__all__ = ["Job", "Jobs"]

APPLICATION = "tensorlake-jobs"
QUEUE = "tensorlake-jobs"
NAME = "tensorlake.job"
ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
STATES = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
}
"""The states that a client sees: a job that was cancelled is gone."""

WHAT = "what"
"""The attribute with the description of a job."""


@dataclass(frozen=True, slots=True)
class Job:
    """A request that is answered later.

    Attributes:
        id: Its name, which is not to be guessed.
        what: A short description.
        state: "queued", "running", "done" (it has an answer) or "failed" (it will never have one).
        started: When it was sent.
        request: The request; None while it has no answer.
        answer: Its answer; None while it has none, and in a list.
    """

    id: str
    what: str
    state: str
    started: dt.datetime
    request: bytes | None = None
    answer: bytes | None = None


class Jobs:
    """The jobs of a database, and their answers by this process. Thread-safe.

    Args:
        database: Path of an SQLite file, or ``postgresql://…``.
        answer: Answers a request, in a thread; the function that it gets tells whether the job was
            cancelled. Raises `Interrupted` to leave it to another process.
        at_once: Jobs that run at once in this process.
        kept_s: How long an answer is kept.

    Raises:
        StorageError: The database cannot be opened, or is of another kind.
    """

    def __init__(
        self,
        database: str,
        answer: Callable[[bytes, Callable[[], bool]], bytes],
        *,
        at_once: int,
        kept_s: float,
    ) -> None:
        module, url = dbos(), self.url_of(database)
        migrate(url)
        self._kept = dt.timedelta(seconds=kept_s)
        with opened(url):
            self._client = module.DBOSClient(system_database_url=url, application_name=APPLICATION)
        _workflow()
        _answering[:] = [lambda id_, request: answer(request, lambda: self._is_cancelled(id_))]
        launch(has_code=NAME.__eq__, application=APPLICATION, queue=QUEUE, at_once=at_once)

    @staticmethod
    def url_of(database: str) -> str:
        """Check a database, and return its URL; it is that of this process from now on.

        Raises:
            InvalidInputError: It is neither a path nor PostgreSQL's URL.
            MissingExtraError: The extra ``flows`` is not installed.
        """
        dbos()
        return connect(database)

    @staticmethod
    def check(database: str) -> None:
        """Open a database, and make its tables if they are not there.

        Raises:
            InvalidInputError: It is neither a path nor PostgreSQL's URL.
            MissingExtraError: The extra ``flows`` is not installed.
            StorageError: It cannot be opened, or is of another kind.
        """
        migrate(Jobs.url_of(database))

    def close(self) -> None:
        """Take up no more jobs; those under way are left to another process."""
        _answering.clear()
        stop_engine()
        self._client.destroy()

    def enqueue(self, who: str, request: bytes, *, what: str) -> str:
        """Add a job, and return its id; `what` describes it in a list."""
        options = {
            "queue_name": QUEUE,
            "workflow_name": NAME,
            "authenticated_user": who,
            "attributes": {WHAT: what},
        }
        self.forget_old()
        return str(self._client.enqueue(options, request).get_workflow_id())

    def unfinished(self, who: str) -> int:
        """Count the jobs of a caller that have no answer."""
        states = ["ENQUEUED", "DELAYED", "PENDING"]
        found = self._client.list_workflows(user=who, status=states, load_input=False, limit=10_000)
        return len(found)

    def find(self, id_: str, who: str) -> Job | None:
        """Return a job of a caller; None if they have none of this id."""
        found = self._client.list_workflows(workflow_ids=[id_], user=who, load_input=False)
        if not found or found[0].status == "CANCELLED":
            return None
        status = found[0]
        if status.output is None:
            return _described(status)
        # Only now: clients ask often, and requests may be long
        found = self._client.list_workflows(workflow_ids=[id_], user=who)
        if not found or found[0].input is None:
            return None
        return replace(_described(status), request=found[0].input["args"][0], answer=status.output)

    def list(self, who: str, limit: int) -> builtins.list[Job]:
        """Return the jobs of a caller, the newest first, without requests and answers."""
        found = self._client.list_workflows(
            user=who,
            status=list(STATES),
            limit=limit,
            sort_desc=True,
            load_input=False,
            load_output=False,
        )
        return [_described(one) for one in found]

    def forget(self, id_: str) -> None:
        """Cancel a job, wherever it runs, and delete its answer."""
        self._client.cancel_workflow(id_)
        if self._status(id_) != "CANCELLED":  # it had ended
            self._client.delete_workflow(id_)

    def forget_old(self) -> None:
        """Delete answers that no client fetched in time, and jobs that were cancelled."""
        before = (dt.datetime.now(dt.UTC) - self._kept).isoformat()
        old = self._client.list_workflows(
            status=list(ENDED), completed_before=before, load_input=False, load_output=False
        )
        if old:
            self._client.delete_workflows([one.workflow_id for one in old])

    def _is_cancelled(self, id_: str) -> bool:
        return self._status(id_) in (None, "CANCELLED")

    def _status(self, id_: str) -> str | None:
        found = self._client.list_workflows(workflow_ids=[id_], load_input=False, load_output=False)
        return found[0].status if found else None


def _described(status: Any) -> Job:
    return Job(
        id=status.workflow_id,
        what=(status.attributes or {}).get(WHAT, ""),
        state=STATES[status.status],
        started=dt.datetime.fromtimestamp((status.created_at or 0) / 1000, dt.UTC),
    )


_answering: list[Callable[[str, bytes], bytes]] = []
"""The function of this process that answers."""


@cache
def _workflow() -> Any:
    """Register the flow of all jobs, once a process."""

    def job(request: bytes) -> bytes:
        if not _answering:
            raise Interrupted
        return _answering[0](str(dbos().DBOS.workflow_id), request)

    return dbos().DBOS.workflow(name=NAME)(job)
