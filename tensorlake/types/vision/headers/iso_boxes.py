"""JPEG 2000 and AVIF, whose files are boxes: size and channels.

    length u32 | type, 4 letters | content        length 1: a length u64 follows; 0: to the end

    JPEG 2000  jP··, ftyp, jp2h { ihdr { height u32, width u32, channels u16, depth - 1 u8, … } }
               (ISO 15444-1, annex I); or a bare code stream FF 4F with a SIZ segment
    AVIF       ftyp { brand }, meta { …, iprp { ipco { ispe { 0 u32, width u32, height u32 },
               pixi { 0 u32, channels u8, depth u8 × channels }, auxC, … } } }
               (ISO 23008-12, 6.5). The largest of several ispe is the image's; others are tiles.

Numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tensorlake.types.vision.headers.header import ImageHeader

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["is_lossy_jpeg2000", "parse_avif_header", "parse_jpeg2000_header"]

_HEAD_NBYTES = 8
_CODE_STREAM = b"\xff\x4f\xff\x51"
_COLOUR = 3
_VERSION_NBYTES = 4  # of a "full box": version u8 and flags u24
_ALPHA = b"auxiliary:alpha"
_CODING_STYLE, _TILE = b"\xff\x52", b"\xff\x90"
_TRANSFORM_AT = 13  # from the marker: lengths, progression, layers, colours, levels, block, style
_IRREVERSIBLE = 0


def parse_jpeg2000_header(data: Buffer) -> ImageHeader:
    """Read the image header box, or the SIZ segment, of a JPEG 2000.

    Raises:
        ValueError: The bytes are not a JPEG 2000, or are damaged.
    """
    if bytes(data[:4]) == _CODE_STREAM:
        return _parse_size_segment(data)
    for kind, content in _boxes(data):
        if kind != b"jp2h":
            continue
        boxes = dict(_boxes(content))
        header = boxes.get(b"ihdr", b"")
        if len(header) < 11:  # noqa: PLR2004 - up to the depth
            raise ValueError("its image header is too short")
        height, width = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
        channels = int.from_bytes(header[8:10], "big")
        return _jpeg2000(height, width, channels, int(header[10]) + 1, has_palette=b"pclr" in boxes)
    raise ValueError("it has no image header")


def parse_avif_header(data: Buffer) -> ImageHeader:
    """Read the properties of an AVIF's image.

    Raises:
        ValueError: The bytes are not an AVIF, are damaged, or a sequence of images.
    """
    boxes = list(_boxes(data))
    if not boxes or boxes[0][0] != b"ftyp":
        raise ValueError("it does not begin with ftyp")
    if bytes(boxes[0][1][:4]) == b"avis":
        raise ValueError("it is a sequence of images; store each as a row")
    meta = dict(boxes).get(b"meta")
    if meta is not None and b"mdat" not in dict(boxes) and b"idat" not in bytes(meta):
        raise ValueError("data end before the image begins")
    properties = dict(_boxes(meta[_VERSION_NBYTES:])).get(b"iprp", b"") if meta is not None else b""
    sizes: list[tuple[int, int]] = []
    listed: list[int] = []  # channels of the image, and of its alpha
    depth, has_alpha = 8, False
    for kind, content in _boxes(dict(_boxes(properties)).get(b"ipco", b"")):
        if kind == b"ispe" and len(content) >= 12:  # noqa: PLR2004 - version, width, height
            width, height = (int.from_bytes(content[at : at + 4], "big") for at in (4, 8))
            sizes.append((height, width))
        elif kind == b"pixi" and len(content) > _VERSION_NBYTES + 1:
            listed.append(int(content[_VERSION_NBYTES]))
            depth = max(depth, int(content[_VERSION_NBYTES + 1]))
        elif kind == b"auxC" and _ALPHA in bytes(content):
            has_alpha = True
    if not sizes or not all(max(sizes)):
        raise ValueError("it has no size")
    height, width = max(sizes, key=lambda size: size[0] * size[1])
    return ImageHeader("AVIF", height, width, max(listed, default=_COLOUR), depth, has_alpha)


def is_lossy_jpeg2000(data: Buffer) -> bool:
    """Whether the wavelets of a JPEG 2000 round: the irreversible 9-7 filter (ISO 15444-1, A.6.1).

    A reversible one may also have been cut at a rate, which its header does not tell.
    """
    if bytes(data[:4]) != _CODE_STREAM:
        data = dict(_boxes(data)).get(b"jp2c", b"")
    at = 2
    while at + _TRANSFORM_AT < len(data) and (marker := bytes(data[at : at + 2])) != _TILE:
        if marker == _CODING_STYLE:
            return int(data[at + _TRANSFORM_AT]) == _IRREVERSIBLE
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _parse_size_segment(data: Buffer) -> ImageHeader:
    """Parse FF 51, then length u16, capabilities u16, and u32: width, height, and their origin."""
    if len(data) < 43:  # noqa: PLR2004 - up to the first channel's depth
        raise ValueError("data end inside the header")
    numbers = [int.from_bytes(data[at : at + 4], "big") for at in range(8, 24, 4)]
    width, height = numbers[0] - numbers[2], numbers[1] - numbers[3]
    channels = int.from_bytes(data[40:42], "big")
    return _jpeg2000(height, width, channels, (data[42] & 0x7F) + 1, has_palette=False)


def _jpeg2000(
    height: int, width: int, channels: int, depth: int, *, has_palette: bool
) -> ImageHeader:
    if not (0 < height < 1 << 31 and 0 < width < 1 << 31 and 1 <= channels <= 4):  # noqa: PLR2004 - RGBA
        raise ValueError(f"its header has {width}×{height}×{channels}")
    if has_palette:
        raise ValueError("a JPEG 2000 with a palette is not supported")
    has_alpha = channels in (2, 4)
    return ImageHeader("JPEG 2000", height, width, channels - has_alpha, depth, has_alpha)


def _boxes(data: Buffer) -> Iterator[tuple[bytes, Buffer]]:
    at = 0
    while at + _HEAD_NBYTES <= len(data):
        length, head = int.from_bytes(data[at : at + 4], "big"), _HEAD_NBYTES
        if length == 1:
            length, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        stop = len(data) if length == 0 else at + length
        if stop > len(data) or stop < at + head:
            raise ValueError(f"data end inside the box at byte {at}")
        yield bytes(data[at + 4 : at + 8]), data[at + head : stop]
        at = stop
