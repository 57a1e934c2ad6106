"""Flip: mirror an image or a part of an array, at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import settle_probability
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry.placement import Placement
    from tensorlake.loader.decode.step import Draws

__all__ = ["Flip"]


@dataclass(frozen=True, slots=True)
class Flip:
    """Mirror left to right ("horizontal") or top to bottom ("vertical"), with a probability.

    Parts of volumes and arrays are mirrored along the axis of a number, counted from 0, and tensors
    declared ``of=`` them with them. In images 0 is vertical, and 1 horizontal.

    Example:
        >>> Flip(axis="vertical"), Flip(axis=2)
        (Flip(probability=0.5, axis='vertical'), Flip(probability=0.5, axis=2))
    """

    is_random: ClassVar[bool] = True
    resizes: ClassVar[bool] = False

    probability: float = 0.5
    axis: Literal["horizontal", "vertical"] | int = "horizontal"

    def __post_init__(self) -> None:
        settle_probability(self)
        if is_whole_number(self.axis) and self.axis >= 0:
            object.__setattr__(self, "axis", int(self.axis))
        elif not isinstance(self.axis, str) or self.axis not in ("horizontal", "vertical"):
            raise InvalidInputError(
                "Flip: axis is 'horizontal', 'vertical', or the number of an axis, got"
                f" {shown(self.axis)}",
                actual=self.axis,
            )

    @property
    def number(self) -> int:
        """The axis of an array."""
        return self.axis if isinstance(self.axis, int) else int(self.axis == "horizontal")

    def turn(self, part: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Mirror a part, a view, or leave it."""
        return np.flip(part, self.number) if random.random() < self.probability else part

    def place(self, placement: Placement, draws: Draws) -> Placement:
        """Mirror what has been placed so far, or leave it."""
        if draws().random() >= self.probability:
            return placement
        return placement.mirrored(x=self.number == 1, y=self.number == 0)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the size unchanged."""
        return size
