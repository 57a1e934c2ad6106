"""Recorded runs as a summary, and their metrics as curves of a bounded number of points.

steps    0 ──────────────────────────────── 99,999
points   ├ 0–199 ┤├ 200–399 ┤ …                    first, last, low, high, mean, at
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import tensorlake as tl
from tensorlake.errors import InvalidInputError, QueryLimitError, did_you_mean
from tensorlake.types import UniformColumn
from tensorlake_server.bodies.cells import make_cells
from tensorlake_server.messages.runs import Curve, RunDetails, RunInfo, RunPass

if TYPE_CHECKING:
    import numpy.typing as npt

    from tensorlake.dataset import SeenRow

    Float64Array = npt.NDArray[np.float64]

__all__ = [
    "MOST_NBYTES",
    "curve_of",
    "details_of",
    "info_of",
    "passes_of",
    "scalars_at",
    "values_of",
    "why_values_are_unread",
]

MOST_NBYTES = 256 << 20  # of stored steps that are read for an answer
MOST_VALUES_NBYTES = 64 << 20  # of values of rows that are read for one of them, about a second
OWN = ("step", "steps", "time", "rank", "epoch", "position", "wait_s", "compute_s")
SECONDS = ("wait_s", "compute_s")  # of these, what is worth a curve


def info_of(run: tl.Run, now: datetime) -> RunInfo:
    """Summarize a run.

    Raises:
        CorruptionError: Its record is damaged.
        QueryLimitError: Its record is too large.
    """
    return RunInfo.model_validate(_info(run, now))


def details_of(run: tl.Run, now: datetime) -> RunDetails:
    """Describe a run; the errors are those of ``info_of``."""
    info = _info(run, now)
    history = run.history
    return RunDetails(
        **info,
        config=dict(run.config),
        metrics=[*_scalars(run), *SECONDS] if info["steps"] else [],
        values=history.value_names,
        passes=passes_of(run),
    )


def passes_of(run: tl.Run) -> list[RunPass]:
    """Describe the passes over the rows, in the order of their steps."""
    return [
        RunPass(
            start=one.start,
            stop=one.stop,
            epoch=one.epoch,
            version=str(one.segment.state["version"]),
            ranks=one.segment.world_size,
            batch_size=one.segment.global_batch_size,
        )
        for one in run.history.stretches
    ]


def curve_of(run: tl.Run, metric: str, *, start: int, stop: int | None, points: int) -> Curve:
    """Return a metric over a range of steps, in at most ``points`` points.

    Raises:
        InvalidInputError: The run has no such metric.
        CorruptionError: Its record is damaged.
        QueryLimitError: Its record is too large.
    """
    table = _steps(run)
    names = [*_scalars(run), *SECONDS]
    if metric not in names:
        raise InvalidInputError(
            f"run {run.name!r} logged no {metric!r}{did_you_mean(metric, names)}"
            f"\nits metrics: {', '.join(names)}",
            actual=metric,
        )
    steps = cast("npt.NDArray[np.int64]", table.column("step").to_numpy())
    values = _floats(table, metric)
    end = int(steps[-1]) + 1 if len(steps) else 0
    stop = end if stop is None else min(stop, end)
    is_asked = (steps >= start) & (steps < stop) & _is_logged(table, metric)
    steps, values = steps[is_asked], values[is_asked]
    # an equal number of steps for each point, so that gaps stay where they are
    width = max(1, -(-(stop - start) // points))
    borders = np.flatnonzero(np.diff((steps - start) // width)) + 1
    starts = np.concatenate([[0], borders]) if len(steps) else np.zeros(0, np.int64)
    stops = np.concatenate([borders, [len(steps)]]) if len(steps) else starts
    is_finite = np.isfinite(values)
    counts = _sums(is_finite.astype(np.int64), starts)
    low = _reduced(np.minimum, np.where(is_finite, values, np.inf), starts)
    high = _reduced(np.maximum, np.where(is_finite, values, -np.inf), starts)
    total = _sums(np.where(is_finite, values, 0.0), starts)
    is_known = counts > 0
    order = np.repeat(np.arange(len(starts)), stops - starts)
    is_highest = is_finite & (values == high[order]) if len(steps) else is_finite
    at = steps[stops - 1].copy()
    at[order[is_highest][::-1]] = steps[is_highest][::-1]  # the first of the highest
    return Curve(
        metric=metric,
        start=start,
        stop=max(stop, start),
        first=steps[starts].tolist(),
        last=steps[stops - 1].tolist(),
        low=_known(low, is_known),
        high=_known(high, is_known),
        mean=_known(total / np.maximum(counts, 1), is_known),
        at=at.tolist(),
        others=(stops - starts - counts).tolist(),
    )


def scalars_at(run: tl.Run, step: int) -> dict[str, Any]:
    """Return what was logged at a step, by the lowest rank, as JSON values.

    Where several steps share a record, these are its means, and sums of seconds.
    """
    table = _steps(run)
    steps = table.column("step").to_numpy()
    at = int(np.searchsorted(steps, step))
    if at == len(steps) or step <= steps[at] - table.column("steps").to_numpy()[at]:
        return {}
    return _row(table, [*_scalars(run), *SECONDS], at)


def why_values_are_unread(run: tl.Run) -> str | None:
    """Return why the values of rows are too many to be read for one row; None where they are not.

    A query finds them at any number: ``RUN('name', 'value')``.
    """
    nbytes = run.history.nbytes("rows")
    if nbytes <= MOST_VALUES_NBYTES:
        return None
    return (
        f"run {run.name!r} logged {nbytes:,} bytes of values of rows, and a server reads"
        f" {MOST_VALUES_NBYTES:,} for one row"
    )


def values_of(seen: SeenRow, most: int) -> dict[str, list[Any]]:
    """Return the values logged of a row at its last steps, as JSON."""
    return {
        name: [None if one is None else _cell(one) for one in values[-most:]]
        for name, values in seen.values.items()
    }


def _info(run: tl.Run, now: datetime) -> dict[str, Any]:
    table = _steps(run)
    times = table.column("time").to_numpy()
    return {
        "name": run.name,
        "status": run.history.status(now),
        "version": run.version,
        "started": _time(times.min()) if len(times) else None,
        "updated": _time(times.max()) if len(times) else None,
        "steps": int(table.column("step").to_numpy()[-1]) + 1 if len(table) else 0,
        "last": {name: _last(table, name) for name in _scalars(run)},
    }


def _steps(run: tl.Run) -> Any:
    """Return the recorded steps, an Arrow table.

    Raises:
        QueryLimitError: They are too many.
    """
    nbytes = run.history.nbytes("events")
    if nbytes > MOST_NBYTES:
        raise QueryLimitError(
            f"run {run.name!r} recorded {nbytes:,} bytes of steps, and a server reads"
            f" {MOST_NBYTES:,}\nread them with the SDK: ds.runs[{run.name!r}].steps"
        )
    return run.steps


def _scalars(run: tl.Run) -> list[str]:
    return [name for name in run.steps.column_names if name not in OWN]


def _is_logged(table: Any, name: str) -> npt.NDArray[np.bool_]:
    return table.column(name).is_valid().to_numpy()


def _floats(table: Any, name: str) -> Float64Array:
    return table.column(name).to_numpy(zero_copy_only=False).astype(np.float64)


def _last(table: Any, name: str) -> Any:
    at = np.flatnonzero(_is_logged(table, name))
    return _row(table, [name], int(at[-1]))[name] if len(at) else None


def _row(table: Any, names: list[str], at: int) -> dict[str, Any]:
    """Return the values of a record as JSON has them, without those that were not logged."""
    found = {name: table.column(name)[at].as_py() for name in names}
    known = [name for name, value in found.items() if value is not None]
    return {name: _cell(found[name]) for name in known}


def _cell(value: float) -> Any:
    """Return a number, or the word of one that JSON lacks."""
    return make_cells(tl.Scalar("float64"), UniformColumn(np.array([value], np.float64)))[0]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).isoformat(timespec="seconds")


def _sums(values: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return _reduced(np.add, values, starts)


def _reduced(
    how: np.ufunc, values: npt.NDArray[Any], starts: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    return how.reduceat(values, starts) if len(starts) else values[:0]


def _known(values: Float64Array, is_known: npt.NDArray[np.bool_]) -> list[float | None]:
    pairs = zip(values.tolist(), is_known.tolist(), strict=True)
    return [value if known else None for value, known in pairs]
