"""Try a map on samples: containers often describe their frames wrongly.

1. The first frames are decoded as FFmpeg decodes the file, and by the map. Where they differ in
   order or number (AVI guesses times; a packet may hold no frame, or half of one), the whole file
   is decoded once, and the order of its frames is taken from that.
2. Frames after the second, the middle and the last key frame are decoded from that key frame and
   from the one before. Where they differ (x264's periodic intra refresh marks key frames before
   which others are needed), decoding always starts at the first packet.
3. The last frame is decoded.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from xxhash import xxh3_64_intdigest

from tensorlake.types.video.containers import opened_container, video_stream
from tensorlake.types.video.decoder import decode_packets, decode_run
from tensorlake.types.video.plan import Run, plan_runs, run_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.base.column import Buffer
    from tensorlake.types.base.file import Content
    from tensorlake.types.video.containers import Limits
    from tensorlake.types.video.decoder import ReadBytes
    from tensorlake.types.video.map import VideoMap

__all__ = ["NotContiguousError", "rate_of", "usable_keys", "verified"]

_PREFIX: Final = 48  # frames from the beginning whose order is compared
_PIXELS_EVERY: Final = 16  # of them, the pixels of one in so many are compared
_AFTER_KEY: Final = 6  # frames compared after a key frame
_UNKNOWN_RATE: Final = Fraction(25)  # of a single frame without a rate
_RATE_TOLERANCE: Final = 0.01

Seen = tuple[int | None, int | None]  # a frame's time, and a digest of its pixels


class NotContiguousError(ValueError):
    """Packets of a file cannot be decoded without their container."""


def rate_of(seconds: np.ndarray, recorded: Fraction | None) -> Fraction:
    """Return frames per second: as recorded, unless the frames' times contradict it."""
    span = float(seconds[-1] - seconds[0])
    if span <= 0:
        return Fraction(recorded) if recorded else _UNKNOWN_RATE
    measured = (len(seconds) - 1) / span
    if recorded and abs(float(recorded) / measured - 1) <= _RATE_TOLERANCE:
        return Fraction(recorded)
    return Fraction(measured).limit_denominator(1001)


def usable_keys(keys: np.ndarray, firsts: np.ndarray, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the key frames whose first frame exists and does not lie before that of another."""
    usable = (firsts >= 0) & (firsts < frames) & (np.maximum.accumulate(firsts) == firsts)
    return keys[usable], firsts[usable]


def verified(
    video: VideoMap,
    times: Sequence[int | None],
    discarded: Sequence[int],
    data: Content,
    limits: Limits,
) -> VideoMap:
    """Return the map as it holds: the frames in their true order, and only true key frames.

    Args:
        video: The map that packets' times give.
        times: The packets' times, as the container gives them.
        discarded: Packets whose frames an edit list leaves out.
        data: The file.
        limits: See there.

    Raises:
        ValueError: Frames cannot be decoded, or are too large.
        NotContiguousError: They can only be decoded with their container.
    """

    def read(start: int, stop: int) -> Buffer:
        return bytes(data[start:stop])

    video, expected = _as_decoded(video, data, limits)
    if not _begins_as(expected, video, times, read, limits) or not _ends(video, read, limits):
        video = _ordered_by_decoding(video, times, discarded, read, limits)
        if not _begins_as(expected, video, times, read, limits):
            raise NotContiguousError("its packets decode otherwise without their container")
    last = len(video.keys) - 1
    tried = {1, last // 2, last} - {0} if last else set[int]()
    if not all(_is_exact_from(video, read, limits, key) for key in tried):
        start = np.zeros(1, dtype=np.int64)
        return replace(video, keys=start, firsts=start)
    return video


def _as_decoded(video: VideoMap, data: Content, limits: Limits) -> tuple[VideoMap, list[Seen]]:
    """Decode the first frames as FFmpeg decodes the file; return the map with their size."""
    expected: list[Seen] = []
    size, rotation = video.size, 0
    with opened_container(data, video.container, limits) as opened:
        for frame in islice(opened.decode(video_stream(opened)), _PREFIX):
            if not expected:
                size, rotation = (frame.height, frame.width), frame.rotation % 360
            expected.append((frame.pts, _digest(len(expected), frame)))
    if not expected:
        raise ValueError("no frame of it can be decoded")
    return replace(video, size=size, rotation=rotation), expected


def _begins_as(
    expected: list[Seen],
    video: VideoMap,
    times: Sequence[int | None],
    read: ReadBytes,
    limits: Limits,
) -> bool:
    """Whether the map gives the same frames as FFmpeg, in the same order."""
    count = len(video.order)
    if count < len(expected) or (count > len(expected) and len(expected) < _PREFIX):
        return False
    frames = np.arange(len(expected))
    found: dict[int, Seen] = {}
    try:
        for run in plan_runs(video, frames):
            for frame, decoded in decode_run(video, read, run, max_pixels=limits.pixels):
                found[frame] = (times[int(video.order[frame])], _digest(frame, decoded))
    except ValueError:
        return False
    return [found[frame] for frame in frames.tolist()] == expected


def _ends(video: VideoMap, read: ReadBytes, limits: Limits) -> bool:
    """Whether the last frame is decoded."""
    try:
        for run in plan_runs(video, np.array([len(video.order) - 1])):
            list(decode_run(video, read, run, max_pixels=limits.pixels))
    except ValueError:
        return False
    return True


def _is_exact_from(video: VideoMap, read: ReadBytes, limits: Limits, key: int) -> bool:
    """Whether frames after a key frame are the same, decoded from it and from the one before."""
    first = int(video.firsts[key])
    frames = np.arange(first, min(first + _AFTER_KEY, len(video.order)))

    def digests(run: Run) -> list[tuple[int, int]]:
        decoded = decode_run(video, read, run, max_pixels=limits.pixels)
        return sorted((frame, _pixel_digest(one)) for frame, one in decoded)

    runs = [run_from(video, int(video.keys[place]), frames) for place in (key - 1, key)]
    try:
        return digests(runs[0]) == digests(runs[1])
    except ValueError:
        return False


def _ordered_by_decoding(
    video: VideoMap,
    times: Sequence[int | None],
    discarded: Sequence[int],
    read: ReadBytes,
    limits: Limits,
) -> VideoMap:
    """Decode all packets, and return the map with the frames in the order in which they come."""
    packets = len(video.sizes)
    pixels = packets * video.size[0] * video.size[1]
    if pixels > limits.decoded_pixels:
        raise ValueError(f"to count its frames, {pixels:,} pixels would be decoded")
    decoded = decode_packets(video, read, 0, packets, max_pixels=limits.pixels)
    hidden = set(discarded)
    order = np.array([one.pts for one in decoded if one.pts not in hidden], dtype=np.int64)
    if not len(order):
        raise ValueError("no frame of it can be decoded")
    if len(np.unique(order)) < len(order):
        raise NotContiguousError("some of its packets hold several frames")
    known = [times[packet] for packet in order.tolist()]
    ascending = None not in known and bool(np.all(np.diff(np.array(known, np.int64)) > 0))
    frame_of = np.full(packets, -1, dtype=np.int64)
    frame_of[order] = np.arange(len(order))
    firsts = frame_of[video.keys]
    firsts[0] = 0
    keys, firsts = usable_keys(video.keys, firsts, len(order))
    return replace(
        video,
        order=order,
        times=np.array(known, np.int64) if ascending else np.arange(len(order), dtype=np.int64),
        time_base=video.time_base if ascending else 1 / video.fps,
        keys=keys,
        firsts=firsts,
    )


def _digest(position: int, frame: Any) -> int | None:
    return _pixel_digest(frame) if position == 1 or position % _PIXELS_EVERY == 0 else None


def _pixel_digest(frame: Any) -> int:
    return xxh3_64_intdigest(frame.to_ndarray(format="rgb24").tobytes())
