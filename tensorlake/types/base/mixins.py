"""Mixins for types of one layout: a number, an encoded value, a file, or float32 items per row.

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

__all__ = ["Encoded", "FloatItems", "Media", "OneNumber"]

_MEDIA_TYPES: Final = {"text": "text/plain; charset=utf-8", "json": "application/json"}


class OneNumber:
    """One number per row."""

    __slots__ = ()

    @property
    def layout(self) -> Layout:
        """All samples have the shape ()."""
        return "uniform"

    @property
    def shape(self) -> tuple[int | None, ...]:
        """A scalar's shape: ()."""
        return ()


class Encoded(ABC):
    """One encoded value per row."""

    __slots__ = ()

    @property
    def layout(self) -> Layout:
        """Bytes, as the type encodes them."""
        return "encoded"

    @property
    def dtype(self) -> np.dtype | None:
        """None: values are not elements of an array."""
        return None

    @property
    def shape(self) -> tuple[int | None, ...]:
        """One value per row: ()."""
        return ()

    @property
    @abstractmethod
    def query_kind(self) -> QueryKind:
        """How a query sees a value."""

    @property
    def media_type(self) -> str | None:
        """The MIME type of text and of JSON; None for other bytes."""
        return _MEDIA_TYPES.get(self.query_kind)


class Media:
    """One file of media per row, stored as ingested and decoded when it is read."""

    __slots__ = ()

    @property
    def layout(self) -> Layout:
        """Bytes of files."""
        return "encoded"

    @property
    def query_kind(self) -> QueryKind:
        """Media: a query sees its shape and size."""
        return "media"

    @property
    def is_media(self) -> bool:
        """Values are decoded from stored samples."""
        return True


class FloatItems(ABC):
    """Any number of float32 items per row."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int | None, ...]:
        """Any number of items, then an item's shape."""

    @property
    def layout(self) -> Layout:
        """Each row has its own number of items."""
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
        """Accept lists or arrays of items; [] means no items."""
        return ragged_column(samples, self.dtype, self.shape, place)

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Cast contiguous samples without copying items one by one."""
        return joined_column(samples, self.dtype, self.shape, place)
