"""Rotate90: turn parts of tensors by quarters, at random."""

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

    Follows a step that chooses parts of volumes, or of arrays and images in tiles, such as
    `RandomPatch`; tensors declared ``of=`` it are turned with it. The axes are those of a
    part, and parts are as long along both.

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
        """Not reached: images that are not parts were refused."""
        raise NotImplementedError

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the size unchanged."""
        return size
