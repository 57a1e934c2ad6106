"""PNG files whose rows have one filter: written by libdeflate, and read without libpng.

    signature | IHDR | … | IDAT: deflated  filter u8 · row   filter u8 · row   … | IEND

A filter replaces the bytes of a row by differences: to the pixel at the left (Sub), to the row
above (Up), or none. libpng chooses one of five for each row, and its readers undo them byte by
byte; where all rows have the same, that is a sum along an axis. Files stay a little larger or
smaller than libpng's, and are read in less than half the time (docs/decisions/0587). Files of other
filters, depths or colours are read by libpng.
"""

from __future__ import annotations

import struct
import sys
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["decode_rows", "encode_rows"]

Bytes = NDArray[np.uint8]

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
COLOUR_TYPES: Final = {1: 0, 2: 4, 3: 2, 4: 6}
"""By the number of channels (PNG 11.2.1)."""

NONE, SUB, UP = 0, 1, 2
LEVEL: Final = 6
TRIAL_LEVEL: Final = 1
TRIAL_NBYTES: Final = 16 << 10
"""Bytes in the middle of an image by which its filter is chosen."""

PEEKED_ROWS: Final = 4
"""Rows whose filters are read before all are inflated: libpng's files differ in them by then."""

CHUNKS_LIMIT: Final = 4096
"""Chunks of a file that is read: libpng writes one for each 8 KiB, and empty ones take time."""

SUM_NBYTES: Final = 32 << 10
"""Bytes that are summed down their columns at once: those of a core's first cache."""

_CHUNK = struct.Struct(">I4s")
_HEADER = struct.Struct(">IIBBBBB")
_IHDR_END = 33
_CRC_NBYTES = 4


def encode_rows(pixels: np.ndarray, library: Any) -> bytes:
    """Encode pixels as a PNG.

    Args:
        pixels: uint8 or uint16 (height, width, channels), of 1 to 4 channels.
        library: imagecodecs.
    """
    height, width, channels = pixels.shape
    depth = 8 * pixels.dtype.itemsize
    stored = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">"))
    rows = stored.view(np.uint8).reshape(height, -1)
    kind = _filter_of(rows, channels * pixels.dtype.itemsize, library)
    filtered = _filtered(rows, kind, channels * pixels.dtype.itemsize)
    header = _HEADER.pack(width, height, depth, COLOUR_TYPES[channels], 0, 0, 0)
    deflated = bytes(library.deflate_encode(filtered, level=LEVEL))
    parts = (b"IHDR", header), (b"IDAT", deflated), (b"IEND", b"")
    return SIGNATURE + b"".join(_chunk(name, data) for name, data in parts)


def decode_rows(sample: Buffer, pixels: np.ndarray, library: Any) -> bool:
    """Decode a PNG into an array of its size, if all its rows have one of the three filters.

    Args:
        sample: The file.
        pixels: uint8 or uint16 (height, width, channels).
        library: imagecodecs.

    Returns:
        Whether it did; otherwise the file is libpng's to decode, or to call damaged.
    """
    height, width, channels = pixels.shape
    depth = 8 * pixels.dtype.itemsize
    expected = _HEADER.pack(width, height, depth, COLOUR_TYPES.get(channels, 255), 0, 0, 0)
    if bytes(sample[16:29]) != expected or not pixels.flags.c_contiguous:
        return False
    deflated = _deflated(sample)
    if deflated is None:
        return False
    row_nbytes = pixels.nbytes // height
    kind = _peeked(deflated, height, row_nbytes)
    if kind is None:
        return False
    try:
        raw: Bytes = library.deflate_decode(
            deflated, out=np.empty(height * (1 + row_nbytes), np.uint8)
        )
    except RuntimeError:
        return False
    if len(raw) != height * (1 + row_nbytes):
        return False
    rows = raw.reshape(height, 1 + row_nbytes)
    if bool((rows[:, 0] != kind).any()):
        return False
    _sum(rows[:, 1:], kind, pixels, library)
    if depth > 8 and sys.byteorder == "little":  # noqa: PLR2004 - bits of a byte
        pixels.byteswap(inplace=True)
    return True


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(name))
    return _CHUNK.pack(len(data), name) + data + checksum.to_bytes(4, "big")


def _filter_of(rows: Bytes, pixel_nbytes: int, library: Any) -> int:
    """Return the filter by which rows in the middle of an image take the fewest bytes."""
    count = max(1, TRIAL_NBYTES // rows.shape[1])
    middle = rows[max(0, (len(rows) - count) // 2) :][:count]

    def nbytes(kind: int) -> int:
        return len(library.deflate_encode(_filtered(middle, kind, pixel_nbytes), level=TRIAL_LEVEL))

    return min((NONE, SUB, UP), key=nbytes)


def _filtered(rows: Bytes, kind: int, pixel_nbytes: int) -> Bytes:
    """Return rows behind their filter; the row above the first is of zeros."""
    made = np.empty((len(rows), 1 + rows.shape[1]), np.uint8)
    made[:, 0] = kind
    made[:, 1:] = rows
    if kind == SUB:
        made[:, 1 + pixel_nbytes :] -= rows[:, :-pixel_nbytes]
    elif kind == UP:
        made[1:, 1:] -= rows[:-1]
    return made


def _deflated(sample: Buffer) -> Buffer | None:
    """Return the data of the IDAT chunks.

    None if one is damaged, if there are very many, or none before tRNS or another critical chunk,
    whose name begins with a capital: a decoder that does not know it has to refuse the file.
    """
    view, position = memoryview(sample), _IHDR_END
    found: list[memoryview] = []
    count = 0
    while position + _CHUNK.size + _CRC_NBYTES <= len(view):
        if (count := count + 1) > CHUNKS_LIMIT:
            return None
        length, name = _CHUNK.unpack_from(view, position)
        begin = position + _CHUNK.size
        end = begin + length
        if end + _CRC_NBYTES > len(view) or name in {b"tRNS", b"IEND"}:
            break
        if name == b"IDAT":
            own = int.from_bytes(view[end : end + _CRC_NBYTES], "big")
            if zlib.crc32(view[begin - 4 : end]) != own:
                return None
            found.append(view[begin:end])
        elif found or name[:1].isupper():
            break
        position = end + _CRC_NBYTES
    return found[0] if len(found) == 1 else b"".join(found) or None


def _peeked(deflated: Buffer, height: int, row_nbytes: int) -> int | None:
    """Return the filter of the first rows; None if they differ, or have another."""
    count = min(height, PEEKED_ROWS)
    nbytes = count * (1 + row_nbytes)
    try:
        start = zlib.decompressobj().decompress(deflated[: 2 * nbytes], nbytes)
    except zlib.error:
        return None
    kinds = {*start[:: 1 + row_nbytes]}
    return start[0] if len(kinds) == 1 and start[0] <= UP else None


def _sum(rows: Bytes, kind: int, pixels: np.ndarray, library: Any) -> None:
    """Undo a filter: write the sums of differences into an image."""
    height, width, _ = pixels.shape
    out: Bytes = pixels.view(np.uint8).reshape(height, -1)
    if kind == NONE:
        out[...] = rows
    elif kind == SUB:
        by_pixel = height, width, -1
        library.delta_decode(rows.reshape(by_pixel), axis=1, out=out.reshape(by_pixel))
    else:
        count = max(1, SUM_NBYTES // rows.shape[1])
        for start in range(0, height, count):
            block = rows[start : start + count]
            if start:
                block[0] += out[start - 1]
            library.delta_decode(block, axis=0, out=out[start : start + count])
