"""``tl.infer_schema``: the types that values as they are would be stored as.

    numbers, bools            Scalar, Bool              str            Text
    arrays, lists of numbers  Array; None along an axis on which samples differ
    bytes, PathLike           Image of the codec they begin with (or the name ends in), else Bytes
    PIL images                Image("png")              dict           Json
    lists of str              Sequence(Text())          uuid.UUID      Uuid
    datetime, datetime64      Timestamp of its unit and zone

None among values makes a tensor nullable. Arrow tables and DataFrames go by their columns' types,
as ``tl.ingest.arrow`` does, and a Dataset or View has a schema already. The result is a plain dict:
check it, correct wrong guesses, and pass it to ``tl.create``.
"""

from __future__ import annotations

import datetime as dt
import os
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath
from typing import Any, cast

import numpy as np

from tensorlake.dataset.core.rowset import has_rows, rowset_of
from tensorlake.dataset.write.arrow.tables import as_table
from tensorlake.dataset.write.arrow.types import infer_types
from tensorlake.dataset.write.file_names import IMAGE_ENDINGS, codec_of_files, common_codec
from tensorlake.errors import InvalidInputError, SchemaError, shown
from tensorlake.types import (
    Array,
    Bool,
    Bytes,
    Image,
    Json,
    Ragged,
    SampleType,
    Scalar,
    Text,
    Timestamp,
    Uuid,
    codec_of,
    to_array,
)
from tensorlake.types import Sequence as SequenceType

__all__ = [
    "image_type",
    "infer_schema",
    "is_float",
    "type_of_column",
]

PIL_MODES = {"RGB": None, "L": "L", "RGBA": "RGBA"}
NUMBER_KINDS = "biuf"
_PLAIN_NUMBERS = {bool, int, float}
_INT64 = np.iinfo(np.int64)


def infer_schema(data: Any) -> dict[str, SampleType]:
    """Choose a type for each column of what ``ds.extend`` takes.

    Args:
        data: Columns, a list of rows, an Arrow table, a DataFrame, a Dataset or View. All values
            are looked at; an iterator is not taken, for what is read from it would be lost.

    Returns:
        A schema for ``tl.create``, by tensor name, in the order of the columns.

    Raises:
        InvalidInputError: It is none of these, or has no rows to infer a type from.
        SchemaError: The values of a column are of no one type.

    Example:
        >>> import tensorlake as tl
        >>> rows = [{"name": "a", "xy": [1.5, 2]}, {"name": None, "xy": [0.5, 1]}]
        >>> schema = tl.infer_schema(rows)
        >>> schema["name"] == tl.Text(nullable=True), schema["xy"] == tl.Array("float64", (2,))
        (True, True)
        >>> ds = tl.create("memory://doc-infer-schema", schema)
        >>> ds.extend(rows)
        >>> ds.discard()
    """
    if has_rows(data):
        return rowset_of(data).copied_schema
    if hasattr(data, "__arrow_c_stream__"):
        return _of_table(data)
    columns = data if isinstance(data, Mapping) else _transposed(data)
    return {str(name): type_of_column(str(name), values) for name, values in columns.items()}


def _of_table(data: Any) -> dict[str, SampleType]:
    return infer_types(as_table(data))


def _transposed(data: Any) -> dict[str, list[Any]]:
    rows = data if isinstance(data, Sequence) and not isinstance(data, str | bytes) else None
    if rows is None or not rows or not all(isinstance(row, Mapping) for row in rows):
        given = "no rows" if rows is not None and not rows else type(data).__name__
        raise InvalidInputError(
            f"a schema follows from columns or rows, got {given}"
            '\ngive {"name": [value, …], …}, a list of rows {"name": value, …}, an Arrow table,'
            " a DataFrame, or a View",
            actual=type(data).__name__,
        )
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def type_of_column(name: str, values: Any) -> SampleType:
    """Choose the type of one column, as `infer_schema`.

    Raises:
        SchemaError: Its values are of no one type.
    """
    if isinstance(values, Ragged):
        inner = values.inner or (None,) * (values.shapes.shape[1] - 1)
        return Array(values.dtype, (None, *inner))
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return _of_array(name, values.dtype, values.shape[1:])
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInputError(
            f"column {name!r} is a {type(values).__name__}, not a sequence of samples"
            "\ngive one value for each row",
            tensor=name,
        )
    try:
        every = list(cast("Iterable[Any]", values))
    except (TypeError, RuntimeError, NotImplementedError) as error:  # an array without axes
        raise InvalidInputError(
            f"column {name!r} is a {type(values).__name__} without rows: {error}"
            "\ngive one value for each row",
            tensor=name,
        ) from error
    samples = [one for one in every if one is not None]
    if not samples:
        raise SchemaError(
            f"{name!r} has no value to infer its type from\ngive its type: tl.create(url, {{…}})",
            tensor=name,
        )
    found = _of_samples(name, samples)
    return replace(found, nullable=True) if len(samples) < len(every) else found


def _of_samples(name: str, samples: Sequence[Any]) -> SampleType:
    kinds = set(map(type, samples))
    if kinds <= _PLAIN_NUMBERS:
        return _of_array(name, _dtype_of_numbers(name, samples, kinds), ())
    if kinds == {list}:
        items = list(chain.from_iterable(cast("Sequence[list[Any]]", samples)))
        kinds = set(map(type, items))
        if items and kinds <= _PLAIN_NUMBERS:
            lengths = set(map(len, samples))
            shape = (lengths.pop() if len(lengths) == 1 else None,)
            return _of_array(name, _dtype_of_numbers(name, items, kinds), shape)
    if all(isinstance(one, str) for one in samples):
        return Text()
    if all(isinstance(one, Mapping) for one in samples):
        return Json()
    if all(isinstance(one, bytes | bytearray | memoryview) for one in samples):
        codec = common_codec({codec_of(one) for one in samples})
        return Bytes() if codec is None else Image(codec)
    if all(isinstance(one, os.PathLike) for one in samples):
        return _of_paths(name, [os.fspath(one) for one in samples])
    if hasattr(samples[0], "getbands"):
        return image_type(name, samples[0])
    if all(isinstance(one, uuid.UUID) for one in samples):
        return Uuid()
    if all(isinstance(one, dt.datetime) for one in samples):
        return _of_datetimes(name, samples)
    if all(isinstance(one, list | tuple) for one in samples):
        items = [item for one in samples for item in one]
        if items and all(isinstance(item, str) for item in items):
            return SequenceType(Text())
        if any(isinstance(item, Mapping) for item in items):
            return Json()
    return _of_numbers(name, samples)


def _of_paths(name: str, paths: Sequence[str]) -> SampleType:
    codecs = {path: IMAGE_ENDINGS.get(PurePath(path).suffix.lower()) for path in paths}
    unknown = next((path for path, codec in codecs.items() if codec is None), None)
    if unknown is not None:
        raise SchemaError(
            f"{name!r} has paths to files of an unknown format, such as {shown(unknown)}"
            f"\nspecify the type: tl.create(url, {{{name!r}: …}})",
            tensor=name,
        )
    return Image(codec_of_files(paths))


def image_type(name: str, image: Any) -> Image:
    """Return the type of a PIL image: stored without loss, in the mode it has.

    Raises:
        InvalidInputError: Images of its mode cannot be stored.
    """
    if image.mode not in PIL_MODES:
        message = f"{name!r} has an image of mode {image.mode!r}; specify the type: schema="
        raise InvalidInputError(message, tensor=name, actual=image.mode)
    return Image("png", cast("Any", PIL_MODES[image.mode]))


def _of_datetimes(name: str, moments: Sequence[dt.datetime]) -> SampleType:
    aware = {one.tzinfo is not None for one in moments}
    if len(aware) > 1:
        message = f"{name!r} has times with a zone and times without\ngive them all a zone, or none"
        raise SchemaError(message, tensor=name)
    return Timestamp(tz="UTC") if aware == {True} else Timestamp()


def _dtype_of_numbers(name: str, numbers: Sequence[Any], kinds: Collection[type]) -> np.dtype:
    """Return the dtype that holds Python's numbers, each exactly."""
    if bool in kinds:
        if len(kinds) > 1:
            raise _of_no_one_type(name, next(one for one in numbers if type(one) is not bool))
        return np.dtype(np.bool_)
    integers = numbers if float not in kinds else [one for one in numbers if type(one) is int]
    low, high = min(integers, default=0), max(integers, default=0)
    if float in kinds:
        rounded = next((one for one in integers if not is_float(one)), None)
        if rounded is not None:
            raise SchemaError(
                f"{name!r} has integers that float64 would round, such as {rounded}"
                f"\nspecify the type: tl.Json() stores each unchanged",
                tensor=name,
                actual=rounded,
            )
        return np.dtype(np.float64)
    if low >= _INT64.min and high <= _INT64.max:
        return np.dtype(np.int64)
    if low >= 0 and high <= np.iinfo(np.uint64).max:
        return np.dtype(np.uint64)
    wide = low if low < _INT64.min else high
    raise SchemaError(
        f"{name!r} has integers beyond int64 and uint64, such as {wide}"
        f"\nspecify the type: tl.Json() stores each unchanged",
        tensor=name,
        actual=wide,
    )


def is_float(integer: int) -> bool:
    """Whether float64 has an integer exactly."""
    try:
        return int(float(integer)) == integer
    except OverflowError:
        return False


def _of_numbers(name: str, samples: Sequence[Any]) -> SampleType:
    """Numbers and arrays: one dtype for all, and a length where all agree."""
    arrays = [_as_array(name, one) for one in samples]
    depths = {array.ndim for array in arrays if array.size or array.ndim != 1}
    if 0 in depths:  # beside a number [] is no list of any depth, but one of numbers
        depths = {array.ndim for array in arrays}
    if len(depths) > 1:
        described = ", ".join(map(str, sorted(depths)))
        message = (
            f"{name!r} has values of {described} axes\nbring them to one,"
            " or give its type: tl.Json()"
        )
        raise SchemaError(message, tensor=name)
    axes = depths.pop() if depths else 1
    shapes = [array.shape for array in arrays if array.ndim == axes]
    dtypes = {array.dtype for array in arrays if array.size} or {arrays[0].dtype}
    dtype = np.result_type(*dtypes)
    if any((one.kind == "b") is not (dtype.kind == "b") for one in dtypes):
        raise _of_no_one_type(name, next(one for one in samples if _as_array(name, one).size))
    if dtype.kind == "f" and any(one.kind in "iu" for one in dtypes):
        whole = [one for array in arrays if array.dtype.kind in "iu" for one in array.flat]
        _dtype_of_numbers(name, [0.5, *map(int, whole)], {int, float})
    has_empty = len(shapes) < len(arrays)  # [] among lists of lists says only that axis 0 varies
    shape = [
        lengths[0] if len(set(lengths)) == 1 and not (at == 0 and has_empty) else None
        for at, lengths in enumerate(zip(*shapes, strict=True))
    ]
    return _of_array(name, dtype, shape)


def _as_array(name: str, value: Any) -> np.ndarray:
    try:
        array = to_array(value) if hasattr(value, "detach") else _plain_array(value)
    except ValueError as error:  # lists of different lengths inside one sample
        is_nested = isinstance(value, list | tuple)
        problem = "whose parts differ in length" if is_nested else f"that has no array: {error}"
        message = f"{name!r} has a value {problem}\ngive its type: tl.Json()"
        raise SchemaError(message, tensor=name) from error
    is_mixed = array.dtype.kind == "U" and not isinstance(value, np.ndarray | np.str_)
    if array.dtype.kind == "O" or is_mixed:
        raise _of_no_one_type(name, value)
    return array


def _plain_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except (TypeError, RuntimeError, NotImplementedError):  # lists of another library's arrays
        return to_array(value)


def _of_no_one_type(name: str, value: Any) -> SchemaError:
    return SchemaError(
        f"{name!r} has values of no one type, such as {shown(value)} ({type(value).__name__})"
        f"\ngive its type: tl.create(url, {{{name!r}: …}})",
        tensor=name,
        actual=type(value).__name__,
    )


def _of_array(name: str, dtype: np.dtype, shape: Sequence[int | None]) -> SampleType:
    if dtype.kind == "M" and not shape:
        unit = np.datetime_data(dtype)[0]
        return Timestamp(cast("Any", unit if unit in ("s", "ms", "us", "ns") else "s"))
    if dtype.kind in "UT" and not shape:
        return Text()
    if dtype.kind == "b" and not shape:
        return Bool()
    if dtype.kind in NUMBER_KINDS or dtype.name == "bfloat16":
        return Array(dtype, tuple(shape)) if shape else Scalar(dtype)
    raise SchemaError(
        f"{name!r} has elements of {dtype}, which no type of tensors holds"
        f"\nconvert it, or give its type: tl.create(url, {{{name!r}: …}})",
        tensor=name,
        actual=str(dtype),
    )
