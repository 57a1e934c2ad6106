"""Companions of an image: boxes move with it, and values per box are dropped with their box.

counted    labels per box: as many as the row has boxes, or the row is refused
moved      boxes: where their image's pixels went; those that leave it are dropped
dropped    labels per box: those of the boxes that were dropped
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import CorruptSampleError, shown
from tensorlake.loader.decode import move_boxes

if TYPE_CHECKING:
    from tensorlake.loader.config.batch_schema import ColumnPlan
    from tensorlake.loader.decode import Placement

__all__ = ["dropped", "moved", "uneven", "uneven_error"]

Mask: TypeAlias = NDArray[np.bool_] | None  # None: the row is unchanged


def uneven(values: Sequence[Any], items: Sequence[Any]) -> list[int]:
    """List the rows in which the numbers of values and items differ; NULL is not compared."""
    pairs = enumerate(zip(values, items, strict=True))
    return [
        number
        for number, (one, other) in pairs
        if one is not None and other is not None and len(one) != len(other)
    ]


def uneven_error(
    column: ColumnPlan, row: int, value: Sequence[Any], items: Sequence[Any]
) -> CorruptSampleError:
    """Build the error for a row that an older writer could commit."""
    name, of = column.name, column.counts_with
    return CorruptSampleError(
        f"row {row}: {name!r} has {len(value)} and {shown(of)}"
        f" {len(items)}, of which it is one each"
        f" (per={shown(of)})\ngive the row as many: ds[{name!r}][{row}] = …; to train without it:"
        " on_error='skip'; to find all: ds.check()",
        tensor=name,
        row=row,
    )


def moved(
    column: ColumnPlan, boxes: list[Any], placements: Sequence[Placement | None]
) -> list[Mask]:
    """Move the boxes of each row that has a placement, in place; return which are kept."""
    box_format = str(getattr(column.type, "format", "xyxy"))
    kept: list[Mask] = []
    for number, placement in enumerate(placements):
        if placement is None or boxes[number] is None:
            kept.append(None)
            continue
        boxes[number], mask = move_boxes(boxes[number], placement, box_format=box_format)
        kept.append(mask)
    return kept


def dropped(values: Sequence[Any], masks: Sequence[Mask]) -> list[Any]:
    """Keep, in each row, the values of the boxes that are kept."""
    return [
        one if mask is None or one is None else one[mask]
        for one, mask in zip(values, masks, strict=True)
    ]
