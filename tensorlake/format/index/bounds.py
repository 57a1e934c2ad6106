"""Bounds of the physical rows of segments, by which the inverse look-up skips subtrees.

They are the summaries of row segments, two u64 columns: all physical rows below a node are in
``[low, high)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from tensorlake.format.spec.integrity import damaged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorlake.format.pages.pages import SectionArray


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalBounds:
    """Summaries of row segments: physical rows are in [low, high)."""

    low: npt.NDArray[np.uint64]
    high: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: npt.NDArray[np.int64]) -> Self:
        """Return some bounds."""
        return type(self)(self.low[rows], self.high[rows])

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Join tables."""
        return cls(
            np.concatenate([table.low for table in tables]),
            np.concatenate([table.high for table in tables]),
        )

    def merge_upward(self) -> Self:
        """Return the bounds of all."""
        return type(self)(self.low.min(keepdims=True), self.high.max(keepdims=True))

    def to_sections(self) -> Mapping[str, SectionArray]:
        """Return the columns by name."""
        return {"low": self.low, "high": self.high}

    @classmethod
    def from_sections(cls, sections: Mapping[str, SectionArray]) -> Self:
        """Build the table that ``to_sections`` wrote.

        Raises:
            CorruptionError: The sections are not two columns of one length.
        """
        low, high = sections.get("low"), sections.get("high")
        if low is None or high is None or low.shape != high.shape or low.ndim != 1:
            raise damaged("a summary of row segments", "it lacks a bound for some entries")
        return cls(low.astype(np.uint64), high.astype(np.uint64))
