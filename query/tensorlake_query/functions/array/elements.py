"""Within a sample: ARGMAX, ARGMIN, ARRAY_STD, SORT, UNIQUE, NONZERO, MASK_AREA.

All work on runs: a run is what one answer is made of, a whole sample or one line along an axis.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query.functions.array.reductions import AXIS, runs_along, shaped_as
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import required_number
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoolArray, IntArray, RaggedBatch, UniformBatch
from tensorlake_query.values.types import describe, number
from tensorlake_query.values.vectors import (
    POSITION_NBYTES,
    Vector,
    as_ragged,
    counts_of,
    numbered,
    starts_of,
)

ELEMENT_NBYTES = 40  # of an element while runs of them are compared: its row, place, value, order

# (values run after run, length of each run) → one value a run; runs have at least one element
PerRun = Callable[[AnyArray, IntArray], AnyArray]


def _bind_per_run(compute: PerRun, dtype: str | None) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        operand = required_number(site, site.args[0])
        axis = axis_of(site, operand)
        shape = operand.type.shape
        given = np.dtype(operand.type.dtype)
        result = np.dtype(dtype or (given if given.kind == "f" else np.float64))
        rest = () if axis is None else shape[:axis] + shape[axis + 1 :]
        may_be_empty = any(size is None or size == 0 for size in shape)
        nullable = operand.type.nullable or may_be_empty

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            ragged = as_ragged(vectors[0])
            charge(ragged.values.size * ELEMENT_NBYTES)
            values, runs, kept = runs_along(ragged, axis)
            filled = runs > 0
            answers = np.zeros(len(runs), result)
            if filled.any():
                answers[filled] = compute(values, runs[filled])
            return shaped_as(answers, filled, kept, ragged, rest)

        column_type = number(result, rest, nullable=nullable)
        return site.apply(kernel, column_type, args=(operand, *site.args[1:]))

    return bind


def axis_of(site: Site, operand: Bound) -> int | None:
    """Return the axis that was asked for, from 0, or None for the whole sample."""
    axis, shape = site.static_int("axis"), operand.type.shape
    if axis is None:
        return None
    if not -len(shape) <= axis < len(shape):
        raise site.fail(f"axis {axis} is outside {show(operand)}, {describe(operand.type)}")
    return axis % len(shape)


def _std(values: AnyArray, runs: IntArray) -> AnyArray:
    values = values.astype(np.float64)
    starts = starts_of(runs)
    means = np.add.reduceat(values, starts) / runs
    return np.sqrt(np.add.reduceat((values - np.repeat(means, runs)) ** 2, starts) / runs)


def _first_extreme(ufunc: np.ufunc) -> PerRun:
    def position(values: AnyArray, runs: IntArray) -> AnyArray:
        starts = starts_of(runs)
        best = np.repeat(ufunc.reduceat(values, starts), runs)
        is_best = values == best
        if values.dtype.kind == "f":
            is_best |= np.isnan(values) & np.isnan(best)
        return np.minimum.reduceat(np.where(is_best, numbered(runs), len(values)), starts)

    return position


def _bind_sort(site: Site) -> Bound:
    operand = _required_array(site)
    shape = operand.type.shape

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        vector = vectors[0]
        charge(vector.values.size * ELEMENT_NBYTES)
        if isinstance(vector, UniformBatch):
            return UniformBatch(np.sort(vector.values, axis=-1), vector.valid)
        runs = np.repeat(vector.shapes[:, -1], counts_of(vector.shapes[:, :-1]))
        order = np.lexsort((vector.values, np.repeat(np.arange(len(runs)), runs)))
        return replace(vector, values=vector.values[order])

    column_type = replace(operand.type, shape=shape)
    return site.apply(kernel, column_type, args=(operand,), cost=8.0)


def _bind_unique(site: Site) -> Bound:
    operand = _required_array(site)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        ragged = as_ragged(vectors[0])
        counts = counts_of(ragged.shapes)
        charge(ragged.values.size * ELEMENT_NBYTES)
        row = np.repeat(np.arange(len(counts)), counts)
        values = ragged.values[np.lexsort((ragged.values, row))]
        is_new = np.ones(len(values), np.bool_)
        same = values[1:] == values[:-1]
        if values.dtype.kind == "f":
            same |= np.isnan(values[1:]) & np.isnan(values[:-1])
        is_new[1:] = ~same | (row[1:] != row[:-1])
        kept = np.bincount(row[is_new], minlength=len(counts)).astype(np.int64)
        return RaggedBatch(values[is_new], kept[:, None], ragged.valid)

    column_type = replace(operand.type, shape=(None,), element=None)
    return site.apply(kernel, column_type, args=(operand,), cost=8.0)


def _bind_nonzero(site: Site) -> Bound:
    operand = _required_array(site)
    ndim = len(operand.type.shape)
    shape: tuple[int | None, ...] = (None,) if ndim == 1 else (None, ndim)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        ragged = as_ragged(vectors[0])
        counts = counts_of(ragged.shapes)
        charge(ragged.values.size * (ELEMENT_NBYTES + ndim * POSITION_NBYTES))
        row = np.repeat(np.arange(len(counts)), counts)
        flat = numbered(counts)
        found: BoolArray = ragged.values != 0
        row, flat = row[found], flat[found]
        places: list[IntArray] = []
        for dimension in range(ndim - 1, -1, -1):
            flat, place = np.divmod(flat, ragged.shapes[row, dimension])
            places.append(place)
        values = np.stack(places[::-1], axis=1).reshape(-1) if ndim > 1 else places[0]
        kept = np.bincount(row, minlength=len(counts)).astype(np.int64)[:, None]
        width = np.full_like(kept, ndim)
        shapes = kept if ndim == 1 else np.concatenate([kept, width], axis=1)
        return RaggedBatch(values.astype(np.int64), shapes, ragged.valid)

    column_type = number("int64", shape, nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand,), cost=4.0)


def _bind_mask_area(site: Site) -> Bound:
    operand = _required_array(site)
    shape = operand.type.shape
    if len(shape) not in {2, 3}:
        raise site.fail(
            f"a mask (height, width) or masks (n, height, width) are needed, "
            f"and {show(operand)} is {describe(operand.type)}",
            at=operand,
        )
    rest = shape[:-2]

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        ragged = as_ragged(vectors[0])
        charge(ragged.values.size * ELEMENT_NBYTES)
        kept = ragged.shapes[:, :-2]
        sizes = ragged.shapes[:, -2] * ragged.shapes[:, -1]
        runs = np.repeat(sizes, counts_of(kept))
        areas = np.zeros(len(runs), np.int64)
        filled = runs > 0
        if filled.any():
            covered = (ragged.values != 0).astype(np.int64)
            areas[filled] = np.add.reduceat(covered, starts_of(runs)[filled])
        return shaped_as(areas, np.ones(len(areas), np.bool_), kept, ragged, rest)

    column_type = number("int64", rest, nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand,))


def _required_array(site: Site) -> Bound:
    given = site.args[0]
    operand = required_number(site, given)
    if not operand.type.shape:
        raise site.fail(
            f"an array is needed, and {show(given)} is {describe(given.type)}", at=given
        )
    return operand


FUNCTIONS = (
    Function(
        "ARRAY_STD",
        "ARRAY_STD(x, axis => n)",
        "Standard deviation of the elements; NULL of none.",
        (1, 1),
        _bind_per_run(_std, None),
        AXIS,
    ),
    Function(
        "ARGMAX",
        "ARGMAX(x, axis => n)",
        "Position of the first largest element; NULL of none.",
        (1, 1),
        _bind_per_run(_first_extreme(np.maximum), "int64"),
        AXIS,
    ),
    Function(
        "ARGMIN",
        "ARGMIN(x, axis => n)",
        "Position of the first smallest element; NULL of none.",
        (1, 1),
        _bind_per_run(_first_extreme(np.minimum), "int64"),
        AXIS,
    ),
    Function("SORT", "SORT(x)", "Elements in order along the last axis.", (1, 1), _bind_sort),
    Function("UNIQUE", "UNIQUE(x)", "The distinct elements in order.", (1, 1), _bind_unique),
    Function(
        "NONZERO",
        "NONZERO(x)",
        "Positions of the elements that are not 0.",
        (1, 1),
        _bind_nonzero,
    ),
    Function(
        "MASK_AREA",
        "MASK_AREA(mask)",
        "How many pixels of the mask, or of each mask, are not 0.",
        (1, 1),
        _bind_mask_area,
    ),
)
