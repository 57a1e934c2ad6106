"""A frame of a video, as an image for browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake_server.media.images import EncodedImage, render_array

if TYPE_CHECKING:
    from tensorlake.types import VideoHandle

__all__ = ["poster_of"]

POSTER_SECONDS = 1.0  # films often begin black


def poster_of(video: VideoHandle, size: int) -> EncodedImage:
    """Draw the frame at one second, or at half of a shorter video, within a square.

    Raises:
        CorruptSampleError: It cannot be decoded.
    """
    seconds = min(POSTER_SECONDS, video.duration / 2)
    return render_array(video.at(seconds=seconds), size=size)
