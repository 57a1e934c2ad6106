"""The recorder of a process: notes what its loader hands out and what the program logs.

    user's thread   hand_out ─ log ─ hand_out ─ …      2 µs each, into memory
                        │ every 30 s, at the end of a pass, and at close()
    storage thread      └─► events-<n>.arrow, rows-<n>.arrow ─ every hour ─► events-<n>-<m>.parquet

A part that the store refuses is kept, and put again with the next; `close` raises the error then.
Forked children, such as workers of a DataLoader, record nothing.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
import warnings
import weakref
from bisect import bisect_left
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tensorlake.dataset.runs.arguments import arguments_to_json
from tensorlake.dataset.runs.record import Record, Segment, software
from tensorlake.dataset.runs.tables import (
    ROW_COLUMNS,
    Meter,
    Step,
    Table,
    joined_bytes,
    read_tables,
    table_bytes,
)
from tensorlake.dataset.runs.timeline import Timeline
from tensorlake.errors import (
    InvalidInputError,
    InvalidStateError,
    MissingExtraError,
    RunRecordWarning,
    TensorlakeError,
)
from tensorlake.storage import runtime
from tensorlake.versions import put_surely

if TYPE_CHECKING:
    from tensorlake.loader import Loader, Sharding, Share

__all__ = ["Recorder"]

_log = logging.getLogger("tensorlake.runs")
FLUSH_S = 30.0
LATE_STEPS = 3
"""Steps that scalars may be logged of: trainers ask for batches one or two ahead."""
JOIN_S = 3600.0
JOINED_PARTS = 128
"""Parts of one kind that are joined at most, and where they are this many, before the hour."""
JOINED_AT_CLOSE = 16
ROWS_NBYTES = 8 << 20
"""Values of rows that are held before they are written."""


class Recorder:
    """Records one process's part of a run. Safe to use from several threads.

    Attributes:
        record: The run's record.
        attempt: The name of what this process records.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.attempt = record.new_attempt()
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._watches: _Watch | None = None
        self._rank = 0
        self._meter = Meter(0, time.time())
        self._has_batches = False  # of a loader: otherwise the program counts steps
        self._counts = False  # whether the program does
        self._early: list[Mapping[str, float]] = []  # logged before the first batch
        self._recent: list[Step] = []  # which scalars may still be logged of
        self._next: int | None = None  # the next step; None: not known before a pass begins
        self._first = 0  # of the steps of this process
        self._numbers = {"segment": 0, "events": 0, "rows": 0}
        self._rows: list[Table] = []
        self._rows_nbytes = 0
        self._flushed = self._joined = time.monotonic()
        self._stored: dict[str, set[int]] = {"events": set(), "rows": set()}
        self._first_unjoined = {"events": 0, "rows": 0}
        self._joins: list[Future[Any]] = []
        self._puts: dict[str, tuple[Callable[[], bytes], Future[Any]]] = {}
        self._is_closed = False
        atexit.register(self._close)

    @property
    def step(self) -> int | None:
        """The step whose batch was handed out last; None before the first."""
        return self._recent[-1].step if self._recent else None

    def watch(
        self, loader: Loader, framework: str, arguments: Mapping[str, Any], *, is_staged: bool
    ) -> None:
        """Record the passes of a loader from now on, in place of another's."""
        self._check_usable()
        self._watches = _Watch(self, loader, framework, arguments_to_json(arguments), is_staged)
        loader.watch(self._watches)

    @property
    def loader(self) -> Loader | None:
        """The loader whose passes are recorded."""
        return None if self._watches is None else self._watches.loader()

    def begin(
        self,
        watch: _Watch,
        sharding: Sharding,
        batches: int | None,
        returned: tuple[int, int] | None,
    ) -> None:
        """Note that a pass of the loader begins."""
        loader = watch.loader()
        if loader is None or watch is not self._watches or self._is_elsewhere or self._is_closed:
            return
        state = loader.state_dict()
        with self._lock:
            if self._next is None:
                self._rank = sharding.rank
                self._meter = Meter(sharding.rank, time.time())
                timeline = Timeline(self.record.segments())  # of rank 0: the ranks' steps are equal
                place = returned or (state["epoch"], state["position"])
                found = timeline.step_of(state, place, partial(_batches_between, loader))
                self._next = self._first = self._recorded_end() if found is None else found
            self.flush()
            segment = Segment(
                attempt=self.attempt,
                number=self._numbers["segment"],
                step=self._next,
                rank=sharding.rank,
                batches=batches,
                world_size=sharding.world_size,
                global_batch_size=sharding.global_batch_size,
                framework=watch.framework,
                state=state,
                arguments=watch.arguments,
                software=software_of(loader),
                is_staged=watch.is_staged,
            )
            content = segment.to_json()
            self._put("segment", lambda: json.dumps(content, indent=1).encode())

    def hand_out(self, share: Share, epoch: int, *, wait_s: float, user_s: float) -> None:
        """Note a batch: a new step begins."""
        if self._is_elsewhere or self._is_closed:
            return
        with self._lock:
            self._has_batches = True
            early = {name: value for one in self._early for name, value in one.items()}
            self._early.clear()
            if self._recent:
                self._recent[-1].compute_s = user_s
            step, self._next = self._next or 0, (self._next or 0) + 1
            self._add(Step(step, time.time(), epoch, share.next_place, wait_s, scalars=early))

    def log(self, scalars: Mapping[str, float], step: int | None = None) -> None:
        """Log scalars of the step handed out last; without a loader, of a step of their own.

        Raises:
            InvalidInputError: A loader's batches are past the step, or before it.
        """
        self._check_usable()
        with self._lock:
            if not (self._has_batches or self._counts):
                if step is None:  # of the first batch, if a loader hands one out
                    self._early.append(scalars)
                    if time.monotonic() - self._flushed >= FLUSH_S:
                        self.flush()
                    return
                self._count_early()
            newest = self.step
            if not self._has_batches:
                step = self._following(step)
            number = newest if step is None else step
            known = next((one for one in self._recent if one.step == number), None)
            if known is None and not self._has_batches:
                known = Step(number or 0, time.time(), -1, -1, 0.0)
                self._add(known)
            if known is None:
                raise InvalidInputError(
                    f"step={number}: the loader's newest batch is of step {newest}, and values are"
                    f" of it or of the {LATE_STEPS - 1} before\nleave step= out",
                    actual=number,
                )
            known.scalars.update(scalars)

    def log_counted(self, scalars: Mapping[str, float], number: int) -> None:
        """Log scalars of a step by its number in this process, from 0."""
        self.log(scalars, self._first + number)

    def log_rows(self, ids: npt.NDArray[Any], values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Log values of rows, by row id."""
        self._check_usable()
        count = len(ids)
        with self._lock:
            step = self.step
            own = {
                "step": np.full(count, -1 if step is None else step, np.int64),
                "rank": np.full(count, self._rank, np.int32),
                **{name: ids[name] for name in ("txid_high", "txid_low", "offset")},
            }
            table = pa.table({name: pa.array(array) for name, array in own.items()})
            table = table.cast(ROW_COLUMNS)
            for name, array in values.items():
                table = table.append_column(name, pa.array(array, pa.float64()))
            self._rows.append(table)
            self._rows_nbytes += table.nbytes
            if self._rows_nbytes > ROWS_NBYTES:
                self.flush()

    def flush(self) -> None:
        """Begin to write what was collected; a part that failed before is put again."""
        with self._lock:
            self._flushed = time.monotonic()
            if self._early and self._watches is None:
                self._count_early()
            for path, (make, future) in list(self._puts.items()):
                if not future.done():
                    continue
                error = future.exception()
                if error is None:
                    del self._puts[path]
                    self._note_stored(path)
                elif isinstance(error, TensorlakeError):
                    warnings.warn(RunRecordWarning(_failed(self.record, error)), stacklevel=2)
                    self._puts[path] = make, self._submitted(path, make)
                else:
                    raise error
            self._join_stored()
            if (events := self._meter.take()) is not None:
                self._put("events", partial(table_bytes, events))
            if self._rows:
                rows, self._rows, self._rows_nbytes = self._rows, [], 0
                self._put("rows", partial(_joined_bytes, rows))

    def _note_stored(self, path: str) -> None:
        """Note that a part is in the store, and may be joined with others."""
        kind, _, rest = path.rpartition("/")[2].partition("-")
        if kind in self._stored:
            self._stored[kind].add(int(rest.partition(".")[0]))

    def _join_stored(self, *, at_close: bool = False) -> None:
        """Begin to join stored parts of an hour, without a gap: a part may be put again later."""
        is_due = time.monotonic() - self._joined >= JOIN_S
        for kind, stored in self._stored.items():
            first = last = self._first_unjoined[kind]
            while last in stored and last - first < JOINED_PARTS:
                last += 1
            count = last - first
            least = JOINED_AT_CLOSE if at_close else 2 if is_due else JOINED_PARTS
            if count < least:
                continue
            self._first_unjoined[kind] = last
            stored.difference_update(range(first, last))
            join = partial(_join, self.record, self.attempt, kind, range(first, last))
            with suppress(RuntimeError):  # the interpreter exits: the parts stay
                self._joins = [one for one in self._joins if not one.done()]
                self._joins.append(runtime.submit_here(join))
        if is_due:
            self._joined = time.monotonic()

    def wait(self) -> None:
        """Wait for what is being written."""
        for _, future in list(self._puts.values()):
            future.exception()
        for future in self._joins:
            future.exception()

    def close(self) -> None:
        """Write the rest, and wait for it.

        Raises:
            StorageError: The store took a part neither before nor now.
        """
        if not (self._is_closed or self._is_elsewhere):
            self._close()
            if self._has_batches:
                self._warn_of_others()

    def _close(self) -> None:
        """Close; at the interpreter's exit stores can be written to, but not listed."""
        if self._is_closed or self._is_elsewhere:
            return
        with self._lock:
            if self._early:
                self._count_early()
            while self._recent:
                self._meter.add(self._recent.pop(0))
            self.flush()
            self._is_closed = True
            atexit.unregister(self._close)
            puts = dict(self._puts)
            self._puts.clear()
        for path, (make, future) in puts.items():
            try:
                future.result()
            except TensorlakeError:
                self._submitted(path, make).result()
            self._note_stored(path)
        self._join_stored(at_close=True)
        for future in self._joins:
            future.result()

    def _warn_of_others(self) -> None:
        """Warn if a process that began later recorded the same rank: its steps replace these."""
        later = [
            one
            for one in self.record.segments()
            if one.attempt > self.attempt and one.rank == self._rank
        ]
        if later:
            first = min(one.step for one in later)
            warnings.warn(
                RunRecordWarning(
                    f"another process has recorded run {self.record.name!r} as rank {self._rank}"
                    f" meanwhile, and its steps from {first} on replace the ones of this process\n"
                    "give each program a run of its own, and each process its rank"
                ),
                stacklevel=3,
            )

    def _count_early(self) -> None:
        """Let the program count the steps: each call of log() without a loader's batch is one."""
        self._counts = True
        if self._watches is not None:
            warnings.warn(RunRecordWarning(_elsewhere(self.record)), stacklevel=4)
        for scalars in self._early:
            self._add(Step(self._following(None), time.time(), -1, -1, 0.0, scalars=dict(scalars)))
        self._early.clear()

    def _following(self, step: int | None) -> int:
        """Return the step that is logged without a loader."""
        if step is not None:
            self._next = step + 1
            return step
        if self._next is None:
            self._next = self._recorded_end()
        self._next += 1
        return self._next - 1

    def _recorded_end(self) -> int:
        """Return the step after the last that is recorded, of any rank."""
        steps = read_tables(self.record, "events", {}).column("step").to_pylist()
        return max(steps, default=-1) + 1

    def _add(self, step: Step) -> None:
        self._recent.append(step)
        if len(self._recent) > LATE_STEPS:
            self._meter.add(self._recent.pop(0))
        if time.monotonic() - self._flushed >= FLUSH_S:
            self.flush()

    def _put(self, kind: str, make: Callable[[], bytes]) -> None:
        path = self.record.path(self.attempt, kind, self._numbers[kind])
        self._numbers[kind] += 1
        self._puts[path] = make, self._submitted(path, make)

    def _submitted(self, path: str, make: Callable[[], bytes]) -> Future[Any]:
        store = self.record.store
        try:
            return runtime.submit_here(lambda: put_surely(store, path, make()))
        except RuntimeError:  # the interpreter exits, and its threads take no more work
            done = Future[Any]()
            done.set_result(runtime.run_here(put_surely(store, path, make())))
            return done

    @property
    def _is_elsewhere(self) -> bool:
        return os.getpid() != self._process

    def _check_usable(self) -> None:
        if self._is_closed:
            raise InvalidStateError(
                f"the run {self.record.name!r} was closed\nopen it again: ds.run(name)"
            )
        if self._is_elsewhere:
            raise InvalidStateError(
                f"the run {self.record.name!r} is of another process, which this one was forked"
                " from\nlog in the process that trains, or open the run here: ds.run(name)"
            )


class _Watch:
    """Passes a loader's batches to the recorder; the loader refers to it, and it only weakly."""

    def __init__(
        self,
        recorder: Recorder,
        loader: Loader,
        framework: str,
        arguments: Mapping[str, Any],
        is_staged: bool,  # noqa: FBT001 - one place makes it
    ) -> None:
        self.framework = framework
        self.arguments = arguments
        self.is_staged = is_staged
        self.loader = weakref.ref(loader)
        self._recorder = recorder
        self._epoch = 0

    def begin(
        self, sharding: Sharding, batches: int | None, returned: tuple[int, int] | None
    ) -> None:
        """Note that a pass begins."""
        if (loader := self.loader()) is not None:
            self._epoch = loader.epoch
        self._recorder.begin(self, sharding, batches, returned)

    def hand_out(self, share: Share, *, wait_s: float, user_s: float) -> None:
        """Note a batch."""
        self._recorder.hand_out(share, self._epoch, wait_s=wait_s, user_s=user_s)


def _batches_between(loader: Loader, segment: Segment, position: int) -> int | None:
    """Count the batches from a segment's beginning to a place; None: none begins there."""
    start = int(segment.state["position"])
    batches = loader.batches_from(start, size=segment.global_batch_size)
    if position <= start:
        return 0 if position == start else None
    number = bisect_left(range(batches.count), position, key=batches.stop)
    is_border = number < batches.count and batches.stop(number) == position
    return number + 1 if is_border else None


async def _join(record: Record, attempt: str, kind: str, numbers: range) -> None:
    """Put parts as a larger one, then delete them: until then both are there, and one counts."""
    own = [record.path(attempt, kind, number) for number in numbers]
    try:
        parts = [await record.store.get(path) for path in own]
        if None in parts:  # the record is being removed
            return
        path = record.path(attempt, kind, numbers[0], numbers[-1])
        await put_surely(record.store, path, joined_bytes([part or b"" for part in parts]))
        for one in own:
            await record.store.delete(one)
    except TensorlakeError as error:
        _log.info("parts of the record of run %r stay as they are: %s", record.name, error)


def _joined_bytes(tables: list[Table]) -> bytes:
    return table_bytes(pa.concat_tables(tables, promote_options="default"))


def software_of(loader: Loader) -> dict[str, str]:
    """Return versions of the software that makes a loader's batches, and what resizes images."""
    from tensorlake.loader import decode

    is_media = any(one.type is not None and one.type.is_media for one in loader.columns)
    try:
        return software() | ({"resampler": decode.choose_resampler().name} if is_media else {})
    except MissingExtraError:
        return software()


def _elsewhere(record: Record) -> str:
    return (
        f"run {record.name!r} has a loader, but none of its batches was handed out in this process:"
        " workers of a DataLoader do not record, and each call of log() counts as a step\nread the"
        " loader itself, or give its DataLoader num_workers=0: it has threads of its own"
    )


def _failed(record: Record, error: TensorlakeError) -> str:
    return f"a part of the record of run {record.name!r} is not stored yet: {error}"
