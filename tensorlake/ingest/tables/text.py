"""Ingestion of CSV.

Files are read in runs of whole records, in parallel; a compressed file is one run. Types are
inferred from the first and the last lines of all files: another run may contain only integers in a
column of floats. An invalid record is rejected alone, by line and column.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from os import PathLike
from pathlib import PurePath
from typing import Any, Unpack, cast

from tensorlake.dataset import Dataset, SkippedItem, values_of
from tensorlake.errors import InvalidInputError, shown
from tensorlake.ingest.engine.found_files import Piece, find_files
from tensorlake.ingest.engine.options import IngestOptions, shows_options, types_there
from tensorlake.ingest.engine.source import LoadedRows, Refused, given_settings, no_rows, part_of
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables.arrow import (
    check_pieces,
    column_types,
    ingest_pieces,
)
from tensorlake.ingest.tables.csv import CsvReader, cell_values, of_another_encoding
from tensorlake.ingest.tables.csv_columns import type_of_text
from tensorlake.ingest.tables.csv_records import cut_records, first_record, records_of
from tensorlake.ingest.tables.line_files import LineNumbers, cut_piece, read_lines
from tensorlake.types import SampleType, as_type

__all__ = ["csv"]

Arrow = Any  # pyarrow ships no types

TYPED_BY_ROWS = 100_000
"""The first records, and as many of the last run, that types follow from."""
_OTHER_DELIMITERS = ";\t|"


@shows_options
def csv(
    src: str | PathLike[str] | Sequence[str | PathLike[str]],
    dst: str | PathLike[str],
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
    nulls: Sequence[str] | None = None,
    decimal: str = ".",
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    r"""Ingest CSV files whose first line names the columns (RFC 4180).

    Quoted values may contain line breaks. Columns of numbers and booleans are inferred; all others
    are strings, times included: use ``schema`` for a ``Timestamp``, ``ClassLabel`` or ``Json``.
    Numbers written like codes (007, +4930, 0x1A) stay strings too; other values that a number
    would change (integers beyond int64, commas in numbers, 1e400) raise an error. A record with a
    different number of values, or one that does not match the types, raises an error with its line
    and column; ``on_error`` can leave out that record alone. An empty value without quotes is
    NULL; ``""`` is an empty string. A blank line is an empty value if the file has one column, and
    is skipped if it has several.

    Args:
        src: A file, a folder, a pattern such as ``"data/*.csv.gz"``, or a list of files.
        dst: Path or URL of the dataset.
        delimiter: Separator of values.
        encoding: Text encoding, such as "latin-1" or "cp1252".
        names: Column names, for files without a header.
        nulls: Unquoted words that are NULL, in every column. None: an empty value, and in columns
            of numbers also the usual words (NULL, NA, N/A …). In a column that ``schema`` declares
            as non-nullable text, an empty value is an empty string.
        decimal: Decimal separator: "," for numbers such as 1,5.
        schema: Types by column name; they override the inferred ones.
        key: The column that names a row; None: rows are known by position, so that a later call
            may find more of them at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There is no such file, a line has another number of values, or the text
            is of another encoding.

    Example:
        >>> from pathlib import Path
        >>> import tensorlake as tl
        >>> _ = Path("x.csv").write_text("x,name\n1,one\n2,two\n")
        >>> ds = tl.ingest.csv("x.csv", "memory://doc-csv")
        >>> ds["x"][:], ds["name"][:]
        (array([1, 2]), ['one', 'two'])
    """
    _check_text(delimiter=delimiter, decimal=decimal, encoding=encoding)
    if len(delimiter) != 1:
        message = f"delimiter={shown(delimiter)}: give one character"
        raise InvalidInputError(message, actual=delimiter)
    if len(decimal) != 1 or decimal == delimiter:
        message = f"decimal={shown(decimal)}: give one character, other than the delimiter"
        raise InvalidInputError(message, actual=decimal)
    _check_encoding(encoding)
    files = SourceFiles(options.get("storage_options"))
    paths = find_files(src, ".csv", files)
    is_strict = options.get("on_error", "raise") == "raise"
    left_out: list[SkippedItem] = []
    if names is None:
        paths, header, header_nbytes = _with_header(
            paths, files, delimiter, encoding, None if is_strict else left_out
        )
    else:
        header, header_nbytes = _given_names(names), 0
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    there = types_there(dst, options)
    inherited = {name: there[name] for name in header if name in there and name not in given}
    declared = given | inherited
    reader = CsvReader(
        header,
        delimiter=delimiter,
        encoding=encoding,
        decimal=decimal,
        nulls=nulls,
        declared=declared,
        inherited=inherited,
    )
    table = _Table(reader, files, delimiter, declared, is_strict=is_strict)
    pieces: list[Piece] = []
    for path in paths:
        try:
            pieces += cut_records(
                path, header_nbytes, delimiter, files, None if is_strict else left_out
            )
        except InvalidInputError as error:
            if is_strict or len(paths) == 1:
                raise
            left_out.append(_left_out(path, error))
    check_pieces("csv", pieces, left_out=left_out)
    types = table.types(pieces, left_out)
    load = partial(table.load, types=types)
    settings = given_settings(
        schema,
        delimiter=delimiter,
        encoding=encoding,
        names=names,
        nulls=nulls,
        decimal=decimal,
        key=key,
    )
    return ingest_pieces(
        "csv",
        pieces,
        types,
        load,
        dst,
        options,
        files=files,
        settings=settings,
        left_out=left_out,
        key=key,
        src=src,
        cut=cut_piece,
    )


@dataclass(frozen=True, slots=True)
class _Records:
    """Valid records of a piece with their positions, and the invalid ones.

    Attributes:
        table: The records.
        content: The piece.
        left: Places of the records among all of the piece; None: all.
        refused: Those that could not be read.
    """

    table: Arrow
    content: bytes
    left: list[int] | None
    refused: list[Refused]


class _Table:
    """Reads pieces of the files as tables, and names their records by lines.

    Args:
        reader: Parses records.
        files: Opens the files.
        delimiter: Separator of values.
        declared: Types that the call specifies.
        is_strict: Whether a record that cannot be read is an error.
    """

    def __init__(
        self,
        reader: CsvReader,
        files: SourceFiles,
        delimiter: str,
        declared: Mapping[str, SampleType],
        *,
        is_strict: bool,
    ) -> None:
        self._reader = reader
        self._files = files
        self._delimiter = delimiter
        self._declared = declared
        self._is_strict = is_strict
        self._numbers = LineNumbers(files)

    def types(
        self, pieces: Sequence[Piece], left_out: Sequence[SkippedItem]
    ) -> dict[str, SampleType]:
        """Choose the type of each column: the one declared, else by the first and last lines.

        Raises:
            InvalidInputError: No record is valid, and a column has no declared type.
        """
        import pyarrow as pa

        ends = self._ends(pieces, left_out)
        tables = [read.table.slice(0, TYPED_BY_ROWS) for _, read in ends]
        texts = pa.concat_tables(
            [
                self._reader.text(self._kept(read), piece.path).slice(0, TYPED_BY_ROWS)
                for piece, read in ends
            ]
        )
        guessed = {
            name: type_of_text(name, _united([one[name].type for one in tables]), texts[name])
            for name in self._reader.header
            if name not in self._declared
        }
        self._reader.settle(guessed)
        first = self._read(ends[0][0])
        return column_types(first.table, self._declared, is_whole=len(pieces) == 1)

    def _ends(
        self, pieces: Sequence[Piece], left_out: Sequence[SkippedItem]
    ) -> list[tuple[Piece, _Records]]:
        """Read the first and the last piece that have valid records."""
        is_declared = self._declared.keys() >= {*self._reader.header}
        refused: list[SkippedItem] = []
        for first in pieces:
            read = self._read(first)
            refused += [one for one, _ in read.refused]
            if read.table.num_rows or is_declared:
                break
        else:
            if refused:
                raise no_rows("csv", [*left_out, *refused])
            return [(pieces[0], self._read(pieces[0]))]
        ends = [(first, read)]
        for last in reversed(pieces):
            if last == first or is_declared:
                break
            read = self._read(last)
            if read.table.num_rows:
                return [*ends, (last, read)]
        return ends

    def load(self, pieces: Sequence[Piece], *, types: Mapping[str, SampleType]) -> LoadedRows:
        """Read pieces as columns of values."""
        import pyarrow as pa

        read = [self._read(piece) for piece in pieces]
        refused = [one for each in read for one in each.refused]
        table = pa.concat_tables([one.table for one in read])

        @cache
        def records_of_part(part: int) -> tuple[list[bytes], list[int]]:
            return self._records(read[part].content)

        def place_of(row: int) -> tuple[Piece, int, bytes]:
            part, row = part_of(row, [one.table.num_rows for one in read])
            records, lines = records_of_part(part)
            left = read[part].left
            place = row if left is None else left[row]
            return pieces[part], lines[place], records[place]

        columns: dict[str, Any] = {}
        reasons: dict[int, InvalidInputError] = {}
        for name, kind in types.items():
            values, wrong = cell_values(table[name], name, kind)
            columns[name] = values_of(table, name, kind) if values is None else values
            reasons |= {row: InvalidInputError(one, column=name) for row, one in wrong.items()}
        if reasons:
            rows = [row for row in range(table.num_rows) if row not in reasons]
            for row, reason in sorted(reasons.items()):
                self._refuse(refused, *place_of(row), reason)
            columns = {name: [values[row] for row in rows] for name, values in columns.items()}
        else:
            rows = range(table.num_rows)

        def row_name(row: int) -> str:
            piece, line, _ = place_of(rows[row])
            return self._numbers.name(piece, line)

        return LoadedRows(columns, refused, row_name)

    def _read(self, piece: Piece) -> _Records:
        """Read a piece, without the records that cannot be, unless they are errors."""
        content = read_lines(piece, self._files)
        try:
            return _Records(self._reader.table(content, piece.path), content, None, [])
        except InvalidInputError as error:
            records, lines = self._records(content)
            refused: list[Refused] = []
            places: set[int] = set()
            for place, reason in self._reader.refused(records, piece.path):
                self._refuse(refused, piece, lines[place], records[place], reason)
                places.add(place)
            if not places:
                raise error  # noqa: TRY201 - of the records together, not of one
        left = [place for place in range(len(records)) if place not in places]
        kept = b"".join(records[place] for place in left)
        return _Records(self._reader.table(kept, piece.path), content, left, refused)

    def _records(self, content: bytes) -> tuple[list[bytes], list[int]]:
        """Cut a piece into records, and say at which of its lines each begins."""
        cut = records_of(content, self._delimiter)
        lines = [0, *accumulate(record.count(b"\n") for record in cut)]
        if not self._reader.keeps_empty_lines:
            full = [at for at, record in enumerate(cut) if record.strip(b"\r\n")]
            cut, lines = [cut[at] for at in full], [lines[at] for at in full]
        return cut, lines

    def _kept(self, read: _Records) -> bytes:
        if read.left is None:
            return read.content
        records, _ = self._records(read.content)
        return b"".join(records[place] for place in read.left)

    def _refuse(
        self,
        refused: list[Refused],
        piece: Piece,
        line: int,
        record: bytes,
        error: InvalidInputError,
    ) -> None:
        """Refuse a record: an error, or one more that is left out."""
        name = self._numbers.name(piece, line)
        if self._is_strict:
            told = f"{name}{', ' if error.message.startswith('column') else ': '}{error.message}"
            raise InvalidInputError(told, **{**error.facts, "item": name})
        try:
            described: str | bytes = record.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            described = record
        column = error.facts.get("column")
        reason = error.message.splitlines()[0]
        refused.append((SkippedItem(name, reason, column), {"line": described}))


def _united(types: Sequence[Arrow]) -> Arrow:
    """The type of a column of the first and the last records: of two kinds it is text."""
    import pyarrow as pa

    schemas = [pa.schema([pa.field("", one)]) for one in types]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        return pa.string()


def _check_text(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            message = f"{name}={shown(value)}: give a string"
            raise InvalidInputError(message, argument=name, actual=value)


def _check_encoding(encoding: str) -> None:
    try:
        is_by_bytes = "\n".encode(encoding) == b"\n"
    except (LookupError, ValueError):  # ValueError: a name that no encoding can have
        is_by_bytes = False
    if not is_by_bytes:
        message = (
            f"encoding={shown(encoding)}: give one whose line breaks are single bytes,"
            " such as 'utf-8', 'latin-1' or 'cp1252'"
        )
        raise InvalidInputError(message, actual=encoding)


def _with_header(
    paths: Sequence[str],
    files: SourceFiles,
    delimiter: str,
    encoding: str,
    left_out: list[SkippedItem] | None,
) -> tuple[list[str], list[str], int]:
    """Return the files, the names in the first line that they share, and that line's length.

    Files whose first line does not name columns are errors, or ``left_out``.
    """
    kept: list[str] = []
    header, names = b"", list[str]()
    for path in paths:
        try:
            line = first_record(path, delimiter, files)
            is_same = bool(kept) and line == header
            own = names if is_same else _names_in(line, path, delimiter, encoding)
        except InvalidInputError as error:
            if left_out is None or len(paths) == 1:
                raise
            left_out.append(_left_out(path, error))
            continue
        if not kept:
            header, names = line, own
        elif not is_same:
            message = (
                f"{path!r} has other columns than {kept[0]!r}"
                "\ningest them apart; where the first lines are values: names=[…]"
            )
            raise InvalidInputError(message, src=path)
        kept.append(path)
    if not kept:
        raise no_rows("csv", left_out or ())
    return kept, names, len(header)


def _left_out(path: str, error: InvalidInputError) -> SkippedItem:
    return SkippedItem(PurePath(path).name, error.message.splitlines()[0])


def _names_in(line: bytes, path: str, delimiter: str, encoding: str) -> list[str]:
    """Return the names of the columns in the first line of a file."""
    import pyarrow as pa
    from pyarrow import csv as reader

    if not line.strip(b"\xef\xbb\xbf\r\n"):
        raise InvalidInputError(
            f"{path!r} names no columns: it is empty, or its first line is"
            "\nwrite their names into its first line, or give them: names=[…]",
            src=path,
        )
    try:
        names = reader.read_csv(
            io.BytesIO(line.rstrip(b"\r\n") + b"\n"),
            read_options=reader.ReadOptions(encoding=encoding),
            parse_options=reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        ).column_names
    except UnicodeDecodeError as error:
        raise of_another_encoding(path, encoding, error.object[error.start :]) from error
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path!r} names no columns: {error}", src=path) from error
    wrong = _wrong_names(names)
    other = next((one for one in _OTHER_DELIMITERS if len(names) == 1 and one in names[0]), None)
    if other is not None and other != delimiter:
        message = (
            f"the first line of {path!r} is one column {names[0]!r:.80}"
            f"\nif its values are separated by it: delimiter={other!r}; otherwise: names=[…]"
        )
        raise InvalidInputError(message, src=path)
    if wrong is not None:
        message = (
            f"the first line of {path!r} has {wrong}"
            "\nfix it; if the first line is data, name the columns: names=[…]"
        )
        raise InvalidInputError(message, src=path)
    return names


def _given_names(names: object) -> list[str]:
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    given = list(cast("Sequence[Any]", names)) if is_list else []
    wrong = _wrong_names(given) if all(isinstance(one, str) for one in given) else "no text"
    if not given or wrong is not None:
        message = f"names={shown(names)}: give a list of different column names"
        raise InvalidInputError(message, actual=names)
    return given


def _wrong_names(names: Sequence[str]) -> str | None:
    blank = next((at for at, name in enumerate(names) if not name.strip()), None)
    if blank is not None:
        return f"no name for column {blank}"
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"two columns {twice!r}"
