r"""JSON Lines: one object per line; each of its members becomes a tensor.

    {"id": 7, "at": "2026-01-31T12:00:00+02:00", "meta": {"a": 1}}\n     id 7, at text, meta JSON

Values are stored unchanged: strings stay strings, objects become JSON with their own members, and
numbers are exact. Types come from ``schema``, otherwise from the first and the last lines by the
rules of ``tl.infer_schema``. A line that does not match is rejected, alone.

Files are read in runs of whole lines, in parallel; a compressed file is one run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, Unpack, cast

import msgspec

from tensorlake.dataset import Dataset, SkippedItem, type_of_column
from tensorlake.errors import InvalidInputError, SchemaError, shown
from tensorlake.ingest.engine.found_files import Piece, find_files
from tensorlake.ingest.engine.options import IngestOptions, shows_options, types_there
from tensorlake.ingest.engine.source import LoadedRows, Refused, given_settings, no_rows, part_of
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables.arrow import ingest_pieces
from tensorlake.ingest.tables.line_files import LineNumbers, cut_lines, cut_piece, read_lines
from tensorlake.ingest.tables.tokens import Tokenized, Tokenizer
from tensorlake.types import Array, Json, SampleType, Text, as_type

__all__ = ["jsonl"]

Row = dict[str, Any]
Values = dict[str, list[Any]]

TYPED_BY_ROWS = 100_000
"""The first lines, and as many of the last run, that types follow from."""

_NAME_ALL = "name all that are to be taken: schema={…}"
_decoder = msgspec.json.Decoder()
_TAKEN_NBYTES = 64 << 10
"""Lines decoded together: their objects are gone before Python's collector looks for them."""
_START, _MEMBER = b"{", b'":'
_SPACE_BEFORE_COLON = re.compile(rb'"[ \t\r]+:')
_ESCAPED = re.compile(rb"\\u00(?:20|22|3[aA])")  # a space, a quote, a colon


@shows_options
def jsonl(
    src: str | PathLike[str] | Sequence[str | PathLike[str]],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    text: str = "text",
    tokens: str = "tokens",
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    r"""Ingest JSON Lines: one object per line; each of its members becomes a tensor.

    Strings stay strings, times included, and objects become ``Json``; use ``schema`` for a
    ``Timestamp``, ``ClassLabel`` or ``Uuid``. A missing member is NULL, or the default of its
    type. A line that is not a JSON object, or does not match the types, raises an error with its
    number; ``on_error`` can leave out that line alone.

    With a ``tokenizer`` the member ``text`` becomes the tensor ``tokens``, and is itself stored
    only where ``schema`` names it. A call with another tokenizer does not continue an earlier
    ingestion: tokenizers are identified by vocabulary, and by their tokens of the first lines.

    Args:
        src: A file, a folder, a pattern such as ``"web/*.jsonl.zst"``, or a list of files.
        dst: Path or URL of the dataset.
        schema: Types by name; with it only these members are taken.
        tokenizer: Takes a list of texts and returns numbers for each; or a tokenizer of the
            libraries tokenizers, tiktoken or transformers. Called from several threads.
        text: Name of the member to tokenize.
        tokens: Name of the tensor of its tokens: uint16 if the tokenizer's vocabulary fits, else
            uint32, unless ``schema`` specifies the type.
        key: The member that names a row; None: rows are known by position, so that a later call
            may find more of them at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There is no such file, a line is not a JSON object, a member has values
            of several types, or the dataset's tokens are another tokenizer's.

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
    made = None
    members = None if schema is None else {name: as_type(one) for name, one in schema.items()}
    if tokenizer is not None:
        made = Tokenized.of(tokenizer, text=text, tensor=tokens, schema=schema)
        if members is not None:
            members = {name: one for name, one in members.items() if name != tokens}
            members.setdefault(text, Text())
    files = SourceFiles(options.get("storage_options"))
    paths = find_files(src, ".jsonl", files)
    pieces = [piece for path in paths for piece in cut_lines(path, 0, files)]
    lines = _Lines(files, is_strict=options.get("on_error", "raise") == "raise")
    refused: list[Refused] = []
    first_and_last = dict.fromkeys((*pieces[:1], *pieces[-1:]))
    ends = [lines.first_values(piece, refused) for piece in first_and_last]
    if not any(ends):
        raise no_rows("jsonl", [item for item, _ in refused])
    values = _joined(ends)
    read_as = types_there(dst, options) | ({} if made is None else {text: Text()})
    found = _types(values, members, pieces, read_as=read_as)
    types, maker = found, ""
    if made is not None:
        types = made.types(found, keeps_text=schema is not None and text in schema)
        maker = made.identity(ends[0].get(text, []), piece=pieces[0].name)
    del ends  # as large as a file may be
    load = partial(_load, lines=lines, types=types, is_closed=schema is None, tokenized=made)
    kind = "jsonl" if made is None else "tokens"
    # The tokenizer and the column that it reads are told by the keys.
    settings = given_settings(schema, tokens=None if made is None else tokens, key=key)
    return ingest_pieces(
        kind,
        pieces,
        types,
        load,
        dst,
        options,
        files=files,
        settings=settings,
        maker=maker,
        key=key,
        src=src,
        cut=cut_piece,
    )


class _Lines:
    """Reads pieces of files, and names their lines.

    Args:
        files: Opens the files.
        is_strict: Whether a line that is not an object is an error.
    """

    def __init__(self, files: SourceFiles, *, is_strict: bool) -> None:
        self._files = files
        self._is_strict = is_strict
        self._numbers = LineNumbers(files)

    def name(self, piece: Piece, place: int) -> str:
        """Return what a line is called, by its number in its file."""
        return self._numbers.name(piece, place)

    def first_values(self, piece: Piece, refused: list[Refused]) -> Values:
        """Read the values that types follow from, by member; of objects no more than that."""
        values: Values = {}
        count = 0
        for rows, _ in self.read(piece, refused, check=False):
            for name in dict.fromkeys(chain.from_iterable(rows)):
                values.setdefault(name, [None] * count)
            for name, known in values.items():
                given = [row.get(name) for row in rows]
                known += [{} if type(one) is dict else one for one in given]
            count += len(rows)
            if count >= TYPED_BY_ROWS:
                break
        return values

    def read(
        self, piece: Piece, refused: list[Refused], *, check: bool = True
    ) -> Iterator[tuple[list[Row], Sequence[int]]]:
        """Yield the objects of a piece, a few at a time, each with the place of its line.

        Args:
            piece: The piece.
            refused: Where lines go that are not objects.
            check: Whether members that are named twice are looked for.

        Raises:
            InvalidInputError: A line is not an object, and that is an error.
        """
        content = read_lines(piece, self._files)
        start, first = 0, 0
        while start < len(content):
            stop = content.find(b"\n", start + _TAKEN_NBYTES) + 1 or len(content)
            taken = content[start:stop]
            rows = _all_rows(taken, check=check)
            if rows is not None:
                yield rows, range(first, first + len(rows))
            else:
                yield self._one_by_one(taken, piece, first, refused)
            start, first = stop, first + taken.count(b"\n")

    def _one_by_one(
        self, content: bytes, piece: Piece, first: int, refused: list[Refused]
    ) -> tuple[list[Row], Sequence[int]]:
        rows: list[Row] = []
        places: list[int] = []
        for place, line in enumerate(content.split(b"\n"), first):
            if not line.strip():
                continue
            try:
                rows.append(_row(line))
                places.append(place)
            except ValueError as error:
                self.refuse(refused, piece, place, str(error), {"line": _shown(line)})
        return rows, places

    def refuse(
        self,
        refused: list[Refused],
        piece: Piece,
        place: int,
        reason: str,
        values: Mapping[str, Any],
        *,
        tensor: str | None = None,
    ) -> None:
        """Refuse a line: an error, or one more that is left out."""
        name = self.name(piece, place)
        if self._is_strict:
            told = "\nto leave such lines out: on_error='skip'"
            raise InvalidInputError(f"{name}, {reason}{told}", src=piece.path, item=name)
        refused.append((SkippedItem(name, reason, tensor), values))


def _all_rows(content: bytes, *, check: bool) -> list[Row] | None:
    """Decode lines at once, if each is one object that names no member twice."""
    try:
        rows: list[Any] = _decoder.decode_lines(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    lines = content.rstrip().count(b"\n") + 1
    starts = content.startswith(_START) + content.count(b"\n" + _START)
    if not len(rows) == lines == starts or not set(map(type, rows)) <= {dict}:
        return None
    if not check:
        return rows
    if _SPACE_BEFORE_COLON.search(content) or _ESCAPED.search(content):
        return None  # then members cannot be counted
    # JSON allows a name twice, and decoding keeps the last: there are fewer members than were read
    members = content.count(_MEMBER)
    if members == sum(map(len, rows)) or members == msgspec.json.encode(rows).count(_MEMBER):
        return rows
    return None


def _row(line: bytes) -> Row:
    """Decode one line.

    Raises:
        ValueError: It is not an object, or not one that can be kept as it is; with the column.
    """
    try:
        row = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_reason(line, error)) from error
    if not isinstance(row, dict):
        raise ValueError(f"column 1: {_kind(row)}, not an object")  # noqa: TRY004 - of the text
    try:
        json.loads(line, object_pairs_hook=_once)
    except _NamedTwiceError as error:
        name = json.dumps(str(error), ensure_ascii=False).encode()
        raise ValueError(
            f"column {line.rfind(name) + 1}: the member {name.decode()} twice"
        ) from None
    return cast("Row", row)


class _NamedTwiceError(Exception):
    """An object has a member twice."""


def _once(pairs: list[tuple[str, Any]]) -> Row:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _NamedTwiceError(next(name for name in names if names.count(name) > 1))
    return found


def _reason(line: bytes, error: Exception) -> str:
    """Say where a line is not JSON, by the parser that tells the column."""

    def refuse(written: str) -> NoReturn:
        column = line.find(written.encode()) + 1
        raise ValueError(f"column {column}: {written}, which JSON has no number for")

    def checked(written: str) -> float:
        return refuse(written) if float(written) in {float("inf"), -float("inf")} else 0.0

    try:
        text = line.decode()
        json.loads(text, parse_constant=refuse, parse_float=checked, parse_int=len)
    except json.JSONDecodeError as found:
        return f"column {found.colno}: {found.msg[:1].lower()}{found.msg[1:]}"
    except UnicodeDecodeError as found:
        return f"column {found.start + 1}: bytes that are not UTF-8"
    except RecursionError:
        return "column 1: nested too deeply"
    except ValueError as found:
        return str(found)
    lone = re.search(r"\\u[dD][89a-fA-F]", text)
    if lone is not None:
        return f"column {lone.start() + 1}: half a surrogate pair, which is not a character"
    return f"column 1: {error}"


def _shown(line: bytes) -> str | bytes:
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError:
        return line


def _joined(ends: Sequence[Values]) -> Values:
    """Join the values of the first and the last lines."""
    counts = [max(map(len, values.values()), default=0) for values in ends]
    return {
        name: [
            one
            for values, count in zip(ends, counts, strict=True)
            for one in values.get(name, [None] * count)
        ]
        for name in dict.fromkeys(chain.from_iterable(ends))
    }


def _types(
    values: Values,
    members: Mapping[str, SampleType] | None,
    pieces: Sequence[Piece],
    *,
    read_as: Mapping[str, SampleType],
) -> dict[str, SampleType]:
    """Give each member the type that was declared, or that follows from its values."""
    if members is not None:
        required = {name for name, kind in members.items() if not kind.has_default}
        missing = sorted(required - values.keys())
        if missing:
            told = ", ".join(values)
            raise InvalidInputError(
                f"schema names {missing}, which is not a member of any line; members: {told}",
                columns=[*values],
            )
        return dict(members)
    where = Path(pieces[0].path).name + (" …" if len(pieces) > 1 else "")
    is_whole = len(pieces) == 1
    return {
        name: read_as.get(name) or _type(name, each, where, is_whole=is_whole)
        for name, each in values.items()
    }


def _type(name: str, values: Sequence[Any], where: str, *, is_whole: bool) -> SampleType:
    """Choose a member's type; what comes later may be NULL, and lists of any length."""
    has_null = not is_whole or None in values
    given = [one for one in values if one is not None]
    if not any(one != [] for one in given):
        return Json(nullable=has_null)
    try:
        found = type_of_column(name, given)
    except SchemaError as error:
        told = error.message.splitlines()[0]
        raise SchemaError(
            f"{where}: member {told}\nto keep them as they are: schema={{{name!r}: tl.Json()}}",
            tensor=name,
        ) from error
    if isinstance(found, Array):
        found = Array(found.dtype, (None,) * len(found.shape))
    return replace(found, nullable=has_null)


def _load(
    pieces: Sequence[Piece],
    *,
    lines: _Lines,
    types: Mapping[str, SampleType],
    is_closed: bool,
    tokenized: Tokenized | None,
) -> LoadedRows:
    fills = _fills(types, tokenized)
    text = None if tokenized is None else tokenized.text
    names = frozenset(types if text is None else (*types, text))
    columns: dict[str, list[Any]] = {name: [] for name in fills}
    texts: list[str] = []
    called: list[tuple[Piece, Sequence[int]]] = []
    refused: list[Refused] = []

    def reason_of(row: Row) -> tuple[str, str] | None:
        if is_closed and not names.issuperset(row):
            other = next(name for name in row if name not in names)
            told = "one that the first and last lines had not"
            return f"member {other!r}: {told}; {_NAME_ALL}", other
        if text is not None and not isinstance(row.get(text), str):
            return f"member {text!r}: {_kind(row.get(text))}, not text", text
        return None

    for piece in pieces:
        for rows, places in lines.read(piece, refused):
            reasons = [reason_of(row) for row in rows]
            if any(reasons):
                for row, place, reason in zip(rows, places, reasons, strict=True):
                    if reason is not None:
                        told, tensor = reason
                        lines.refuse(refused, piece, place, told, row, tensor=tensor)
                kept = [at for at, reason in enumerate(reasons) if reason is None]
                taken, called_by = [rows[at] for at in kept], [places[at] for at in kept]
            else:
                taken, called_by = rows, places
            for name, fill in fills.items():
                columns[name] += [row.get(name, fill) for row in taken]
            if text is not None:
                texts += [row[text] for row in taken]
            called.append((piece, called_by))
    made: dict[str, Any] = {}
    if tokenized is not None:
        made[tokenized.tensor] = tokenized.numbers(texts, pieces[0].name)

    def row_name(row: int) -> str:
        part, row = part_of(row, [len(places) for _, places in called])
        piece, places = called[part]
        return lines.name(piece, places[row])

    return LoadedRows({**columns, **made}, refused, row_name)


def _fills(types: Mapping[str, SampleType], tokenized: Tokenized | None) -> dict[str, Any]:
    """The value of lines that lack a member, by tensor."""
    made = None if tokenized is None else tokenized.tensor
    return {
        name: one.fill_value if one.has_default else None
        for name, one in types.items()
        if name != made
    }


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"{shown(value)}".lower()
