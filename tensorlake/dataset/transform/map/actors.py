"""Workers on a Ray cluster: actors that open a job once, and run its tasks one at a time.

A worker that is lost takes its task with it: the task runs again on the actor that Ray starts in
its place, a few times. The job travels with each task, as references to bytes, and is opened by the
first task of an actor: a new one begins with a task, too.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tensorlake.dataset.transform.map.resources import Needs, connected
from tensorlake.errors import InvalidInputError, InvalidStateError

__all__ = ["Actors", "Job", "actors_of", "sendable"]

Ray = Any  # an optional library
Run = Callable[[Any], Any]

RUNS_AGAIN = 3
"""Workers that a task may lose: a task that ends its own worker is an error, not a loop."""

WAIT_S = 10.0  # between looks at whether the call has ended


@dataclass(frozen=True, slots=True)
class Job:
    """The work of the actors of one call.

    Attributes:
        call: The call, for errors: "map(engine='ray')".
        opened: Called in each worker with the parts; returns the function that runs a task.
        parts: Its arguments, pickled.
        advice: The remedy where tasks end their workers.
    """

    call: str
    opened: Callable[..., Run]
    parts: tuple[bytes, ...]
    advice: str


class _Actor:
    """A worker process."""

    def __init__(self) -> None:
        self._run: Run | None = None

    def start(self, opened: Callable[..., Run], sent: list[Any]) -> None:
        """Open the job, once."""
        if self._run is None:
            import ray  # pyright: ignore[reportMissingImports] - of the extra `ray`

            self._run = opened(*map(pickle.loads, ray.get(sent)))

    def run(self, opened: Callable[..., Run], sent: list[Any], task: Any) -> Any:
        """Run a task."""
        self.start(opened, sent)
        assert self._run is not None, "it has started"
        return self._run(task)


@dataclass(slots=True)
class Actors:
    """Actors, each with one task at a time.

    Attributes:
        ray: The library.
        job: The work.
        sent: References to the parts of the job.
        idle: Actors that have started and have no task.
        failed: The error of one that did not start.
        is_over: Whether the call has ended.
    """

    ray: Ray
    job: Job
    sent: list[Any]
    idle: list[Any] = field(default_factory=list[Any])
    failed: BaseException | None = None
    is_over: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, task: Any, described: Callable[[], str]) -> Any:
        """Run a task on an actor that is idle, and wait for it.

        Args:
            task: The task.
            described: Names what it is of, for an error.

        Raises:
            InvalidStateError: It ended its workers, or the call has ended.
            Exception: The task raised it in the worker.
        """
        actor = self._take()
        try:
            done = self.ray.get(actor.run.remote(self.job.opened, self.sent, task))
        except self.ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        except self.ray.exceptions.RayError as error:
            raise InvalidStateError(
                f"workers of Ray ended {RUNS_AGAIN + 1} times before they had done their task, for"
                f" {described()}: they were killed, often for the memory they took, or ended"
                f" themselves\n{self.job.advice}"
            ) from error
        self._give(actor)
        return done

    def begin(self, actor: Any) -> None:
        """Give tasks to an actor once it has started: on a busy cluster, some wait for room."""

        def has_started(started: Any) -> None:
            error = started.exception()
            if error is None:
                self._give(actor)
                return
            with self.changed:
                self.failed = error
                self.changed.notify_all()

        start = actor.start.options(max_task_retries=0)
        begun = start.remote(self.job.opened, self.sent)
        begun.future().add_done_callback(has_started)

    def end(self) -> None:
        """Let no task begin any more."""
        with self.changed:
            self.is_over = True
            self.changed.notify_all()

    def _give(self, actor: Any) -> None:
        with self.changed:
            self.idle.append(actor)
            self.changed.notify()

    def _take(self) -> Any:
        with self.changed:
            while not self.idle:
                if self.is_over:
                    raise InvalidStateError(f"the call of {self.job.call} has ended")
                if self.failed is not None:
                    raise _not_started(self.ray, self.failed, self.job.call)
                self.changed.wait(WAIT_S)
            return self.idle.pop()


@contextmanager
def actors_of(job: Job, *, workers: int, needs: Needs) -> Generator[Actors]:
    """Start actors, and end them with the call."""
    ray = connected(job.call)
    made = ray.remote(_Actor).options(
        num_cpus=1,
        num_gpus=needs.num_gpus or None,
        resources=dict(needs.resources) or None,
        max_restarts=-1,  # nodes may be taken away again and again; a task runs a few times
        max_task_retries=RUNS_AGAIN,
    )
    actors = Actors(ray, job, [ray.put(part) for part in job.parts])
    started: list[Any] = []
    try:
        for _ in range(workers):
            started.append(made.remote())
            actors.begin(started[-1])
        yield actors
    finally:
        actors.end()
        for actor in started:
            ray.kill(actor)


def sendable(value: Any, *, what: str, advice: str) -> bytes:
    """Pickle a value for workers, functions defined in a program or a notebook included.

    Raises:
        InvalidInputError: It cannot be sent.
    """
    from ray import cloudpickle  # pyright: ignore[reportMissingImports] - of the extra `ray`

    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        message = f"{what} cannot be sent to workers of Ray: {error}\n{advice}"
        raise InvalidInputError(message) from error


def _cause(error: Any) -> BaseException:
    """Return what a worker raised, as it would be raised here."""
    return error.cause if isinstance(error.cause, BaseException) else error


def _not_started(ray: Ray, error: BaseException, call: str) -> BaseException:
    """Return the error for a worker that did not start: that of the user's class, if it raised."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return _cause(error)
    return InvalidStateError(
        f"a worker of {call} did not start: {error}"
        "\nworkers need tensorlake, and what the function imports: see runtime_env of ray.init()"
    )
