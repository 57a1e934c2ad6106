"""Centres: voxels of a mask about which patches are cut, drawn from the map of its sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.types import TiledSamples

if TYPE_CHECKING:
    from tensorlake.loader.decode.step import Known
    from tensorlake.types import ClassTable

__all__ = ["Centres"]


@dataclass(frozen=True, slots=True, eq=False)
class Centres:
    """The voxels of one mask.

    Attributes:
        table: Its table of classes.
        positive: The entries of voxels of a class, bool (entries,).
        negative: Those of the background, code 0.
    """

    table: ClassTable
    positive: np.ndarray
    negative: np.ndarray

    @classmethod
    def of(cls, mask: Known, tensor: str) -> Self:
        """Read the map of a mask.

        Raises:
            InvalidInputError: It has no table of classes, or no voxels.
            CorruptSampleError: It is damaged.
        """
        assert isinstance(mask.type, TiledSamples), "checked when the loader was made"
        table = mask.type.head_of(mask.map, tensor=tensor, row=0).classes
        if table is None or not len(table.code):
            raise InvalidInputError(
                f"center_on={tensor!r} has no table of classes in this row: it is empty, or has"
                " other values than integers of up to 1,024 kinds\nleave the row out by a query"
            )
        background = table.code == 0
        ignored = table.code == getattr(mask.type, "ignore", None)
        return cls(table, ~background & ~ignored, background & ~ignored)

    def draw(self, count: int, rng: np.random.Generator, *, positive: float) -> np.ndarray:
        """Draw voxels: each with a probability one of a class, else one of the background.

        Returns:
            Their positions along each axis, int64 (count, axes).
        """
        is_positive = rng.random(count) < positive
        drawn = np.empty((count, len(self.table.grid.shape)), np.int64)
        for own, wanted, other in (
            (is_positive, self.positive, self.negative),
            (~is_positive, self.negative, self.positive),
        ):
            chosen = wanted if wanted.any() else other
            if not chosen.any():  # all of it is ignored
                chosen = np.ones(len(chosen), np.bool_)
            drawn[own] = self.table.draw(chosen, int(own.sum()), rng)
        return drawn
