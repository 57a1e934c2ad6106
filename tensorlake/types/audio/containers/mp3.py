"""MP3: frames of MPEG audio, layer III (ISO/IEC 11172-3, 13818-3; the Xing and LAME tags).

    ID3v2 | frame with a Xing tag, no audio | frame | frame | … | APE, ID3v1
    frame = 0xFFE…, version, layer, bit rate, rate, padding | CRC | side information | main data

The main data of a frame may begin in earlier frames, whose rest it uses (the bit reservoir, at most
511 bytes); its samples overlap those of the granule before, and the filter bank remembers one
granule. So decoding is right two granules after the first frame whose reservoir is there. mpg123
adds the terms of the filter bank in an order that depends on where it began: that leaves a
difference of one unit in the last place (2.4e-7 of full scale at most).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlake.types.audio.containers.track import Track, thinned
from tensorlake.types.base.file import Content, View, pieces_of, unpack_at, view_of

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["is_mp3", "mp3_file", "parse_mp3"]

_WORD, _WORDS = struct.Struct(">I"), struct.Struct(">II")
_RATES: Final = (44_100, 48_000, 32_000)
_HALVED: Final = {3: 0, 2: 1, 0: 2}  # by the version: MPEG 1, 2, 2.5
_KBITS: Final = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_LAYER_3, _MONO = 1, 3
_GRANULE = 576
_DECODER_DELAY = 529  # of the filter bank, which LAME's delay does not count
_SAME_BITS = 0xFFFE0C00  # version, layer and rate: alike in all frames of a file
_ID3V2_NBYTES, _ID3V1_NBYTES, _APE_NBYTES = 10, 128, 32
_XING_FRAMES, _XING_BYTES, _XING_TABLE, _XING_QUALITY = 1, 2, 4, 8
_VARYING_BITS, _NO_CHECKSUM, _MOST_BITS = 0xF200, 1 << 16, 14 << 12
_REMUX = "remux it: ffmpeg -i FILE -c copy NEW.mp3"
_LAME_NBYTES = 24  # from the encoder's name to the delays


@dataclass(frozen=True, slots=True)
class _Frame:
    offset: int
    nbytes: int
    reservoir: int  # bytes of main data that are in frames before
    main_nbytes: int
    is_mono: bool


@dataclass(frozen=True, slots=True)
class _Tag:
    """A Xing tag."""

    frames: int | None
    nbytes: int | None
    delay: int
    padding: int


def is_mp3(content: Content) -> bool:
    """Whether a file begins as one of MPEG audio."""
    view = view_of(content)
    return bytes(view[:3]) == b"ID3" or _parse(view, 0) is not None


def parse_mp3(content: Content) -> Track:
    """Find the frames of an MP3 file.

    Raises:
        ValueError: It ends before its last frame does, its header promises more frames, or other
            bytes are between its frames.
    """
    view = view_of(content)
    begin, end = _audio(view)
    frames, stop = _frames(view, begin, end)
    if not frames:
        raise ValueError("it has no frame of MPEG audio, layer III, of a fixed bit rate each")
    tag = _tag(view, frames[0])
    if tag is not None:
        present = end - frames[0].offset
        if tag.nbytes is not None and tag.nbytes > present:
            raise ValueError(f"its header promises {tag.nbytes:,} bytes, and {present:,} follow")
        frames = frames[1:]
        if tag.frames is not None and tag.frames > len(frames) + 1:  # some count the tag's own
            found = f"its header promises {tag.frames:,} frames of MPEG audio"
            raise ValueError(f"{found}, and it has {len(frames):,}")
    if stop != end:
        if _parse(view, stop) is not None:
            raise ValueError("its last frame is not whole")
        if any(bytes(piece).strip(b"\0") for piece in pieces_of(view, stop, end)):
            raise ValueError(f"bytes {stop:,} to {end:,} are not MPEG audio\n{_REMUX}")
    if not frames:
        raise ValueError("it has no frame of audio")
    if len({frame.is_mono for frame in frames}) > 1:
        raise ValueError(f"its number of channels changes\n{_REMUX}")
    return _track(view, frames, tag, len(view))


def mp3_file(header: bytes, packets: Buffer, frames: int) -> tuple[bytes, int]:
    """Return a file of some frames of audio, and the frames that a decoder gives before them.

    It begins with a Xing tag that has their number: libsndfile estimates it otherwise, and stops
    there. mpg123 drops 529 frames behind a tag, so a silent frame comes next.

    Args:
        header: A track's.
        packets: Frames of MPEG audio.
        frames: How many frames of audio they give.
    """
    head = int.from_bytes(header, "big")
    _, is_full = _rate(head)
    per_frame = 2 * _GRANULE if is_full else _GRANULE
    silent = head & ~_VARYING_BITS | _NO_CHECKSUM | _MOST_BITS
    empty = _parse(memoryview(silent.to_bytes(4, "big") + bytes(4)), 0)
    if empty is None:
        raise ValueError("its header is not that of MPEG audio, layer III")
    body = silent.to_bytes(4, "big") + bytes(empty.nbytes - 4)
    tag = bytearray(body)
    at = empty.nbytes - empty.main_nbytes
    tag[at : at + 12] = struct.pack(">4sII", b"Xing", _XING_FRAMES, -(-frames // per_frame) + 1)
    return b"".join([tag, body, _without_reservoir(packets)]), per_frame - _DECODER_DELAY


def _without_reservoir(packets: Buffer) -> bytearray:
    """Silence the frames whose reservoir is not there, which mpg123 prints errors about.

    Their main data stay for later frames. Their side information becomes 0, but for where their
    main data begin: mpg123 keeps of the bytes before a frame only those that the frame asks for.
    """
    data = bytearray(packets)
    view = memoryview(data)
    offset = present = 0
    while (frame := _parse(view, offset)) is not None and frame.reservoir > present:
        side = frame.nbytes - frame.main_nbytes
        checksum = 0 if data[offset + 1] & 1 else 2
        begin = offset + 4 + checksum
        data[begin : offset + side] = bytes(side - 4 - checksum)
        if _rate(int.from_bytes(data[offset : offset + 4], "big"))[1]:
            data[begin : begin + 2] = (min(present, 511) << 7).to_bytes(2, "big")
        else:
            data[begin] = min(present, 255)
        present += frame.main_nbytes
        offset += frame.nbytes
    return data


def _track(view: View, frames: list[_Frame], tag: _Tag | None, end: int) -> Track:
    head = unpack_at(_WORD, view, frames[0].offset)[0]
    rate, is_full = _rate(head)
    per_frame = 2 * _GRANULE if is_full else _GRANULE
    delay = padding = 0
    if tag is not None:
        delay = tag.delay + _DECODER_DELAY
        padding = max(tag.padding - _DECODER_DELAY, 0)
    count = len(frames)
    total = count * per_frame - delay - padding
    if total <= 0:
        raise ValueError("its header's delay and padding leave no frame")
    edges = np.clip(np.arange(1, count + 1) * per_frame - delay, 0, total)
    firsts = thinned(edges, rate)
    cuts = np.append([frames[first].offset for first in firsts[1:]], end).astype(np.int64)
    exact = _exact_frames(frames, firsts)
    starts = exact * per_frame + 2 * _GRANULE - delay
    starts[0] = 0
    stops = edges[np.append(firsts[1:], count) - 1]
    channels = 1 if frames[0].is_mono else 2
    header = head.to_bytes(4, "big")
    track = Track("mp3", "mp3", rate, channels, total, delay, header, cuts, starts, stops)
    return track.after(frames[0].offset)


def _exact_frames(frames: list[_Frame], firsts: np.ndarray) -> np.ndarray:
    """Return the first frame whose reservoir is there when decoding begins with each of some."""
    before = np.cumsum([0] + [frame.main_nbytes for frame in frames])
    exact: list[int] = []
    for first in firsts.tolist():
        frame = first
        while frame < len(frames) and before[frame] - before[first] < frames[frame].reservoir:
            frame += 1
        exact.append(frame)
    return np.array(exact, dtype=np.int64)


def _frames(view: View, begin: int, end: int) -> tuple[list[_Frame], int]:
    """Return the frames one after another from `begin`, and where the last whole one ends."""
    frames: list[_Frame] = []
    if begin + 4 > end:
        return frames, begin
    same = unpack_at(_WORD, view, begin)[0] & _SAME_BITS
    offset = begin
    while offset + 4 <= end:
        frame = _parse(view, offset)
        if frame is None or offset + frame.nbytes > end:
            break
        if unpack_at(_WORD, view, offset)[0] & _SAME_BITS != same:
            break
        frames.append(frame)
        offset += frame.nbytes
    return frames, offset


def _parse(view: View, offset: int) -> _Frame | None:
    """Parse the header and the side information of a frame; None if there is none."""
    if offset + 8 > len(view):
        return None
    head, side = unpack_at(_WORDS, view, offset)
    version, bits, rate = head >> 19 & 3, head >> 12 & 15, head >> 10 & 3
    is_frame = head >> 21 == 0x7FF and head >> 17 & 3 == _LAYER_3  # noqa: PLR2004 - the sync code
    if not is_frame or version == 1 or bits in (0, 15) or rate == 3:  # noqa: PLR2004 - reserved
        return None
    per_second, is_full = _rate(head)
    kbits = _KBITS[is_full][bits]
    nbytes = (144 if is_full else 72) * kbits * 1000 // per_second + (head >> 9 & 1)
    checksum = 0 if head >> 16 & 1 else 2
    if checksum:
        side = side << 16 & 0xFFFFFFFF  # its first bits follow the checksum
    is_mono = head >> 6 & 3 == _MONO
    side_nbytes = (17 if is_mono else 32) if is_full else (9 if is_mono else 17)
    reservoir = side >> 23 if is_full else side >> 24
    main = max(nbytes - 4 - checksum - side_nbytes, 0)
    return _Frame(offset, nbytes, reservoir, main, is_mono)


def _rate(head: int) -> tuple[int, bool]:
    """Return the frames per second of a header, and whether it is of MPEG 1."""
    version = head >> 19 & 3
    return _RATES[head >> 10 & 3] >> _HALVED[version], version == 3  # noqa: PLR2004 - MPEG 1


def _tag(view: View, frame: _Frame) -> _Tag | None:
    """Return the Xing tag of a file's first frame."""
    body = bytes(view[frame.offset : frame.offset + frame.nbytes])
    at = frame.nbytes - frame.main_nbytes
    if body[at : at + 4] not in (b"Xing", b"Info"):
        return None
    flags = int.from_bytes(body[at + 4 : at + 8], "big")
    at += 8
    found: dict[int, int] = {}
    fields = ((_XING_FRAMES, 4), (_XING_BYTES, 4), (_XING_TABLE, 100), (_XING_QUALITY, 4))
    for flag, nbytes in fields:
        if flags & flag:
            found[flag] = int.from_bytes(body[at : at + nbytes], "big")
            at += nbytes
    lame = body[at : at + _LAME_NBYTES]
    delay = padding = 0
    if len(lame) == _LAME_NBYTES and lame[:1].isalpha():
        packed = int.from_bytes(lame[21:24], "big")
        delay, padding = packed >> 12, packed & 0xFFF
    return _Tag(found.get(_XING_FRAMES), found.get(_XING_BYTES), delay, padding)


def _audio(view: View) -> tuple[int, int]:
    """Return where the frames begin and end, without the tags around them."""
    begin, end = 0, len(view)
    while bytes(view[begin : begin + 3]) == b"ID3" and begin + _ID3V2_NBYTES <= end:
        sizes = bytes(view[begin + 6 : begin + 10])
        size = sizes[0] << 21 | sizes[1] << 14 | sizes[2] << 7 | sizes[3]
        begin += _ID3V2_NBYTES + size
    for piece in pieces_of(view, begin, end):  # padding behind a tag
        audio = bytes(piece).lstrip(b"\0")
        begin += len(piece) - len(audio)
        if audio:
            break
    if bytes(view[-_ID3V1_NBYTES:][:3]) == b"TAG":
        end -= _ID3V1_NBYTES
    footer = bytes(view[max(end - _APE_NBYTES, 0) : end])
    if footer[:8] == b"APETAGEX":
        size, flags = struct.unpack_from("<I4xI", footer, 12)
        end -= size + (_APE_NBYTES if flags >> 31 else 0)
    return begin, max(end, begin)
