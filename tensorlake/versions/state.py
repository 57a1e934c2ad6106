"""What a version says: its schema, the index of each tensor, and the rows a user sees.

A ``State`` is the body of a commit, or of a transaction's working copy. It is a value: staging
makes a new one, nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tensorlake.format import (
    Entry,
    Extents,
    LeafTable,
    PageReader,
    PageSource,
    Root,
    RowIdRuns,
    RowSegments,
    Schema,
    tree,
)

__all__ = ["ExtentRoot", "Published", "State", "state_of", "table_of"]

T = TypeVar("T", bound=LeafTable)

ExtentRoot: TypeAlias = Root[Extents]


@dataclass(frozen=True, slots=True)
class State:
    """One version's content, by reference.

    Attributes:
        schema: The tensors, with their types and encodings.
        roots: Index of each tensor, by tensor id; every index covers ``physical`` rows.
        rows: Which physical rows the user sees, in order.
        row_ids: Where each physical row was born.
        physical: How many physical rows the branch's axis has.
    """

    schema: Schema
    roots: Mapping[str, ExtentRoot]
    rows: Root[RowSegments]
    row_ids: Root[RowIdRuns]
    physical: int

    @property
    def num_rows(self) -> int:
        """How many rows the user sees."""
        return self.rows.rows


@dataclass(frozen=True, slots=True)
class Published:
    """A commit that stands, and what it says."""

    entry: Entry
    state: State


async def table_of(
    root: Root[T], pages: PageSource | PageReader, start: int = 0, stop: int | None = None
) -> T:
    """Read the entries of rows [start, stop) of a tree into one table."""
    tables = [table async for _, table in tree.scan(root, pages, start, stop)]
    return root.leaf_type.concat(tables)


def state_of(entry: Entry) -> State:
    """Read the body of a log entry whose pages are loaded."""
    assert entry.schema is not None  # a begin entry is never read, cited or committed on
    return State(
        schema=Schema.from_json(entry.schema),
        roots=entry.roots,
        rows=entry.rows or Root.of(RowSegments.empty()),
        row_ids=entry.row_ids or Root.of(RowIdRuns.empty()),
        physical=entry.physical,
    )
