"""``map`` on a Ray cluster: workers read rows, call the function, and send its outputs back.

A worker is an actor with the view, opened once, and the function, made once. A task is a few pieces
next to one another, as many as take about a second, so that a model that is slow and a function
that is fast both keep their workers busy, and a worker that is lost takes little with it: its task
runs again on the actor that Ray starts in its place. Outputs return in the order of the rows to the
process that called ``map``, which stages and publishes them as it does those of its threads.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.transform.map.calls import (
    Call,
    Piece,
    applied,
    inputs_of,
    never,
    new_function,
    packed,
    piece_of,
    rows_shown,
)
from tensorlake.dataset.transform.map.resources import connected
from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.storage import parallel_map

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["results_from"]

Int64Array = npt.NDArray[np.int64]
Ray = Any  # an optional library

TASK_S = 1.0
TASK_NBYTES = 32 << 20
PIECES_A_TASK = 64
"""A task takes about a second, returns about 32 MiB, and is at most 64 pieces: the loss with a
worker, and the memory of its outputs, are small beside the time of starting one."""

RUNS_AGAIN = 3
"""Workers that a task may lose: a task that ends its own worker is an error, not a loop."""

WAIT_S = 10.0  # between looks at whether the call has ended


def results_from(
    view: RowSet, call: Call, pieces: Iterable[Int64Array], *, ahead: int, has_digests: bool
) -> Iterator[Piece]:
    """Call the function over rows of a view in workers of Ray, as `workers.results` does here."""
    with (
        ThreadPoolExecutor(call.workers, "tensorlake-map-ray") as pool,
        _workers(view, call, has_digests=has_digests) as workers,
    ):
        tasks = workers.tasks(iter(pieces))
        yield from chain.from_iterable(parallel_map(workers.run, tasks, pool=pool, ahead=ahead))


class _Worker:
    """The rows and the function in a worker process; an actor."""

    def __init__(self) -> None:
        self._begun: tuple[RowSet, Call, Callable[[Any], Any]] | None = None

    def start(self, sent: list[Any]) -> None:
        """Open the rows and make the function, once.

        Args:
            sent: References to both as bytes. They come with each task, not with the actor: the
                one that Ray starts in place of another begins with a task.
        """
        if self._begun is None:
            import ray  # pyright: ignore[reportMissingImports] - of the extra `ray`

            view, call = map(pickle.loads, ray.get(sent))
            self._begun = view, call, new_function(call.function)

    def run(
        self, sent: list[Any], pieces: list[Int64Array], *, has_digests: bool
    ) -> tuple[list[tuple[bytes, Any]], float]:
        """Return the packed outputs and the digests of some pieces, and the seconds they took."""
        self.start(sent)
        assert self._begun is not None, "it has started"
        view, call, function = self._begun
        started = time.monotonic()
        done: list[tuple[bytes, Any]] = []
        for positions in pieces:
            given, digests = inputs_of(view, call, positions, has_digests=has_digests)
            done.append((packed(applied(function, given, never)), digests))
        return done, time.monotonic() - started


@dataclass(slots=True)
class _Workers:
    """Actors, each with one task at a time.

    Attributes:
        ray: The library.
        view: The rows.
        call: The function.
        sent: References to both, as bytes.
        has_digests: Whether rows are digested where they are read.
        idle: Actors that have started and have no task.
        failed: The error of one that did not start.
        is_over: Whether the call has ended.
        size: Pieces of the next task.
    """

    ray: Ray
    view: RowSet
    call: Call
    sent: list[Any]
    has_digests: bool
    idle: list[Any] = field(default_factory=list[Any])
    failed: BaseException | None = None
    is_over: bool = False
    size: int = 1
    changed: threading.Condition = field(default_factory=threading.Condition)

    def tasks(self, pieces: Iterator[Int64Array]) -> Iterator[list[Int64Array]]:
        """Join pieces to tasks, of the size that the tasks before suggest."""
        while task := [*islice(pieces, self.size)]:
            yield task

    def run(self, task: list[Int64Array]) -> list[Piece]:
        """Run a task on a worker that is idle, and wait for it."""
        exceptions = self.ray.exceptions
        positions = np.concatenate(task)
        actor = self._take()
        try:
            done, seconds = self.ray.get(
                actor.run.remote(self.sent, task, has_digests=self.has_digests)
            )
        except exceptions.RayTaskError as error:
            raise _cause(error) from error
        except exceptions.RayError as error:
            raise InvalidStateError(
                f"workers of Ray ended {RUNS_AGAIN + 1} times before the function returned, for"
                f" {rows_shown(self.view, positions)} or rows beside: they were killed, often for"
                " the memory they took, or ended themselves\nask for more memory for each"
                " (resources=), map smaller batches, or look on with engine='threads'"
            ) from error
        self._give(actor)
        nbytes = sum(len(sent) for sent, _ in done)
        scale = min(TASK_S / max(seconds, 1e-9), TASK_NBYTES / max(nbytes, 1))
        self.size = int(min(max(1, len(task) * scale), 2 * len(task), PIECES_A_TASK))
        return [
            piece_of(self.view, rows, pickle.loads(sent), self.call, digests=digests)  # noqa: S301 - of our own worker
            for rows, (sent, digests) in zip(task, done, strict=True)
        ]

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
        start.remote(self.sent).future().add_done_callback(has_started)

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
                    raise InvalidStateError("the call of map() has ended")
                if self.failed is not None:
                    raise _not_started(self.ray, self.failed)
                self.changed.wait(WAIT_S)
            return self.idle.pop()


@contextmanager
def _workers(view: RowSet, call: Call, *, has_digests: bool) -> Generator[_Workers]:
    """Start the actors, and end them with the call."""
    ray = connected()
    from ray import cloudpickle  # pyright: ignore[reportMissingImports] - likewise

    opened = pickle.dumps(view)  # an error of ours, if rows are staged
    try:
        sent = cloudpickle.dumps(call)
    except Exception as error:
        raise InvalidInputError(
            f"the function of map() cannot be sent to workers of Ray: {error}"
            "\nit may not hold open files, locks or connections: open them in it, or in the"
            " __init__ of a class; or call it here: engine='threads'"
        ) from error
    made = ray.remote(_Worker).options(
        num_cpus=1,
        num_gpus=call.needs.num_gpus or None,
        resources=dict(call.needs.resources) or None,
        max_restarts=-1,  # nodes may be taken away again and again; a task runs a few times
        max_task_retries=RUNS_AGAIN,
    )
    workers = _Workers(ray, view, call, [ray.put(opened), ray.put(sent)], has_digests)
    actors: list[Any] = []
    try:
        for _ in range(call.workers):
            actors.append(made.remote())
            workers.begin(actors[-1])
        yield workers
    finally:
        workers.end()
        for actor in actors:
            ray.kill(actor)


def _cause(error: Any) -> BaseException:
    """Return what a worker raised, as it would be raised here."""
    return error.cause if isinstance(error.cause, BaseException) else error


def _not_started(ray: Ray, error: BaseException) -> BaseException:
    """Return the error for a worker that did not start: that of the user's class, if it raised."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return _cause(error)
    return InvalidStateError(
        f"a worker of map(engine='ray') did not start: {error}"
        "\nworkers need tensorlake, and what the function imports: see runtime_env of ray.init()"
    )
