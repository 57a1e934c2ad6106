"""CSV records as Arrow tables, with typed columns; and the records that cannot be parsed.

A column is read as numbers or booleans, or as strings that its tensor's type converts:

    Scalar, Bool               numbers, with the usual NULL words
    Text                       strings; an empty cell without quotes is NULL, unless ``schema``
                               declares the column non-nullable; in quotes it is an empty string
    all others                 strings, where an empty cell without quotes is NULL; classes by name
                               or else by code, and parsed JSON

A blank line is an empty cell if there is one column, and is skipped if there are several.

Invalid records are found by bisection with the parser that rejects the whole block.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.ingest.tables.csv_columns import changed_values, may_change_numbers
from tensorlake.quantities import plural
from tensorlake.storage import public_url
from tensorlake.types import (
    Bool,
    ClassLabel,
    Json,
    SampleType,
    Scalar,
    Text,
    Timestamp,
    widened_dtype,
)

__all__ = ["NULL_WORDS", "CsvReader", "cell_values"]

Arrow = Any  # pyarrow ships no types

NULL_WORDS = ("", "NULL", "null", "NA", "N/A", "n/a", "#N/A", "#NA")
"""NULL in a column of numbers, where the call does not say others. NaN is a number."""
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_INFINITE = re.compile(r"\s*[+-]?inf(inity)?\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\s*[+-]?[0-9.,]+([eE][+-]?[0-9]+)?\s*")
_MARK = b"\xef\xbb\xbf"
_XZ = b"\xfd7zXZ\0"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class _Cells:
    """How a column's cells are read: the Arrow type, None to guess, and the words for NULL."""

    type: Arrow
    nulls: tuple[str, ...] = ()
    words: bool = False  # whether 1 and 0 are truth values too


class CsvReader:
    """Reads records of files that have the same columns.

    Args:
        header: Names of the columns.
        delimiter: Separator of values.
        encoding: Text encoding of the files.
        decimal: Decimal separator.
        nulls: Words that are NULL in every column, if the call specifies them.
        declared: Types of columns.
        inherited: Columns whose type is the existing dataset's, not the call's.
    """

    def __init__(
        self,
        header: Sequence[str],
        *,
        delimiter: str,
        encoding: str,
        decimal: str,
        nulls: Sequence[str] | None,
        declared: Mapping[str, SampleType],
        inherited: Collection[str] = (),
    ) -> None:
        self.header = header
        self._delimiter = delimiter
        self._encoding = encoding
        self._decimal = decimal
        self._nulls = None if nulls is None else tuple(nulls)
        self._declared = declared
        self._inherited = inherited
        self._guessed: dict[str, Arrow] = {}

    @property
    def keeps_empty_lines(self) -> bool:
        """Whether a blank line is a record: an empty value of the only column."""
        return len(self.header) == 1

    def settle(self, guessed: Mapping[str, Arrow]) -> None:
        """Take the types of columns that the call does not say."""
        self._guessed = dict(guessed)

    def table(self, records: bytes, path: str) -> Arrow:
        """Read records, and reject values that their column's type would change.

        Raises:
            InvalidInputError: A value is invalid; for a single record, names the column.
        """
        import pyarrow as pa

        cells = {name: self._cells(name) for name in self.header}
        groups: dict[tuple[tuple[str, ...], bool], list[str]] = {}
        for name, one in cells.items():
            groups.setdefault((one.nulls, one.words), []).append(name)
        columns: dict[str, Arrow] = {}
        for names in groups.values():
            part = self._read(records, path, names, {name: cells[name] for name in names})
            columns.update(zip(names, part.columns, strict=True))
        table = pa.table({name: columns[name] for name in self.header})
        self._check_numbers(table, records, path)
        return table

    def text(self, records: bytes, path: str) -> Arrow:
        """Read records as what is written in them."""
        import pyarrow as pa

        return self._read(
            records, path, self.header, dict.fromkeys(self.header, _Cells(pa.string()))
        )

    def refused(
        self, records: Sequence[bytes], path: str
    ) -> Iterator[tuple[int, InvalidInputError]]:
        """Yield the place of each record that cannot be read, and why."""
        reasons: dict[int, tuple[str, str | None]] = {
            place: (reason, None) for place, reason in self._uneven(records, path).items()
        }
        places = [place for place in range(len(records)) if place not in reasons]
        with suppress(InvalidInputError):  # of another encoding: found by halving
            text = self.text(b"".join(records[place] for place in places), path)
            for name in self.header:
                wrong = self._wrong_values(name, text[name], path)
                for row, value in enumerate(text[name].to_pylist() if wrong else ()):
                    if value in wrong:
                        reasons.setdefault(places[row], (wrong[value], name))
        left = [place for place in places if place not in reasons]
        for row, reason in self._halved([records[place] for place in left], path):
            reasons[left[row]] = (reason, None)
        for place, (reason, column) in sorted(reasons.items()):
            yield place, InvalidInputError(reason, src=path, column=column)

    def _halved(
        self, records: Sequence[bytes], path: str, start: int = 0
    ) -> Iterator[tuple[int, str]]:
        """Find records by halving: those that cannot be read for any other reason."""
        try:
            self.table(b"".join(records), path)
        except InvalidInputError as error:
            if len(records) == 1:
                yield start, error.message
                return
            middle = len(records) // 2
            yield from self._halved(records[:middle], path, start)
            yield from self._halved(records[middle:], path, start + middle)

    def _uneven(self, records: Sequence[bytes], path: str) -> dict[int, str]:
        """Find records with another number of values than there are columns."""
        import pyarrow as pa

        found: dict[int, str] = {}

        def leave_out(line: Any) -> str:  # Any: pyarrow's InvalidRow
            found[line.number - 1] = _values_for_columns(line)
            return "skip"

        cells = dict.fromkeys(self.header, _Cells(pa.binary()))
        with suppress(InvalidInputError):
            self._read(b"".join(records), path, self.header, cells, leave_out)
        return found

    def _wrong_values(self, name: str, text: Arrow, path: str) -> dict[str, str]:
        """Find the values of a column that its type does not take, or would change."""
        import pyarrow as pa

        cells, kind = self._cells(name), self._declared.get(name)
        if cells.type is None or pa.types.is_string(cells.type):
            return {}
        expected = str(cells.type) if kind is None else kind.describe()
        given = [one for one in text.unique().to_pylist() if one not in cells.nulls]
        given.sort(key=lambda one: _NUMBER.fullmatch(one) is not None)  # together: fewer halves
        alone = CsvReader(
            [name],
            delimiter=self._delimiter,
            encoding="utf-8",
            decimal=self._decimal,
            nulls=self._nulls,
            declared=self._declared,
        )
        alone.settle(self._guessed)
        advice = ""
        if kind is None:
            advice = (
                "\nthe first and last lines had such; for any text:"
                f" schema={{{name!r}: tl.Text()}}, for numbers written 1,5: decimal=','"
            )
        elif name in self._inherited:
            advice = (
                f"\n{name!r} is {kind.describe()} in the dataset; to leave such rows out:"
                f" on_error='skip'; for another type: a new dataset, with schema={{{name!r}: …}}"
            )
        elif any("," in one for one in given):
            advice = "\nof numbers written 1,5: decimal=','"
        return {
            given[at]: reason
            if reason.startswith("column")
            else f"column {name!r}: {given[at]!r:.60} is not a value of {expected}{advice}"
            for at, reason in alone._halved([_quoted(one) for one in given], path)
        }

    def _cells(self, name: str) -> _Cells:
        """Return how to read a column: as the call specifies, otherwise by the inferred type."""
        import pyarrow as pa

        kind = self._declared.get(name)
        words = NULL_WORDS if self._nulls is None else self._nulls
        if isinstance(kind, Bool):
            return _Cells(pa.bool_(), words, words=True)
        if isinstance(kind, Scalar) and widened_dtype(kind.dtype).kind in "iu":
            return _Cells(pa.from_numpy_dtype(kind.dtype), words)
        if isinstance(kind, Scalar) and widened_dtype(kind.dtype).kind == "f":
            return _Cells(pa.float64(), words)  # float32 has no number for 1e39: told when cast
        if kind is not None:
            has_null = not isinstance(kind, Text) or kind.nullable or name in self._inherited
            return self._text_cells(has_null=has_null)
        guessed = self._guessed.get(name)
        if guessed is None or not (pa.types.is_string(guessed) or pa.types.is_null(guessed)):
            return _Cells(guessed, words)
        return self._text_cells(has_null=True)

    def _text_cells(self, *, has_null: bool) -> _Cells:
        import pyarrow as pa

        own = ("",) if has_null else ()
        return _Cells(pa.string(), own if self._nulls is None else self._nulls)

    def _read(
        self,
        records: bytes,
        path: str,
        names: Sequence[str],
        cells: Mapping[str, _Cells],
        leave_out: Callable[[Any], str] | None = None,
    ) -> Arrow:
        import pyarrow as pa
        from pyarrow import csv

        one = next(iter(cells.values()))
        types = {name: cell.type for name, cell in cells.items() if cell.type is not None}
        if not records or (not self.keeps_empty_lines and not records.strip(b"\r\n")):
            return pa.table({name: pa.array([], types.get(name, pa.null())) for name in names})
        if records.startswith(_MARK):
            records = _MARK + records  # the parser takes the first for one that begins a file
        uneven: list[Any] = []

        def refuse(line: Any) -> str:  # Any: pyarrow's InvalidRow
            uneven.append(line)
            return "error"

        try:
            table = csv.read_csv(
                io.BytesIO(records),
                read_options=csv.ReadOptions(
                    column_names=self.header,
                    block_size=1 << 30,
                    encoding=self._encoding,
                    use_threads=leave_out is None,  # only one thread counts records
                ),
                parse_options=csv.ParseOptions(
                    delimiter=self._delimiter,
                    invalid_row_handler=leave_out or refuse,
                    newlines_in_values=True,
                    ignore_empty_lines=not self.keeps_empty_lines,
                ),
                convert_options=csv.ConvertOptions(
                    include_columns=names,
                    column_types=types,
                    null_values=one.nulls,
                    strings_can_be_null=self._nulls is not None or one.nulls == ("",),
                    quoted_strings_can_be_null=False,
                    decimal_point=self._decimal,
                    true_values=[*_TRUE, *(["1"] if one.words else [])],
                    false_values=[*_FALSE, *(["0"] if one.words else [])],
                ),
            )
        except UnicodeDecodeError as error:
            bad = error.object[error.start :]
            raise of_another_encoding(path, self._encoding, bad) from error
        except pa.ArrowInvalid as error:
            if "UTF8" in str(error):  # in a column that the schema says is text
                raise of_another_encoding(path, self._encoding, records) from error
            told = _values_for_columns(uneven[0]) if uneven else str(error)
            raise InvalidInputError(told, src=path) from error
        for name in names:  # what is not text it would take for bytes
            if name not in types and pa.types.is_binary(table[name].type):
                raise of_another_encoding(path, self._encoding, records)
        return table

    def _check_numbers(self, table: Arrow, records: bytes, path: str) -> None:
        """Reject numbers that would lose information: codes, long integers, beyond float64."""
        import pyarrow as pa
        import pyarrow.compute

        pc: Arrow = pyarrow.compute
        floats = [one.name for one in table.schema if pa.types.is_floating(one.type)]
        infinite = [name for name in floats if pc.any(pc.is_inf(table[name])).as_py()]
        numbers = [
            one
            for one in table.schema
            if (one.name in self._guessed or one.name in self._inherited)
            and (pa.types.is_integer(one.type) or one.name in floats)
        ]
        is_suspect = bool(numbers) and may_change_numbers(records, self._delimiter)
        if not infinite and not is_suspect:
            return
        text = self.text(records, path)
        wrong: dict[str, str] = {}
        for name in infinite:
            cells = text[name].filter(pc.is_inf(table[name])).to_pylist()
            told = f"which is beyond float64\nto keep the text: schema={{{name!r}: tl.Text()}}"
            wide = (one for one in cells if _INFINITE.fullmatch(one) is None)
            wrong |= {one: f"column {name!r} has {one!r:.60}, {told}" for one in wide}
        for one in numbers if is_suspect else ():
            wrong |= changed_values(one.name, one.type, text[one.name])
        for value, reason in wrong.items():
            raise InvalidInputError(reason, actual=value)


def cell_values(column: Arrow, name: str, kind: SampleType) -> tuple[Any, Mapping[int, str]]:
    """Return a column of text as values of its tensor's type, and why some rows have none."""
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return None, {}
    if isinstance(kind, Timestamp):
        return _times(column, kind), {}
    if isinstance(kind, ClassLabel) and not kind.is_many:
        known = set(kind.names)
        codes = {
            cell: int(cell) if cell not in known and re.fullmatch(r"\d{1,9}", cell) else cell
            for cell in column.drop_null().unique().to_pylist()
        }
        return [None if cell is None else codes[cell] for cell in column.to_pylist()], {}
    if isinstance(kind, Json):
        return _parsed(column.to_pylist(), name)
    return None, {}


def _times(column: Arrow, kind: Timestamp) -> Any:
    """Times by Arrow's parser, all at once, where it takes them all."""
    import pyarrow as pa

    try:
        moments = column.cast(pa.timestamp(kind.unit, kind.tz))
    except pa.ArrowInvalid:
        return column.to_pylist()
    is_plain = moments.null_count == 0
    return np.asarray(moments.to_numpy()) if is_plain else column.to_pylist()


def _parsed(cells: Sequence[str | None], name: str) -> tuple[list[Any], Mapping[int, str]]:
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for row, cell in enumerate(cells):
        try:
            values.append(None if cell is None else json.loads(cell))
        except ValueError as error:
            values.append(None)
            reasons[row] = f"column {name!r}: {cell!r:.60} is not JSON: {error}"
    return values, reasons


def _values_for_columns(line: Any) -> str:
    values, columns = plural(line.actual_columns, "value"), plural(line.expected_columns, "column")
    return f"{values} for {columns}: {line.text!r:.80}"


def _quoted(value: str) -> bytes:
    doubled = value.replace('"', '""')
    return f'"{doubled}"\n'.encode()


def of_another_encoding(path: str, encoding: str, text: bytes) -> InvalidInputError:
    """Return the error of text that is not of its encoding, showing the first such bytes."""
    try:
        text.decode(encoding)
    except UnicodeDecodeError as error:
        text = text[error.start :]
    shown = public_url(path)
    if text.startswith(_XZ):
        message = f"{shown!r} is compressed with xz\ndecompress it, or use gzip, zstd or bzip2"
        return InvalidInputError(message, src=shown)
    if text.startswith(_UTF16):
        return InvalidInputError(f"{shown!r} is UTF-16\nwrite it as UTF-8 first", src=shown)
    return InvalidInputError(
        f"{shown!r} is not {encoding} from the bytes {text[:8]!r} on"
        "\nsay how it is written, such as encoding='latin-1' or 'cp1252'",
        src=shown,
        encoding=encoding,
    )
