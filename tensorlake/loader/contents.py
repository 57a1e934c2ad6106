"""Contents of a batch: its columns, and what a transform's rows become, decided before any read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tensorlake.loader.columns import ColumnPlan, Planning, as_stored, plan_columns
from tensorlake.loader.shapes import shape_bounds, shape_of_rows
from tensorlake.loader.stacking import Outputs

if TYPE_CHECKING:
    from tensorlake.loader.arguments import LoaderArguments
    from tensorlake.loader.converter import Converter
    from tensorlake.loader.ordered_rows import OrderedRows

__all__ = ["Contents"]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a loader's batches hold.

    Attributes:
        columns: What is read, and what of it a batch or a transform gets.
        outputs: How what a transform returns becomes a batch.
        channels_first: The images whose channels come first.
    """

    columns: tuple[ColumnPlan, ...]
    outputs: Outputs
    channels_first: frozenset[str]

    @classmethod
    def planned(
        cls, rows: OrderedRows, arguments: LoaderArguments, converter: Converter, *, seed: int
    ) -> Contents:
        """Decide from the schema and the version's statistics.

        Raises:
            TensorNotFoundError: A column does not exist.
            RaggedBatchError: Samples differ in shape and nobody said what to do.
            InvalidInputError: An argument names what is not read, or does not fit.
        """
        selection = rows.selection
        chosen = arguments.columns
        if chosen is None:
            chosen = (*selection.columns, *rows.virtual)
        planning = Planning(
            selection.snapshot,
            seed=seed,
            framework=converter.name,
            bounds=partial(shape_bounds, rows.reader),
            shape_of=partial(shape_of_rows, selection, rows.reader),
            transforms=arguments.transform is not None,
        )
        columns = plan_columns(
            planning,
            chosen,
            decode=arguments.decode,
            collate=arguments.collate,
            virtual=rows.virtual,
        )
        outputs = Outputs.planned(columns, arguments.collate, framework=converter.name)
        is_first = arguments.layout == "NCHW"
        first = frozenset(one.name for one in columns if one.spec is not None and is_first)
        if not converter.presents:
            columns = tuple(map(as_stored, columns))
        return cls(columns, outputs, first)
