"""A dataset as pyarrow's: scans that name columns and conditions read only those.

``LakeDataset`` is a ``pyarrow.dataset.Dataset``, which DuckDB, polars and pyarrow's scanner know. A
scan's condition is translated to TQL where TQL means the same (`arrow_conditions.py`) and chooses
the rows; Arrow then applies the condition itself to what was read, so a condition that is
translated in part, or not at all, is still answered exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.export.arrow.conditions import translate
from tensorlake.dataset.export.arrow.stream import (
    BATCH_ROWS_MAX,
    arrow_schema,
    check_columns,
    record_batches,
)
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.query.run import run_where
from tensorlake.errors import missing_extra

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["arrow_dataset", "to_duckdb"]

Arrow = Any  # pyarrow ships no types


def arrow_dataset(rows: RowSet) -> Arrow:
    """Show rows, as they are now, as a ``pyarrow.dataset.Dataset``."""
    return _lake_dataset()(rows)


def to_duckdb(rows: RowSet, connection: Any) -> Any:
    """Show rows as a relation of DuckDB."""
    try:
        import duckdb
    except ImportError as error:
        raise missing_extra("to_duckdb()", "duckdb") from error
    scanned = arrow_dataset(rows)
    return duckdb.from_arrow(scanned) if connection is None else connection.from_arrow(scanned)


@cache
def _lake_dataset() -> type[Any]:
    """Make the class when pyarrow is there: its base is one of pyarrow's."""
    import pyarrow as pa
    from pyarrow import dataset as pads

    class LakeDataset(pads.Dataset):  # pyright: ignore[reportUntypedBaseClass] - pyarrow ships no types
        """Rows of one version, for readers of ``pyarrow.dataset``."""

        def __init__(self, view: RowSet) -> None:
            self._view = view

        @property
        def schema(self) -> Arrow:
            """The columns."""
            return arrow_schema(self._view, check_columns(self._view, None))

        def scanner(
            self,
            columns: Any = None,
            filter: Any = None,  # noqa: A002 - pyarrow's name
            batch_size: int = BATCH_ROWS_MAX,
            **options: Any,
        ) -> Arrow:
            """Read the requested columns, and of the condition what TQL can answer."""
            del options  # how files are read ahead: there are none
            wanted = _columns_read(columns, filter, self.schema)
            view = self._narrowed(filter)
            known = [name for name in check_columns(self._view, None) if name in wanted]
            if not known:  # rows are only counted: a column that costs no reading says how many
                known = ["_row"] if view.has_rows else [*view.computed][:1]
            reader = pa.RecordBatchReader.from_batches(
                arrow_schema(view, known),
                record_batches(view, known, batch_rows=min(batch_size or 1, BATCH_ROWS_MAX)),
            )
            return pads.Scanner.from_batches(reader, columns=columns, filter=filter)

        def pushed(self, filter: Any) -> str | None:  # noqa: A002 - pyarrow's name
            """Return the TQL that answers a condition before Arrow does; None: nothing does."""
            expr = translate(filter, self._view.schema, self.schema)
            return None if expr is None else Predicate(expr).tql

        def _narrowed(self, condition: Any) -> RowSet:
            if condition is None or not self._view.has_rows:
                return self._view
            expr = translate(condition, self._view.schema, self.schema)
            return self._view if expr is None else run_where(self._view, Predicate(expr), {})

        # What pyarrow's own methods of these names need is a dataset of files

        def to_batches(self, **options: Any) -> Iterator[Arrow]:
            """Scan, batch by batch."""
            return self.scanner(**options).to_batches()

        def to_table(self, **options: Any) -> Arrow:
            """Scan into a table."""
            return self.scanner(**options).to_table()

        def head(self, num_rows: int, **options: Any) -> Arrow:
            """Return the first ``num_rows`` rows."""
            return self.scanner(**options).head(num_rows)

        def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002 - pyarrow's name
            """Count the rows; without a condition nothing is read."""
            if filter is None:
                return len(self._view)
            return self.scanner(columns=[], filter=filter, **options).count_rows()

        def __reduce__(self) -> tuple[Any, ...]:
            return arrow_dataset, (self._view,)

    return LakeDataset


def _columns_read(columns: Any, condition: Any, schema: Arrow) -> set[str]:
    """Names of the columns that a scan reads: those it gives, and those of its condition."""
    if columns is None:
        return set(schema.names)
    asked = columns.values() if isinstance(columns, dict) else columns
    wanted: set[str] = set()
    for one in (*asked, *([] if condition is None else [condition])):
        if isinstance(one, str):
            wanted.add(one)
        else:  # an expression: which fields it names is known by its text alone
            wanted |= {name for name in schema.names if name in str(one)}
    return wanted
