"""Resize and Letterbox: every image to one size, or to one size of its short side.

Resampling is bilinear and antialiased, as in Pillow and torchvision, unless requested otherwise.
Images at least twice as large as needed are decoded from JPEG at 1/2, 1/4 or 1/8 scale first;
``exact=True`` forbids that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tensorlake.loader.decode.arguments import SQUARE, settle_resampling, settle_size
from tensorlake.loader.decode.geometry.placement import Area
from tensorlake.quantities import checked_integer

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry.placement import Placement
    from tensorlake.loader.decode.step import Draws

__all__ = ["Letterbox", "Resize"]

FILL_MAX = 65535  # of 16-bit images


@dataclass(frozen=True, slots=True)
class Resize:
    """Resize to ``height`` × ``width``; without ``width`` the short side becomes ``height``.

    >>> Resize(256)
    Resize(height=256, width=None, antialias=True, exact=False)
    """

    is_random: ClassVar[bool] = False
    resizes: ClassVar[bool] = True

    height: int
    width: int | None = None
    antialias: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        settle_size(self, is_square=False)
        settle_resampling(self)

    def place(self, placement: Placement, draws: Draws) -> Placement:  # noqa: ARG002 - not random
        """Resize the current placement."""
        height, width = self._size_of(placement.output)
        return placement.resized(height, width, antialias=self.antialias, exact=self.exact)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the size; None if one side depends on the image."""
        if self.width is not None:
            return self.height, self.width
        return None if size is None else self._size_of(size)

    def _size_of(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the output height and width for an image of a given size."""
        height, width = size
        if self.width is not None:
            return self.height, self.width
        if height <= width:
            return self.height, max(1, round(width * self.height / height))
        return max(1, round(height * self.height / width)), self.height


@dataclass(frozen=True, slots=True)
class Letterbox:
    """Fit the whole image into ``height`` × ``width``, the rest filled with ``fill``.

    >>> Letterbox(640) == Letterbox(640, 640)
    True
    """

    is_random: ClassVar[bool] = False
    resizes: ClassVar[bool] = True

    height: int
    width: int = SQUARE
    fill: int = 114
    antialias: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        settle_size(self, is_square=True)
        settle_resampling(self)
        fill = checked_integer(self.fill, name="Letterbox: fill", most=FILL_MAX)
        object.__setattr__(self, "fill", fill)

    def place(self, placement: Placement, draws: Draws) -> Placement:  # noqa: ARG002 - not random
        """Resize by the smaller of both ratios, then pad evenly."""
        was_height, was_width = placement.output
        ratio = min(self.height / was_height, self.width / was_width)
        height = min(self.height, max(1, round(was_height * ratio)))
        width = min(self.width, max(1, round(was_width * ratio)))
        fitted = placement.resized(height, width, antialias=self.antialias, exact=self.exact)
        top, left = (self.height - height) // 2, (self.width - width) // 2
        return fitted.cropped(Area(-top, -left, self.height, self.width), fill=self.fill)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int]:  # noqa: ARG002 - fixed
        """Return the fixed output size."""
        return self.height, self.width
