"""Times: brought to one unit where they meet; EXTRACT and DATE_TRUNC.

EXTRACT gives a part of a moment in UTC, or the EPOCH of an interval; DATE_TRUNC the begin of one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.syntax.errors import joined, listed, nearest
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.conversions import JSON_COST, as_text
from tensorlake_query.values.source import AnyArray, TimeUnit, UniformBatch
from tensorlake_query.values.times import (
    MAX_COUNT,
    PER_SECOND,
    in_unit,
    is_time,
    microseconds_of_text,
    moment_of_text,
    refuse_rows,
)
from tensorlake_query.values.types import FLOAT, INT, describe
from tensorlake_query.values.vectors import Vector, python_values

DAY, HOUR, MINUTE = 86_400, 3600, 60
WEEK_DAYS = 7
_THURSDAY = 4  # the day of the week of 1 January 1970, from Sunday


def same_times(
    site: Site,
    left: Bound,
    right: Bound,
    *,
    any_kind: bool = False,
    is_compared: bool = False,
) -> tuple[Bound, Bound]:
    """Bring two times to the finer of their units; a known text is read as a time.

    Raises:
        QueryTypeError: one is not a time, or only one is an interval, unless of `any_kind`.
    """
    left, right = (
        moment_of_text(arg.value, site.text, arg.syntax)
        if isinstance(arg, Constant) and isinstance(arg.value, str)
        else arg
        for arg in (left, right)
    )
    kinds = [arg.type.timestamp_unit is not None for arg in (left, right)]
    if not (is_time(left.type) and is_time(right.type)):
        time, plain = (right, left) if not is_time(left.type) else (left, right)
        shown = f"{show(plain)} is {describe(plain.type)}"
        what, hint = "an interval", "write INTERVAL '7 days'"
        if time.type.timestamp_unit is not None:
            what, hint = "a time", "write DATE '2026-01-01'"
        if plain.type.kind == "number":
            hint += f", or compare EXTRACT(EPOCH FROM {show(time)}), which is in seconds"
        raise site.fail(f"{what} is needed, and {shown}", at=plain, hint=hint)
    if not any_kind and kinds[0] != kinds[1]:
        raise site.fail("a time and an interval cannot be compared")
    units: list[TimeUnit | None] = [
        arg.type.timestamp_unit or arg.type.duration_unit for arg in (left, right)
    ]
    finer: TimeUnit = "s"
    for unit in units:
        if unit is not None and PER_SECOND[unit] > PER_SECOND[finer]:
            finer = unit
    left, right = (in_unit(each, finer, is_compared=is_compared) for each in (left, right))
    return left, right


def same_units(site: Site, alternatives: Sequence[Bound]) -> list[Bound]:
    """Return times in the finest of their units; a known text is read as a time."""
    finest = next(each for each in alternatives if is_time(each.type))
    for each in alternatives:
        finest, _ = same_times(site, finest, each)
    return [same_times(site, finest, each)[1] for each in alternatives]


def not_moment(site: Site, expr: Bound) -> Bound:
    """Return an argument that is not a time, whose count of a unit would be taken as a number.

    Raises:
        QueryTypeError: it is one.
    """
    if expr.type.timestamp_unit is not None:
        raise site.fail(
            f"a number is needed, and {show(expr)} is a time",
            at=expr,
            hint=f"EXTRACT(EPOCH FROM {show(expr)}) is in seconds",
        )
    return expr


def bind_to_time(site: Site, target: str) -> Bound:
    """Bind `CAST(x AS TIMESTAMP)` or `CAST(x AS DATE)`, the begin of the day in UTC.

    Raises:
        QueryTypeError: x is neither a timestamp nor text nor JSON.
    """
    operand = site.args[0]
    unit = operand.type.timestamp_unit
    if unit is not None and target == "timestamp":
        return site.apply(lambda vectors, _num_rows: vectors[0], operand.type)
    if unit is not None:
        per_second = PER_SECOND[unit]

        def days(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return replace(vectors[0], values=_days(vectors[0].values, per_second))

        return site.apply(days, replace(operand.type, timestamp_unit="s"))
    text = as_text(operand) if operand.type.kind != "label" else None
    if text is None:
        raise site.fail(
            f"cannot cast {show(operand)}, {describe(operand.type)}, to {target.upper()}",
            hint="give a text such as '2026-01-01 12:30', or a timestamp",
        )

    def read(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        counts = [
            microseconds_of_text(value) if isinstance(value, str) else None
            for value in python_values(vectors[0].values)
        ]
        valid = np.array([count is not None for count in counts], np.bool_)
        values = np.array([count or 0 for count in counts], np.int64)
        if target == "date":
            values = _days(values, PER_SECOND["us"])
        return UniformBatch(values, valid)

    column_type = replace(INT, timestamp_unit="us" if target == "timestamp" else "s", nullable=True)
    return site.apply(read, column_type, args=(text,), cost=JSON_COST)


def _days(counts: AnyArray, per_second: int) -> AnyArray:
    """Return the begin of each moment's day, in seconds."""
    return np.floor_divide(counts.astype(np.int64), per_second * DAY) * DAY


def _year(seconds: AnyArray) -> AnyArray:
    return _date(seconds).astype("datetime64[Y]").astype(np.int64) + 1970


def _month(seconds: AnyArray) -> AnyArray:
    return _date(seconds).astype("datetime64[M]").astype(np.int64) % 12 + 1


def _day(seconds: AnyArray) -> AnyArray:
    date = _date(seconds)
    return (date - date.astype("datetime64[M]")).astype(np.int64) + 1


def _day_of_year(seconds: AnyArray) -> AnyArray:
    date = _date(seconds)
    return (date - date.astype("datetime64[Y]")).astype(np.int64) + 1


def _date(seconds: AnyArray) -> AnyArray:
    return np.floor_divide(seconds, DAY).astype("datetime64[D]")


PARTS: dict[str, Callable[[AnyArray], AnyArray]] = {
    "YEAR": _year,
    "QUARTER": lambda seconds: (_month(seconds) - 1) // 3 + 1,
    "MONTH": _month,
    "DAY": _day,
    "HOUR": lambda seconds: seconds % DAY // HOUR,
    "MINUTE": lambda seconds: seconds % HOUR // MINUTE,
    "SECOND": lambda seconds: seconds % MINUTE,
    "DOW": lambda seconds: (seconds // DAY + _THURSDAY) % 7,
    "DOY": _day_of_year,
}
EPOCH = "EPOCH"


def bind_extract(site: Site, part: str) -> Bound:
    """Bind `EXTRACT(part FROM time)`."""
    operand = site.args[0]
    if not is_time(operand.type):
        shown = f"{show(operand)} is {describe(operand.type)}"
        raise site.fail(f"EXTRACT takes a time, and {shown}", at=operand)
    unit = operand.type.timestamp_unit or operand.type.duration_unit
    assert unit is not None, "a time has a unit"
    per_second = PER_SECOND[unit]
    if part == EPOCH:

        def epoch(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return UniformBatch(vectors[0].values / per_second, vectors[0].valid)

        return site.apply(epoch, replace(FLOAT, nullable=operand.type.nullable))
    compute = PARTS.get(part)
    if compute is None or operand.type.timestamp_unit is None:
        known = [EPOCH] if operand.type.timestamp_unit is None else [*PARTS, EPOCH]
        raise site.fail(
            f"no part {part!r} of {describe(operand.type)}",
            hint=joined(nearest(part, known), listed("parts", known)),
        )

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        seconds = np.floor_divide(vectors[0].values.astype(np.int64), per_second)
        return UniformBatch(compute(seconds).astype(np.int64), vectors[0].valid)

    return site.apply(kernel, replace(INT, nullable=operand.type.nullable), cost=8.0)


def _week(seconds: AnyArray) -> AnyArray:
    days = np.floor_divide(seconds, DAY)
    return (days - (days + _THURSDAY - 1) % WEEK_DAYS) * DAY  # to its Monday


def _of_calendar(unit: str) -> Callable[[AnyArray], AnyArray]:
    def truncate(seconds: AnyArray) -> AnyArray:
        begin = _date(seconds).astype(f"datetime64[{unit}]").astype("datetime64[D]")
        return begin.astype(np.int64) * DAY

    return truncate


def _quarter(seconds: AnyArray) -> AnyArray:
    months = _date(seconds).astype("datetime64[M]").astype(np.int64)
    begin = (months - months % 3).astype("datetime64[M]").astype("datetime64[D]")
    return begin.astype(np.int64) * DAY


def _of_seconds(length: int) -> Callable[[AnyArray], AnyArray]:
    return lambda seconds: seconds - seconds % length


TRUNCATIONS: dict[str, Callable[[AnyArray], AnyArray]] = {
    "YEAR": _of_calendar("Y"),
    "QUARTER": _quarter,
    "MONTH": _of_calendar("M"),
    "WEEK": _week,
    "DAY": _of_seconds(DAY),
    "HOUR": _of_seconds(HOUR),
    "MINUTE": _of_seconds(MINUTE),
    "SECOND": _of_seconds(1),
}


def _bind_truncated(site: Site) -> Bound:
    given, moment = site.args
    part = given.value if isinstance(given, Constant) else None
    truncate = TRUNCATIONS.get(part.upper()) if isinstance(part, str) else None
    if truncate is None:
        known = [each.lower() for each in TRUNCATIONS]
        raise site.fail(
            f"no part {part!r} of a time",
            at=given,
            hint=joined(nearest(str(part), known), listed("parts", known)),
        )
    unit = moment.type.timestamp_unit
    if unit is None or moment.type.shape:
        shown = f"{show(moment)} is {describe(moment.type)}"
        raise site.fail(f"DATE_TRUNC takes a time, and {shown}", at=moment)
    per_second = PER_SECOND[unit]
    earliest, named = -(MAX_COUNT // per_second), str(part).lower()

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        values = vectors[1].values.astype(np.int64)
        seconds = np.floor_divide(values, per_second)
        begins = truncate(seconds)
        refuse_rows(
            UniformBatch((begins < earliest) | (begins > seconds), vectors[1].valid),
            f"the begin of its {named} is beyond the times that 64 bits count in {unit};"
            f" leave the row out by WHERE, or write CAST({show(moment)} AS DATE), which is in"
            " seconds",
        )
        return UniformBatch(begins * per_second, vectors[1].valid)

    return site.apply(kernel, replace(moment.type, dtype="int64"), cost=8.0)


FUNCTIONS = (
    Function(
        "DATE_TRUNC",
        "DATE_TRUNC('month', time)",
        "The begin of the year, quarter, month, week (Monday), day, hour, minute or second.",
        (2, 2),
        _bind_truncated,
    ),
)
