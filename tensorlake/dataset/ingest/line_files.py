"""Files of lines, cut into runs of whole lines, so that parts are read side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tensorlake.dataset.export import COMPRESSED
from tensorlake.dataset.ingest.found_files import Piece
from tensorlake.dataset.ingest.source_files import SourceFiles
from tensorlake.errors import InvalidInputError

__all__ = ["PIECE_NBYTES", "cut_lines", "decompressed", "read_lines"]

PIECE_NBYTES = 8 << 20
"""As much as is staged together."""


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


def read_lines(piece: Piece, files: SourceFiles) -> bytes:
    """Read the lines of a piece."""
    if piece.stop < 0:
        return decompressed(piece.path, files)[piece.start :]
    with files.open(piece.path) as file:
        file.seek(piece.start)
        return file.read(piece.stop - piece.start)


def decompressed(path: str, files: SourceFiles) -> bytes:
    """Read a compressed file."""
    import pyarrow as pa

    codec = COMPRESSED[Path(path).suffix]
    try:
        with files.open(path) as file, pa.input_stream(file, compression=codec) as stream:
            return stream.read()
    except OSError as error:
        raise InvalidInputError(f"{path!r} is not {codec}: {error}", src=path) from error
