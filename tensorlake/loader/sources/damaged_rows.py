"""Damaged rows: rows whose stored bytes are damaged, which ``on_error="skip"`` leaves out.

    a chunk          rows of units that verify are kept, the others are lost; without units, all
    rows read alone  individually: those that cannot be read are lost
    an index page    rows whose location is stored only in that page

A lost row has a NULL in its chunk, which ``LoadedChunk.lost`` distinguishes from a stored NULL. It
keeps its place in the order. Damage is logged where it is found, and counted by row; a server
also reports it to the client that gets the batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import CorruptionError, CorruptSampleError
from tensorlake.loader.sources.chunk_cache import LoadedChunk, loaded_chunk
from tensorlake.storage import runtime
from tensorlake.types import Link, concat, take
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.plan.selection import Int64Array, Reader
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.sources.chunk_cache import ChunkCache, GroupRows, TensorChunks
    from tensorlake.types import Buffer, Column, SampleMap

__all__ = [
    "DamageLog",
    "LeftOut",
    "RowsLeftOut",
    "lost_rows",
    "place_rows",
    "read_rows_alone",
    "salvaged_chunk",
    "shown_rows",
    "with_blanks",
]

logger = logging.getLogger("tensorlake")

SHOWN_ROWS = 8


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The key of the chunk of rows whose location is unknown."""

    nbytes: int = 0
    is_fill: bool = True


NOWHERE: Final = Nowhere()


class DamageLog:
    """Warnings of a pass, each once for a chunk: its rows may be read many times, each alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()

    def report(self, tensor: str, key: object, message: str, *values: object) -> None:
        """Log what is skipped of a chunk, unless that was done."""
        name = tensor, str(key)
        with self._lock:
            is_told = name in self._told
            self._told.add(name)
        if not is_told:
            logger.warning(message, *values)


def salvaged_chunk(
    reader: Reader,
    tensor: str,
    key: object,
    error: CorruptionError,
    pieces: Sequence[Buffer] = (),
    *,
    log: DamageLog,
) -> LoadedChunk:
    """Return the intact rows of a damaged chunk, and log the lost ones.

    Args:
        reader: Reader of the version.
        tensor: Tensor of the chunk.
        key: Location of the chunk.
        error: The damage found.
        pieces: Its bytes, if they were fetched.
        log: The warnings of the pass.
    """
    try:
        found = reader.salvage_chunk(tensor, key, pieces)
    except CorruptionError:
        found = None  # nothing beyond the known error
    reason = str(error).splitlines()[0]
    if found is None:
        log.report(tensor, key, "skipped: all rows of a chunk of %r: %s", tensor, reason)
        return lost_chunk(reader, tensor)
    column, lost = found
    count = int(lost.sum())
    message = "skipped: %d of the %d rows of a chunk of %r: %s"
    log.report(tensor, key, message, count, len(lost), tensor, reason)
    return replace(loaded_chunk(column, b""), lost=lost)


def lost_chunk(reader: Reader, tensor: str) -> LoadedChunk:
    """Return a chunk of which every row is lost."""
    null = _null(reader, tensor)
    return replace(loaded_chunk(null, b"", is_constant=True), lost=np.ones(1, np.bool_))


def _null(reader: Reader, tensor: str) -> Column:
    return reader.snapshot.spec(tensor).type.fill_column(None, 1)


def place_rows(
    reader: Reader, cache: ChunkCache, tensor: str, physical: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Find the chunk of each row, as ordinals of the cache, and its place there.

    Rows whose index page is damaged are assigned to a chunk in which all rows are lost.
    """
    chunk, row = np.empty(len(physical), np.int64), np.zeros(len(physical), np.int64)
    left = [np.argsort(physical, kind="stable")]
    while left:
        some = left.pop()
        try:
            found = reader.locate(tensor, physical[some])
        except CorruptionError as error:
            parts = _parted(reader, tensor, physical, some, error)
            if parts:
                left += parts
            else:
                chunk[some] = _nowhere(reader, cache, tensor, error)
            continue
        chunk[some] = cache.ordinals(tensor, np.asarray(found.chunk), found.chunks)
        row[some] = found.row_in_chunk
    return chunk, row


def _parted(
    reader: Reader, tensor: str, physical: Int64Array, some: Int64Array, error: CorruptionError
) -> list[Int64Array]:
    """Halve rows, in order, of which some cannot be found; return nothing if none can.

    A page covers consecutive rows: if the first and the last belong to the damaged one, so do all
    between them.
    """
    ends = (_fault(reader, tensor, physical[some[at : at + 1]]) for at in (0, len(some) - 1))
    if len(some) == 1 or all(one == str(error) for one in ends):
        return []
    return [half for half in np.array_split(some, 2) if len(half)]


def _fault(reader: Reader, tensor: str, physical: Int64Array) -> str | None:
    try:
        reader.locate(tensor, physical)
    except CorruptionError as error:
        return str(error)
    return None


def _nowhere(reader: Reader, cache: ChunkCache, tensor: str, error: CorruptionError) -> int:
    """Return the ordinal of the chunk of rows that cannot be found."""
    number = int(cache.ordinals(tensor, np.zeros(1, np.int64), [NOWHERE])[0])
    if not cache.is_loaded(tensor, number):
        logger.warning("skipped: rows of %r: %s", tensor, str(error).splitlines()[0])
        cache.add(tensor, number, lost_chunk(reader, tensor))
    return number


def read_rows_alone(
    reader: Reader, tensor: str, physical: Int64Array, log: DamageLog
) -> tuple[Column, NDArray[np.bool_]]:
    """Read rows individually, in a worker; return which of them are lost."""
    columns: list[Column] = []
    lost = np.zeros(len(physical), np.bool_)
    salvaged: dict[Hashable, LoadedChunk] = {}
    read = partial(_read_row, reader, tensor, salvaged=salvaged, log=log)
    for at in range(len(physical)):
        column = read(physical[at : at + 1])
        lost[at] = column is None
        columns.append(_null(reader, tensor) if column is None else column)
    return concat(columns), lost


def _read_row(
    reader: Reader,
    tensor: str,
    physical: Int64Array,
    *,
    salvaged: dict[Hashable, LoadedChunk],
    log: DamageLog,
) -> Column | None:
    """Read a row, from the intact parts if its chunk is damaged; None if it is lost."""
    try:
        found = reader.locate(tensor, physical)
    except CorruptionError as error:
        logger.warning("skipped: a row of %r: %s", tensor, str(error).splitlines()[0])
        return None
    if isinstance(reader.snapshot.spec(tensor).type, Link):
        return _linked_row(reader, tensor, physical)
    key, row = found.chunks[int(found.chunk[0])], int(found.row_in_chunk[0])
    if key not in salvaged:
        try:
            return runtime.run(reader.fetch(tensor, physical))()
        except CorruptionError as error:
            blob = _bytes_of(reader, key)
            salvaged[key] = salvaged_chunk(reader, tensor, key, error, blob, log=log)
    chunk = salvaged[key]
    if chunk.lost is None or chunk.is_constant or chunk.lost[row]:
        return None
    return take(chunk.column, np.array([row]))


def _linked_row(reader: Reader, tensor: str, physical: Int64Array) -> Column | None:
    """Read a linked file; None where it is gone or has changed."""
    try:
        return runtime.run(reader.fetch_parts(tensor, physical, [_all_parts]))()
    except CorruptionError as error:
        logger.warning("skipped: %s", str(error).splitlines()[0])
        return None


def _all_parts(own: SampleMap, _shape: object) -> Int64Array:
    return np.arange(own.num_parts)


def _bytes_of(reader: Reader, key: Any) -> Sequence[Buffer]:
    try:
        read = reader.snapshot.packs.read_range(key.pack, key.offset, key.nbytes)
        return [runtime.run(read)]
    except CorruptionError:
        return ()  # it is truncated


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The rows that a batch lacks.

    Attributes:
        rows: How many.
        errors: Why.
    """

    rows: int
    errors: list[CorruptionError]


class RowsLeftOut:
    """The rows of a group that are left out: logged, counted, and noted. Thread-safe.

    Attributes:
        is_whole: Which rows are not, (rows,) bool.
        has_any: Whether any is left out.
    """

    def __init__(self, rows: Int64Array, counters: Counters) -> None:
        """Leave out none yet.

        Args:
            rows: The numbers of the group's rows, (rows,) int64.
            counters: Count those that are left out.
        """
        self.is_whole = np.ones(len(rows), dtype=np.bool_)
        self.has_any = False
        self._rows = rows
        self._counters = counters
        self._lock = threading.Lock()
        self._samples: list[tuple[int, CorruptSampleError]] = []
        self._damaged: list[tuple[NDArray[np.intp], str]] = []

    def leave_out(self, number: int, error: CorruptSampleError) -> None:
        """Leave out a row of which a sample cannot be decoded."""
        logger.warning("skipped: %s", error)
        self._lose(np.array([number]))
        self._samples.append((number, error))

    def leave_out_damaged(self, numbers: NDArray[np.intp], tensor: str) -> None:
        """Leave out rows whose stored bytes of a tensor are damaged."""
        logger.warning("skipped: %s", self._damage(numbers, tensor))
        self._lose(numbers)
        self._damaged.append((numbers, tensor))

    def between(self, start: int, stop: int) -> LeftOut:
        """Return what a batch of the group's rows [start, stop) lacks."""
        errors: list[CorruptionError] = []
        for numbers, tensor in self._damaged:
            own = numbers[(numbers >= start) & (numbers < stop)]
            if len(own):
                errors.append(self._damage(own, tensor))
        errors += [error for number, error in self._samples if start <= number < stop]
        return LeftOut(int((~self.is_whole[start:stop]).sum()), errors)

    def _lose(self, numbers: NDArray[np.intp]) -> None:
        with self._lock:
            self._counters.add(skipped=int(self.is_whole[numbers].sum()))
            self.is_whole[numbers] = False
            self.has_any = True

    def _damage(self, numbers: NDArray[np.intp], tensor: str) -> CorruptionError:
        return CorruptionError(f"rows {shown_rows(self._rows[numbers])} of {tensor!r} are damaged")


def lost_rows(chunks: TensorChunks, rows: GroupRows) -> NDArray[np.bool_] | None:
    """Return which rows are lost; None if none are, as in nearly every group."""
    if not chunks.has_lost:
        return None
    lost = np.zeros(len(rows.chunk), np.bool_)
    for number in distinct(rows.chunk).tolist():
        chunk = chunks.loaded[number]
        if chunk is None or chunk.lost is None:
            continue
        at = np.flatnonzero(rows.chunk == number)
        lost[at] = True if chunk.is_constant else chunk.lost[rows.row_in_chunk[at]]
    return lost if lost.any() else None


def with_blanks(column: ColumnPlan, part: Any, is_whole: NDArray[np.bool_]) -> Any:
    """Put empty samples in place of lost rows, if a batch keeps them and cannot hold NULL."""
    if column.collate is None or column.dtype is None or isinstance(part, np.ndarray):
        return part
    blank = np.zeros([length or 0 for length in column.shape], column.dtype)
    return [one if whole else blank for one, whole in zip(part, is_whole, strict=False)]


def shown_rows(rows: Int64Array) -> str:
    """Format row numbers for a log message.

    >>> shown_rows(np.arange(20))
    '0, 1, 2, 3, 4, 5, 6, 7, … (20 rows)'
    """
    listed = ", ".join(map(str, rows[:SHOWN_ROWS].tolist()))
    return listed if len(rows) <= SHOWN_ROWS else f"{listed}, … ({len(rows)} rows)"
