"""The values that a run logged, as Arrow tables of steps and of rows.

    events   step steps time rank epoch position wait_s compute_s | a column a scalar
    rows     step rank txid_high txid_low offset                  | a column a value

A record of ``events`` stands for ``steps`` batches that end with ``step``: one, unless they come so
fast that a day of them would be large. Then seconds are sums, a scalar its mean, and ``<name>.max``
its maximum. ``epoch`` and ``position`` are the loader's after the last of them; ``time`` is that of
the rank, in seconds since 1970. Numbers of several steps are kept to 24 bits, times to 1 ms: a day
at one record a second with 16 columns takes less than 5 MB in parts of an hour.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tensorlake.dataset.runs.record import LISTINGS_MAX, Kind, Part, Record
from tensorlake.dataset.runs.timeline import Timeline
from tensorlake.errors import CorruptionError

__all__ = [
    "EVENT_COLUMNS",
    "IDS",
    "ROW_COLUMNS",
    "Meter",
    "Table",
    "joined_bytes",
    "parsed_part",
    "read_row",
    "read_step",
    "read_tables",
    "table_bytes",
    "value_names",
]

Table = Any  # pyarrow ships no types
EVENT_COLUMNS = pa.schema(
    [
        ("step", pa.int64()),
        ("steps", pa.int32()),
        ("time", pa.float64()),
        ("rank", pa.int32()),
        ("epoch", pa.int64()),
        ("position", pa.int64()),
        ("wait_s", pa.float64()),
        ("compute_s", pa.float64()),
    ]
)
ROW_COLUMNS = pa.schema(
    [
        ("step", pa.int64()),
        ("rank", pa.int32()),
        ("txid_high", pa.uint64()),
        ("txid_low", pa.uint64()),
        ("offset", pa.uint64()),
    ]
)
IDS = ("txid_high", "txid_low", "offset")
"""The columns of a row id."""
BURST = 10_000
"""Records that may be written of single steps at once; later ones are one a second."""
MERGED_S = 1.0
FLOAT32_STOP = float(np.finfo(np.float32).max)


@dataclass(slots=True)
class Step:
    """One step, until the next is handed out."""

    step: int
    time: float
    epoch: int
    position: int
    wait_s: float
    compute_s: float = 0.0
    scalars: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class Merged:
    """Steps that share a record."""

    last: Step
    began: float
    steps: int = 0
    wait_s: float = 0.0
    compute_s: float = 0.0
    sums: dict[str, tuple[int, float, float]] = field(
        default_factory=dict[str, tuple[int, float, float]]
    )
    """The number of values of each scalar, their sum and their maximum."""

    def add(self, step: Step) -> None:
        """Count a step."""
        self.last = step
        self.steps += 1
        self.wait_s += step.wait_s
        self.compute_s += step.compute_s
        for name, value in step.scalars.items():
            count, total, most = self.sums.get(name, (0, 0.0, value))
            self.sums[name] = count + 1, total + value, max(most, value)


class Meter:
    """Collects the steps of one rank into records: each alone, unless there are too many."""

    def __init__(self, rank: int, began: float) -> None:
        self._rank = rank
        self._allowed = float(BURST)
        self._refilled = began
        self._records: list[dict[str, Any]] = []
        self._merged: Merged | None = None

    def add(self, step: Step) -> None:
        """Add a finished step."""
        now = step.time
        self._allowed = min(BURST, self._allowed + max(0.0, now - self._refilled))
        self._refilled = max(now, self._refilled)
        if self._merged is None and self._allowed >= 1:
            self._allowed -= 1
            self._records.append(self._record(step, 1, step.wait_s, step.compute_s, step.scalars))
            return
        if self._merged is None:
            self._merged = Merged(step, now)
        self._merged.add(step)
        is_long = not 0 <= now - self._merged.began < MERGED_S  # or the clock was set back
        if is_long and self._allowed >= 1:
            self._allowed -= 1
            self._end_merged()

    def take(self) -> Table | None:
        """Return the records since the last call as a table; None without any."""
        self._end_merged()
        records, self._records = self._records, []
        if not records:
            return None
        names = list(dict.fromkeys(name for record in records for name in record))
        known = set(EVENT_COLUMNS.names)
        scalars = [pa.field(name, pa.float64()) for name in names if name not in known]
        return pa.Table.from_pylist(records, pa.schema([*EVENT_COLUMNS, *scalars]))

    def _end_merged(self) -> None:
        if self._merged is None:
            return
        merged, self._merged = self._merged, None
        scalars = {name: _short(total / count) for name, (count, total, _) in merged.sums.items()}
        scalars |= {f"{name}.max": _short(most) for name, (_, _, most) in merged.sums.items()}
        own = merged.steps, _short(merged.wait_s), _short(merged.compute_s), scalars
        record = self._record(merged.last, *own)
        self._records.append(record | {"time": round(merged.last.time, 3)})

    def _record(
        self,
        last: Step,
        steps: int,
        wait_s: float,
        compute_s: float,
        scalars: Mapping[str, float],
    ) -> dict[str, Any]:
        return {
            "step": last.step,
            "steps": steps,
            "time": last.time,
            "rank": self._rank,
            "epoch": last.epoch,
            "position": last.position,
            "wait_s": wait_s,
            "compute_s": compute_s,
            **scalars,
        }


def _short(value: float) -> float:
    """Return a number as a float32 has it; as it is where none is near."""
    return float(np.float32(value)) if abs(value) < FLOAT32_STOP else value


def joined_bytes(parts: Sequence[bytes]) -> bytes:
    """Return parts as one, as Parquet: floats byte by byte, integers as their differences."""
    from pyarrow import parquet

    tables = [pa.ipc.open_stream(data).read_all() for data in parts]
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    encodings = {
        field.name: "BYTE_STREAM_SPLIT"
        if pa.types.is_floating(field.type)
        else "DELTA_BINARY_PACKED"
        for field in table.schema
        if not pa.types.is_unsigned_integer(field.type)
    }
    sink = pa.BufferOutputStream()
    parquet.write_table(
        table, sink, compression="zstd", use_dictionary=False, column_encoding=encodings
    )
    return sink.getvalue().to_pybytes()


def parsed_part(path: str, data: bytes, step: int | None = None) -> Table:
    """Read a part, or what it has of a step and little more.

    Raises:
        CorruptionError: It is damaged.
    """
    from pyarrow import parquet

    filters = None if step is None else [("step", "=", step)]
    try:
        if path.endswith(".parquet"):
            return parquet.read_table(pa.BufferReader(data), filters=filters)
        return pa.ipc.open_stream(data).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptionError(f"{path!r} is damaged: {error}", object=path) from error


def table_bytes(table: Table) -> bytes:
    """Return a table as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read_tables(record: Record, kind: Kind, timelines: Mapping[int, Timeline]) -> Table:
    """Read what a run logged, without what was replaced by a later attempt.

    Args:
        record: The run's record.
        kind: Steps or rows.
        timelines: The steps of each rank.

    Raises:
        CorruptionError: A part is damaged.
    """
    tables = [(EVENT_COLUMNS if kind == "events" else ROW_COLUMNS).empty_table()]
    for part, data in record.read_all(kind):
        kept = _kept(parsed_part(part.path, data), part, timelines)
        if len(kept):
            tables.append(kept)
    return pa.concat_tables(tables, promote_options="default")


def read_step(
    record: Record, step: int, timelines: Mapping[int, Timeline], spans: dict[str, range]
) -> Table:
    """Read the values of rows that a run logged at one step.

    Steps of an attempt ascend, so that the parts which have one are found by bisection.

    Args:
        record: The run's record.
        step: The step.
        timelines: The steps of each rank.
        spans: The steps of parts that were read before, by path; those of others are added.

    Raises:
        CorruptionError: A part is damaged.
    """
    tables: list[Table] = []
    for _ in range(LISTINGS_MAX):
        reading = _Reading(record, spans)
        try:
            found = reading.parts_with(step)
            tables = [parsed_part(one.path, reading.data(one), step) for one in found]
            tables = [_kept(*one, timelines) for one in zip(tables, found, strict=True)]
        except _MovedPartError:  # into a larger one
            continue
        break
    own = [table.filter(pa.array(_integers(table, "step") == step)) for table in tables]
    return pa.concat_tables([ROW_COLUMNS.empty_table(), *own], promote_options="default")


def read_row(record: Record, row_id: Any, timelines: Mapping[int, Timeline]) -> Table:
    """Read the values that a run logged of one row, in the order of steps.

    Args:
        record: The run's record.
        row_id: The row's id, a NumPy record.
        timelines: The steps of each rank.

    Raises:
        CorruptionError: A part is damaged.
    """
    tables = [ROW_COLUMNS.empty_table()]
    for part, data in record.read_all("rows"):
        table = parsed_part(part.path, data)
        for name in IDS:
            is_own = table.column(name).to_numpy(zero_copy_only=False) == row_id[name]
            table = table.filter(pa.array(is_own))
        if len(table):
            tables.append(_kept(table, part, timelines))
    found = pa.concat_tables(tables, promote_options="default")
    return found.sort_by([("step", "ascending"), ("rank", "ascending")])


class _MovedPartError(Exception):
    """A part was removed since it was listed."""


class _Reading:
    """Parts of a record, each read once, and their steps."""

    def __init__(self, record: Record, spans: dict[str, range]) -> None:
        self._record = record
        self._spans = spans
        self._data: dict[str, bytes] = {}

    def data(self, part: Part) -> bytes:
        """Return the bytes of a part."""
        if part.path not in self._data:
            found = next(self._record.read_parts([part]), None)
            if found is None:
                raise _MovedPartError
            self._data[part.path] = found[1]
        return self._data[part.path]

    def span(self, part: Part) -> range:
        """Return the steps of a part, from its first to its last."""
        if part.path not in self._spans:
            self._spans[part.path] = _span(part.path, self.data(part))
        return self._spans[part.path]

    def parts_with(self, step: int) -> list[Part]:
        """Return the parts that may have a step, of each attempt."""
        found: list[Part] = []
        listed = self._record.parts("rows")
        for _, group in itertools.groupby(listed, key=lambda part: part.attempt):
            own = list(group)
            first = bisect_left(own, step, key=lambda part: self.span(part).stop - 1)
            following = own[first:]
            found += itertools.takewhile(lambda part: self.span(part).start <= step, following)
        return found


def _span(path: str, data: bytes) -> range:
    """Return the steps of a part: from its statistics, where it is a large one."""
    from pyarrow import parquet

    if path.endswith(".parquet"):
        try:
            meta = parquet.read_metadata(pa.BufferReader(data))
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptionError(f"{path!r} is damaged: {error}", object=path) from error
        columns = [meta.row_group(one).column(0) for one in range(meta.num_row_groups)]
        bounds = [one.statistics for one in columns if one.path_in_schema == "step"]
        if bounds and all(one is not None and one.has_min_max for one in bounds):
            return range(min(one.min for one in bounds), max(one.max for one in bounds) + 1)
    steps = _integers(parsed_part(path, data), "step")
    return range(int(steps[0]), int(steps[-1]) + 1) if len(steps) else range(0)


def value_names(table: Table) -> list[str]:
    """Return the names of the values that a table of rows has."""
    return [name for name in table.column_names if name not in ROW_COLUMNS.names]


def _kept(table: Table, part: Part, timelines: Mapping[int, Timeline]) -> Table:
    """Return a part without what a later attempt replaced.

    Raises:
        CorruptionError: It has no steps and ranks.
    """
    try:
        steps, ranks = _integers(table, "step"), _integers(table, "rank")
    except KeyError as error:
        raise CorruptionError(f"{part.path!r} is damaged: {error}", object=part.path) from error
    kept = np.zeros(len(table), dtype=np.bool_)
    for rank in np.unique(ranks).tolist():
        timeline = timelines.get(rank)
        own = ranks == rank
        kept[own] = True if timeline is None else timeline.keeps(part.attempt, steps[own])
    return table.filter(pa.array(kept))


def _integers(table: Table, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return table.column(name).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
