"""Within a sample: ANY, ALL, sums and extremes of one row's array, whole or along one axis.

An empty array has the sum 0, is ANY false and ALL true; its mean, minimum and maximum are NULL.
Sums and products of integers are int64 (or uint64), exact or an error; floats accumulate in float64
and come back in their own dtype.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import Struct

from tensorlake_query.functions.aggregate.accumulators import HALF_BITS, halves
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import required_number
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.conversions import as_condition, condition_hint
from tensorlake_query.values.source import AnyArray, BoolArray, IntArray, RaggedBatch, UniformBatch
from tensorlake_query.values.types import Shape, describe, number
from tensorlake_query.values.vectors import (
    RowError,
    Vector,
    as_ragged,
    conform,
    counts_of,
    starts_of,
    strides_of,
    valid_of,
    walk,
)

AXIS = frozenset({"axis"})
BITS = 64  # of a sum or product of integers
FEW_DECIDE = 8  # elements: where fewer than one for so many runs decides, each finds its run
# Of products in floats, whose error is far less than a factor of 2.
SURELY_WITHIN, SURELY_BEYOND = 2.0**62, 2.0**65


class _Reduction(Struct, frozen=True):
    """A ufunc that reduces, what it accumulates in, what an empty array gives (None: NULL)."""

    ufunc: np.ufunc
    accumulate: Callable[[np.dtype[np.generic]], np.dtype[np.generic]]
    result: Callable[[np.dtype[np.generic]], np.dtype[np.generic]]
    empty: int | None
    is_mean: bool = False
    is_strict: bool = False  # only to tell ALL_STRICT of a uniform array from ALL


def _same(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return dtype


def _wide(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    if dtype.kind == "f":
        return np.dtype(np.float64)
    return np.dtype(np.uint64) if dtype.kind == "u" else np.dtype(np.int64)


def _sum_result(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return dtype if dtype.kind == "f" else _wide(dtype)


def _real(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def _float64(_dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return np.dtype(np.float64)


_ANY = _Reduction(np.logical_or, _same, _same, empty=0)
_ALL = _Reduction(np.logical_and, _same, _same, empty=1)
_ALL_STRICT = _Reduction(np.logical_and, _same, _same, empty=0, is_strict=True)
_PROD = _Reduction(np.multiply, _wide, _sum_result, empty=1)
_SUM = _Reduction(np.add, _wide, _sum_result, empty=0)
_MEAN = _Reduction(np.add, _float64, _real, empty=None, is_mean=True)
_MIN = _Reduction(np.minimum, _same, _same, empty=None)
_MAX = _Reduction(np.maximum, _same, _same, empty=None)
_ROLES = {_ANY: "any", _ALL: "all", _MIN: "min", _MAX: "max"}


def _bind_condition(reduction: _Reduction) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        condition = as_condition(site.args[0])
        if condition is None:
            shown = f"{show(site.args[0])} is {describe(site.args[0].type)}"
            hint = condition_hint(site.args[0], each=True)
            raise site.fail(f"a condition is needed, and {shown}", at=site.args[0], hint=hint)
        return _bind_reduction(site, condition, reduction)

    return bind


def _bind_number(reduction: _Reduction) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        return _bind_reduction(site, required_number(site, site.args[0]), reduction)

    return bind


def _bind_reduction(site: Site, operand: Bound, reduction: _Reduction) -> Bound:
    shape = operand.type.shape
    axis = site.static_int("axis")
    if axis is not None:
        if not -len(shape) <= axis < len(shape):
            raise site.fail(f"axis {axis} is outside {show(operand)}, {describe(operand.type)}")
        axis %= len(shape)
    given = np.dtype(operand.type.dtype)
    dtype = reduction.result(given)
    rest = () if axis is None else shape[:axis] + shape[axis + 1 :]
    may_be_empty = reduction.empty is None and any(size is None or size == 0 for size in shape)
    column_type = number(dtype, rest, nullable=operand.type.nullable or may_be_empty)
    if operand.type.kind == "label" and reduction in {_MIN, _MAX}:
        column_type = replace(operand.type, shape=rest, nullable=column_type.nullable)
    accumulator = reduction.accumulate(given)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        vector = vectors[0]
        if reduction in {_SUM, _PROD} and accumulator.kind in "iu":
            _check_integers(reduction, vector, axis, accumulator)
        if isinstance(vector, UniformBatch) and all(vector.values.shape[1:]):
            axes = tuple(range(1, vector.values.ndim)) if axis is None else (axis + 1,)
            return UniformBatch(
                _reduced(reduction, vector.values, axes, accumulator).astype(dtype, copy=False)
            )
        if axis is None:
            counts = counts_of(as_ragged(vector).shapes)
            values, valid = _segments(
                reduction, vector.values.reshape(-1), counts, accumulator, vector
            )
            return UniformBatch(values.astype(dtype, copy=False), valid)
        return _along(reduction, as_ragged(vector), axis, accumulator, dtype, rest)

    role = _ROLES.get(reduction, "") if axis is None else ""
    return site.apply(kernel, column_type, args=(operand, *site.args[1:]), role=role)


def _check_integers(
    reduction: _Reduction, vector: Vector, axis: int | None, accumulator: np.dtype[np.generic]
) -> None:
    """Refuse samples whose sum or product does not fit in 64 bits.

    Raises:
        RowError: at the first of them.
    """
    valid, flat = vector.valid, vector.values.reshape(-1)
    longest = _longest(vector, axis)
    limits = np.iinfo(accumulator.name)
    lowest, highest = _bounds(flat)
    if reduction is _SUM and limits.min <= lowest * longest and highest * longest <= limits.max:
        return
    magnitude = max(-lowest, highest, 1)
    if reduction is _PROD and longest * magnitude.bit_length() < BITS:
        return
    values, runs, kept = runs_along(as_ragged(vector), axis)
    filled = np.flatnonzero(runs > 0)
    if not len(filled):
        return
    counts = counts_of(kept)
    row = np.repeat(np.arange(len(counts)), counts)[filled]
    overflows = _sums_overflow if reduction is _SUM else _products_overflow
    found = overflows(values, starts_of(runs)[filled], runs[filled], limits)
    if valid is not None:
        found &= valid[row]
    if found.any():
        what = "sum" if reduction is _SUM else "product"
        hint = "write CAST(… AS FLOAT) around the array, which rounds"
        raise RowError(f"the {what} is beyond {accumulator.name}; {hint}", int(row[found][0]))


def _sums_overflow(
    values: AnyArray, starts: IntArray, _runs: IntArray, limits: "np.iinfo[Any]"
) -> BoolArray:
    high, low = (np.add.reduceat(half, starts) for half in halves(values))
    high += low >> HALF_BITS
    return (high < limits.min >> HALF_BITS) | (high > limits.max >> HALF_BITS)


def _products_overflow(
    values: AnyArray, starts: IntArray, runs: IntArray, limits: "np.iinfo[Any]"
) -> BoolArray:
    """Multiply floats, and Python's integers where these cannot decide."""
    is_zero = np.minimum.reduceat(values != 0, starts) == 0
    estimate = np.multiply.reduceat(np.abs(values.astype(np.float64)), starts)
    found = ~is_zero & (estimate >= SURELY_BEYOND)
    for run in np.flatnonzero(~is_zero & ~found & (estimate >= SURELY_WITHIN)).tolist():
        exact = math.prod(values[starts[run] : starts[run] + runs[run]].tolist())
        found[run] = not limits.min <= exact <= limits.max
    return found


def _longest(vector: Vector, axis: int | None) -> int:
    """Return the number of elements of the longest run that is reduced."""
    if isinstance(vector, UniformBatch):
        shape = vector.values.shape[1:]
        return math.prod(shape) if axis is None else shape[axis]
    if not len(vector.shapes):
        return 0
    return int((counts_of(vector.shapes) if axis is None else vector.shapes[:, axis]).max())


def _bounds(values: AnyArray) -> tuple[int, int]:
    """Return bounds of integers around 0, by their dtype where it is narrow."""
    if values.dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(values.dtype.name)
    if values.dtype.itemsize < BITS // 8 or not len(values):
        return int(limits.min), int(limits.max)
    return min(0, int(values.min())), max(0, int(values.max()))


def _reduced(
    reduction: _Reduction,
    values: AnyArray,
    axes: tuple[int, ...],
    accumulator: np.dtype[np.generic],
) -> AnyArray:
    result = reduction.ufunc.reduce(values, axis=axes, dtype=_loop_dtype(reduction, accumulator))
    if reduction.is_mean:
        result = result / np.prod([values.shape[axis] for axis in axes])
    return np.asarray(result)


def _loop_dtype(
    reduction: _Reduction, accumulator: np.dtype[np.generic]
) -> np.dtype[np.generic] | None:
    return None if reduction in {_ANY, _ALL, _ALL_STRICT} else accumulator


def _segments(
    reduction: _Reduction,
    values: AnyArray,
    counts: IntArray,
    accumulator: np.dtype[np.generic],
    like: Vector,
) -> tuple[AnyArray, np.ndarray[tuple[int], np.dtype[np.bool_]] | None]:
    """Reduce runs of `counts` elements; also return which runs have an answer (None: all)."""
    result = np.full(len(counts), reduction.empty or 0, accumulator)
    filled = counts > 0
    if reduction in {_ANY, _ALL, _ALL_STRICT} and values.dtype == np.bool_:
        _decide(result, values, counts, is_any=reduction is _ANY)
    elif filled.any():
        starts = starts_of(counts)[filled]
        loop = _loop_dtype(reduction, accumulator)
        result[filled] = reduction.ufunc.reduceat(values, starts, dtype=loop)
    if reduction.is_mean:
        np.divide(result, counts, out=result, where=filled)
    del like
    return result, None if reduction.empty is not None or filled.all() else filled


def _decide(answers: AnyArray, values: BoolArray, counts: IntArray, *, is_any: bool) -> None:
    """Write whether any, or all, elements of each run are true; by those that decide, if few."""
    deciding = values if is_any else ~values
    filled = counts > 0
    answers[filled] = not is_any
    if int(np.count_nonzero(deciding)) * FEW_DECIDE < len(counts):
        runs = np.searchsorted(np.cumsum(counts), np.flatnonzero(deciding), "right")
        answers[runs] = is_any
    elif filled.any():
        decided = np.logical_or.reduceat(deciding, starts_of(counts)[filled])
        answers[filled] = decided if is_any else ~decided


def _along(
    reduction: _Reduction,
    ragged: RaggedBatch,
    axis: int,
    accumulator: np.dtype[np.generic],
    dtype: np.dtype[np.generic],
    rest: Shape,
) -> Vector:
    values, runs, kept = runs_along(ragged, axis)
    reduced, filled = _segments(reduction, values, runs, accumulator, ragged)
    filled = np.ones(len(runs), np.bool_) if filled is None else filled
    return shaped_as(reduced.astype(dtype, copy=False), filled, kept, ragged, rest)


def runs_along(ragged: RaggedBatch, axis: int | None) -> tuple[AnyArray, IntArray, IntArray]:
    """Bring what one answer is made of next to each other: a whole sample, or a line of an axis.

    Returns:
        The values run after run, how long each run is, and the shape of each row's answers.
    """
    counts = counts_of(ragged.shapes)
    if axis is None:
        return ragged.values, counts, np.zeros((len(counts), 0), np.int64)
    order = [*(each for each in range(ragged.shapes.shape[1]) if each != axis), axis]
    shapes = ragged.shapes[:, order]
    values = ragged.values[walk(starts_of(counts), strides_of(ragged.shapes)[:, order], shapes)]
    kept = shapes[:, :-1]
    return values, np.repeat(shapes[:, -1], counts_of(kept)), kept


def shaped_as(
    answers: AnyArray, filled: BoolArray, kept: IntArray, like: RaggedBatch, rest: Shape
) -> Vector:
    """Return answers as samples; a row with an answer of nothing is NULL, for arrays have none."""
    valid = like.valid
    if not filled.all():
        counts = counts_of(kept)
        row = np.repeat(np.arange(len(counts)), counts)
        valid = valid_of(like) & (np.bincount(row, ~filled, len(counts)) == 0)
    if not rest:
        return UniformBatch(answers, valid)
    result = RaggedBatch(answers, kept, valid)
    if any(size is None for size in rest):
        return result
    return conform(result, tuple(size or 0 for size in rest))


FUNCTIONS = (
    Function(
        "ANY",
        "ANY(condition, axis => n)",
        "Is it true of any element; false for none.",
        (1, 1),
        _bind_condition(_ANY),
        AXIS,
    ),
    Function(
        "ALL",
        "ALL(condition, axis => n)",
        "Is it true of every element; true for none.",
        (1, 1),
        _bind_condition(_ALL),
        AXIS,
    ),
    Function(
        "ALL_STRICT",
        "ALL_STRICT(condition, axis => n)",
        "Is it true of every element; false for none.",
        (1, 1),
        _bind_condition(_ALL_STRICT),
        AXIS,
    ),
    Function(
        "ARRAY_PROD",
        "ARRAY_PROD(x, axis => n)",
        "Product of the elements.",
        (1, 1),
        _bind_number(_PROD),
        AXIS,
    ),
    Function(
        "ARRAY_SUM",
        "ARRAY_SUM(x, axis => n)",
        "Sum of the elements.",
        (1, 1),
        _bind_number(_SUM),
        AXIS,
    ),
    Function(
        "ARRAY_MEAN",
        "ARRAY_MEAN(x, axis => n)",
        "Mean of the elements.",
        (1, 1),
        _bind_number(_MEAN),
        AXIS,
    ),
    Function(
        "ARRAY_MIN",
        "ARRAY_MIN(x, axis => n)",
        "Smallest element.",
        (1, 1),
        _bind_number(_MIN),
        AXIS,
    ),
    Function(
        "ARRAY_MAX", "ARRAY_MAX(x, axis => n)", "Largest element.", (1, 1), _bind_number(_MAX), AXIS
    ),
)
