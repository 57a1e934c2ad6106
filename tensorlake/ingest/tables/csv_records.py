"""CSV files, cut into runs of whole records; quoted values may contain line breaks.

    1,"two              a record ends at a line break outside of quotes (RFC 4180, 2.6);
    lines"⏎             a quote opens a value where it is the value's first character, a quote
    2,5" wide⏎          elsewhere is a letter, and two within a value in quotes are one

Runs are cut where `line_files.cut_lines` cuts them, unless that is within a value; so a file is
scanned for quotes once, by NumPy, before it is parsed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from tensorlake.dataset import COMPRESSED, SkippedItem
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import Piece
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables.line_files import PIECE_NBYTES, LineNumbers, decompressed
from tensorlake.storage import public_url

__all__ = ["cut_records", "first_record", "records_of"]

_QUOTE = ord('"')
_BREAKS = b"\r\n"
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_MARK = b"\xef\xbb\xbf"  # some programs begin a file of UTF-8 with it


class _Quotes:
    """Whether a value in quotes is open, as bytes of a file go by."""

    def __init__(self, delimiter: bytes) -> None:
        self.is_open = False
        self.opened_at = 0
        self._before = ord("\n")
        self._starts = np.frombuffer(delimiter[-1:] + _BREAKS, np.uint8)
        self._position = 0
        self._closed_at = -2

    def see(self, content: bytes) -> None:
        """Go on over some bytes."""
        if b'"' in content:
            self._see_quotes(np.frombuffer(content, np.uint8))
        if content:
            self._position += len(content)
            self._before = content[-1]

    def _see_quotes(self, data: np.ndarray) -> None:
        at = np.flatnonzero(data == _QUOTE)
        before = np.where(at > 0, data[at - 1], self._before)
        may_open = np.isin(before, self._starts)
        opening = slice(int(self.is_open), None, 2)  # where each quote opens or closes a value
        follows = np.diff(at, prepend=self._closed_at - self._position) == 1
        if bool((may_open | follows)[opening].all()):
            opened = at[opening][~follows[opening]]  # a quote that follows one goes on in a value
            if len(opened):
                self.opened_at = self._position + int(opened[-1])
            self.is_open ^= bool(len(at) % 2)
            if not self.is_open:
                self._closed_at = self._position + int(at[-1])
            return
        for place, is_first in zip(at.tolist(), may_open.tolist(), strict=True):
            position = self._position + place
            if self.is_open:
                self.is_open, self._closed_at = False, position
            elif is_first:
                self.is_open, self.opened_at = True, position
            elif position == self._closed_at + 1:
                self.is_open = True


def cut_records(
    path: str,
    start: int,
    delimiter: str,
    files: SourceFiles,
    left_out: list[SkippedItem] | None = None,
) -> Iterator[Piece]:
    """Cut a CSV file into runs of about ``PIECE_NBYTES``; a compressed one is one piece.

    Args:
        path: Path of the file.
        start: Offset of its first record.
        delimiter: Separator of values.
        files: Opens the file.
        left_out: Receives a record whose quote is never closed, up to the end of that line;
            the next record begins at the next line. None, or a compressed file: an error.

    Raises:
        InvalidInputError: A quote is never closed.
    """
    size = files.nbytes(path) or 0
    quotes = _Quotes(delimiter.encode())
    if Path(path).suffix in COMPRESSED:
        piece, content = Piece(path, start, -1, size), decompressed(path, files)[start:]
        quotes.see(content)
        if quotes.is_open:
            line = content.count(b"\n", 0, quotes.opened_at)
            raise _never_closed(piece, line, start + quotes.opened_at, files)
        yield piece
        return
    with files.open(path) as file:
        file.seek(start)
        at = begin = start
        while at < size:
            quotes.see(file.read(PIECE_NBYTES))
            _see_rest(file, quotes)
            stop = min(file.tell(), size)
            if not quotes.is_open:
                yield Piece(path, at, stop, stop - at)
                at = stop
                continue
            opened_at = begin + quotes.opened_at
            file.seek(at)
            before = file.read(opened_at - at)
            piece = Piece(path, at, stop, stop - at)
            error = _never_closed(piece, before.count(b"\n"), opened_at, files)
            if left_out is None:
                raise error
            record = records_of(before + file.readline(), delimiter)[-1]
            left_out.append(_skipped(error, record))
            stop = file.tell()
            if stop - len(record) > at:
                yield Piece(path, at, stop - len(record), stop - len(record) - at)
            at = begin = stop
            quotes = _Quotes(delimiter.encode())


def records_of(content: bytes, delimiter: str) -> list[bytes]:
    """Cut whole records from one another, each with its line break."""
    quotes = _Quotes(delimiter.encode())
    records: list[bytes] = []
    is_open = False
    for line in _LINE.findall(content):
        quotes.see(line)
        if is_open:
            records[-1] += line
        else:
            records.append(line)
        is_open = quotes.is_open
    return records


def first_record(path: str, delimiter: str, files: SourceFiles) -> bytes:
    """Read the first record of a file, its line break included."""
    quotes = _Quotes(delimiter.encode())
    if Path(path).suffix in COMPRESSED:
        return _first(io.BytesIO(decompressed(path, files)), quotes)
    with files.open(path) as file:
        return _first(file, quotes)


def _first(file: IO[bytes], quotes: _Quotes) -> bytes:
    record = file.readline()
    quotes.see(record.removeprefix(_MARK))
    while quotes.is_open and (line := file.readline()):
        quotes.see(line)
        record += line
    return record


def _see_rest(file: IO[bytes], quotes: _Quotes) -> None:
    """Read on to the end of the record."""
    quotes.see(file.readline())
    while quotes.is_open and (line := file.readline()):
        quotes.see(line)


def _never_closed(piece: Piece, line: int, place: int, files: SourceFiles) -> InvalidInputError:
    """Return the error of a quote that is open at the end of the file, by its line of the piece."""
    name = LineNumbers(files).name(piece, line)
    message = f"{name}: the quote at byte {place:,} opens a value that nothing closes"
    return InvalidInputError(
        f"{message}\nclose it, or double it", src=public_url(piece.path), offset=place, item=name
    )


def _skipped(error: InvalidInputError, record: bytes) -> SkippedItem:
    name = error.facts["item"]
    reason = error.message.splitlines()[0].removeprefix(f"{name}: ")
    shown = record.decode(errors="replace").rstrip("\r\n")
    return SkippedItem(name, f"{reason}: {shown!r:.80}")
