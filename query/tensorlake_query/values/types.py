"""Value types: what an expression gives, how types combine, and how they are named to a reader.

A type is a `ColumnType`. NULL as a literal has the type of a JSON value that is always missing
(`NULL_TYPE`), which compares with everything and takes the type of the other operand.
"""

from collections.abc import Sequence

import numpy as np

from tensorlake_query.values.source import ColumnType

Shape = tuple[int | None, ...]

BOOL = ColumnType("bool", "bool", ())
TEXT = ColumnType("text", None, ())
TEXTS = ColumnType("text", None, (None,))
JSON = ColumnType("json", None, (), nullable=True)
INT = ColumnType("number", "int64", ())
FLOAT = ColumnType("number", "float64", ())
NULL_TYPE = JSON

ARRAY_KINDS = frozenset({"number", "bool", "label", "media"})

CAST_TYPES = {
    "int": "int64",
    "integer": "int64",
    "bigint": "int64",
    "float": "float64",
    "double": "float64",
    "bool": "bool",
    "boolean": "bool",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "float16": "float16",
    "float32": "float32",
    "float64": "float64",
    "text": "text",
    "varchar": "text",
    "string": "text",
    "timestamp": "timestamp",
    "date": "date",
}


def number(
    dtype: str | np.dtype[np.generic], shape: Shape = (), *, nullable: bool = False
) -> ColumnType:
    """Return the type of numbers, or booleans where `dtype` is bool."""
    name = np.dtype(dtype).name
    return ColumnType("bool" if name == "bool" else "number", name, shape, nullable=nullable)


def common_dtype(types: Sequence[ColumnType]) -> np.dtype[np.generic] | None:
    """Return the dtype that NumPy gives to numbers of some types.

    None for signed integers beside uint64: no integer type holds both, and float64, which NumPy
    gives, makes unequal integers above 2**53 equal.
    """
    dtypes = [np.dtype(each.dtype or "float64") for each in types]
    result = np.result_type(*dtypes)
    are_integers = all(dtype.kind in "biu" for dtype in dtypes)
    return None if are_integers and result.kind == "f" else result


def is_ragged(column_type: ColumnType) -> bool:
    """Tell whether samples differ in shape."""
    return any(size is None for size in column_type.shape)


def is_numeric(column_type: ColumnType) -> bool:
    """Tell whether arithmetic works on it (class labels count as their codes)."""
    return column_type.kind in ARRAY_KINDS


def broadcast(left: Shape, right: Shape) -> Shape | None:
    """Return the shape NumPy's broadcasting gives, or None where the shapes cannot fit.

    A ragged dimension against a fixed one longer than 1 has that length: each row must fit.
    """
    ndim = max(len(left), len(right))
    result: list[int | None] = []
    for a, b in zip(_padded(left, ndim), _padded(right, ndim), strict=True):
        if b in {a, 1}:
            result.append(a)
        elif a == 1:
            result.append(b)
        elif a is None or b is None:
            result.append(b if a is None else a)
        else:
            return None
    return tuple(result)


def describe(column_type: ColumnType) -> str:
    """Name a type to a reader: "text", "a number", "an array (None, 4)"."""
    if column_type.shape:
        shown = str(column_type.shape)
        what = {
            "label": "class labels",
            "bool": "booleans",
            "media": "media",
            "text": "text",
        }.get(column_type.kind)
        return f"an array {shown}" + (f" of {what}" if what else "")
    if column_type.timestamp_unit is not None:
        return "a time"
    if column_type.duration_unit is not None:
        return "an interval"
    if column_type.has_polygons:
        return "polygons"
    return {
        "number": "a number", "bool": "a boolean", "label": "a class label", "text": "text",
        "json": "a JSON value", "bytes": "bytes", "media": "media",
    }[column_type.kind]  # fmt: skip


def example_index(column_type: ColumnType) -> str:
    """Return the index of an element that most rows have, as an example."""
    *outer, last = column_type.shape
    return ", ".join(["0"] * len(outer) + [str(min(2, (last or 1) - 1))])


def _padded(shape: Shape, ndim: int) -> Shape:
    return (1,) * (ndim - len(shape)) + shape
