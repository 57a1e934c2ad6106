"""Parse the first bytes of an encoded image: format, size, channels.

Nothing is decoded. The layouts (ITU T.81 B.1, W3C PNG 11.2):

    JPEG  FF D8, then segments  FF marker | length u16 (with itself) | …
          SOFn segment           precision u8 | height u16 | width u16 | components u8 | …
          up to the first SOS segment, where the entropy-coded data begin
    PNG   89 50 4E 47 0D 0A 1A 0A, then chunks  length u32 | type | data | CRC-32 of type and data
          IHDR (the first)       width u32 | height u32 | bit depth u8 | colour type u8 | …

Numbers are big-endian. Damage that these bytes show raises ValueError with the reason.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tensorlake.types.vision.headers.header import ImageHeader
from tensorlake.types.vision.headers.tiff import exif_orientation

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["image_format", "parse_jpeg_header", "parse_png_header", "png_frames"]

_MAGIC: tuple[tuple[bytes, int, str], ...] = (
    (b"\xff\xd8\xff", 0, "JPEG"),
    (b"\x89PNG\r\n\x1a\n", 0, "PNG"),
    (b"GIF8", 0, "GIF"),
    (b"WEBP", 8, "WebP"),
    (b"BM", 0, "BMP"),
    (b"II*\x00", 0, "TIFF"),
    (b"MM\x00*", 0, "TIFF"),
    (b"\x00\x00\x00\x0cjP  ", 0, "JPEG 2000"),
    (b"\xff\x4f\xff\x51", 0, "JPEG 2000"),
    (b"ftypavif", 4, "AVIF"),
    (b"ftypavis", 4, "AVIF"),
    (b"ftypheic", 4, "HEIC"),
    (b"DICM", 128, "DICOM"),
    (b"%PDF", 0, "PDF"),
)

# Markers without a length: TEM, RST0–7.
_STANDALONE = frozenset((0x01, *range(0xD0, 0xD8)))
_MARKER, _SOS, _EOI, _APP1 = 0xFF, 0xDA, 0xD9, 0xE1
# Quantization and Huffman tables, restart intervals, comments and applications' data, EXIF apart.
_TABLES = frozenset((0xDB, 0xC4, 0xDD, 0xFE, 0xE0, *range(0xE2, 0xF0)))
_SEGMENT = struct.Struct(">BBH")  # FF, marker, length
_FRAME = struct.Struct(">BHHB")  # precision, height, width, components; and three bytes for each
_EXIF = b"Exif\x00\x00"
_LENGTH_NBYTES = 2  # a segment's length counts itself
_JPEG_DEPTH = 8
# Start of frame: baseline, extended, progressive are what decoders read.
_READABLE_FRAMES = frozenset((0xC0, 0xC1, 0xC2))
_OTHER_FRAMES = {
    **dict.fromkeys((0xC3, 0xC7, 0xCB, 0xCF), "lossless JPEG"),
    **dict.fromkeys((0xC5, 0xC6, 0xCD, 0xCE), "hierarchical JPEG"),
    **dict.fromkeys((0xC9, 0xCA), "arithmetic-coded JPEG"),
}
_FRAMES_KEPT = 1024
"""Frame headers whose meaning is kept: the files of a source have few sizes."""
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # by colour type; 3 is a palette of RGB
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PNG_GRAY_ALPHA, _PNG_RGBA = 4, 6
_IHDR_END = 8 + 8 + 13 + 4


def image_format(data: Buffer) -> str | None:
    """Return the format of an encoded image by its first bytes; None when unknown.

    >>> image_format(b"GIF89a")
    'GIF'
    """
    head = bytes(data[:132])
    for magic, offset, name in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return name
    return None


def parse_jpeg_header(data: Buffer) -> ImageHeader:
    """Read the frame header of a JPEG.

    Raises:
        ValueError: The bytes are not a JPEG, end before its scan, or are of a kind that no
            usual decoder reads.
    """
    return parse_jpeg_head(data)[0]


def parse_jpeg_head(data: Buffer) -> tuple[ImageHeader, int]:
    """Read the frame header of a JPEG, and where its first scan begins.

    Raises:
        ValueError: As `parse_jpeg_header`.
    """
    if bytes(data[:2]) != b"\xff\xd8":
        raise ValueError("it does not begin with a JPEG's FF D8")
    header: ImageHeader | None = None
    orientation = 1
    position, end = 2, len(data)
    parse_segment, inside = _SEGMENT.unpack_from, end - _SEGMENT.size
    while True:
        if position <= inside:
            first, marker, length = parse_segment(data, position)
            after = position + 2 + length
            if (
                marker in _TABLES and first == _MARKER and length >= _LENGTH_NBYTES and after <= end
            ):  # most segments do not describe the image
                position = after
                continue
        elif position + 2 <= end:
            first, marker, length = data[position], data[position + 1], 0
        else:
            raise ValueError("data end before the image begins")
        if first != _MARKER:
            raise ValueError(f"no marker at byte {position}")
        if marker == _MARKER:  # the byte before it was padding
            position += 1
            continue
        position += 2
        if marker in _STANDALONE:
            continue
        if marker == _EOI:
            raise ValueError("it ends before the image begins")
        if marker in _OTHER_FRAMES:
            raise ValueError(f"{_OTHER_FRAMES[marker]} is not supported")
        if length < _LENGTH_NBYTES or position + length > end:
            raise ValueError(f"data end inside the segment at byte {position - 2}")
        if marker in _READABLE_FRAMES:
            if header is not None:
                raise ValueError("it has two frame headers")
            header = _parse_frame(data, position + 2, position + length)
        elif marker == _APP1 and bytes(data[position + 2 : position + 8]) == _EXIF:
            orientation = exif_orientation(data[position + 8 : position + length])
        elif marker == _SOS:
            if header is None:
                raise ValueError("it has no frame header")
            turned = header if orientation == 1 else replace(header, orientation=orientation)
            return turned, position + length
        position += length


def parse_png_header(data: Buffer) -> ImageHeader:
    """Read the IHDR chunk of a PNG.

    Raises:
        ValueError: The bytes are not a PNG, or its first chunk is damaged.
    """
    if bytes(data[:8]) != b"\x89PNG\r\n\x1a\n":
        raise ValueError("it does not begin with a PNG's signature")
    if len(data) < _IHDR_END:
        raise ValueError("data end inside the header")
    if bytes(data[8:16]) != b"\x00\x00\x00\x0dIHDR":
        raise ValueError("it does not begin with IHDR")
    if zlib.crc32(data[12:29]) != int.from_bytes(data[29:33], "big"):
        raise ValueError("the checksum of IHDR is wrong")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    depth, colour = data[24], data[25]
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31) or depth not in _PNG_DEPTHS.get(
        colour, ()
    ):
        raise ValueError(f"IHDR has {width}×{height}, depth {depth}, colour type {colour}")
    channels = {_PNG_GRAY_ALPHA: 1, _PNG_RGBA: 3}.get(colour, _PNG_CHANNELS[colour])
    is_transparent, orientation = _parse_png_chunks(data)
    has_alpha = colour in (_PNG_GRAY_ALPHA, _PNG_RGBA) or is_transparent
    return ImageHeader("PNG", height, width, channels, depth, has_alpha, orientation)


def png_frames(data: Buffer) -> int:
    """Return the number of frames that the chunk acTL of a PNG records; 0 without one."""
    position, chunk = _IHDR_END, b""
    while position + 12 <= len(data) and chunk != b"IDAT":
        chunk = bytes(data[position + 4 : position + 8])
        if chunk == b"acTL":
            return int.from_bytes(data[position + 8 : position + 12], "big")
        position += 12 + int.from_bytes(data[position : position + 4], "big")
    return 0


def _parse_frame(data: Buffer, start: int, stop: int) -> ImageHeader:
    nbytes = stop - start
    if nbytes < _FRAME.size or nbytes < _FRAME.size + 3 * data[start + _FRAME.size - 1]:
        raise ValueError("its frame header is too short")
    return _header_of(bytes(data[start : start + _FRAME.size]))


@lru_cache(_FRAMES_KEPT)
def _header_of(frame: bytes) -> ImageHeader:
    depth, height, width, channels = _FRAME.unpack(frame)
    if depth != _JPEG_DEPTH:
        raise ValueError(f"{depth} bits per channel are not supported")
    if not height or not width or channels not in (1, 3, 4):
        raise ValueError(f"its frame header has {width}×{height}×{channels}")
    return ImageHeader("JPEG", height, width, channels, depth)


def _parse_png_chunks(data: Buffer) -> tuple[bool, int]:
    """Return whether a tRNS chunk is before the pixels, and the orientation of an eXIf chunk."""
    position, is_transparent, orientation = _IHDR_END, False, 1
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        chunk = bytes(data[position + 4 : position + 8])
        if chunk == b"IDAT":
            return is_transparent, orientation
        if chunk == b"eXIf":
            orientation = exif_orientation(data[position + 8 : position + 8 + length])
        is_transparent = is_transparent or chunk == b"tRNS"
        position += 12 + length
    raise ValueError("data end before the image begins")
