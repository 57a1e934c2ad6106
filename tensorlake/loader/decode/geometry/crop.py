"""CenterCrop and RandomResizedCrop: a part of the image instead of all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, ClassVar

from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode.arguments import SQUARE, plain_number, settle_resampling, settle_size
from tensorlake.loader.decode.geometry.placement import Area

if TYPE_CHECKING:
    import numpy as np

    from tensorlake.loader.decode.geometry.placement import Placement
    from tensorlake.loader.decode.step import Draws

__all__ = ["CenterCrop", "RandomResizedCrop"]

TRIES = 10  # as torchvision: after ten areas that do not fit, the largest central one is used


def is_range(given: object, *, most: float) -> bool:
    """Whether a value is two positive finite numbers in ascending order."""
    if not isinstance(given, Sequence) or len(given) != 2:  # noqa: PLR2004 - low and high
        return False
    low, high = given
    if not all(isinstance(one, Real) and math.isfinite(one) for one in (low, high)):
        return False
    return 0 < low <= high <= most


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """Keep the middle ``height`` × ``width``; a smaller image is padded with zeros.

    >>> CenterCrop(224) == CenterCrop(224, 224)
    True
    """

    is_random: ClassVar[bool] = False
    resizes: ClassVar[bool] = False

    height: int
    width: int = SQUARE

    def __post_init__(self) -> None:
        settle_size(self, is_square=True)

    def place(self, placement: Placement, draws: Draws) -> Placement:  # noqa: ARG002 - not random
        """Crop what has been placed so far."""
        was_height, was_width = placement.output
        top, left = (was_height - self.height) // 2, (was_width - self.width) // 2
        return placement.cropped(Area(top, left, self.height, self.width))

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int]:  # noqa: ARG002 - fixed
        """Return the fixed output size."""
        return self.height, self.width


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """Take a random part of the image, of random shape, and resize it to ``height`` × ``width``.

    ``scale`` bounds the part's share of the image's area, ``ratio`` its width over its height.

    Example:
        >>> RandomResizedCrop(224, 160).output_size((480, 640))
        (224, 160)
    """

    is_random: ClassVar[bool] = True
    resizes: ClassVar[bool] = True

    height: int
    width: int = SQUARE
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    antialias: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        settle_size(self, is_square=True)
        settle_resampling(self)
        for name, pair in (("scale", self.scale), ("ratio", self.ratio)):
            if not is_range(pair, most=1 if name == "scale" else math.inf):
                limit = " of at most 1" if name == "scale" else ""
                raise InvalidInputError(
                    f"RandomResizedCrop: {name} is two positive numbers (low, high){limit},"
                    f" got {pair!r}\nwrite scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)",
                    actual=pair,
                )
            object.__setattr__(self, name, tuple(map(plain_number, pair)))

    def place(self, placement: Placement, draws: Draws) -> Placement:
        """Sample an area, crop to it and resize."""
        area = self._draw(*placement.output, draws())
        return placement.cropped(area).resized(
            self.height, self.width, antialias=self.antialias, exact=self.exact
        )

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int]:  # noqa: ARG002 - fixed
        """Return the fixed output size."""
        return self.height, self.width

    def _draw(self, height: int, width: int, random: np.random.Generator) -> Area:
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for share, ratio_draw, top_draw, left_draw in random.random((TRIES, 4)).tolist():
            pixels = height * width * (self.scale[0] + share * (self.scale[1] - self.scale[0]))
            ratio = math.exp(low + ratio_draw * (high - low))
            part_width, part_height = (
                round(math.sqrt(pixels * ratio)),
                round(math.sqrt(pixels / ratio)),
            )
            if 0 < part_width <= width and 0 < part_height <= height:
                top = int(top_draw * (height - part_height + 1))
                left = int(left_draw * (width - part_width + 1))
                return Area(top, left, part_height, part_width)
        part_width = max(1, min(width, round(height * self.ratio[1])))
        part_height = max(1, min(height, round(width / self.ratio[0])))
        return Area((height - part_height) // 2, (width - part_width) // 2, part_height, part_width)
