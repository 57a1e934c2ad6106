"""The origin of the pixels of a batch's image: crop, one resize, window, turn, mirror.

    stored image ─► crop ─► resize to ``size`` ─► window (may reach outside: padded)
                                                    ─► exchange of the axes ─► mirror

Geometric steps act on a ``Placement`` before any pixel is decoded. So a chain of steps costs one
resample, the decoder knows which scale suffices, and the same placement moves boxes exactly.
A turn by a quarter is an exchange of the axes and a mirror. A chain with two resizes cannot be a
placement; it is refused when the loader is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Area", "Placement"]


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of whole pixels: rows [top, top + height), columns [left, left + width)."""

    top: int
    left: int
    height: int
    width: int

    @property
    def region(self) -> tuple[slice, slice]:
        """The area as indices of an array."""
        rows = slice(self.top, self.top + self.height)
        return rows, slice(self.left, self.left + self.width)


@dataclass(frozen=True, slots=True)
class Placement:
    """The mapping from one stored image to one image of a batch."""

    source: tuple[int, int]  # height and width as stored
    crop: Area  # within the source
    size: tuple[int, int]  # height and width of the crop after the resize
    window: Area  # within ``size``, or beyond it where padded
    mirror_x: bool = False  # in the batch, after the exchange of the axes
    mirror_y: bool = False
    transposed: bool = False  # rows of the window become columns of the batch
    antialias: bool = True
    exact: bool = False
    fill: int = 0

    @classmethod
    def whole(cls, height: int, width: int) -> Placement:
        """Place an image as it is stored."""
        everything = Area(0, 0, height, width)
        return cls((height, width), everything, (height, width), everything)

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of the image in the batch."""
        height, width = self.window.height, self.window.width
        return (width, height) if self.transposed else (height, width)

    @property
    def visible(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom of the pixels in the batch that are not padding."""
        window, (height, width) = self.window, self.size
        left, top = max(0, -window.left), max(0, -window.top)
        right = max(left, min(window.width, width - window.left))
        bottom = max(top, min(window.height, height - window.top))
        if self.transposed:
            left, top, right, bottom = top, left, bottom, right
        height, width = self.output
        if self.mirror_x:
            left, right = width - right, width - left
        if self.mirror_y:
            top, bottom = height - bottom, height - top
        return left, top, right, bottom

    @property
    def is_mirrored(self) -> bool:
        """Whether left and right have changed places: by a mirror, not by a turn."""
        return self.mirror_x ^ self.mirror_y ^ self.transposed

    @property
    def resizes(self) -> bool:
        """Whether pixels are resampled at all."""
        return self.size != (self.crop.height, self.crop.width)

    @property
    def of_crop(self) -> Placement:
        """The same placement of an image that is the crop."""
        size = (self.crop.height, self.crop.width)
        return replace(self, source=size, crop=Area(0, 0, *size))

    def cropped(self, area: Area, *, fill: int = 0) -> Placement:
        """Crop the current placement to an area; pixels beyond the border are ``fill``."""
        top, left, height, width = area.top, area.left, area.height, area.width
        if self.mirror_y:
            top = self.output[0] - top - height
        if self.mirror_x:
            left = self.output[1] - left - width
        if self.transposed:
            top, left, height, width = left, top, width, height
        window = Area(self.window.top + top, self.window.left + left, height, width)
        inside = (
            window.top >= 0
            and window.left >= 0
            and window.top + window.height <= self.size[0]
            and window.left + window.width <= self.size[1]
        )
        if self.resizes or not inside:
            return replace(self, window=window, fill=fill)
        crop = Area(self.crop.top + window.top, self.crop.left + window.left, height, width)
        size = (height, width)
        return replace(self, crop=crop, size=size, window=Area(0, 0, *size))

    def resized(self, height: int, width: int, *, antialias: bool, exact: bool) -> Placement:
        """Resample the current placement, which must not be resized or padded yet."""
        if self.resizes or self.window != Area(0, 0, *self.size):
            msg = "a placement has one resize, before any padding"
            raise ValueError(msg)
        if self.transposed:
            height, width = width, height
        return replace(
            self,
            size=(height, width),
            window=Area(0, 0, height, width),
            antialias=antialias,
            exact=exact,
        )

    def mirrored(self, *, x: bool = False, y: bool = False) -> Placement:
        """Mirror the current placement, left to right (x) or top to bottom (y)."""
        return replace(self, mirror_x=self.mirror_x != x, mirror_y=self.mirror_y != y)

    def turned(self, quarters: int) -> Placement:
        """Turn the current placement by quarters, from x to y negative, as ``np.rot90`` does."""
        turned = self
        for _ in range(quarters % 4):
            turned = replace(
                turned,
                mirror_x=turned.mirror_y,
                mirror_y=not turned.mirror_x,
                transposed=not turned.transposed,
            )
        return turned

    def move_points(self, points: NDArray[np.float64]) -> None:
        """Move points (…, 2) of x and y from the stored image to the image of a batch, in place.

        Pixel (0, 0) extends from 0 to 1 along both axes.
        """
        x, y = points[..., 0], points[..., 1]
        x -= self.crop.left
        x *= self.size[1] / self.crop.width
        x -= self.window.left
        y -= self.crop.top
        y *= self.size[0] / self.crop.height
        y -= self.window.top
        if self.transposed:
            points[...] = points[..., ::-1].copy()
        height, width = self.output
        if self.mirror_x:
            x[...] = width - x
        if self.mirror_y:
            y[...] = height - y
