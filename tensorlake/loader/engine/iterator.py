"""One pass over the rest of an epoch, from a pipeline to the user's loop.

No thread of the pass references its iterator, and no object held by the iterator leads back to it.
So leaving the loop, in any way, drops the last reference immediately, and ``__del__`` signals the
pass to end. It does not wait: if a reference cycle of the user keeps the iterator alive, it is
collected in any thread, under any lock, and waiting there could be a deadlock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from tensorlake.errors import InvalidStateError
from tensorlake.loader.config.batch_schema import channels_first
from tensorlake.loader.config.column_plan import HOLE
from tensorlake.loader.runtime.counters import Stopwatch
from tensorlake.loader.runtime.shutdown import closed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tensorlake.loader.config.column_plan import MakeBatch
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.plan.sharding import Sharding, Share
    from tensorlake.loader.runtime.counters import Counters

__all__ = ["BatchIterator", "Finish", "Pass", "Watcher", "await_end"]

LEAVE_TIMEOUT_S = 30.0  # for a user function that is running


class Pass(Protocol):
    """Makes the batches of the rest of an epoch, in order."""

    def next_group(self) -> tuple[list[Share], list[MakeBatch]] | None:
        """Wait for the next batches; None at the end."""
        ...

    def abandon(self) -> None:
        """Signal its threads to end, without waiting."""
        ...

    def close(self) -> None:
        """End its threads."""
        ...

    def join(self) -> bool:
        """Wait until a closed or abandoned pass has ended; return whether it has."""
        ...


class Watcher(Protocol):
    """Receives a loader's passes and batches, in the thread that asks for them."""

    def begin(
        self, sharding: Sharding, batches: int | None, returned: tuple[int, int] | None
    ) -> None:
        """Note that a pass begins.

        Args:
            sharding: The ranks.
            batches: The number of its batches; None: it has no end.
            returned: Epoch and position of the state that the loader was given last, if any.
        """
        ...

    def hand_out(self, share: Share, *, wait_s: float, user_s: float) -> None:
        """Note a batch, how long it was waited for, and how long the user's code took before."""
        ...


@dataclass(slots=True)
class Finish:
    """Converts batches, and counts the time that this takes.

    Attributes:
        converter: Makes the framework's arrays.
        batch_transform: The user's function of a batch.
        channels_first: The images whose channels come first.
        holes: Numbers of rows, ascending, that are left out of each source; None: none.
        convert_s: Seconds spent in the converter.
        batch_transform_s: Seconds spent in the user's function.
    """

    converter: Converter
    batch_transform: Callable[[dict[str, Any]], Any] | None
    channels_first: frozenset[str] = frozenset()
    holes: Sequence[NDArray[np.int64]] | None = None
    convert_s: float = 0.0
    batch_transform_s: float = 0.0

    def __call__(self, batch: dict[str, Any]) -> Any:
        """Return the batch as the user's loop gets it."""
        began = perf_counter()
        if self.holes is not None or HOLE in batch:
            from tensorlake.loader.stages.holes import make_holes

            make_holes(batch, self.holes or ())
        for name in self.channels_first & batch.keys():
            batch[name] = channels_first(batch[name])
        finished = self.converter.convert(batch)
        converted = perf_counter()
        self.convert_s += converted - began
        if self.batch_transform is not None:
            finished = self.batch_transform(finished)
            self.batch_transform_s += perf_counter() - converted
        return finished


class BatchIterator(Iterator[Any]):
    """Ends its pass when it ends or fails, and lets it end when it is garbage-collected."""

    def __init__(
        self,
        pipeline: Pass,
        *,
        sharding: Sharding,
        batches: int | None,
        finish: Callable[[dict[str, Any]], Any],
        handed_out: Callable[[Share], None],
        ended: Callable[[], None],
        counters: Counters,
        watcher: Watcher | None = None,
    ) -> None:
        self.sharding = sharding
        self._left = batches  # None: without end
        self._is_untouched = True
        self._turn = threading.RLock()  # of the threads that request a batch
        self._was_closed = False
        self._was_left = False
        self._process = os.getpid()
        self._pipeline = pipeline
        self._finish = finish
        self._handed_out = handed_out
        self._ended = ended
        self._counters = counters
        self._watcher = watcher
        self._ready: list[tuple[Share, MakeBatch]] = []  # the next one last
        self._clock = Stopwatch()
        self.is_live = True  # last: __del__ needs the others

    def start(self, start: Callable[[], None]) -> None:
        """Start the pass, which from here on ends with this iterator."""
        try:
            start()
            self._clock.lap()  # starting threads does not count as the user's time
        except BaseException:  # mainly Ctrl-C: the error's traceback keeps this iterator alive
            self._end()
            raise

    @property
    def is_here(self) -> bool:
        """Whether its threads are in this process, not in the one it was forked from."""
        return self._process == os.getpid()

    @property
    def is_idle(self) -> bool:
        """Whether it has handed out no batch or all, so that ending it loses none."""
        return self._is_untouched or self._left == 0

    def __next__(self) -> Any:
        """Return the next batch; threads that share an iterator get them in turn.

        Raises:
            InvalidStateError: It was closed before its end, or it is used in a fork of the process
                that made it.
        """
        if self._process != os.getpid():  # its threads are not here, and their locks stay locked
            raise InvalidStateError(
                f"an iterator created in process {self._process} cannot be used in forked process"
                f" {os.getpid()}\nmake an iterator in the process that reads it: iter(loader)",
                expected=self._process,
                actual=os.getpid(),
            )
        with self._turn:
            return self._next()

    def _next(self) -> Any:
        if self._was_closed:
            raise InvalidStateError(
                "this iterator was closed before the end of its pass: by close(), or by a newer"
                " iterator of its loader\nuse the newer iterator, or make another: iter(loader)"
            )
        if not self.is_live:
            raise StopIteration
        try:
            user_s = self._clock.lap()
            ready = self._ready
            if not ready and self._left != 0:
                ready = self._ready = self._next_group()
            if not ready:
                self._ended()  # first: a caller without a live iterator may begin the next epoch
                self._end()
                raise StopIteration  # noqa: TRY301 - the iterator protocol's end
            share, make = ready.pop()
            finished = self._finish(make())
            if self._was_left:  # meanwhile: the position no longer belongs to this iterator
                raise closed()  # noqa: TRY301 - its pass has ended
            self._handed_out(share)
            self._is_untouched = False
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self._pipeline.abandon()  # many loops never request the end
            wait_s = self._clock.lap()
            self._counters.add(
                batches=1, rows=len(share), wait_s=wait_s, user_s=user_s, wall_s=wait_s + user_s
            )
            if self._watcher is not None:
                self._watcher.hand_out(share, wait_s=wait_s, user_s=user_s)
        except BaseException:  # mainly Ctrl-C: leave no thread behind
            self._end()
            raise
        return finished

    def close(self) -> None:
        """End the threads of this pass; the loader's position is unchanged."""
        self._was_closed |= self.is_live and self._left != 0
        self._end()

    def leave_idle(self, what: str) -> None:
        """Leave, if it has handed out no batch, or its last one.

        Raises:
            InvalidStateError: It has handed out some batches, but not all.
        """
        if not self.is_idle:
            raise InvalidStateError(
                f"{what} while this loader has an iterator that is not finished: both would move"
                " its one position\nend the loop, or close the iterator: it.close()"
            )
        self.leave()

    def leave(self) -> None:
        """Close, and wait until no other thread is about to hand out a batch.

        Raises:
            InvalidStateError: A thread does not return.
        """
        self._was_left = True
        self.close()
        if not self._turn.acquire(timeout=LEAVE_TIMEOUT_S):
            raise InvalidStateError(
                "another thread still waits for a batch of the iterator that this loader had"
                " before\nmake sure that its batch_transform= returns, or make another loader"
            )
        self._turn.release()

    def _end(self) -> None:
        self._pipeline.abandon()  # first: with an interrupt at any later step, its threads end
        self.is_live = False
        self._ready = []  # another thread may be taking from the old list
        self._pipeline.close()

    def __del__(self) -> None:
        if getattr(self, "is_live", False):  # missing if the constructor was interrupted
            self._pipeline.abandon()

    def _next_group(self) -> list[tuple[Share, MakeBatch]]:
        group = self._pipeline.next_group()
        return [] if group is None else list(zip(*group, strict=True))[::-1]


def await_end(last: Pass) -> None:
    """Let an earlier pass end its work on the memory tier, which has one user at a time.

    Raises:
        InvalidStateError: One of its threads does not return.
    """
    last.abandon()  # again, as an interrupt may have cut that short
    if not last.join():
        raise InvalidStateError(
            "the pass that was left before has not ended: a transform= or a read of the store does"
            " not return\nmake another loader, and make sure that the function returns"
        )
