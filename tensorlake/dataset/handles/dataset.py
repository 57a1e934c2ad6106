"""Dataset and View, the main handles. A Dataset follows its branch, a View is frozen.

Both are handles around rows and columns of a version, with the common base `Rows`. Each creates the
other. Changes are staged, visible to one Dataset, and published by one ``commit``, all or nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.connect import reconnect
from tensorlake.dataset.core.indexing import row_position
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.display.repr import dataset_repr, view_repr, views_text
from tensorlake.dataset.display.signatures import shows_methods
from tensorlake.dataset.handles import batches, writing
from tensorlake.dataset.handles import schema as evolving
from tensorlake.dataset.handles import upkeep as maintained
from tensorlake.dataset.handles import versions as versioned
from tensorlake.dataset.handles import viewing as view_values
from tensorlake.dataset.handles.row import Row, column_of, row_at
from tensorlake.dataset.handles.rows import RowNames, Rows
from tensorlake.dataset.handles.tensor import Tensor
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.history.diff import UpdatedRows, transitions
from tensorlake.dataset.maintenance import indexes as indexing
from tensorlake.dataset.query import assignment
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.errors import InvalidInputError, TensorNotFoundError
from tensorlake.quantities import plural
from tensorlake.versions import Tag, stored_chunks

if TYPE_CHECKING:
    import tensorlake_query as tql
    from tensorlake.dataset.core.session import Place, Session
    from tensorlake.dataset.history.diff import Difference
    from tensorlake.dataset.history.ingest_report import IngestReport
    from tensorlake.dataset.maintenance.indexes import IndexInfo
    from tensorlake.dataset.transform.map.report import MapReport

__all__ = ["Dataset", "Diff", "SavedViews", "Updated", "View"]


@shows_methods
class View(Rows):
    """Rows × columns of one version.

    Rows may repeat and have any order; columns may be renamed tensors of the version or values
    that a query computed. A view stores row numbers and computed values, never tensor data.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows

    @property
    def __rowset__(self) -> RowSet:
        return self._rows

    def __view__(self, rows: RowSet) -> View:
        return View(rows)

    def __dataset__(self, session: Session) -> Dataset:
        return Dataset(session)

    @property
    def tql(self) -> str | None:
        """The query it came from, in canonical form; None if it is not a query."""
        return self._rows.tql

    @property
    def name(self) -> str | None:
        """The name it was saved under, if any."""
        return self._rows.name

    @overload
    def __getitem__(self, key: str) -> Any: ...  # a column, or the values of a computed one

    @overload
    def __getitem__(self, key: int | np.integer) -> Row: ...  # pyright: ignore[reportOverlappingOverload] - a NumPy integer has __array__, too

    @overload
    def __getitem__(self, key: RowNames | list[str] | tuple[str, ...]) -> View: ...

    def __getitem__(self, key: Any) -> Any:
        """Read by what the key is.

        An int gives a ``Row``; a name a ``Tensor``, a ``Group`` of them, or the values of a column
        that a query computed; several names, a slice, a list of ints, a mask, a Predicate or a
        View give a ``View``.
        """
        return _read(self, self._rows, key)

    def __repr__(self) -> str:
        return view_repr(self._rows)

    def _repr_html_(self) -> str:
        from tensorlake.dataset.display.html import view_html

        return view_html(self._rows)

    def __reduce__(self) -> tuple[Callable[..., View], tuple[RowSet]]:
        return View, (self._rows,)

    item = view_values.item
    save = view_values.save
    rerun = view_values.rerun
    materialize = view_values.materialize


@shows_methods
class Dataset(Rows):
    """A dataset at one branch or version; made by ``tl.create`` and ``tl.open``.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-dataset", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.commit("three").version
        'main@1'
        >>> ds["x"][ds["x"] > 1]
        array([2, 3])
    """

    ingest_report: IngestReport | None = None
    """The report of the ingestion that returned this handle."""

    def __init__(self, session: Session) -> None:
        self.__session__ = session
        session.functions, session.narrowed = _functions_of, _narrowed
        session.expressions, session.misfits = evolving.expressions_of, evolving.misfits
        session.constraints = evolving.refuse_violations

    @property
    def __rowset__(self) -> RowSet:
        return everything(self.__session__)

    def __view__(self, rows: RowSet) -> View:
        return View(rows)

    def __dataset__(self, session: Session) -> Dataset:
        return self if session is self.__session__ else Dataset(session)

    @overload
    def __getitem__(self, key: str) -> Tensor: ...  # a Group, if several names have this prefix

    @overload
    def __getitem__(self, key: int | np.integer) -> Row: ...  # pyright: ignore[reportOverlappingOverload] - a NumPy integer has __array__, too

    @overload
    def __getitem__(self, key: RowNames | list[str] | tuple[str, ...]) -> View: ...

    def __getitem__(self, key: Any) -> Any:
        """Read the current version: a column follows the handle, rows and views stay at theirs."""
        if not isinstance(key, str):
            return _read(self, self.__rowset__, key)
        known = self.__session__.snapshot().schema.by_name
        return Tensor(self, key) if key in known else column_of(self, key)

    def __len__(self) -> int:
        return (self.__session__.transaction or self.__session__.committed).num_rows

    def __repr__(self) -> str:
        return dataset_repr(self.__session__)

    def _repr_html_(self) -> str:
        from tensorlake.dataset.display.html import dataset_html

        return dataset_html(self.__session__)

    summary = writing.summary

    @property
    def map_report(self) -> MapReport | None:
        """The report of the last ``map`` that returned this handle; None without any.

        The commit of the outputs gives it their version. It is None once they were discarded.
        """
        return self.__session__.map_report

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks that this version references."""
        snapshot = self.__session__.committed
        tables = (snapshot.extents(spec.id) for spec in snapshot.schema.tensors)
        return sum(int(stored_chunks(extents).nbytes.sum()) for extents in tables)

    # Staging rows

    append, extend = writing.append, writing.extend
    delete, upsert = writing.delete, writing.upsert
    map, execute, refresh_copy = writing.map, writing.execute, view_values.refresh_copy

    # The schema

    add_tensor = evolving.add_tensor
    drop_tensor = evolving.drop_tensor
    rename_tensor = evolving.rename_tensor
    alter_tensor = evolving.alter_tensor
    refresh_columns, stale = evolving.refresh_columns, evolving.stale
    add_check, drop_check, validate = evolving.add_check, evolving.drop_check, evolving.validate
    checks = property(evolving.checks_of)
    create_index, drop_index = evolving.create_index, evolving.drop_index

    @property
    def indexes(self) -> Mapping[str, IndexInfo]:
        """The indexes, by name: kind, column, coverage, bytes and, where approximate, recall."""
        return indexing.indexes(self.__session__)

    # Publishing

    @property
    def has_changes(self) -> bool:
        """Whether anything is staged."""
        return self.__session__.transaction is not None

    commit = writing.commit
    discard = writing.discard
    transaction = writing.transaction
    refresh = writing.refresh

    # Versions

    at = versioned.at
    branch = versioned.branch
    log = versioned.log
    graph = versioned.graph
    follow = versioned.follow
    tag, delete_tag = versioned.tag, versioned.delete_tag
    merge, pull = versioned.merge, versioned.pull
    restore, revert = versioned.restore, versioned.revert
    delete_branch = versioned.delete_branch

    # Runs

    run = batches.run
    runs = property(batches.runs)

    def diff(self, a: str | dt.datetime | None = None, b: str | dt.datetime | None = None) -> Diff:
        """Compare versions by row identity.

        Without arguments, compare the staged changes with their base; with one, that version with
        this handle's; with two, the first with the second.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-diff", {"x": "int64"})
            >>> ds.extend({"x": [1, 2]})
            >>> _ = ds.commit("two rows")
            >>> ds["x"][0] = 5
            >>> changed = ds.diff().updated["x"]
            >>> changed.before[:].tolist(), changed.after[:].tolist()
            ([1], [5])
            >>> ds.discard()
        """
        return _diff_of(versioning.diff(self.__session__, a, b))

    @property
    def branches(self) -> list[str]:
        """Names of the branches; a damaged one is included, with a warning."""
        return versioning.branches(self.__session__)

    @property
    def tags(self) -> Mapping[str, Tag]:
        """The tags, by name."""
        return versioning.tags(self.__session__)

    @property
    def views(self) -> SavedViews:
        """The saved views, by name: ``ds.views["sharp"]`` opens one."""
        return SavedViews(self.__session__)

    # Upkeep

    optimize = maintained.optimize
    expire = maintained.expire
    gc = maintained.gc
    check = maintained.check
    absorb, bases = maintained.absorb, property(maintained.bases)
    repair = maintained.repair
    trace, forget = maintained.trace, maintained.forget

    # The handle

    def close(self) -> None:
        """Close the handle; staged changes are lost, with a warning.

        It accepts no changes from then on, and remains readable at its version, as do Rows, Views,
        loaders and iterators that outlive a ``with``.

        >>> import tensorlake as tl
        >>> with tl.create("memory://doc-close", {"x": "int64"}) as ds:
        ...     ds.extend({"x": [1, 2]})
        ...     commit = ds.commit("two")
        ...     view = ds[:1]
        >>> view["x"][:]
        array([1])
        """
        self.__session__.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Dataset], tuple[Place]]:
        return _reopen, (self.__session__.place(self.__session__.snapshot()),)


@dataclass(frozen=True, slots=True)
class Updated:
    """The rows in which the value of one tensor differs.

    Attributes:
        before: The tensor for those rows in the older version.
        after: The same rows, in the same order, in the newer one.
        view_before: Those rows of the older version, with all tensors.
        view_after: The same of the newer version.
    """

    before: Tensor
    after: Tensor
    view_before: View
    view_after: View

    @property
    def rows_before(self) -> npt.NDArray[np.int64]:
        """Their row numbers in the older version."""
        return self.view_before.rows

    @property
    def rows_after(self) -> npt.NDArray[np.int64]:
        """Their row numbers in the newer version, in the same order."""
        return self.view_after.rows

    def __len__(self) -> int:
        return len(self.after)

    @property
    def __rowsets__(self) -> UpdatedRows:
        before, after = self.view_before.__rowset__, self.view_after.__rowset__
        return UpdatedRows(self.before.name, self.after.name, before, after)

    def __repr__(self) -> str:
        return f"Updated({plural(len(self), 'row')} of {self.after.name!r})"


@dataclass(frozen=True, slots=True)
class Diff:
    """Differences between two versions, by row identity.

    Attributes:
        added: A View of rows only the newer version has.
        removed: A View of rows only the older version has.
        updated: Tensors with changed cells, by name.
        schema: Changes of the schema, one line each.
    """

    added: View
    removed: View
    updated: Mapping[str, Updated]
    schema: tuple[str, ...]
    before: str
    after: str

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed) or self.updated or self.schema)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the lines of ``repr``."""
        return iter(repr(self).splitlines())

    def __repr__(self) -> str:
        lines = [f"{self.before} → {self.after}"]
        lines += [f" {change}" for change in self.schema]
        if len(self.added):
            lines.append(f" {plural(len(self.added), 'row')} added")
        if len(self.removed):
            lines.append(f" {plural(len(self.removed), 'row')} removed")
        width = max(map(len, self.updated), default=0)
        for name, updated in self.updated.items():
            count = plural(len(updated), "row")
            shown = transitions(updated.__rowsets__)
            lines.append(f" {name:<{width}}  {count} updated{shown}")
        if not self:
            lines.append(" no difference")
        return "\n".join(lines)


class UpdatedTensors(dict[str, Updated]):
    """Updates by tensor; the error for a missing tensor lists the updated ones."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__()
        self._between = f"from {before} to {after}"

    def __missing__(self, name: str) -> Updated:
        raise TensorNotFoundError(
            f"no row of {name!r} was updated {self._between}"
            f"\nupdated: {', '.join(self) or 'nothing'}; new rows are diff.added",
            tensor=name,
        )


class SavedViews(Mapping[str, View]):
    """The saved views of a dataset, by name; each is opened on access.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-views", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> _ = ds.query("WHERE x > 1").save("large")
        >>> ds.views["large"]["x"][:]
        array([2, 3])
        >>> ds.views
        1 view of 'memory://doc-views'
          large  2 rows  main@1  WHERE x > 1
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, name: str) -> View:
        from tensorlake.dataset.query.saved_views import open_saved

        return View(open_saved(self._session, name))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(versioning.views(self._session)))

    def __len__(self) -> int:
        return len(versioning.views(self._session))

    def __repr__(self) -> str:
        return views_text(self._session)


def _narrowed(*asked: Any, reaches_out: bool) -> RowSet:
    from tensorlake.dataset.runs import functions

    return functions.narrowed(*asked, reaches_out=reaches_out)


def _functions_of(rows: RowSet, *, reaches_out: bool) -> dict[str, tql.Function]:
    from tensorlake.dataset.runs import functions

    return functions.functions_of(rows, reaches_out=reaches_out)


def _reopen(place: Place) -> Dataset:
    return Dataset(reconnect(place))


def _read(handle: Rows, rows: RowSet, key: Any) -> Any:
    """Read by what the key is."""
    if isinstance(key, str):
        computed = rows.computed.get(key)
        if rows.is_expression(key):
            return Tensor(handle, key)
        return column_of(handle, key) if computed is None else computed.present()
    if isinstance(key, bool | np.bool_):
        raise InvalidInputError(
            f"a dataset cannot be indexed by {key!r}\n"
            'a condition is written ds["label"] == "cat"; a mask has one bool a row'
        )
    if isinstance(key, int | np.integer):
        return row_at(rows, row_position(int(key), len(rows), what=repr(rows.url)))
    if isinstance(key, Sequence) and key and all(isinstance(name, str) for name in key):
        return View(rows.with_columns([str(name) for name in key]))
    if isinstance(key, Predicate):
        from tensorlake.dataset.query.run import run_where

        return View(run_where(rows, key, {}))
    is_all = isinstance(key, slice) and key == slice(None)  # those of another version, too
    return View(rows if is_all else rows.take(assignment.positions_named(rows, key)))


def _diff_of(found: Difference) -> Diff:
    """Wrap the differences between two versions."""
    updated = UpdatedTensors(found.before, found.after)
    for name, rows in found.updated.items():
        before, after = View(rows.before), View(rows.after)
        tensors = Tensor(before, rows.name_before), Tensor(after, rows.name_after)
        updated[name] = Updated(*tensors, before, after)
    return Diff(
        added=View(found.added),
        removed=View(found.removed),
        updated=updated,
        schema=found.schema,
        before=found.before,
        after=found.after,
    )
