"""Polygon: any number of polygons per row, each with any number of points."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.types.base.base import QueryKind, SampleType, check_default
from tensorlake.types.base.casting import iterated, ragged_column, to_array
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, offsets_of, slice_rows
from tensorlake.types.base.errors import Place, describe_value, dtype_mismatch
from tensorlake.types.base.join import count_items, join_items, split_items
from tensorlake.types.base.mixins import Encoded
from tensorlake.types.scalar.array import Array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Polygon"]

_POINTS = Array("float32", (None, 2))


@dataclass(frozen=True, slots=True)
class Polygon(Encoded, SampleType):
    """Polygons in pixels: a list of float32 arrays (points, 2) per row.

    Accepts lists of polygons: arrays (points, 2), or COCO's flat x, y, x, y, …; [] is empty.

    >>> column = Polygon().convert([[[0, 0, 4, 0, 4, 3]], []], tensor="outline")
    >>> [len(outlines) for outlines in Polygon().present(column)]
    [1, 0]

    Attributes:
        of: The image tensor that they annotate.
    """

    kind: ClassVar[str] = "polygon"

    of: str | None = None

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def query_kind(self) -> QueryKind:
        """A query sees whether there is a value."""
        return "bytes"

    def describe(self) -> str:
        """Show the image: ``Polygon(of=image)``."""
        return f"Polygon(of={self.of})" if self.of else "Polygon"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"a list of polygons, each points (x, y) or flat x, y, … ({self.describe()})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept polygons in either of the forms above."""
        outlines: list[np.ndarray] = []
        owners: list[int] = []
        lengths = np.empty(len(samples), dtype=np.int64)
        for position, sample in enumerate(samples):
            rows = iterated(sample)
            if isinstance(sample, (str, bytes, dict)) or rows is None:
                raise dtype_mismatch(place, position, describe_value(sample))
            own = [_points(outline, place, position) for outline in rows]
            outlines += own
            owners += [position] * len(own)
            lengths[position] = len(own)
        joined = ragged_column(outlines, np.dtype("<f4"), (None, 2), _of_items(place, owners))
        bounds = pairwise(offsets_of(lengths).tolist())
        return EncodedColumn(
            [join_items(slice_rows(joined, start, stop)) for start, stop in bounds]
        )

    def present_sample(self, sample: bytes) -> Any:
        """Return the polygons, each an array (points, 2)."""
        return list(_POINTS.present(split_items(sample, _POINTS)))

    @property
    def item_counter(self) -> Callable[[Buffer], int]:
        """A function that reads the number of polygons before them."""
        return count_items

    def json_value(self, value: Any) -> Any:
        """Return a row's polygons as lists."""
        shown = SampleType.json_value(self, value)
        return None if shown is None else [outline.tolist() for outline in shown]


def _points(outline: Any, place: Place, position: int) -> np.ndarray:
    try:
        array = to_array(outline)
    except ValueError as error:
        raise dtype_mismatch(place, position, "points of unequal lengths") from error
    if array.ndim == 1 and array.size % 2 == 0 and array.dtype.kind in "iuf":
        return array.reshape(-1, 2)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iuf":  # noqa: PLR2004 -- x, y
        hint = "a polygon is [[x, y], …] or [x, y, x, y, …]; a row is a list of polygons"
        raise dtype_mismatch(place, position, describe_value(array), hint=hint)
    return array


def _of_items(place: Place, owners: Sequence[int]) -> Place:
    rows = np.asarray(owners, dtype=np.int64)
    return place.without(rows if place.positions is None else place.positions[rows])
