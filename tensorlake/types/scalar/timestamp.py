"""Timestamp: one timestamp per row, stored as a count of units since 1970.

With a time zone a timestamp is an instant, stored in UTC and shown in that zone; without one it is
local wall-clock time. The two are never converted silently, nor is a fraction of the unit dropped.
A date is the timestamp, in seconds, of its midnight.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import check_flags
from tensorlake.types.base.base import NO_DEFAULT, QueryKind, SampleType, check_default
from tensorlake.types.base.column import Column, UniformColumn
from tensorlake.types.base.errors import (
    Place,
    describe_value,
    dtype_mismatch,
    is_one_of,
    shape_mismatch,
)
from tensorlake.types.base.mixins import OneNumber

__all__ = ["TimeUnit", "Timestamp"]

TimeUnit = Literal["s", "ms", "us", "ns"]
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INT64 = np.dtype(np.int64)
_SECONDS_A_DAY = 86_400
_NAT = np.iinfo(np.int64).min
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- naive: arithmetic on what the clock says
_MICROSECOND = dt.timedelta(microseconds=1)
_FINER = re.compile(r"(?<=[.,]\d{6})\d+")  # digits that Python's parser drops silently
_NANOSECOND_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Timestamp(OneNumber, SampleType):
    """A timestamp; columns read as ``numpy.datetime64[unit]``, one sample as `datetime.datetime`.

    >>> Timestamp("ms").convert(["2026-03-01T12:00"], tensor="at").values
    array([1772366400000])
    >>> day = Timestamp("s", is_date=True)
    >>> day.present(day.convert([dt.date(2026, 3, 1)], tensor="day"))
    array(['2026-03-01'], dtype='datetime64[D]')

    Attributes:
        unit: "s", "ms", "us" or "ns".
        tz: A zone by its IANA name, such as "UTC"; None for timestamps without one.
        is_date: Whether samples are dates: read as ``datetime64[D]`` and `datetime.date`.
    """

    kind: ClassVar[str] = "timestamp"

    unit: TimeUnit = "us"
    tz: str | None = None
    is_date: bool = False

    def __post_init__(self) -> None:
        if not is_one_of(self.unit, _PER_SECOND):
            raise SchemaError(
                f"{shown(self.unit)} is not a unit of time"
                f"\nuse one of {', '.join(map(repr, _PER_SECOND))}",
                actual=self.unit,
            )
        if self.tz is not None:
            try:
                zoneinfo.ZoneInfo(self.tz)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
                raise SchemaError(
                    f"{shown(self.tz)} is not a time zone known here"
                    "\nuse an IANA name: 'UTC', 'Europe/Berlin'",
                    actual=self.tz,
                ) from error
        check_flags(is_date=self.is_date)
        if self.is_date and (self.unit, self.tz) != ("s", None):
            raise SchemaError(
                f"dates have the unit 's' and no time zone, got {self.unit!r}, tz={self.tz!r}"
                "\nwrite Timestamp('s', is_date=True)",
                actual=(self.unit, self.tz),
            )
        if isinstance(self.default, dt.date):
            object.__setattr__(self, "default", self.default.isoformat())
        elif isinstance(self.default, np.datetime64):
            object.__setattr__(self, "default", str(self.default))
        check_default(self)

    @property
    def dtype(self) -> np.dtype:
        """Counts are int64."""
        return _INT64

    @property
    def query_kind(self) -> QueryKind:
        """The count of units, a number."""
        return "number"

    def describe(self) -> str:
        """Show the unit and the zone: ``Timestamp(us, UTC)``; of dates ``Timestamp(date)``."""
        if self.is_date:
            return "Timestamp(date)"
        return f"Timestamp({self.unit}{f', {self.tz}' if self.tz else ''})"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        if self.is_date:
            return f"a date, datetime64[D] or ISO 8601 text ({self.describe()})"
        zone = "with a time zone" if self.tz else "without a time zone"
        return f"a datetime {zone}, datetime64 or ISO 8601 text ({self.describe()})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept datetimes, datetime64 (with a zone: UTC's), ISO 8601 text, pandas' Timestamps."""
        if isinstance(samples, np.ndarray):
            if samples.dtype.kind != "M" or samples.ndim != 1:
                return self._refuse_array(samples, place)
            return UniformColumn(self._checked(self._counts(samples, place, 0), place))
        counts = np.empty(len(samples), dtype=_INT64)
        for position, sample in enumerate(samples):
            moment = self._moment(sample, place, position)
            counts[position] = (
                self._counts(moment.reshape(1), place, position)[0]
                if isinstance(moment, np.ndarray)
                else self._count(moment, place, position)
            )
        return UniformColumn(self._checked(counts, place))

    def json_value(self, value: Any) -> Any:
        """Return one sample as an ISO 8601 string, from which a stored default is read."""
        column = replace(self, default=NO_DEFAULT).convert([value], tensor="value")
        displayed = self.present_one(column, 0)
        if displayed is None or self.unit != "ns":
            return None if displayed is None else displayed.isoformat()
        return f"{displayed}{'Z' if self.tz else ''}"

    def present(self, column: Column, *, tensor: str = "", null: Any = NO_DEFAULT) -> Any:
        """Return ``datetime64[unit]``; with a zone it is UTC's time."""
        counts = SampleType.present(self, column, tensor=tensor, null=null)
        moments = np.asarray(counts).view(f"datetime64[{self.unit}]")
        return moments.astype("datetime64[D]") if self.is_date else moments

    def present_one(self, column: Column, position: int) -> Any:
        """Return a `datetime.datetime` in the zone; for nanoseconds a `numpy.datetime64`."""
        count = SampleType.present_one(self, column, position)
        if count is None:
            return None
        moment = np.datetime64(int(count), self.unit)
        if self.is_date:
            day = moment.astype("datetime64[D]")
            date = day.item()
            return date if isinstance(date, dt.date) else day  # beyond the year 9999
        if self.unit == "ns":
            return moment
        clock = moment.astype("datetime64[us]").item()
        if self.tz is None or not isinstance(clock, dt.datetime):  # beyond the year 9999
            return clock if isinstance(clock, dt.datetime) else moment
        return clock.replace(tzinfo=dt.UTC).astimezone(zoneinfo.ZoneInfo(self.tz))

    def _moment(self, sample: Any, place: Place, position: int) -> dt.datetime | np.ndarray:
        if hasattr(sample, "to_datetime64"):  # pandas' Timestamp: a datetime that has nanoseconds
            self._check_zone(sample, place, position)
            wall = sample if self.tz else sample.tz_localize(None)
            return np.asarray(wall.to_datetime64())
        if isinstance(sample, np.datetime64):
            return np.asarray(sample)
        if isinstance(sample, str):
            finer = _FINER.search(sample)
            text = sample
            try:
                sample = dt.datetime.fromisoformat(sample)
            except ValueError as error:
                raise dtype_mismatch(place, position, describe_value(sample)) from error
            if finer is not None and (digits := finer[0].rstrip("0")):
                return self._nanoseconds(sample, digits, text, place, position)
        if self.is_date and type(sample) is dt.date:
            return np.asarray(np.datetime64(sample))
        if not isinstance(sample, dt.datetime):
            hint = (
                "numbers have no unit: numpy.array(values, dtype='datetime64[s]') gives them one"
                if isinstance(sample, int | float)
                else ""
            )
            raise dtype_mismatch(place, position, describe_value(sample), hint=hint)
        self._check_zone(sample, place, position)
        return sample

    def _nanoseconds(
        self, moment: dt.datetime, digits: str, text: str, place: Place, position: int
    ) -> np.ndarray:
        """Add the digits of a string that Python's datetime drops."""
        self._check_zone(moment, place, position)
        if self.unit != "ns" or len(digits) > _NANOSECOND_DIGITS:
            raise dtype_mismatch(place, position, self._too_fine(text))
        count = self._count(moment, place, position) + int(digits.ljust(_NANOSECOND_DIGITS, "0"))
        return np.asarray(np.datetime64(count, "ns"))

    def _check_zone(self, moment: dt.datetime, place: Place, position: int) -> None:
        if (moment.tzinfo is None) is (self.tz is None):
            return
        displayed = (
            f"{moment.isoformat()} {'without' if moment.tzinfo is None else 'with'} a time zone"
        )
        hint = (
            "give its time zone: value.replace(tzinfo=…)"
            if self.tz
            else "drop it yourself: value.replace(tzinfo=None), or use Timestamp(tz='UTC')"
        )
        raise dtype_mismatch(place, position, displayed, hint=hint)

    def _count(self, moment: dt.datetime, place: Place, position: int) -> int:
        wall = moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
        microseconds = (wall - _EPOCH) // _MICROSECOND
        count, rest = divmod(microseconds * _PER_SECOND[self.unit], _PER_SECOND["us"])
        if rest:
            raise dtype_mismatch(place, position, self._too_fine(moment.isoformat()))
        if not -(2**63) < count < 2**63:
            raise dtype_mismatch(place, position, f"{moment.isoformat()}, beyond {self.unit}")
        return count

    def _counts(self, moments: np.ndarray, place: Place, start: int) -> np.ndarray:
        """Convert timestamps of any NumPy unit to counts; reject fractions and NaT."""
        counts = moments.astype(f"datetime64[{self.unit}]")
        nowhere = np.isnat(moments)
        if bool(nowhere.any()):
            at = int(np.argmax(nowhere))
            raise dtype_mismatch(
                place, start + at, "NaT, which is not a time", hint="None is NULL, where it may be"
            )
        lost = (counts.astype(moments.dtype) != moments) | (counts.view(np.int64) == _NAT)
        if bool(lost.any()):
            at = int(np.argmax(lost))
            raise dtype_mismatch(place, start + at, self._too_fine(str(moments[at])))
        return cast("np.ndarray", counts.view(np.int64))

    def _checked(self, counts: np.ndarray, place: Place) -> np.ndarray:
        """Return counts of dates, each a midnight; of other timestamps any."""
        wrong = counts % _SECONDS_A_DAY != 0 if self.is_date else np.zeros(0, np.bool_)
        if bool(wrong.any()):
            at = int(np.argmax(wrong))
            moment = np.datetime64(int(counts[at]), "s")
            raise dtype_mismatch(place, at, f"{moment}, which is not a midnight")
        return counts

    def _too_fine(self, displayed: str) -> str:
        return f"{displayed}, which is not an integer number of {self.unit}"

    def _refuse_array(self, samples: np.ndarray, place: Place) -> Column:
        displayed = (
            f"{samples.dtype} {samples.shape[1:]}" if samples.ndim > 1 else str(samples.dtype)
        )
        if samples.dtype.kind == "M":
            raise shape_mismatch(place, 0, displayed)
        hint = "numbers have no unit: values.astype('datetime64[s]') gives them one"
        raise dtype_mismatch(place, 0, displayed, hint=hint)
