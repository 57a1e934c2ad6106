"""Waveform: a lazy handle of one sample of audio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.quantities import plural
from tensorlake.types.audio.map import AudioHead, read_head
from tensorlake.types.base.parts import SampleHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.errors import InvalidInputError

__all__ = ["FrameSpan", "Seconds", "Waveform", "frames_of"]


@dataclass(frozen=True, slots=True)
class FrameSpan:
    """A request for the frames [start, stop) of a sample of audio.

    Attributes:
        start: First frame.
        stop: First frame beyond.
    """

    start: int
    stop: int


class Waveform(SampleHandle):
    """A sample of audio that is decoded when it is asked: frames along the first axis.

    ``np.asarray(waveform)`` is float32 (frames, channels), of full scale 1;
    ``waveform[16_000:32_000]`` and ``waveform.seconds[1.0:2.5]`` read the packets of these frames.
    """

    __slots__ = ()

    @property
    def rate(self) -> int:
        """Frames per second."""
        return self._audio.rate

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self._audio.channels

    @property
    def frames(self) -> int:
        """Number of frames."""
        return self._audio.frames

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self._audio.duration

    @property
    def codec(self) -> str:
        """How the file encodes its samples: "pcm", "flac", "vorbis", "opus", "mp3" …."""
        return self._audio.codec

    @property
    def shape(self) -> tuple[int, ...]:
        """Frames and channels."""
        return (self._audio.frames, self._audio.channels)

    @property
    def seconds(self) -> Seconds:
        """Frames by time: ``waveform.seconds[1.0:2.5]``."""
        return Seconds(self)

    def __repr__(self) -> str:
        audio = self._audio
        what = f"row {self.row} of {self.tensor!r}" if self.tensor else "a sample"
        stream = f"{audio.rate:,} Hz · {plural(audio.channels, 'channel')} · {audio.codec}"
        return f"Waveform {audio.duration:.3g} s · {stream} · {self.nbytes:,} bytes, {what}"

    @property
    def _audio(self) -> AudioHead:
        return read_head(self.head)


class Seconds:
    """Frames of a `Waveform` by time in seconds."""

    __slots__ = ("_waveform",)

    def __init__(self, waveform: Waveform) -> None:
        self._waveform = waveform

    def __getitem__(self, span: slice) -> np.ndarray:
        """Decode the frames of [start, stop), rounded to the nearest frame; negative: from the end.

        Raises:
            InvalidInputError: The index is not a slice of numbers, or has a step.
        """
        waveform = self._waveform
        refused = waveform.type.refusal(waveform.tensor, waveform.row)
        if not isinstance(span, slice) or span.step is not None:
            raise refused(f"seconds[start:stop] takes a slice without a step, got {span!r}")
        ends: list[int | None] = []
        for second in (span.start, span.stop):
            try:
                ends.append(None if second is None else round(float(second) * waveform.rate))
            except (TypeError, ValueError, OverflowError) as error:
                raise refused(f"seconds[start:stop] takes numbers, got {second!r}") from error
        return waveform.read((slice(*ends),))


def frames_of(
    region: tuple[Any, ...] | FrameSpan, frames: int, refused: Callable[[str], InvalidInputError]
) -> tuple[int, int, tuple[Any, ...]]:
    """Return the frames [start, stop) that a region needs, and the index that it has in them.

    Args:
        region: Indices of frames, then of channels; () is everything; or a span.
        frames: Number of frames of the sample.
        refused: Builds the error for a reason.

    Raises:
        InvalidInputError: There is no such frame.

    >>> frames_of((slice(10, 20, 3), 0), 100, ValueError)
    (10, 20, (slice(0, 10, 3), 0))
    """
    if isinstance(region, FrameSpan):
        if not 0 <= region.start <= region.stop <= frames:
            raise refused(f"frames {region.start:,} to {region.stop:,} of {frames:,}")
        return region.start, region.stop, ()
    if not region or region[0] is Ellipsis:
        return 0, frames, region
    first, *rest = region
    if isinstance(first, slice):
        try:
            start, stop, step = first.indices(frames)
        except TypeError as error:
            raise refused(f"{first!r} is not a slice of frames: {error}") from error
        count = len(range(start, stop, step))
        if not count:
            return 0, 0, (slice(0, 0), *rest)
        low, high = sorted((start, start + (count - 1) * step))
        inner = slice(0, high - low + 1, step) if step > 0 else slice(None, None, step)
        return low, high + 1, (inner, *rest)
    try:
        index = first.__index__()
    except (AttributeError, TypeError):  # TypeError: of an array
        raise refused(f"frames are a number or a slice, got {first!r}") from None
    if not -frames <= index < frames:
        raise refused(f"it has {frames:,} frames, and {index:,} is not one of them")
    index %= frames
    return index, index + 1, (0, *rest)
