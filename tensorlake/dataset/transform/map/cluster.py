"""``map`` on a Ray cluster: workers read rows, call the function, and send its outputs back.

A worker has the view, opened once, and the function, made once. A task is a few pieces next to one
another, as many as take about a second, so that a model that is slow and a function that is fast
both keep their workers busy, and a worker that is lost takes little with it. Outputs return in the
order of the rows to the process that called ``map``, which stages and publishes them as it does
those of its threads.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.transform.map.actors import Actors, Job, actors_of, sendable
from tensorlake.dataset.transform.map.calls import (
    RAY_CALL,
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
from tensorlake.storage import parallel_map

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["results_from"]

Int64Array = npt.NDArray[np.int64]

TASK_S = 1.0
TASK_NBYTES = 32 << 20
PIECES_A_TASK = 64
"""A task takes about a second, returns about 32 MiB, and is at most 64 pieces: the loss with a
worker, and the memory of its outputs, are small beside the time of starting one."""

ADVICE = (
    "ask for more memory for each (resources=), map smaller batches, or look on with"
    " engine='threads'"
)
SENT = (
    "it may not hold open files, locks or connections: open them in it, or in the __init__ of a"
    " class; or call it here: engine='threads'"
)


def results_from(
    view: RowSet, call: Call, pieces: Iterable[Int64Array], *, ahead: int, has_digests: bool
) -> Iterator[Piece]:
    """Call the function over rows of a view in workers of Ray, as `workers.results` does here."""
    opened = pickle.dumps((view, has_digests))  # an error of ours, if rows are staged
    sent = sendable(call, what="the function of map()", advice=SENT)
    job = Job(RAY_CALL, _Mapping, (opened, sent), ADVICE)
    with (
        ThreadPoolExecutor(call.workers, "tensorlake-map-ray") as pool,
        actors_of(job, workers=call.workers, needs=call.needs) as actors,
    ):
        tasks = _Tasks(view, call, actors)
        yield from chain.from_iterable(
            parallel_map(tasks.run, tasks.of(iter(pieces)), pool=pool, ahead=ahead)
        )


class _Mapping:
    """The rows and the function in a worker."""

    def __init__(self, rows: tuple[RowSet, bool], call: Call) -> None:
        (self._view, self._has_digests), self._call = rows, call
        self._function = new_function(call.function)

    def __call__(self, pieces: list[Int64Array]) -> tuple[list[tuple[bytes, Any]], float]:
        """Return the packed outputs and the digests of some pieces, and the seconds they took."""
        started = time.monotonic()
        done: list[tuple[bytes, Any]] = []
        for positions in pieces:
            given, digests = inputs_of(
                self._view, self._call, positions, has_digests=self._has_digests
            )
            done.append((packed(applied(self._function, given, never)), digests))
        return done, time.monotonic() - started


@dataclass(slots=True)
class _Tasks:
    """Pieces joined to tasks.

    Attributes:
        view: The rows.
        call: The function.
        actors: The workers.
        size: Pieces of the next task.
    """

    view: RowSet
    call: Call
    actors: Actors
    size: int = 1

    def of(self, pieces: Iterator[Int64Array]) -> Iterator[list[Int64Array]]:
        """Join pieces to tasks, of the size that the tasks before suggest."""
        while task := [*islice(pieces, self.size)]:
            yield task

    def run(self, task: list[Int64Array]) -> list[Piece]:
        """Run a task, and wait for it."""
        done, seconds = self.actors.run(
            task, lambda: f"{rows_shown(self.view, np.concatenate(task))} or rows beside"
        )
        nbytes = sum(len(sent) for sent, _ in done)
        scale = min(TASK_S / max(seconds, 1e-9), TASK_NBYTES / max(nbytes, 1))
        self.size = int(min(max(1, len(task) * scale), 2 * len(task), PIECES_A_TASK))
        return [
            piece_of(self.view, rows, pickle.loads(sent), self.call, digests=digests)  # noqa: S301 - of our own worker
            for rows, (sent, digests) in zip(task, done, strict=True)
        ]
