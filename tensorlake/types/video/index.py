"""Find the map of a video file: read its packets once, decoding nothing (`verify.py` tries it).

A file whose packets are not contiguous in it (MPEG-TS, laced or compressed Matroska blocks) has no
map; `remux.py` copies its packets into one that has.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorlake.types.video.containers import (
    FORMATS,
    Limits,
    check_container,
    container_of,
    is_transport_stream,
    opened_container,
    video_stream,
)
from tensorlake.types.video.decoder import av_library
from tensorlake.types.video.map import DecoderParameters, VideoMap
from tensorlake.types.video.verify import NotContiguousError, rate_of, usable_keys, verified

if TYPE_CHECKING:
    from collections.abc import Generator

    from tensorlake.types.base.file import Content

__all__ = ["index_video", "map_packets"]

_SEARCHED: Final = 64  # bytes that a container writes between a block's position and its packet
_FOREIGN_SIDE_DATA: Final = frozenset(
    ("palette", "new_extradata", "param_change", "encryption_info", "encryption_init_info")
)


@dataclass(slots=True)
class _Packets:
    """The packets as the demuxer reports them, in decoding order."""

    offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)


def index_video(data: Content, limits: Limits | None = None) -> VideoMap:
    """Return the map of a file.

    Raises:
        ValueError: The file is damaged, cut short, of another format, or beyond the limits.
        NotContiguousError: It must be remuxed first.
        MissingExtraError: PyAV is not installed.
    """
    limits = limits or Limits()
    container = container_of(data)
    if is_transport_stream(data):
        raise NotContiguousError("it is MPEG-TS, whose packets are in pieces")
    if container is None:
        raise ValueError(f"it is not {FORMATS}")
    check_container(data, container, tracks=limits.tracks, frames=limits.frames)
    with _failures_named():
        video, packets = map_packets(data, container, limits)
        return verified(video, packets.times, packets.discarded, data, limits)


@contextmanager
def _failures_named() -> Generator[None]:
    try:
        yield
    except (av_library().FFmpegError, MemoryError, OSError, ArithmeticError) as error:
        raise ValueError(f"FFmpeg cannot read it: {error}") from error


def map_packets(data: Content, container: str, limits: Limits) -> tuple[VideoMap, _Packets]:
    """Read the packets, and build the map that their times give."""
    with opened_container(data, container, limits) as opened:
        stream = video_stream(opened)
        packets = _read_packets(opened, stream, data, limits)
        decoder = _parameters(stream)
        time_base, rate, promised = stream.time_base, stream.average_rate, stream.frames
    if not packets.sizes:
        raise ValueError("it has no frame")
    if container == "mov" and not packets.discarded and len(packets.sizes) < promised:
        raise ValueError(f"it has {len(packets.sizes):,} of the {promised:,} frames in its index")
    order = _shown(packets)
    times, keys, firsts = _times_and_keys(packets, order)
    ascending = np.argsort(times, kind="stable")
    times, order = times[ascending], order[ascending]
    video = VideoMap(
        decoder,
        container=container,
        nbytes=len(data),
        size=decoder.size,
        rotation=0,
        fps=rate_of(times * float(time_base), rate),
        time_base=time_base,
        offsets=np.array(packets.offsets, dtype=np.int64),
        sizes=np.array(packets.sizes, dtype=np.int64),
        keys=keys,
        firsts=firsts,
        order=order,
        times=times,
    )
    return video, packets


def _parameters(stream: Any) -> DecoderParameters:
    context = stream.codec_context
    return DecoderParameters(
        codec=context.codec.canonical_name,
        name=context.codec.name,
        extradata=bytes(context.extradata or b""),
        tag=context.codec_tag,
        pixel_format=context.pix_fmt or "",
        size=(context.height, context.width),
        reorder_depth=context.reorder_depth,
        bits=context.bits_per_coded_sample,
        colours=(
            context.color_range,
            context.color_primaries,
            context.color_trc,
            context.colorspace,
        ),
    )


def _read_packets(opened: Any, stream: Any, data: Content, limits: Limits) -> _Packets:
    found = _Packets()
    for packet in opened.demux(stream):
        size = packet.size
        if not size:  # the end
            continue
        number = len(found.sizes)
        if number == limits.frames:
            raise ValueError(f"it has more than {limits.frames:,} packets")
        if packet.is_corrupt:
            raise ValueError(f"data end inside packet {number:,} of its video")
        foreign = _FOREIGN_SIDE_DATA & {side.data_type for side in packet.iter_sidedata()}
        if foreign:
            raise NotContiguousError(f"packet {number:,} carries {', '.join(sorted(foreign))}")
        found.offsets.append(_place_of(packet, data, number))
        found.sizes.append(size)
        found.times.append(packet.pts)
        if packet.is_keyframe:
            found.keys.append(number)
        if packet.is_discard:
            found.discarded.append(number)
    return found


def _place_of(packet: Any, data: Content, number: int) -> int:
    """Return the offset of a packet's bytes in the file."""
    content, at = bytes(packet), packet.pos
    if at is not None and at >= 0:
        if data[at : at + len(content)] == content:
            return at
        after = bytes(data[at : at + len(content) + _SEARCHED]).find(content)
        if after >= 0:
            return at + after
    raise NotContiguousError(f"packet {number:,} is not in the file in one piece")


def _shown(packets: _Packets) -> np.ndarray:
    shown = np.ones(len(packets.sizes), dtype=np.bool_)
    shown[packets.discarded] = False
    if not shown.any():
        raise ValueError("its edit list shows no frame")
    return np.flatnonzero(shown)


def _times_and_keys(
    packets: _Packets, shown: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times of the packets that are shown, key frames, and the first frame of each."""
    start = np.zeros(1, dtype=np.int64)
    if None in packets.times:  # the order comes from decoding
        return np.arange(len(shown), dtype=np.int64), start, start
    times = np.array(packets.times, dtype=np.int64)
    keys = np.union1d(start, np.array(packets.keys, dtype=np.int64))
    firsts = np.searchsorted(np.sort(times[shown]), times[keys])
    firsts[0] = 0
    return times[shown], *usable_keys(keys, firsts, len(shown))
