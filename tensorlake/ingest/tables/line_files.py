"""Files of lines, cut into runs of whole lines that are read in parallel."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from tensorlake.dataset import COMPRESSED
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import Piece
from tensorlake.ingest.engine.source_files import SourceFiles

__all__ = ["PIECE_NBYTES", "LineNumbers", "cut_lines", "cut_piece", "decompressed", "read_lines"]

PIECE_NBYTES = 8 << 20
"""As much as is staged together."""

_MARK = b"\xef\xbb\xbf"  # some programs begin a file of UTF-8 with it
_COUNTED_NBYTES = 1 << 20


class LineNumbers:
    """Names lines by their numbers in their files, counting lines only when a name is asked for."""

    def __init__(self, files: SourceFiles) -> None:
        self._files = files
        self._before: dict[str, dict[int, int]] = {}  # lines before a byte, by path
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[LineNumbers], tuple[SourceFiles]]:
        return type(self), (self._files,)

    def name(self, piece: Piece, place: int) -> str:
        """Return the name of a line, given its position ``place`` (from 0) in a piece."""
        with self._lock:
            number = self._before_piece(piece) + place + 1
        return f"line {number} of {Path(piece.path).name}"

    def _before_piece(self, piece: Piece) -> int:
        known = self._before.setdefault(piece.path, {0: 0})
        if piece.start not in known:
            if piece.stop < 0:
                lines = decompressed(piece.path, self._files)[: piece.start].count(b"\n")
            else:
                nearest = max(at for at in known if at <= piece.start)
                lines = known[nearest] + self._count(piece.path, nearest, piece.start)
            known[piece.start] = lines
        return known[piece.start]

    def _count(self, path: str, start: int, stop: int) -> int:
        with self._files.open(path) as file:
            file.seek(start)
            return sum(
                file.read(min(_COUNTED_NBYTES, stop - at)).count(b"\n")
                for at in range(start, stop, _COUNTED_NBYTES)
            )


def cut_lines(path: str, start: int, files: SourceFiles) -> Iterator[Piece]:
    """Cut a file of lines into runs of about ``PIECE_NBYTES``; a compressed one is one piece."""
    size = files.nbytes(path) or 0
    if Path(path).suffix in COMPRESSED:
        yield Piece(path, start, -1, size)
        return
    with files.open(path) as file:
        while start < size:
            file.seek(min(start + PIECE_NBYTES, size))
            file.readline()
            stop = min(file.tell(), size)
            yield Piece(path, start, stop, stop - start)
            start = stop


def cut_piece(piece: Piece, nbytes: int, files: SourceFiles) -> tuple[Piece, Piece, int] | None:
    """Cut a run of lines after some bytes; None if no line ends there."""
    if piece.stop < 0:
        return None
    middle = piece.start + nbytes
    with files.open(piece.path) as file:
        file.seek(middle - 1)
        last, after = file.read(1), file.read(2)
    # A file without a line break at its end gets one before what is added.
    skipped = 0 if last == b"\n" else 1 if after[:1] == b"\n" else 2 if after == b"\r\n" else None
    if skipped is None or middle + skipped >= piece.stop:
        return None
    rest = Piece(piece.path, middle + skipped, piece.stop, piece.stop - middle - skipped)
    return Piece(piece.path, piece.start, middle, nbytes), rest, rest.nbytes


def read_lines(piece: Piece, files: SourceFiles) -> bytes:
    """Read the lines of a piece, without the mark that a file may begin with."""
    if piece.stop < 0:
        content = decompressed(piece.path, files)[piece.start :]
    else:
        with files.open(piece.path) as file:
            file.seek(piece.start)
            content = file.read(piece.stop - piece.start)
    return content.removeprefix(_MARK) if piece.start == 0 else content


def decompressed(path: str, files: SourceFiles) -> bytes:
    """Read a compressed file."""
    import pyarrow as pa

    codec = COMPRESSED[Path(path).suffix]
    try:
        with files.open(path) as file, pa.input_stream(file, compression=codec) as stream:
            return stream.read()
    except OSError as error:
        raise InvalidInputError(f"{path!r} is not {codec}: {error}", src=path) from error
