"""Windows: which values of a deep image are black and which are white.

A screen shows 256 greys; scans, depth maps and spectrograms have thousands of values, or real ones.
A window ``low,high`` maps ``low`` to black and ``high`` to white, linearly, and cuts off the rest.
Without one, the middle 99 % of an image's own values fill the screen: two images may then map the
same value to different greys. NaN is black.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorlake.errors import InvalidInputError

__all__ = ["DEEP_DTYPES", "Window", "is_deep", "parse_window", "range_of", "to_greys", "window_of"]

DEEP_DTYPES = frozenset({"uint16", "int16", "float16", "float32", "float64"})
CUT_OFF = 0.5  # percent at each end: a few hot pixels would leave the rest black
SAMPLED = 1 << 16  # values that the percentiles are taken of


@dataclass(frozen=True, slots=True)
class Window:
    """The value that is black, and the one that is white."""

    low: float
    high: float


def is_deep(dtype: np.dtype) -> bool:
    """Whether an image of this dtype has more values than a screen has greys.

    >>> is_deep(np.dtype("uint16")), is_deep(np.dtype("uint8"))
    (True, False)
    """
    return dtype.name in DEEP_DTYPES


def parse_window(text: str | None) -> Window | None:
    """Read ``low,high``; None and ``auto`` are the window that each image has of its own.

    >>> parse_window("-160,240")
    Window(low=-160.0, high=240.0)

    Raises:
        InvalidInputError: It is neither.
    """
    if text is None or text == "auto":
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError(
            f"window={text!r} is not two numbers, the smaller one first"
            "\nuse window=low,high, such as window=-160,240, or window=auto",
            expected="low,high",
            actual=text,
        )
    return Window(low, high)


def window_of(array: np.ndarray) -> Window:
    """Choose the window of an image's own values.

    >>> window_of(np.linspace(0, 1000, 1001, dtype=np.float32))
    Window(low=5.0, high=995.0)
    """
    values = _finite(array.reshape(-1)[:: max(1, array.size // SAMPLED)])
    if not values.size:
        return Window(0.0, 1.0)
    low, high = (
        float(one) for one in np.percentile(values.astype(np.float64), [CUT_OFF, 100 - CUT_OFF])
    )
    return Window(low, high) if low < high else Window(low, low + 1)


def range_of(array: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest finite value; zeros without any.

    >>> range_of(np.array([3.0, np.nan, -1.0]))
    (-1.0, 3.0)
    """
    values = _finite(array)
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def to_greys(array: np.ndarray, window: Window | None) -> np.ndarray:
    """Map values to 0 … 255.

    >>> to_greys(np.array([-5.0, 0.0, 50.0, 100.0, np.nan]), Window(0, 100)).tolist()
    [0, 0, 128, 255, 0]
    """
    chosen = window or window_of(array)
    scaled = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities and values far outside
        scaled -= chosen.low
        scaled *= 255 / (chosen.high - chosen.low)
    return np.rint(np.nan_to_num(scaled, copy=False, nan=0.0).clip(0, 255)).astype(np.uint8)


def _finite(array: np.ndarray) -> np.ndarray:
    return array[np.isfinite(array)] if array.dtype.kind == "f" else array
