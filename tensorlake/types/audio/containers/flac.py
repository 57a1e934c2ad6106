"""FLAC: frames, each with a header of its own (RFC 9639).

    fLaC | STREAMINFO | other metadata | frame | frame | …
    frame = 0xFFF8 or 0xFFF9, block size, rate, channels, number, CRC-8 | subframes | CRC-16

A frame does not tell its length: the next one is found by its header. Bytes of a subframe may look
like one; the checksum and the number, which must continue, exclude nearly all of them, and where
two candidates are left the CRC-16 of the frame before decides.

The CRC-16 of a frame with its checksum is 0, and so is that of frames one after another: one pass
over a file, many frames at once, finds damage in any of them, without decoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlake.types.audio.containers.crc import crc16
from tensorlake.types.audio.containers.track import Track, thinned
from tensorlake.types.base.file import (
    BLOCK_NBYTES,
    Content,
    FileView,
    View,
    pieces_of,
    unpack_at,
    view_of,
)

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["flac_file", "parse_flac"]

_STREAMINFO_NBYTES = 34
_MAX_FRAME_NBYTES = 1 << 22  # 65,535 frames of 8 channels of 32 bits, stored as they are: 2 MiB
_MAX_HEADER_NBYTES = 16
_MARKER = b"fLaC"
_WORD = struct.Struct(">I")
_SYNC_NBYTES = 4  # the fixed bytes of a header
_SYNC, _RESERVED_RATE, _RESERVED_CHANNELS = 0xFF, 15, 11
_LAST_BLOCK = 0x80
_TAG_NBYTES = 128  # an ID3v1 tag, which some programs append


def parse_flac(content: Content) -> Track:
    """Find the frames of a FLAC file.

    Raises:
        ValueError: It is damaged, ends before its samples do, or its header lies.
    """
    view = view_of(content)
    info, begin = _metadata(view)
    rate, channels, total = _stream(info)
    frames = _frames(view, begin)
    if not frames:
        raise ValueError("it has no frame of samples")
    end = _end_of(view, frames[-1].offset)
    if end is None:
        raise ValueError("its last frame is damaged, or not whole")
    own = _channels(view, frames[0].offset)
    if own != channels:
        raise ValueError(f"its header promises {channels} channels, and its frames have {own}")
    _check_frames(view, [*(frame.offset for frame in frames), end])
    offsets = np.array([frame.offset for frame in frames] + [end], dtype=np.int64)
    sizes = np.array([frame.size for frame in frames], dtype=np.int64)
    stops = np.cumsum(sizes)
    count = int(stops[-1])
    if total not in (0, count):
        raise ValueError(f"its header promises {total:,} frames, and it has {count:,}")
    firsts = thinned(stops, rate)
    cuts = np.append(offsets[firsts[1:]], len(view))
    starts = np.concatenate([[0], stops[firsts[1:] - 1]])
    stops = np.append(starts[1:], count)
    track = Track("flac", "flac", rate, channels, count, 0, info, cuts, starts, stops)
    return track.after(begin)


def flac_file(header: bytes, packets: Buffer, frames: int) -> bytes:
    """Return a file of some frames; `header` is a track's."""
    info = bytearray(header)
    info[13] &= 0xF0  # the number of frames has 36 bits
    info[13] |= frames >> 32 & 0x0F
    info[14:18] = (frames & 0xFFFFFFFF).to_bytes(4, "big")
    info[18:34] = bytes(16)  # MD5 of the samples: not computed
    return b"".join(
        [_MARKER, bytes([_LAST_BLOCK]), _STREAMINFO_NBYTES.to_bytes(3, "big"), info, packets]
    )


def _metadata(view: View) -> tuple[bytes, int]:
    """Return STREAMINFO, and where the frames begin."""
    offset = len(_MARKER)
    info = b""
    while True:
        if offset + 4 > len(view):
            raise ValueError("its metadata is not whole")
        head = unpack_at(_WORD, view, offset)[0]
        size = head & 0xFFFFFF
        if not info:
            if head >> 24 & 0x7F or size != _STREAMINFO_NBYTES:
                raise ValueError("its first metadata is not STREAMINFO")
            info = bytes(view[offset + 4 : offset + 4 + size])
        offset += 4 + size
        if head >> 31:
            break
    if len(info) < _STREAMINFO_NBYTES or offset > len(view):
        raise ValueError("its metadata is not whole")
    return info, offset


def _stream(info: bytes) -> tuple[int, int, int]:
    """Return rate, channels and frames of STREAMINFO."""
    packed = int.from_bytes(info[10:18], "big")
    rate, channels, total = packed >> 44, (packed >> 41 & 7) + 1, packed & (1 << 36) - 1
    if not rate:
        raise ValueError("its rate is 0")
    return rate, channels, total


@dataclass(frozen=True, slots=True)
class _Frame:
    offset: int
    number: int  # of the frame, or of its first sample where block sizes vary
    size: int  # in frames of the track


def _frames(view: View, begin: int) -> list[_Frame]:
    """Return the frames, whose numbers continue each other."""
    candidates: dict[int, list[_Frame]] = {}
    strategy = view[begin + 1] if begin + 1 < len(view) else 0
    for offset in _syncs(view, begin, strategy):
        frame = _header(view, offset)
        if frame is not None:
            candidates.setdefault(frame.number, []).append(frame)
    by_sample = bool(strategy & 1)
    found: list[_Frame] = []
    expected = 0
    while expected in candidates:
        after = found[-1].offset if found else begin - 1
        possible = [frame for frame in candidates.pop(expected) if frame.offset > after]
        frame = _true_one(view, found[-1].offset if found else None, possible)
        if frame is None:
            break
        found.append(frame)
        expected += frame.size if by_sample else 1
    if found and found[0].offset != begin:
        raise ValueError("its first frame is damaged")
    return found


def _syncs(view: View, begin: int, strategy: int) -> Iterator[int]:
    """Yield where a frame may begin: the sync code, and no reserved value."""
    before = b""
    for piece in pieces_of(view, begin, len(view)):
        data = np.frombuffer(b"".join([before, piece]) if before else piece, np.uint8)
        first = begin - len(before)
        begin += len(piece)
        before = bytes(data[-(_SYNC_NBYTES - 1) :])
        if len(data) < _SYNC_NBYTES:
            continue
        at = np.flatnonzero((data[:-3] == _SYNC) & (data[1:-2] == strategy))
        third, fourth = data[at + 2], data[at + 3]
        block, rate, channels, reserved = third >> 4, third & 15, fourth >> 4, fourth & 1
        is_valid = (block > 0) & (rate < _RESERVED_RATE) & (channels < _RESERVED_CHANNELS)
        is_valid &= reserved == 0
        yield from (at[is_valid] + first).tolist()


def _true_one(view: View, before: int | None, possible: list[_Frame]) -> _Frame | None:
    """Return the frame among candidates of the same number."""
    if len(possible) <= 1 or before is None:
        return possible[0] if possible else None
    for frame in possible:
        if _is_whole(view, before, frame.offset):
            return frame
    return None


def _header(view: View, offset: int) -> _Frame | None:
    """Parse the header of a frame (RFC 9639, 9.1); None if there is none."""
    head = bytes(view[offset : offset + _MAX_HEADER_NBYTES])
    if len(head) < 6 or head[0] != _SYNC or head[1] & 0xFE != 0xF8:  # noqa: PLR2004 - sync
        return None
    number, at = _coded_number(head)
    if at is None:
        return None
    block, rate = head[2] >> 4, head[2] & 15
    size = _BLOCK_SIZES[block]
    if block in (6, 7):
        width = block - 5
        size = int.from_bytes(head[at : at + width], "big") + 1
        at += width
    at += _RATE_NBYTES.get(rate, 0)
    if at >= len(head) or _crc8(head[:at]) != head[at]:
        return None
    return _Frame(offset, number, size)


def _channels(view: View, offset: int) -> int:
    """Return the channels of a frame: above 8 independent ones, codes are of stereo."""
    code = bytes(view[offset : offset + 4])[3] >> 4
    return code + 1 if code < 8 else 2  # noqa: PLR2004 - RFC 9639, 9.1.3


def _coded_number(head: bytes) -> tuple[int, int | None]:
    """Return the number, in the extended UTF-8 of FLAC, and where the bytes after it begin."""
    first = head[4]
    if first < 0x80:  # noqa: PLR2004 - one byte
        return first, 5
    length = 8 - (~first & 0xFF).bit_length()
    if not 2 <= length <= 7 or 4 + length > len(head):  # noqa: PLR2004 - its 36 bits
        return 0, None
    number = first & (0x7F >> length)
    for byte in head[5 : 4 + length]:
        if byte >> 6 != 2:  # noqa: PLR2004 - a continuation
            return 0, None
        number = number << 6 | byte & 0x3F
    return number, 4 + length


def _end_of(view: View, offset: int) -> int | None:
    """Return where the last frame ends; None if it is not whole."""
    ends = [len(view)]
    if bytes(view[-_TAG_NBYTES:][:3]) == b"TAG":
        ends.append(len(view) - _TAG_NBYTES)
    return next((end for end in ends if _is_whole(view, offset, end)), None)


def _is_whole(view: View, start: int, stop: int) -> bool:
    """Whether the CRC-16 of a frame (polynomial 0x8005) is right: over all of it, it is 0."""
    return stop - start <= _MAX_FRAME_NBYTES and _crc16(view, start, stop) == 0


def _check_frames(view: View, cuts: list[int]) -> None:
    """Compare the checksums of frames, many at once.

    Raises:
        ValueError: It names the first frame that is not as it was encoded.
    """
    first = 0
    for last in range(1, len(cuts)):
        if last + 1 < len(cuts) and cuts[last + 1] - cuts[first] <= BLOCK_NBYTES:
            continue
        if _crc16(view, cuts[first], cuts[last]):
            for number, (start, stop) in enumerate(pairwise(cuts[first : last + 1]), first):
                if _crc16(view, start, stop):
                    where = f"bytes {start:,} to {stop:,}"
                    raise ValueError(f"its frame {number:,}, {where}, is damaged")
        first = last


def _crc16(view: View, start: int, stop: int) -> int:
    content = view[start:stop]
    return crc16(bytes(content) if isinstance(content, FileView) else content)


def _crc8(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def _crc8_table() -> list[int]:
    table: list[int] = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc << 1 ^ (0x07 if crc >> 7 else 0)) & 0xFF
        table.append(crc)
    return table


_CRC8: Final = _crc8_table()
_RATE_NBYTES: Final = {12: 1, 13: 2, 14: 2}
_BLOCK_SIZES: Final = (
    *(0, 192, 576, 1152, 2304, 4608, 0, 0),
    *(256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
)
