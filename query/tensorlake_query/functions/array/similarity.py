"""Vectors: DOT, COSINE_SIMILARITY, L1_NORM, L2_NORM, LINF_NORM, over the last axis.

Two arguments broadcast in all axes before the last, so a row of several vectors against one query
vector gives several numbers. Sums run within one row at a time (einsum), so that a value never
depends on the batch it was computed in. A cosine with a zero vector is NULL where it is one number
a row, and NaN inside an array of them.
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import adapted, required_number
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.source import AnyArray, RaggedBatch, UniformBatch
from tensorlake_query.values.types import Shape, broadcast, describe, number
from tensorlake_query.values.vectors import (
    Vector,
    all_valid,
    as_ragged,
    conform,
    counts_of,
    elementwise,
    padded,
    starts_of,
    take,
    valid_of,
)

FLAT = 2  # dimensions of a batch of single vectors

_Combine = Callable[[Vector, Vector, Shape, np.dtype[np.generic]], Vector]


def _bind_pair(combine: _Combine, *, may_be_null: bool) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        args = adapted([_required_vectors(site, arg) for arg in site.args])
        left, right = (arg.type.shape for arg in args)
        shape = broadcast(left, right)
        if shape is None or (left[-1] != right[-1] and None not in {left[-1], right[-1]}):
            shown = " and ".join(f"{show(arg)} {arg.type.shape}" for arg in args)
            raise site.fail(f"vectors of different lengths: {shown}")
        dtype = _computed_in(np.result_type(*(arg.type.dtype or "float64" for arg in args)))

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return combine(vectors[0], vectors[1], shape, dtype)

        nullable = may_be_null or any(arg.type.nullable for arg in args)
        column_type = number(dtype, shape[:-1], nullable=nullable)
        return site.apply(kernel, column_type, args=args, cost=float(shape[-1] or 64))

    return bind


def _bind_absolute(ufunc: np.ufunc) -> Callable[[Site], Bound]:
    """Bind a norm that adds up, or takes the largest of, absolute values."""

    def bind(site: Site) -> Bound:
        operand = _required_vectors(site, site.args[0])
        shape = operand.type.shape
        dtype = _computed_in(np.dtype(operand.type.dtype))

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            vector = vectors[0]
            if isinstance(vector, UniformBatch) and vector.values.shape[-1]:
                sizes = np.abs(vector.values.astype(dtype, copy=False))
                return UniformBatch(np.asarray(ufunc.reduce(sizes, axis=-1)), vector.valid)
            ragged = as_ragged(vector)
            sizes = np.abs(ragged.values.astype(dtype, copy=False))
            return _reduced(RaggedBatch(sizes, ragged.shapes, ragged.valid), shape[:-1], ufunc)

        column_type = number(dtype, shape[:-1], nullable=operand.type.nullable)
        return site.apply(kernel, column_type, args=(operand,), cost=float(shape[-1] or 64))

    return bind


def _bind_norm(site: Site) -> Bound:
    operand = _required_vectors(site, site.args[0])
    shape = operand.type.shape
    dtype = _computed_in(np.dtype(operand.type.dtype))

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        squares = _dot(vectors[0], vectors[0], shape, dtype)
        lengths = elementwise(np.sqrt, [squares], shape[:-1])
        if not _are_extreme(squares):
            return lengths
        scaled, peaks = _scaled(vectors[0], dtype)
        scaled_squares = _dot(scaled, scaled, shape, dtype)
        return elementwise(_length, [squares, lengths, scaled_squares, peaks], shape[:-1])

    column_type = number(dtype, shape[:-1], nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand,), cost=float(shape[-1] or 64))


def _required_vectors(site: Site, expr: Bound) -> Bound:
    result = required_number(site, expr)
    if not result.type.shape:
        raise site.fail(f"a vector is needed, and {show(expr)} is {describe(expr.type)}", at=expr)
    return result


def _computed_in(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return np.dtype(
        np.float32 if dtype in {np.dtype(np.float16), np.dtype(np.float32)} else np.float64
    )


def _dot(left: Vector, right: Vector, shape: Shape, dtype: np.dtype[np.generic]) -> Vector:
    if isinstance(left, UniformBatch) and isinstance(right, UniformBatch):
        a: AnyArray = left.values.astype(dtype, copy=False)
        b: AnyArray = right.values.astype(dtype, copy=False)
        if a.ndim == b.ndim == FLAT and b.strides[0] == 0 and len(b):  # one vector for all rows
            dots = np.einsum("ni,i->n", a, b[0]) if a is not b else _same(a)
            return UniformBatch(dots, all_valid((left, right)))
        ndim = max(a.ndim, b.ndim)
        a, b = padded(a, ndim), padded(b, ndim)
        every: AnyArray = np.einsum("...i,...i->...", a, b)
        return UniformBatch(np.asarray(every), all_valid((left, right)))

    def product(a: AnyArray, b: AnyArray) -> AnyArray:
        return np.multiply(a, b, dtype=dtype)

    products = elementwise(product, (left, right), (*shape[:-1], None))
    return _reduced(cast("RaggedBatch", products), shape[:-1], np.add)


def _same(values: AnyArray) -> AnyArray:
    """Return the square of one vector's length, for as many rows as it stands for."""
    return np.broadcast_to(np.einsum("i,i->", values[0], values[0]), (len(values),))


def _reduced(products: RaggedBatch, shape: Shape, ufunc: np.ufunc) -> Vector:
    """Reduce the last axis; of nothing the answer is 0."""
    kept = products.shapes[:, :-1]
    runs = np.repeat(products.shapes[:, -1], counts_of(kept))
    sums = np.zeros(len(runs), products.values.dtype)
    filled = runs > 0
    if filled.any():
        sums[filled] = ufunc.reduceat(products.values, starts_of(runs)[filled])
    if not shape:
        return UniformBatch(sums, products.valid)
    result = RaggedBatch(sums, kept, products.valid)
    return result if None in shape else conform(result, cast("tuple[int, ...]", shape))


def _cosine(left: Vector, right: Vector, shape: Shape, dtype: np.dtype[np.generic]) -> Vector:
    def is_zero(left_squares: AnyArray, right_squares: AnyArray) -> AnyArray:
        return (left_squares == 0) | (right_squares == 0)

    pair = (left, right)
    squares = [_square(each, shape, dtype) for each in pair]
    result = elementwise(_ratio, (_dot(left, right, shape, dtype), *squares), shape[:-1])
    if any(map(_are_extreme, squares)):
        if not shape[:-1] and all(isinstance(each, UniformBatch) for each in pair):
            return _flat_cosine(pair, result, squares, shape, dtype)
        scaled = [_scaled(each, dtype)[0] for each in pair]
        before, squares = squares, [_square(each, shape, dtype) for each in scaled]
        dots = _dot(scaled[0], scaled[1], shape, dtype)
        again = elementwise(_ratio, (dots, *squares), shape[:-1])
        result = elementwise(_chosen, (result, again, *before), shape[:-1])
    if shape[:-1] or not isinstance(result, UniformBatch):
        return result
    if not np.isnan(result.values).any():
        return result
    zero = elementwise(is_zero, squares, ()).values
    return UniformBatch(result.values, ~zero if result.valid is None else result.valid & ~zero)


def _flat_cosine(
    pair: tuple[Vector, Vector],
    result: Vector,
    squares: Sequence[Vector],
    shape: Shape,
    dtype: np.dtype[np.generic],
) -> Vector:
    """Return cosines of single vectors: those with an extreme square, except NULLs, are scaled."""
    valid = valid_of(result)
    is_extreme = _is_extreme(squares[0].values) | _is_extreme(squares[1].values)
    rows = np.flatnonzero(is_extreme & valid)
    left, right = (_scaled(take(each, rows), dtype)[0] for each in pair)
    sizes = [_square(each, shape, dtype).values for each in (left, right)]
    values, valid = result.values.copy(), valid.copy()
    values[rows] = _ratio(_dot(left, right, shape, dtype).values, *sizes)
    valid[rows] = (sizes[0] > 0) & (sizes[1] > 0) | np.isnan(sizes[0] + sizes[1])
    return UniformBatch(values, None if valid.all() else valid)


def _square(vector: Vector, shape: Shape, dtype: np.dtype[np.generic]) -> Vector:
    ragged = (*shape[:-1], None)
    return _dot(vector, vector, ragged if isinstance(vector, RaggedBatch) else shape, dtype)


def _ratio(dots: AnyArray, left_squares: AnyArray, right_squares: AnyArray) -> AnyArray:
    return dots / (np.sqrt(left_squares) * np.sqrt(right_squares))


def _is_extreme(squares: AnyArray) -> AnyArray:
    """Return which sums of squares overflowed, or are too small to keep all digits."""
    limits = np.finfo(squares.dtype.name)
    return ~(np.isfinite(squares) & (squares >= limits.tiny / limits.eps))


def _are_extreme(squares: Vector) -> bool:
    return bool(_is_extreme(squares.values).any())


def _chosen(
    ratios: AnyArray, again: AnyArray, left_squares: AnyArray, right_squares: AnyArray
) -> AnyArray:
    return np.where(_is_extreme(left_squares) | _is_extreme(right_squares), again, ratios)


def _length(
    squares: AnyArray, lengths: AnyArray, scaled_squares: AnyArray, peaks: AnyArray
) -> AnyArray:
    return np.where(_is_extreme(squares), np.sqrt(scaled_squares) * peaks, lengths)


def _scaled(vector: Vector, dtype: np.dtype[np.generic]) -> tuple[Vector, Vector]:
    """Return vectors whose largest element is 1, and the largest of each as it was; 0 stays 0."""
    if isinstance(vector, UniformBatch) and vector.values.shape[-1]:
        values = vector.values.astype(dtype, copy=False)
        peaks = np.asarray(np.abs(values).max(axis=-1))
        divisors = np.where(peaks > 0, peaks, 1)[..., None]
        return UniformBatch(values / divisors, vector.valid), UniformBatch(peaks, vector.valid)
    ragged = as_ragged(vector)
    sizes = np.abs(ragged.values.astype(dtype, copy=False))
    outer = (None,) * (ragged.shapes.shape[1] - 1)
    peaks = _reduced(RaggedBatch(sizes, ragged.shapes, ragged.valid), outer, np.maximum)
    runs = np.repeat(ragged.shapes[:, -1], counts_of(ragged.shapes[:, :-1]))
    divisors = np.repeat(np.where(peaks.values > 0, peaks.values, 1).reshape(-1), runs)
    return RaggedBatch(ragged.values / divisors, ragged.shapes, ragged.valid), peaks


def _bind_hamming(site: Site) -> Bound:
    left, right = (_required_vectors(site, arg) for arg in site.args)
    shape = broadcast(left.type.shape, right.type.shape)
    if shape is None:
        shown = f"{show(left)} {left.type.shape} and {show(right)} {right.type.shape}"
        raise site.fail(f"vectors of different lengths: {shown}")
    args = adapted([left, right])

    def differs(a: AnyArray, b: AnyArray) -> AnyArray:
        return (a != b).astype(np.int64)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        made = as_ragged(elementwise(differs, vectors, shape))
        return _reduced(made, shape[:-1], np.add)

    column_type = number("int64", shape[:-1], nullable=any(arg.type.nullable for arg in args))
    return site.apply(kernel, column_type, args=args, cost=float(shape[-1] or 64))


FUNCTIONS = (
    Function("DOT", "DOT(a, b)", "Inner product.", (2, 2), _bind_pair(_dot, may_be_null=False)),
    Function(
        "COSINE_SIMILARITY",
        "COSINE_SIMILARITY(a, b)",
        "Cosine of the angle.",
        (2, 2),
        _bind_pair(_cosine, may_be_null=True),
    ),
    Function("L1_NORM", "L1_NORM(x)", "Sum of absolute values.", (1, 1), _bind_absolute(np.add)),
    Function("L2_NORM", "L2_NORM(x)", "Euclidean length.", (1, 1), _bind_norm),
    Function(
        "LINF_NORM", "LINF_NORM(x)", "Largest absolute value.", (1, 1), _bind_absolute(np.maximum)
    ),
    Function(
        "HAMMING_DISTANCE",
        "HAMMING_DISTANCE(a, b)",
        "How many elements differ.",
        (2, 2),
        _bind_hamming,
    ),
)
