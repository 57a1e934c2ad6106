"""A user's transform, called row by row, with random numbers of the row's own.

    rng                    a NumPy generator, if the function has such a parameter
    torch.rand(…) …        torch's functions, and methods that fill: a torch generator of the row
    random, numpy.random   threads      all draw from them in no order: refused, or allowed
                           processes    each has its own, seeded for each row

torchvision's transforms draw by torch's functions without a generator, that is, from torch's global
one. A torch function mode, which applies to one thread, passes them the row's generator: the global
one is neither read nor advanced, so training code in the process draws the same numbers.

In processes (``engine="processes"``) the same function object is called, on the same rows, with the
same numbers: batches are equal to those of threads. So are those that a server decodes, whose rows
are transformed when a batch has come (``BatchTransform``).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.column_plan import VALID
from tensorlake.loader.runtime.rng import (
    GLOBAL_STREAM,
    TORCH_STREAM,
    TRANSFORM_STREAM,
    sample_generator,
)
from tensorlake.loader.runtime.shutdown import closed
from tensorlake.loader.runtime.unsendable import UnsendableError

if TYPE_CHECKING:
    from tensorlake.loader.runtime.threads import WorkerThreads
    from tensorlake.loader.runtime.worker_processes import WorkerProcesses
    from tensorlake.loader.stages.rng_guard import DrawWatch
    from tensorlake.loader.stages.stack import Outputs

__all__ = ["BatchTransform", "PlacedRow", "RowTransform", "Transform", "TransformCall"]

# A user function: a row (name -> value) in, a row out; with a parameter `rng` for random numbers.
Transform: TypeAlias = Callable[..., Mapping[str, Any]]
# The values of a row, its number in the version, and its place in the epoch.
PlacedRow: TypeAlias = tuple[Mapping[str, Any], int, int]

SEED_STOP = 1 << 32  # NumPy's legacy generator takes no larger one


@dataclass(frozen=True, slots=True)
class TransformCall:
    """The user's function on rows of an epoch.

    Attributes:
        function: The user's function.
        seed: Seed of the loader.
        epoch: Epoch of the rows.
        takes_rng: Whether it has a parameter ``rng``.
        is_deterministic: Whether torch's functions draw from a generator of the row.
        watch: Detects draws from process-wide generators; None: any draws are allowed.
        is_alone: Whether no other thread of the process draws, so that its generators are seeded.
    """

    function: Transform
    seed: int
    epoch: int
    takes_rng: bool
    is_deterministic: bool
    watch: DrawWatch | None = None
    is_alone: bool = False

    def __call__(self, rows: Sequence[PlacedRow]) -> list[Mapping[str, Any]]:
        """Transform rows, in their order."""
        return [self.call(values, row=row, place=place) for values, row, place in rows]

    def call(self, values: Mapping[str, Any], *, row: int, place: int) -> Mapping[str, Any]:
        """Transform a row at its place in the epoch.

        Raises:
            InvalidInputError: It did not return a row, or drew from a generator that all threads
                share.
        """
        own: dict[str, Any] = {}
        if self.takes_rng:
            own["rng"] = self._generator(place, TRANSFORM_STREAM)
        if self.is_alone:
            _seed_process(self._generator(place, GLOBAL_STREAM))
        call = partial(self.function, values, **own)
        try:
            with self._torch_draws(place):
                made = call() if self.watch is None else self.watch.call(call)
        except Exception as error:
            error.add_note(f"in transform= ({_name_of(self.function)}) of row {row}")
            raise
        return _checked_row(made, row)

    def in_process(self) -> TransformCall:
        """Return the same call for a worker process."""
        return replace(self, watch=None, is_alone=True)

    def _generator(self, place: int, stream: int) -> np.random.Generator:
        return sample_generator(seed=self.seed, epoch=self.epoch, place=place, stream=stream)

    def _torch_draws(self, place: int) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not self.is_deterministic:
            return nullcontext()
        return _mode_of(torch)(partial(self._generator, place, TORCH_STREAM))


@dataclass(frozen=True, slots=True)
class RowTransform:
    """The transformation of an epoch's rows: where the function runs, and what becomes of rows.

    Attributes:
        call: The function.
        outputs: How its results become a batch.
        processes: Where it runs; None: in the calling thread.
        piece_rows: Rows that are transformed at once.
    """

    call: TransformCall
    outputs: Outputs
    processes: WorkerProcesses | None
    piece_rows: int

    def rows(self, rows: Sequence[PlacedRow]) -> list[Mapping[str, Any]]:
        """Transform rows, in their order.

        Raises:
            InvalidInputError: A value of a row, or of a result, cannot be sent between processes.
        """
        if self.processes is None:
            return self.call(rows)
        try:
            return self.processes.call(rows)
        except UnsendableError as error:
            raise self._unsendable(rows, error) from None

    def _unsendable(self, rows: Sequence[PlacedRow], error: UnsendableError) -> InvalidInputError:
        is_result = error.path[:1] == (".value",)
        at, *path = error.path[1:] if is_result else error.path
        row = rows[int(at.strip("[]"))][1]
        what = f"{_name_of(self.call.function)} returned" if is_result else "it is given"
        value = f"row{''.join(path if is_result else path[1:])} ({error.kind})"
        return InvalidInputError(
            f"transform= of row {row}: {what} {value}, which cannot be sent between processes:"
            f" {error.reason}\nuse arrays, numbers and text, or engine='threads'",
            argument="transform",
            row=row,
            actual=error.kind,
        )


class BatchTransform:
    """The transformation of batches that have come whole, in threads of its own."""

    def __init__(
        self,
        transform: RowTransform,
        workers: WorkerThreads,
        timed: Callable[[], AbstractContextManager[None]],
        *,
        with_valid: bool,
    ) -> None:
        """Prepare the threads.

        Args:
            transform: The transformation.
            workers: The threads, which end with the processes that they call.
            timed: Returns what measures the time of a call.
            with_valid: Whether batches have ``_valid``.
        """
        self._transform = transform
        self._workers = workers
        self._timed = timed
        self._with_valid = with_valid
        # the first row of a piece and its rows, or an error; None: the pass has ended
        self._made: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()

    def start(self) -> None:
        """Start the threads."""
        self._workers.start(self._failed)

    def stop(self) -> None:
        """End the threads, and a call that waits for them; takes no lock and does not wait."""
        self._workers.stop()
        self._made.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait until the threads have ended."""
        self._workers.join(timeout_s)

    def apply(
        self, batch: dict[str, Any], rows: Sequence[int], places: Sequence[int], *, counts: bool
    ) -> dict[str, Any]:
        """Transform the rows of a batch.

        Args:
            batch: Its entries; ``_valid`` is False where a row is lost.
            rows: The number of each row in the version.
            places: Its place in the epoch.
            counts: Whether the rows count: they are not what a rank without rows repeats.

        Raises:
            InvalidStateError: The pass was closed meanwhile.
        """
        valid = batch.pop(VALID, None)
        numbers = range(len(rows)) if valid is None or not counts else valid.nonzero()[0].tolist()
        given = [
            ({name: values[at] for name, values in batch.items()}, rows[at], places[at])
            for at in numbers
        ]
        piece = max(1, min(self._transform.piece_rows, -(-len(given) // self._workers.count)))
        starts = range(0, len(given), piece)
        for start in starts:
            self._workers.submit(partial(self._piece, start, given[start : start + piece]))
        made: dict[int, Any] = {}
        while len(made) < len(starts):
            found = self._made.get()
            if found is None:
                raise closed()
            if isinstance(found[1], BaseException):
                raise found[1]
            made[found[0]] = found[1]
        transformed = self._transform.outputs.stack(
            [one for at in starts for one in made[at]], [rows[at] for at in numbers]
        )
        if self._with_valid:
            transformed[VALID] = np.full(len(given), counts)
        return transformed

    def _piece(self, start: int, given: Sequence[PlacedRow]) -> None:
        with self._timed():
            made = self._transform.rows(given)
        self._made.put((start, made))

    def _failed(self, error: BaseException) -> None:
        self._made.put((0, error))


def _checked_row(made: object, row: int) -> Mapping[str, Any]:
    """Return a transform's result for a row; None if the function forgets to return one."""
    if not isinstance(made, Mapping):
        raise InvalidInputError(
            f"transform= returned {type(made).__name__} for row {row}, not a dict"
            "\nreturn the row: {name: value, …}; rows are chosen before, by ds.query(…)",
            argument="transform",
            row=row,
            actual=type(made).__name__,
        )
    if not made:
        raise InvalidInputError(
            f"transform= returned no values for row {row}: batches would be empty"
            "\nreturn the row: {name: value, …}",
            argument="transform",
            row=row,
        )
    return made


def _name_of(function: Transform) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _seed_process(generator: np.random.Generator) -> None:
    """Seed the generators of this process, which draws for one row at a time."""
    first, second, third = generator.integers(SEED_STOP, size=3).tolist()
    random.seed(first)
    numpy_random, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy_random is not None:
        numpy_random.seed(second)
    if torch is not None:
        torch.default_generator.manual_seed(third)


@cache
def _mode_of(torch: Any) -> Any:
    """Make the mode class that passes torch's functions a generator; does not import torch."""
    from tensorlake.loader.stages.torch_rng import RowDraws

    del torch
    return RowDraws
