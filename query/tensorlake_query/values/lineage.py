"""Which rows of which source a derived source's rows are.

A query in FROM, a join or a set operation is itself a `ColumnSource`; where each of its rows is a
row of one plain source underneath, it is recorded here, and a result can stay rows of that source.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from tensorlake_query.values.source import (
    ColumnSource,
    IdentifiedSource,
    IntArray,
    ObjectBatch,
    TracedSource,
    UniformBatch,
    offers,
)
from tensorlake_query.values.types import TEXT
from tensorlake_query.values.vectors import RowError, Vector, constant, from_batch, object_array


class Lineage(Struct, frozen=True):
    """A plain source, and how rows and columns of a derived one are found in it."""

    source: ColumnSource
    rows: Callable[[IntArray], IntArray]
    column: Callable[[str], str | None]


@runtime_checkable
class DerivedSource(ColumnSource, Protocol):
    """A source that the engine made of others."""

    def lineage(self) -> Lineage | None:
        """Return where the rows come from; None where they are rows of nothing."""
        ...


def lineage_of(source: ColumnSource) -> Lineage | None:
    """Return where a source's rows come from; a plain one is its own."""
    if offers(source, DerivedSource):
        return source.lineage()
    return Lineage(source, _same_rows, _same_column)


def row_column(source: ColumnSource, name: str, rows: IntArray) -> Vector:
    """Return what each row of a source has beside its columns.

    Args:
        source: The source, or one that the engine made.
        name: `_row`, its position in storage, or in the source itself if it stores nothing;
            `_row_id`, its identity; `_source`, the item that it was made from, NULL where none is
            known.
        rows: The rows.

    Raises:
        RowError: they are rows of nothing, such as groups, or the source gives them none.
    """
    lineage = lineage_of(source)
    if lineage is None:
        came = "came from no item" if name == "_source" else "are rows of no version"
        raise RowError(f"rows that a query made {came}; a.{name} is of a table a of a join", 0)
    stored, beneath = lineage.source, lineage.rows(rows)
    if name == "_row":
        is_numbered = isinstance(stored, IdentifiedSource)
        return UniformBatch(stored.row_numbers(beneath) if is_numbered else beneath)
    if name == "_row_id":
        if not isinstance(stored, IdentifiedSource):
            raise RowError("rows of this source have no identity", 0)
        return UniformBatch(object_array(stored.row_ids(beneath)))
    if not isinstance(stored, TracedSource):
        return constant(None, TEXT, len(rows))
    return from_batch(ObjectBatch([*stored.row_sources(beneath)]), TEXT)


def _same_rows(rows: IntArray) -> IntArray:
    return rows


def _same_column(name: str) -> str | None:
    return name
