"""A pass over chunks in memory: batches are made by the thread that requests them.

    next_group ─► plan the next rows ─► are all their chunks in memory?
                                            yes   their batches, cut when requested
                                            no    the pipeline makes them, and all that follow

If nothing is read or decoded, threads that work ahead only alternate with the consumer's thread.
Measured on two cores over rows of 1 kB (``benchmarks epoch-tokens``): the handover costs as much as
planning, and twice that in processes whose threads do not synchronise well.

Chunks are not pinned: the memory tier has no other user meanwhile, and a gather holds references
to the chunks that it reads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tensorlake.loader.engine.pipeline import JOIN_TIMEOUT_S, Pipeline, PipelineSetup
from tensorlake.loader.runtime.shutdown import closed
from tensorlake.loader.sources.batch_group import shares_by_segment
from tensorlake.storage import runtime

if TYPE_CHECKING:
    from tensorlake.loader.config.batch_schema import MakeBatch
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.sources.batch_group import Group
    from tensorlake.loader.stages.assemble import Assembler

__all__ = ["InMemoryPass"]

FIRST_BATCHES = 16  # planned before the first: planning fewer takes as long


class InMemoryPass:
    """Makes batches from chunks in memory; from the first missing chunk on, a pipeline does."""

    def __init__(self, setup: PipelineSetup, shares: Iterable[Share]) -> None:
        self._setup = setup
        self._shares = iter(shares)
        self._segments = shares_by_segment(
            self._shares,
            row_nbytes=0,  # no batch is made ahead
            first_batches=FIRST_BATCHES,
        )
        self._planned: list[Group] = []  # and not handed out yet
        self.pipeline = Pipeline(setup, _left(self._planned, self._shares))
        self._has_pipeline = False  # whether it makes the remaining batches
        self._assemblers: list[Assembler] = []  # the pipeline's, and the one used here
        self._is_closed = False
        self._reads = runtime.Scope()
        self._lock = threading.RLock()  # held while a batch is made: join() waits for it

    def start(self, assembler: Assembler) -> None:
        """Set the assembler; no batch is made before it is requested."""
        self._assemblers = [assembler, replace(assembler, release=_keep)]

    def next_group(self) -> tuple[list[Share], list[MakeBatch]] | None:
        """Make the next batches; None at the end of the pass.

        Raises:
            InvalidStateError: The pass was closed meanwhile.
        """
        if not self._has_pipeline:
            with self._lock:
                if self._is_closed:
                    raise closed()
                try:
                    with self._reads.entered():
                        group = self._next_planned()
                except CancelledError:
                    raise closed() from None
                if group is None:
                    return None
                if self._setup.cache.finds({n: rows.used for n, rows in group.tensors.items()}):
                    self._planned.clear()
                    self._assemblers[1].begin(group).finish()
                    return group.shares, group.batches.take()
                self._has_pipeline = True
                self.pipeline.start(self._assemblers[0])
        return self.pipeline.next_group()

    def abandon(self) -> None:
        """Let the pass end, without locks or waits: garbage collection may call it anywhere."""
        self._is_closed = True
        self._reads.cancel()
        self.pipeline.abandon()

    def close(self) -> None:
        """End the pass; batches handed out stay valid."""
        self.abandon()
        self.pipeline.close()
        self.join()

    def join(self) -> bool:
        """Wait until a closed or abandoned pass has ended; return whether it has."""
        if not self._lock.acquire(timeout=JOIN_TIMEOUT_S):
            return False
        self._lock.release()
        return self.pipeline.join()

    def _next_planned(self) -> Group | None:
        segment = next(self._segments, None)
        if segment is None:
            return None
        (group,) = self._planned[:] = self._setup.plan_groups(segment)
        return group


def _left(planned: list[Group], shares: Iterator[Share]) -> Iterator[Share]:
    """Return the shares left for the pipeline, which replans the groups planned here."""
    for group in planned:
        yield from group.shares
    yield from shares


def _keep(group: Group, batches: list[dict[str, Any]]) -> None:
    """Release nothing: no chunk was pinned."""
    del group, batches
