"""Assembly: turns a group's chunks, all in memory, into its batches.

    gather      uniform columns: one call each; ragged and encoded ones: a list of samples
    decode      images, divided among the worker threads, into one array if shapes agree
    move        annotations with their image, and the values of items that leave it
    transform   the user's, row by row, divided among the same threads
    cut         the group's columns into batches, ragged ones collated

Small batches of only uniform columns are gathered late, by the consumer: the fastest memory is that
which its own thread has just freed, and the copy costs less than a handover.

The last thread to finish a stage starts the next; none waits. An exception ends the group.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import CorruptSampleError
from tensorlake.loader.config.collate import collate_ragged, null_in_batch
from tensorlake.loader.config.column_plan import SKIPPED, VALID, ColumnPlan
from tensorlake.loader.decode import MixedRows, Placement, Sample
from tensorlake.loader.sources.damaged_rows import RowsLeftOut, lost_rows, with_blanks
from tensorlake.loader.sources.gather import RowGather
from tensorlake.loader.stages.annotations import Annotations, as_sent
from tensorlake.loader.stages.gather_lists import (
    gather_uniform,
    pick_encoded,
    pick_images,
    pick_parts,
    pick_ragged,
    pick_virtual,
)
from tensorlake.loader.stages.sample_ranges import ranges_of

if TYPE_CHECKING:
    from tensorlake.loader.caches.decoded_images import DecodedImages
    from tensorlake.loader.config.column_plan import MakeBatch, RowDecoder
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.runtime.threads import WorkerThreads
    from tensorlake.loader.sources.batch_group import Group, Piece
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.chunk_cache import ChunkCache, TensorChunks
    from tensorlake.loader.stages.transform import RowTransform

__all__ = ["MAX_PIECE_ROWS", "Assembler", "OnError"]

Combine: TypeAlias = Callable[[Any, dict[str, Any], "SlabPool"], dict[str, Any]]
OnError: TypeAlias = Literal["raise", "skip"]
MAX_PIECE_ROWS = 8  # some milliseconds of decoding: long compared to a task, short at the end
PIECES_A_THREAD = 4
LATE_ROWS = 1024  # NumPy's gathers of more than 500 release the GIL: planning continues
NOTHING_AHEAD: tuple[int, int, NDArray[Any]] = (0, 0, np.empty(0))


@dataclass(frozen=True, slots=True)
class Assembler:
    """The assembly of groups during one epoch."""

    columns: tuple[ColumnPlan, ...]
    cache: ChunkCache
    slabs: SlabPool
    workers: WorkerThreads
    counters: Counters
    seed: int
    epoch: int
    on_error: OnError
    transform: RowTransform | None
    with_valid: bool  # every batch carries _valid, and places are kept
    is_late: bool  # batches are small, and gathered by the consumer from chunks in memory
    release: Callable[[Group, list[dict[str, Any]]], None]  # its chunks, once batches are made
    combine: Combine | None = None  # rows into units
    joins: frozenset[str] = frozenset()  # columns that units join from ranges of samples
    decoded: DecodedImages | None = None  # on disk
    notes_left_out: bool = False  # batches carry which rows they lack, for the client they are for

    def begin(self, group: Group) -> Assembly:
        """Prepare to assemble a group; call ``finish`` when all its needs are loaded."""
        return Assembly(self, group)


@dataclass(slots=True)
class Assembly:
    """One group being assembled."""

    how: Assembler
    group: Group
    values: dict[str, Any] = field(default_factory=dict[str, Any])  # by row: array or list
    waiting: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])  # to be decoded
    gathers: dict[str, RowGather] = field(default_factory=dict[str, RowGather])
    samples: dict[str, list[Sample | None]] = field(default_factory=dict[str, list[Sample | None]])
    placements: dict[str, list[Placement | None]] = field(
        default_factory=dict[str, list[Placement | None]]
    )
    annotations: Annotations = field(init=False)
    arrived: set[str] = field(default_factory=set[str])  # images decoded piece by piece
    left_out: RowsLeftOut = field(init=False)
    is_whole: NDArray[np.bool_] = field(init=False)
    transformed: list[Mapping[str, Any] | None] = field(init=False)
    ahead: dict[str, Any] = field(default_factory=dict[str, Any])  # as NOTHING_AHEAD
    borders: list[int] = field(init=False)  # the start of each batch in the rows, and the end
    late_s: float = 0.0
    pieces_left: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.left_out = RowsLeftOut(self.group.rows, self.how.counters)
        self.is_whole = self.left_out.is_whole
        self.transformed = [None] * len(self.group.places)
        self.borders = self.group.borders
        columns, rows = self.how.columns, self.group.rows
        self.annotations = Annotations.of(columns, self.values, self.placements, rows)

    def guard(self, stage: Callable[[], None]) -> None:
        """Run a stage; an exception becomes the group's outcome."""
        if self.group.batches.is_settled:
            return
        try:
            stage()
        except BaseException as error:  # noqa: BLE001 - raised to the consumer by the outcome
            self.group.batches.fail(error)

    def finish(self) -> None:
        """Continue when everything is loaded; the group's outcome is set in the end."""
        self.guard(self.gather)

    def expect(self, tensor: str) -> bool:
        """Prepare for images of a tensor that arrive in pieces; return whether it has images."""
        for column in self.how.columns:
            if column.name == tensor and column.kind == "image":
                self.arrived.add(tensor)
                self._make_room(column)
        return tensor in self.arrived

    def arrive(self, piece: Piece) -> None:
        """Decode the rows of a piece that has arrived."""
        for column in self.how.columns:
            if column.name == piece.tensor and piece.tensor in self.arrived:
                self._take_slab(column)
                self._pick(column, piece.rows)
                with self.how.counters.timed("decode_s"):
                    decoded = sum(self._decode_one(column, row) for row in piece.rows.tolist())
                self.how.counters.add(pictures=decoded)

    def gather(self) -> None:
        """Copy or list the columns that need no decoding, then decode."""
        with self.how.counters.timed("gather_s"):
            for column in self.how.columns:
                self._leave_out_lost(column)
            for column in self.how.columns:
                self._gather_column(column)
        to_decode = self.waiting or self.samples.keys() - self.arrived
        self._share_out(self._decode_rows if to_decode else None, self._move)

    def _leave_out_lost(self, column: ColumnPlan) -> None:
        """Leave out the rows whose stored bytes are damaged, under ``on_error="skip"``."""
        rows = self.group.tensors.get(column.name)
        lost = None if rows is None else lost_rows(self._chunks(column.name), rows)
        if lost is not None:
            self.left_out.leave_out_damaged(np.flatnonzero(lost), column.name)

    def _gather_column(self, column: ColumnPlan) -> None:
        name = column.name
        match column.kind:
            case _ if name in self.how.joins:
                self.values[name] = ranges_of(self._chunks(name), self.group.tensors[name])
            case "row":
                self.values[name] = self.group.rows
            case "virtual":
                is_whole = column.collate is None and self.how.transform is None
                is_array = column.is_stacked and self.how.transform is None
                self.values[name] = pick_virtual(
                    self.group.virtual[name],
                    name,
                    is_whole=is_whole,
                    is_array=is_array,
                    null=column.null,
                )
            case "uniform":
                self._gather_uniform(column)
            case "ragged":
                self.values[name] = pick_ragged(
                    self._chunks(name), self.group.tensors[name], column.null, column.linear
                )
            case "encoded":
                samples = pick_encoded(self._chunks(name), self.group.tensors[name], column.null)
                if column.mover is not None:
                    self.values[name] = samples  # decoded when they are moved
                    return
                present = column.presenter()
                with self.how.counters.timed("decode_s"):
                    self.values[name] = [
                        None if one is None else present(one, row=row)
                        for one, row in zip(samples, self.group.rows.tolist(), strict=True)
                    ]
            case "decoded":
                pick = pick_encoded if column.parts is None else pick_parts
                found = [*pick(self._chunks(name), self.group.tensors[name], column.null)]
                self._take_slab(column)
                self.placements[name] = [None] * len(found)
                self._blank(column, np.arange(len(found)), found)
                self.waiting[name] = found
            case "image":
                self._take_slab(column)
                if name not in self.arrived:
                    self._make_room(column)
                    self._pick(column, np.arange(len(self.group.places)))

    def _make_room(self, column: ColumnPlan) -> None:
        count = len(self.group.places)
        self.samples[column.name], self.placements[column.name] = [None] * count, [None] * count

    def _take_slab(self, column: ColumnPlan) -> None:
        """Take memory for a decoded column when the first of its rows is to be decoded.

        Not earlier: dozens of groups of a remote dataset wait for their chunks, and later ones
        reuse the memory of batches that the user has freed.
        """
        if column.name in self.values:
            return
        with self.lock:
            if column.collate is not None or column.mover is not None:
                self.values.setdefault(column.name, [None] * len(self.group.places))
            elif column.name not in self.values and column.dtype is not None:
                shape = (len(self.group.places), *(length or 0 for length in column.shape))
                self.values[column.name] = self.how.slabs.array(shape, column.dtype)

    def _pick(self, column: ColumnPlan, rows: Int64Array) -> None:
        name = column.name
        assert column.type is not None
        samples = pick_images(self._chunks(name), self.group, rows, column.type, column.null)
        self._blank(column, rows, samples)
        for row, sample in zip(rows.tolist(), samples, strict=True):
            self.samples[name][row] = sample

    def _blank(self, column: ColumnPlan, rows: Int64Array, samples: Sequence[object]) -> None:
        """Set lost rows of an array to zeros, and refuse stored NULLs, which it cannot have."""
        is_listed = column.collate is not None or column.mover is not None
        if is_listed or not any(one is None for one in samples):
            return
        is_null = np.array([one is None for one in samples])
        lost = lost_rows(self._chunks(column.name), self.group.tensors[column.name].part(rows))
        if lost is None or bool((is_null & ~lost).any()):
            raise null_in_batch(column.name)
        self.values[column.name][rows[lost]] = 0

    def _gather_uniform(self, column: ColumnPlan) -> None:
        rows, chunks = self.group.tensors[column.name], self._chunks(column.name)
        is_array = column.collate is None and self.how.transform is None
        found = gather_uniform(column, chunks, rows, is_array=is_array)
        if isinstance(found, RowGather):
            self.gathers[column.name] = found
        else:
            self.values[column.name] = found

    def _chunks(self, name: str) -> TensorChunks:
        return self.group.own.get(name) or self.how.cache.tensors[name]

    def _share_out(
        self,
        work: Callable[[int, int], None] | None,
        then: Callable[[], None],
        most: int = MAX_PIECE_ROWS,
    ) -> None:
        """Divide the group's rows among the threads; the last to finish continues with ``then``."""
        count = len(self.group.places)
        if work is None or count == 0:
            then()
            return
        workers = self.how.workers
        piece = max(1, min(most, count // (PIECES_A_THREAD * workers.count)))
        self.pieces_left = -(-count // piece)
        for start in range(0, count, piece):
            task = partial(self._piece, work, start, min(start + piece, count), then)
            workers.submit(task, order=self.group.number)

    def _piece(
        self, work: Callable[[int, int], None], start: int, stop: int, then: Callable[[], None]
    ) -> None:
        self.guard(partial(work, start, stop))
        with self.lock:
            self.pieces_left -= 1
            is_last = self.pieces_left == 0
        if is_last:
            self.guard(then)

    def _decode_rows(self, start: int, stop: int) -> None:
        decoded = 0
        with self.how.counters.timed("decode_s"):
            for column in self.how.columns:
                if column.kind == "image" and column.name not in self.arrived:
                    for number in range(start, stop):
                        decoded += self._decode_one(column, number)
                if column.row_decoder is not None:
                    decode = partial(self._decode_row, column, column.row_decoder)
                    decoded += sum(map(decode, range(start, stop)))
        self.how.counters.add(pictures=decoded)

    def _decode_one(self, column: ColumnPlan, number: int) -> int:
        sample = self.samples[column.name][number]
        decoder = column.decoder
        if sample is None or decoder is None:
            return 0
        target = self.values[column.name]
        placement = decoder.place(sample, self.how.epoch)
        self.placements[column.name][number] = placement
        try:
            decode = partial(decoder.decode, sample, placement, epoch=self.how.epoch)
            if (kept := self.how.decoded) is not None:
                row = int(self.group.physical[number])
                decode = partial(kept.decode, decoder, row, sample, epoch=self.how.epoch)
            if column.collate is None:
                decode(target[number])
            else:
                target[number] = decode()
        except CorruptSampleError as error:
            if self.how.on_error == "raise":
                raise  # here: a frame on its path that names it would keep the whole pass alive
            self.left_out.leave_out(number, error)
            if column.collate is None:
                target[number] = 0
        return 1

    def _decode_row(self, column: ColumnPlan, decoder: RowDecoder, number: int) -> int:
        data = self.waiting[column.name][number]
        if data is None:
            return 0
        row, place = int(self.group.rows[number]), int(self.group.places[number])
        where: dict[str, Any] = {"row": row, "place": place, "epoch": self.how.epoch}
        if column.parts is not None and column.parts.others:
            where["others"] = {name: self.waiting[name][number] for name in column.parts.others}
        kept, decode = self.how.decoded, decoder.decode
        if kept is not None:
            decode = kept.of_row(decoder, int(self.group.physical[number]))
        try:
            made = decode(data, **where)
            if column.parts is not None and column.is_placed:
                self.placements[column.name][number] = column.parts.placed(data, **where)
        except CorruptSampleError as error:
            if self.how.on_error == "raise":
                raise  # here: a frame on its path that names it would keep the whole pass alive
            self.left_out.leave_out(number, error)
            made = np.zeros(()) if column.collate is None else decoder.empty()
        self.values[column.name][number] = made
        return int(column.is_placed) if column.parts else len(made)  # images

    def _move(self) -> None:
        for number, error in self.annotations.miscounted():
            if self.how.on_error == "raise":
                raise error
            self.left_out.leave_out(number, error)
        moves = any(column.mover is not None for column in self.how.columns)
        self._share_out(self._move_rows if moves else None, self._transform)

    def _move_rows(self, start: int, stop: int) -> None:
        with self.how.counters.timed("decode_s"):
            for number in range(start, stop):
                try:
                    self.annotations.move(number, is_whole=bool(self.is_whole[number]))
                except CorruptSampleError as error:
                    if self.how.on_error == "raise":
                        raise
                    self.left_out.leave_out(number, error)

    def _transform(self) -> None:
        transform = self.how.transform
        if transform is None:
            self.annotations.stack(self.is_whole)
        work, most = (self._transform_rows, transform.piece_rows) if transform else (None, 0)
        self._share_out(work, self._cut, most)

    def _transform_rows(self, start: int, stop: int) -> None:
        transform = self.how.transform
        assert transform is not None
        columns = [(column.name, self.values[column.name]) for column in self.how.columns]
        numbers = np.flatnonzero(self.is_whole[start:stop]) + start
        given = [{name: values[number] for name, values in columns} for number in numbers]
        rows, places = self.group.rows[numbers].tolist(), self.group.places[numbers].tolist()
        with self.how.counters.timed("transform_s"):
            made = transform.rows(list(zip(given, rows, places, strict=True)))
        for number, row in zip(numbers, made, strict=True):
            self.transformed[number] = row

    def _cut(self) -> None:
        borders = pairwise(self.borders)
        makers: list[MakeBatch] = [partial(self._batch, start, stop) for start, stop in borders]
        if self.how.is_late:
            makers[-1] = partial(self._last_batch, makers[-1])
        else:
            with self.how.counters.timed("gather_s"):
                batches = [make() for make in makers]
                if (combine := self.how.combine) is not None:
                    batches = [*map(combine, self.group.shares, batches, repeat(self.how.slabs))]
            makers = [batch.copy for batch in batches]
            self.how.release(self.group, batches)
        self.group.batches.settle(makers)

    def _last_batch(self, make: MakeBatch) -> dict[str, Any]:
        batch = make()
        self.how.counters.add(cut_s=self.late_s)
        self.how.release(self.group, [batch])
        return batch

    def _batch(self, start: int, stop: int) -> dict[str, Any]:
        kept = None  # all rows
        if self.left_out.has_any and not self.how.with_valid:
            kept = np.flatnonzero(self.is_whole[start:stop]) + start
        batch: dict[str, Any] = {}
        if self.how.transform is not None:
            transformed = enumerate(self.transformed[start:stop], start)
            made = {number: row for number, row in transformed if row is not None}
            numbers = self.group.rows[[*made]].tolist()
            batch = self.how.transform.outputs.stack([*made.values()], numbers)
        else:
            columns = self.how.columns
            parts = {column.name: self._part(column, start, stop, kept) for column in columns}
            self._mix(parts, np.arange(start, stop) if kept is None else kept)
            for column in columns:
                batch.update(self._entries(column, parts[column.name]))
        if self.how.with_valid:
            batch[VALID] = self._valid(start, stop)
        if self.how.notes_left_out and self.left_out.has_any:
            batch[SKIPPED] = self.left_out.between(start, stop)
        return batch

    def _mix(self, parts: dict[str, Any], numbers: NDArray[np.intp]) -> None:
        """Mix rows of a batch with each other, in place."""
        for mix in (column.mix for column in self.how.columns if column.mix is not None):
            usable = self.group.valid[numbers] & self.is_whole[numbers]
            with self.how.counters.timed("decode_s"):
                mix.apply(MixedRows(parts, self.group.places[numbers], usable), self.how.epoch)

    def _valid(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return which rows of a batch are valid, among those that the transform kept."""
        is_valid = self.group.valid[start:stop] & self.is_whole[start:stop]
        if self.how.transform is None:
            return is_valid
        return is_valid[[row is not None for row in self.transformed[start:stop]]]

    def _part(
        self, column: ColumnPlan, start: int, stop: int, kept: NDArray[np.intp] | None
    ) -> Any:
        """Return a batch's rows of a column: an array, or a list of samples."""
        if column.name in self.gathers:
            gathered = self._gathered(column, start, stop)
            return gathered if kept is None else gathered[kept - start]
        values = self.values[column.name]
        if kept is None:
            part = values[start:stop]
            has_blanks = self.left_out.has_any
            return with_blanks(column, part, self.is_whole[start:]) if has_blanks else part
        return values[kept] if column.is_stacked else [values[row] for row in kept]

    def _gathered(self, column: ColumnPlan, start: int, stop: int) -> NDArray[Any]:
        gather = self.gathers[column.name]
        if not self.how.is_late:
            values = gather.take_slab(start, stop, self.how.slabs)
            return values if column.linear is None else column.linear.apply(values)
        first, last, values = self.ahead.get(column.name, NOTHING_AHEAD)
        if not (first <= start and stop <= last):
            began = time.perf_counter()
            before = bisect_right(self.borders, start + LATE_ROWS) - 1
            first, last = start, max(stop, self.borders[before])
            values = gather.take(first, last)
            if column.linear is not None:
                values = column.linear.apply(values)
            self.ahead[column.name] = first, last, values
            self.late_s += time.perf_counter() - began
        return values[start - first : stop - first]

    def _entries(self, column: ColumnPlan, part: Any) -> dict[str, Any]:
        if column.mover is not None:
            part = as_sent(column, part)
        if column.collate is None or column.dtype is None or column.name in self.how.joins:
            return {column.name: part}
        with self.how.counters.timed("collate_s"):
            return collate_ragged(column.name, part, column.shape, column.collate, column.dtype)
