"""Many pictures in one body: the answer of ``POST …/thumbnails``.

    body   = frame*
    frame  = u32 index in the request's rows · u8 kind · u8[3] zero
             · u32 width · u32 height of the whole sample · u32 nbytes · nbytes of picture
    kind   = 0 no value · 1 JPEG · 2 PNG · 3 error (the bytes are a UTF-8 message)

Integers are little-endian. Frames come in the order of the request, each as soon as it is made.
"""

from __future__ import annotations

import struct
from enum import IntEnum

__all__ = ["FRAMES_TYPE", "FrameKind", "encode_frame"]

FRAMES_TYPE = "application/vnd.tensorlake.frames"
HEADER = struct.Struct("<IB3xIII")
MAX_MESSAGE_NBYTES = 500


class FrameKind(IntEnum):
    """What the bytes of a frame are."""

    NONE = 0
    JPEG = 1
    PNG = 2
    ERROR = 3


def encode_frame(
    index: int, kind: FrameKind, body: bytes = b"", *, width: int = 0, height: int = 0
) -> bytes:
    """Lay out one frame.

    >>> encode_frame(7, FrameKind.NONE).hex()
    '0700000000000000000000000000000000000000'
    """
    if kind is FrameKind.ERROR:
        body = body[:MAX_MESSAGE_NBYTES]
    return HEADER.pack(index, kind, width, height, len(body)) + body
