"""Columns that a query computed: values aligned with the positions of a view, on demand.

A column of selected rows is an expression over them until it is read: `take` narrows it to some
positions, and values are read and computed for those only. Values computed for all positions are
cached. `evaluate_columns` computes several for the same positions, as a loader does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.stored_columns import refuse_names_of_files
from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types import (
    Array,
    BBox,
    Bool,
    Bytes,
    ClassLabel,
    Json,
    Label,
    LabelArray,
    Ragged,
    RaggedColumn,
    Scalar,
    Text,
    Timestamp,
    UniformColumn,
    convert_boxes,
    take,
)

if TYPE_CHECKING:
    import tensorlake_query as tql
    from tensorlake.types import Column, SampleType

__all__ = ["Computed", "evaluate_columns", "take_all"]

Int64Array = npt.NDArray[np.int64]


class Computed:
    """Values of one computed column, one for each position of its view.

    Attributes:
        type: Type of one value.
        held: Bytes of memory that it references, which several columns may share.
        expression: The TQL by which the schema declares it; "" of a column of a query.
        renamed: The stored column of its view's rows that it is under another name; "" of others.
    """

    __slots__ = ("_batch", "_positions", "_read", "expression", "held", "renamed", "type")

    def __init__(
        self,
        column_type: tql.ColumnType,
        batch: tql.Batch | None = None,
        *,
        read: Callable[[Int64Array], tql.Batch] | None = None,
        positions: Int64Array | None = None,
        held: int = 0,
        expression: str = "",
        renamed: str = "",
    ) -> None:
        """Accept all values, or a function that computes them for some positions."""
        self.held = held
        self.expression, self.renamed = expression, renamed
        self.type = column_type
        self._batch = batch
        self._read = read
        self._positions = positions

    @property
    def batch(self) -> tql.Batch:
        """All values, computed by the first call."""
        if self._batch is None:
            assert self._read is not None, "one of both is given"
            assert self._positions is not None, "likewise"
            self._batch = self._read(self._positions)
        return self._batch

    @property
    def nbytes(self) -> int:
        """Approximate bytes of memory that only it references."""
        import tensorlake_query as tql

        places = 0 if self._positions is None else self._positions.nbytes
        match self._batch:
            case None:
                return places
            case tql.ObjectBatch(values=values):
                return places + sum(map(sys.getsizeof, values))
            case batch:
                return places + batch.values.nbytes

    @property
    def names(self) -> tuple[str, ...] | None:
        """The class names, if the values are class codes."""
        return self.type.names if self.type.kind == "label" else None

    def __len__(self) -> int:
        import tensorlake_query as tql

        if self._batch is None and self._positions is not None:
            return len(self._positions)
        match self.batch:
            case tql.RaggedBatch(shapes=shapes):
                return len(shapes)
            case batch:
                return len(batch.values)

    def declared_by(self, expression: str) -> Computed:
        """Return the column as one that the schema declares."""
        return Computed(
            self.type,
            self._batch,
            read=self._read,
            positions=self._positions,
            held=self.held,
            expression=expression,
        )

    def take(self, positions: Int64Array) -> Computed:
        """Select these positions; nothing is computed yet."""
        taken = self._taken(positions)
        taken.expression, taken.renamed = self.expression, self.renamed
        return taken

    def _taken(self, positions: Int64Array) -> Computed:
        import tensorlake_query as tql

        if self._batch is None and self._read is not None and self._positions is not None:
            kept = self._positions[positions]
            return Computed(self.type, read=self._read, positions=kept, held=self.held)
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
        """Return the public value of the column; a list if it has NULLs."""
        import tensorlake_query as tql

        match self.batch:
            case tql.ObjectBatch(values=values):
                return values
            case tql.RaggedBatch(values=values, shapes=shapes, valid=None):
                inner = self.type.shape[1:]
                fixed = None if None in inner else tuple(length or 0 for length in inner)
                return Ragged(RaggedColumn(self._meant(values), shapes), inner=fixed)
            case tql.UniformBatch(values=values, valid=None):
                return self._meant(values)
            case _:
                return [self.present_one(position) for position in range(len(self))]

    def present_one(self, position: int) -> Any:
        """Return one value, computed alone; None if it is NULL."""
        import tensorlake_query as tql

        if self._batch is None:
            one = self.take(np.array([position], np.int64))
            return Computed(self.type, one.batch).present_one(0)
        match self.batch:
            case tql.ObjectBatch(values=values):
                return values[position]
            case tql.UniformBatch(values=values, valid=valid):
                if valid is not None and not valid[position]:
                    return None
                one = self._meant(values)[position]
                return one if self.names is None else Label(int(one), self.names)
            case tql.RaggedBatch(values=values, shapes=shapes, valid=valid):
                if valid is not None and not valid[position]:
                    return None
                return RaggedColumn(self._meant(values), shapes).sample(position)

    def values(self) -> Any:
        """Return the values in the form of an assignment: labels by name, as codes differ."""
        presented = self.present()
        if self.names is None or self.type.shape or not isinstance(presented, np.ndarray):
            return presented
        return [self.names[code] for code in presented.tolist()]

    def tensor_type(self, name: str) -> SampleType:
        """Return the type of a tensor that has the values.

        Raises:
            UnsupportedFeatureError: There is none.
        """
        found, nullable = self.type, self.type.nullable
        match found.kind:
            case "number" if found.timestamp_unit is not None and not found.shape:
                return Timestamp(found.timestamp_unit, found.timezone, nullable=nullable)
            case "number" if found.timestamp_unit is not None or found.duration_unit is not None:
                pass
            case "number" | "bool" if found.dtype is not None and found.shape:
                return Array(found.dtype, found.shape, nullable=nullable)
            case "bool":
                return Bool(nullable=nullable)
            case "number" if found.dtype is not None:
                return Scalar(found.dtype, nullable=nullable)
            case "label" if found.names is not None:
                dropped = [code for code, one in enumerate(found.names) if not one]
                return ClassLabel(
                    found.names, multi=bool(found.shape), dropped=dropped, nullable=nullable
                )
            case "text":
                return Text(nullable=nullable)
            case "json":
                return Json(nullable=nullable)
            case "bytes":
                return Bytes(nullable=nullable)
            case _:
                pass
        kind = "duration" if found.duration_unit is not None else found.kind
        raise UnsupportedFeatureError(
            f"the computed column {name!r} ({kind}) cannot become a tensor\n"
            "leave it out of the query, or convert it there"
        )

    def converted(self, wanted: SampleType, *, tensor: str, row_start: int, call: str) -> Column:
        """Convert the values to a tensor's type; texts are never names of files.

        Raises:
            InvalidInputError: A value does not match it.
        """
        samples = self.values()
        refuse_names_of_files(samples, wanted, tensor=tensor, row_start=row_start)
        given = self.type.box_format
        if isinstance(wanted, BBox) and given is not None and given != wanted.format:
            formats = given, wanted.format
            samples = [None if one is None else convert_boxes(one, *formats) for one in samples]
        return wanted.convert(samples, tensor=tensor, row_start=row_start, call=call)

    def column(self, declared: SampleType, *, tensor: str) -> Column:
        """Return the values as if they were stored in a tensor of a type."""
        import tensorlake_query as tql

        units = self.names, self.type.timestamp_unit, self.type.duration_unit
        is_plain = all(one is None for one in units) and declared.item_counter is None
        match self.batch:
            case tql.UniformBatch(values=values, valid=valid) if (
                is_plain
                and values.dtype == declared.dtype
                and (declared.is_media or None not in declared.shape)
            ):
                return UniformColumn(values, valid)
            case tql.RaggedBatch(values=values, shapes=shapes, valid=valid) if (
                is_plain and values.dtype == declared.dtype
            ):
                return RaggedColumn(values, shapes, valid)
            case _:
                samples = [self.present_one(position) for position in range(len(self))]
                return declared.convert(
                    samples, tensor=tensor, call=f"the expression of {tensor!r}"
                )

    def _meant(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert class codes to names, and counts of a unit of time to times."""
        if self.names is not None:
            return LabelArray(values, self.names)
        if self.type.timestamp_unit is not None:
            return values.view(f"datetime64[{self.type.timestamp_unit}]")
        if self.type.duration_unit is not None:
            return values.view(f"timedelta64[{self.type.duration_unit}]")
        return values

    def __reduce__(self) -> tuple[Callable[..., Computed], tuple[tql.ColumnType, tql.Batch]]:
        made = partial(Computed, expression=self.expression, renamed=self.renamed)
        return made, (self.type, self.batch)


def evaluate_columns(
    computed: Mapping[str, Computed], positions: Int64Array
) -> dict[str, tql.Batch]:
    """Compute columns for some positions of their view only."""
    return {name: column.take(positions).batch for name, column in computed.items()}


def take_all(computed: Mapping[str, Computed], positions: Int64Array) -> dict[str, Computed]:
    """Select the same positions of several columns."""
    return {name: column.take(positions) for name, column in computed.items()}
