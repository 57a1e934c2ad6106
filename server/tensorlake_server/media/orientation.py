"""Images as they are stored, ignoring the camera's orientation.

A JPEG's EXIF header may tell viewers to turn or mirror it; browsers do, and canvases cannot prevent
it. Arrays read by the SDK are never turned, and boxes refer to their pixels. So the tag's value is
set to 1, "as it is", in the bytes that a browser gets; nothing else changes, not the length.

    JPEG      FF D8, then segments: FF marker · u16 length (big-endian, itself included) · payload
    APP1      marker E1, payload "Exif" 0 0 + TIFF: "II" or "MM" · u16 42 · u32 offset of IFD 0
    IFD       u16 count, then 12 bytes an entry: u16 tag · u16 type · u32 count · value
"""

from __future__ import annotations

import struct

__all__ = ["without_turn"]

APP1 = 0xE1
START_OF_SCAN = 0xDA
EXIF = b"Exif\x00\x00"
ENTRY_NBYTES = 12
ORIENTATION = 0x0112
SHORT = 3
AS_IT_IS = 1


def without_turn(jpeg: bytes) -> bytes:
    """Return a JPEG whose header turns nothing; damaged headers are left as they are."""
    place = _find_orientation(jpeg)
    if place is None:
        return jpeg
    offset, order = place
    value = struct.pack(f"{order}H", AS_IT_IS)
    if jpeg[offset : offset + 2] == value:
        return jpeg
    return jpeg[:offset] + value + jpeg[offset + 2 :]


def _find_orientation(jpeg: bytes) -> tuple[int, str] | None:
    """Find where the value of the orientation tag is, and its byte order."""
    offset = 2
    while offset + 4 <= len(jpeg) and jpeg[offset] == 0xFF:  # noqa: PLR2004 - every marker's first byte
        marker = jpeg[offset + 1]
        length = int.from_bytes(jpeg[offset + 2 : offset + 4], "big")
        if marker == START_OF_SCAN or length < 2:  # noqa: PLR2004 - it counts its own two bytes
            return None
        payload = offset + 4
        if marker == APP1 and jpeg.startswith(EXIF, payload):
            return _find_in_tiff(jpeg, payload + len(EXIF), offset + 2 + length)
        offset += 2 + length
    return None


def _find_in_tiff(jpeg: bytes, start: int, stop: int) -> tuple[int, str] | None:
    stop = min(stop, len(jpeg))
    order = {b"II": "<", b"MM": ">"}.get(jpeg[start : start + 2])
    if order is None or start + 8 > stop:
        return None
    directory = start + struct.unpack_from(f"{order}I", jpeg, start + 4)[0]
    if directory + 2 > stop:
        return None
    (count,) = struct.unpack_from(f"{order}H", jpeg, directory)
    for i in range(count):
        entry = directory + 2 + ENTRY_NBYTES * i
        if entry + ENTRY_NBYTES > stop:
            return None
        tag, kind = struct.unpack_from(f"{order}HH", jpeg, entry)
        if tag == ORIENTATION and kind == SHORT:
            return entry + 8, order
    return None
