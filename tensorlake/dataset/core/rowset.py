"""RowSet: rows × columns of one version, the value that everything below the façade takes.

A frozen value: a session, selected rows and columns of one snapshot, columns computed by a query,
and the steps that led to them. A ``Dataset`` or ``View`` is a handle around it. Code below the
handles reads their rows through two attributes, similar to NumPy's ``__array__``.

    __rowset__    its current rows and columns; of a RowSet itself
    __session__   the session that stages its changes; only a Dataset has one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.computed import Computed, take_all
from tensorlake.dataset.core.connect import reconnect
from tensorlake.dataset.core.indexing import row_position, unknown_column
from tensorlake.dataset.core.query_limits import checked_pieces
from tensorlake.dataset.core.row_identity import row_id_texts, source_texts
from tensorlake.dataset.core.session import Place, Session
from tensorlake.dataset.core.steps import ColumnsStep, QueryStep, Steps
from tensorlake.dataset.core.stored_columns import StoredColumn
from tensorlake.dataset.core.structs import expand_names
from tensorlake.errors import SchemaError
from tensorlake.reading import (
    Reader,
    Selection,
    exported_type,
    read_exported,
    read_links,
    row_spans,
)
from tensorlake.storage import MemoryStore
from tensorlake.types import EncodedColumn, Link, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from tensorlake.types import Column, PartSource, SampleHandle, SampleType

__all__ = [
    "BATCH_ROWS",
    "ITERATED_AT_ONCE",
    "HasDatasets",
    "HasRows",
    "HasSession",
    "HasViews",
    "RowSet",
    "committed_rows",
    "everything",
    "has_rows",
    "rowset_of",
    "session_of",
    "writer_of",
]

Int64Array = npt.NDArray[np.int64]
ViewT_co = TypeVar("ViewT_co", covariant=True)
DatasetT_co = TypeVar("DatasetT_co", covariant=True)

BATCH_ROWS = 1024
"""Rows read together when a whole dataset is copied."""

BATCH_NBYTES = 64 << 20
"""Bytes of media read together when a whole dataset is copied."""

ITERATED_AT_ONCE = 256
"""Rows read together while iterating: bounded memory, and whole chunks in one read."""


class HasRows(Protocol):
    """An object with rows: a Dataset, a View, a RowSet."""

    @property
    def __rowset__(self) -> RowSet: ...


class HasViews(HasRows, Protocol[ViewT_co]):
    """An object with rows that wraps others as views of its own kind."""

    def __view__(self, rows: RowSet) -> ViewT_co:
        """Wrap rows."""
        ...


class HasSession(Protocol):
    """An object that accepts changes: a Dataset."""

    @property
    def __session__(self) -> Session: ...


class HasDatasets(HasSession, Protocol[DatasetT_co]):
    """An object that accepts changes, and makes handles of its own kind."""

    def __dataset__(self, session: Session) -> DatasetT_co:
        """Make a handle on a session, or return this one if the session is its own."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RowSet:
    """Rows and columns of one version.

    Attributes:
        session: The session of the version.
        selection: The rows, and the stored columns.
        computed: Columns that a query computed, by name.
        steps: Steps that led to it, for replay; None if rows were chosen by hand.
        tql: The query it came from, in canonical form; None if it is not a query.
        name: The name it was saved under, if any.
        explanation: Prints the query plan.
        has_rows: Whether it consists of rows of the dataset; False for an aggregate.
        order: Names of columns in the order in which a query has them; others follow.
    """

    session: Session
    selection: Selection
    computed: Mapping[str, Computed] = field(default_factory=dict[str, Computed])
    steps: Steps | None = None
    tql: str | None = None
    name: str | None = None
    explanation: object = None
    has_rows: bool = True
    order: tuple[str, ...] = ()

    @property
    def __rowset__(self) -> RowSet:
        return self

    def __len__(self) -> int:
        if not self.has_rows:
            return len(next(iter(self.computed.values()), ()))
        return self.selection.num_rows

    @property
    def url(self) -> str:
        """URL of the dataset."""
        return self.session.store.url

    @property
    def version(self) -> str:
        """The version read; with staged changes, their base version."""
        return self.selection.snapshot.version

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns: as written in a query; else stored ones, then computed ones."""
        names = (*self.selection.columns, *self.computed)
        if not self.order or not self.computed:
            return names
        places = {name: place for place, name in enumerate(self.order)}
        return tuple(sorted(names, key=lambda name: places.get(name, len(places))))

    @property
    def schema(self) -> dict[str, SampleType]:
        """The types of the stored columns, by name."""
        snapshot = self.selection.snapshot
        return {name: snapshot.spec(name).type for name in self.selection.columns}

    @property
    def rows(self) -> Int64Array:
        """Positions of the rows in their version, int64."""
        chosen = self.selection.rows
        return self.selection.all_positions() if chosen is None else chosen.copy()

    @property
    def row_ids(self) -> list[str]:
        """Identities of the rows: stable under every change but deletion."""
        return row_id_texts(self.selection)

    @property
    def sources(self) -> list[str | None]:
        """The items that the rows were ingested from; None where none is known."""
        return source_texts(self.selection, self.reader())

    @property
    def held_nbytes(self) -> int:
        """Approximate bytes of memory that it references."""
        rows = self.selection.rows
        own = sum(one.nbytes for one in self.computed.values())
        shared = max((one.held for one in self.computed.values()), default=0)
        return own + shared + (0 if rows is None else rows.nbytes)

    def position(self, row: int, what: Callable[[], str]) -> int:
        """Return the position of a row, negative ones counting from the end.

        Raises:
            RowNotFoundError: There is no such row; ``what`` names these rows in the message.
        """
        count = len(self)
        return row if 0 <= row < count else row_position(row, count, what=what())

    def reader(self) -> Reader:
        """Make a reader of the snapshot."""
        return self.session.reader(self.selection.snapshot)

    def read(
        self, name: str, positions: Int64Array | None = None, *, decode: bool = True
    ) -> Column:
        """Read a column of the schema of some rows; None: all rows.

        One that an expression computes is evaluated for them.

        Raises:
            TensorNotFoundError: The view has no column that an expression computes by this name.
        """
        if positions is None:
            positions = self.selection.all_positions()
        spec = self.selection.snapshot.spec(name)
        if spec.compute is not None and spec.is_virtual:
            if name not in self.computed:
                raise unknown_column(name, self.columns)
            return self.computed[name].take(positions).column(spec.type, tensor=name)
        return self.reader().read(name, self.selection.physical(positions), decode=decode)

    def is_expression(self, name: str) -> bool:
        """Whether a column is the one that the schema declares by an expression."""
        spec, column = self.selection.snapshot.schema.by_name.get(name), self.computed.get(name)
        if spec is None or spec.compute is None or column is None:
            return False
        return spec.is_virtual and column.expression == spec.compute.tql

    def read_next(self, name: str, positions: Int64Array) -> Column:
        """Read a column of the schema, a few rows that a program asks for one read after another.

        On a remote store, reads at equal distances are read ahead.
        """
        store = self.session.store
        spec = self.selection.snapshot.spec(name)
        is_near = isinstance(store, MemoryStore) or store.is_local
        if is_near or (spec.compute is not None and spec.is_virtual):
            return self.read(name, positions)
        column = self.session.ahead.read(self.reader(), self.selection, name, positions)
        if not spec.type.is_media:
            return column
        return spec.type.decode(column, tensor=name, rows=self.selection.row_numbers(positions))

    def samples(self, name: str, positions: Int64Array) -> list[PartSource | None]:
        """Find samples of a type with parts, from headers alone; None for NULL.

        Raises:
            SchemaError: An expression computes them, so none is stored.
        """
        if self.selection.snapshot.spec(name).is_virtual:
            raise SchemaError(
                f"{name!r} is computed by an expression, and has no stored samples to read parts of"
                "\nread the column that it is computed from",
                tensor=name,
            )
        return self.reader().samples(name, self.selection.physical(positions))

    def handles(self, name: str, positions: Int64Array) -> list[SampleHandle | None]:
        """Return a handle of each sample of a lazy type; None for NULL."""
        kind = self.selection.snapshot.spec(name).type
        found = self.samples(name, positions)
        return [None if one is None else kind.handle_class(kind.handle_type, one) for one in found]

    def shapes(self, name: str, positions: Int64Array | None = None) -> Int64Array:
        """Read the shapes of samples, int64 (n, ndim), −1 where NULL; lists have their lengths."""
        if positions is None:
            positions = self.selection.all_positions()
        spec = self.selection.snapshot.spec(name)
        count = spec.type.item_counter
        if count is None and spec.is_virtual and spec.type.dtype is not None:
            return _shapes_of(self.read(name, positions))
        if count is None:
            return self.reader().shapes(name, self.selection.physical(positions))
        lengths = np.full((len(positions), 1), -1, dtype=np.int64)
        for start in range(0, len(positions), ITERATED_AT_ONCE):
            column = self.read(name, positions[start : start + ITERATED_AT_ONCE], decode=False)
            assert isinstance(column, EncodedColumn), "lists are stored joined"
            for at, sample in enumerate(column.samples):
                if column.valid is None or column.valid[at]:
                    lengths[start + at] = count(sample)
        return lengths

    def take(self, positions: Int64Array) -> RowSet:
        """Select rows by position; not a step that can be replayed."""
        return self._taken(positions, None)

    def _taken(self, positions: Int64Array, steps: Steps | None) -> RowSet:
        if not self.has_rows:
            return RowSet(
                self.session,
                self.selection,
                computed=take_all(self.computed, positions),
                tql=self.tql,
                has_rows=False,
                order=self.order,
            )
        return RowSet(
            self.session,
            self.selection.with_rows(positions),
            computed=take_all(self.computed, positions),
            steps=steps,
            tql=self.tql,
            order=self.order,
        )

    def take_step(self, positions: Int64Array, tql: str) -> RowSet:
        """Select rows by position, recorded as a query that finds the same rows."""
        steps = None if self.steps is None else (*self.steps, QueryStep(tql, {}))
        return self._taken(positions, steps)

    def with_columns(self, names: Sequence[str]) -> RowSet:
        """Select some of the columns.

        Raises:
            TensorNotFoundError: One of them does not exist.
        """
        known = self.columns
        names = expand_names(names, known)
        for name in names:
            if name not in known:
                raise unknown_column(name, known)
        return RowSet(
            self.session,
            self.selection.with_columns(tuple(n for n in names if n not in self.computed)),
            computed={n: self.computed[n] for n in names if n in self.computed},
            tql=self.tql,
            has_rows=self.has_rows,
            steps=None if self.steps is None else (*self.steps, ColumnsStep(tuple(names))),
            order=tuple(names),
        )

    @property
    def exported_schema(self) -> dict[str, SampleType]:
        """The types of the stored columns in exports: of links, those of the files."""
        return {name: exported_type(kind) for name, kind in self.schema.items()}

    def exported_type(self, name: str) -> SampleType:
        """Return the type of a column of the schema in exports."""
        return exported_type(self.selection.snapshot.spec(name).type)

    def read_exported(self, name: str, positions: Int64Array) -> Column:
        """Read a column of the schema for an export: samples as stored, links' files."""
        if self.is_expression(name):
            return self.read(name, positions)
        return read_exported(self.reader(), name, self.selection.physical(positions))

    def spans(
        self, columns: Sequence[str], *, rows_max: int, nbytes: int
    ) -> Iterator[tuple[int, int]]:
        """Cut the rows into pieces of about `nbytes` of the stored ones of some columns."""
        if not self.has_rows:
            starts = range(0, len(self), rows_max)
            return checked_pieces((start, min(start + rows_max, len(self))) for start in starts)
        known = self.selection.snapshot.schema
        stored = [name for name in map(self._stored, columns) if name in known]
        return checked_pieces(
            row_spans(self.reader(), self.selection, stored, rows_max=rows_max, nbytes=nbytes)
        )

    def stored_column(self, name: str, positions: Int64Array) -> StoredColumn:
        """Read a stored column of some rows, in a form that can be staged elsewhere."""
        reader, physical = self.reader(), self.selection.physical(positions)
        kind = self.selection.snapshot.spec(name).type
        if isinstance(kind, Link):
            return StoredColumn(kind, read_links(reader, name, physical))
        return StoredColumn(kind, reader.read(name, physical, decode=False))

    @property
    def copied_schema(self) -> dict[str, SampleType]:
        """The types that all columns, computed ones too, have in a dataset made of them.

        Raises:
            UnsupportedFeatureError: A computed column has no such type.
        """
        return {name: self._copied_type(name) for name in self.columns}

    def _copied_type(self, name: str) -> SampleType:
        stored = self._stored(name)
        if not stored:
            return self.computed[name].tensor_type(name)
        return self.selection.snapshot.spec(stored).type

    def copied_column(self, name: str, positions: Int64Array) -> StoredColumn | Computed:
        """Read a column of some rows, in a form that can be staged elsewhere."""
        stored = self._stored(name)
        return (
            self.stored_column(stored, positions) if stored else self.computed[name].take(positions)
        )

    def _stored(self, name: str) -> str:
        found = self.computed.get(name)
        return name if found is None else found.renamed

    def column_batches(
        self, targets: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, StoredColumn | Computed]]:
        """Read all rows in batches of columns, in the form that ``extend`` accepts.

        Args:
            targets: The columns, with the names that they get; None: all, with their own.
        """
        names = {name: name for name in self.columns} if targets is None else targets
        schema = self.selection.snapshot.schema
        media = [
            name for name in names if (own := self._stored(name)) and schema[own].type.is_media
        ]
        for start, stop in self.spans(media, rows_max=BATCH_ROWS, nbytes=BATCH_NBYTES):
            positions = np.arange(start, stop)
            yield {to: self.copied_column(name, positions) for name, to in names.items()}

    def __reduce__(self) -> tuple[Callable[..., RowSet], tuple[Any, ...]]:
        place = self.session.place(self.selection.snapshot)
        made: dict[str, Any] = {
            "computed": self.computed,
            "steps": self.steps,
            "tql": self.tql,
            "name": self.name,
            "explanation": self.explanation,
            "has_rows": self.has_rows,
            "order": self.order,
        }
        return reopen_rows, (place, self.selection.columns, self.selection.rows, made)


def _shapes_of(column: Column) -> Int64Array:
    if isinstance(column, RaggedColumn):
        shapes = column.shapes.astype(np.int64)
    else:
        assert isinstance(column, UniformColumn), "of an expression, which makes arrays"
        shapes = np.tile(np.array(column.values.shape[1:], np.int64), (len(column), 1))
    if column.valid is not None:
        shapes[~column.valid] = -1
    return shapes


def reopen_rows(
    place: Place, columns: tuple[str, ...], rows: Int64Array | None, made: dict[str, Any]
) -> RowSet:
    """Open pickled rows and columns."""
    session = reconnect(place)
    return RowSet(session, Selection(session.committed, columns, rows), **made)


def everything(session: Session) -> RowSet:
    """Return all current rows and tensors of a session, including staged changes."""
    snapshot = session.snapshot()
    schema = snapshot.schema
    rows = RowSet(session, Selection(snapshot, schema.stored), steps=())
    if len(schema.stored) == len(schema.tensors):
        return rows
    return replace(rows, computed=session.expressions(rows))


def committed_rows(rows: RowSet) -> RowSet:
    """Return rows of a version, where changes are staged that leave its rows as they are.

    A staged index is such a change: it is found by queries, and its rows are those committed.
    """
    snapshot, committed = rows.selection.snapshot, rows.session.committed
    if not snapshot.is_staged or snapshot.version != committed.version:
        return rows
    if replace(snapshot.state, groups=committed.state.groups) != committed.state:
        return rows
    return replace(rows, selection=replace(rows.selection, snapshot=committed))


def rowset_of(rows: HasRows) -> RowSet:
    """Return the current rows and columns of a Dataset or View, which do not change afterwards."""
    return rows.__rowset__


def has_rows(value: object) -> bool:
    """Whether a value shows rows of a dataset."""
    return hasattr(value, "__rowset__")


def session_of(dataset: HasSession) -> Session:
    """Return the session of a Dataset."""
    return dataset.__session__


def writer_of(rows: HasRows) -> Session | None:
    """Return the session that stages a handle's changes; None for read-only rows such as a View."""
    return getattr(rows, "__session__", None)
