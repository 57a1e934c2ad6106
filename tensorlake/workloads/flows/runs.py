"""The runs of flows, from any process: start, list, inspect, retry, cancel, approve."""

from __future__ import annotations

import builtins
import datetime as dt
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tensorlake.errors import InvalidInputError, InvalidStateError, NotFoundError, shown
from tensorlake.quantities import checked_integer
from tensorlake.workloads.flows.database import QUEUE, clients
from tensorlake.workloads.flows.definition import STEP, WAITS_FOR, Flow
from tensorlake.workloads.flows.executors import NO_CODE
from tensorlake.workloads.flows.jobs import NAME as JOB
from tensorlake.workloads.flows.jobs import STATES as JOB_STATES

__all__ = [
    "FlowRun",
    "StepRun",
    "approve",
    "cancel",
    "inspect",
    "list_runs",
    "retry",
    "start",
]

STATES = {**JOB_STATES, "CANCELLED": "cancelled"}
OWN = "DBOS."
"""Steps of DBOS's own: events and messages."""

ANSWERS = "answers"
"""The attribute of a run with the decisions that were sent to it, by the question."""


@dataclass(frozen=True, slots=True)
class StepRun:
    """One step of a run.

    Attributes:
        name: Name of the function.
        result: Its result; None if it failed.
        error: The first line of its error, if it failed.
    """

    name: str
    result: object
    error: str | None


@dataclass(frozen=True, slots=True)
class FlowRun:
    """One run of a flow.

    Attributes:
        id: Its identity.
        flow: Name of the flow.
        state: "queued", "running", "waiting" (for an approval), "waiting for code" (it was taken by
            a process without its code), "done", "failed" or "cancelled".
        waits_for: The question of the approval that it waits for.
        answers: The decisions that were sent to it, by their question.
        arguments: Its arguments, as text.
        result: Its result, if it is done.
        error: The first line of its error, if it failed.
        started: The time of its start, UTC.
        steps: Its steps that have ended; of `inspect` alone.
    """

    id: str
    flow: str
    state: str
    waits_for: str | None
    arguments: str
    result: object
    error: str | None
    started: dt.datetime
    steps: tuple[StepRun, ...] = ()
    answers: Mapping[str, bool] = field(default_factory=dict[str, bool])

    def __str__(self) -> str:
        why = f" for {self.waits_for!r}" if self.waits_for else ""
        why += f": {self.error}" if self.error else ""
        return f"{self.id} {self.flow}({self.arguments}) {self.state}{why}"


def start(flow: str | Flow[..., Any], /, *args: Any, **kwargs: Any) -> FlowRun:
    """Start a flow, and return at once; a process in `run` that has its code runs it.

    Args:
        flow: The flow, or its name.
        *args: Its arguments.
        **kwargs: Likewise.

    Raises:
        InvalidInputError: An argument cannot be pickled.
    """
    name = flow.name if isinstance(flow, Flow) else flow
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"give a flow or its name, got {shown(flow)}", actual=flow)
    for given in (*args, *kwargs.values()):
        try:
            pickle.dumps(given)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"an argument of flow {name!r} cannot be pickled: {shown(given)}: {error}"
                "\ngive values, or functions of a module by their name",
                actual=given,
            ) from error
    with clients() as client:
        options = {"queue_name": QUEUE, "workflow_name": name}
        return _run(client, client.enqueue(options, *args, **kwargs).get_workflow_id())


def list_runs(*, flow: str | None = None, limit: int = 100) -> builtins.list[FlowRun]:
    """List runs, the newest first; ``flows.list``.

    Args:
        flow: Only those of one flow.
        limit: Number of runs, at most.
    """
    checked_integer(limit, name="limit", least=1)
    with clients() as client:
        found = client.list_workflows(name=flow, limit=limit, sort_desc=True)
        return [_described(client, one) for one in found]


def inspect(id: str) -> FlowRun:  # noqa: A002 - the name of the attribute
    """Return a run with its steps.

    Raises:
        NotFoundError: There is no such run.
    """
    with clients() as client:
        return _run(client, id)


def retry(id: str) -> FlowRun:  # noqa: A002 - likewise
    """Continue a run that failed or was cancelled, at the step that has no result.

    That is the step whose error ended it, also if the flow raised another one from it. An error
    that the flow caught before is a result; after one that its own code raised, the run continues
    at its last step if that failed, or else after it.

    Raises:
        InvalidStateError: It is in another state.
        NotFoundError: There is no such run.
    """
    with clients() as client:
        found = _run(client, id)
        if found.state == "failed":
            client.rewind_workflow(id, start_step=_first_to_repeat(client, id), queue_name=QUEUE)
        elif found.state == "cancelled":
            client.resume_workflow(id, queue_name=QUEUE)
        else:
            raise InvalidStateError(
                f"flow {id!r} is {found.state}: only a run that failed or was cancelled is retried"
            )
        return _run(client, id)


def cancel(id: str) -> FlowRun:  # noqa: A002 - likewise
    """Cancel a run: it ends before its next step.

    Raises:
        InvalidStateError: It has ended.
        NotFoundError: There is no such run.
    """
    with clients() as client:
        found = _run(client, id)
        if found.state in ("done", "failed", "cancelled"):
            raise InvalidStateError(f"flow {id!r} has ended: it is {found.state}")
        client.cancel_workflow(id)
        return _run(client, id)


def approve(id: str, *, decision: bool = True) -> FlowRun:  # noqa: A002 - likewise
    """Answer the approval that a run waits for; the first answer counts.

    Args:
        id: The run.
        decision: False: refuse.

    Raises:
        InvalidStateError: It waits for none, or has its answer, which the error names.
        NotFoundError: There is no such run.
    """
    if not isinstance(decision, bool):
        raise InvalidInputError(f"decision={shown(decision)}: give True or False", actual=decision)
    with clients() as client:
        found = _run(client, id)
        what = found.waits_for
        if what is None or not _is_first(client, id, what, decision=decision):
            raise InvalidStateError(_answered(_run(client, id)))  # with an answer of just now
        return _run(client, id)


def _first_to_repeat(client: Any, id_: str) -> int:
    """Return the number of the step at which a run that failed continues."""
    (run,) = client.list_workflows(workflow_ids=[id_], load_input=False)
    steps = client.list_workflow_steps(id_)
    failed = {one["function_id"]: _error(one["error"]) for one in steps if one["error"] is not None}
    last = max((one["function_id"] for one in steps), default=0)
    number = getattr(run.error, STEP, None)
    if number is None:  # an error that is pickled without it, or of another run
        same = [at for at, error in failed.items() if error == _error(run.error)]
        number = max(same, default=0)
    if not number and last in failed:
        return last
    return number or last + 1


def _is_first(client: Any, id_: str, what: str, *, decision: bool) -> bool:
    """Send a decision and note it, in one transaction; return False if another one was sent before.

    The row of the run is written first: another answer at the same time waits, and reads this one.
    A retry deletes the messages of the steps that it repeats: those questions are open again.
    """
    sql = import_module("sqlalchemy")  # dbos's own way to a database
    database = client._sys_db  # noqa: SLF001 - public calls do not tell whether a message is the first
    runs, sent = database.tables.workflow_status, database.tables.notifications
    topic, key = f"approval:{what}", f"{id_}/{what}"
    is_sent = (sent.c.destination_uuid == id_) & (sent.c.topic == topic)
    is_run = runs.c.workflow_uuid == id_
    with database.engine.begin() as connection:
        connection.execute(sql.update(runs).where(is_run).values(attributes=runs.c.attributes))
        noted = connection.execute(sql.select(runs.c.attributes).where(is_run)).scalar() or {}
        answers = noted.get(ANSWERS, {})
        if connection.execute(sql.select(sent.c.topic).where(is_sent)).first():
            return False
        client.send_in_transaction(connection, id_, decision, topic, idempotency_key=key)
        noted = {**noted, ANSWERS: {**answers, what: decision}}
        connection.execute(sql.update(runs).where(is_run).values(attributes=noted))
    return True


def _answered(run: FlowRun) -> str:
    """Return why a run takes no answer, with those that it has."""
    given = ", ".join(
        f"{what!r} was {'approved' if decision else 'refused'}"
        for what, decision in run.answers.items()
    )
    if run.waits_for is not None:
        return f"flow {run.id!r} has its answer, which it has not read yet: {given}"
    why = f"flow {run.id!r} waits for no approval: it is {run.state}"
    return f"{why}; {given}" if given else why


def _run(client: Any, id_: str) -> FlowRun:
    found = client.list_workflows(workflow_ids=[id_]) if isinstance(id_, str) else []
    if not found or found[0].name == JOB:  # a job is its client's alone
        raise NotFoundError(f"there is no flow {shown(id_)}\nflows.list() has those that there are")
    steps = [
        StepRun(one["function_name"], one["output"], _error(one["error"]))
        for one in client.list_workflow_steps(id_)
        if not str(one["function_name"]).startswith(OWN)
    ]
    return _described(client, found[0], tuple(steps))


def _described(client: Any, status: Any, steps: tuple[StepRun, ...] = ()) -> FlowRun:
    state = STATES[status.status]
    noted: Mapping[str, Any] = status.attributes or {}
    is_open = state in ("queued", "running")  # queued: for the process that continues it
    waits = client.get_event(status.workflow_id, WAITS_FOR, 0) if is_open else None
    if is_open and status.executor_id in noted.get(NO_CODE, ()):
        state = "waiting for code"
    elif waits:
        state = "waiting"
    given: Any = status.input or {"args": (), "kwargs": {}}
    arguments = [shown(one) for one in given["args"]]
    arguments += [f"{name}={shown(one)}" for name, one in given["kwargs"].items()]
    return FlowRun(
        id=status.workflow_id,
        flow=status.name,
        state=state,
        waits_for=waits,
        arguments=", ".join(arguments),
        result=status.output,
        error=_error(status.error),
        started=dt.datetime.fromtimestamp((status.created_at or 0) / 1000, dt.UTC),
        steps=steps,
        answers=noted.get(ANSWERS, {}),
    )


def _error(error: Any) -> str | None:
    """Return the first line of an error: that of the last call, where there were several."""
    if error is None:
        return None
    calls = getattr(error, "errors", None)
    last = calls[-1] if calls else error
    return f"{type(last).__name__}: {str(last).partition(chr(10))[0]}"
