"""Files of lines, cut into runs of whole lines, so that parts are read side by side."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from tensorlake.dataset.export import COMPRESSED
from tensorlake.dataset.ingest.found_files import Piece
from tensorlake.errors import InvalidInputError

__all__ = ["cut_lines", "first_line", "read_lines"]

PIECE_NBYTES = 8 << 20
"""As much as is staged together."""


def cut_lines(path: str, start: int) -> Iterator[Piece]:
    """Cut a file of lines into runs of about ``PIECE_NBYTES``; a compressed one is one piece."""
    size = Path(path).stat().st_size
    if Path(path).suffix in COMPRESSED:
        yield Piece(path, start, -1, size)
        return
    with open(path, "rb") as file:  # noqa: PTH123 - as everywhere here, paths are text
        while start < size:
            file.seek(min(start + PIECE_NBYTES, size))
            file.readline()
            stop = min(file.tell(), size)
            yield Piece(path, start, stop, stop - start)
            start = stop


def read_lines(piece: Piece) -> bytes:
    """Read the lines of a piece."""
    if piece.stop < 0:
        return _decompressed(piece.path)[piece.start :]
    with open(piece.path, "rb") as file:  # noqa: PTH123 - as above
        file.seek(piece.start)
        return file.read(piece.stop - piece.start)


def first_line(path: str) -> bytes:
    """Read the first line of a file, its line break included."""
    if Path(path).suffix in COMPRESSED:
        return io.BytesIO(_decompressed(path)).readline()
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        return file.readline()


def _decompressed(path: str) -> bytes:
    import pyarrow as pa

    codec = COMPRESSED[Path(path).suffix]
    try:
        with pa.input_stream(path, compression=codec) as stream:
            return stream.read()
    except OSError as error:
        raise InvalidInputError(f"{path!r} is not {codec}: {error}", src=path) from error
