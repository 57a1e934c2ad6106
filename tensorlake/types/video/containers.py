"""Check a video file before FFmpeg reads it: its format, whether it is whole, and what it promises.

FFmpeg chooses a demuxer by content, and some of them open other files; it allocates what a header
promises, and reads a file that was cut short to its end in silence. So the format is recognised
here, by the first bytes, and only that demuxer is used; the outermost boxes must end inside the
file; and the tables of an MP4 may not promise more samples than the limit, since FFmpeg expands
run-lengths (an entry of 8 bytes may stand for 2³² samples).

    mov        ISO 14496-12 boxes: u32 size, four characters, content; size 1: u64 size follows
    matroska   RFC 8794 elements: id, size, content
    avi        RIFF: four characters, u32 size, content
    gif        ends with 3B
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorlake.types.base.file import Content, View, file_of, view_of
from tensorlake.types.video.decoder import MAX_PIXELS, av_library

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = [
    "FORMATS",
    "MAX_FRAMES",
    "Limits",
    "check_container",
    "container_of",
    "is_transport_stream",
    "media_type_of",
    "opened_container",
    "video_stream",
]

FORMATS: Final = "mp4, mov, mkv, webm, avi or gif"
MAX_FRAMES: Final = 1 << 22  # 38 hours of 30 frames per second
_FIRST_BOXES: Final = frozenset((b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"))
_PARENTS: Final = frozenset(
    (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"moof", b"traf", b"mvex", b"udta")
)
_BOX: Final = 8
_LONG_BOX: Final = 16
_MAX_BOXES: Final = 100_000
_MAX_DEPTH: Final = 8
_TABLE_START: Final = 8  # after version, flags and the number of entries
_SEGMENT: Final = b"\x18\x53\x80\x67"
_EBML: Final = b"\x1a\x45\xdf\xa3"
_DOCTYPE: Final = 64  # bytes within which Matroska's header names its profile
_TS_PACKET, _TS_SYNC = 188, b"\x47"
_BUFFER_NBYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a file may hold.

    Attributes:
        pixels: Pixels of a frame.
        frames: Frames of the video.
        tracks: Tracks of the file.
        decoded_pixels: Pixels of all frames, where all must be decoded to be counted.
    """

    pixels: int = MAX_PIXELS
    frames: int = MAX_FRAMES
    tracks: int = 64
    decoded_pixels: int = 1 << 38  # an hour of 1920 × 1080 at 30 frames per second


def container_of(data: Content) -> str | None:
    r"""Return "mov" (also MP4), "matroska" (also WebM), "avi" or "gif"; None for other bytes.

    >>> container_of(b"\0\0\0\x1cftypisom"), container_of(b"GIF89a"), container_of(b"ID3")
    ('mov', 'gif', None)
    """
    head = bytes(data[:12])
    if head[4:8] in _FIRST_BOXES:
        return "mov"
    if head[:4] == _EBML:
        return "matroska"
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return "avi"
    return "gif" if head[:4] == b"GIF8" else None


def is_transport_stream(data: Content) -> bool:
    """Whether a file is MPEG-TS, which stores a packet of video in pieces of 184 bytes."""
    return bytes(data[: _TS_PACKET + 1])[::_TS_PACKET] == _TS_SYNC * 2


def media_type_of(data: Content) -> str:
    r"""Return the MIME type of a video file, by its first bytes.

    >>> media_type_of(b"\0\0\0\x1cftypisom"), media_type_of(b"GIF89a")
    ('video/mp4', 'image/gif')
    """
    match container_of(data):
        case "mov":
            return "video/quicktime" if bytes(data[8:12]) == b"qt  " else "video/mp4"
        case "matroska":
            return "video/webm" if b"webm" in bytes(data[:_DOCTYPE]) else "video/x-matroska"
        case "avi":
            return "video/x-msvideo"
        case "gif":
            return "image/gif"
        case _:
            return "application/octet-stream"


def check_container(data: Content, container: str, *, tracks: int, frames: int) -> None:
    """Reject a file that was cut short, or that promises too much.

    Args:
        data: The file.
        container: Its format.
        tracks: Most tracks.
        frames: Most samples of a track.

    Raises:
        ValueError: With the reason.
    """
    match container:
        case "mov":
            _check_boxes(view_of(data), tracks, frames)
        case "matroska":
            _check_segment(bytes(data[:4096]), len(data))
        case "avi":
            stop = int.from_bytes(bytes(data[4:8]), "little") + 8
            if stop > len(data):
                raise _cut_short(len(data), stop, "RIFF")
        case _:
            if not bytes(data[-64:]).rstrip(b"\0").endswith(b";"):
                raise ValueError(f"data end at byte {len(data):,}, before the GIF's last byte, 3B")


def _check_boxes(data: View, tracks: int, frames: int) -> None:
    names: list[bytes] = []
    samples, edits, is_sound = 0, 1, False  # of the track
    for name, start, stop, end in _boxes(data, 0, len(data), 0):
        names.append(name)
        if len(names) > _MAX_BOXES:
            raise ValueError(f"it has more than {_MAX_BOXES:,} boxes")
        if stop > end:
            raise _cut_short(end, stop, f"box {name.decode('latin-1')!r}")
        content = data[start:stop]
        match name:
            case b"trak":
                samples, edits, is_sound = 0, 1, False
            case b"hdlr":
                is_sound = content[8:12] == b"soun"
            case b"elst":
                edits = max(_count(content, 4, 12), 1)
            case b"stsz" | b"stts" | b"ctts":
                samples = max(samples, _samples(name, content, is_sound=is_sound))
            case b"trun":
                samples += _count(content, 4, 0)
            case _:
                continue
        if samples * edits > frames:
            table = name.decode("latin-1")
            raise ValueError(f"its table {table!r} promises more than {frames:,} samples")
    if names.count(b"trak") > tracks:
        raise ValueError(f"it has {names.count(b'trak'):,} tracks, more than {tracks}")
    if b"moov" not in names:
        raise ValueError("data end before its index, the box 'moov'")


def _boxes(data: View, at: int, end: int, depth: int) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield name, start and end of content, and end of the parent, of each box and those in it."""
    while at + _BOX <= end:
        size = int.from_bytes(bytes(data[at : at + 4]), "big")
        name = bytes(data[at + 4 : at + 8])
        start = at + _BOX
        if size == 1:
            size = int.from_bytes(bytes(data[at + 8 : at + 16]), "big")
            start = at + _LONG_BOX
        stop = end if size == 0 else at + size
        if size == 0 and (depth or name != b"mdat"):
            return  # padding after the last box
        if stop < start:
            raise ValueError(f"the box at byte {at:,} has the size {size}")
        yield name, start, stop, end
        if name in _PARENTS and depth < _MAX_DEPTH:
            yield from _boxes(data, start, min(stop, end), depth + 1)
        at = stop


def _samples(name: bytes, content: View, *, is_sound: bool) -> int:
    """Return how many samples a table stands for; uncompressed sound is not listed by FFmpeg."""
    if name == b"stsz":
        has_one_size = content[4:8] != bytes(4)
        count = _count(content, 8, 0 if has_one_size else 4)
        return 0 if is_sound and has_one_size else count
    entries = _count(content, 4, 8)
    table = bytes(content[_TABLE_START : _TABLE_START + 8 * entries])
    runs = np.frombuffer(table, ">u4").reshape(-1, 2)
    if is_sound and entries == 1 and int(runs[0, 1]) == 1:
        return 0
    return int(runs[:, 0].astype(np.int64).sum())


def _count(content: View, at: int, width: int) -> int:
    """Return the number of entries of a table, which are `width` bytes each."""
    count = int.from_bytes(bytes(content[at : at + 4]), "big")
    if at + 4 + count * width > len(content):
        raise ValueError(f"a table of {count:,} entries is longer than its box")
    return count


def _check_segment(head: bytes, length: int) -> None:
    at = head.find(_SEGMENT)
    if at < 0:
        raise ValueError("it has no segment in its first 4,096 bytes")
    at += len(_SEGMENT)
    first = head[at] if at < len(head) else 0
    width = 9 - first.bit_length()
    if not first or at + width > len(head):
        raise ValueError("data end inside the size of its segment")
    size = int.from_bytes(head[at : at + width], "big") & ((1 << (7 * width)) - 1)
    if size == (1 << (7 * width)) - 1:
        return  # unknown: written as a stream
    if at + width + size > length:
        raise _cut_short(length, at + width + size, "segment")


def _cut_short(length: int, stop: int, what: str) -> ValueError:
    return ValueError(f"data end at byte {length:,}, and its {what} at byte {stop:,}")


def opened_container(data: Content, container: str, limits: Limits) -> Any:
    """Open a file by the demuxer of its format; other files that it names are not opened."""
    return av_library().open(
        file_of(data),
        "r",
        format=container,
        options={"max_streams": str(limits.tracks), "max_pixels": str(limits.pixels)},
        buffer_size=_BUFFER_NBYTES,
        io_open=_refuse_other_files,
        metadata_errors="replace",
    )


def video_stream(opened: Any) -> Any:
    """Return the first video stream that is not a cover image.

    Raises:
        ValueError: There is none.
    """
    attached = av_library().stream.Disposition.attached_pic
    for stream in opened.streams.video:
        if not stream.disposition & attached and stream.codec_context is not None:
            return stream
    raise ValueError("it has no video track of a codec that this FFmpeg decodes")


def _refuse_other_files(url: str, _flags: int, _options: dict[str, str]) -> Any:
    raise PermissionError(f"a video file may not refer to another file: {url!r}")
