"""Virtual columns: values that are not stored in a tensor, known by position in the selection.

Computed columns of a query, and ``_source`` of a mix, are columns of a batch like any other; they
are taken by position when a group of batches is planned, and cost no read.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tensorlake.loader.plan.selection import Int64Array, Selection
from tensorlake.types import RaggedColumn, UniformColumn

__all__ = ["VirtualColumn", "VirtualValues"]

VirtualValues = UniformColumn | RaggedColumn | list[object]


class VirtualColumn(Protocol):
    """Values by position."""

    @property
    def dtype(self) -> np.dtype | None:
        """Dtype of its numbers; None for strings and objects."""
        ...

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of one value; None where lengths differ."""
        ...

    def over(self, selection: Selection) -> VirtualColumn:
        """Return the column for the rows that a loader returns to."""
        ...

    def take(self, positions: Int64Array) -> VirtualValues:
        """Return the values at some positions, in the order given."""
        ...
