"""The values that a run logged, as Arrow tables of steps and of rows.

    events   step steps time rank epoch position wait_s compute_s | a column a scalar
    rows     step rank txid_high txid_low offset                  | a column a value

A record of ``events`` stands for ``steps`` batches that end with ``step``: one, unless they come so
fast that a day of them would be large. Then seconds are sums, a scalar its mean, and ``<name>.max``
its maximum. ``epoch`` and ``position`` are the loader's after the last of them; ``time`` is that of
the rank, in seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tensorlake.dataset.runs.record import Kind, Record
from tensorlake.dataset.runs.timeline import Timeline
from tensorlake.errors import CorruptionError

__all__ = ["EVENT_COLUMNS", "ROW_COLUMNS", "Meter", "Table", "read_tables", "table_bytes"]

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
BURST = 10_000
"""Records that may be written of single steps at once; later ones are one a second."""
MERGED_S = 1.0


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
        scalars = {name: total / count for name, (count, total, _) in merged.sums.items()}
        scalars |= {f"{name}.max": most for name, (_, _, most) in merged.sums.items()}
        own = merged.steps, merged.wait_s, merged.compute_s, scalars
        self._records.append(self._record(merged.last, *own))

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
    for part, data in record.read_parts(record.parts(kind)):
        try:
            table = pa.ipc.open_stream(data).read_all()
            steps, ranks = _integers(table, "step"), _integers(table, "rank")
        except (pa.ArrowInvalid, OSError, KeyError) as error:
            raise CorruptionError(f"{part.path!r} is damaged: {error}", object=part.path) from error
        kept = np.zeros(len(table), dtype=np.bool_)
        for rank in np.unique(ranks).tolist():
            timeline = timelines.get(rank)
            own = ranks == rank
            kept[own] = True if timeline is None else timeline.keeps(part.attempt, steps[own])
        if kept.any():
            tables.append(table.filter(pa.array(kept)))
    return pa.concat_tables(tables, promote_options="default")


def _integers(table: Table, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return table.column(name).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
