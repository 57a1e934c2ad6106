"""What types share whose rows hold one number each: scalars, truth values, moments.

A type derives from it besides `SampleType`: ``class Bool(OneNumber, SampleType)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorlake.types.base.base import Layout

__all__ = ["OneNumber"]


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
