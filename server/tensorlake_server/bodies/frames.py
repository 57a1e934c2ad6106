"""Many images in one body: the answer of ``POST …/thumbnails``.

    body   = frame*
    frame  = u32 index in the request's rows · u8 kind · u8[3] zero
             · u32 width · u32 height of the whole sample · u32 nbytes · nbytes of image
    kind   = 0 no value · 1 JPEG · 2 PNG · 3 error (the bytes are a UTF-8 message)

Integers are little-endian. Frames come in the order of the request, each as soon as it is made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake_server.media.images import EncodedImage

__all__ = ["FRAMES_TYPE", "Frame", "FrameKind"]

FRAMES_TYPE = "application/vnd.tensorlake.frames"
HEADER = struct.Struct("<IB3xIII")
MAX_MESSAGE_NBYTES = 500


class FrameKind(IntEnum):
    """The content of a frame."""

    NONE = 0
    JPEG = 1
    PNG = 2
    ERROR = 3


MEDIA_TYPES = {FrameKind.JPEG: "image/jpeg", FrameKind.PNG: "image/png"}


@dataclass(frozen=True, slots=True)
class Frame:
    """One image, or a message in its place; ``width`` and ``height`` are the sample's own."""

    kind: FrameKind
    body: bytes = b""
    width: int = 0
    height: int = 0

    @classmethod
    def of_error(cls, error: Exception, *, shown: Callable[[str], str]) -> Frame:
        """Explain why there is no image, in a text that fits into a cell.

        Args:
            error: Its reason.
            shown: Returns a message without places that those who ask need not know.
        """
        cut = shown(str(error)).encode(errors="replace")[:MAX_MESSAGE_NBYTES]
        return cls(FrameKind.ERROR, cut.decode(errors="ignore").encode())  # no half of a letter

    @classmethod
    def of_image(cls, image: EncodedImage) -> Frame:
        """Frame an image."""
        kind = FrameKind.PNG if image.media_type == "image/png" else FrameKind.JPEG
        return cls(kind, image.data, image.width, image.height)

    @property
    def media_type(self) -> str | None:
        """The image's media type; None without an image."""
        return MEDIA_TYPES.get(self.kind)

    @property
    def nbytes(self) -> int:
        """How long it is, encoded."""
        return HEADER.size + len(self.body)

    def encode(self, index: int) -> bytes:
        """Lay it out as the answer for ``rows[index]`` of a request.

        >>> Frame(FrameKind.NONE).encode(7).hex()
        '0700000000000000000000000000000000000000'
        """
        return HEADER.pack(index, self.kind, self.width, self.height, len(self.body)) + self.body
