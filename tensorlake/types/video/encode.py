"""Encode frames into a file, and copy the packets of a file into another container."""

from __future__ import annotations

import os
from contextlib import contextmanager
from fractions import Fraction
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tensorlake.types.video.containers import (
    container_of,
    is_transport_stream,
    opened_container,
    video_stream,
)
from tensorlake.types.video.decoder import av_library

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from tensorlake.types.base.column import Buffer
    from tensorlake.types.video.containers import Limits

__all__ = ["ENCODERS", "VideoCodec", "encode_frames", "remux"]

VideoCodec = Literal["h264", "av1", "ffv1"]

# name: container, FFmpeg's encoder, pixel formats (of even sides, of odd sides), options
ENCODERS: Final[dict[str, tuple[str, str, tuple[str, str], dict[str, str]]]] = {
    "h264": ("mp4", "libx264", ("yuv420p", "yuv444p"), {"crf": "18"}),
    "av1": ("mp4", "libsvtav1", ("yuv420p", "yuv420p"), {"crf": "24", "preset": "8"}),
    "ffv1": ("matroska", "ffv1", ("bgr0", "bgr0"), {}),
}
_MAX_GROUP: Final = 30  # frames between key frames, at most a second

_MAX_DENOMINATOR: Final = 1001  # 30000/1001 is the rate of television


def encode_frames(
    frames: Iterable[np.ndarray], fps: float, codec: VideoCodec, *, group: int | None = None
) -> bytes:
    """Encode frames, each uint8 (height, width, 3), at a rate.

    Args:
        frames: One frame at least, all of one size; read one after another.
        fps: Frames per second.
        codec: A name of `ENCODERS`.
        group: Frames from a key frame to the next; a second, at most 30, by default.

    Raises:
        ValueError: FFmpeg cannot encode them, such as frames too small for the codec, or frames of
            two sizes.
        MissingExtraError: PyAV is not installed.
    """
    av = av_library()
    container, encoder, formats, options = ENCODERS[codec]
    rate = Fraction(fps).limit_denominator(_MAX_DENOMINATOR)
    group = group or max(1, min(_MAX_GROUP, round(fps)))
    rest = iter(frames)
    first = next(rest)
    height, width = first.shape[:2]
    pixel_format = formats[height % 2 or width % 2]
    os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 prints its settings otherwise
    out = BytesIO()
    with _failures_named("encode"), av.open(out, "w", format=container) as file:
        stream = file.add_stream(encoder, rate=rate, options={**options, "g": str(group)})
        stream.height, stream.width, stream.pix_fmt = height, width, pixel_format
        for number, pixels in enumerate(chain([first], rest)):
            if pixels.shape != first.shape:
                sides = " × ".join(map(str, pixels.shape[:2]))
                raise ValueError(f"frame {number:,} is {sides}, and the first {height} × {width}")
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts = number
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return out.getvalue()


def remux(data: Buffer, limits: Limits) -> bytes:
    """Copy the video packets of a file, not decoded, into Matroska, which keeps each in one piece.

    Raises:
        ValueError: It is not a video file, or FFmpeg cannot copy it.
    """
    container = "mpegts" if is_transport_stream(data) else container_of(data)
    if container is None:
        raise ValueError("it is not a video file of a known format")
    out = BytesIO()
    with (
        _failures_named("copy"),
        opened_container(data, container, limits) as opened,
        av_library().open(out, "w", format="matroska") as file,
    ):
        source = video_stream(opened)
        target = file.add_stream_from_template(source)
        for packet in opened.demux(source):
            if packet.size:  # the last one is empty
                packet.stream = target
                file.mux(packet)
    return out.getvalue()


@contextmanager
def _failures_named(verb: str) -> Generator[None]:
    library: Any = av_library()
    try:
        yield
    except (library.FFmpegError, library.codec.codec.UnknownCodecError, OSError) as error:
        raise ValueError(f"FFmpeg cannot {verb} it: {error}") from error
