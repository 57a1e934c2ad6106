"""ToFloat, Normalize and Cast: conversions of a sample's numbers, each one linear map."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from tensorlake.errors import DTypeMismatchError, InvalidInputError, shown
from tensorlake.loader.decode.arguments import plain_number
from tensorlake.loader.decode.step import LinearMap
from tensorlake.types import holds_floats, parse_dtype, widened_dtype

__all__ = ["Cast", "Normalize", "ToFloat"]

FLOAT_MAX = sys.float_info.max


@dataclass(frozen=True, slots=True)
class ToFloat:
    """Map the range of an integer dtype to 0 … 1 in float32: uint8 is divided by 255.

    Example:
        >>> [ToFloat(), Normalize((0.5,), (0.25,))][0]
        ToFloat()
    """

    def then(self, before: LinearMap) -> LinearMap:
        """Divide by the largest integer; floats are left as they are."""
        if holds_floats(before.dtype):
            return before
        if before.dtype.kind not in "iu":
            raise _no_numbers("ToFloat", before.dtype)
        largest = np.float32(np.iinfo(before.dtype).max)
        return LinearMap(before.scale / largest, before.shift / largest, np.dtype("float32"))


@dataclass(frozen=True, slots=True)
class Normalize:
    """Subtract ``mean`` and divide by ``std``, one number per channel, after mapping to 0 … 1.

    Example:
        >>> Normalize((0.5,), (0.25,))
        Normalize(mean=(0.5,), std=(0.25,))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            given: Any = getattr(self, name)
            listed = np.atleast_1d(given) if isinstance(given, np.ndarray) else given
            listed = listed if isinstance(listed, Iterable) else (listed,)
            object.__setattr__(self, name, tuple(map(plain_number, listed)))
        numbers = (*self.mean, *self.std)
        is_finite = all(isinstance(one, Real) and -FLOAT_MAX <= one <= FLOAT_MAX for one in numbers)
        is_paired = len(self.mean) == len(self.std) > 0
        if not (is_finite and is_paired and min(self.std) > 0):
            raise InvalidInputError(
                f"Normalize: mean and std must be one number per channel, std > 0,"
                f" got {shown(self.mean)} and {shown(self.std)}",
                actual=(self.mean, self.std),
            )

    def then(self, before: LinearMap) -> LinearMap:
        """Normalize; integers are mapped to 0 … 1 first."""
        before = ToFloat().then(before)
        mean = np.asarray(self.mean, dtype=np.float32)
        std = np.asarray(self.std, dtype=np.float32)
        return LinearMap(before.scale / std, (before.shift - mean) / std, before.dtype)


@dataclass(frozen=True, slots=True)
class Cast:
    """Convert the numbers to another dtype; floats may narrow but never become integers.

    A batch with an integer outside the dtype's range raises ``InvalidInputError``.

    Example:
        >>> Cast("float16")
        Cast(dtype='float16')
    """

    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", parse_dtype(self.dtype).name)

    def then(self, before: LinearMap) -> LinearMap:
        """Change the dtype alone."""
        target = parse_dtype(self.dtype)
        kinds = widened_dtype(before.dtype), widened_dtype(target)
        if not np.can_cast(*kinds, casting="same_kind"):
            raise DTypeMismatchError(
                f"Cast: {before.dtype.name} cannot become {target.name} without changing its kind"
                f"\ncast it to {_castable(before.dtype)}, or convert it yourself: transform=, or"
                " batch_transform= for windows and whole batches",
                expected=before.dtype.name,
                actual=target.name,
            )
        return replace(before, dtype=target)


def _castable(dtype: np.dtype) -> str:
    signed = "a signed integer or " if dtype.kind in "iu" else ""
    return f"{signed}a float"


def _no_numbers(step: str, dtype: np.dtype) -> DTypeMismatchError:
    return DTypeMismatchError(
        f"{step}: takes integers or floats, got {dtype.name}\nleave the step out",
        expected="integer or float",
        actual=dtype.name,
    )
