"""`History`: the passes that a run recorded, and the questions that their orders answer."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tensorlake.dataset.core.row_identity import rows_in, rows_of_ids
from tensorlake.dataset.core.rowset import HasViews, rowset_of
from tensorlake.dataset.runs.record import Kind, Part, Record, Segment
from tensorlake.dataset.runs.replay import CanLoad, Replay, Seen, check_rank, check_whole_rows
from tensorlake.dataset.runs.tables import (
    ROW_COLUMNS,
    Table,
    parsed_part,
    read_row,
    read_step,
    read_tables,
    value_names,
)
from tensorlake.dataset.runs.timeline import SeenRow, StepRows, Stretch, Timeline, of_epoch
from tensorlake.dataset.runs.values import ids_in
from tensorlake.errors import InvalidInputError
from tensorlake.loader import EpochOrder
from tensorlake.reading import Snapshot

__all__ = ["History", "Status"]

Int64Array = npt.NDArray[np.int64]


Status = Literal["recording", "complete", "unfinished", "empty"]
"""Whether a part was written just now, or the last pass was completed, or not; or none is there."""
RECORDING_S = 90.0
"""A run is being recorded if its newest part is younger: one is written every 30 s."""


class History:
    """The passes of a run and its steps; they are read once, until there are more.

    Attributes:
        record: The run's record.
        replay: Makes the loaders of passes again.
    """

    def __init__(
        self,
        record: Record,
        dataset: HasViews[Any] | None,
        rows: CanLoad | None,
        *,
        reaches_out: bool = True,
    ) -> None:
        self.record = record
        was = str(record.content.get("dataset"))
        now, options = was, cast("Mapping[str, Any]", {})
        if dataset is not None:
            own = rowset_of(dataset)
            now, options = own.url, own.session.options
        options = options.get("storage_options") or {}
        moved = was, now
        self.replay = Replay(record.name, moved, options, record, rows, reaches_out=reaches_out)
        self._segments: tuple[list[Part], list[Segment]] = [], []
        self._steps: tuple[list[Part], Table | None] = [], None
        self._spans: dict[str, range] = {}
        self._names: dict[str, list[str]] = {}

    @property
    def timelines(self) -> dict[int, Timeline]:
        """The steps of each rank."""
        segments = self.segments
        return {rank: Timeline(segments, rank) for rank in {one.rank for one in segments}}

    @property
    def segments(self) -> list[Segment]:
        """The recorded passes, in the order of their attempts."""
        parts = self.record.parts("segment")
        if self._segments[0] != parts:
            self._segments = parts, self.record.segments()
        return self._segments[1]

    @property
    def steps(self) -> Table:
        """The steps, with the scalars that were logged."""
        parts, (known, table) = self.record.parts(), self._steps
        if table is None or known != parts:
            table = read_tables(self.record, "events", self.timelines)
            table = table.sort_by([("step", "ascending"), ("rank", "ascending")])
            self._steps = parts, table
        return table

    @property
    def stretches(self) -> list[Stretch]:
        """The passes, the newest as far as its steps are recorded."""
        last = max(self.steps.column("step").to_numpy(), default=-1)
        return Timeline(self.segments).known(int(last))

    @property
    def version(self) -> str:
        """A text that is another one when something was recorded since."""
        text = "\n".join(part.path for part in self.record.parts())
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def value_names(self) -> list[str]:
        """Names of the values that were logged of rows: of the newest part of each attempt."""
        newest = {part.attempt: part for part in self.record.parts("rows")}.values()
        unknown = [part for part in newest if part.path not in self._names]
        for part, data in self.record.read_parts(unknown):
            self._names[part.path] = value_names(parsed_part(part.path, data, step=-1))
        named = [self._names.get(part.path, []) for part in newest]
        return list(dict.fromkeys(itertools.chain.from_iterable(named)))

    def nbytes(self, kind: Kind) -> int:
        """Return how many bytes of a kind are stored."""
        return sum(part.nbytes for part in self.record.parts(kind))

    def status(self, now: datetime) -> Status:
        """Return whether the run goes on, and how it ended.

        Args:
            now: The time, with a time zone.
        """
        parts = self.record.parts()
        newest = max((part.modified for part in parts if part.modified is not None), default=None)
        if newest is not None and (now - newest).total_seconds() < RECORDING_S:
            return "recording"
        if not len(self.steps):
            return "empty"
        stretches = self.stretches
        return "unfinished" if stretches and not stretches[-1].is_whole else "complete"

    def step_rows(self, step: int, rank: int | None, snapshot: Snapshot) -> StepRows:
        """Return the rows of a step's batch, or of a rank's part, by the numbers of a version.

        Where the record does not identify the rows of a batch, as of a mix, these are the rows of
        the version that values were logged of.

        Raises:
            InvalidInputError: There is no such step or rank.
        """
        stretch = self.stretch(step)
        if rank is not None:
            check_rank(rank, stretch.segment)
        try:
            return self._batch_rows(stretch, step, rank, snapshot)
        except InvalidInputError as error:  # step and rank are there: it is the rows
            table = self.step_values(step)
            if rank is not None:
                table = table.filter(pa.array(table.column("rank").to_numpy() == rank))
            rows = rows_of_ids(ids_in(table), snapshot)
            version = str(stretch.segment.state["version"])
            return StepRows(rows, version, stretch, str(error))

    def _batch_rows(
        self, stretch: Stretch, step: int, rank: int | None, snapshot: Snapshot
    ) -> StepRows:
        plan = self.replay.at(stretch.segment).plan
        check_whole_rows(plan, f"the rows of run {self.record.name!r}")
        read = cast("Snapshot", plan.selection.snapshot)
        rows = self.replay.rows_at(stretch, step, rank)
        found = np.full(len(rows), -1, np.int64)
        found[rows >= 0] = rows_in(read, rows[rows >= 0], snapshot)
        return StepRows(found, read.version, stretch)

    def seen_row(self, row_id: Any, *, reads_values: bool) -> SeenRow:
        """Return the steps whose batches had a row, and the values logged of it at each.

        Args:
            row_id: The row's id, a NumPy record.
            reads_values: Whether to read the values that were logged of rows, which may be many.

        Raises:
            CorruptionError: A part is damaged.
        """
        table = ROW_COLUMNS.empty_table()
        if reads_values:
            table = read_row(self.record, row_id, self.timelines)
        logged = table.column("step").to_pylist()
        try:
            steps, missing = self.steps_with(np.array([row_id])), ""
        except InvalidInputError as error:
            steps, missing = sorted(set(logged)), str(error)
        values: dict[str, list[float | None]] = {}
        for name in value_names(table):
            pairs = zip(logged, table.column(name).to_pylist(), strict=True)
            known = {step: value for step, value in pairs if value is not None}
            values[name] = [known.get(step) for step in steps]
        return SeenRow(steps, values, missing)

    def step_values(self, step: int) -> Table:
        """Return the values of rows that were logged at a step; few parts are read for it."""
        return read_step(self.record, step, self.timelines, self._spans)

    def stretch(self, step: int) -> Stretch:
        """Return the pass of a step, also of one that is not recorded yet.

        Raises:
            InvalidInputError: The run has no such step.
        """
        return Timeline(self.segments).stretch(step)

    def steps_of(self, rows: Int64Array) -> list[list[int]]:
        """Return the steps whose batches had each of some rows of the version first read."""
        stretches = self.stretches
        if not stretches:
            return [[] for _ in rows]
        return self.steps_by_id(self.replay.ids_of(stretches[0], rows))

    def steps_by_id(self, ids: npt.NDArray[Any]) -> list[list[int]]:
        """Return the steps whose batches had the row of each of some ids, ascending."""
        none = np.zeros(0, np.int64)
        found = [self.replay.steps_of(one, ids) for one in self.stretches]
        which = np.concatenate([none, *(one for one, _ in found)])
        steps = np.concatenate([none, *(one for _, one in found)])
        pairs = np.unique(np.stack((which, steps)), axis=1)
        borders = np.searchsorted(pairs[0], np.arange(1, len(ids)))
        return [part.tolist() for part in np.split(pairs[1], borders)] if len(ids) else []

    def steps_with(self, ids: npt.NDArray[Any]) -> list[int]:
        """Return the steps whose batches had one of the rows of some ids, ascending."""
        return sorted({step for steps in self.steps_by_id(ids) for step in steps})

    @property
    def has_inverse(self) -> bool:
        """Whether places of rows are computed, not sought: of whole rows of one dataset."""
        plans = (self.replay.at(one.segment).plan for one in self.stretches)
        return all(isinstance(one, EpochOrder) and one.has_inverse for one in plans)

    def looked_up(
        self, ids: npt.NDArray[Any], epoch: int | None, *, last: bool
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """List which of some ids were seen at which steps, a stretch at a time; as ``seen``."""
        stretches = of_epoch(self.stretches, epoch, last=last, run=self.record.name)
        return (self.replay.steps_of(one, ids) for one in stretches)

    def seen(
        self, epoch: int | None = None, *, last: bool = False, steps: range | None = None
    ) -> Iterator[Seen]:
        """List the rows of recorded steps, a stretch of steps at a time.

        Args:
            epoch: The epoch; None: all, or with ``last`` the last that was completed.
            last: Whether to list one epoch only.
            steps: Only these steps; None: all.

        Raises:
            InvalidInputError: No such epoch was recorded, or none was completed.
        """
        stretches = of_epoch(self.stretches, epoch, last=last, run=self.record.name)
        return (
            self.replay.seen(one, steps)
            for one in stretches
            if steps is None or (one.start < steps.stop and (one.stop or steps.stop) > steps.start)
        )
