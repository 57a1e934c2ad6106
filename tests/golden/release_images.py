"""Images of the golden datasets: their pixels, and their files as they were encoded once."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np

__all__ = ["lossless", "pixels_of", "png"]


def png(pixels: np.ndarray) -> bytes:
    """Encode pixels of 8 or 16 bits, gray, RGB or RGBA, as PNG."""
    height, width, channels = pixels.shape
    depth = 8 * pixels.dtype.itemsize
    lines = b"".join(
        b"\0" + pixels[row].astype(f">u{depth // 8}").tobytes() for row in range(height)
    )

    def block(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, depth, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + block(b"IHDR", head)
        + block(b"IDAT", zlib.compress(lines, 9))
        + block(b"IEND", b"")
    )


def pixels_of(number: int) -> np.ndarray:
    return (np.arange(3 * 4 * 3).reshape(3, 4, 3) * 7 + number).astype(np.uint8)


def lossless(pixels: np.ndarray, codec: str) -> bytes:
    import imagecodecs

    match codec:
        case "webp":
            return bytes(imagecodecs.webp_encode(pixels, lossless=True))
        case "tiff":
            from PIL import Image

            Image.fromarray(pixels).save(file := io.BytesIO(), "tiff")
            return file.getvalue()
        case _:
            return bytes(imagecodecs.jpeg2k_encode(pixels, codecformat="jp2", reversible=True))
