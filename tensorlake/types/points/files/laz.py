"""The chunks of a LAZ file, checked before lazrs decompresses them.

    LASzip record   34 bytes: at 12 the points of a chunk, at 32 the number of items
                    items: type, bytes, version, u16 each
    points          offset of the table i64 │ chunk 0 │ chunk 1 │ … │ table of chunks
    chunk of items  first point as it is │ points u32 │ bytes of each layer u32 │ layers
    of LAS 1.4

lazrs allocates what layers promise; where that fails, it ends the process. So the layers of a chunk
have to be within it, and chunks within the file.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import missing_extra

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["check_chunks"]

_RECORD_NBYTES = 34
_ITEM = struct.Struct("<HHH")
_MAX_ITEMS = 16
_VARIABLE_CHUNKS = 0xFFFFFFFF
_EXTRA_BYTES = 14  # the type of an item of LAS 1.4 whose bytes are a layer each
_LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}  # by type: points, RGB, RGB and infrared, wave packets


def check_chunks(
    content: Buffer, start: int, count: int, laszip: memoryview, *, record_nbytes: int
) -> None:
    """Check the chunks of compressed points against the file.

    Args:
        content: The file.
        start: Its first byte of points.
        count: Number of points that its header promises.
        laszip: The LASzip record.
        record_nbytes: Bytes of a point.

    Raises:
        ValueError: They promise more than there is.
    """
    view = memoryview(content)
    items, points = _items(laszip)
    if sum(nbytes for _, nbytes in items) != record_nbytes:
        raise ValueError(f"its LASzip record is of points of other than {record_nbytes} bytes")
    if not count:
        return
    if start + 8 > len(view):
        raise ValueError("it has no compressed points")
    (table,) = struct.unpack_from("<q", view, start)
    if table == -1:  # written to a pipe: at the end
        (table,) = struct.unpack_from("<q", view, len(view) - 8)
    if not start < table <= len(view) - 8:
        raise ValueError(f"its table of chunks is at byte {table:,} of {len(view):,}: it was cut")
    (chunks,) = struct.unpack_from("<I", view, table + 4)
    expected = None if points == _VARIABLE_CHUNKS else -(-count // max(points, 1))
    if chunks > count or (expected is not None and chunks != expected):
        raise ValueError(f"{count:,} points in {chunks:,} chunks")
    at = start + 8
    for nbytes in _chunk_nbytes(content, start, laszip):
        if nbytes < 0 or at + nbytes > table:
            raise ValueError("its chunks are longer than the file")
        _check_layers(view[at : at + nbytes], items, record_nbytes)
        at += nbytes


def _items(laszip: memoryview) -> tuple[list[tuple[int, int]], int]:
    """Return type and bytes of each item, and the points of a chunk."""
    if len(laszip) < _RECORD_NBYTES:
        raise ValueError(f"its LASzip record has {len(laszip)} bytes")
    (points,) = struct.unpack_from("<I", laszip, 12)
    (count,) = struct.unpack_from("<H", laszip, 32)
    if count > _MAX_ITEMS or len(laszip) < _RECORD_NBYTES + _ITEM.size * count:
        raise ValueError(f"its LASzip record promises {count:,} items")
    spans = range(_RECORD_NBYTES, _RECORD_NBYTES + _ITEM.size * count, _ITEM.size)
    return [_ITEM.unpack_from(laszip, at)[:2] for at in spans], points


def _chunk_nbytes(content: Buffer, start: int, laszip: memoryview) -> list[int]:
    try:
        import lazrs
    except ModuleNotFoundError as error:
        raise missing_extra("reading LAZ", "points") from error
    file = io.BytesIO(content)
    file.seek(start)
    library: Any = lazrs
    try:
        table = library.read_chunk_table(file, library.LazVlr(bytes(laszip)))
    except Exception as error:
        raise ValueError(f"its table of chunks is damaged: {error}") from error
    except BaseException as error:  # a panic of Rust code derives from it alone
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError("its table of chunks is damaged") from error
    return [int(nbytes) for _, nbytes in table]


def _check_layers(chunk: memoryview, items: list[tuple[int, int]], first: int) -> None:
    """Check that the layers of a chunk are within it; other items than of LAS 1.4 have none."""
    layers = sum(nbytes if kind == _EXTRA_BYTES else _LAYERS.get(kind, 0) for kind, nbytes in items)
    if not layers:
        return
    head = first + 4 + 4 * layers
    if head > len(chunk):
        raise ValueError(f"a chunk has {len(chunk):,} bytes, and its layers {head:,} or more")
    sizes = np.frombuffer(chunk[first + 4 : head], "<u4")
    promised = head + int(sizes.sum(dtype=np.int64))
    if promised > len(chunk):
        raise ValueError(f"the layers of a chunk promise {promised:,} bytes of {len(chunk):,}")
