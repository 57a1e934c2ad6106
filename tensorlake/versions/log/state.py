"""The content of a version: its schema, the index of each tensor, and the rows a user sees.

A ``State`` is the body of a commit, or of a transaction's working copy. It is a value: staging
makes a new one, nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tensorlake.errors import CorruptionError
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

__all__ = ["ExtentRoot", "Published", "State", "coverage_faults", "state_of", "table_of"]

T = TypeVar("T", bound=LeafTable)

ExtentRoot: TypeAlias = Root[Extents]


@dataclass(frozen=True, slots=True)
class State:
    """One version's content, by reference.

    Attributes:
        schema: The tensors, with their types and encodings.
        roots: Index of each tensor, by tensor id; every index covers ``physical`` rows.
        rows: The physical rows that the user sees, in order.
        row_ids: The origin of each physical row.
        physical: Number of physical rows of the branch's axis.
    """

    schema: Schema
    roots: Mapping[str, ExtentRoot]
    rows: Root[RowSegments]
    row_ids: Root[RowIdRuns]
    physical: int

    @property
    def num_rows(self) -> int:
        """Number of rows the user sees."""
        return self.rows.rows


@dataclass(frozen=True, slots=True)
class Published:
    """A published commit and its content."""

    entry: Entry
    state: State


async def table_of(
    root: Root[T], pages: PageSource | PageReader, start: int = 0, stop: int | None = None
) -> T:
    """Read the entries of rows [start, stop) of a tree into one table."""
    tables = [table async for _, table in tree.scan(root, pages, start, stop)]
    return root.leaf_type.concat(tables)


def coverage_faults(entry: Entry, schema: Schema) -> list[str]:
    """List the trees of an entry that do not cover its rows."""
    faults = [
        f"the index of {spec.name!r} covers {'no' if root is None else f'{root.rows:,}'} rows of"
        f" {entry.physical:,}"
        for spec in schema.tensors
        if (root := entry.roots.get(spec.id)) is None or root.rows != entry.physical
    ]
    if entry.row_ids is None or entry.row_ids.rows != entry.physical:
        faults.append(f"its row ids do not cover its {entry.physical:,} physical rows")
    if entry.rows is None:
        faults.append("it does not specify which rows it shows")
    return faults


def state_of(entry: Entry) -> State:
    """Read the body of a log entry whose pages are loaded.

    Raises:
        SchemaError: Its schema is invalid.
        CorruptionError: Its trees do not cover its rows.
    """
    assert entry.schema is not None  # a begin entry is never read, referenced or committed on
    schema = Schema.from_json(entry.schema)
    for fault in coverage_faults(entry, schema):
        what = f"entry {entry.seq} by {entry.author!r}"
        raise CorruptionError(
            f"{what} contradicts itself: {fault}\nopen another version, or run tensorlake check",
            object=what,
        )
    assert entry.rows is not None, "as coverage_faults has seen"
    assert entry.row_ids is not None, "likewise"
    return State(
        schema=schema,
        roots=entry.roots,
        rows=entry.rows,
        row_ids=entry.row_ids,
        physical=entry.physical,
    )
