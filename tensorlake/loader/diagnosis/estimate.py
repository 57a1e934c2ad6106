"""An estimate: a value with the range in which repeated measurements of it were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["ZERO", "Estimate"]

LOW, HIGH = 10, 90  # percentiles of the measurements: single ones are outliers on a busy machine


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, 0 or above, and its range.

    >>> Estimate.of([1.0, 2.0, 3.0]).value
    2.0
    >>> Estimate(2.0, 1.0, 4.0).inverse(8.0)
    Estimate(value=4.0, low=2.0, high=8.0)
    """

    value: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Estimate:
        """Return an estimate without a range."""
        return cls(value, value, value)

    @classmethod
    def of(cls, samples: Sequence[float]) -> Estimate:
        """Return the median of measurements, and the percentiles 10 and 90."""
        low, value, high = np.percentile(samples, (LOW, 50, HIGH)).tolist()
        return cls(value, low, high)

    def plus(self, other: Estimate) -> Estimate:
        """Return the sum."""
        return Estimate(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Estimate:
        """Return a multiple."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def inverse(self, of: float = 1.0) -> Estimate:
        """Return ``of`` divided by this, which must not be 0."""
        return Estimate(of / self.value, of / self.high, of / max(self.low, 1e-12))

    def over(self, other: Estimate) -> Estimate:
        """Return this divided by another, which must not be 0."""
        low = self.low / other.high
        return Estimate(self.value / other.value, low, self.high / max(other.low, 1e-12))

    def to_json(self) -> dict[str, float]:
        """Return the three numbers."""
        return {"value": self.value, "low": self.low, "high": self.high}


ZERO = Estimate.exactly(0.0)
