"""The content of a version: its schema, the index of each tensor, and the rows a user sees.

A ``State`` is the body of a commit, or of a transaction's working copy. It is a value: staging
makes a new one, nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from tensorlake.errors import CorruptionError, SchemaError
from tensorlake.format import (
    NO_TXID,
    ColumnGroup,
    Entry,
    Extents,
    LeafTable,
    PageReader,
    PageSource,
    Root,
    RowIdRuns,
    RowSegments,
    Schema,
    TensorSpec,
    column_groups,
    tree,
)

__all__ = ["ExtentRoot", "Published", "State", "coverage_faults", "group_faults",
           "group_state", "state_of", "table_of", "tensor_state"]  # fmt: skip

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
        groups: The column groups, by name.
    """

    schema: Schema
    roots: Mapping[str, ExtentRoot]
    rows: Root[RowSegments]
    row_ids: Root[RowIdRuns]
    physical: int
    groups: Mapping[str, ColumnGroup] = field(default_factory=dict[str, ColumnGroup])

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


def group_faults(entry: Entry) -> list[str]:
    """List the column groups of an entry, its pages loaded, that are malformed."""
    try:
        for group in column_groups(entry.indexes, where="its indexes").values():
            group.parts()
    except (CorruptionError, SchemaError) as error:
        return [str(error).splitlines()[0]]
    return []


def group_state(group: ColumnGroup) -> State:
    """Return the columns of a group as a state that shows all of its rows, in order.

    Raises:
        SchemaError: The specs of its parts are malformed.
        UnsupportedFeatureError: A type is unknown to this version.
    """
    rows = RowSegments.range(0, group.rows) if group.rows else RowSegments.empty()
    ids = RowIdRuns.run(group.rows, NO_TXID) if group.rows else RowIdRuns.empty()
    return State(group.parts(), group.roots, Root.of(rows), Root.of(ids), group.rows)


def tensor_state(spec: TensorSpec, root: ExtentRoot) -> State:
    """Return the cells of one tensor, as a tree has them, as a state that shows all in order."""
    rows = RowSegments.range(0, root.rows) if root.rows else RowSegments.empty()
    ids = RowIdRuns.run(root.rows, NO_TXID) if root.rows else RowIdRuns.empty()
    return State(Schema((spec,)), {spec.id: root}, Root.of(rows), Root.of(ids), root.rows)


def state_of(entry: Entry) -> State:
    """Read the body of a log entry whose pages are loaded.

    Raises:
        SchemaError: Its schema is invalid.
        CorruptionError: Its trees do not cover its rows, or a column group is malformed.
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
        groups=column_groups(entry.indexes, where=f"entry {entry.seq}"),
    )
