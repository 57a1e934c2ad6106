"""Loaders of datasets and views: ``ds.torch()``, ``ds.jax()`` and ``ds.loader()``.

Stored columns are streamed by the loader; computed columns of a query are passed as virtual
columns, addressed by position. A pickled loader, for spawned worker processes, includes the dataset
or view, and is created again there with the same rank.

``tl.loader_from_state`` restores a loader from its state alone. A state names its version and
selection; those of a dataset, a saved view and the result of queries also record how the rows
are found again:

    "source": {"url": "s3://bucket/pets", "framework": "torch", "view": "sharp"}
    "source": {"url": "s3://bucket/pets", "framework": "torch", "steps": [{"tql": …, "params": …}]}

Neither credentials nor what makes batches (their size, decoding, collation) is in a state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.connect import connect
from tensorlake.dataset.core.indexing import positions_of
from tensorlake.dataset.core.row_identity import row_id_texts, source_texts
from tensorlake.dataset.core.rowset import committed_rows, everything
from tensorlake.dataset.core.steps import steps_from_json, steps_to_json
from tensorlake.dataset.core.structs import expand_names
from tensorlake.dataset.display.signatures import with_options
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.query.expressions import expression_columns
from tensorlake.dataset.query.row_reference import served_rows
from tensorlake.dataset.query.saved_views import open_saved, replayed
from tensorlake.dataset.transform.class_mix import class_mix
from tensorlake.dataset.transform.loader_options import DEFAULTS, ResumeOptions
from tensorlake.dataset.transform.splice import RowEdits
from tensorlake.errors import InvalidInputError
from tensorlake.loader import (
    ArrangedOrder,
    ComposedRows,
    Form,
    Framework,
    ListedRows,
    Loader,
    LoaderState,
    MixOrder,
    Order,
    SelectedRows,
    SplicedOrder,
    VirtualColumn,
    VirtualValues,
    make_loader,
    served_loader,
)
from tensorlake.reading import Reader, Selection
from tensorlake.types import Column, EncodedColumn, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.loader import ListedBatch, Loader

__all__ = [
    "Repin",
    "computed_columns",
    "edits_of",
    "loader_for_client",
    "loader_from_state",
    "loader_of_state",
    "resumed",
    "rows_at",
    "stream",
]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Repin:
    """Opens another version of a loader's rows, by its name."""

    at: Callable[[str], RowSet]
    opened: dict[str, RowSet] = field(default_factory=dict[str, "RowSet"])

    def __call__(self, version: str) -> tuple[Selection, Reader]:
        """Return the rows, and a reader of them."""
        rows = self.rows(version)
        return rows.selection, rows.reader()

    def rows(self, version: str) -> RowSet:
        """Return the rows, which are found once."""
        if version not in self.opened:
            self.opened[version] = self.at(version)
        return self.opened[version]


def stream(
    readable: RowSet,
    framework: Framework,
    arguments: dict[str, Any],
    *,
    repin: Repin | None = None,
    remake: Callable[..., Loader] | None = None,
    form: Form | None = None,
) -> Loader:
    """Make a loader of rows.

    Args:
        readable: The rows.
        framework: The framework of its batches.
        arguments: As for ``ds.loader()``.
        repin: Opens the version that a state recorded; None if there is only this one.
        remake: Makes the same loader in another process; None: from these rows.
        form: How rows become sequences of tokens, or windows; None: they stay rows.

    Raises:
        InvalidInputError: It is an aggregate, without rows of a dataset.
    """
    if not readable.has_rows:
        raise _no_rows()
    readable = committed_rows(readable)
    names: Sequence[str] = ()
    if isinstance(arguments.get("columns"), Sequence) and not isinstance(arguments["columns"], str):
        names = expand_names(arguments["columns"], readable.columns)
        arguments = {**arguments, "columns": names}
    rows = _editable(readable, repin, framework, names)
    remake = remake or partial(_made_again, readable, framework, arguments)
    if form is not None:
        composed = ComposedRows(replace(rows, source=None), form)
        return make_loader(composed, framework, remake, **arguments)
    if callable(arguments.get("weights")) and not len(readable):
        arguments = {**arguments, "weights": None}  # of no class
    elif callable(arguments.get("weights")):
        selected = partial(_selected, repin=repin, framework=framework)
        at = edits_of(readable, repin).at
        mixed, arguments = class_mix(readable, at, selected, arguments)
        return make_loader(mixed, framework, remake, **arguments)
    return make_loader(rows, framework, remake, **arguments)


def count_units(readable: RowSet, form: Form) -> int:
    """Return the number of units, such as windows, of an epoch."""
    if not readable.has_rows:
        raise _no_rows()
    return form.units(_selected(readable, None, "numpy")).count


def loader_for_client(
    readable: RowSet,
    arguments: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None,
    turns: int = 1,
    keeps_places: bool = False,
    batches: Sequence[ListedBatch] = (),
) -> Loader:
    """Make the loader whose batches a server sends; see `serve_loader`."""
    if not readable.has_rows:
        raise _no_rows()
    rows = _selected(readable, None, "numpy")
    if batches:
        return served_loader(ListedRows.of(rows, batches), arguments, keeps_places=keeps_places)
    make = partial(served_loader, turns=turns, keeps_places=keeps_places)
    if state is None:
        return make(rows, arguments)
    recorded = LoaderState.from_json(state)
    own = {"seed": recorded.seed, "shuffle": getattr(recorded.order, "kind", "") != "none"}
    loader = make(rows, {**arguments, **own})
    loader.load_state_dict(dict(state))
    return loader


def computed_columns(readable: RowSet, repin: Repin | None) -> dict[str, VirtualColumn]:
    """Return computed columns of rows in the form that a loader accepts."""
    return {name: ComputedColumn(one, name, repin) for name, one in readable.computed.items()}


def _selected(readable: RowSet, repin: Repin | None, framework: Framework) -> SelectedRows:
    selection = readable.selection
    return SelectedRows(
        selection,
        readable.session.reader(selection.snapshot),
        computed_columns(readable, repin),
        repin,
        _source(readable, framework),
        server=served_rows(readable),
    )


def _editable(
    readable: RowSet, repin: Repin | None, framework: Framework, names: Sequence[str]
) -> SelectedRows:
    """Return a loader's rows, which it can exchange for those of another version."""

    def made(rows: RowSet) -> SelectedRows:
        selected = replace(_selected(rows, repin, framework), edits=edits)
        for name in {ROW_ID, SOURCE}.intersection(names) - selected.virtual.keys():
            column = RowTexts(name, rows.selection, rows.reader())
            selected = replace(selected, virtual={**selected.virtual, name: column})
        return selected

    edits = edits_of(readable, repin, made)
    return made(readable)


def edits_of(
    readable: RowSet, repin: Repin | None, made: Callable[[RowSet], SelectedRows] | None = None
) -> RowEdits:
    """Return how a loader finds its rows in other versions.

    Args:
        readable: The rows.
        repin: Opens another version of them, if a state needs it.
        made: Makes a loader's rows; None: of a source of a mix.
    """
    own = repin
    if own is None and readable.steps is not None and readable.name is None:
        session, steps = readable.session, readable.steps
        own = Repin(lambda version: replayed(everything(versioning.at(session, version)), steps))

    def source(rows: RowSet) -> SelectedRows:
        computed = computed_columns(rows, repin)
        selected = SelectedRows(rows.selection, rows.reader(), computed, server=served_rows(rows))
        return replace(selected, edits=edits)

    edits = RowEdits(readable, None if own is None else own.rows, made or source)
    return edits


def _no_rows() -> InvalidInputError:
    return InvalidInputError(
        "an aggregate has no rows of the dataset to stream"
        "\nread its values: view['name'], or view.to_pandas()"
    )


def rows_at(view: RowSet, positions: Sequence[int]) -> list[dict[str, Any]]:
    """Read many rows at once, for torch's map-style fetcher; the arrays are the caller's."""
    selection, types = view.selection, view.schema
    places = positions_of(positions, len(view), what=repr(view.url))
    columns = {name: _owned(view.read_next(name, places)) for name in selection.columns}
    computed = {name: column.take(places) for name, column in view.computed.items()}
    return [
        {name: types[name].present_one(column, at) for name, column in columns.items()}
        | {name: column.present_one(at) for name, column in computed.items()}
        for at in range(len(places))
    ]


def _owned(column: Column) -> Column:
    """Copy what is mapped from a file and may not be written to: torch's collate refuses it."""
    if isinstance(column, EncodedColumn) or column.values.flags.writeable:
        return column
    return replace(column, values=column.values.copy())


ORDER_ARGUMENTS = ("weights", "stratify", "group", "limit", "repeat")
SOURCE_NBYTES_MAX = 512
"""Limit of the part of a state that identifies its rows: a state stays below 1 KB."""


def _source(view: RowSet, framework: Framework) -> dict[str, Any] | None:
    """Return how to find the rows again, for ``tl.loader_from_state``; None if impossible."""
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


ROW_ID, SOURCE = "_row_id", "_source"


@dataclass(frozen=True, slots=True, eq=False)
class RowTexts:
    """A string for each row, the same when rows move: ``_row_id``, or ``_source``, its item."""

    name: str
    selection: Selection
    reader: Reader
    dtype: None = None
    shape: tuple[int | None, ...] = ()

    def over(self, selection: object) -> RowTexts:
        """Return the strings of another version's rows."""
        assert isinstance(selection, Selection), "it came from here, as a repin"
        return replace(self, selection=selection, reader=Reader(selection.snapshot))

    def take(self, positions: Int64Array) -> VirtualValues:
        """Return the strings of the rows at some positions; None where an item is not known."""
        rows = self.selection.with_rows(positions)
        return [*(row_id_texts(rows) if self.name == ROW_ID else source_texts(rows, self.reader))]


@dataclass(frozen=True, slots=True, eq=False)
class ComputedColumn:
    """A computed column in the form that a loader accepts."""

    computed: Computed
    name: str
    repin: Repin | None = None

    def over(self, selection: object) -> ComputedColumn:
        """Return the column of another version's rows."""
        assert isinstance(selection, Selection), "it came from here, as a repin"
        assert self.repin is not None, "likewise"
        rows = self.repin.rows(selection.snapshot.version)
        return replace(self, computed=rows.computed[self.name])

    @property
    def names(self) -> tuple[str, ...] | None:
        """The class names, if the values are class codes."""
        return self.computed.names

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


@with_options(ResumeOptions, DEFAULTS)
def loader_from_state(
    state: Mapping[str, Any],
    *,
    storage_options: Mapping[str, Any] | None = None,
    **arguments: Unpack[ResumeOptions],
) -> Loader:
    """Create the loader of a state again, which resumes at the recorded position.

    The other arguments are those of ``view.torch(…)``; seed, order, ``batch_by`` and ``balance``
    are the state's.

    Args:
        state: Result of ``loader.state_dict()``.
        storage_options: Credentials and endpoint, by fsspec's key names.

    Raises:
        InvalidInputError: The state is of rows that were chosen by hand, of a mix, of packed
            sequences or windows, or of weights that are an array or long.
        ViewNotFoundError: The saved view was deleted.
        StateMismatchError: The version has other rows than were recorded.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-from-state", {"x": "int64"})
        >>> ds.extend({"x": range(6)})
        >>> _ = ds.commit("six")
        >>> loader = ds.query("WHERE x > 0").loader(batch_size=2)
        >>> for batch in loader:
        ...     state = loader.state_dict()
        ...     break
        >>> [batch["x"].tolist() for batch in tl.loader_from_state(state, batch_size=2)]
        [[3, 4], [5]]
    """
    return loader_of_state(state, storage_options, arguments)


def loader_of_state(
    state: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None,
    arguments: Mapping[str, Any],
    *,
    reaches_out: bool = True,
) -> Loader:
    """Create the loader of a state; as ``loader_from_state``.

    Args:
        state: The state.
        storage_options: Credentials and endpoint.
        arguments: Arguments that no state has.
        reaches_out: Whether its queries may open other datasets, and call functions of the user.
    """
    recorded = LoaderState.from_json(state)
    source = recorded.source
    if source is None or not isinstance(recorded.order, Order | ArrangedOrder | SplicedOrder):
        raise _needs_its_view(recorded)
    session = connect(
        str(source["url"]), recorded.version, read_only=True, storage_options=storage_options
    )
    session.expressions = expression_columns
    if "view" in source:
        rows = open_saved(session, str(source["view"]), reaches_out=reaches_out)
    else:
        steps = cast("list[dict[str, Any]]", source["steps"])
        parsed = steps_from_json(steps, where="the state")
        rows = replayed(everything(session), parsed, reaches_out=reaches_out)
    return resumed(rows, recorded, source["framework"], arguments, source.get("order", {}))


def resumed(
    rows: RowSet,
    state: LoaderState,
    framework: Framework,
    arguments: Mapping[str, Any],
    order: Mapping[str, Any],
) -> Loader:
    """Make the loader of a state from its rows.

    Args:
        rows: The rows.
        state: The state.
        framework: The framework of batches.
        arguments: Arguments that no state has.
        order: Arguments of the order that the state's source has.
    """
    own: dict[str, Any] = {
        "seed": state.seed,
        "shuffle": getattr(state.order, "kind", "") != "none",
    }
    own |= {name: order[name] for name in ORDER_ARGUMENTS if name in order}
    own |= _batches_of(state)
    loader = stream(rows, framework, {**own, **arguments})
    loader.load_state_dict(state.to_json())
    return loader


def _batches_of(state: LoaderState) -> dict[str, Any]:
    """Return the arguments by which a state's batches were divided; their size is not restored."""
    recorded = state.batches or {}
    by: Any = recorded.get("column")
    if "parts" in recorded:
        by = {"column": by, "parts": recorded["parts"]}
    arguments = {"batch_by": by} if "tokens" in recorded else {}
    kept = {name: recorded[name] for name in ("balance", "placement") if name in recorded}
    return arguments | kept


def _needs_its_view(state: LoaderState) -> InvalidInputError:
    """Return the error of a state that does not say how its loader is made."""
    order, form = state.order, state.selection.partition("+")[2].split(" ")[0]
    if form or isinstance(order, MixOrder):
        units = {"pack": "packed sequences", "windows": "windows"}.get(form, form)
        mixed, call = ("a mix", "tl.mix(…)") if isinstance(order, MixOrder) else ("a view", "view")
        return InvalidInputError(
            f"the state of a loader of {f'{units} of {mixed}' if form else mixed} has its position,"
            f" but not how it was made\nmake the same loader again,"
            f" {call}{f'.{form}(…)' if form else ''}.loader(…), then loader.load_state_dict(state)"
        )
    has_weights = isinstance(order, ArrangedOrder) and order.rule in ("weighted", "classes")
    return InvalidInputError(
        f"the state of a loader of {state.version} has its position, but does not identify its"
        " rows: they were chosen by hand (a slice, a list, a mask, a sample), or by a query too"
        f" long for a state{', or weights= is an array or long' if has_weights else ''}"
        "\nmake the same view and its loader again, then loader.load_state_dict(state); or"
        " save the rows before the loader is made: view.save(name).loader(…)"
    )
