"""Clip: frames at equal distances from each video."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import check_choice
from tensorlake.loader.decode.step import PartStep
from tensorlake.quantities import checked_integer, is_whole_number
from tensorlake.types import Video

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.loader.decode.step import Known
    from tensorlake.types import SampleType

__all__ = ["Clip"]

Start: TypeAlias = Literal["random", "center", "all"] | int
_STARTS = ("random", "center", "all")
_SHORT = ("repeat_last", "error")


@dataclass(frozen=True, slots=True)
class Clip(PartStep):
    """Frames at equal distances from each video: uint8 (frames, height, width, 3).

    Only the packets of these frames are read. Steps for images may follow, and treat all frames of
    a clip alike: ``[Clip(16, stride=2), RandomResizedCrop(112, 112)]``.

    Args:
        frames: Number of frames.
        stride: Distance between frames: 2 takes every other one.
        start: Where a clip begins: "random", "center", or the number of its first frame. "all"
            gives the clips that follow one another from the beginning, (clips, frames, height,
            width, 3), as a list of arrays for a batch.
        short: For a video that ends before the clip: "repeat_last" repeats the last frame, "error"
            raises.

    >>> Clip(16, stride=2).start
    'random'
    """

    gives_images: ClassVar[bool] = True
    cuts_others: ClassVar[bool] = True
    shared_axes: ClassVar[int | None] = 1

    frames: int
    stride: int = 1
    start: Start = "random"
    short: Literal["repeat_last", "error"] = "repeat_last"

    def __post_init__(self) -> None:
        for name in ("frames", "stride"):
            checked = checked_integer(
                getattr(self, name),
                name=f"Clip: {name}",
                least=1,
                most=1 << 20,
                advice="write tl.decode.Clip(16, stride=2)",
            )
            object.__setattr__(self, name, checked)
        is_number = is_whole_number(self.start) and self.start >= 0
        if not is_number and not (isinstance(self.start, str) and self.start in _STARTS):
            raise InvalidInputError(
                f"Clip: start is {', '.join(map(repr, _STARTS))} or the number of a frame, got"
                f" {shown(self.start)}",
                argument="start",
                actual=self.start,
            )
        if is_number:
            object.__setattr__(self, "start", int(self.start))
        check_choice(self, "short", _SHORT)

    @property
    def draws_place(self) -> bool:
        """Whether clips begin at random."""
        return self.start == "random"

    @property
    def extent(self) -> int:
        """Frames of the video from the first of a clip to its last."""
        return (self.frames - 1) * self.stride + 1

    def check(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse other types than videos."""
        if not isinstance(sample_type, Video):
            raise InvalidInputError(
                f"decode of {tensor!r}: Clip takes frames of videos, and {tensor!r} is"
                f" {sample_type.describe()}\nleave {tensor!r} out of decode, or use"
                " tl.decode.RandomPatch for arrays",
                tensor=tensor,
            )

    def check_cut(self, sample_type: SampleType, tensor: str) -> None:
        """Take any array whose first axis is that of the video's frames."""

    def request(
        self, sample: Known, rng: np.random.Generator, others: Mapping[str, Known | None]
    ) -> Any:
        """Return the numbers of the frames, as an index."""
        del others
        count = 0 if sample.shape is None else sample.shape[0]
        if self.short == "error" and count < self.extent:
            raise InvalidInputError(
                f"Clip of {self.frames} frames, stride {self.stride}, does not fit into a video of"
                f" {count:,} frames",
                least=self.extent,
                otherwise="short='repeat_last'",
            )
        match self.start:
            case "random":
                starts = rng.integers(0, max(count - self.extent, 0) + 1, 1)
            case "center":
                starts = np.array([max(count - self.extent, 0) // 2])
            case "all":
                starts = np.arange(0, max(count - self.extent, 0) + 1, self.frames * self.stride)
            case number:
                starts = np.array([number])
        numbers = starts[:, None] + np.arange(self.frames) * self.stride
        numbers = np.minimum(numbers, count - 1)
        return (numbers if self.start == "all" else numbers[0],)

    def output_shape(self, sample_type: SampleType) -> tuple[int | None, ...]:
        """Return the shape of a clip, or of all clips."""
        shape = (self.frames, *sample_type.shape[1:])
        return (None, *shape) if self.start == "all" else shape
