"""Loaders of datasets and views: ``ds.torch()``, ``ds.jax()`` and ``ds.loader()``.

Stored columns are streamed by the loader; those that a query computed go along as virtual columns,
known by position. A loader that is pickled, for worker processes that are spawned, takes the
dataset or view with it and is made again there, of the same rank.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.indexing import positions_of
from tensorlake.dataset.core.row_identity import row_id_texts
from tensorlake.dataset.core.steps import steps_to_json
from tensorlake.dataset.core.structs import expand_names
from tensorlake.dataset.query.row_reference import served_rows
from tensorlake.errors import InvalidInputError
from tensorlake.loader import (
    Framework,
    Loader,
    LoaderState,
    SelectedRows,
    VirtualValues,
    WireConverter,
    make_loader,
    served_loader,
)
from tensorlake.reading import Reader, Selection
from tensorlake.types import Column, EncodedColumn, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["Repin", "loader_for_client", "rows_at", "stream"]

Int64Array = npt.NDArray[np.int64]
Repin: TypeAlias = Callable[[str], tuple[Selection, Reader]]
"""How a loader reaches another version of its rows, by its name."""


def stream(
    readable: RowSet,
    framework: Framework,
    arguments: dict[str, Any],
    *,
    repin: Repin | None = None,
    remake: Callable[..., Loader] | None = None,
) -> Loader:
    """Make a loader of rows.

    Args:
        readable: The rows.
        framework: Whose arrays its batches are.
        arguments: As for ``ds.loader()``.
        repin: How it reaches the version that its state recorded; None where only this one is.
        remake: Makes the same loader in another process; None: from these rows.

    Raises:
        InvalidInputError: It has no rows of a dataset: it is an aggregate.
    """
    if not readable.has_rows:
        raise _no_rows()
    names: Sequence[str] = ()
    if isinstance(arguments.get("columns"), Sequence) and not isinstance(arguments["columns"], str):
        names = expand_names(arguments["columns"], readable.columns)
        arguments = {**arguments, "columns": names}
    rows = _selected(readable, repin, framework)
    if ROW_ID in names:
        rows = replace(rows, virtual={**rows.virtual, ROW_ID: RowIdColumn(readable.selection)})
    remake = remake or partial(_made_again, readable, framework, arguments)
    return make_loader(rows, framework=framework, remake=remake, **arguments)


def loader_for_client(
    readable: RowSet,
    arguments: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None,
    turns: int = 1,
    keeps_places: bool = False,
) -> Loader:
    """Make the loader whose batches a server sends; see `serve_loader`."""
    if not readable.has_rows:
        raise _no_rows()
    rows = _selected(readable, None, "numpy")
    converter = WireConverter(turns, keeps_places)
    if state is None:
        return served_loader(rows, converter, arguments)
    recorded = LoaderState.from_json(state)
    own = {"seed": recorded.seed, "shuffle": getattr(recorded.order, "kind", "") != "none"}
    loader = served_loader(rows, converter, {**arguments, **own})
    loader.load_state_dict(dict(state))
    return loader


def _selected(readable: RowSet, repin: Repin | None, framework: Framework) -> SelectedRows:
    selection = readable.selection
    return SelectedRows(
        selection,
        readable.session.reader(selection.snapshot),
        {name: ComputedColumn(computed) for name, computed in readable.computed.items()},
        repin,
        _source(readable, framework),
        server=served_rows(readable),
    )


def _no_rows() -> InvalidInputError:
    return InvalidInputError(
        "an aggregate has no rows of the dataset to stream"
        "\nread its values: view['name'], or view.to_pandas()"
    )


def rows_at(view: RowSet, positions: Sequence[int]) -> list[dict[str, Any]]:
    """Read many rows at once, as torch's map-style fetcher asks; the arrays are the caller's."""
    selection, reader, types = view.selection, view.reader(), view.schema
    places = positions_of(positions, len(view), what=repr(view.url))
    physical = selection.physical(places)
    columns = {name: _owned(reader.read(name, physical)) for name in selection.columns}
    computed = {name: column.take(places) for name, column in view.computed.items()}
    return [
        {name: types[name].present_one(column, at) for name, column in columns.items()}
        | {name: column.present_one(at) for name, column in computed.items()}
        for at in range(len(physical))
    ]


def _owned(column: Column) -> Column:
    """Copy what is mapped from a file and may not be written to: torch's collate refuses it."""
    if isinstance(column, EncodedColumn) or column.values.flags.writeable:
        return column
    return replace(column, values=column.values.copy())


SOURCE_NBYTES_MAX = 512
"""Limit of the part of a state that identifies its rows: a state stays below 1 KB."""


def _source(view: RowSet, framework: Framework) -> dict[str, Any] | None:
    """How the rows are found again, for ``tl.loader_from_state``; None where they cannot be."""
    if view.selection.snapshot.is_staged or (view.steps is None and view.name is None):
        return None
    source: dict[str, Any] = {"url": view.url, "framework": framework}
    if view.name is not None:
        return source | {"view": view.name}
    try:
        source["steps"] = steps_to_json(view.steps or ())
    except InvalidInputError:  # a parameter that JSON does not know: the program has it
        return None
    is_small = len(json.dumps(source)) <= SOURCE_NBYTES_MAX
    return source if is_small else None


def _made_again(
    readable: RowSet, framework: Framework, arguments: dict[str, Any], **replaced: Any
) -> Loader:
    """Make the same loader in another process."""
    return stream(readable, framework, arguments | replaced)


ROW_ID = "_row_id"


@dataclass(frozen=True, slots=True, eq=False)
class RowIdColumn:
    """The id of each row, as a text: what stays the same when rows move."""

    selection: Selection
    dtype: None = None
    shape: tuple[int | None, ...] = ()

    def over(self, selection: object) -> RowIdColumn:
        """Tell the ids of another version's rows."""
        assert isinstance(selection, Selection), "it came from here, as a repin"
        return RowIdColumn(selection)

    def take(self, positions: Int64Array) -> VirtualValues:
        """Return the ids of the rows at some positions."""
        return [*row_id_texts(self.selection.with_rows(positions))]


@dataclass(frozen=True, slots=True, eq=False)
class ComputedColumn:
    """A computed column, as a loader takes it."""

    computed: Computed

    def over(self, selection: object) -> ComputedColumn:
        """Return itself: a view is of one version."""
        del selection
        return self

    @property
    def dtype(self) -> np.dtype | None:
        """Dtype of its numbers; None for strings and objects."""
        dtype = self.computed.type.dtype
        return None if dtype is None else np.dtype(dtype)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of one value; None where lengths differ."""
        return () if self.computed.type.dtype is None else self.computed.type.shape

    def take(self, positions: Int64Array) -> VirtualValues:
        """Return the values at some positions."""
        import tensorlake_query as tql

        match self.computed.take(positions).batch:
            case tql.UniformBatch(values=values, valid=valid):
                return UniformColumn(values, valid)
            case tql.RaggedBatch(values=values, shapes=shapes, valid=valid):
                return RaggedColumn(values, shapes, valid)
            case tql.ObjectBatch(values=values):
                return list(values)
