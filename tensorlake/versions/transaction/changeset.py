"""The staged changes of a transaction, as a value that can be saved and restored.

Rows of the base's axis and rows appended since share one axis: those from ``limit`` on are new.

    0 ────────────── base rows ────────────── limit ─── appended ───►
       updated, edited, deleted: ranges of both parts
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    Changes,
    ChunkKind,
    Constraint,
    Entry,
    Extents,
    LeafTable,
    PageReader,
    PageSink,
    Root,
    StatisticsTable,
    TensorSpec,
    changed_rows,
    statistics_of,
    tree,
)
from tensorlake.versions.log.state import State
from tensorlake.versions.packs.chunk_builder import PendingChunks
from tensorlake.versions.rows.ranges import Ranges, clip, no_ranges, rows_in, union
from tensorlake.versions.transaction.groups import changed_groups, settled_groups

__all__ = ["Edit", "KeyedMove", "KeyedRows", "Staged", "fill_extents", "settled", "with_ranges"]

T = TypeVar("T", bound=LeafTable)

Edit = tuple[int, int, Extents]
"""Physical rows [start, stop) of a tensor now have these extents."""


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows that an upsert staged: what it did rests on the keys of all rows.

    Attributes:
        keys: Ids of the tensors that are the key.
        given: Ids of the tensors that got values, but for the key's.
        rows: Their physical rows, each once.
    """

    keys: tuple[str, ...]
    given: tuple[str, ...]
    rows: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyedMove:
    """The rows staged by an upsert, after the changes moved to a newer entry.

    Attributes:
        was: The rows it staged, by rows of the previous state.
        rows: Where those rows are now; -1 where the newer entry never had them.
        limit: Rows of the older entry; those from here on were added later, by either side.
        keys_stand: Whether the older entry's rows are where they were, with the keys they had.
    """

    was: KeyedRows
    rows: npt.NDArray[np.int64]
    limit: int
    keys_stand: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """Changes on one log entry.

    Attributes:
        base: The entry they are based on.
        base_state: Its content.
        working: The content with the changes, over pages that are never published.
        pending_rows: Rows appended whose samples wait to become chunks; not in ``working`` yet.
        pending: Their samples, by tensor id.
        edited: By tensor id, the rows that have other extents than in the base.
        updated: By tensor id, those of them whose values were assigned.
        deleted: Rows that are no longer shown.
        returned: Rows that the base does not show, and these changes do.
        schema_changes: As a log entry records them.
        created: Ids of tensors that the base does not have.
        is_rebased: Whether the base is a later entry than the one they were staged on.
        keyed: Rows staged by upserts, oldest first.
        made: By id of each computed tensor, the rows whose values a refresh staged.
    """

    base: Entry
    base_state: State
    working: State
    pending_rows: int = 0
    pending: Mapping[str, PendingChunks] = field(default_factory=dict[str, PendingChunks])
    edited: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])
    updated: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])
    deleted: Ranges = field(default_factory=no_ranges)
    returned: Ranges = field(default_factory=no_ranges)
    schema_changes: tuple[Mapping[str, Any], ...] = ()
    created: frozenset[str] = frozenset()
    is_rebased: bool = False
    keyed: tuple[KeyedRows, ...] = ()
    made: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])

    @property
    def limit(self) -> int:
        """Physical rows of the base; those from here on are appended."""
        return self.base_state.physical

    @property
    def appended_rows(self) -> int:
        """How many rows were appended, those deleted again included."""
        return self.working.physical - self.limit + self.pending_rows

    @property
    def changes_groups(self) -> bool:
        """Whether a commit would publish other column groups than the base has."""
        is_same = self.working.groups is self.base_state.groups
        return not is_same and bool(changed_groups(self.working, self.base_state))

    @property
    def has_changes(self) -> bool:
        """Whether a commit would publish anything."""
        return bool(
            self.appended_rows
            or self.updated
            or len(self.deleted)
            or len(self.returned)
            or self.schema_changes
            or self.changes_groups
        )

    @property
    def only_adds_tensors(self) -> bool:
        """Whether all that is staged is new tensors, which nothing was written to yet."""
        additions = {change["tensor"] for change in self.schema_changes} <= self.created
        others = self.appended_rows or self.updated or len(self.deleted) or len(self.returned)
        return additions and not others and not self.changes_groups

    def changes(self) -> Changes:
        """The changes that a commit would record, by physical rows of the base."""
        return Changes(
            append=self.appended_rows,
            update={
                id_: changed_rows(rows_in(below))
                for id_, ranges in self.updated.items()
                if id_ not in self.created and len(below := clip(ranges, self.limit))
            },
            delete=(
                changed_rows(rows_in(clip(self.deleted, self.limit))) if len(self.deleted) else ()
            ),
            schema=self.schema_changes,
        )

    def changed(self) -> dict[str, Ranges]:
        """By tensor id, the physical rows that were given values; of "", those new or shown again.

        No samples wait to become chunks.
        """
        limit, physical = self.limit, self.working.physical
        new = np.array([[limit, physical]], np.int64) if limit < physical else no_ranges()
        return {**self.updated, "": union((new, self.returned))}

    def assigned(self) -> dict[str, npt.NDArray[np.int64]]:
        """By tensor id, the physical rows that were given values, or the fill of a new tensor."""
        found = {id_: rows_in(ranges) for id_, ranges in self.updated.items() if len(ranges)}
        for spec in self.working.schema.tensors:
            if spec.id in self.created and spec.fill is not None:
                found[spec.id] = np.arange(self.working.physical, dtype=np.int64)
        return found

    def with_constraint(self, name: str, constraint: Constraint | None) -> Staged:
        """Return the changes with a constraint of this name; None drops it."""
        schema = self.working.schema
        kept = {known: one for known, one in schema.constraints.items() if known != name}
        kept |= {} if constraint is None else {name: constraint}
        (of, *_) = (constraint or schema.constraints[name]).inputs
        return replace(
            self,
            working=replace(self.working, schema=replace(schema, constraints=kept)),
            schema_changes=(*self.schema_changes, {"op": "metadata", "tensor": of, "name": name}),
        )

    def updated_rows(self, tensor_id: str) -> npt.NDArray[np.int64]:
        """Rows of the base whose value of one tensor was assigned, in order."""
        return rows_in(clip(self.updated.get(tensor_id, no_ranges()), self.limit))


def with_ranges(
    by_tensor: Mapping[str, Ranges], tensor_id: str, ranges: Ranges
) -> dict[str, Ranges]:
    """Add rows to those of one tensor."""
    return {**by_tensor, tensor_id: union((by_tensor.get(tensor_id, no_ranges()), ranges))}


def fill_extents(spec: TensorSpec, rows: int) -> Extents:
    """Rows that have the tensor's fill, with statistics: queries prune them like any other."""
    column = spec.type.fill_column(spec.fill, 1)
    one = statistics_of(column, has_bounds=not spec.type.personal)
    known = replace(one, null_count=rows if spec.fill is None else 0)
    return Extents.without_bytes(
        ChunkKind.FILL, rows, statistics=StatisticsTable.of([known]), read_as=spec.read_as
    )


async def settled(staged: Staged, pages: PageReader, sink: PageSink) -> State:
    """Reduce the tails of the working state that grew to the size a log entry has room for."""
    state, before = staged.working, staged.base_state

    async def reduced(root: Root[T], was: Root[T] | None) -> Root[T]:
        if root is was:
            return root
        return await tree.settled(root, pages, sink, is_rebased=staged.is_rebased)

    return replace(
        state,
        roots={
            id_: await reduced(root, before.roots.get(id_)) for id_, root in state.roots.items()
        },
        rows=await reduced(state.rows, before.rows),
        row_ids=await reduced(state.row_ids, before.row_ids),
        groups=await settled_groups(state, before, pages, sink)
        if state.groups is not before.groups
        else state.groups,
    )
