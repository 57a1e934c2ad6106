"""Moments and intervals: int64 counts of a unit, with the unit in the type.

A moment counts from 1970 in UTC, as a Timestamp tensor does. Literals have the coarsest unit that
holds them exactly; what meets is brought to the finer unit of the two.
"""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QuerySyntaxError
from tensorlake_query.values.bound import Apply, Bound, ColumnRef, Constant
from tensorlake_query.values.source import AnyArray, ColumnType, TimeUnit
from tensorlake_query.values.types import INT
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    as_ragged,
    counts_of,
    elementwise,
    valid_of,
)

PER_SECOND: dict[TimeUnit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_PART = re.compile(r"\s*(?:,|and\b)?\s*(-?\d{1,12})\s*([a-z]+?)s?(?![a-z])\s*", re.IGNORECASE)
MAX_COUNT = (1 << 63) - 1  # of a unit
_MAX_SECONDS = 9_000_000_000  # of an interval: some 285 years, which nanoseconds can count


def is_time(column_type: ColumnType) -> bool:
    """Tell whether a type is a moment or an interval."""
    return column_type.timestamp_unit is not None or column_type.duration_unit is not None


def moment_of_text(text: object, query: str, syntax: ast.Expr) -> Constant:
    """Parse a moment, in UTC where the string names no zone.

    Raises:
        QuerySyntaxError: the string is not a moment.
    """
    count = microseconds_of_text(str(text))
    if count is None:
        raise QuerySyntaxError(
            f"{text!r} is not a time",
            text=query,
            span=syntax.span,
            hint="write DATE '2026-01-01', or TIMESTAMP '2026-01-01 12:30:00'",
        )
    return _coarsest(count, syntax)


def microseconds_of_text(text: str) -> int | None:
    """Return the microseconds since 1970 of a text in ISO 8601; None if it is not a moment.

    It is in UTC where it names no zone.
    """
    try:
        return _microseconds(dt.datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):  # beyond the years 1 to 9999, where its zone moves it there
        return None


def moment_of_value(
    value: dt.date | dt.timedelta | np.datetime64 | np.timedelta64, query: str, syntax: ast.Expr
) -> Constant:
    """Return a Python or NumPy time as a constant.

    Raises:
        QuerySyntaxError: it is not a time (NaT), or beyond what int64 counts.
    """
    if isinstance(value, dt.datetime):
        try:
            return _coarsest(_microseconds(value), syntax)
        except OverflowError:
            raise QuerySyntaxError(
                f"{value} is not a time between the years 1 and 9999 of UTC",
                text=query,
                span=syntax.span,
                hint="give one without a zone, or None",
            ) from None
    if isinstance(value, dt.date):
        return _coarsest(_microseconds(dt.datetime.combine(value, dt.time())), syntax)
    if isinstance(value, dt.timedelta):
        return _duration(value // dt.timedelta(microseconds=1), "us", syntax)
    if np.isnat(value):
        raise QuerySyntaxError("NaT is not a time", text=query, span=syntax.span, hint="give None")
    unit: TimeUnit = "ns" if np.datetime_data(value.dtype)[0] == "ns" else "us"
    if isinstance(value, np.datetime64):
        count = int(value.astype(f"datetime64[{unit}]").astype(np.int64))
        return Constant(count, replace(INT, timestamp_unit=unit), syntax, weak=False)
    return _duration(int(value.astype(f"timedelta64[{unit}]").astype(np.int64)), unit, syntax)


def interval_of_text(text: str, query: str, syntax: ast.Expr) -> Constant:
    """Parse an interval.

    Raises:
        QuerySyntaxError: the string is not an interval, or counts months or years.
    """
    seconds, place = 0, 0
    while place < len(text):
        found = _PART.match(text, place)
        if found is None or found[2].lower() not in _SECONDS:
            named = found[2].lower() if found else ""
            hint = "write INTERVAL '7 days', '2 weeks' or '1 hour 30 minutes'"
            if named in {"month", "year"}:
                hint = f"a {named} has no fixed length: give days"
            raise QuerySyntaxError(
                f"{text!r} is not an interval", text=query, span=syntax.span, hint=hint
            )
        seconds += int(found[1]) * _SECONDS[found[2].lower()]
        place = found.end()
    if not text.strip() or abs(seconds) > _MAX_SECONDS:
        raise QuerySyntaxError(
            f"{text!r} is not an interval that can be counted", text=query, span=syntax.span
        )
    return _duration(seconds, "s", syntax)


def is_beyond(time: Constant) -> bool:
    """Tell whether 64 bits do not count a literal in its unit."""
    return isinstance(time.value, int) and abs(time.value) > MAX_COUNT


def in_unit(expr: Bound, unit: TimeUnit, *, is_compared: bool = False) -> Bound:
    """Return a time in a finer unit, or its error in a row that 64 bits do not count in it.

    Args:
        expr: The time.
        unit: The unit.
        is_compared: It is only compared: a literal is then any number.
    """
    own = expr.type.timestamp_unit or expr.type.duration_unit
    if own is None or own == unit:
        return expr
    factor = PER_SECOND[unit] // PER_SECOND[own]
    is_moment = expr.type.timestamp_unit is not None
    column_type = replace(
        expr.type,
        timestamp_unit=unit if is_moment else None,
        duration_unit=None if is_moment else unit,
    )
    if isinstance(expr, Constant) and isinstance(expr.value, int):
        made = structs.replace(expr, value=expr.value * factor, type=column_type)
        if is_compared or not is_beyond(made):
            return made

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return in_finer(vectors[0], factor, unit)

    return Apply(kernel, (expr,), column_type, None)


def in_finer(vector: Vector, factor: int, unit: str) -> Vector:
    """Return times in a finer unit, of which a unit of theirs has `factor`.

    Raises:
        RowError: 64 bits do not count one in it.
    """
    counts = vector.values.astype(np.int64)
    most = MAX_COUNT // factor
    refuse_rows(
        replace(vector, values=(counts > most) | (counts < -most)),
        f"the time is beyond those that 64 bits count in {unit}; EXTRACT(EPOCH FROM …) is in"
        " seconds",
    )
    return replace(vector, values=counts * factor)


def counted(made: Apply, *, is_difference: bool, unit: str) -> Apply:
    """Return a sum or difference of two times, an error in a row where 64 bits do not count it.

    The lowest number of 64 bits is none either: NumPy reads it as NaT.
    """

    def wraps(result: AnyArray, left: AnyArray, right: AnyArray) -> AnyArray:
        # a sum wraps where both its parts have another sign; a = b + c where c = a - b
        whole, part = (left, result) if is_difference else (result, left)
        return ((part ^ whole) & (right ^ whole) < 0) | (result < -MAX_COUNT)

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        result = made.kernel(vectors, num_rows)
        if sum(map(_furthest, vectors[:2])) > MAX_COUNT:
            shape = made.type.shape
            beyond = elementwise(wraps, [result, *vectors[:2]], shape, element_nbytes=1)
            refuse_rows(
                beyond,
                f"the {'difference' if is_difference else 'sum'} is beyond the times that 64 bits"
                f" count in {unit}; leave the row out by WHERE, or write CAST(… AS DATE), which is"
                " in seconds",
            )
        return result

    return structs.replace(made, kernel=kernel) if made.type.dtype == "int64" else made


def _furthest(vector: Vector) -> int:
    """Return how far from 0 a time of a vector may be."""
    if not vector.values.size:
        return 0
    return max(-int(vector.values.min()), int(vector.values.max()))


def refuse_rows(refused: Vector, message: str) -> None:
    """Raise the error of the first row, not NULL, that a vector of booleans marks.

    Raises:
        RowError: there is one.
    """
    if refused.values.any():
        flags = as_ragged(refused)
        row = np.repeat(np.arange(len(flags.shapes)), counts_of(flags.shapes))[flags.values]
        row = row[valid_of(refused)[row]]
        if len(row):
            raise RowError(message, int(row[0]))


def units_per(finer: ColumnType, coarser: ColumnType) -> int:
    """Return how many units of one time are one unit of another."""
    return _per_second(finer) // _per_second(coarser)


def _per_second(column_type: ColumnType) -> int:
    return PER_SECOND[column_type.timestamp_unit or column_type.duration_unit or "s"]


def untimed(expr: Bound) -> Bound:
    """Return a time as the number it is counted by."""
    if not is_time(expr.type):
        return expr
    column_type = replace(expr.type, timestamp_unit=None, duration_unit=None)
    if isinstance(expr, ColumnRef | Constant | Apply):
        return structs.replace(expr, type=column_type)
    return Apply(_first, (expr,), column_type, None)


def _first(vectors: Sequence[Vector], _num_rows: int) -> Vector:
    return vectors[0]


def _microseconds(moment: dt.datetime) -> int:
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001 both are in UTC


def _coarsest(count: int, syntax: ast.Expr) -> Constant:
    unit: TimeUnit = "us"
    if count % 10**6 == 0:
        count, unit = count // 10**6, "s"
    elif count % 10**3 == 0:
        count, unit = count // 10**3, "ms"
    return Constant(count, replace(INT, timestamp_unit=unit), syntax, weak=False)


def _duration(count: int, unit: TimeUnit, syntax: ast.Expr) -> Constant:
    return Constant(count, replace(INT, duration_unit=unit), syntax, weak=False)
