"""Which rows of which source a derived source's rows are.

A query in FROM, a join or a set operation is itself a `ColumnSource`; where each of its rows is a
row of one plain source underneath, it is recorded here, and a result can stay rows of that source.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from tensorlake_query.values.source import ColumnSource, IntArray, offers


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


def _same_rows(rows: IntArray) -> IntArray:
    return rows


def _same_column(name: str) -> str | None:
    return name
