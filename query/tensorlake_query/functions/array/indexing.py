"""`x[...]`: NumPy basic indexing in full, and members of JSON values.

Ints (also negative, also computed), slices with any step, and one `...`. Where every sample has one
shape and every bound is a constant this is NumPy's own slicing, a view. Otherwise each dimension
becomes a base, a stride and a size a row, and `vectors.walk` gathers. An element that a ragged row
does not have is NULL; outside a fixed dimension it is an error when the query is bound.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct

from tensorlake_query.functions.registry import Site
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.conversions import JSON_COST, as_number
from tensorlake_query.values.source import (
    AnyArray,
    BoolArray,
    ColumnType,
    IntArray,
    RaggedBatch,
    UniformBatch,
)
from tensorlake_query.values.types import JSON, Shape, describe
from tensorlake_query.values.vectors import (
    Vector,
    as_ragged,
    conform,
    counts_of,
    object_array,
    python_values,
    starts_of,
    strides_of,
    walk,
)

_WHOLE = ast.Slice()


class _Bound(Struct, frozen=True):
    """One bound of a dimension: a known number, or the argument that computes it, or absent."""

    value: int | None
    argument: int | None


class _Point(Struct, frozen=True):
    at: _Bound


class _Range(Struct, frozen=True):
    start: _Bound
    stop: _Bound
    step: int


_Dimension = _Point | _Range
_ALL = _Range(_Bound(None, None), _Bound(None, None), 1)


def bind_index(site: Site, syntax: ast.Index) -> Bound:
    """Bind `operand[items]`; the site's arguments are the operand, then each bound written."""
    operand = site.args[0]
    if operand.type.kind == "json":
        return _bind_member(site, syntax)
    if not operand.type.shape:
        raise site.fail(
            f"{show(operand)} is {describe(operand.type)} and has nothing to index", at=operand
        )
    dimensions = _dimensions(site, syntax, operand)
    shape, may_miss = _result_shape(site, dimensions, operand)
    kind = operand.type.kind if operand.type.kind in {"label", "bool", "text"} else "number"
    nullable = may_miss or any(arg.type.nullable for arg in site.args)
    column_type = replace(operand.type, kind=kind, shape=shape, nullable=nullable, element=None)
    is_static = all(bound.argument is None for each in dimensions for bound in _bounds(each))
    if is_static and None not in operand.type.shape:
        selection = (slice(None), *map(_numpy_item, dimensions))

        def view(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return UniformBatch(vectors[0].values[selection])

        return site.apply(view, column_type, role="index")
    fixed = operand.type.shape[1:]
    if is_static and dimensions[0] == _ALL and None not in fixed and 0 not in fixed:
        of_item = tuple(map(_numpy_item, dimensions[1:]))

        def of_items(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            found = _of_items(as_ragged(vectors[0]), fixed, of_item)
            return _gathered(vectors, dimensions, column_type) if found is None else found

        return site.apply(of_items, column_type, cost=4.0, role="index")

    def gather(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return _gathered(vectors, dimensions, column_type)

    return site.apply(gather, column_type, cost=4.0, role="index")


def _dimensions(site: Site, syntax: ast.Index, operand: Bound) -> list[_Dimension]:
    """Return one entry a dimension of the operand, `...` and missing ones written out."""
    ndim = len(operand.type.shape)
    rests = [item for item in syntax.items if isinstance(item, ast.Rest)]
    if len(rests) > 1:
        raise site.fail("an index can have only one '...'")
    given = len(syntax.items) - len(rests)
    if given > ndim:
        raise site.fail(
            f"{given} indices for {show(operand)}, {describe(operand.type)} of {ndim} dimensions"
        )
    fill: list[ast.Expr | ast.Slice] = [_WHOLE] * (ndim - given)
    items: list[ast.Expr | ast.Slice] = []
    for item in syntax.items:
        items += fill if isinstance(item, ast.Rest) else [item]
    items += [] if rests else fill
    next_argument = 1
    dimensions: list[_Dimension] = []
    for item in items:
        if not isinstance(item, ast.Slice):
            dimensions.append(_Point(_bound(site, next_argument)))
            next_argument += 1
            continue
        parts: list[_Bound] = []
        for part in (item.start, item.stop, item.step):
            parts.append(_Bound(None, None) if part is None else _bound(site, next_argument))
            next_argument += part is not None
        start, stop, step = parts
        if step.argument is not None or step.value == 0:
            raise site.fail("the step of a slice must be an integer other than 0")
        dimensions.append(_Range(start, stop, 1 if step.value is None else step.value))
    return dimensions


def _bound(site: Site, argument: int) -> _Bound:
    expr = site.args[argument]
    if isinstance(expr, Constant) and isinstance(expr.value, int | np.integer):
        if not isinstance(expr.value, bool):
            return _Bound(int(expr.value), None)
    elif not isinstance(expr, Constant):
        number = as_number(expr)
        is_whole = number is not None and np.dtype(number.type.dtype).kind in "iu"
        if is_whole and not expr.type.shape:
            return _Bound(None, argument)
    shown = f"{show(expr)} is {describe(expr.type)}"
    hint = (
        "members of JSON are text; arrays are indexed by number" if expr.type.kind == "text" else ""
    )
    raise site.fail(f"an index must be an integer, and {shown}", at=expr, hint=hint)


def _bounds(dimension: _Dimension) -> tuple[_Bound, ...]:
    return (dimension.at,) if isinstance(dimension, _Point) else (dimension.start, dimension.stop)


def _numpy_item(dimension: _Dimension) -> int | slice:
    if isinstance(dimension, _Point):
        return dimension.at.value or 0
    return slice(dimension.start.value, dimension.stop.value, dimension.step)


def _result_shape(
    site: Site, dimensions: Sequence[_Dimension], operand: Bound
) -> tuple[tuple[int | None, ...], bool]:
    """Return the sample shape of the result, and whether a row may lack the element."""
    shape: list[int | None] = []
    may_miss = False
    for axis, (dimension, size) in enumerate(zip(dimensions, operand.type.shape, strict=True)):
        if isinstance(dimension, _Point):
            at = dimension.at.value
            if at is None or size is None:
                may_miss = True
            elif not -size <= at < size:
                raise site.fail(
                    f"index {at} is outside dimension {axis} of {show(operand)}, of size {size}"
                )
        elif (
            dimension == _Range(_Bound(None, None), _Bound(None, None), dimension.step)
            and size == 1
        ):
            shape.append(1)
        elif size is None or any(bound.argument is not None for bound in _bounds(dimension)):
            shape.append(None)
        else:
            start, stop = dimension.start.value, dimension.stop.value
            shape.append(len(range(*slice(start, stop, dimension.step).indices(size))))
    return tuple(shape), may_miss


def _of_items(
    ragged: RaggedBatch, fixed: Shape, of_item: tuple[int | slice, ...]
) -> RaggedBatch | None:
    """Index all items of a batch at once, as in `boxes[:, 2]`; None where a NULL has items."""
    counts = ragged.shapes[:, 0]
    if ragged.valid is not None and counts[~ragged.valid].any():
        return None
    items = ragged.values.reshape(-1, *fixed)[(slice(None), *of_item)]
    shapes = np.empty((len(counts), items.ndim), np.int64)
    shapes[:, 0], shapes[:, 1:] = counts, items.shape[1:]
    return RaggedBatch(np.ascontiguousarray(items).reshape(-1), shapes, ragged.valid)


def _gathered(
    vectors: Sequence[Vector], dimensions: Sequence[_Dimension], column_type: ColumnType
) -> Vector:
    ragged = as_ragged(vectors[0])
    sizes, strides = ragged.shapes, strides_of(ragged.shapes)
    base = starts_of(counts_of(sizes)).copy()
    found = np.ones(len(base), np.bool_)
    for vector in vectors:
        if vector.valid is not None:
            found &= vector.valid
    kept_sizes: list[IntArray] = []
    kept_strides: list[IntArray] = []
    for axis, dimension in enumerate(dimensions):
        size, stride = sizes[:, axis], strides[:, axis]
        if isinstance(dimension, _Point):
            at = _known(dimension.at, vectors, size)
            at = np.where(at < 0, at + size, at)
            inside = (at >= 0) & (at < size)
            found &= inside
            base += np.where(inside, at, 0) * stride
            continue
        start, length = _resolved(dimension, vectors, size)
        base += np.where(length > 0, start, 0) * stride
        kept_sizes.append(length)
        kept_strides.append(stride * dimension.step)
    values, shapes = _visited(ragged.values, base, kept_strides, kept_sizes, found)
    valid = None if found.all() else found
    if not column_type.shape:
        return UniformBatch(values, valid)
    result = RaggedBatch(values, shapes, valid)
    if any(size is None for size in column_type.shape):
        return result
    return conform(result, tuple(size or 0 for size in column_type.shape))


def _visited(
    values: AnyArray,
    base: IntArray,
    strides: Sequence[IntArray],
    sizes: Sequence[IntArray],
    found: BoolArray,
) -> tuple[AnyArray, IntArray]:
    if not sizes:
        result = np.zeros(len(base), values.dtype)
        if values.dtype == object:
            result[:] = ""
        result[found] = values[base[found]]
        return result, np.zeros((len(base), 0), np.int64)
    shapes = np.stack(sizes, axis=1)
    shapes[~found] = 0
    return values[walk(base, np.stack(strides, axis=1), shapes)], shapes


def _known(bound: _Bound, vectors: Sequence[Vector], like: IntArray) -> IntArray:
    if bound.argument is not None:
        return vectors[bound.argument].values.astype(np.int64)
    return np.full_like(like, bound.value or 0)


def _resolved(
    dimension: _Range, vectors: Sequence[Vector], size: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the first position and how many follow, as `slice.indices` does for each row."""
    step = dimension.step
    lowest, highest = (
        (np.zeros_like(size), size) if step > 0 else (np.full_like(size, -1), size - 1)
    )

    def clipped(bound: _Bound, default: IntArray) -> IntArray:
        if bound.value is None and bound.argument is None:
            return default
        at = _known(bound, vectors, size)
        return np.clip(np.where(at < 0, at + size, at), lowest, highest)

    start = clipped(dimension.start, lowest if step > 0 else highest)
    stop = clipped(dimension.stop, highest if step > 0 else lowest)
    distance = stop - start if step > 0 else start - stop
    return start, np.maximum(0, -(-distance // abs(step)))


def _bind_member(site: Site, syntax: ast.Index) -> Bound:
    """Bind `meta['a'][0]`: a missing member, or one of a value that has no members, is NULL."""
    path: list[object] = []
    for expr in site.args[1:]:
        value = expr.value if isinstance(expr, Constant) else None
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise site.fail("a JSON member is a string or an integer", at=expr)
        path.append(value)
    if len(path) != len(syntax.items):
        raise site.fail("JSON values have members, not slices", hint="write meta['key'] or meta[0]")

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        found = [_member(value, path) for value in python_values(vectors[0].values)]
        valid = np.array([value is not None for value in found], np.bool_)
        return UniformBatch(object_array(found), valid)

    return site.apply(kernel, JSON, cost=JSON_COST, role="member")


def _member(value: object, path: Sequence[object]) -> object:
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value
