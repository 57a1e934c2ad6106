"""What types share whose samples are bytes each and no arrays: text, JSON, identifiers, lists.

A type derives from it besides `SampleType`: ``class Text(Encoded, SampleType)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

    from tensorlake.types.base.base import Layout, QueryKind

__all__ = ["Encoded"]


_MEDIA_TYPES: Final = {"text": "text/plain; charset=utf-8", "json": "application/json"}


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
