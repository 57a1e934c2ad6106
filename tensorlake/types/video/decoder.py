"""Decode frames from the packets of a video, by its map; no demuxer takes part.

Packets are numbered, and a packet's number is given to the decoder as its time. Each frame comes
out with the number of its packet, however the decoder orders frames: a file's own times may be
missing, repeated or wrong. A frame is converted to RGB only if it is wanted.

FFmpeg decodes (PyAV, the extra `video`). Pixels equal ``frame.to_ndarray(format="rgb24")``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorlake.errors import missing_extra
from tensorlake.types.base.column import Buffer
from tensorlake.types.video.plan import plan_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensorlake.types.video.map import VideoMap
    from tensorlake.types.video.plan import Run

__all__ = ["MAX_PIXELS", "ReadBytes", "av_library", "decode_frames", "decode_packets", "decode_run"]

MAX_PIXELS: Final = 1 << 25  # of a frame: 8K UHD has 33.2 million
_local = threading.local()

ReadBytes = Callable[[int, int], Buffer]
"""Returns the bytes ``start … stop − 1`` of a file."""


def av_library() -> Any:
    """Return PyAV.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise missing_extra("reading video", "video") from error
    return av


def decode_frames(video: VideoMap, read: ReadBytes, frames: np.ndarray) -> np.ndarray:
    """Decode frames, in the given order: uint8 (frames, height, width, 3).

    Args:
        video: The map.
        read: Reads the file.
        frames: Numbers of frames that exist; they may repeat.

    Raises:
        ValueError: They cannot be decoded, or a frame is missing.
    """
    pixels = np.empty((len(frames), *video.shape[1:]), dtype=np.uint8)
    by_frame = np.argsort(frames, kind="stable")
    ordered = frames[by_frame]
    for run in plan_runs(video, frames):
        for frame, decoded in decode_run(video, read, run):
            first = int(np.searchsorted(ordered, frame, side="left"))
            last = int(np.searchsorted(ordered, frame, side="right"))
            place = int(by_frame[first])
            _to_rgb(decoded, pixels[place], frame)
            for other in by_frame[first + 1 : last].tolist():
                pixels[other] = pixels[place]
    return pixels


def decode_run(
    video: VideoMap, read: ReadBytes, run: Run, *, max_pixels: int = MAX_PIXELS
) -> Iterator[tuple[int, Any]]:
    """Decode a run of packets, and yield its wanted frames, as the decoder emits them.

    Yields:
        The number of a frame, and PyAV's VideoFrame.

    Raises:
        ValueError: A packet cannot be decoded, or a frame is missing at the end.
    """
    wanted = dict(zip(video.order[run.frames].tolist(), run.frames.tolist(), strict=True))
    for decoded in decode_packets(video, read, run.start, run.stop, max_pixels=max_pixels):
        frame = wanted.pop(decoded.pts, None)
        if frame is not None:
            yield frame, decoded
            if not wanted:
                return
    missing = min(wanted.values())
    raise ValueError(f"frame {missing:,} of {len(video.order):,} is missing in the decoded packets")


def decode_packets(
    video: VideoMap,
    read: ReadBytes,
    start: int,
    stop: int,
    *,
    max_pixels: int = MAX_PIXELS,
) -> Iterator[Any]:
    """Decode packets `start` … `stop` − 1; each frame's ``pts`` is the number of its packet.

    Raises:
        ValueError: A packet cannot be decoded.
    """
    av = av_library()
    try:
        context = _open_decoder(av, video, max_pixels)
        offsets = video.offsets[start:stop].tolist()
        sizes = video.sizes[start:stop].tolist()
        for number, (offset, size) in enumerate(zip(offsets, sizes, strict=True), start):
            # a packet of given bytes has none behind them, and decoders read 64 bytes further
            packet = av.Packet(size)
            packet.update(read(offset, offset + size))
            packet.pts = packet.dts = number
            yield from context.decode(packet)
        yield from context.decode(None)
    except (av.FFmpegError, MemoryError) as error:
        raise ValueError(f"its packets cannot be decoded: {error}") from error


def _open_decoder(av: Any, video: VideoMap, max_pixels: int) -> Any:
    given = video.decoder
    try:
        name = given.name if given.name in av.codecs_available else given.codec
        context = av.CodecContext.create(name, "r")
    except av.codec.codec.UnknownCodecError as error:
        raise ValueError(f"this FFmpeg has no decoder for {given.codec!r}") from error
    context.options = {"max_pixels": str(max_pixels)}
    context.extradata = given.extradata or None
    context.codec_tag = given.tag
    context.height, context.width = given.size
    if given.pixel_format:
        context.pix_fmt = given.pixel_format
    if given.bits:
        context.bits_per_coded_sample = given.bits
    context.color_range, context.color_primaries, context.color_trc, context.colorspace = (
        given.colours
    )
    context.thread_count = 1  # the loader decodes several videos at once
    context.open()
    context.reorder_depth = given.reorder_depth
    return context


def _to_rgb(decoded: Any, target: np.ndarray, frame: int) -> None:
    height, width, _ = target.shape
    if (decoded.height, decoded.width) != (height, width):
        raise ValueError(
            f"frame {frame:,} is {decoded.width} × {decoded.height}, not {width} × {height}"
        )
    reformatter = getattr(_local, "reformatter", None)
    if reformatter is None:  # one for a thread: making one for every frame takes half the time
        reformatter = _local.reformatter = av_library().video.reformatter.VideoReformatter()
    plane = reformatter.reformat(decoded, format="rgb24", threads=1).planes[0]
    rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    target[:] = rows[:height, : width * 3].reshape(height, width, 3)
