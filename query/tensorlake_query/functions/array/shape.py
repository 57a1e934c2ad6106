"""Shape: SHAPE, NDIM, SIZE, LENGTH, DTYPE, INFO.

The shape of a column is asked of the source, which answers without decoding; only the shape of a
computed value is computed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Apply, Bound, ColumnRef, Constant, ShapeRef, show
from tensorlake_query.values.conversions import JSON_COST
from tensorlake_query.values.source import ColumnType, UniformBatch
from tensorlake_query.values.types import INT, JSON, TEXT, describe, is_ragged, number
from tensorlake_query.values.vectors import (
    Vector,
    as_ragged,
    counts_of,
    object_array,
    python_values,
)

INFO_SIZES = ("height", "width", "channels")


def _has_shape(column_type: ColumnType) -> bool:
    """Tell whether samples are arrays: those of media may differ in dtype."""
    return column_type.dtype is not None or (
        column_type.kind == "media" and bool(column_type.shape)
    )


def _shape_of(site: Site) -> Bound:
    """Return the argument's shapes as vectors of ndim numbers."""
    operand = site.args[0]
    if not _has_shape(operand.type):
        raise site.fail(
            f"{show(operand)} is {describe(operand.type)} and has no shape",
            at=operand,
            hint="write LENGTH(x)",
        )
    sizes = operand.type.shape
    column_type = number("int64", (len(sizes),), nullable=operand.type.nullable)
    if isinstance(operand, Constant) or not (is_ragged(operand.type) or operand.type.nullable):
        fixed = np.array([size or 0 for size in sizes], np.int64)
        return Constant(fixed, column_type, site.syntax, weak=False)
    if isinstance(operand, ColumnRef):
        return ShapeRef(operand.name, column_type, site.syntax)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return UniformBatch(np.asarray(as_ragged(vectors[0]).shapes))

    return site.apply(kernel, column_type)


def _bind_ndim(site: Site) -> Bound:
    operand = site.args[0]
    if not _has_shape(operand.type):
        raise site.fail(
            f"{show(operand)} is {describe(operand.type)} and has no dimensions", at=operand
        )
    return Constant(len(operand.type.shape), INT, site.syntax)


def _bind_size(site: Site) -> Bound:
    shape = _shape_of(site)
    column_type = replace(INT, nullable=shape.type.nullable)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return UniformBatch(counts_of(vectors[0].values.astype(np.int64, copy=False)))

    return site.apply(kernel, column_type, args=(_argument(site, shape),))


def _bind_length(site: Site) -> Bound:
    operand = site.args[0]
    column_type = replace(INT, nullable=operand.type.nullable)
    if not _has_shape(operand.type) and operand.type.shape:

        def texts_kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return UniformBatch(np.ascontiguousarray(as_ragged(vectors[0]).shapes[:, 0]))

        return site.apply(texts_kernel, column_type)
    if not _has_shape(operand.type):
        is_json = operand.type.kind == "json"

        def object_kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            objects = python_values(vectors[0].values)
            if not is_json:
                return UniformBatch(np.fromiter(map(len, objects), np.int64, len(objects)))
            sized = np.fromiter(
                (isinstance(each, str | list | dict) for each in objects), np.bool_, len(objects)
            )
            lengths = [len(each) if ok else 0 for each, ok in zip(objects, sized, strict=True)]
            return UniformBatch(np.array(lengths, np.int64), sized)

        return site.apply(object_kernel, column_type, cost=JSON_COST)
    if not operand.type.shape:
        raise site.fail(
            f"{show(operand)} is {describe(operand.type)} and has no length", at=operand
        )

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return UniformBatch(np.ascontiguousarray(vectors[0].values[:, 0], np.int64))

    return site.apply(kernel, column_type, args=(_argument(site, _shape_of(site)),))


def _argument(site: Site, shape: Bound) -> Bound:
    """Return the shapes as the one argument of a function whose text shows the array itself."""
    syntax = next(ast.operands(site.syntax))
    if isinstance(shape, Apply):
        return structs.replace(shape, syntax=None)
    return structs.replace(shape, syntax=syntax)


def _bind_dtype(site: Site) -> Bound:
    operand = site.args[0]
    return Constant(operand.type.dtype or operand.type.kind, TEXT, site.syntax, weak=False)


def _bind_info(site: Site) -> Bound:
    """Bind INFO: facts about a sample that need no decoding, as JSON."""
    shape = _shape_of(site)
    operand = site.args[0].type
    dtype = operand.dtype
    is_image = len(operand.shape) > 1 and operand.handle is None
    names = INFO_SIZES[: len(operand.shape)] if is_image else ()

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        infos = [
            {"shape": sizes, "dtype": dtype, **dict(zip(names, sizes, strict=False))}
            for sizes in vectors[0].values.tolist()
        ]
        return UniformBatch(object_array(infos))

    column_type = replace(JSON, nullable=shape.type.nullable)
    args = (_argument(site, shape),)
    return site.apply(kernel, column_type, args=args, cost=JSON_COST, role="info")


FUNCTIONS = (
    Function("DTYPE", "DTYPE(x)", "Type of the elements.", (1, 1), _bind_dtype),
    Function(
        "INFO",
        "INFO(x)",
        "shape, dtype, height, width and channels as JSON; nothing is decoded.",
        (1, 1),
        _bind_info,
    ),
    Function("SHAPE", "SHAPE(x)", "Sizes of the dimensions.", (1, 1), _shape_of),
    Function("NDIM", "NDIM(x)", "Number of dimensions.", (1, 1), _bind_ndim),
    Function("SIZE", "SIZE(x)", "Number of elements.", (1, 1), _bind_size),
    Function(
        "LENGTH",
        "LENGTH(x)",
        "Characters of a text, first dimension of an array, members of JSON.",
        (1, 1),
        _bind_length,
    ),
)
