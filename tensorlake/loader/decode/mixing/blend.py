"""MixUp and CutMix: two rows become one, and so do their labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import is_number, settle_probability
from tensorlake.loader.decode.step import BatchStep
from tensorlake.quantities import checked_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Blend", "CutMix", "MixUp"]

MAX_CLASSES = 1 << 20
MAX_ALPHA = 1e6  # a beta distribution that is all but one point


class Blend(BatchStep):
    """A step that makes the values of a row from those of two."""

    needs_pixels: ClassVar[bool] = False
    """Whether it takes images only, and not other arrays of one shape."""

    labels: str
    alpha: float
    classes: int | None

    def blend(
        self, rows: Sequence[NDArray[Any]], out: NDArray[Any], random: np.random.Generator
    ) -> float:
        """Write the mixture of a row and its partner to ``out``; return the share of the row."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MixUp(Blend):
    """Add two rows, weighted (Zhang et al., 2018, arXiv:1710.09412).

    The weight of a row is drawn from a beta distribution, row by row (timm's mode "elem"). Labels
    become float32 vectors of one number per class: those of a row and its partner, weighted alike.

    Args:
        labels: The column of labels: a `ClassLabel`, integers, or vectors of floats.
        alpha: Both parameters of the beta distribution; 1 is uniform, less keeps rows as they are.
        classes: Number of classes, for integers that have no names.
        probability: Share of the rows that are mixed.

    Example:
        >>> MixUp("label", alpha=0.2).probability
        1.0
    """

    labels: str
    alpha: float = 1.0
    classes: int | None = None
    probability: float = 1.0

    def __post_init__(self) -> None:
        _settle(self)

    def blend(
        self, rows: Sequence[NDArray[Any]], out: NDArray[Any], random: np.random.Generator
    ) -> float:
        """Write the weighted sum; integers are rounded."""
        share = float(random.beta(self.alpha, self.alpha))
        own, other = rows
        mixed = own * np.float32(share)
        mixed += other * np.float32(1 - share)
        out[...] = mixed if out.dtype.kind == "f" else np.rint(mixed, out=mixed)
        return share


@dataclass(frozen=True, slots=True)
class CutMix(Blend):
    """Replace a box of an image by its partner's pixels (Yun et al., 2019, arXiv:1905.04899).

    The share of the box is drawn from a beta distribution, row by row, and its centre evenly;
    labels are weighted by the areas that are left of both, as in `MixUp`.

    Args:
        labels: The column of labels: a `ClassLabel`, integers, or vectors of floats.
        alpha: Both parameters of the beta distribution.
        classes: Number of classes, for integers that have no names.
        probability: Share of the rows that are mixed.

    Example:
        >>> CutMix("label").alpha
        1.0
    """

    needs_pixels: ClassVar[bool] = True

    labels: str
    alpha: float = 1.0
    classes: int | None = None
    probability: float = 1.0

    def __post_init__(self) -> None:
        _settle(self)

    def blend(
        self, rows: Sequence[NDArray[Any]], out: NDArray[Any], random: np.random.Generator
    ) -> float:
        """Write the partner's box; images (…, height, width, channels) are cut alike."""
        height, width = out.shape[-3:-1]
        share = random.beta(self.alpha, self.alpha)
        across, down = random.random(2).tolist()
        x, y = int(across * width), int(down * height)
        half = 0.5 * math.sqrt(1 - share)
        left, right = max(0, x - int(half * width)), min(width, x + int(half * width))
        top, bottom = max(0, y - int(half * height)), min(height, y + int(half * height))
        out[...] = rows[0]
        out[..., top:bottom, left:right, :] = rows[1][..., top:bottom, left:right, :]
        return 1 - (bottom - top) * (right - left) / (height * width)


def _settle(step: Any) -> None:
    """Convert a new step's arguments to plain values, or refuse them."""
    kind = type(step).__name__
    if not isinstance(step.labels, str):
        raise InvalidInputError(
            f"{kind}: labels is the name of the column whose labels are mixed, got"
            f" {shown(step.labels)}\nwrite tl.decode.{kind}('label')",
            argument="labels",
            actual=step.labels,
        )
    alpha: Any = step.alpha
    if not is_number(alpha) or not 0 < alpha <= MAX_ALPHA:
        raise InvalidInputError(
            f"{kind}: alpha is a positive number, got {shown(alpha)}\nwrite"
            f" tl.decode.{kind}('label', alpha=1.0)",
            argument="alpha",
            actual=alpha,
        )
    object.__setattr__(step, "alpha", float(alpha))
    if step.classes is not None:
        classes = checked_integer(step.classes, name=f"{kind}: classes", least=1, most=MAX_CLASSES)
        object.__setattr__(step, "classes", classes)
    settle_probability(step)
