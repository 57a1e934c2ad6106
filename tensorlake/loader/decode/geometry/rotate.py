"""Rotate90: turn images and parts of tensors by quarters, at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import settle_probability
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry.placement import Placement
    from tensorlake.loader.decode.step import Draws

__all__ = ["Rotate90"]

_QUARTERS, _PLANE_NDIM = 4, 2


@dataclass(frozen=True, slots=True)
class Rotate90:
    """Turn by 0 to 3 quarters in the plane of two axes, each equally often, with a probability.

    Images are turned with the boxes, masks, polygons and keypoints declared ``of=`` them. Whole
    ones exchange their sides, so that images which are not square get them of one size by a step
    after it. Parts of volumes, and of arrays and images in tiles, such as those of `RandomPatch`,
    are turned with the tensors declared ``of=`` them: the axes are those of a part, and parts are
    as long along both.

    Example:
        >>> Rotate90(axes=(1, 2))
        Rotate90(axes=(1, 2), probability=1.0)
    """

    is_random: ClassVar[bool] = True
    resizes: ClassVar[bool] = False

    axes: tuple[int, int] = (0, 1)
    probability: float = 1.0

    def __post_init__(self) -> None:
        settle_probability(self)
        given = [*self.axes] if isinstance(self.axes, tuple | list) else []  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        good = all(is_whole_number(one) and one >= 0 for one in given)
        if len(given) != _PLANE_NDIM or not good or given[0] == given[1]:
            raise InvalidInputError(
                f"Rotate90: axes are two different ones, counted from 0, got {shown(self.axes)}"
                "\ngive such as (1, 2)",
                actual=self.axes,
            )
        object.__setattr__(self, "axes", (int(given[0]), int(given[1])))

    def turn(self, part: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Turn a part, a view; two random numbers are taken, whatever they decide."""
        is_turned, quarters = random.random() < self.probability, int(random.integers(_QUARTERS))
        return np.rot90(part, quarters, self.axes) if is_turned else part

    def place(self, placement: Placement, draws: Draws) -> Placement:
        """Turn what has been placed so far; as many random numbers are taken as for a part."""
        random = draws()
        is_turned, quarters = random.random() < self.probability, int(random.integers(_QUARTERS))
        if not is_turned:
            return placement
        return placement.turned(quarters if self.axes == (0, 1) else -quarters)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the size of squares; of others some are turned, and sizes differ."""
        return size if size is not None and size[0] == size[1] else None
