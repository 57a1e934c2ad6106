"""Tables of FROM beside ``this``: other datasets and versions, and tables passed as parameters.

FROM "s3://bucket/pets"            another dataset, by URL or path
FROM pets                          a dataset beside this one
FROM this VERSION 'main@12'        this one at another version; also TAG 'v1', AS OF '2026-01-01'
FROM $table                        a Dataset, a View, a DataFrame, or anything of Arrow
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.connect import connect
from tensorlake.dataset.core.rowset import RowSet, everything, has_rows, rowset_of
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.query.source import SelectionSource
from tensorlake.errors import DatasetNotFoundError, InvalidInputError, VersionNotFoundError, shown

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session

__all__ = ["DatasetTables", "TableSource", "source_of", "table_params"]

Int64Array = npt.NDArray[np.int64]


def source_of(view: RowSet) -> SelectionSource:
    """A view as the engine reads it, computed columns among the others."""
    selection = view.selection
    reader = view.session.reader(selection.snapshot)
    return SelectionSource(selection, reader, view.computed, view=view)


class DatasetTables:
    """Opens what a query over a view names (``tensorlake_query.Tables``)."""

    def __init__(self, view: RowSet, *, reaches_out: bool) -> None:
        self._view = view
        self._reaches_out = reaches_out
        self._opened: dict[tuple[str, tuple[str, str] | None], SelectionSource] = {}

    @property
    def has_opened(self) -> bool:
        """Whether a table was opened."""
        return bool(self._opened)

    def table(self, name: str, version: tuple[str, str] | None) -> tql.ColumnSource:
        """Open a dataset by name, once for each name and version."""
        key = name, version
        if key not in self._opened:
            self._opened[key] = self._open(name, version)
        return self._opened[key]

    def _open(self, name: str, version: tuple[str, str] | None) -> SelectionSource:
        if name == "this":
            session = self._view.session
        elif not self._reaches_out:
            raise LookupError(f"no table {name!r}: here FROM reads only 'this'")
        else:
            session = _beside(name, self._view.url)
            versioning.adopt(session, self._view.session)
        if version is not None:
            session = _at(session, *version)
        return source_of(everything(session))


def _beside(name: str, url: str) -> Session:
    """Open what FROM names; of a bare name that is nothing, say that FROM is not needed."""
    place = _url_of(name, url)
    try:
        return connect(place)
    except DatasetNotFoundError as error:
        if place == name:
            raise
        near = f"; did you mean {error.near[0]!r}?" if error.facts.get("near") else ""
        raise DatasetNotFoundError(
            f"no tensorlake dataset at {place!r}{near}"
            "\nFROM is not needed to query the dataset itself: leave it out, or write FROM this",
            **error.facts,
        ) from error


def _at(session: Session, kind: str, value: str) -> Session:
    if kind == "TAG" and value not in (tags := versioning.tags(session)):
        known = ", ".join(sorted(tags)) or "none"
        raise VersionNotFoundError(
            f"{session.store.url!r} has no tag {shown(value)}\nits tags: {known}", version=value
        )
    if kind != "AS OF":
        return versioning.at(session, value)
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError as error:
        raise LookupError(
            f"AS OF {shown(value)} is not a time\nwrite AS OF"
            " '2026-01-01' or '2026-01-01T12:00+00:00'"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return versioning.at(session, moment)


def _url_of(name: str, beside: str) -> str:
    """A URL or path as it is; a bare name is a dataset in the same place as this one."""
    if "://" in name or "/" in name:
        return name
    parent, slash, _ = beside.rstrip("/").rpartition("/")
    return f"{parent}{slash}{name}"


def table_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with datasets, views, DataFrames and Arrow tables as the engine reads them."""
    made: dict[str, Any] = {}
    for name, value in params.items():
        if has_rows(value):
            made[name] = source_of(rowset_of(value))
        elif hasattr(value, "__arrow_c_stream__"):
            made[name] = _of_arrow(value)
        else:
            made[name] = value
    return made


class TableSource:
    """Columns held in memory, as the engine reads them."""

    def __init__(self, columns: Mapping[str, tuple[tql.ColumnType, tql.Batch]], rows: int) -> None:
        self._columns = columns
        self._rows = rows

    @property
    def schema(self) -> Mapping[str, tql.ColumnType]:
        """Type of each column."""
        return {name: kind for name, (kind, _) in self._columns.items()}

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._rows

    def read(self, column: str, rows: Int64Array) -> tql.Batch:
        """Take rows of a column."""
        match self._columns[column][1]:
            case tql.ObjectBatch(values=values):
                return tql.ObjectBatch([values[row] for row in rows.tolist()])
            case tql.UniformBatch(values=values, valid=valid):
                return tql.UniformBatch(values[rows], None if valid is None else valid[rows])
            case tql.RaggedBatch() as batch:
                return Computed(self._columns[column][0], batch).take(rows).batch

    def shapes(self, column: str, rows: Int64Array) -> Int64Array:
        """Shapes of samples."""
        match self._columns[column][1]:
            case tql.RaggedBatch(shapes=shapes):
                return shapes[rows]
            case tql.UniformBatch(values=values):
                shape = np.asarray(values.shape[1:], np.int64)
                return np.broadcast_to(shape, (len(rows), len(shape)))
            case tql.ObjectBatch():
                return np.zeros((len(rows), 0), np.int64)

    def statistics(self, column: str) -> tql.ColumnStatistics | None:
        """Nothing is known of them."""
        del column


def _of_arrow(value: Any) -> TableSource:
    """Read anything that hands out an Arrow stream."""
    import pyarrow as pa

    table: Any = pa.table(value)
    names: list[str] = list(table.column_names)
    columns = {name: _arrow_column(name, table.column(name)) for name in names}
    return TableSource(columns, int(table.num_rows))


def _arrow_column(name: str, column: Any) -> tuple[tql.ColumnType, tql.Batch]:
    import pyarrow as pa

    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    valid = None
    if column.null_count:
        valid = np.asarray(column.is_valid().to_numpy(), np.bool_)
    nullable = valid is not None
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        filled = column.fill_null(False if pa.types.is_boolean(kind) else 0) if nullable else column
        values = np.asarray(filled.to_numpy())
        what = "bool" if values.dtype.kind == "b" else "number"
        made = tql.ColumnType(what, values.dtype.name, (), nullable=nullable)
        return made, tql.UniformBatch(values, valid)
    if pa.types.is_timestamp(kind):
        counts = column.cast(pa.int64())
        values = np.asarray((counts.fill_null(0) if nullable else counts).to_numpy())
        moment = tql.ColumnType(
            "number", "int64", (), nullable=nullable, timestamp_unit=kind.unit, timezone=kind.tz
        )
        return moment, tql.UniformBatch(values, valid)
    items: list[Any] = column.to_pylist()
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or getattr(pa.types, "is_string_view", _never)(kind):
        return tql.ColumnType("text", None, (), nullable=nullable), tql.ObjectBatch(items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(name, items, kind, nullable=nullable)
    if pa.types.is_struct(kind) or pa.types.is_null(kind):
        return tql.ColumnType("json", None, (), nullable=True), tql.ObjectBatch(items)
    raise InvalidInputError(
        f"the column {name!r} of a table is {kind}, which a query does not know\n"
        "leave it out, or cast it to numbers, text or lists of numbers"
    )


def _never(_kind: Any) -> bool:
    return False


def _lists(
    name: str, items: list[Any], kind: Any, *, nullable: bool
) -> tuple[tql.ColumnType, tql.Batch]:
    import pyarrow as pa

    element: Any = kind.value_type
    if not (pa.types.is_integer(element) or pa.types.is_floating(element)):
        return tql.ColumnType("json", None, (), nullable=True), tql.ObjectBatch(items)
    dtype = np.dtype(element.to_pandas_dtype())
    if any(value is None for item in items if item is not None for value in item):
        raise InvalidInputError(
            f"the column {name!r} of a table has NULL inside its lists\nfill them first"
        )
    arrays = [np.asarray([] if item is None else item, dtype) for item in items]
    valid = np.array([item is not None for item in items], np.bool_) if nullable else None
    shapes = np.array([len(array) for array in arrays], np.int64).reshape(-1, 1)
    flat = np.concatenate(arrays) if arrays else np.zeros(0, dtype)
    made = tql.ColumnType("number", dtype.name, (None,), nullable=nullable)
    if pa.types.is_fixed_size_list(kind) and not nullable:
        width = int(kind.list_size)
        fixed = tql.ColumnType("number", dtype.name, (width,))
        return fixed, tql.UniformBatch(flat.reshape(-1, width))
    return made, tql.RaggedBatch(flat, shapes, valid)
