"""ColorJitter: brightness, contrast, saturation and hue of an image, changed at random.

The arithmetic is that of torchvision's transforms v2 on uint8 tensors: float32, truncated to
integers after each of the four, so that equal factors in equal order give equal pixels.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import is_number, plain_number, settle_probability
from tensorlake.loader.decode.step import PixelStep

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ColorJitter"]

Pixels: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]
Range: TypeAlias = float | tuple[float, float]

GREY_WEIGHTS = (0.2989, 0.587, 0.114)  # ITU-R BT.601, as torchvision rounds them
MAX_HUE = 0.5  # half of the circle of colours: the opposite one
TO_BYTE = np.float32((255 + 1 - 1e-3) / 255)  # torchvision scales 0 … 1 by 255.999 and truncates
CHANNELS = (1, 3)


@dataclass(frozen=True, slots=True)
class ColorJitter(PixelStep):
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    Takes uint8 images of one or three channels; those of one have neither saturation nor hue.

    Args:
        brightness: A factor is drawn from ``max(0, 1 - brightness)`` to ``1 + brightness``, or from
            a range (low, high).
        contrast: As brightness.
        saturation: As brightness.
        hue: A shift is drawn from ``-hue`` to ``hue``, at most 0.5, or from a range (low, high).
        probability: Share of the images that are changed.

    Example:
        >>> ColorJitter(0.4, hue=0.1).brightness
        (0.6, 1.4)
    """

    is_random: ClassVar[bool] = True

    brightness: Range = 0.0
    contrast: Range = 0.0
    saturation: Range = 0.0
    hue: Range = 0.0
    probability: float = 1.0

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            object.__setattr__(self, name, _range(name, getattr(self, name), least=0.0, centre=1.0))
        object.__setattr__(
            self, "hue", _range("hue", self.hue, least=-MAX_HUE, centre=0.0, most=MAX_HUE)
        )
        settle_probability(self)

    def check(self, shape: tuple[int | None, ...], dtype: np.dtype, tensor: str) -> None:
        """Refuse images of other dtypes or channels."""
        channels = shape[-1] if shape else None
        if dtype != np.uint8 or channels not in (*CHANNELS, None):
            raise InvalidInputError(
                f"decode of {tensor!r}: ColorJitter takes uint8 images of 1 or 3 channels, and"
                f" {tensor!r} is {dtype.name} of shape {shape}\nleave it out, or do it in"
                " transform=",
                tensor=tensor,
                expected="uint8",
                actual=dtype.name,
            )

    def apply(self, pixels: NDArray[np.generic], random: np.random.Generator) -> Pixels:
        """Change images (…, height, width, channels), all alike.

        Raises:
            InvalidInputError: They have neither 1 nor 3 channels.
        """
        order = random.permutation(4).tolist()
        shares = random.random(5).tolist()
        images = pixels.view(np.uint8)
        if images.shape[-1] not in CHANNELS:
            raise InvalidInputError(
                f"ColorJitter takes images of 1 or 3 channels, got {images.shape[-1]}"
                "\nname a mode in the type, such as tl.Image(mode='RGB'), or leave the step out"
            )
        if shares[4] >= self.probability:
            return images
        bounds: list[Any] = [self.brightness, self.contrast, self.saturation, self.hue]
        for number in order:
            low, high = bounds[number]
            factor = low + shares[number] * (high - low)
            if (low, high) != _UNCHANGED[number]:
                images = _CHANGES[number](images, factor)
        return images


def _range(
    name: str, given: Any, *, least: float, centre: float, most: float = float("inf")
) -> tuple[float, float]:
    """Return the range that an argument stands for."""
    numbers = [given] if isinstance(given, Real) else list(given) if _is_pair(given) else []
    numbers = [plain_number(one) for one in numbers]
    are_finite = all(is_number(one) and abs(one) <= sys.float_info.max for one in numbers)
    if len(numbers) == 1 and are_finite and 0 <= numbers[0] <= most:
        return max(least, centre - numbers[0]), centre + numbers[0]
    if len(numbers) > 1 and are_finite and least <= numbers[0] <= numbers[1] <= most:
        return float(numbers[0]), float(numbers[1])
    limit = "" if most == float("inf") else f" up to {most}"
    raise InvalidInputError(
        f"ColorJitter: {name} is a number from 0 on{limit}, or a range (low, high), got"
        f" {shown(given)}\nwrite tl.decode.ColorJitter(0.4, 0.4, 0.4, 0.1)",
        argument=name,
        actual=given,
    )


def _is_pair(given: object) -> bool:
    return isinstance(given, tuple | list) and len(given) == 2  # noqa: PLR2004 - low and high


def _brightened(images: Pixels, factor: float) -> Pixels:
    return _blended(images, factor, np.float32(0))


def _contrasted(images: Pixels, factor: float) -> Pixels:
    made = np.empty_like(images)
    for at in np.ndindex(images.shape[:-3]):  # about the mean of each image
        grey = images[at] if images.shape[-1] == 1 else _grey(images[at])
        made[at] = _blended(images[at], factor, np.float32(grey.mean(dtype=np.float64)))
    return made


def _blended(images: Pixels, factor: float, towards: np.float32) -> Pixels:
    """Move all numbers to or from one."""
    made = images * np.float32(factor)
    if towards:
        made += towards * np.float32(1 - factor)
    return made.clip(0, 255, out=made).astype(np.uint8)


def _saturated(images: Pixels, factor: float) -> Pixels:
    if images.shape[-1] == 1:
        return images
    towards = _grey(images)
    towards *= np.float32(1 - factor)
    made = images * np.float32(factor)
    made += towards[..., None]
    return made.clip(0, 255, out=made).astype(np.uint8)


def _grey(images: Pixels) -> Floats:
    red, green, blue = (np.float32(weight) for weight in GREY_WEIGHTS)
    grey = images[..., 0] * red
    grey += images[..., 1] * green
    grey += images[..., 2] * blue
    return np.floor(grey, out=grey)


def _hue_shifted(images: Pixels, shift: float) -> Pixels:
    """Turn the hue, leaving saturation and value (A. R. Smith, 1978: the HSV hexcone)."""
    if images.shape[-1] == 1:
        return images
    red, green, blue = (images[..., channel].astype(np.float32) for channel in range(3))
    value = np.maximum(np.maximum(red, green), blue)
    spread = value - np.minimum(np.minimum(red, green), blue)
    divisor = np.maximum(spread, np.float32(1))
    is_red, is_green = value == red, value == green
    sector = np.where(is_red, green - blue, np.where(is_green, blue - red, red - green)) / divisor
    sector += np.where(is_red, np.float32(6), np.where(is_green, np.float32(2), np.float32(4)))
    sector += np.float32(shift % 1 * 6)
    value *= TO_BYTE
    spread *= TO_BYTE
    made = np.empty_like(images)
    for channel, start in enumerate((5, 3, 1)):  # sectors from where a channel falls, rises again
        at = (sector + np.float32(start)) % np.float32(6)
        np.minimum(at, 4 - at, out=at)
        np.clip(at, 0, 1, out=at)
        at *= spread
        made[..., channel] = np.subtract(value, at, out=at)
    return made


_CHANGES: tuple[Callable[[Pixels, float], Pixels], ...] = (
    _brightened,
    _contrasted,
    _saturated,
    _hue_shifted,
)
_UNCHANGED = ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (0.0, 0.0))
