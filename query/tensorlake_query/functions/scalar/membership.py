"""IN: among values that are written, or among those that a query gives."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct

from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.scalar.dates import same_times
from tensorlake_query.functions.scalar.operators import TEXT_COST, same_kind
from tensorlake_query.functions.text.matching import among
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Apply, Bound, Constant, QueryRef, show, syntax_of
from tensorlake_query.values.conversions import as_number, as_text, is_null
from tensorlake_query.values.group_keys import json_key
from tensorlake_query.values.source import AnyArray, BoolArray, ColumnType, UniformBatch
from tensorlake_query.values.texts import texts_of
from tensorlake_query.values.times import MAX_COUNT, is_beyond, is_time, units_per
from tensorlake_query.values.types import BOOL, NULL_TYPE, describe, is_numeric
from tensorlake_query.values.vectors import Vector, distinct, object_array, python_values, valid_of

FEW_TEXTS = 16  # as many can be compared with each in the time that making strings takes
MAX_TABLE = 1 << 22  # places of a table of booleans
FEW_NUMBERS = 8  # comparing with each is faster than searching: 10⁷ bytes 4 ms against 30


class Values(Struct, frozen=True):
    """The values of `IN $ids`, which are one argument however many they are."""

    array: AnyArray


class Members(Struct, frozen=True):
    """The distinct values of a query's one column: of labels their codes, and their names too."""

    values: AnyArray
    texts: frozenset[object]
    has_null: bool

    @property
    def is_empty(self) -> bool:
        """Whether the query gave no row at all."""
        return not len(self.values) and not self.has_null

    @staticmethod
    def of(vector: Vector, column_type: ColumnType) -> "Members":
        """Collect the values of a column."""
        valid = valid_of(vector)
        values = texts = vector.values[valid]
        if column_type.names is not None:
            names = object_array([*column_type.names, ""])
            inside = (values >= 0) & (values < len(column_type.names))
            texts = names[np.where(inside, values, len(column_type.names))]
        known = frozenset(texts.tolist()) if texts.dtype == object else frozenset[object]()
        return Members(values, known, not valid.all())


def bind_in_query(site: Site, members: QueryRef, *, negated: bool) -> Bound:
    """Bind `x [NOT] IN (SELECT …)`: labels are compared by name, the rest as `=` compares.

    Raises:
        QueryTypeError: the two sides have nothing in common.
    """
    operand, wanted = site.args[0], members.type
    if operand.type.shape:
        raise site.fail(
            f"{show(operand)} is {describe(operand.type)}; IN compares single values",
            at=operand,
            hint="index one element",
        )
    is_plain_number = is_numeric(operand.type) and operand.type.names is None
    if wanted.kind == "text" or (wanted.names is not None and not is_plain_number):
        known = as_text(operand)
    elif is_numeric(wanted):
        known = as_number(operand)  # between a label and numbers its code counts
    else:
        known = operand if operand.type.kind == wanted.kind == "bytes" else None
    factor = 1
    if is_time(operand.type) != is_time(wanted):
        known = None
    if known is not None and is_time(wanted):
        known, finer = same_times(site, operand, members)
        factor = units_per(finer.type, wanted)
    if known is None:
        raise site.fail(
            f"{show(operand)} is {describe(operand.type)}, and the query gives {describe(wanted)}"
        )
    uses_texts = known.type.dtype is None

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        if not num_rows:
            return UniformBatch(np.zeros(0, np.bool_))
        among: Members = vectors[1].values[0]
        values = vectors[0].values
        if uses_texts:
            found = np.fromiter(map(among.texts.__contains__, values.tolist()), np.bool_, num_rows)
        else:
            counted = among.values
            if factor > 1:  # others are equal to nothing that 64 bits count
                most = MAX_COUNT // factor
                counted = counted[(counted <= most) & (counted >= -most)] * factor
            found = np.isin(values, counted)
        valid = None if among.is_empty else vectors[0].valid  # among nothing is nothing, not NULL
        if among.has_null:
            valid = found if valid is None else found & valid
        return UniformBatch(found ^ negated, valid)

    column_type = replace(BOOL, nullable=operand.type.nullable or wanted.nullable)
    return Apply(
        kernel, (known, members), column_type, None, strict=False, cost=TEXT_COST, role="in query"
    )


def item_by_item(expr: ast.InList) -> ast.Expr:
    """Write `x IN (y, 1, NULL)` as `x = y OR x IN (1) OR x IN (NULL)`.

    NULL and lists of parameters stay with IN because `=` refuses them.
    """
    span = expr.span
    equal = tuple(
        ast.InList(expr.operand, (item,), span=span)
        if isinstance(item, ast.Literal | ast.Parameter)
        else ast.Compare("=", expr.operand, item, span=span)
        for item in expr.items
    )
    among = equal[0] if len(equal) == 1 else ast.Or(equal, span=span)
    return ast.Not(among, span=span) if expr.negated else among


def bind_in_constants(site: Site, *, negated: bool) -> Bound:
    """Bind `x [NOT] IN (constants)`; a NULL among them makes "no" into "not known"."""
    operand, *items = site.args
    has_null = any(is_null(item) for item in items)
    wanted: list[Bound] = []
    for item in items if is_time(operand.type) else ():  # to the finest of all units first
        operand = operand if is_null(item) else same_times(site, operand, item)[0]
    for item in items:
        value = item
        if not is_null(item):
            operand, value = same_kind(site, "=", operand, item)
        if is_time(value.type) and isinstance(value, Constant) and is_beyond(value):
            continue  # 64 bits count no time that is equal
        if value.type.shape:
            raise site.fail(f"IN compares single values, not {describe(value.type)}", at=item)
        wanted.append(value)
    values = [
        each.value for each in wanted if isinstance(each, Constant) and each.value is not None
    ]
    if operand.type.shape:
        raise site.fail(
            f"{show(operand)} is {describe(operand.type)}; IN compares single values",
            at=operand,
            hint=f"write CONTAINS({show(operand)}, value), or index one element",
        )
    member = _membership(operand, values)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        found = member(vectors[0].values)
        valid = vectors[0].valid
        if has_null:
            valid = found if valid is None else found & valid
        return UniformBatch(~found if negated else found, valid)

    nullable = operand.type.nullable or has_null
    args = (operand, *wanted)
    role = "not in" if negated else "in"
    cost = 2.0 if operand.type.dtype is not None else TEXT_COST
    return site.apply(
        kernel, replace(BOOL, nullable=nullable), args=args, strict=False, cost=cost, role=role
    )


def bind_in_values(site: Site, values: AnyArray, *, negated: bool) -> Bound | None:
    """Bind `x [NOT] IN $ids` of values of one type; the second argument is the first of them.

    Returns:
        None where the values have to be converted one by one: class names, times.
    """
    operand, first = site.args
    if operand.type.shape or is_time(operand.type):
        return None
    operand, converted = same_kind(site, "=", operand, first)
    if converted is not first:
        return None
    is_object = values.dtype == object
    member = _membership(operand, values.tolist()) if is_object else _found_in(operand, values)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        found = member(vectors[0].values)
        return UniformBatch(~found if negated else found, vectors[0].valid)

    listed = Constant(Values(values), NULL_TYPE, syntax_of(first))
    return site.apply(
        kernel,
        replace(BOOL, nullable=operand.type.nullable),
        args=(operand, listed),
        strict=False,
        cost=TEXT_COST if is_object else 2.0,
        role="not in" if negated else "in",
    )


def _found_in(operand: Bound, values: AnyArray) -> Callable[[AnyArray], BoolArray]:
    """Return the test whether numbers are among others: sorted once, or marked in a table."""
    dtype = np.dtype(operand.type.dtype)
    if dtype.kind in "iu" and values.dtype.kind in "iu":
        limits = np.iinfo(dtype.name)
        values = values[(values >= limits.min) & (values <= limits.max)]
    elif dtype.kind in "iub":
        return lambda array: np.isin(array, values)
    with np.errstate(all="ignore"):
        ordered = distinct(values.astype(dtype))
    if not len(ordered):
        return lambda array: np.zeros(len(array), np.bool_)
    low = ordered[0]
    span = int(ordered[-1]) - int(low) + 1 if dtype.kind in "iu" else MAX_TABLE + 1
    if span <= MAX_TABLE:
        table = np.zeros(span, np.bool_)
        table[(ordered - low).astype(np.int64)] = True

        def marked(array: AnyArray) -> BoolArray:
            inside = (array >= low) & (array <= ordered[-1])
            wide = array if dtype == np.uint64 else array.astype(np.int64)  # an int8 would wrap
            return table[np.where(inside, wide - wide.dtype.type(low), 0).astype(np.int64)] & inside

        return marked

    def searched(array: AnyArray) -> BoolArray:
        places = np.searchsorted(ordered, array)
        return ordered[np.minimum(places, len(ordered) - 1)] == array

    return searched


def _membership(operand: Bound, values: Sequence[object]) -> Callable[[AnyArray], BoolArray]:
    if operand.type.kind == "json":
        keys = {json_key(value) for value in values}

        def among_json(array: AnyArray) -> BoolArray:
            found = (json_key(each) in keys for each in python_values(array))
            return np.fromiter(found, np.bool_, len(array))

        return among_json
    if operand.type.dtype is None:
        wanted = frozenset(values)

        literals = [_encoded(value) for value in wanted if isinstance(value, str)]

        def among_objects(array: AnyArray) -> BoolArray:
            texts = texts_of(array)
            if texts is not None and len(literals) <= FEW_TEXTS:
                return among(texts, literals)
            return np.fromiter(map(wanted.__contains__, array.tolist()), np.bool_, len(array))

        return among_objects
    numbers = _weakly_typed(operand, values)
    listed_values = np.array(numbers)
    if len(numbers) <= FEW_NUMBERS and listed_values.dtype.kind == "i":
        whole = [int(each) for each in listed_values.tolist()]

        def among_few(array: AnyArray) -> BoolArray:
            found = np.zeros(len(array), np.bool_)
            for each in whole:
                found |= array == each
            return found

        return among_few

    def among_numbers(array: AnyArray) -> BoolArray:
        return np.isin(array, listed_values)

    return among_numbers


def _encoded(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _weakly_typed(operand: Bound, values: Sequence[object]) -> list[object]:
    if operand.type.dtype in {"float16", "float32"}:
        with np.errstate(all="ignore"):
            return [np.dtype(operand.type.dtype).type(value) for value in values]
    return list(values)
