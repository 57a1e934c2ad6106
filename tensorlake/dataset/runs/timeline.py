"""Which pass each step of a run belongs to, when a run was stopped and resumed.

    attempt 0   steps  0 ─────────── 57 ✂            killed; its last checkpoint was after step 40
    attempt 1   steps             41 ─────────► 99   began at the state of that checkpoint
    the run     steps  0 ──── 40 ┊ 41 ────────► 99

A later attempt replaces the steps from its first on: what the model had learnt of them was lost.
Within an attempt steps only count on, also if the program goes back to an earlier epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.runs.record import Segment
from tensorlake.errors import InvalidInputError

__all__ = ["SeenRow", "StepRows", "Stretch", "Timeline", "of_epoch"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps [start, stop) of a run, and the pass that made them; ``stop`` None: no known end."""

    start: int
    stop: int | None
    segment: Segment

    @property
    def epoch(self) -> int:
        """The epoch of its steps."""
        return int(self.segment.state["epoch"])

    @property
    def is_whole(self) -> bool:
        """Whether it ends where its pass would, so that its epoch was completed."""
        batches = self.segment.batches
        return batches is not None and self.stop == self.segment.step + batches

    def __contains__(self, step: int) -> bool:
        return self.start <= step and (self.stop is None or step < self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    """The batch of a step, as rows of a version.

    Attributes:
        rows: Their numbers, int64, in the order of the batch; −1 of rows that it does not show.
        version: The version that was read.
        stretch: The pass that the step belongs to.
        missing: Why the record does not identify the rows of the batch, so that these are the rows
            that values were logged of; empty where they are the batch.
    """

    rows: Int64Array
    version: str
    stretch: Stretch
    missing: str = ""


@dataclass(frozen=True, slots=True)
class SeenRow:
    """When a run read a row.

    Attributes:
        steps: The steps whose batches had the row, ascending.
        values: By name, the value logged of it at each of these steps, the last where it was twice
            in a batch; None where none was.
        missing: Why the record does not identify the steps of the row, so that these are the steps
            at which values of it were logged; empty where they are all.
    """

    steps: list[int]
    values: dict[str, list[float | None]]
    missing: str = ""


def of_epoch(
    stretches: Sequence[Stretch], epoch: int | None, *, last: bool, run: str
) -> Sequence[Stretch]:
    """Return the stretches of an epoch; of None: all, or with ``last`` the last completed one's.

    Raises:
        InvalidInputError: The run has no such epoch, or completed none.
    """
    if epoch is None and last:
        done = [one.epoch for one in stretches if one.is_whole]
        if not done:
            raise InvalidInputError(f"run {run!r} completed no epoch\nname one: epoch => 0")
        epoch = max(done)
    if epoch is None:
        return stretches
    found = [one for one in stretches if one.epoch == epoch]
    if not found:
        raise InvalidInputError(f"run {run!r} has no epoch {epoch}")
    return found


class Timeline:
    """The steps of one rank of a run."""

    def __init__(self, segments: Sequence[Segment], rank: int = 0) -> None:
        """Accept segments in the order of their attempts."""
        self.rank = rank
        # where there was no such rank, an attempt of fewer ranks replaced its steps all the same
        own = [
            one
            for one in segments
            if one.rank == rank or (one.rank == 0 and one.world_size <= rank)
        ]
        kept: list[Segment] = []
        for segment in own:
            kept = [one for one in kept if one.step < segment.step]
            kept.append(segment)
        ends = [*(later.step for later in kept[1:]), *([None] if kept else [])]
        self.stretches = [
            Stretch(one.step, _stop(one, end), one) for one, end in zip(kept, ends, strict=True)
        ]

    def known(self, last: int) -> list[Stretch]:
        """Return the stretches, the newest only as far as a step that is the last one recorded."""
        stretches = list(self.stretches)
        if stretches:
            newest = stretches[-1]
            stop = max(last + 1, newest.start)
            ends = stop if newest.stop is None else min(stop, newest.stop)
            stretches[-1] = replace(newest, stop=ends)
        return stretches

    def stretch(self, step: int) -> Stretch:
        """Return the stretch of a step.

        Raises:
            InvalidInputError: The run has no such step.
        """
        found = next((one for one in self.stretches if step in one), None)
        if found is None:
            last = self.stretches[-1].stop if self.stretches else 0
            ends = "" if last is None else f"; its steps are 0 to {last - 1:,}"
            raise InvalidInputError(
                f"the run has no step {step:,}" + (ends if last else "; it recorded no batch"),
                actual=step,
            )
        return found

    def keeps(self, attempt: str, steps: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which steps of an attempt were not replaced by a later one."""
        kept = np.ones(len(steps), dtype=np.bool_)
        for one in self.stretches:
            if one.segment.attempt > attempt:
                kept &= steps < one.start
        return kept

    def step_of(
        self,
        state: Mapping[str, Any],
        place: tuple[int, int],
        batches_between: Callable[[Segment, int], int | None],
    ) -> int | None:
        """Return the step that follows a loader's state, in a process that begins with it.

        It is where a recorded pass had that state, or after the epoch before it; None if neither
        is recorded.

        Args:
            state: The loader's state.
            place: The epoch and position that it began with; the epoch may be over there.
            batches_between: Counts the batches from a segment's start to a place of its epoch; None
                where no batch begins there.
        """
        epoch, position = place
        found = self._step_of(state, epoch, position, batches_between)
        cuts = _cuts_of(state)
        while found is None and cuts and cuts[-1]["place"] == position:
            state = _before_cut(state)  # a splice that only this process has made
            found, cuts = self._step_of(state, epoch, position, batches_between), _cuts_of(state)
        return found

    def _step_of(
        self,
        state: Mapping[str, Any],
        epoch: int,
        position: int,
        batches_between: Callable[[Segment, int], int | None],
    ) -> int | None:
        alike = [one for one in reversed(self.stretches) if _is_alike(one.segment.state, state)]
        for one in alike:
            if one.segment.state["epoch"] != epoch:
                continue
            if position == state["num_rows"]:
                return one.stop
            batches = batches_between(one.segment, position)
            if batches is not None and (one.stop is None or one.start + batches <= one.stop):
                return one.start + batches
        before = (one for one in alike if one.segment.state["epoch"] == epoch - 1)
        return next((one.stop for one in before if position == 0), None)


def _stop(segment: Segment, following: int | None) -> int | None:
    """Return where a segment's steps end: with its pass, or where the next segment begins."""
    own = None if segment.batches is None else segment.step + segment.batches
    known = [one for one in (own, following) if one is not None]
    return min(known) if known else None


def _is_alike(recorded: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether two states are of the same order of the same rows."""
    same = "selection", "seed"
    if any(recorded.get(name) != state.get(name) for name in same):
        return False
    if _base_of(recorded) != _base_of(state):
        return False
    return recorded["epoch"] != state["epoch"] or _cuts_of(recorded) == _cuts_of(state)


def _base_of(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the order of a state's whole epochs."""
    order = state["order"]
    return order["base"] if order["kind"] in ("spliced", "spliced mix") else order


def _cuts_of(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return where the epoch of a state was spliced."""
    order = state["order"]
    if order["kind"] == "spliced mix":
        return [{"place": None, "sources": order["sources"]}] if "place" in order else []
    return order.get("cuts", [])


def _before_cut(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state as it was before the last splice of its epoch."""
    *earlier, last = _cuts_of(state)
    order = {"kind": "spliced", "base": last["order"], "cuts": earlier}
    return {**state, "selection": last["selection"], "order": order, "num_rows": last["rows"]}
