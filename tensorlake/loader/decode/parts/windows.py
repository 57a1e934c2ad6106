"""WindowPart: the window of a sample that its place in the epoch names, for ``windows()``.

    place    position of the row │ number of the window among those of the row
             32 bits               32 bits

Windows of a row are numbered along the last axis first. No random numbers are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.decode.step import PartStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorlake.loader.decode.step import Known
    from tensorlake.types import SampleMap, SampleType

__all__ = ["WINDOW_BITS", "WindowAxis", "WindowPart", "starts_of"]

WINDOW_BITS: Final = 32
_WINDOW_MASK: Final = (1 << WINDOW_BITS) - 1


class WindowAxis(Protocol):
    """The windows along one axis: `Steps`."""

    @property
    def size(self) -> int:
        """Elements of a window."""
        ...

    @property
    def stride(self) -> int:
        """Distance of its elements."""
        ...

    @property
    def tail(self) -> str:
        """Treatment of windows that extend past the end."""
        ...

    def windows(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of windows of some lengths."""
        ...

    def starts(self, numbers: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first element of windows, by their numbers."""
        ...


def starts_of(
    axes: Sequence[WindowAxis], numbers: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where windows begin, int64 (windows, axes).

    Args:
        axes: The axes.
        numbers: The number of each window among those of its sample.
        lengths: The lengths of its sample, int64 (windows, axes).
    """
    starts = np.empty(lengths.shape, np.int64)
    for at in reversed(range(len(axes))):
        own = lengths[:, at]
        numbers, number = np.divmod(numbers, np.maximum(axes[at].windows(own), 1))
        starts[:, at] = axes[at].starts(number, own)
    return starts


@dataclass(frozen=True, slots=True)
class WindowPart(PartStep):
    """A window of each sample.

    Attributes:
        axes: The windows along the first axes.
        gives_images: Whether samples are videos.
    """

    is_random: ClassVar[bool] = False
    moves: ClassVar[bool] = True
    leaves_null: ClassVar[bool] = True

    axes: tuple[WindowAxis, ...]
    gives_images: bool = False  # pyright: ignore[reportIncompatibleVariableOverride] - of the type

    def request(
        self, sample: Known, rng: np.random.Generator, others: Mapping[str, Known | None]
    ) -> Any:
        """Return the region of the first window."""
        return self.request_at(0, sample, rng, others)

    def request_at(
        self,
        place: int,
        sample: Known,
        rng: np.random.Generator,
        others: Mapping[str, Known | None],
    ) -> Any:
        """Return the region of the window that a place names, as far as the sample has it."""
        del rng, others
        lengths = np.array((sample.shape or ())[: len(self.axes)], np.int64)
        numbers = np.array([place & _WINDOW_MASK])
        starts = starts_of(self.axes, numbers, lengths[None])[0].tolist()
        return tuple(
            slice(start, min(start + (one.size - 1) * one.stride + 1, length), one.stride)
            for one, start, length in zip(self.axes, starts, lengths.tolist(), strict=True)
        )

    def finish(self, made: Any, request: Any, sample_map: SampleMap) -> Any:
        """Return a window; one that is padded repeats the last elements."""
        del request, sample_map
        values = np.asarray(made)
        if self.axes[0].tail != "pad":
            return values
        pairs = zip(self.axes, values.shape, strict=False)
        missing = [(0, one.size - length) for one, length in pairs]
        if not any(after for _, after in missing):
            return values
        return np.pad(values, [*missing, *[(0, 0)] * (values.ndim - len(missing))], mode="edge")

    def output_shape(self, sample_type: SampleType) -> tuple[int | None, ...]:
        """Return the shape of a window; None where windows at the end are shorter."""
        is_short = self.axes[0].tail == "keep"
        sizes = [None if is_short else one.size for one in self.axes]
        return (*sizes, *sample_type.shape[len(self.axes) :])
