"""Vectors: DOT, COSINE_SIMILARITY, L2_NORM, over the last axis.

Two arguments broadcast in all axes before the last, so a row of several vectors against one query
vector gives several numbers. Sums run within one row at a time (einsum), so that a value never
depends on the batch it was computed in. A cosine with a zero vector is NULL where it is one number
a row, and NaN inside an array of them.
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tensorlake_query.bound import Bound, show
from tensorlake_query.functions.operators import adapted, required_number
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.source import AnyArray, RaggedBatch, UniformBatch
from tensorlake_query.types import Shape, broadcast, describe, number
from tensorlake_query.vectors import (
    Vector,
    all_valid,
    conform,
    counts_of,
    elementwise,
    padded,
    starts_of,
)

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


def _bind_norm(site: Site) -> Bound:
    operand = _required_vectors(site, site.args[0])
    shape = operand.type.shape
    dtype = _computed_in(np.dtype(operand.type.dtype))

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return elementwise(np.sqrt, [_dot(vectors[0], vectors[0], shape, dtype)], shape[:-1])

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
        ndim = max(a.ndim, b.ndim)
        a, b = padded(a, ndim), padded(b, ndim)
        dots: AnyArray = np.einsum("...i,...i->...", a, b)
        return UniformBatch(np.asarray(dots), all_valid((left, right)))

    def product(a: AnyArray, b: AnyArray) -> AnyArray:
        return np.multiply(a, b, dtype=dtype)

    products = elementwise(product, (left, right), (*shape[:-1], None))
    return _summed(cast("RaggedBatch", products), shape[:-1], dtype)


def _summed(products: RaggedBatch, shape: Shape, dtype: np.dtype[np.generic]) -> Vector:
    kept = products.shapes[:, :-1]
    runs = np.repeat(products.shapes[:, -1], counts_of(kept))
    sums = np.zeros(len(runs), dtype)
    filled = runs > 0
    if filled.any():
        sums[filled] = np.add.reduceat(products.values, starts_of(runs)[filled])
    if not shape:
        return UniformBatch(sums, products.valid)
    result = RaggedBatch(sums, kept, products.valid)
    return result if None in shape else conform(result, cast("tuple[int, ...]", shape))


def _cosine(left: Vector, right: Vector, shape: Shape, dtype: np.dtype[np.generic]) -> Vector:
    def ratio(dots: AnyArray, left_squares: AnyArray, right_squares: AnyArray) -> AnyArray:
        return dots / (np.sqrt(left_squares) * np.sqrt(right_squares))

    squares = (
        _dot(each, each, (*shape[:-1], None) if isinstance(each, RaggedBatch) else shape, dtype)
        for each in (left, right)
    )
    result = elementwise(ratio, (_dot(left, right, shape, dtype), *squares), shape[:-1])
    if shape[:-1] or not isinstance(result, UniformBatch):
        return result
    defined = ~np.isnan(result.values)
    return UniformBatch(result.values, defined if result.valid is None else result.valid & defined)


FUNCTIONS = (
    Function("DOT", "DOT(a, b)", "Inner product.", (2, 2), _bind_pair(_dot, may_be_null=False)),
    Function(
        "COSINE_SIMILARITY",
        "COSINE_SIMILARITY(a, b)",
        "Cosine of the angle.",
        (2, 2),
        _bind_pair(_cosine, may_be_null=True),
    ),
    Function("L2_NORM", "L2_NORM(x)", "Euclidean length.", (1, 1), _bind_norm),
)
