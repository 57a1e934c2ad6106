"""Statistics of columns: min, max, mean, std, count and quantiles, by element or by channel.

As LeRobot's ``meta/stats.json`` has them, by which its policies normalise: of numbers along the
first axis, of images per channel, shape (3, 1, 1), with pixels from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["FeatureStatistics", "pixel_sample"]

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}

SAMPLE_MIN, SAMPLE_MAX = 100, 10_000
"""Images of an episode whose pixels are counted: its number to the power of 3/4, within these."""

LEVELS = 256


def pixel_sample(count: int) -> Sequence[int]:
    """Return the numbers of the images whose pixels are counted.

    >>> len(pixel_sample(40)), len(pixel_sample(10_000)), pixel_sample(3)
    (40, 1000, [0, 1, 2])
    """
    wanted = min(count, max(SAMPLE_MIN, min(int(count**0.75), SAMPLE_MAX)))
    return (
        np.unique(np.linspace(0, count - 1, wanted).round().astype(int)).tolist() if count else []
    )


class FeatureStatistics:
    """Statistics of values, which can be merged with those of other values.

    Attributes:
        is_of_images: Whether it counts levels of pixels, which makes quantiles exact.
    """

    def __init__(self, *, is_of_images: bool) -> None:
        self.is_of_images = is_of_images
        self._levels = np.zeros((3, LEVELS), np.int64)
        self._images = 0
        self._values: list[np.ndarray] = []

    @classmethod
    def of_images(cls) -> FeatureStatistics:
        """Return the statistics of no image."""
        return cls(is_of_images=True)

    @classmethod
    def of_values(cls, values: np.ndarray) -> FeatureStatistics:
        """Return the statistics of values, along the first axis."""
        made = cls(is_of_images=False)
        made._values.append(values)
        return made

    @classmethod
    def like(cls, other: FeatureStatistics) -> FeatureStatistics:
        """Return the statistics of nothing, to merge others of this kind into."""
        return cls(is_of_images=other.is_of_images)

    def add_image(self, pixels: np.ndarray) -> None:
        """Count the pixels of an image, uint8 (height, width, 3)."""
        self._images += 1
        for channel in range(3):
            self._levels[channel] += np.bincount(
                pixels[:, :, channel].reshape(-1), minlength=LEVELS
            )

    def merge(self, other: FeatureStatistics) -> None:
        """Add what others counted."""
        self._levels += other._levels
        self._images += other._images
        self._values += other._values

    def described(self) -> dict[str, Any]:
        """Return the statistics as JSON."""
        return self._of_levels() if self.is_of_images else self._of_values()

    def _of_values(self) -> dict[str, Any]:
        values = np.concatenate(self._values)
        count = len(values)
        # As the library has it: arrays of more axes have the statistics of their last one
        values = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
        wide = values.astype(np.float64)
        made = {
            "min": values.min(0),
            "max": values.max(0),
            "mean": wide.mean(0),
            "std": wide.std(0),
        }
        made |= dict(zip(QUANTILES, np.quantile(wide, [*QUANTILES.values()], axis=0), strict=True))
        return {name: one.tolist() for name, one in made.items()} | {"count": [count]}

    def _of_levels(self) -> dict[str, Any]:
        level = np.arange(LEVELS) / (LEVELS - 1)
        counts = self._levels
        total = np.maximum(counts.sum(1), 1)
        mean = counts @ level / total
        seen = counts > 0
        made = {
            "min": level[seen.argmax(1)],
            "max": level[LEVELS - 1 - seen[:, ::-1].argmax(1)],
            "mean": mean,
            "std": np.sqrt(np.maximum(counts @ level**2 / total - mean**2, 0)),
        }
        below = counts.cumsum(1)
        for name, share in QUANTILES.items():
            made[name] = level[(below >= share * total[:, None]).argmax(1)]
        return {name: one.reshape(3, 1, 1).tolist() for name, one in made.items()} | {
            "count": [self._images]
        }
