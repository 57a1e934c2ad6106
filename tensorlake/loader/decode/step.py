"""Decode steps: frozen values that place an image or map its numbers.

``GeometricStep`` acts on a ``Placement`` and never sees pixels; ``ValueStep`` is one linear map
per channel and a dtype, so a chain of them is one multiplication and one addition. ``PixelStep``
changes the colours of images in between, ``PartStep`` chooses a part of a sample before it is
fetched, and ``BatchStep`` mixes rows of a batch after all others.
A step that draws random numbers calls ``draws()`` once; the generator belongs to the sample
(loader/runtime/rng.py), so the numbers follow from seed, epoch and place alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.loader.decode.geometry.placement import Placement
    from tensorlake.types import SampleMap, SampleType

__all__ = [
    "BatchStep",
    "Draws",
    "GeometricStep",
    "Known",
    "LinearMap",
    "PartStep",
    "PixelStep",
    "Several",
    "Step",
    "ValueStep",
    "cast_exactly",
]

Draws: TypeAlias = Callable[[], np.random.Generator]


@dataclass(frozen=True, slots=True)
class LinearMap:
    """``values · scale + shift``, per channel or for all, computed in float32, as ``dtype``."""

    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    dtype: np.dtype

    @property
    def is_identity(self) -> bool:
        """Whether at most the dtype changes."""
        return bool(np.all(self.scale == 1) and np.all(self.shift == 0))

    def apply(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Map an array whose last axis is the channels.

        Raises:
            InvalidInputError: An integer is not one of the dtype.
        """
        if self.is_identity:
            return cast_exactly(values, self.dtype)
        mapped = values.astype(np.float32) * self.scale + self.shift
        return mapped.astype(self.dtype, copy=False)


def cast_exactly(values: NDArray[np.generic], dtype: np.dtype) -> NDArray[np.generic]:
    """Return values as another dtype, the same array if they have it.

    Raises:
        InvalidInputError: An integer is out of its range, and would wrap around.
    """
    is_narrowed = values.dtype.kind in "iu" and dtype.kind in "iu"
    if is_narrowed and values.size and not np.can_cast(values.dtype, dtype):
        limits = np.iinfo(dtype.name)
        for value in (int(values.min()), int(values.max())):  # pyright: ignore[reportArgumentType] - of integers
            if not limits.min <= value <= limits.max:
                raise InvalidInputError(
                    f"tl.decode.Cast({dtype.name!r}): the batch has {value}, and {dtype.name} holds"
                    f" {limits.min} to {limits.max}\ncast to a wider dtype",
                    expected=dtype.name,
                    actual=value,
                )
    return values.astype(dtype, copy=False)


@runtime_checkable
class GeometricStep(Protocol):
    """A step that decides which pixels go where."""

    is_random: ClassVar[bool]
    resizes: ClassVar[bool]

    def place(self, placement: Placement, draws: Draws) -> Placement:
        """Continue a placement."""
        ...

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the height and width it makes of any image; None if they depend on it."""
        ...


@runtime_checkable
class ValueStep(Protocol):
    """A step that maps numbers, each channel by itself."""

    def then(self, before: LinearMap) -> LinearMap:
        """Return ``before`` followed by this step."""
        ...


class PixelStep(ABC):
    """A step that changes the colours of images where they are, after geometric steps.

    A step is a frozen dataclass. Its name and arguments are its JSON.
    """

    is_random: ClassVar[bool]

    def check(self, shape: tuple[int | None, ...], dtype: np.dtype, tensor: str) -> None:
        """Refuse images that the step is not for.

        Raises:
            InvalidInputError: With the reason.
        """
        del shape, dtype, tensor

    @abstractmethod
    def apply(
        self, pixels: NDArray[np.generic], random: np.random.Generator
    ) -> NDArray[np.generic]:
        """Change images (…, height, width, channels), all alike."""


class BatchStep(ABC):
    """A step that makes a row of a batch from itself and its partners (``mixing/``).

    A step is a frozen dataclass. Its name and arguments are its JSON.

    Attributes:
        group: Rows that are mixed with each other.
        probability: Share of the rows that the step changes; of several batch steps, at most one
            changes a row.
    """

    is_random: ClassVar[bool] = True
    group: ClassVar[int] = 2

    probability: float


@dataclass(frozen=True, slots=True)
class Known:
    """A sample, as its chunk's header describes it.

    Attributes:
        type: The tensor's type.
        map: The sample's map.
        shape: Shape of the whole decoded sample, where recorded.
    """

    type: SampleType
    map: SampleMap
    shape: tuple[int, ...] | None


class Several(tuple[Any, ...]):
    """Several requests of one sample, whose results of one shape are stacked."""

    __slots__ = ()


class PartStep(ABC):
    """A step that turns the map of a sample and random numbers into a request.

    A step is a frozen dataclass. Its name and arguments are its JSON.
    """

    is_random: ClassVar[bool] = True
    gives_images: ClassVar[bool] = False
    """Whether results are images (…, height, width, channels), which geometric steps may follow."""
    moves: ClassVar[bool] = False
    """Whether results lack pixels that the whole sample has, so that annotations do not fit."""
    leaves_null: ClassVar[bool] = False
    """Whether rows in which the sample is NULL have no part, and are not read."""
    cuts_others: ClassVar[bool] = False
    """Whether the requests are regions, which also fit tensors declared ``of=`` this one."""
    gives_boxes: ClassVar[bool] = False
    """Whether results are boxes or planes of arrays, which steps may mirror and turn."""
    shared_axes: ClassVar[int | None] = None
    """First axes that these have in common; None: all."""

    @property
    def stacks(self) -> bool:
        """Whether results of several requests are stacked."""
        return False

    @property
    def draws_place(self) -> bool:
        """Whether the part is at a random place."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """Other tensors whose samples a request depends on."""
        return ()

    def check(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse types and shapes that the step is not for.

        Raises:
            InvalidInputError: With the reason.
        """
        del sample_type, tensor

    def check_cut(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse types ``of=`` the step's tensor that its requests do not fit; as `check`."""
        self.check(sample_type, tensor)

    @abstractmethod
    def request(
        self, sample: Known, rng: np.random.Generator, others: Mapping[str, Known | None]
    ) -> Any:
        """Return what ``wanted_parts`` and ``decode_parts`` of the type take.

        Args:
            sample: The sample.
            rng: Random numbers of this sample, in this place of the epoch.
            others: The row's samples of the tensors that the step `needs`; None for NULL.
        """

    def request_at(
        self,
        place: int,
        sample: Known,
        rng: np.random.Generator,
        others: Mapping[str, Known | None],
    ) -> Any:
        """Return the request at a place of the epoch; the same at all, for equal numbers."""
        del place
        return self.request(sample, rng, others)

    @abstractmethod
    def output_shape(self, sample_type: SampleType) -> tuple[int | None, ...]:
        """Return the shape of each result; None where lengths differ."""

    def output_dtype(self, sample_type: SampleType) -> np.dtype | None:
        """Return the dtype of results, before steps that change numbers; None where it differs."""
        return sample_type.dtype

    def finish(self, made: Any, request: Any, sample_map: SampleMap) -> Any:
        """Return the result, given what ``decode_parts`` made for a request."""
        del request, sample_map
        return made

    @property
    def members(self) -> tuple[Any, ...]:
        """The steps that it does together, whose JSON is written."""
        return (self,)


Step: TypeAlias = GeometricStep | ValueStep | PartStep | PixelStep | BatchStep
