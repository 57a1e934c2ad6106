"""The definition of flows: their steps, their keys, and what starts them."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from tensorlake.errors import InvalidInputError, InvalidStateError, shown
from tensorlake.quantities import checked_integer
from tensorlake.storage import open_store, place_text, runtime
from tensorlake.workloads.flows.database import POLL_S, dbos, launch
from tensorlake.workloads.flows.executors import check_runs, wait_for, within_run

__all__ = [
    "STEP",
    "WAITS_FOR",
    "Flow",
    "Watch",
    "approval",
    "flow",
    "flows",
    "key",
    "step",
    "watch",
]

P = ParamSpec("P")
T = TypeVar("T")

APPROVAL_S = 10 * 365 * 86_400.0  # a flow that waits costs a row, and a thread while it runs
WAITS_FOR = "waits_for"
ASKED = "asked"
STEP = "_tensorlake_step"
"""The attribute of an error with the number of the step that raised it; None: not known."""
NOT_CALLED = (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction)
"""Functions whose body a call does not run."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The files of a prefix, as a reason to start a flow; made by `watch`.

    Attributes:
        prefix: Folder or URL.
        every_s: Seconds between two listings.
        storage_options: As in ``tl.open``.
    """

    prefix: str
    every_s: float
    storage_options: Mapping[str, Any] | None = None

    def digest(self) -> str | None:
        """Return a digest of the names, sizes and times of the files; None if there are none."""

        async def listed() -> list[tuple[str, int, str]]:
            store = open_store(self.prefix, storage_options=self.storage_options)
            objects = [one async for one in store.list("")]
            return [(one.path, one.nbytes, one.etag or str(one.modified)) for one in objects]

        found = runtime.run(listed())
        digest = hashlib.blake2b(json.dumps(found).encode(), digest_size=12)
        return digest.hexdigest() if found else None


def watch(
    prefix: str | os.PathLike[str],
    *,
    every_s: float = 60.0,
    storage_options: Mapping[str, Any] | None = None,
) -> Watch:
    """Name a folder or URL whose changes start a flow: ``@flows.flow(on=flows.watch("in/"))``.

    `run` lists it, and starts the flow with the prefix when files are there that were not, or have
    changed. One listing starts one run, however many processes watch. The flow finds out which
    files are new by itself: an ingestion is a sync.

    Example:
        >>> from tensorlake import flows
        >>> flows.watch("s3://bucket/incoming/", every_s=30).every_s
        30
    """
    if isinstance(every_s, bool) or not isinstance(every_s, int | float) or not every_s > 0:
        raise InvalidInputError(f"every_s={shown(every_s)}: give seconds, more than 0")
    return Watch(place_text(prefix, what="prefix"), every_s, storage_options)


@dataclass(frozen=True, slots=True)
class Flow(Generic[P, T]):
    """A function of steps, made by `flow`; a call runs it here, and waits.

    Attributes:
        name: Its name, in all processes.
        on: The reason to start it.
        workflow: Its function, as DBOS runs it.
    """

    name: str
    on: Watch | None
    workflow: Callable[P, T]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the flow and return its result; after a kill, another process continues it."""
        if not _is_in_flow():
            launch(has_code=_defined.__contains__)
            return self.workflow(*args, **kwargs)
        check_runs()

        engine = dbos().DBOS
        run = engine.start_workflow(self.workflow, *args, **kwargs)

        async def result() -> T:  # in this thread, a run that waits for days could not be stopped
            found = await engine.retrieve_workflow_async(
                run.get_workflow_id(), existing_workflow=False
            )
            return cast("T", await found.get_result(polling_interval_sec=POLL_S))

        try:
            return cast("T", wait_for(result()))
        except Exception as error:
            _note_step(error, None)  # it has the number of a step of the other run
            raise


_defined: dict[str, Flow[..., Any]] = {}
"""The flows of this process, by name."""


def flows() -> Mapping[str, Flow[..., Any]]:
    """Return the flows that this process defines."""
    return _defined


@overload
def flow(function: Callable[P, T], /) -> Flow[P, T]: ...


@overload
def flow(
    *, name: str | None = None, on: Watch | None = None
) -> Callable[[Callable[P, T]], Flow[P, T]]: ...


def flow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    on: Watch | None = None,
) -> Any:
    """Make a function of steps durable.

    The code between its steps runs again after a kill, and must then call the same steps: it
    decides by their results, and reads no clock, file or random number itself.

    Args:
        function: The function; its arguments and result are pickled.
        name: Its name; None: that of the function.
        on: The reason to start it, `watch`: the function takes the prefix.

    Raises:
        InvalidStateError: There is a flow of this name.
        MissingExtraError: The extra ``flows`` is not installed.
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidInputError(f"name={shown(name)}: give a name, as text", actual=name)
    if on is not None and not isinstance(on, Watch):
        raise InvalidInputError(f"on={shown(on)}: give flows.watch(prefix)", actual=on)

    def made(function: Callable[P, T]) -> Flow[P, T]:
        own = _name_of(function, "flow")
        called = name or own
        if called in _defined:
            raise InvalidStateError(
                f"there is a flow {called!r} already\ngive this one a name: @flows.flow(name=…)"
            )

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with within_run():
                try:
                    return function(*args, **kwargs)
                except Exception as error:
                    _note_step(error, _step_of(error))
                    raise

        # Each process that is stopped while it waits for an answer is an attempt to DBOS
        workflow = dbos().DBOS.workflow(name=called, max_recovery_attempts=None)(run)
        _defined[called] = one = Flow(called, on, cast("Callable[P, T]", workflow))
        return one

    return made if function is None else made(function)


@overload
def step(function: Callable[P, T], /) -> Callable[P, T]: ...


@overload
def step(
    *, retries: int = 3, wait_s: float = 1.0, backoff: float = 2.0
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    retries: int = 3,
    wait_s: float = 1.0,
    backoff: float = 2.0,
) -> Any:
    """Make a function a step of flows: once its result is kept, it is not called again.

    Outside a flow it is the function that it was.

    Args:
        function: The function; its result is pickled.
        retries: Calls after the first one that raises; the error of the last one is raised.
        wait_s: Seconds before the first of them.
        backoff: The factor from one wait to the next.

    Raises:
        MissingExtraError: The extra ``flows`` is not installed.
    """
    checked_integer(retries, name="retries", least=0)
    for name, number in (("wait_s", wait_s), ("backoff", backoff)):
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float)
            or not 0 <= number < math.inf
        ):
            raise InvalidInputError(f"{name}={shown(number)}: give a finite number of at least 0")

    def made(function: Callable[P, T]) -> Callable[P, T]:
        called_as = _name_of(function, "step")

        @wraps(function)
        def attempt(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                _note_step(error, dbos().DBOS.step_id)
                raise

        decorated = dbos().DBOS.step(
            name=called_as,
            retries_allowed=retries > 0,
            max_attempts=retries + 1,
            interval_seconds=wait_s,
            backoff_rate=backoff,
        )(attempt)
        given_up = dbos().error.DBOSMaxStepRetriesExceeded

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                if _is_in_flow():
                    check_runs()
                return decorated(*args, **kwargs)
            except given_up as error:
                raise error.errors[-1] from None

        return called

    return made if function is None else made(function)


def key() -> str:
    """Return the key of this step of this run, for ``ds.commit(message, key=flows.key())``.

    It is the same when the step is called again, after a kill or an error, so its commit is
    published once. A step of several commits adds to it: ``f"{flows.key()}/labels"``.

    Raises:
        InvalidStateError: No step of a flow runs here.
    """
    engine = dbos().DBOS
    if engine.workflow_id is None or engine.step_id is None:
        raise InvalidStateError(
            "flows.key() is the key of a step, and none runs here"
            "\ncall it in a function with @flows.step, called by one with @flows.flow"
        )
    return f"flow/{engine.workflow_id}/{engine.step_id}"


def approval(what: str, *, timeout_s: float | None = None) -> bool:
    """Wait in a flow for ``flows.approve(id)``, and return the decision.

    Args:
        what: The question. A run that asks it again asks ``what (2)``, ``what (3)``, …: each one
            has its own answer.
        timeout_s: Seconds after which the decision is False; None: it waits.

    Raises:
        InvalidStateError: No flow runs here.
    """
    engine = dbos().DBOS
    if engine.workflow_id is None:
        raise InvalidStateError("flows.approval() waits in a flow, and none runs here")
    if not isinstance(what, str) or not what:
        raise InvalidInputError(f"approval({shown(what)}): give the question, as text", actual=what)
    asked = engine.get_event(engine.workflow_id, ASKED, 0) or []
    names = itertools.chain([what], (f"{what} ({number})" for number in itertools.count(2)))
    what = next(name for name in names if name not in asked)
    engine.set_event(ASKED, [*asked, what])
    engine.set_event(WAITS_FOR, what)
    timeout = APPROVAL_S if timeout_s is None else timeout_s
    answer = wait_for(engine.recv_async(f"approval:{what}", timeout))
    engine.set_event(WAITS_FOR, None)
    return answer is True


def _note_step(error: Exception, number: int | None) -> None:
    """Note in an error, with which it is pickled, which step of its run raised it."""
    with suppress(AttributeError, TypeError):  # it takes no attributes
        setattr(error, STEP, number)


def _step_of(error: BaseException | None) -> int | None:
    """Return the step whose error this is, or is raised from or after; 0: it is of no step."""
    while error is not None:
        if hasattr(error, STEP):
            return cast("int | None", getattr(error, STEP))
        after = None if error.__suppress_context__ else error.__context__
        error = error.__cause__ or after
    return 0


def _is_in_flow() -> bool:
    """Whether the code between the steps of a flow runs here."""
    engine = dbos().DBOS
    return engine.workflow_id is not None and engine.step_id is None


def _name_of(function: Any, kind: str) -> str:
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise InvalidInputError(
            f"a {kind} is a function, got {shown(function)}\nwrite @flows.{kind} above its def",
            actual=function,
        )
    if any(is_one(function) for is_one in NOT_CALLED):
        raise InvalidInputError(
            f"a {kind} is a plain function, and {function.__qualname__} is async or a generator"
            "\nwrite def, and asyncio.run(…) of what it awaits, or list(…) of what it yields",
            actual=function,
        )
    return str(function.__qualname__).rpartition("<locals>.")[2]
