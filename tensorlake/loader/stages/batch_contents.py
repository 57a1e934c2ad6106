"""Contents of a batch: its columns and a transform's outputs, decided before any read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tensorlake.loader.caches.decoded_images import check_kept
from tensorlake.loader.config.batch_schema import Planning, plan_columns
from tensorlake.loader.config.column_plan import ColumnPlan, as_stored
from tensorlake.loader.config.nulls import NullColumnWarning
from tensorlake.loader.sources.shapes import first_null, shape_bounds, shape_of_rows
from tensorlake.loader.stages.stack import Outputs
from tensorlake.types import Image

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.plan.selection import Reader, Selection
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["Contents"]


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a loader's batches.

    Attributes:
        columns: The columns that are read, as passed to a batch or a transform.
        outputs: How the results of a transform become a batch.
        channels_first: The images whose channels come first.
    """

    columns: tuple[ColumnPlan, ...]
    outputs: Outputs
    channels_first: frozenset[str]

    @classmethod
    def planned(
        cls, rows: OrderedRows, arguments: LoaderArguments, converter: Converter, *, seed: int
    ) -> Contents:
        """Decide the contents from the schema and the version's statistics.

        Raises:
            TensorNotFoundError: A column does not exist.
            RaggedBatchError: Samples differ in shape and no collation is given.
            InvalidInputError: An argument names a column that is not read, or does not fit it.
        """
        selection = rows.selection
        chosen, null = arguments.columns, arguments.null or {}
        if chosen is None:
            named = {**(arguments.decode or {}), **(arguments.collate or {}), **null}
            kept, nulls = _without_nulls(
                selection, rows.reader, named, lists_null=converter.lists_null
            )
            if nulls:
                _warn_left_out(nulls)
            chosen = (*kept, *rows.virtual)
        planning = Planning(
            selection.snapshot,
            seed=seed,
            framework=converter.name,
            lists_null=converter.lists_null,
            bounds=partial(shape_bounds, rows.reader),
            shape_of=partial(shape_of_rows, selection, rows.reader),
            transforms=arguments.transform is not None,
            null=null,
            first_null=partial(first_null, selection, rows.reader),
        )
        columns = plan_columns(
            planning,
            chosen,
            decode=arguments.decode,
            collate=arguments.collate,
            virtual=rows.virtual,
        )
        if arguments.cache_decoded:
            check_kept(columns)
        outputs = Outputs.planned(
            columns,
            arguments.collate,
            framework=converter.name,
            transform=arguments.transform,
        )
        is_first = arguments.layout == "NCHW"
        first = frozenset(one.name for one in columns if one.spec is not None and is_first)
        if not converter.presents:
            columns = tuple(map(as_stored, columns))
        return cls(columns, outputs, first)


def _without_nulls(
    selection: Selection, reader: Reader, named: Mapping[str, Any], *, lists_null: bool
) -> tuple[list[str], list[str]]:
    """Divide the columns of a loader without ``columns=`` into those it reads and those with NULLs.

    Columns delivered as lists can hold NULL, and columns named in an argument are always read.
    """
    kept: list[str] = []
    nulls: list[str] = []
    for name in selection.columns:
        sample_type = selection.snapshot.spec(name).type
        is_array = sample_type.layout == "uniform" or isinstance(sample_type, Image)
        is_array |= not lists_null
        has_null = (
            is_array
            and sample_type.nullable
            and name not in named
            and first_null(selection, reader, name) is not None
        )
        (nulls if has_null else kept).append(name)
    return kept, nulls


def _warn_left_out(names: list[str]) -> None:
    listed = ", ".join(map(repr, names))
    warnings.warn(
        f"NULLs in {listed}: arrays cannot hold them, and a loader without columns= leaves such"
        " columns out\nname the columns to read, columns=[…], or give a value,"
        f" null={{{names[0]!r}: …}}",
        NullColumnWarning,
        stacklevel=8,
    )
