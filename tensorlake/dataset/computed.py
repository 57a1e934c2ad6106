"""Columns that a query computed: values aligned with the positions of a view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.types import Ragged, RaggedColumn, take

if TYPE_CHECKING:
    import tensorlake_query as tql

__all__ = ["Computed", "take_all"]


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """Values of one computed column, one for each position of its view."""

    type: tql.ColumnType
    batch: tql.Batch

    def __len__(self) -> int:
        import tensorlake_query as tql

        match self.batch:
            case tql.RaggedBatch():
                return len(self.batch.shapes)
            case _:
                return len(self.batch.values)

    def take(self, positions: npt.NDArray[np.int64]) -> Computed:
        """Keep these positions."""
        import tensorlake_query as tql

        match self.batch:
            case tql.UniformBatch(values=values, valid=valid):
                kept = None if valid is None else valid[positions]
                return Computed(self.type, tql.UniformBatch(values[positions], kept))
            case tql.RaggedBatch(values=values, shapes=shapes, valid=valid):
                column = take(RaggedColumn(values, shapes, valid), positions)
                assert isinstance(column, RaggedColumn)
                batch = tql.RaggedBatch(column.values, column.shapes, column.valid)
                return Computed(self.type, batch)
            case tql.ObjectBatch(values=values):
                kept = [values[position] for position in positions.tolist()]
                return Computed(self.type, tql.ObjectBatch(kept))

    def present(self) -> Any:
        """Return what a user sees of the column; NULLs make it a list."""
        import tensorlake_query as tql

        match self.batch:
            case tql.ObjectBatch(values=values):
                return values
            case tql.RaggedBatch(values=values, shapes=shapes, valid=None):
                inner = self.type.shape[1:]
                fixed = None if None in inner else tuple(length or 0 for length in inner)
                return Ragged(RaggedColumn(values, shapes), inner=fixed)
            case tql.UniformBatch(values=values, valid=None):
                return values
            case _:
                return [self.present_one(position) for position in range(len(self))]

    def present_one(self, position: int) -> Any:
        """Return one value; None where it is NULL."""
        import tensorlake_query as tql

        match self.batch:
            case tql.ObjectBatch(values=values):
                return values[position]
            case tql.UniformBatch(values=values, valid=valid):
                return None if valid is not None and not valid[position] else values[position]
            case tql.RaggedBatch(values=values, shapes=shapes, valid=valid):
                if valid is not None and not valid[position]:
                    return None
                return RaggedColumn(values, shapes).sample(position)


def take_all(
    computed: Mapping[str, Computed], positions: npt.NDArray[np.int64]
) -> dict[str, Computed]:
    """Keep the same positions of several columns."""
    return {name: column.take(positions) for name, column in computed.items()}
