"""Parts of arrays: boxes and planes at random places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.step import PartStep, Several
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from tensorlake.types import SampleMap, SampleType

__all__ = ["RandomPatch", "Slice"]


@dataclass(frozen=True, slots=True)
class RandomPatch(PartStep):
    """A box of this size at a random place, or several; axes beyond those of ``size`` stay whole.

    Args:
        size: Length along each of the first axes.
        n: Number of boxes; above 1 they are stacked along a new first axis.

    >>> RandomPatch((64, 64)).n
    1
    """

    moves: ClassVar[bool] = True

    size: tuple[int, ...]
    n: int = 1

    def __post_init__(self) -> None:
        size = tuple(self.size)
        if not size or not all(is_whole_number(one) and one > 0 for one in size):
            raise InvalidInputError(
                f"RandomPatch({shown(self.size)}): give a length for each axis, as in (64, 64)"
            )
        if not is_whole_number(self.n) or self.n < 1:
            raise InvalidInputError(f"RandomPatch(n={shown(self.n)}): give a number from 1 on")
        object.__setattr__(self, "size", tuple(int(one) for one in size))

    def check(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse sizes of more axes, or longer ones, than samples have."""
        pairs = list(zip(self.size, sample_type.shape, strict=False))
        if len(pairs) < len(self.size) or any(n is not None and a > n for a, n in pairs):
            raise InvalidInputError(
                f"decode of {tensor!r}: RandomPatch of {self.size} does not fit into samples of"
                f" shape {sample_type.shape}\ngive a smaller size",
                tensor=tensor,
            )

    def request(
        self,
        sample_type: SampleType,
        sample_map: SampleMap,
        shape: tuple[int, ...] | None,
        rng: np.random.Generator,
    ) -> Any:
        """Return the region of a box, or of several."""
        del sample_type, sample_map
        lengths = shape or ()
        if len(lengths) < len(self.size) or any(
            n < a for a, n in zip(self.size, lengths, strict=False)
        ):
            raise InvalidInputError(
                f"RandomPatch of {self.size} does not fit into a sample of shape {lengths}"
                "\nleave small samples out by a query, or give a smaller size"
            )
        room = np.array(lengths[: len(self.size)], np.int64) - np.array(self.size, np.int64)
        starts = rng.integers(0, room + 1, (self.n, len(self.size))).tolist()
        regions = [
            tuple(slice(at, at + side) for at, side in zip(corner, self.size, strict=True))
            for corner in starts
        ]
        return regions[0] if self.n == 1 else Several(regions)

    def output_shape(self, sample_type: SampleType) -> tuple[int | None, ...]:
        """Return the shape of a box, or of several."""
        shape = (*self.size, *sample_type.shape[len(self.size) :])
        return shape if self.n == 1 else (self.n, *shape)


@dataclass(frozen=True, slots=True)
class Slice(PartStep):
    """One element along an axis, at a random place: a plane of a volume.

    Args:
        axis: The axis, which the result does not have.

    >>> Slice(axis=2).axis
    2
    """

    moves: ClassVar[bool] = True

    axis: int = 0

    def check(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse axes that samples do not have."""
        if not is_whole_number(self.axis) or not 0 <= self.axis < len(sample_type.shape):
            raise InvalidInputError(
                f"decode of {tensor!r}: samples of shape {sample_type.shape} have no axis for"
                f" Slice({shown(self.axis)})\ngive one from 0 to {len(sample_type.shape) - 1}",
                tensor=tensor,
            )

    def request(
        self,
        sample_type: SampleType,
        sample_map: SampleMap,
        shape: tuple[int, ...] | None,
        rng: np.random.Generator,
    ) -> Any:
        """Return the region of one element."""
        del sample_type, sample_map
        length = 0 if shape is None else shape[self.axis]
        if not length:
            raise InvalidInputError(
                f"Slice({self.axis}) of a sample of shape {shape}, which has none"
                "\nleave empty samples out by a query"
            )
        return (*[slice(None)] * self.axis, int(rng.integers(length)))

    def output_shape(self, sample_type: SampleType) -> tuple[int | None, ...]:
        """Return the shape without the axis."""
        return tuple(n for axis, n in enumerate(sample_type.shape) if axis != self.axis)
