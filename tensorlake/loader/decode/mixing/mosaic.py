"""Mosaic: parts of four images around a point, with everything that annotates them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import settle_probability
from tensorlake.loader.decode.geometry import Area, Placement
from tensorlake.loader.decode.step import BatchStep

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Mosaic", "Tile"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a mosaic.

    Attributes:
        image: Which of the group.
        area: Where it is in the mosaic.
        window: The mosaic in pixels of the image, whose corners lie around the point.
    """

    image: int
    area: Area
    window: Area

    def paste(self, image: NDArray[Any], mosaic: NDArray[Any]) -> None:
        """Copy the pixels of an image, or of a mask of it."""
        top, left = self.area.top, self.area.left
        bottom, right = top + self.area.height, left + self.area.width
        y, x = self.window.top, self.window.left
        mosaic[top:bottom, left:right] = image[top + y : bottom + y, left + x : right + x]

    @property
    def placement(self) -> Placement:
        """The mapping of the image to the mosaic, for its annotations."""
        return Placement.whole(self.window.height, self.window.width).cropped(self.window)


@dataclass(frozen=True, slots=True)
class Mosaic(BatchStep):
    """Join parts of four images around a random point (Bochkovskiy et al., 2020, arXiv:2004.10934).

    A row and its three partners are in random corners, each cut by the border of the image, whose
    size does not change. Everything declared ``of=`` the image is moved, clipped and joined, with
    what is ``per=`` its items; other columns stay the row's own. Images are of one size.

    Args:
        centre: The range (low, high) of the point, along both axes, as a share of the image.
        probability: Share of the rows that become mosaics.

    Example:
        >>> Mosaic().centre
        (0.25, 0.75)
    """

    group: ClassVar[int] = 4

    centre: tuple[float, float] = (0.25, 0.75)
    probability: float = 1.0

    def __post_init__(self) -> None:
        given = self.centre
        is_pair = isinstance(given, tuple | list) and len(given) == 2  # noqa: PLR2004 - low, high
        if (
            not is_pair
            or not all(isinstance(one, int | float) for one in given)
            or not (0 <= given[0] <= given[1] <= 1)
        ):
            raise InvalidInputError(
                f"Mosaic: centre is two numbers (low, high) from 0 to 1, got {shown(given)}"
                "\nwrite tl.decode.Mosaic(centre=(0.25, 0.75))",
                argument="centre",
                actual=given,
            )
        object.__setattr__(self, "centre", (float(given[0]), float(given[1])))
        settle_probability(self)

    def tiles(self, size: tuple[int, int], random: np.random.Generator) -> list[Tile]:
        """Place the images of a group: the row is number 0, its partners 1 to 3."""
        height, width = size
        low, high = self.centre
        down, across = (low + random.random(2) * (high - low)).tolist()
        y, x = round(down * height), round(across * width)
        order = random.permutation(4).tolist()
        corners = [
            (Area(0, 0, y, x), Area(height - y, width - x, height, width)),
            (Area(0, x, y, width - x), Area(height - y, -x, height, width)),
            (Area(y, 0, height - y, x), Area(-y, width - x, height, width)),
            (Area(y, x, height - y, width - x), Area(-y, -x, height, width)),
        ]
        return [
            Tile(image, area, window) for image, (area, window) in zip(order, corners, strict=True)
        ]
