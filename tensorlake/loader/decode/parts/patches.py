"""Parts of arrays: boxes and planes at random places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import check_choice, is_number
from tensorlake.loader.decode.parts.centres import Centres
from tensorlake.loader.decode.step import PartStep, Several
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.loader.decode.step import Known
    from tensorlake.types import SampleMap, SampleType

__all__ = ["RandomPatch", "Slice"]

_EVENLY = 0.5
_MOST_BOXES = 4096
_SHORT = ("error", "pad")


@dataclass(frozen=True, slots=True)
class RandomPatch(PartStep):
    """A box of this size at a random place, or several; axes beyond those of ``size`` stay whole.

    Everything that is declared ``of=`` the tensor, such as its mask, is cut at the same place.

    With ``center_on`` the middle of a box is a random voxel of a mask: with the probability
    ``positive`` one of a class, else one of the background (code 0), each with equal probability,
    as MONAI's ``RandCropByPosNegLabeld`` draws them. A box that would reach beyond the sample is
    moved inside. A mask of one kind of voxels, or of a row in which it is NULL, decides nothing.
    Places are known from the mask's map (`ClassTable`); only tiles over the boxes are read.

    Args:
        size: Length along each of the first axes.
        n: Number of boxes; above 1 they are stacked along a new first axis.
        center_on: A mask in tiles that is declared ``of=`` the tensor, and is also read.
        positive: Probability of a box about a voxel of a class, other than 0 and the mask's
            ``ignore``; 0.5 unless given.
        short: For a sample shorter than a box along an axis: "pad" adds zeros after its end,
            "error" raises.

    >>> RandomPatch((64, 64)).n
    1
    """

    moves: ClassVar[bool] = True
    cuts_others: ClassVar[bool] = True
    gives_boxes: ClassVar[bool] = True

    size: tuple[int, ...]
    n: int = 1
    center_on: str | None = None
    positive: float | None = None
    short: Literal["error", "pad"] = "error"

    def __post_init__(self) -> None:
        given: Any = self.size
        is_listed = isinstance(given, list | tuple) or (
            isinstance(given, np.ndarray) and given.ndim
        )
        size = tuple(given) if is_listed else ()
        if not size or not all(is_whole_number(one) and one > 0 for one in size):
            raise InvalidInputError(
                f"RandomPatch({shown(self.size)}): give a length for each axis, as in (64, 64)"
            )
        if not is_whole_number(self.n) or not 1 <= self.n <= _MOST_BOXES:
            raise InvalidInputError(
                f"RandomPatch(n={shown(self.n)}): give a number from 1 to {_MOST_BOXES:,}"
            )
        check_choice(self, "short", _SHORT)
        object.__setattr__(self, "size", tuple(int(one) for one in size))
        if self.center_on is not None and not (isinstance(self.center_on, str) and self.center_on):
            raise InvalidInputError(
                f"RandomPatch(center_on={shown(self.center_on)}): give the name of a mask"
            )
        if self.positive is not None:
            self._check_positive(self.positive)

    def _check_positive(self, given: Any) -> None:
        if self.center_on is None:
            raise InvalidInputError(
                f"RandomPatch(positive={shown(given)}) is a share of boxes about voxels of"
                ' a mask\nname it: center_on="mask"'
            )
        if not (is_number(given) and 0 <= given <= 1):
            raise InvalidInputError(
                f"RandomPatch(positive={shown(given)}): give a number from 0 to 1"
            )
        object.__setattr__(self, "positive", float(given))

    @property
    def draws_place(self) -> bool:
        """Boxes are at random places."""
        return True

    @property
    def stacks(self) -> bool:
        """Several boxes are."""
        return self.n > 1

    @property
    def needs(self) -> tuple[str, ...]:
        """The mask."""
        return () if self.center_on is None else (self.center_on,)

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
        self, sample: Known, rng: np.random.Generator, others: Mapping[str, Known | None]
    ) -> Any:
        """Return the region of a box, or of several."""
        lengths = sample.shape or ()
        is_short = any(n < a for a, n in zip(self.size, lengths, strict=False))
        if len(lengths) < len(self.size) or (is_short and self.short == "error"):
            raise InvalidInputError(
                f"RandomPatch of {self.size} does not fit into a sample of shape {lengths}"
                "\nleave small samples out by a query, give a smaller size, or short='pad'"
            )
        room = np.array(lengths[: len(self.size)], np.int64) - np.array(self.size, np.int64)
        room = np.maximum(room, 0)
        mask = None if self.center_on is None else others[self.center_on]
        if mask is None:  # without a mask, or of a row whose mask is NULL
            starts = rng.integers(0, room + 1, (self.n, len(self.size)))
        else:
            starts = self._centred(Centres.of(mask, self.center_on or ""), room, rng)
        regions = [
            tuple(slice(at, at + side) for at, side in zip(corner, self.size, strict=True))
            for corner in starts.tolist()
        ]
        return regions[0] if self.n == 1 else Several(regions)

    def _centred(self, centres: Centres, room: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return where boxes begin, moved inside where they would reach beyond the sample."""
        size = np.array(self.size, np.int64)
        drawn = centres.draw(self.n, rng, positive=self._positive)
        return np.clip(drawn[:, : len(size)] - size // 2, 0, room)

    def finish(self, made: Any, request: Any, sample_map: SampleMap) -> Any:
        """Return a box; zeros are added after the end of a short sample."""
        del request, sample_map
        values = np.asarray(made)
        missing = [(0, a - n) for a, n in zip(self.size, values.shape, strict=False)]
        if not any(after for _, after in missing):
            return values
        return np.pad(values, [*missing, *[(0, 0)] * (values.ndim - len(missing))])

    @property
    def _positive(self) -> float:
        return _EVENLY if self.positive is None else self.positive

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
    cuts_others: ClassVar[bool] = True
    gives_boxes: ClassVar[bool] = True

    axis: int = 0

    @property
    def draws_place(self) -> bool:
        """Elements are at random places."""
        return True

    def check(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse axes that samples do not have."""
        if not is_whole_number(self.axis) or not 0 <= self.axis < len(sample_type.shape):
            raise InvalidInputError(
                f"decode of {tensor!r}: samples of shape {sample_type.shape} have no axis for"
                f" Slice({shown(self.axis)})\ngive one from 0 to {len(sample_type.shape) - 1}",
                tensor=tensor,
            )

    def request(
        self, sample: Known, rng: np.random.Generator, others: Mapping[str, Known | None]
    ) -> Any:
        """Return the region of one element."""
        del others
        shape = sample.shape
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
