"""What types share whose samples are bytes each and no arrays: text, JSON, identifiers, lists.

A type derives from it besides `SampleType`: ``class Text(Encoded, SampleType)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from tensorlake.types.base import Layout

__all__ = ["Encoded"]


class Encoded:
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
