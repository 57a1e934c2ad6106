"""Flip: mirror an image, at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import settle_probability

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry.placement import Placement
    from tensorlake.loader.decode.step import Draws

__all__ = ["Flip"]


@dataclass(frozen=True, slots=True)
class Flip:
    """Mirror left to right ("horizontal") or top to bottom ("vertical"), with a probability.

    Example:
        >>> Flip(axis="vertical")
        Flip(probability=0.5, axis='vertical')
    """

    is_random: ClassVar[bool] = True
    resizes: ClassVar[bool] = False

    probability: float = 0.5
    axis: Literal["horizontal", "vertical"] = "horizontal"

    def __post_init__(self) -> None:
        settle_probability(self)
        if not isinstance(self.axis, str) or self.axis not in ("horizontal", "vertical"):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise InvalidInputError(
                f"Flip: axis is 'horizontal' or 'vertical', got {shown(self.axis)}",
                actual=self.axis,
            )

    def place(self, placement: Placement, draws: Draws) -> Placement:
        """Mirror what has been placed so far, or leave it."""
        if draws().random() >= self.probability:
            return placement
        return placement.mirrored(x=self.axis == "horizontal", y=self.axis == "vertical")

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the size unchanged."""
        return size
