"""Sorted indexes: the rows in the order of their values, for numbers, times and short texts.

    part "value"   the values of all rows that are not NULL, ascending; NaNs at the end
    part "row"     the physical row of each
    part "fence"   every 4,096th value, which is kept in memory: the upper level

A condition is a range of values. Its borders are found among the fences, then in the blocks between
two of them, by evaluating the condition itself there: how it rounds a constant, or compares text,
is not repeated here. Blocks inside of the borders are not read; their rows are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError
from tensorlake.format import TensorSpec
from tensorlake.indexes.condition import Condition
from tensorlake.indexes.kind import (
    IndexKind,
    RowRanges,
    Rows,
    known_options,
)
from tensorlake.indexes.parts import Built, Part, PartsReader
from tensorlake.indexes.ranges import within
from tensorlake.types import (
    Column,
    EncodedColumn,
    SampleType,
    Scalar,
    Text,
    Timestamp,
    UniformColumn,
    concat,
    is_narrow_float,
    take,
)

__all__ = ["BTREE", "rows_where"]

Int64Array = npt.NDArray[np.int64]

BLOCK = 1 << 12
"""Values from one fence to the next: 10⁷ have 2,442 fences."""

MAX_TEXT_NBYTES = 1 << 12
"""Longer texts are not looked up by their order."""


def _suits(sample_type: SampleType) -> bool:
    match sample_type:
        case Scalar(dtype=dtype):
            return dtype.kind in "iuf" and not is_narrow_float(dtype)
        case Timestamp() | Text():
            return True
        case _:
            return False


def _options(spec: TensorSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    del spec
    return known_options("btree", given, {})


def _build(rows: Rows, parameters: Mapping[str, Any]) -> Built:
    return _built(rows.spec, [_known(rows.spec, *batch) for batch in rows.batches()], parameters)


def _merge(parts: PartsReader, rows: Rows, keep: RowRanges) -> Built:
    old = cast("UniformColumn", parts.run("row", 0, parts.rows("row"))).values.astype(np.int64)
    kept = np.flatnonzero(within(keep, old))
    values = parts.run("value", 0, parts.rows("value"))
    batches = [_known(rows.spec, *batch) for batch in rows.batches()]
    return _built(rows.spec, [(old[kept], take(values, kept)), *batches], {})


def _known(spec: TensorSpec, rows: Int64Array, column: Column) -> tuple[Int64Array, Column]:
    """Return the rows that are not NULL, and their values."""
    if isinstance(column, EncodedColumn):
        longest = max(map(len, column.samples), default=0)
        if longest > MAX_TEXT_NBYTES:
            raise InvalidInputError(
                f"{spec.name!r} has texts of up to {longest:,} bytes, and a btree takes at most"
                f' {MAX_TEXT_NBYTES:,}\ngive kind="text" to search for words',
                tensor=spec.name,
            )
    if column.valid is None:
        return rows, column
    known = np.flatnonzero(column.valid)
    return rows[known], take(column, known)


def _built(
    spec: TensorSpec, parts: Sequence[tuple[Int64Array, Column]], parameters: Mapping[str, Any]
) -> Built:
    sample_type = _value_type(spec.type)
    values = concat([sample_type.convert([], tensor="value"), *(column for _, column in parts)])
    rows = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in parts)])
    values, order = _sorted(values)
    rows = rows[order]
    nan = 0
    if isinstance(values, UniformColumn) and values.values.dtype.kind == "f":
        nan = int(np.count_nonzero(np.isnan(values.values)))
    fences = np.arange(0, len(values) - nan, BLOCK)
    dtype = np.dtype("uint32" if int(rows.max(initial=0)) < 1 << 32 else "uint64")
    return Built(
        {
            "value": Part(sample_type, [values]),
            "row": Part(Scalar(dtype), [UniformColumn(rows.astype(dtype))]),
            "fence": Part(sample_type, [take(values, fences)]),
        },
        {**parameters, "nan": nan},
    )


def _value_type(sample_type: SampleType) -> SampleType:
    match sample_type:
        case Scalar(dtype=dtype):
            return Scalar(dtype)
        case Timestamp():
            return Scalar("int64")
        case _:
            return Text()


def _sorted(column: Column) -> tuple[Column, Int64Array]:
    """Return values ascending, equal ones as they came, and where each was."""
    if isinstance(column, EncodedColumn):
        samples = [bytes(one) for one in column.samples]
        order = np.array(sorted(range(len(samples)), key=samples.__getitem__), np.int64)
        return EncodedColumn([samples[at] for at in order.tolist()]), order
    assert isinstance(column, UniformColumn), "scalars have one shape"
    order = np.argsort(column.values, kind="stable")
    return UniformColumn(column.values[order]), order


def rows_where(
    parts: PartsReader, sample_type: SampleType, conditions: Sequence[Condition], most: int
) -> Int64Array | None:
    """Find the physical rows that meet conditions, ascending.

    Args:
        parts: The index.
        sample_type: The column's type.
        conditions: Conditions that all of them meet.
        most: Rows beyond which a scan is cheaper.

    Returns:
        The rows; None where the index cannot tell, or they are more than ``most``.
    """
    del sample_type
    total = parts.rows("value") - int(parts.parameters["nan"])
    fences = _Fences(parts.whole("fence"), total)
    surely, perhaps = [(0, total)], [(0, total)]
    for one in conditions:
        found = fences.places(one)
        if found is None:
            return None
        surely = _both(surely, found[0])
        perhaps = _both(perhaps, found[1])
    if sum(stop - start for start, stop in surely) > most:
        return None
    places: list[Int64Array] = []
    for start, stop in perhaps:
        for first, last in _gaps(start, stop, surely):
            values = parts.run("value", first, last)
            mask = np.ones(last - first, np.bool_)
            for one in conditions:
                mask &= one.matches(values)
            places.append(first + np.flatnonzero(mask))
    if total < parts.rows("value"):
        nan = parts.run("value", total, total + 1)
        if all(bool(one.matches(nan)[0]) for one in conditions):
            surely.append((total, parts.rows("value")))
    return _rows_at(parts, surely, places, most)


def _rows_at(
    parts: PartsReader, runs: Sequence[tuple[int, int]], places: Sequence[Int64Array], most: int
) -> Int64Array | None:
    if sum(map(len, places)) + sum(stop - start for start, stop in runs) > most:
        return None
    found = [_numbers(parts, start, stop) for start, stop in runs]
    for some in places:
        if len(some):
            first, last = int(some[0]), int(some[-1]) + 1
            found.append(_numbers(parts, first, last)[some - first])
    return np.sort(np.concatenate([np.zeros(0, np.uint32), *found])).astype(np.int64)


def _numbers(parts: PartsReader, start: int, stop: int) -> npt.NDArray[Any]:
    return cast("UniformColumn", parts.run("row", start, stop)).values


class _Fences:
    """Where values are, to the block."""

    def __init__(self, fences: Column, total: int) -> None:
        self._total = total
        self._values: Any = (
            fences.values
            if isinstance(fences, UniformColumn)
            else [bytes(one) for one in cast("EncodedColumn", fences).samples]
        )

    def places(
        self, condition: Condition
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]] | None:
        """Return where a condition is surely true, and where it may be; None: not known."""
        if condition.op == "in":
            spans = [self._span(value) for value in condition.values]
            if any(span is None for span in spans):
                return None
            return [], _united([span for span in spans if span is not None])
        if condition.op not in {"=", "<", "<=", ">", ">="} or len(condition.values) != 1:
            return None
        span = self._span(condition.values[0])
        if span is None:
            return None
        start, stop = span
        match condition.op:
            case "=":
                return [], [span]
            case "<" | "<=":
                return [(0, start)], [(0, stop)]
            case _:
                return [(stop, self._total)], [(start, self._total)]

    def _span(self, value: object) -> tuple[int, int] | None:
        """Return the blocks outside of which no value equals a constant, however it is rounded."""
        low, high = value, value
        if isinstance(self._values, np.ndarray):
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            dtype = self._values.dtype
            if dtype.kind == "f":
                if value != value:  # noqa: PLR0124 - NaN
                    return 0, self._total
                with np.errstate(over="ignore"):
                    near = dtype.type(value)
                low, high = np.nextafter(near, -np.inf), np.nextafter(near, np.inf)
            elif isinstance(value, float):
                if not np.isfinite(value):
                    return (0, 0) if value < 0 else (self._total, self._total)
                # Integers are compared as float64, which has not all of those beyond 2^53.
                slack = max(1, int(abs(value)) >> 52)
                low, high = int(value) - slack, int(value) + slack
            return self._blocks(_clipped(low, dtype), _clipped(high, dtype))
        if not isinstance(value, str):
            return None
        return self._blocks(
            value.encode(errors="surrogatepass"), value.encode(errors="surrogatepass")
        )

    def _blocks(self, low: Any, high: Any) -> tuple[int, int]:
        if isinstance(self._values, np.ndarray):
            first = int(np.searchsorted(self._values, low, side="left"))
            last = int(np.searchsorted(self._values, high, side="right"))
        else:
            first, last = bisect_left(self._values, low), bisect_right(self._values, high)
        start = max(first - 1, 0) * BLOCK
        return min(start, self._total), min(last * BLOCK, self._total)


def _clipped(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as a value of a dtype, the nearest end of its range if it is beyond."""
    if dtype.kind == "f":
        return value
    bounds = np.iinfo(dtype)
    return dtype.type(min(max(value, bounds.min), bounds.max))


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def _both(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found = [(max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) < min(b, d)]
    return sorted(found)


def _gaps(start: int, stop: int, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of [start, stop) is in none of some ranges, ascending."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if last <= start or first >= stop:
            continue
        if start < first:
            found.append((start, first))
        start = max(start, last)
    if start < stop:
        found.append((start, stop))
    return found


BTREE = IndexKind(
    "btree",
    _suits,
    _options,
    _build,
    _merge,
    wants="numbers, timestamps and short texts",
)
