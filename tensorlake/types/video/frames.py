"""Requests of frames: by index, by number, by time.

clip[7]               a frame      (height, width, 3)
clip[10:42:2]         frames       (16, height, width, 3)
clip[[3, 1], :64]     NumPy's indices: of frames, then of pixels
Times((0.5, 1.0))     the frames shown at these seconds
Frames((4, 6, 8, 8))  frames by number, which may repeat
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.types.base.region import Region
    from tensorlake.types.video.map import VideoMap

__all__ = ["Frames", "Request", "Times", "selection_of"]

_SECOND: Final = 1e-6  # times are compared to the microsecond: 3 / 30 is not 0.1
_MAX_NBYTES: Final = 4 << 30  # of one array; more is most often a mistake

Refusal = Callable[[str], InvalidInputError]


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames by number, in this order."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Times:
    """The frames shown at these seconds from the first frame."""

    seconds: tuple[float, ...]


Request = Any  # () for all, a Region, Frames or Times


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Frames to decode, and an index into the array that they make."""

    frames: np.ndarray
    index: Region


def selection_of(video: VideoMap, request: Request, refused: Refusal) -> Selection:
    """Return the frames that a request asks for.

    Raises:
        InvalidInputError: They do not exist, or do not fit in memory together.
    """
    count = video.shape[0]
    match request:
        case Frames(numbers):
            frames = np.array(numbers, dtype=np.int64)
            if len(frames) and not 0 <= int(frames.min()) <= int(frames.max()) < count:
                raise refused(f"it has {count:,} frames, and {frames.tolist()} are wanted")
            selection = Selection(frames, ())
        case Times(seconds):
            selection = Selection(_at(video, seconds, refused), ())
        case ():
            selection = Selection(np.arange(count), ())
        case _:
            selection = _region(count, request, refused)
    nbytes = len(selection.frames) * int(np.prod(video.shape[1:]))
    if nbytes > _MAX_NBYTES:
        raise refused(
            f"{len(selection.frames):,} frames take {nbytes / (1 << 30):.1f} GiB in memory, more"
            f" than {_MAX_NBYTES >> 30}: read fewer at a time, such as [:100]"
        )
    return selection


def _region(count: int, region: Region, refused: Refusal) -> Selection:
    first, *rest = region
    try:
        if first is Ellipsis or first is None:
            return Selection(np.arange(count), region)
        frames: np.ndarray = np.arange(count)[first]
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise refused(f"it has {count:,} frames: {error}") from error
    if isinstance(first, slice):
        index = slice(None)
    elif frames.ndim == 0:
        index = 0
    else:
        index = np.arange(frames.size).reshape(frames.shape)
    return Selection(frames.reshape(-1), (index, *rest))


def _at(video: VideoMap, seconds: tuple[float, ...], refused: Refusal) -> np.ndarray:
    wanted = np.array(seconds, dtype=np.float64)
    outside = ~((wanted >= -_SECOND) & (wanted <= video.duration + _SECOND))
    if outside.any():
        place = float(wanted[int(np.argmax(outside))])
        reason = f"it lasts {video.duration:.6g} s, and {place:.6g} s is not in it"
        raise refused(f"{reason}\ngive seconds from 0 to {video.duration:.6g}")
    shown = np.searchsorted(video.seconds, wanted + _SECOND, side="right") - 1
    return np.maximum(shown, 0)
