"""Check that an encoded image is complete, by its last bytes, and one, without decoding it.

    JPEG       FF D9 after the scans. In scans FF is followed by 00 or a restart marker, and other
               segments, such as EXIF with a thumbnail of its own, record their lengths
    PNG        the chunk IEND; no chunk acTL of several frames
    TIFF       each strip or tile ends inside the file
    JPEG 2000  the box of the code stream ends inside the file, or the stream ends with FF D9

(ITU T.81 B.1, PNG 11.2.5, TIFF 6.0, ISO 15444-1.) WebP and AVIF store their lengths first: reading
their headers finds such damage. Cameras and editors may write other data after the end: padding, a
second image, a film. Only decoding finds damage in the middle.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from tensorlake.types.vision.headers.encoded import png_frames

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["check_jpeg2000_end", "check_jpeg_end", "check_png_end", "check_tiff_end"]

_END = b"\xff\xd9"
_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd7\xff])", re.DOTALL)
_MARKER_NBYTES = 2
_IEND = b"\x00\x00\x00\x00IEND\xaeB`\x82"
_SIGNATURE_NBYTES, _CHUNK_NBYTES = 8, 12
_BOX_NBYTES, _LONG_BOX_NBYTES = 8, 16
_CODE_STREAM = b"\xff\x4f\xff\x51"
_STRIPS, _TILES = (273, 279), (324, 325)
_ENTRY_NBYTES = 12
_DTYPES = {3: "u2", 4: "u4"}


def check_jpeg_end(data: Buffer) -> None:
    """Look for the end of a JPEG.

    Raises:
        ValueError: It is missing.
    """
    if data[-2:] == _END:
        return
    position = _MARKER_NBYTES
    while (found := _MARKER.search(data, position)) is not None:
        position = found.end()
        if found.group() == _END:
            return
        position += int.from_bytes(data[position : position + 2], "big")
    raise ValueError("data end before the image does: no FF D9")


def check_png_end(data: Buffer) -> None:
    """Look for the last chunk of a PNG of one image.

    Raises:
        ValueError: It is missing, or there are several images.
    """
    if png_frames(data) > 1:
        raise ValueError('it is an animation, use tl.Sequence(tl.Image("png"))')
    if data[-len(_IEND) :] == _IEND:
        return
    position = _SIGNATURE_NBYTES
    while position + _CHUNK_NBYTES <= len(data):
        if bytes(data[position + 4 : position + 8]) == b"IEND":
            return
        position += _CHUNK_NBYTES + int.from_bytes(data[position : position + 4], "big")
    raise ValueError("data end before the image does: no IEND")


def check_jpeg2000_end(data: Buffer) -> None:
    """Look for the end of a JPEG 2000's code stream.

    Raises:
        ValueError: It is missing.
    """
    at = 0
    while bytes(data[:4]) != _CODE_STREAM:
        length, head = int.from_bytes(data[at : at + 4], "big"), _BOX_NBYTES
        if length == 1:
            length, head = int.from_bytes(data[at + 8 : at + 16], "big"), _LONG_BOX_NBYTES
        is_stream = bytes(data[at + 4 : at + 8]) == b"jp2c"
        if is_stream and length == 0:
            break
        if at + length > len(data) or length < head:
            raise ValueError(f"data end inside the box at byte {at}")
        if is_stream:
            return
        at += length
    if data[-2:] != _END:
        raise ValueError("data end before the image does: no FF D9")


def check_tiff_end(data: Buffer) -> None:
    """Look for the ends of a TIFF's strips or tiles.

    Raises:
        ValueError: One ends beyond the file.
    """
    order: Literal["little", "big"] = "little" if bytes(data[:2]) == b"II" else "big"
    start = int.from_bytes(data[4:8], order)
    count = int.from_bytes(data[start : start + 2], order)
    lists: dict[int, np.ndarray] = {}
    for at in range(start + 2, start + 2 + count * _ENTRY_NBYTES, _ENTRY_NBYTES):
        tag = int.from_bytes(data[at : at + 2], order)
        dtype = _DTYPES.get(int.from_bytes(data[at + 2 : at + 4], order))
        if tag in (*_STRIPS, *_TILES) and dtype is not None:
            length = int.from_bytes(data[at + 4 : at + 8], order)
            numbers = np.dtype(f"{'<' if order == 'little' else '>'}{dtype}")
            place = at + 8
            if length * numbers.itemsize > 4:  # noqa: PLR2004 - a value that does not fit is elsewhere
                place = int.from_bytes(data[place : place + 4], order)
            if place + length * numbers.itemsize > len(data):
                raise ValueError("data end inside the list of its strips")
            lists[tag] = np.frombuffer(data, numbers, length, place).astype(np.int64)
    for offsets, sizes in (_STRIPS, _TILES):
        if offsets in lists and sizes in lists and len(lists[offsets]) == len(lists[sizes]):
            stop = int((lists[offsets] + lists[sizes]).max(initial=0))
            if stop > len(data):
                raise ValueError(f"data end at byte {len(data):,}, and a strip at byte {stop:,}")
