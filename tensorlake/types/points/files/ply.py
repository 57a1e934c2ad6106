"""PLY (G. Turk, 1994): the vertices of a file, ASCII or binary of either byte order."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.quantities import human_nbytes
from tensorlake.types.points.cloud import MAX_FIELDS

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["check_ply", "read_ply_columns"]

_TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": ""}
_MAX_HEADER = 1 << 16
_MAX_ELEMENTS = 64


@dataclass(slots=True)
class _Element:
    name: str
    count: int
    properties: list[tuple[str, str]]
    lists: list[str] = field(default_factory=list[str])
    """The dtypes of the lengths of its lists."""

    @property
    def has_lists(self) -> bool:
        """Whether its elements differ in size."""
        return bool(self.lists)


def read_ply_columns(content: Buffer) -> dict[str, np.ndarray]:
    """Return the properties of the vertices of a file.

    Raises:
        ValueError: It is damaged or cut, or has no vertices of fixed size.
    """
    form, elements, start = _header(bytes(memoryview(content)[:_MAX_HEADER]))
    body = memoryview(content)[start:]
    lines = 0
    for element in elements:
        if element.name == "vertex":
            break
        if element.has_lists:
            raise ValueError(f"lists of {element.name!r} are before its vertices")
        lines += element.count
    else:
        raise ValueError("it has no vertices")
    if element.has_lists or not element.properties:
        raise ValueError("its vertices have lists, or no properties")
    order = _ORDERS[form]
    dtype = np.dtype([(name, (order or "<") + kind) for name, kind in element.properties])
    if form == "ascii":
        return _columns(_read_lines(body, lines, element.count, dtype))
    before = elements[: elements.index(element)]
    skipped = sum(one.count * _nbytes(one) for one in before)
    has = max(len(body) - skipped, 0) // dtype.itemsize
    if has < element.count:
        raise ValueError(f"its header promises {element.count:,} vertices, and it has {has:,}")
    return _columns(np.frombuffer(body, dtype, element.count, skipped))


def check_ply(content: Buffer, *, limit: int) -> dict[str, int]:
    """Return the number of each element, if a file may have all that its header promises.

    Args:
        content: The file.
        limit: Bytes that they may decode to, as float64 and int64.

    Raises:
        ValueError: It is damaged or cut, or promises more.
    """
    form, elements, start = _header(bytes(memoryview(content)[:_MAX_HEADER]))
    has, least, decoded = len(content) - start, 0, 0
    for element in elements:
        if element.count and not (element.properties or element.lists):
            raise ValueError(f"its {element.name!r} have no properties")
        numbers = len(element.properties) + len(element.lists)
        nbytes = _nbytes(element) + sum(np.dtype(one).itemsize for one in element.lists)
        least += element.count * (2 * numbers if form == "ascii" else nbytes)
        decoded += element.count * 8 * numbers
    if least > has + 1:  # text may end without a line break
        raise ValueError(f"its header promises {least:,} bytes or more, and it has {has:,}")
    if decoded > limit:
        raise ValueError(f"it promises {human_nbytes(decoded)} of mesh")
    return {element.name: element.count for element in elements}


def _columns(table: np.ndarray) -> dict[str, np.ndarray]:
    return {name: table[name] for name in table.dtype.names or ()}


def _nbytes(element: _Element) -> int:
    return sum(np.dtype(kind).itemsize for _, kind in element.properties)


def _read_lines(body: memoryview, skipped: int, count: int, dtype: np.dtype) -> np.ndarray:
    if 2 * count * len(dtype.names or ()) > len(body) + 1:  # a digit and a separator each
        raise ValueError(f"its header promises {count:,} vertices, and it has {len(body):,} bytes")
    if not count:
        return np.empty(0, dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as of no data
            table = np.loadtxt(
                io.TextIOWrapper(io.BytesIO(body), "ascii"),
                dtype,
                skiprows=skipped,
                max_rows=count,
                ndmin=1,
                comments=None,
            )
    except (ValueError, UserWarning, OverflowError, DeprecationWarning) as error:
        raise ValueError(f"its vertices are not lines of numbers: {error}") from error
    if len(table) != count:
        raise ValueError(f"its header promises {count:,} vertices, and it has {len(table):,}")
    return table


def _header(head: bytes) -> tuple[str, list[_Element], int]:
    end = head.find(b"\nend_header")
    stop = head.find(b"\n", end + 1) if end >= 0 else -1
    if stop < 0:
        raise ValueError(f"its header has no end within {_MAX_HEADER:,} bytes")
    try:
        lines = [line.split() for line in head[:end].decode("ascii").splitlines()[1:]]
    except UnicodeDecodeError as error:
        raise ValueError(f"its header is not ASCII: {error}") from error
    form, elements = "", list[_Element]()
    for words in lines:
        match words:
            case [] | ["comment" | "obj_info", *_]:
                continue
            case ["format", name, _] if name in _ORDERS and not form:
                form = name
            case ["element", name, count] if count.isdigit() and len(elements) < _MAX_ELEMENTS:
                elements.append(_Element(name, int(count), []))
            case ["property", "list", length, item, _] if (
                elements and length in _TYPES and item in _TYPES
            ):
                elements[-1].lists.append(_TYPES[length])
            case ["property", kind, name] if elements and kind in _TYPES:
                elements[-1].properties.append((name, _TYPES[kind]))
            case _:
                raise ValueError(f"its header has the line {' '.join(words)[:80]!r}")
    if not form:
        raise ValueError("its header does not have its format")
    _check(elements)
    return form, elements, stop + 1


def _check(elements: list[_Element]) -> None:
    for element in elements:
        names: list[Any] = [name for name, _ in element.properties]
        if len(names) > MAX_FIELDS or len(set(names)) < len(names):
            raise ValueError(f"its {element.name!r} have {len(names):,} properties, or one twice")
        if element.count >= 1 << 48:
            raise ValueError(f"its header promises {element.count:,} of {element.name!r}")
