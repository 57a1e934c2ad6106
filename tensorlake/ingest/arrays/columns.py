"""Columns of arrays whose first axis is the rows, from a file or folder of named arrays.

    foreign files      each array is a tensor: numbers, booleans, strings, arrays of any length
    ours               tensors are restored from the layout that `to_zarr` and `to_hdf5` write,
                       drawn in `dataset/export/arrays/layout.py`

Rows are read in pieces of about `PIECE_NBYTES`, of whole chunks where these are not much larger.
The cuts follow from the first rows alone, so that rows added at the end leave them as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import given_sample
from tensorlake.errors import InvalidInputError, SchemaError, TensorlakeError
from tensorlake.types import (
    Array,
    Bool,
    Bytes,
    ClassLabel,
    EncodedColumn,
    InstanceMask,
    Json,
    Link,
    Ragged,
    RaggedColumn,
    SampleType,
    Scalar,
    Tags,
    Text,
    Timestamp,
    UniformColumn,
    Uuid,
    from_json,
    untiled,
)
from tensorlake.types import Sequence as SequenceType

__all__ = ["ArrayColumn", "OpenArrays", "StoredArray", "array_columns", "cut_rows"]

PIECE_NBYTES = 8 << 20
"""As much as is staged together."""

CHUNK_NBYTES_MAX = 1 << 31
"""Largest chunk that is read: one of a hostile file could ask for any memory."""

ALIGNED_NBYTES_MAX = 64 << 20
"""Largest chunks that pieces do not divide; a larger one is read once for each of its pieces."""

VARYING_NBYTES = 16 << 10
"""Taken for the size of a string or an array of any length, which only reading would tell."""

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array of a file.

    Attributes:
        shape: Its shape, rows first.
        dtype: Its elements; object for what varies in length.
        items: "str" or a dtype: what an array of objects has; None for other arrays.
        names: Names of an enumeration, by value.
        chunk: Shape of a chunk; None if it has none.
        read: Reads rows [start, stop).
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[int, int], np.ndarray]
    items: np.dtype | str | None = None
    names: tuple[str, ...] | None = None
    chunk: tuple[int, ...] | None = None

    @property
    def row_nbytes(self) -> int:
        """Bytes of a row, decoded."""
        size = VARYING_NBYTES if self.items is not None else self.dtype.itemsize
        return size * math.prod(self.shape[1:])


@dataclass(frozen=True, slots=True)
class OpenArrays:
    """The arrays of an open file.

    Attributes:
        place: The file, for errors.
        arrays: Arrays by path, such as ``train/x``.
        types: JSON of a type, which `to_zarr` and `to_hdf5` write, by path of an array or group.
        strange: Why an array cannot be read, by path.
    """

    place: str
    arrays: Mapping[str, StoredArray]
    types: Mapping[str, Any] = field(default_factory=dict[str, Any])
    strange: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """A tensor of a file.

    Attributes:
        kind: Its type.
        rows: Number of rows.
        row_nbytes: Bytes of each row, or of all rows alike.
        chunk_rows: Rows of a chunk.
        read: Reads the values of rows [start, stop), as ``extend`` takes them.
    """

    kind: SampleType
    rows: int
    row_nbytes: int | Int64Array
    chunk_rows: int
    read: Callable[[int, int], Any]


def array_columns(
    opened: OpenArrays,
    columns: Sequence[str] | None,
    given: Mapping[str, SampleType],
) -> dict[str, ArrayColumn]:
    """Return the tensors of a file.

    Args:
        opened: The file.
        columns: Only these; all by default.
        given: Types in place of those that follow from the arrays.

    Raises:
        InvalidInputError: An array is missing, damaged, not of rows, or of a kind that tensors do
            not have; or the arrays have different numbers of rows.
    """
    names = _names(opened)
    wanted = names if columns is None else [*columns]
    for name in (*wanted, *given):
        if name not in names:
            raise InvalidInputError(
                f"{opened.place!r} has no array {name!r}\narrays: {', '.join(names) or 'none'}",
                src=opened.place,
                tensor=name,
            )
    found: dict[str, ArrayColumn] = {}
    for name in wanted:
        why = opened.strange.get(name)
        if why is not None:
            others = [one for one in wanted if one not in opened.strange]
            raise _wrong(opened, name, f"{why}\nleave it out: columns={others}")
        if name in opened.types:
            found[name] = _restored(opened, name, given.get(name))
        else:
            found[name] = _plain(opened, name, given.get(name))
    lengths = {one.rows for one in found.values()}
    if len(lengths) > 1:
        most = max(lengths, key=[one.rows for one in found.values()].count)
        same = [name for name, one in found.items() if one.rows == most]
        shown = ", ".join(f"{name}: {one.rows:,}" for name, one in found.items())
        raise InvalidInputError(
            f"the arrays of {opened.place!r} have different numbers of rows ({shown})"
            f"\ningest those of one length together: columns={same}",
            src=opened.place,
        )
    return found


def cut_rows(columns: Mapping[str, ArrayColumn]) -> Iterator[tuple[int, int, int]]:
    """Yield start, stop and bytes of pieces of the rows."""
    rows = next(iter(columns.values())).rows
    alike = sum(one.row_nbytes for one in columns.values() if isinstance(one.row_nbytes, int))
    own = [one.row_nbytes for one in columns.values() if not isinstance(one.row_nbytes, int)]
    if not own:
        step = max(1, PIECE_NBYTES // max(1, alike))
        chunk = max(one.chunk_rows for one in columns.values())
        if chunk * alike <= ALIGNED_NBYTES_MAX:
            step = chunk * max(1, step // chunk)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            yield start, stop, (stop - start) * alike
        return
    ends = np.cumsum(cast("Int64Array", sum(own)) + alike)
    start = 0
    while start < rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + PIECE_NBYTES, side="right")))
        yield start, stop, int(ends[stop - 1]) - before
        start = stop


def _names(opened: OpenArrays) -> list[str]:
    """Return the names of tensors: arrays that are not parts of one, and groups that are one."""
    groups = tuple(f"{name}/" for name in opened.types)
    single = [name for name in opened.arrays if not name.startswith(groups)]
    return sorted({*single, *opened.types, *opened.strange})


def _wrong(opened: OpenArrays, name: str, why: str) -> InvalidInputError:
    message = f"{name!r} of {opened.place!r} {why}"
    return InvalidInputError(message, src=opened.place, tensor=name)


def _checked(opened: OpenArrays, name: str) -> StoredArray:
    """Return an array of rows whose chunks fit into memory."""
    array = opened.arrays[name]
    if not array.shape:
        raise _wrong(opened, name, "is one value, not rows\nleave it out: columns=[…]")
    chunk_nbytes = math.prod(array.chunk or ()) * array.dtype.itemsize
    row_nbytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    if max(chunk_nbytes, row_nbytes) > CHUNK_NBYTES_MAX:
        what = "chunk" if chunk_nbytes >= row_nbytes else "row"
        raise _wrong(
            opened,
            name,
            f"has {what}s of {max(chunk_nbytes, row_nbytes):,} bytes, and at most"
            f" {CHUNK_NBYTES_MAX:,} are read at once\nwrite it with smaller ones, or leave it out:"
            " columns=[…]",
        )
    return array


def _plain(opened: OpenArrays, name: str, given: SampleType | None) -> ArrayColumn:
    array = _checked(opened, name)
    kind = given or _type(opened, name, array)
    is_text = array.items == "str" or array.dtype.kind in "SU"

    def read(start: int, stop: int) -> Any:
        values = array.read(start, stop)
        if values.dtype.kind == "m":
            return values.view(np.int64)
        return _texts(opened, name, values, start) if is_text else _without_nat(values)

    chunk_rows = array.chunk[0] if array.chunk else 1
    return ArrayColumn(kind, array.shape[0], array.row_nbytes, max(1, chunk_rows), read)


def _type(opened: OpenArrays, name: str, array: StoredArray) -> SampleType:
    inner = array.shape[1:]
    advice = "\nsay what it is: schema={…}, or leave it out: columns=[…]"
    if array.items == "str" or array.dtype.kind in "SU":
        if inner:
            raise _wrong(opened, name, f"has strings of shape {inner} in a row{advice}")
        return Text()
    if array.items is not None:
        if inner:
            raise _wrong(opened, name, f"has lists of shape {inner} in a row{advice}")
        return _array_type(opened, name, cast("np.dtype", array.items), (None,))
    if array.names is not None and not inner:
        return ClassLabel(array.names)
    if array.dtype.kind == "M" and not inner:
        unit, count = np.datetime_data(array.dtype)
        if unit in {"s", "ms", "us", "ns", "D"} and count == 1:
            has_nat = any(np.isnat(part).any() for part in _parts(array))
            if unit == "D":
                return Timestamp("s", is_date=True, nullable=has_nat)
            return Timestamp(cast("Any", unit), nullable=has_nat)
    if array.dtype.kind == "m" and not inner:
        raise _wrong(
            opened,
            name,
            f"has {array.dtype}, of which there is no tensor\nto have the counts:"
            f" schema={{{name!r}: 'int64'}}, or leave it out: columns=[…]",
        )
    if array.dtype.kind == "b" and not inner:
        return Bool()
    return _array_type(opened, name, array.dtype, inner)


def _parts(array: StoredArray) -> Iterator[np.ndarray]:
    """Yield the values of an array of one axis, of which few are in memory together."""
    for start in range(0, array.shape[0], PIECE_NBYTES):
        yield array.read(start, min(start + PIECE_NBYTES, array.shape[0]))


def _without_nat(values: np.ndarray) -> Any:
    """Return values with NULL in place of NaT."""
    if values.dtype.kind != "M" or values.ndim != 1 or not np.isnat(values).any():
        return values
    return [
        None if one is True else value
        for value, one in zip(values, np.isnat(values).tolist(), strict=True)
    ]


def _array_type(
    opened: OpenArrays, name: str, dtype: np.dtype, shape: tuple[int | None, ...]
) -> SampleType:
    if dtype.kind not in "biufc":
        what = "records with fields" if dtype.names is not None else str(dtype)
        raise _wrong(
            opened,
            name,
            f"has {what}, of which there is no tensor\nleave it out: columns=[…]",
        )
    try:
        return Array(dtype.newbyteorder("="), shape) if shape else Scalar(dtype.newbyteorder("="))
    except SchemaError as error:
        raise _wrong(opened, name, f"cannot be a tensor: {error}") from error


def _texts(opened: OpenArrays, name: str, values: np.ndarray, start: int) -> Any:
    """Return strings; bytes are UTF-8."""
    made: list[Any] = []
    for row, one in enumerate(values.tolist(), start=start):
        try:
            made.append(one.decode() if isinstance(one, bytes) else one)
        except UnicodeDecodeError as error:
            message = f"row {row} of {name!r} of {opened.place!r} is not UTF-8: {error}"
            raise InvalidInputError(
                f"{message}\nsay that they are bytes: schema={{{name!r}: tl.Bytes()}}, or leave it"
                " out: columns=[…]",
                tensor=name,
                row=row,
            ) from error
    return made


# ---- what to_zarr and to_hdf5 wrote


def _restored(opened: OpenArrays, name: str, given: SampleType | None) -> ArrayColumn:
    kind = given or _written_type(opened, name)
    if name in opened.arrays:
        return _whole(opened, name, kind)
    parts = {
        part: _checked(opened, f"{name}/{part}")
        for part in ("values", "shapes", "offsets", "valid")
        if f"{name}/{part}" in opened.arrays
    }
    values = parts.get("values")
    if values is None:
        raise _wrong(opened, name, "lacks the array 'values': it is not what tensorlake wrote")
    if "offsets" in parts:
        ends, read = _encoded(opened, name, kind, parts)
    elif "shapes" in parts:
        ends, read = _ragged(opened, name, parts)
    else:
        whole = _whole(opened, f"{name}/values", kind)
        return _with_nulls(opened, name, whole, parts.get("valid"))
    lengths = np.diff(ends) * values.dtype.itemsize
    chunk_rows = 1
    column = ArrayColumn(kind, len(lengths), lengths.astype(np.int64), chunk_rows, read)
    return _with_nulls(opened, name, column, parts.get("valid"))


def _written_type(opened: OpenArrays, name: str) -> SampleType:
    described = opened.types[name]
    try:
        kind = from_json(json.loads(described) if isinstance(described, str) else described)
    except (TensorlakeError, ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"has an attribute 'tensorlake' that is not a type: {error}\nremove it"
        raise _wrong(opened, name, why) from error
    if isinstance(kind, Link):  # it would name any file of this machine
        raise _wrong(opened, name, "has the type of links, which are not read from files")
    return kind


def _whole(opened: OpenArrays, name: str, kind: SampleType) -> ArrayColumn:
    array = _checked(opened, name)
    is_text = array.items == "str" or array.dtype.kind in "SU"

    def read(start: int, stop: int) -> Any:
        values = array.read(start, stop)
        if is_text:
            return _texts(opened, name, values, start)
        plain = untiled(kind)
        if isinstance(plain, Timestamp) and values.dtype.kind in "iu":
            values = values.astype(np.int64).view(f"M8[{plain.unit}]")
        return _moments(plain, values)

    return ArrayColumn(
        kind, array.shape[0], array.row_nbytes, array.chunk[0] if array.chunk else 1, read
    )


def _moments(kind: SampleType, values: np.ndarray) -> Any:
    """Return moments of a type with a zone as Python's, which say theirs."""
    if not isinstance(kind, Timestamp) or kind.tz is None:
        return values
    column = UniformColumn(values.astype(f"M8[{kind.unit}]").view(np.int64))
    return [kind.present_one(column, at) for at in range(len(values))]


def _ends(opened: OpenArrays, name: str, ends: Int64Array, total: int) -> Int64Array:
    """Check where each row begins and ends in the values."""
    is_whole = bool(len(ends)) and ends[0] == 0 and ends[-1] == total
    if not is_whole or bool((np.diff(ends) < 0).any()):
        why = f"has offsets or shapes that do not divide its {total:,} values\nexport it again"
        raise _wrong(opened, name, why)
    return ends


def _ragged(
    opened: OpenArrays, name: str, parts: Mapping[str, StoredArray]
) -> tuple[Int64Array, Callable[[int, int], Any]]:
    values, stored = parts["values"], parts["shapes"]
    if stored.dtype.kind not in "iu" or len(stored.shape) != 2 or len(values.shape) != 1:  # noqa: PLR2004 - rows × axes
        raise _wrong(opened, name, "has 'shapes' that are not integers of (rows, axes)")
    shapes = stored.read(0, stored.shape[0]).astype(np.int64)
    if bool((shapes < 0).any()):
        raise _wrong(opened, name, "has a negative length in 'shapes'")
    lengths = np.prod(shapes.astype(np.float64), axis=1)
    if float(lengths.sum()) != values.shape[0]:
        raise _wrong(opened, name, f"has shapes that do not divide its {values.shape[0]:,} values")
    ends = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])

    def read(start: int, stop: int) -> Any:
        flat = values.read(int(ends[start]), int(ends[stop]))
        return Ragged(RaggedColumn(flat, shapes[start:stop]))

    return _ends(opened, name, ends, values.shape[0]), read


def _encoded(
    opened: OpenArrays, name: str, kind: SampleType, parts: Mapping[str, StoredArray]
) -> tuple[Int64Array, Callable[[int, int], Any]]:
    values, stored = parts["values"], parts["offsets"]
    if stored.dtype.kind not in "iu" or len(stored.shape) != 1 or values.dtype != np.uint8:
        raise _wrong(
            opened, name, "has 'offsets' or 'values' of another dtype than int64 and uint8"
        )
    ends = stored.read(0, stored.shape[0]).astype(np.int64)
    ends = _ends(opened, name, ends, values.shape[0])

    def read(start: int, stop: int) -> list[Any]:
        content = values.read(int(ends[start]), int(ends[stop])).tobytes()
        cuts = (ends[start : stop + 1] - ends[start]).tolist()
        made: list[Any] = []
        for row, (low, high) in enumerate(pairwise(cuts), start=start):
            try:
                made.append(_sample(kind, content[low:high]))
            except (ValueError, TypeError, RecursionError) as error:
                raise _wrong(opened, name, f"cannot be read at row {row}: {error}") from error
        return made

    return ends, read


def _sample(kind: SampleType, sample: bytes) -> Any:
    """Return a value as ``extend`` takes it; an empty sample may be that of a NULL.

    Files within lists stay as they are stored, too.
    """
    if isinstance(kind, Bytes):
        return sample
    if isinstance(kind, Json | Tags):
        return json.loads(sample) if sample else None
    if isinstance(kind, Text | Uuid):
        return kind.present_sample(sample) if sample or isinstance(kind, Text) else None
    if not sample:
        return None
    if isinstance(kind, InstanceMask):
        return kind.stored_runs(sample)
    if isinstance(kind, SequenceType) and kind.item.is_media:
        items = kind.items_of(sample)
        if isinstance(items, EncodedColumn):
            return [_sample(kind.item, bytes(one)) for one in items.samples]
    return given_sample(kind, sample) if kind.is_media else kind.present_sample(sample)


def _with_nulls(
    opened: OpenArrays, name: str, column: ArrayColumn, stored: StoredArray | None
) -> ArrayColumn:
    """Return the column with NULL where ``valid`` is false."""
    if stored is None:
        return column
    if stored.dtype != np.bool_ or stored.shape != (column.rows,):
        raise _wrong(opened, name, f"has 'valid' that is not {column.rows:,} booleans")

    def read(start: int, stop: int) -> Any:
        values, valid = column.read(start, stop), stored.read(start, stop)
        if bool(valid.all()):
            return values
        return [one if own else None for one, own in zip(values, valid.tolist(), strict=True)]

    return ArrayColumn(column.kind, column.rows, column.row_nbytes, column.chunk_rows, read)
