"""The header of an encoded image: the result of every format's header parser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["ImageFormat", "ImageHeader"]

ImageFormat: TypeAlias = Literal["JPEG", "PNG", "WebP", "AVIF", "JPEG 2000", "TIFF"]


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Size, channels and orientation of an encoded image, as stored.

    Attributes:
        channels: Stored colour channels, alpha not counted: 1 gray, 3 colour, 4 CMYK.
        depth: Bits of one channel of one pixel.
        has_alpha: Whether a further channel, or a transparent colour, stores opacity.
        orientation: EXIF's: 1 as stored, 2–8 rotated or mirrored when shown.
    """

    format: ImageFormat
    height: int
    width: int
    channels: int
    depth: int
    has_alpha: bool = False
    orientation: int = 1
