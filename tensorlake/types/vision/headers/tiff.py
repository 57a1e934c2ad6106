"""TIFF's table of tags, which EXIF uses too: size, channels, orientation.

    II 2A 00 | MM 00 2A         byte order and 42
    offset u32                  of the first table: count u16, then entries of 12 bytes
                                tag u16 | type u16 | count u32 | value, or its offset

(TIFF 6.0, section 2; EXIF 2.32 keeps its tables in the same form.) A file of several pages has
an offset of the next table after the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tensorlake.types.vision.headers.header import ImageHeader

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["exif_orientation", "is_lossy_tiff", "parse_tiff_header", "tiff_pages"]

_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II*\x00": "little", b"MM\x00*": "big"}
_ENTRY_NBYTES = 12
_SHORT, _LONG = 3, 4
_NBYTES = {_SHORT: 2, _LONG: 4}
_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION, _SAMPLES, _EXTRA, _FORMAT = (
    256, 257, 258, 262, 274, 277, 338, 339,
)  # fmt: skip
_MIN_IS_WHITE, _RGB, _PALETTE, _CMYK = 0, 2, 3, 5
_COMPRESSION, _UNCOMPRESSED = 259, 1
_WITH_LOSS = frozenset({6, 7, 33003, 33005, 34712, 34887, 34892, 50001, 50002})
"""Codecs that lose, or may: JPEG, JPEG 2000, LERC, WebP and JPEG XL (registered values)."""
_UNSIGNED = 1
_UPRIGHT, _LAST_ORIENTATION = 1, 8


@dataclass(frozen=True, slots=True)
class _Table:
    tags: dict[int, tuple[int, ...]]
    next_offset: int

    def one(self, tag: int, default: int) -> int:
        return self.tags.get(tag, (default,))[0]


def parse_tiff_header(data: Buffer) -> ImageHeader:
    """Read the first table of a TIFF.

    Raises:
        ValueError: The bytes are not a TIFF, are damaged, or contain more than one image.
    """
    table = _read_table(data)
    if table.next_offset:
        raise ValueError('it has several pages, use tl.Sequence(tl.Image("tiff"))')
    width, height = table.one(_WIDTH, 0), table.one(_HEIGHT, 0)
    samples, photometric = table.one(_SAMPLES, 1), table.one(_PHOTOMETRIC, 1)
    bits = table.tags.get(_BITS, (1,))
    if table.one(_FORMAT, _UNSIGNED) != _UNSIGNED:
        raise ValueError("its numbers are signed or floats; store them as tl.Array")
    if not (width and height and 0 < samples <= 5) or len(set(bits)) != 1:  # noqa: PLR2004 - CMYK, alpha
        raise ValueError(f"its table has {width}×{height}, {samples} samples of {bits} bits")
    if photometric == _MIN_IS_WHITE or bits[0] not in (8, 16):
        raise ValueError(f"images of {bits[0]} bits, or stored as negatives, are not supported")
    if photometric == _PALETTE:
        raise ValueError("a TIFF with a palette is not supported; convert it to RGB")
    extra = len(table.tags.get(_EXTRA, ()))
    colours = samples - extra
    if photometric == _CMYK:
        colours = 4
    return ImageHeader(
        "TIFF", height, width, colours, bits[0], extra > 0, orientation=_orientation(table)
    )


def is_lossy_tiff(data: Buffer) -> bool:
    """Whether a TIFF was compressed by a codec that loses, or may.

    Raises:
        ValueError: The bytes are not a TIFF, or its table is damaged.
    """
    return _read_table(data).one(_COMPRESSION, _UNCOMPRESSED) in _WITH_LOSS


def tiff_pages(data: Buffer) -> list[tuple[int, int]]:
    """Return height and width of each page of a TIFF.

    Raises:
        ValueError: The bytes are not a TIFF, or its tables are damaged.
    """
    sizes: list[tuple[int, int]] = []
    seen: set[int] = set()
    offset: int | None = None
    while offset != 0:
        table = _read_table(data, offset)
        sizes.append((table.one(_HEIGHT, 0), table.one(_WIDTH, 0)))
        offset = table.next_offset
        if offset in seen:
            raise ValueError("its tables of pages form a circle")
        seen.add(offset)
    return sizes


def exif_orientation(exif: Buffer) -> int:
    """Return the orientation in an EXIF block; 1 where it has none, or is damaged.

    A damaged block does not mean a damaged image: other programs ignore it, and so does this one.
    """
    try:
        return _orientation(_read_table(exif))
    except ValueError:
        return _UPRIGHT


def _orientation(table: _Table) -> int:
    orientation_tag = table.one(_ORIENTATION, _UPRIGHT)
    return orientation_tag if _UPRIGHT <= orientation_tag <= _LAST_ORIENTATION else _UPRIGHT


def _read_table(data: Buffer, offset: int | None = None) -> _Table:
    order = _ORDERS.get(bytes(data[:4]))
    if order is None:
        raise ValueError("it does not begin with a TIFF's II or MM")

    def number(at: int, nbytes: int) -> int:
        if at + nbytes > len(data):
            raise ValueError(f"data end before byte {at + nbytes}")
        return int.from_bytes(data[at : at + nbytes], order)

    start = number(4, 4) if offset is None else offset
    count = number(start, 2)
    tags: dict[int, tuple[int, ...]] = {}
    for entry in range(start + 2, start + 2 + count * _ENTRY_NBYTES, _ENTRY_NBYTES):
        kind, length = number(entry + 2, 2), number(entry + 4, 4)
        if kind not in _NBYTES or not 0 < length <= 8:  # noqa: PLR2004 - no tag read here has more
            continue
        nbytes = _NBYTES[kind]
        at = entry + 8 if nbytes * length <= 4 else number(entry + 8, 4)  # noqa: PLR2004 - fits
        tags[number(entry, 2)] = tuple(number(at + i * nbytes, nbytes) for i in range(length))
    after = start + 2 + count * _ENTRY_NBYTES
    return _Table(tags, number(after, 4) if after + 4 <= len(data) else 0)
