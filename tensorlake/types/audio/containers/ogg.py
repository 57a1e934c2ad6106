"""Ogg: pages of Vorbis or Opus packets (RFC 3533, RFC 7845, the Vorbis I specification).

    OggS | version | flags | granule position | serial | number | CRC-32 | sizes | packets

A page's granule position is the frame at which its last packet ends. Parts are whole pages. A
Vorbis packet overlaps the one before, so decoding is exact from the second on. Opus predicts from
all packets before: 0.5 s of them leave a difference below 1e-6 of full scale, which is 0 after 1 s
in all that was measured (RFC 7845 asks for 80 ms).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlake.types.audio.containers.track import Track, thinned
from tensorlake.types.base.file import Content, View, unpack_at, view_of

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["ogg_file", "parse_ogg"]

_HEAD = struct.Struct("<BqIIIB")
_PAGE_NBYTES = 27  # before the sizes
_CONTINUED, _FIRST, _LAST = 1, 2, 4
_NO_GRANULE = -1  # no packet ends on the page
_MAX_SIZES = 255
_OPUS_RATE = 48_000
_OPUS_LEAD_SECONDS = 0.5
_OPUS_RATES: Final = (8_000, 12_000, 16_000, 24_000, 48_000)
_VORBIS_PACKETS, _OPUS_PACKETS = 3, 2  # before the audio
_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class _Page:
    offset: int
    stop: int
    flags: int
    granule: int
    serial: int
    sizes: bytes

    @property
    def data(self) -> slice:
        return slice(self.offset + _PAGE_NBYTES + len(self.sizes), self.stop)


def parse_ogg(content: Content) -> Track | None:
    """Find the pages of an Ogg file; None for a codec whose parts cannot be read.

    Raises:
        ValueError: It is damaged, ends before its last page, or has several streams.
    """
    view = view_of(content)
    pages = _pages(view)
    if any(page.serial != pages[0].serial or page.flags & _FIRST for page in pages[1:]):
        raise ValueError("it has several streams; extract one: ffmpeg -i FILE -map 0:a:0 -c copy …")
    if not pages[-1].flags & _LAST:
        raise ValueError("it ends before its last page")
    first = bytes(view[pages[0].data])
    if first.startswith(b"\x01vorbis"):
        return _vorbis(view, pages, first)
    if first.startswith(b"OpusHead"):
        return _opus(view, pages, first)
    return None


def ogg_file(header: bytes, pages: Buffer) -> bytes:
    """Return a file of some pages; `header` is a track's."""
    return header + bytes(pages)


def _pages(view: View) -> list[_Page]:
    pages: list[_Page] = []
    offset = 0
    while offset < len(view):
        if offset + _PAGE_NBYTES > len(view) or view[offset : offset + 4] != b"OggS":
            raise ValueError(f"page {len(pages):,}, at byte {offset:,}, is not whole")
        flags, granule, serial, _, crc, count = unpack_at(_HEAD, view, offset + 5)
        sizes = bytes(view[offset + _PAGE_NBYTES : offset + _PAGE_NBYTES + count])
        stop = offset + _PAGE_NBYTES + count + sum(sizes)
        if stop > len(view) or _crc(bytes(view[offset:stop])) != crc:
            raise ValueError(f"page {len(pages):,}, at byte {offset:,}, is not whole")
        pages.append(_Page(offset, stop, flags, granule, serial, sizes))
        offset = stop
    if not pages:
        raise ValueError("it is empty")
    return pages


def _vorbis(view: View, pages: list[_Page], first: bytes) -> Track:
    channels, rate = struct.unpack_from("<BI", first, 11)
    block = 1 << (first[28] >> 4)  # the longer of the two block sizes
    packets, begin = _first_packets(view, pages, _VORBIS_PACKETS)
    comment = b"\x03vorbis" + bytes(8) + b"\x01"  # no vendor, no comment; theirs may be a cover
    header = _header_pages([packets[0], comment, packets[2]], pages[0].serial)
    # a packet that continues from the page before is lost, and the next gives no frames
    return _track(pages[begin:], (rate, channels), ("vorbis", 0, block), header)


def _opus(view: View, pages: list[_Page], first: bytes) -> Track:
    channels, delay, asked = struct.unpack_from("<BHI", first, 9)
    rate = next((one for one in _OPUS_RATES if asked and asked <= one), _OPUS_RATE)
    packets, begin = _first_packets(view, pages, _OPUS_PACKETS)
    comment = b"OpusTags" + bytes(8)
    header = _header_pages([packets[0], comment], pages[0].serial)
    lead = int(_OPUS_LEAD_SECONDS * rate)
    return _track(pages[begin:], (rate, channels), ("opus", delay, lead), header)


def _track(
    pages: list[_Page], stream: tuple[int, int], codec: tuple[str, int, int], header: bytes
) -> Track:
    """Return the track of the pages of audio.

    Args:
        pages: They, to the last.
        stream: Rate and channels.
        codec: Its name, the delay in granules, and the frames that a start takes to be exact.
        header: Pages before them.
    """
    (rate, channels), (name, delay, lead) = stream, codec
    if not rate or not channels:
        raise ValueError("its rate or its number of channels is 0")
    ended = [page for page in pages if page.granule != _NO_GRANULE]
    if not ended:
        raise ValueError("it has no frame of audio")
    ratio = _OPUS_RATE // rate if name == "opus" else 1
    stops = np.array([page.granule for page in ended], dtype=np.int64) - delay
    stops = np.maximum(stops, 0) // ratio
    if (np.diff(stops) < 0).any():
        raise ValueError("its granule positions descend")
    ends = np.array([page.stop for page in ended], dtype=np.int64)
    firsts = thinned(stops, rate)
    starts = np.concatenate([[0], stops[firsts[1:] - 1] + lead])
    lasts = np.append(firsts[1:], len(ended)) - 1
    cuts, frames = ends[lasts], int(stops[-1])
    if len(starts) > 1:
        starts[-1] = frames  # the last page's position is cut short: alone it tells no beginning
    track = Track(
        *("ogg", name, rate, channels, frames, delay),
        *(header, cuts, starts, stops[lasts]),
    )
    return track.after(pages[0].offset)


def _first_packets(view: View, pages: list[_Page], count: int) -> tuple[list[bytes], int]:
    """Return the packets before the audio, and the page with which it begins."""
    packets: list[bytes] = []
    pending: list[bytes] = []
    for number, page in enumerate(pages):
        at = page.data.start
        for size in page.sizes:
            pending.append(bytes(view[at : at + size]))
            at += size
            if size < _MAX_SIZES:
                packets.append(b"".join(pending))
                pending = []
        if len(packets) >= count:
            if len(packets) > count or pending:
                raise ValueError("its audio does not begin on a page of its own")
            return packets, number + 1
    raise ValueError("its header is not whole")


def _header_pages(packets: list[bytes], serial: int) -> bytes:
    """Return pages of packets, each packet on pages of its own."""
    made: list[bytes] = []
    for position, packet in enumerate(packets):
        for begin, sizes in _page_sizes(packet):
            flags = (_FIRST if position == 0 else 0) | (_CONTINUED if begin else 0)
            head = struct.pack("<4sBBqIIIB", b"OggS", 0, flags, 0, serial, len(made), 0, len(sizes))
            page = bytearray(head + sizes + packet[begin : begin + sum(sizes)])
            page[22:26] = _crc(page).to_bytes(4, "little")
            made.append(bytes(page))
    return b"".join(made)


def _page_sizes(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Cut a packet into pages: where each begins, and its table of sizes."""
    sizes = bytes([_MAX_SIZES] * (len(packet) // _MAX_SIZES) + [len(packet) % _MAX_SIZES])
    for begin in range(0, len(sizes), _MAX_SIZES):
        yield begin * _MAX_SIZES, sizes[begin : begin + _MAX_SIZES]


def _crc(page: Buffer) -> int:
    """Return the CRC-32 of a page, its own field as 0: zlib's polynomial, the bits reversed."""
    data = bytearray(page)
    data[22:26] = bytes(4)
    crc = zlib.crc32(data.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)
