"""Annotations of a group's images: moved with them, and dropped where they leave them.

counted    values per item: as many as the row has items, or the row is refused
moved      row by row: where the image's pixels went, and which items are left
dropped    of all columns with one value per item: those of items that are not left
stacked    masks of images of one size
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import CorruptSampleError, shown
from tensorlake.loader.config.collate import null_in_batch
from tensorlake.loader.decode import keep_items
from tensorlake.types import Bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.decode import Kept, Placement

__all__ = ["Annotations", "as_sent"]


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """The columns of a group that belong to images, or to items of them.

    Attributes:
        columns: All columns.
        values: The group's values, by column: lists of those that belong to images.
        placements: The placements of each moved image; None where a row has none.
        rows: The number of each row, for errors.
        kept: Which items are left, by column and row; None where a row was not moved.
    """

    columns: tuple[ColumnPlan, ...]
    values: dict[str, Any]
    placements: Mapping[str, Sequence[Placement | None]]
    rows: NDArray[np.int64]
    kept: dict[str, list[Kept]]

    @classmethod
    def of(
        cls,
        columns: tuple[ColumnPlan, ...],
        values: dict[str, Any],
        placements: Mapping[str, Sequence[Placement | None]],
        rows: NDArray[np.int64],
    ) -> Annotations:
        """Prepare to move the annotations of a group whose images have been placed."""
        empty: dict[str, list[Kept]] = {
            column.name: [None] * len(rows) for column in columns if column.mover is not None
        }
        return cls(columns, values, placements, rows, empty)

    def miscounted(self) -> Iterator[tuple[int, CorruptSampleError]]:
        """Yield the rows in which the numbers of values and items differ, each with its error."""
        for column in self.columns:
            if column.counts_with is None:
                continue
            pairs = zip(self.values[column.name], self.values[column.counts_with], strict=True)
            for number, (one, other) in enumerate(pairs):
                if one is not None and other is not None and len(one) != len(other):
                    yield number, self._uneven(column, column.counts_with, number, one, other)

    def move(self, number: int, *, is_whole: bool) -> None:
        """Move the annotations of one row; one that is lost has none.

        Raises:
            CorruptSampleError: A mask is not of its image's size, or a row has not one value for
                each item.
        """
        moving = [column for column in self.columns if column.mover is not None]
        if not is_whole:
            self._lose(moving, number)
            return
        try:
            self._move_row(moving, number)
        except CorruptSampleError:
            self._lose(moving, number)
            raise

    def _move_row(self, moving: Sequence[ColumnPlan], number: int) -> None:
        for column in moving:
            self._move(column, number)
        for column in self.columns:
            self._drop(column, number)

    def _lose(self, moving: Sequence[ColumnPlan], number: int) -> None:
        for column in moving:
            if column.kind == "encoded":
                self.values[column.name][number] = None

    def _move(self, column: ColumnPlan, number: int) -> None:
        value, mover, name = self.values[column.name][number], column.mover, column.name
        if value is None or mover is None or column.moves_with is None:
            return
        row, placement = int(self.rows[number]), self.placements[column.moves_with][number]
        if column.kind == "encoded" and not (placement is None and _is_sent(column)):
            value = mover.type.decode_sample(value, tensor=name, row=row)
        if placement is not None:
            value, self.kept[name][number] = mover.move(value, placement, row=row)
        self.values[name][number] = value

    def _drop(self, column: ColumnPlan, number: int) -> None:
        """Drop the values of items that are not left."""
        items = column.drops_with or column.name
        kept = self.kept[items][number] if items in self.kept else None
        if kept is None:
            return
        value = self.values[column.name][number]
        if value is None:
            return
        if len(value) != len(kept):
            raise self._uneven(column, items, number, value, kept)
        self.values[column.name][number] = keep_items(value, kept)

    def stack(self, is_whole: NDArray[np.bool_]) -> None:
        """Put the masks of images of one size into one array; lost rows are zeros."""
        for column in self.columns:
            if not column.is_dense or column.collate is not None:
                continue
            shape = tuple(length or 0 for length in column.shape)
            masks = np.zeros((len(self.rows), *shape), column.dtype)
            for number in np.flatnonzero(is_whole).tolist():
                value = self.values[column.name][number]
                if value is None:
                    raise null_in_batch(column.name)
                masks[number] = value
            self.values[column.name] = masks

    def _uneven(
        self,
        column: ColumnPlan,
        items: str,
        number: int,
        value: Sequence[Any],
        others: Sequence[Any] | NDArray[Any],
    ) -> CorruptSampleError:
        """Build the error for a row that an older writer could commit."""
        name, row = column.name, int(self.rows[number])
        return CorruptSampleError(
            f"row {row}: {name!r} has {len(value)} and {shown(items)} {len(others)}, of which it is"
            f" one each (per={shown(items)})\ngive the row as many: ds[{name!r}][{row}] = …; to"
            " train without it: on_error='skip'; to find all: ds.check()",
            tensor=name,
            row=row,
        )


def as_sent(column: ColumnPlan, part: Any) -> Any:
    """Return the moved samples of a batch as a server sends them: as they would be stored."""
    mover = column.mover
    if mover is None or not _is_sent(column):
        return part
    return [one if one is None or isinstance(one, bytes) else mover.stored(one) for one in part]


def _is_sent(column: ColumnPlan) -> bool:
    """Whether samples are delivered as they are stored, by a server."""
    return isinstance(column.type, Bytes)
