"""UNION, INTERSECT, EXCEPT: which columns the two sides have in common, and which rows remain.

By identity the rows of both sides are rows of one source; by value, two rows are equal when all
their columns are, NULL being equal to NULL here as in SQL's DISTINCT.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.group_keys import group_rows
from tensorlake_query.values.source import ColumnType, IntArray
from tensorlake_query.values.times import is_time, units_per
from tensorlake_query.values.types import common_dtype, describe, is_numeric
from tensorlake_query.values.vectors import Vector, concatenated

Schema = Mapping[str, ColumnType]


def combined_schema(left: Schema, right: Schema, query: ast.SetQuery, text: str) -> Schema:
    """Return the columns of a set operation: named by the left side, of a type both have.

    Raises:
        QueryTypeError: they differ in number, or a pair has no type in common.
    """
    if len(left) != len(right):
        raise QueryTypeError(
            f"{query.op} of {len(left)} columns and {len(right)}",
            text=text,
            span=query.span,
            hint="select as many on both sides",
        )
    schema: dict[str, ColumnType] = {}
    for (name, a), (other, b) in zip(left.items(), right.items(), strict=True):
        common = common_type(a, b)
        if common is None:
            raise QueryTypeError(
                f"{query.op} of {name!r}, {describe(a)}, and {other!r}, {describe(b)}",
                text=text,
                span=query.span,
                hint="CAST one side to the other's type",
            )
        schema[name] = common
    return schema


def common_type(a: ColumnType, b: ColumnType) -> ColumnType | None:
    """Return a type that holds the values of two others as they are; None where there is none."""
    nullable = a.nullable or b.nullable
    if replace(a, nullable=nullable) == replace(b, nullable=nullable):
        return replace(a, nullable=nullable)
    if is_time(a) or is_time(b):
        return _common_time(a, b, nullable=nullable)
    if not (is_numeric(a) and is_numeric(b)) or a.names != b.names or len(a.shape) != len(b.shape):
        return None
    shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    dtype = common_dtype([a, b])
    kind = a.kind if a.kind == b.kind else "number"
    return None if dtype is None else ColumnType(kind, dtype.name, shape, a.names, nullable)


def _common_time(a: ColumnType, b: ColumnType, *, nullable: bool) -> ColumnType | None:
    """Return the type of two times, in the finer of their units; None for unlike ones."""
    if not (is_time(a) and is_time(b)) or a.shape != b.shape:
        return None
    if (a.timestamp_unit is None) != (b.timestamp_unit is None):
        return None
    finer = a if units_per(a, b) else b
    return replace(finer, nullable=nullable)


def kept_rows(
    op: ast.SetOp, left: Sequence[Vector], right: Sequence[Vector], sizes: tuple[int, int], *,
    keeps_all: bool,
) -> IntArray:  # fmt: skip
    """Return which rows of the two sides, end to end, the result has.

    Args:
        op: the operation.
        left: the columns of the left side, as vectors.
        right: those of the right side, of the same types.
        sizes: how many rows each side has.
        keeps_all: keep duplicates, as often as SQL does.
    """
    num_left, num_right = sizes
    num_rows = num_left + num_right
    if op == "UNION" and keeps_all:
        return np.arange(num_rows)
    columns = [concatenated(pair) for pair in zip(left, right, strict=True)]
    groups = group_rows(columns, num_rows)
    if op == "UNION":
        return groups.first
    mine = groups.of_row[:num_left]
    on_right = np.bincount(groups.of_row[num_left:], minlength=groups.count)
    if keeps_all:
        nth = _occurrences(mine)
        return np.flatnonzero(nth < on_right[mine] if op == "INTERSECT" else nth >= on_right[mine])
    first = groups.first[groups.first < num_left]  # those that the left side has, in its order
    return first[(on_right[: len(first)] > 0) == (op == "INTERSECT")]


def _occurrences(codes: IntArray) -> IntArray:
    """Return for each row how many rows before it have its code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    is_first = np.ones(len(codes), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    places = np.arange(len(codes))
    starts = np.maximum.accumulate(np.where(is_first, places, 0)) if len(codes) else places
    result = np.empty(len(codes), np.int64)
    result[order] = places - starts
    return result
