"""Tables as text: CSV, and JSON lines, a batch of rows at a time.

    CSV          numbers, true and false, class names, text, ISO times; NULL is an empty
                 cell, or a blank line if there is one column; strings are quoted, so that an empty
                 string differs from NULL. Cells are flat: arrays and lists are not supported.
    JSON lines   an object a row; arrays and lists are lists, NULL is null. JSON has no NaN.

Neither supports images and bytes. A file whose name ends in .gz, .zst, .bz2 or .lz4 is
compressed so. ``tl.ingest.csv`` and ``tl.ingest.jsonl`` read what is written here.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.dataset.export.arrow.stream import (
    arrow_schema,
    check_columns,
    check_lists,
    record_batches,
)
from tensorlake.dataset.export.destinations import new_file
from tensorlake.dataset.write.file_names import COMPRESSED
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.storage import place_text
from tensorlake.types import Sequence as SequenceType

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.types import SampleType

__all__ = ["to_csv", "to_jsonl"]

Arrow = Any  # pyarrow ships no types

_PER_MINUTE = {"s": 60, "ms": 60 * 10**3, "us": 60 * 10**6, "ns": 60 * 10**9}
_FIRST, _END = np.datetime64("0001-01-02"), np.datetime64("9999-12-31")
"""The times whose texts every reader takes, in any zone: ISO 8601 has four digits for a year."""


def to_csv(
    rows: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    delimiter: str,
    overwrite: bool,
) -> None:
    """Write rows into a CSV file whose first line names the columns."""
    import pyarrow as pa
    from pyarrow import csv

    is_one = isinstance(delimiter, str) and len(delimiter) == 1  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
    if not is_one or not delimiter.isascii() or delimiter in '"\r\n':
        message = (
            f"delimiter={shown(delimiter)}: give one ASCII character, neither quote nor line break"
        )
        raise InvalidInputError(message, actual=delimiter)
    view, names = _columns(rows, columns, call="to_csv()")
    fields = arrow_schema(view, names)
    for field in fields:
        if not _is_flat(field.type):
            raise UnsupportedFeatureError(
                f"CSV does not support {field.name!r}, which is {_described(view, field)}"
                "\nleave it out of the columns, or export JSON lines or Parquet, which have lists",
                tensor=field.name,
            )
    schema = pa.schema([pa.field(one.name, _flat_type(one.type)) for one in fields])
    options = csv.WriteOptions(delimiter=delimiter)
    with (
        _new_text(dst, overwrite=overwrite) as file,
        csv.CSVWriter(file, schema, write_options=options) as writer,
    ):
        for batch in record_batches(view, names):
            flat = [_flat(*one) for one in zip(names, batch.columns, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(flat, schema=schema))


def to_jsonl(
    rows: RowSet, dst: str | PathLike[str], *, columns: Sequence[str] | None, overwrite: bool
) -> None:
    """Write rows into a file of JSON lines."""
    view, names = _columns(rows, columns, call="to_jsonl()")
    check_lists(view, names)
    with _new_text(dst, overwrite=overwrite) as file:
        row = 0
        for batch in record_batches(view, names):
            values = [
                _json_values(view, name, column)
                for name, column in zip(names, batch.columns, strict=True)
            ]
            lines: list[str] = []
            for one in zip(*values, strict=True):
                lines.append(_line(dict(zip(names, one, strict=True)), row))
                row += 1
            file.write("".join(lines).encode())


def _columns(
    view: RowSet, columns: Sequence[str] | None, *, call: str
) -> tuple[RowSet, tuple[str, ...]]:
    """Freeze the rows, and refuse columns whose samples are bytes."""
    import pyarrow as pa

    names = check_columns(view, columns)
    if not names:
        raise InvalidInputError(f"{call} has no columns to write")
    for field in arrow_schema(view, names):
        kind = field.type
        while pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_binary(kind):
            raise UnsupportedFeatureError(
                f"text does not support {field.name!r}, which is {_described(view, field)}"
                "\nleave it out: columns=[…]; to_parquet(dst) and to_webdataset(dst) have bytes",
                tensor=field.name,
            )
    return view, names


MAGIC = {
    "gzip": b"\x1f\x8b",
    "zstd": b"\x28\xb5\x2f\xfd",
    "bz2": b"BZh",
    "lz4": b"\x04\x22\x4d\x18",
}
"""How compressed files begin."""


@contextmanager
def _new_text(dst: str | PathLike[str], *, overwrite: bool) -> Generator[Arrow]:
    import pyarrow as pa

    codec = COMPRESSED.get(Path(place_text(dst, what="dst")).suffix)
    with (
        new_file(dst, begins=MAGIC.get(codec or ""), overwrite=overwrite) as path,
        pa.output_stream(str(path), compression=codec) as file,
    ):
        yield file


def _described(view: RowSet, field: Arrow) -> str:
    known = view.schema.get(field.name)
    return str(field.type) if known is None else known.describe()


def _is_flat(kind: Arrow) -> bool:
    import pyarrow as pa

    is_nested = pa.types.is_nested(kind) and not pa.types.is_dictionary(kind)
    return not is_nested and not isinstance(kind, pa.ExtensionType | pa.FixedShapeTensorType)


def _flat_type(kind: Arrow) -> Arrow:
    """The type that a cell of CSV is written from."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_timestamp(kind):
        return pa.string()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _flat(name: str, column: Arrow) -> Arrow:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return _iso_times(name, column)
    return column.cast(_flat_type(column.type))


def _iso_times(name: str, column: Arrow) -> Arrow:
    """Times as ISO 8601 has them, with as many digits as their unit.

    Raises:
        InvalidInputError: One is of a year that has not four digits.
    """
    import pyarrow as pa
    from pyarrow import compute

    functions: Arrow = compute  # made when it is imported, which pyright cannot see
    given = column.drop_null()
    if len(given) and column.type.unit != "ns":  # whose 64 bits end in 2262
        counts = np.asarray(given.cast(pa.int64())).view(f"datetime64[{column.type.unit}]")
        for moment in (counts.min(), counts.max()):
            if not _FIRST <= moment < _END:
                raise InvalidInputError(
                    f"{name!r} has {moment}, and texts of times have years of four digits"
                    "\nleave the tensor out: columns=[…], or write to_parquet(dst)",
                    tensor=name,
                )
    texts = column.cast(pa.string())
    if column.type.tz is not None:
        counts = column.cast(pa.int64())
        offsets = functions.subtract(functions.local_timestamp(column).cast(pa.int64()), counts)
        minute = _PER_MINUTE[column.type.unit]
        whole = functions.multiply(functions.divide(offsets, minute), minute)
        in_utc = column.cast(pa.timestamp(column.type.unit, "UTC")).cast(pa.string())
        # Local times before there were zones are so many seconds off, which the text leaves out
        texts = functions.if_else(functions.equal(whole, offsets), texts, in_utc)
    return functions.replace_substring(texts, " ", "T")


def _values(name: str, known: SampleType | None, column: Arrow, *, is_json: bool) -> list[Any]:
    """Values of a column as Python's JSON writer takes them."""
    import pyarrow as pa
    from pyarrow import compute

    kind, functions = column.type, cast("Arrow", compute)
    if is_json and pa.types.is_string(kind):
        return [None if one is None else json.loads(one) for one in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        return _iso_times(name, column).to_pylist()
    if isinstance(kind, pa.FixedShapeTensorType):
        shape = tuple(kind.shape)
        return [
            None if one is None else np.reshape(one, shape).tolist()
            for one in column.storage.to_pylist()
        ]
    if isinstance(known, SequenceType) and pa.types.is_list(kind):
        flat, item = functions.list_flatten(column), known.item
        items = iter(_values(name, item, flat, is_json=item.query_kind == "json"))
        lengths = functions.list_value_length(column).to_pylist()
        return [None if one is None else list(islice(items, one)) for one in lengths]
    return column.to_pylist()


def _json_values(view: RowSet, name: str, column: Arrow) -> list[Any]:
    known = view.schema.get(name)
    is_json = known is not None and known.query_kind == "json"
    if name in view.computed:
        is_json = view.computed[name].type.kind == "json"
    return _values(name, known, column, is_json=is_json)


def _line(values: dict[str, Any], row: int) -> str:
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        name = next(name for name, value in values.items() if not _fits_json(value))
        raise InvalidInputError(
            f"row {row} of {name!r} holds a number that JSON does not support (NaN or infinity)"
            f"\nleave the tensor out: columns=[…], or write to_parquet(dst)",
            tensor=name,
            row=row,
        ) from error


def _fits_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
