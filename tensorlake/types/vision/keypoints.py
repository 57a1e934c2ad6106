"""Keypoints: any number of objects per row, each with the same named points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tensorlake.errors import SchemaError, shown
from tensorlake.types.base.base import SampleType, check_default
from tensorlake.types.base.errors import listed
from tensorlake.types.base.mixins import FloatItems

__all__ = ["Keypoints"]

_JOINED = 2


@dataclass(frozen=True, slots=True)
class Keypoints(FloatItems, SampleType):
    """Points in pixels, float32 (objects, points, 3): x, y, and visibility.

    The third number is COCO's: 0 not labelled, 1 hidden, 2 seen; or a model's confidence.

    >>> Keypoints(["nose", "tail"], skeleton=[(0, 1)]).shape
    (None, 2, 3)

    Attributes:
        names: Names of the points; without names any number of points.
        skeleton: Pairs of points, by position, that are drawn as edges.
        of: The image tensor that they annotate.
        per: The tensor whose items (boxes) have one object each.
    """

    kind: ClassVar[str] = "keypoints"

    names: Sequence[str] = ()
    skeleton: Sequence[tuple[int, int]] = ()
    of: str | None = None
    per: str | None = None

    def __post_init__(self) -> None:
        names, skeleton = listed(self.names), listed(self.skeleton)
        if names is None or not all(isinstance(name, str) for name in names):
            raise SchemaError(
                f"names of points must be strings, got {shown(self.names)}"
                '\ngive a list: Keypoints(["nose", "left eye"])',
                actual=self.names,
            )
        if skeleton is None:
            raise _not_a_pair(self.skeleton)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "skeleton", tuple(map(_pair, skeleton)))
        highest = max((max(pair) for pair in self.skeleton), default=-1)
        if self.names and highest >= len(self.names):
            raise SchemaError(
                f"the skeleton joins point {highest}, with {len(self.names)} points named"
                "\npoints are counted from 0",
                actual=highest,
            )
        check_default(self)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Any number of objects, their points, three numbers each."""
        return (None, len(self.names) or None, 3)

    def describe(self) -> str:
        """Show the number of points: ``Keypoints(17, of=image)``."""
        count = str(len(self.names)) if self.names else ""
        return f"Keypoints({count}{f', of={self.of}' if self.of else ''})"


def _pair(joined: Any) -> tuple[int, int]:
    pair = listed(joined)
    if (
        pair is None
        or len(pair) != _JOINED
        or not all(isinstance(one, int) and one >= 0 for one in pair)
    ):
        raise _not_a_pair(joined)
    return pair[0], pair[1]


def _not_a_pair(joined: object) -> SchemaError:
    return SchemaError(
        f"{shown(joined)} does not join two points\ngive pairs of positions: [(0, 1), (1, 2)]",
        actual=joined,
    )
