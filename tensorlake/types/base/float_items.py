"""What types share whose rows hold any number of items of float32 each: boxes, points.

A type derives from it besides `SampleType`, and says by its `shape` what an item is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.types.base.casting import joined_column, ragged_column

if TYPE_CHECKING:
    from tensorlake.types.base.base import Layout, QueryKind
    from tensorlake.types.base.column import Column
    from tensorlake.types.base.errors import Place
    from tensorlake.types.base.ragged import Ragged

__all__ = ["FloatItems"]


class FloatItems(ABC):
    """Any number of items a row."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int | None, ...]:
        """Any number of items, and what an item is."""

    @property
    def layout(self) -> Layout:
        """Each row has as many items as it has."""
        return "ragged"

    @property
    def dtype(self) -> np.dtype:
        """Always float32."""
        return np.dtype("<f4")

    @property
    def query_kind(self) -> QueryKind:
        """An array of numbers."""
        return "number"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Take lists or arrays of items; [] is none."""
        return ragged_column(samples, self.dtype, self.shape, place)

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Take them as they lie."""
        return joined_column(samples, self.dtype, self.shape, place)
