"""The box of an array that an index needs: which elements to read, and the index inside them.

array     (1000, 800), region [100:300:2, 7]
box       [100, 299) × [7, 8)
inside    [0:199:2, 0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.errors import InvalidInputError
    from tensorlake.types.base.region import Region

__all__ = ["Box", "box_of"]


@dataclass(frozen=True, slots=True)
class Box:
    """A box of an array.

    Attributes:
        starts: First element along each axis.
        stops: Element after the last.
        inside: Index of the region in the box.
    """

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    inside: Region

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the box."""
        return tuple(b - a for a, b in zip(self.starts, self.stops, strict=True))


def box_of(
    shape: tuple[int, ...], region: Region, refused: Callable[[str], InvalidInputError]
) -> Box:
    """Return the smallest box that holds a region given by NumPy's indices.

    Numbers and slices narrow the box, also of negative steps, as do lists of numbers along one
    axis. With any other index, such as a mask, the box is the whole array.

    Raises:
        InvalidInputError: The array has no such region.
    """
    entries = _expanded(shape, region)
    if entries is None:
        return Box((0,) * len(shape), shape, region)
    sides: list[tuple[int, int, Any]] = []
    for axis, (length, one) in enumerate(zip(shape, entries, strict=True)):
        try:
            sides.append(_side(length, one))
        except (IndexError, ValueError, TypeError) as error:
            raise refused(f"its shape is {shape}: axis {axis}, {error}") from error
    starts, stops, inside = zip(*sides, strict=True) if sides else ((), (), ())
    return Box(starts, stops, inside)


def _expanded(shape: tuple[int, ...], region: Region) -> list[Any] | None:
    """Return one index an axis; None where NumPy counts them otherwise, or refuses them."""
    lists = 0
    for one in region:
        if one is None or isinstance(one, bool | np.bool_):
            return None
        if one is Ellipsis or isinstance(one, slice) or is_whole_number(one):
            continue
        lists += 1
        if np.asarray(one).ndim != 1 or np.asarray(one).dtype.kind not in "iu":
            return None
    if lists > 1 or len(region) > len(shape) + (Ellipsis in _plain(region)):
        return None
    gaps = [at for at, one in enumerate(region) if one is Ellipsis]
    if len(gaps) > 1:
        return None
    at = gaps[0] if gaps else len(region)
    before, after = list(region[:at]), list(region[at + 1 :])
    if lists and any(is_whole_number(one) for one in region):
        return None  # numbers beside a list move its axis
    return [*before, *[slice(None)] * (len(shape) - len(before) - len(after)), *after]


def _plain(region: Region) -> list[Any]:
    return [one for one in region if one is Ellipsis]


def _side(length: int, one: Any) -> tuple[int, int, Any]:
    """Return start and stop along an axis, and the index between them."""
    if is_whole_number(one):
        at = int(one) + length if one < 0 else int(one)
        if not 0 <= at < length:
            raise IndexError(f"index {int(one)} is out of bounds for {length} elements")
        return at, at + 1, 0
    if isinstance(one, slice):
        steps = range(*one.indices(length))
        if not steps:
            return 0, 0, slice(0, 0)
        low, high = min(steps[0], steps[-1]), max(steps[0], steps[-1]) + 1
        first = steps[0] - low
        last = steps[-1] - low + (1 if steps.step > 0 else -1)
        return low, high, slice(first, None if last < 0 else last, steps.step)
    places = np.asarray(one, np.int64)
    places = np.where(places < 0, places + length, places)
    if not len(places):
        return 0, 0, places
    low, high = int(places.min()), int(places.max())
    if low < 0 or high >= length:
        raise IndexError(f"an index of {len(places)} is out of bounds for {length} elements")
    return low, high + 1, places - low
