"""Mixins for types of the same layout: one number, one encoded value, or float32 items per row.

A type derives from one of them besides `SampleType`: ``class Bool(OneNumber, SampleType)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorlake.types.base.casting import joined_column, ragged_column

if TYPE_CHECKING:
    from tensorlake.types.base.base import Layout, QueryKind
    from tensorlake.types.base.column import Column
    from tensorlake.types.base.errors import Place
    from tensorlake.types.base.ragged import Ragged

__all__ = ["Encoded", "FloatItems", "OneNumber"]

_MEDIA_TYPES: Final = {"text": "text/plain; charset=utf-8", "json": "application/json"}


class OneNumber:
    """One number a row."""

    __slots__ = ()

    @property
    def layout(self) -> Layout:
        """All samples have the shape ()."""
        return "uniform"

    @property
    def shape(self) -> tuple[int | None, ...]:
        """A scalar's: ()."""
        return ()


class Encoded(ABC):
    """One encoded value a row."""

    __slots__ = ()

    @property
    def layout(self) -> Layout:
        """Bytes, as the type writes them."""
        return "encoded"

    @property
    def dtype(self) -> np.dtype | None:
        """None: values are not elements of an array."""
        return None

    @property
    def shape(self) -> tuple[int | None, ...]:
        """One value a row: ()."""
        return ()

    @property
    @abstractmethod
    def query_kind(self) -> QueryKind:
        """How a query sees a value."""

    @property
    def media_type(self) -> str | None:
        """That of text and of JSON; of other bytes nothing is known."""
        return _MEDIA_TYPES.get(self.query_kind)


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
