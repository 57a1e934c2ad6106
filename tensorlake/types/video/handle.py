"""VideoHandle: the value of a row of a `Video` tensor, which decodes only what it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.types.base.parts import SampleHandle
from tensorlake.types.video.containers import media_type_of
from tensorlake.types.video.frames import Times
from tensorlake.types.video.map import VideoMap, read_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

__all__ = ["VideoHandle"]

_HEAD_NBYTES = 64  # within which containers name themselves
_BLOCK = 32  # frames decoded together while iterating: a group of pictures is read once


class VideoHandle(SampleHandle):
    """A video. Index it like an array (frames, height, width, 3) of uint8.

    Only the packets between the key frame before the first wanted frame and the last wanted one are
    read and decoded, so that a window of a long file costs no more than one of a short file.

    >>> import numpy as np
    >>> import tensorlake as tl
    >>> ds = tl.create("memory://doc-video", {"clip": tl.Video(fps=10)})
    >>> ds.append({"clip": np.zeros((30, 48, 64, 3), np.uint8)})
    >>> clip = ds["clip"][0]
    >>> clip.shape, clip.fps, clip.duration
    ((30, 48, 64, 3), 10.0, 3.0)
    >>> clip[10:20:2].shape, clip.at(seconds=1.5).shape, clip.frames([0, 0.5, 1]).shape
    ((5, 48, 64, 3), (48, 64, 3), (3, 48, 64, 3))
    >>> ds.discard()
    """

    __slots__ = ()

    @property
    def fps(self) -> float:
        """Frames per second; the mean of a variable rate."""
        return float(self._video.fps)

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last one."""
        return self._video.duration

    @property
    def times(self) -> np.ndarray:
        """Seconds at which each frame is shown, from the first frame: float64, ascending."""
        return self._video.seconds

    @property
    def key_frames(self) -> np.ndarray:
        """Numbers of the frames that are decoded without others: int64, ascending."""
        return np.unique(self._video.firsts)

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec, such as "h264"."""
        return self._video.decoder.codec

    @property
    def media_type(self) -> str:
        """The MIME type of the file, such as "video/mp4"."""
        return media_type_of(self.content_between(0, min(_HEAD_NBYTES, self.nbytes)))

    def at(self, *, seconds: float) -> np.ndarray:
        """Decode the frame that is shown at a time: uint8 (height, width, 3).

        Raises:
            InvalidInputError: The time is before the first frame, or after the end.
        """
        return self.frames([seconds])[0]

    def frames(self, times: ArrayLike) -> np.ndarray:
        """Decode the frames that are shown at some times: uint8 (times, height, width, 3).

        Args:
            times: Seconds from the first frame, in any order; rounded to the microsecond.

        Raises:
            InvalidInputError: A time is before the first frame, or after the end.
        """
        try:
            seconds = np.asarray(times, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"times are seconds, got {shown(times)}\ngive numbers: clip.frames([0.5, 1.0])",
                actual=times,
            ) from error
        if np.isnan(seconds).any():
            message = (
                f"times are seconds, got {shown(times)}\ngive numbers: clip.frames([0.5, 1.0])"
            )
            raise InvalidInputError(message, actual=times)
        if seconds.ndim != 1:
            raise InvalidInputError(
                f"times are a list of seconds, got {shown(times)}"
                "\nfor one frame: clip.at(seconds=1.5)",
                actual=times,
            )
        return self.read(Times(tuple(seconds.tolist())))

    def blocks(self) -> Iterator[np.ndarray]:
        """Decode all frames, one at a time."""
        return iter(self)

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self), _BLOCK):
            yield from self[start : start + _BLOCK]

    @property
    def _video(self) -> VideoMap:
        return read_map(self.head)
