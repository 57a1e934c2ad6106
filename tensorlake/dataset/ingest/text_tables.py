"""Tables as text: CSV and JSON lines.

Files are read in runs of whole lines, several side by side; a compressed file is one run. Types
are guessed once, from the first and the last lines of all: another run may hold only whole
numbers in a column of floats.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.csv_columns import check_types, may_change_numbers, type_of_text
from tensorlake.dataset.ingest.csv_records import cut_records, first_record
from tensorlake.dataset.ingest.found_files import Piece, find_files
from tensorlake.dataset.ingest.json_numbers import check_whole_numbers
from tensorlake.dataset.ingest.line_files import cut_lines, read_lines
from tensorlake.dataset.ingest.options import IngestOptions
from tensorlake.dataset.ingest.report import SkippedItem
from tensorlake.dataset.ingest.source import given_settings
from tensorlake.dataset.ingest.source_files import SourceFiles
from tensorlake.dataset.ingest.tables import ingest_pieces, require_pyarrow
from tensorlake.dataset.ingest.tokens import Tokenized, Tokenizer
from tensorlake.errors import InvalidInputError
from tensorlake.quantities import plural
from tensorlake.storage import public_url
from tensorlake.types import Bool, Scalar, Text, as_type

__all__ = ["csv", "jsonl"]

Arrow = Any  # pyarrow ships no types

GUESSED_FROM_ROWS = 100_000
NULL_WORDS = ("", "NULL", "null", "NA", "N/A", "n/a", "#N/A", "#NA")
"""NULL in a column of numbers, where the call does not say others. NaN is a number."""
_OTHER_DELIMITERS = ";\t|"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def csv(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
    nulls: Sequence[str] | None = None,
    decimal: str = ".",
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    r"""Ingest CSV files, whose first line names the columns (RFC 4180).

    Values in quotes may hold line breaks. Lines with another number of values are left out, each,
    where ``on_error`` says so. Whole numbers written with a zero before them, as codes are, stay
    text; what a guess would change (whole numbers that no int64 holds, commas in numbers) is
    refused.

    Args:
        src: A file, a folder, a pattern such as ``"data/*.csv.gz"``, or a list of files.
        dst: Path or URL of the dataset.
        delimiter: What stands between values.
        encoding: How the text is written, such as "latin-1" or "cp1252".
        names: Of the columns, where the first line is of values already.
        nulls: Words without quotes that are NULL, in every column. None: an empty value and the
            usual words (NULL, NA, N/A …) in columns of numbers, none in columns of text.
        decimal: What stands before the decimals of a number: "," where it is written 1,5.
        schema: Types in place of those that follow from the columns, by name.
        **options: See `IngestOptions`.

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
    require_pyarrow()
    import pyarrow as pa
    from pyarrow import csv as reader

    if len(delimiter) != 1:
        message = f"delimiter={delimiter!r}: give one character"
        raise InvalidInputError(message, actual=delimiter)
    if len(decimal) != 1 or decimal == delimiter:
        message = f"decimal={decimal!r}: give one character, other than the delimiter"
        raise InvalidInputError(message, actual=decimal)
    _check_encoding(encoding)
    files = SourceFiles(options.get("storage_options"))
    paths = find_files(src, ".csv", files)
    if names is None:
        header, header_nbytes = _header(paths, files, delimiter, encoding)
    else:
        header, header_nbytes = _given_names(names), 0
    known: dict[str, Arrow] = {}
    is_strict = options.get("on_error", "raise") == "raise"
    left_out: dict[tuple[str, int], SkippedItem] = {}  # by place: the first lines are read twice

    def parse_piece(piece: Piece, text: bytes, *, is_text: bool = False) -> Arrow:
        def leave_out(line: Any) -> str:  # Any: pyarrow's InvalidRow
            values = plural(line.actual_columns, "value")
            columns = plural(line.expected_columns, "column")
            reason = f"{values} for {columns}: {line.text!r:.80}"
            item = SkippedItem(f"line {line.number} of {piece.name}", reason)
            left_out[piece.name, line.number] = item
            return "skip"

        # Only one thread counts lines
        block = reader.ReadOptions(
            column_names=header, block_size=1 << 30, use_threads=is_strict, encoding=encoding
        )
        handler = None if is_strict else leave_out
        parse = reader.ParseOptions(
            delimiter=delimiter, invalid_row_handler=handler, newlines_in_values=True
        )
        convert = reader.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()) if is_text else known,
            null_values=NULL_WORDS if nulls is None else list(nulls),
            strings_can_be_null=nulls is not None,
            quoted_strings_can_be_null=False,
            decimal_point=decimal,
        )
        try:
            table = reader.read_csv(
                io.BytesIO(text), read_options=block, parse_options=parse, convert_options=convert
            )
        except UnicodeDecodeError as error:
            raise _of_another_encoding(piece.path, encoding, error.object[error.start :]) from error
        except pa.ArrowInvalid as error:
            if "UTF8" in str(error):  # in a column that the schema says is text
                raise _of_another_encoding(piece.path, encoding, text) from error
            advice = (
                "\nof numbers written 1,5: decimal=','" if "conversion error" in str(error) else ""
            )
            raise InvalidInputError(f"{piece.name}: {error}{advice}", src=piece.path) from error
        for name in header:  # what is no text it would take for bytes
            if pa.types.is_binary(table[name].type) and name not in (schema or {}):
                raise _of_another_encoding(piece.path, encoding, text)
        return table

    def read(piece: Piece, *, is_text: bool = False) -> Arrow:
        return parse_piece(piece, read_lines(piece, files), is_text=is_text)

    pieces = [
        piece for path in paths for piece in cut_records(path, header_nbytes, delimiter, files)
    ]
    known.update(_declared(schema))
    guessed = _guessed(pieces, read)
    if pieces:
        text = _sampled(pieces, partial(read, is_text=True))
        declared = schema or {}
        guessed = {
            name: one if name in declared else type_of_text(name, one, text[name])
            for name, one in guessed.items()
        }
    known.update(guessed)
    numbers = {
        name: one
        for name, one in guessed.items()
        if name not in (schema or {}) and (pa.types.is_integer(one) or pa.types.is_floating(one))
    }

    def read_checked(piece: Piece) -> Arrow:
        text = read_lines(piece, files)
        if numbers and may_change_numbers(text, delimiter):
            check_types(numbers, parse_piece(piece, text, is_text=True))
        return parse_piece(piece, text)

    kept = left_out.values()
    settings = given_settings(
        schema, delimiter=delimiter, encoding=encoding, names=names, nulls=nulls, decimal=decimal
    )
    return ingest_pieces(
        "csv",
        pieces,
        read_checked,
        dst,
        schema,
        options,
        files=files,
        settings=settings,
        left_out=kept,
    )


def jsonl(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    schema: Mapping[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    text: str = "text",
    tokens: str = "tokens",
    **options: Unpack[IngestOptions],
) -> Dataset:
    r"""Ingest JSON lines: an object a line, each of its members a tensor.

    With a ``tokenizer`` the member ``text`` becomes the tensor ``tokens``, and is itself stored
    only where ``schema`` names it. A call with another tokenizer does not go on with what the first
    began: tokenizers are told apart by their vocabulary, and by the tokens of the first lines.

    Args:
        src: A file, a folder, a pattern such as ``"web/*.jsonl.zst"``, or a list of files.
        dst: Path or URL of the dataset.
        schema: Types by name; with it only these members are taken.
        tokenizer: Takes a list of texts and returns numbers for each; or a tokenizer of the
            libraries tokenizers, tiktoken or transformers. Called from several threads.
        text: Name of the member to tokenize.
        tokens: Name of the tensor of its tokens: uint16 where the tokenizer says that its
            vocabulary fits, else uint32, or what ``schema`` says.
        **options: See `IngestOptions`.

    Raises:
        InvalidInputError: There is no such file, a line is not a JSON object, or the dataset's
            tokens are another tokenizer's.

    Example:
        >>> from pathlib import Path
        >>> import tensorlake as tl
        >>> _ = Path("web.jsonl").write_text('{"text": "to be"}\n{"text": "or"}\n')
        >>> ds = tl.ingest.jsonl("web.jsonl", "memory://doc-jsonl", tokenizer=lambda texts: [
        ...     list(text.encode()) for text in texts
        ... ])
        >>> ds["tokens"][:]
        Ragged(2 arrays, uint32, shapes (5,) (2,))
    """
    require_pyarrow()
    import pyarrow as pa
    from pyarrow import json as reader

    made = None
    members = schema
    if tokenizer is not None:
        made = Tokenized.of(tokenizer, text=text, tensor=tokens, schema=schema)
        if schema is not None:
            members = {name: one for name, one in schema.items() if name != tokens} | {text: Text()}
    files = SourceFiles(options.get("storage_options"))
    paths = find_files(src, ".jsonl", files)
    pieces = [piece for path in paths for piece in cut_lines(path, 0, files)]
    known: dict[str, Arrow] = {}

    def read(piece: Piece) -> Arrow:
        parse = reader.ParseOptions(explicit_schema=pa.schema(list(known.items())))
        block = reader.ReadOptions(block_size=1 << 30)
        try:
            lines = io.BytesIO(read_lines(piece, files))
            table = reader.read_json(lines, read_options=block, parse_options=parse)
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"{piece.name}: {error}", src=piece.path) from error
        wanted = known if members is None else members
        unknown = [name for name in table.column_names if known and name not in known]
        if unknown and members is None:
            raise InvalidInputError(
                f"{piece.name} has members {unknown} that the first and last lines had not"
                "\nname all that are to be taken: schema={…}",
                src=piece.path,
            )
        return (
            table.select([*wanted]) if known and set(wanted) <= set(table.column_names) else table
        )

    known.update(_declared(members))
    known.update(_guessed(pieces, read))
    floats = [
        name
        for name, one in known.items()
        if pa.types.is_floating(one) and name not in (members or {})
    ]
    for piece in {*pieces[:1], *pieces[-1:]} if floats else ():
        check_whole_numbers(read_lines(piece, files), floats, piece.name)
    kind = "jsonl" if made is None else "tokens"
    # The tokenizer and the column that it reads are told by the keys.
    settings = given_settings(schema, tokens=None if made is None else tokens)
    return ingest_pieces(
        kind, pieces, read, dst, schema, options, files=files, settings=settings, tokenized=made
    )


def _check_encoding(encoding: str) -> None:
    try:
        is_by_bytes = "\n".encode(encoding) == b"\n"
    except LookupError:
        is_by_bytes = False
    if not is_by_bytes:
        message = (
            f"encoding={encoding!r}: give one whose line breaks are single bytes,"
            " such as 'utf-8', 'latin-1' or 'cp1252'"
        )
        raise InvalidInputError(message, actual=encoding)


def _of_another_encoding(path: str, encoding: str, text: bytes) -> InvalidInputError:
    """The error of text that is not of its encoding, showing the first such bytes."""
    try:
        text.decode(encoding)
    except UnicodeDecodeError as error:
        text = text[error.start :]
    shown = public_url(path)
    if text.startswith(_UTF16):
        return InvalidInputError(f"{shown!r} is UTF-16\nwrite it as UTF-8 first", src=shown)
    return InvalidInputError(
        f"{shown!r} is not {encoding} from the bytes {text[:8]!r} on"
        "\nsay how it is written, such as encoding='latin-1' or 'cp1252'",
        src=shown,
        encoding=encoding,
    )


def _header(
    paths: Sequence[str], files: SourceFiles, delimiter: str, encoding: str
) -> tuple[list[str], int]:
    """Names of the columns by the first line, which all files share, and that line's length."""
    import pyarrow as pa
    from pyarrow import csv as reader

    path, *others = paths
    line = first_record(path, delimiter, files)
    other = next((one for one in others if first_record(one, delimiter, files) != line), None)
    if other is not None:
        message = (
            f"{other!r} has other columns than {path!r}"
            "\ningest them apart; where the first lines are values: names=[…]"
        )
        raise InvalidInputError(message, src=other)
    try:
        names = reader.read_csv(
            io.BytesIO(line.rstrip(b"\r\n") + b"\n"),
            read_options=reader.ReadOptions(encoding=encoding),
            parse_options=reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        ).column_names
    except UnicodeDecodeError as error:
        raise _of_another_encoding(path, encoding, error.object[error.start :]) from error
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path!r} names no columns: {error}", src=path) from error
    wrong = _wrong_names(names)
    other = next((one for one in _OTHER_DELIMITERS if len(names) == 1 and one in names[0]), None)
    if other is not None and other != delimiter:
        message = (
            f"the first line of {path!r} is one column {names[0]!r:.80}"
            f"\nif its values are told apart so: delimiter={other!r}; if not, name it: names=[…]"
        )
        raise InvalidInputError(message, src=path)
    if wrong is not None:
        message = (
            f"the first line of {path!r} has {wrong}"
            "\nmend it; where it is of values already, name the columns: names=[…]"
        )
        raise InvalidInputError(message, src=path)
    return names, len(line)


def _given_names(names: object) -> list[str]:
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    given = list(cast("Sequence[Any]", names)) if is_list else []
    wrong = _wrong_names(given) if all(isinstance(one, str) for one in given) else "no text"
    if not given or wrong is not None:
        message = f"names={names!r:.80}: give a list of different column names"
        raise InvalidInputError(message, actual=names)
    return given


def _wrong_names(names: Sequence[str]) -> str | None:
    blank = next((at for at, name in enumerate(names) if not name.strip()), None)
    if blank is not None:
        return f"no name for column {blank}"
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"two columns {twice!r}"


def _guessed(pieces: Sequence[Piece], read: Callable[[Piece], Arrow]) -> dict[str, Arrow]:
    """Types of the columns from the first and the last lines of all files."""
    import pyarrow as pa

    if not pieces:
        return {}
    sampled = [read(piece).slice(0, GUESSED_FROM_ROWS) for piece in {pieces[0], pieces[-1]}]
    try:
        united = pa.concat_tables(
            [one.slice(0, 0) for one in sampled], promote_options="permissive"
        )
    except pa.ArrowTypeError as error:
        message = (
            f"the beginning and the end of {pieces[0].path!r} … differ in their types: {error}"
            "\nsay what the column is: schema={…}"
        )
        raise InvalidInputError(message, src=pieces[0].path) from error
    return {field.name: field.type for field in united.schema if not pa.types.is_null(field.type)}


def _sampled(pieces: Sequence[Piece], read: Callable[[Piece], Arrow]) -> Arrow:
    """The rows that types are guessed from."""
    import pyarrow as pa

    ends = list(dict.fromkeys((*pieces[:1], *pieces[-1:])))
    return pa.concat_tables([read(piece).slice(0, GUESSED_FROM_ROWS) for piece in ends])


def _declared(schema: Mapping[str, Any] | None) -> dict[str, Arrow]:
    """Types that the user gave, as far as a parser of text needs them."""
    import pyarrow as pa

    declared = {name: as_type(one) for name, one in (schema or {}).items()}
    numbers = {name: one for name, one in declared.items() if isinstance(one, Scalar | Bool)}
    return {name: pa.from_numpy_dtype(one.dtype) for name, one in numbers.items()} | {
        name: pa.string() for name, one in declared.items() if isinstance(one, Text)
    }
