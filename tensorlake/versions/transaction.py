"""Staged changes on one branch: what they are now, and how they become a commit.

A transaction stands on one log entry, its *base*. Staging makes chunks (in the stage's packs) and
a *working* state: the base's trees with the changes applied, over scratch pages that are never
published. That is what the handle reads. Publishing applies the *net* changes once more, to the
trees of the branch's head, this time with pages in the last pack:

    base ──stage──► working state ──net changes──► head's trees + last pack ──put-if-absent──► entry

So a lost race costs only the last step again: nothing staged is ever encoded twice.

Not thread-safe: the handle that owns it holds one lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.errors import SchemaError
from tensorlake.format import (
    Changes,
    ChunkKind,
    Entry,
    Extents,
    PageReader,
    PageSink,
    Root,
    RowIdRuns,
    RowSegments,
    Schema,
    StatisticsTable,
    TensorSpec,
    changed_rows,
    delete_rows,
    rows_of,
    select_rows,
    statistics_of,
    tree,
)
from tensorlake.storage import Store, runtime
from tensorlake.types import Column
from tensorlake.versions.packs import PackReader, ScratchPages
from tensorlake.versions.pending import PendingChunks, store_column
from tensorlake.versions.ranges import Ranges, clip, distinct, no_ranges, ranges_of, rows_in, union
from tensorlake.versions.stage import PackStage
from tensorlake.versions.state import ExtentRoot, State, state_of, table_of

__all__ = ["Edit", "Transaction"]

Int64Array = npt.NDArray[np.int64]
Edit = tuple[int, int, Extents]
"""Physical rows [start, stop) of a tensor now have these extents."""


@dataclass(frozen=True, slots=True)
class _Staged:
    """All that is staged, as a value: remembering it is remembering this."""

    working: State
    pending_rows: int = 0
    pending: Mapping[str, PendingChunks] = field(default_factory=dict[str, PendingChunks])
    edited: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])
    updated: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])
    deleted: Ranges = field(default_factory=no_ranges)
    schema_changes: tuple[Mapping[str, Any], ...] = ()
    created: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Savepoint:
    """What was staged at one moment."""

    staged: _Staged


class Transaction:
    """Changes staged on ``base``, read through ``packs``."""

    def __init__(
        self, store: Store, base: Entry, packs: PackReader, base_state: State | None = None
    ) -> None:
        self.base = base
        self.base_state = state_of(base) if base_state is None else base_state
        self.stage = PackStage(store)
        self._scratch = ScratchPages(self.stage.txid)
        packs.attach(self.stage)
        packs.attach(self._scratch)
        self.packs = packs
        self._staged = _Staged(self.base_state)

    @property
    def _pages(self) -> PageReader:
        return self.packs.pages

    @property
    def txid(self) -> str:
        """The transaction's identity, also after it is published."""
        return self.stage.txid

    @property
    def schema(self) -> Schema:
        """The schema with the staged changes."""
        return self._staged.working.schema

    @property
    def num_rows(self) -> int:
        """How many rows the handle sees now."""
        return self._staged.working.num_rows + self._staged.pending_rows

    @property
    def appended_rows(self) -> int:
        """How many rows were appended, those deleted again included."""
        staged = self._staged
        return staged.working.physical - self.base_state.physical + staged.pending_rows

    @property
    def has_changes(self) -> bool:
        """Whether a commit would publish anything."""
        staged = self._staged
        return bool(
            self.appended_rows or staged.updated or len(staged.deleted) or staged.schema_changes
        )

    def savepoint(self) -> Savepoint:
        """Remember what is staged now."""
        return Savepoint(self._staged)

    def roll_back(self, savepoint: Savepoint) -> None:
        """Return to what was staged then. Chunks made since stay in their packs, uncited."""
        self._staged = savepoint.staged

    # Staging

    def append(self, columns: Mapping[str, Column], num_rows: int) -> None:
        """Stage rows: one column for each tensor of the schema, by tensor id."""
        staged = self._staged
        # A changed spec never meets older samples here: every change seals them first.
        pending = {
            spec.id: (staged.pending.get(spec.id) or PendingChunks(spec)).with_column(
                columns[spec.id], self.stage
            )
            for spec in self.schema.tensors
        }
        # In one step: an error above, Ctrl-C too, leaves no tensor with more rows than another.
        self._staged = replace(staged, pending=pending, pending_rows=staged.pending_rows + num_rows)

    def store_column(self, spec: TensorSpec, column: Column) -> Extents:
        """Make chunks of new values, to be cited by ``edit``."""
        return Extents.concat(store_column(spec, column, self.stage))

    def edit(self, spec: TensorSpec, edits: Sequence[Edit], rows: Int64Array) -> None:
        """Stage new extents for a tensor's physical rows.

        Args:
            spec: The tensor.
            edits: Sorted and disjoint; may cover more rows than changed.
            rows: The physical rows whose value was assigned.
        """
        working = self.working()
        root = runtime.run(tree.replace(working.roots[spec.id], edits, self._pages, self._scratch))
        staged = self._staged
        covered = np.array([(start, stop) for start, stop, _ in edits], dtype=np.int64)
        self._staged = replace(
            staged,
            working=replace(working, roots={**working.roots, spec.id: root}),
            edited=_with(staged.edited, spec.id, covered),
            updated=_with(staged.updated, spec.id, ranges_of(rows)),
        )

    def delete(self, rows: Int64Array, physical: Int64Array) -> None:
        """Stage that rows are no longer shown.

        Args:
            rows: Rows of what the handle sees, sorted, each once.
            physical: Their physical rows.
        """
        working = self.working()
        kept = runtime.run(delete_rows(working.rows, rows, self._pages, self._scratch))
        staged = self._staged
        self._staged = replace(
            staged,
            working=replace(working, rows=kept),
            deleted=union((staged.deleted, ranges_of(physical))),
        )

    def add_tensor(self, spec: TensorSpec) -> None:
        """Stage a new tensor; every row has its fill."""
        working = self.working()
        root: ExtentRoot = Root.of(_fill(spec, working.physical))
        staged = self._staged
        self._staged = replace(
            staged,
            working=replace(
                working,
                schema=working.schema.add(spec),
                roots={**working.roots, spec.id: root},
            ),
            schema_changes=(*staged.schema_changes, _op("add", spec)),
            created=staged.created | {spec.id},
        )

    def drop_tensor(self, spec: TensorSpec) -> None:
        """Stage that a tensor is gone."""
        working = self.working()
        if len(working.schema.tensors) == 1:
            message = f"{spec.name!r} is the only tensor; a dataset has at least one"
            raise SchemaError(message, tensor=spec.name)
        staged = self._staged
        self._staged = replace(
            staged,
            working=replace(
                working,
                schema=working.schema.drop(spec.name),
                roots={id_: root for id_, root in working.roots.items() if id_ != spec.id},
            ),
            edited={id_: ranges for id_, ranges in staged.edited.items() if id_ != spec.id},
            updated={id_: ranges for id_, ranges in staged.updated.items() if id_ != spec.id},
            schema_changes=(*staged.schema_changes, _op("drop", spec)),
            created=staged.created - {spec.id},
            dropped=staged.dropped | {spec.id},
        )

    def change_spec(self, spec: TensorSpec, *, what: str, is_checked: bool = False) -> None:
        """Stage another spec for the tensor with its id.

        Args:
            spec: The new one.
            what: "rename", "type", "names" or "metadata".
            is_checked: Whether it stands only because every row was looked at: it then conflicts
                with rows that others append, and with values that they give the tensor.
        """
        working = self.working()
        staged = self._staged
        self._staged = replace(
            staged,
            working=replace(working, schema=working.schema.replace(spec)),
            schema_changes=(
                *staged.schema_changes,
                _op(what, spec) | ({"checked": True} if is_checked else {}),
            ),
        )

    # What is staged

    def working(self) -> State:
        """The state with all that is staged; samples that wait become chunks."""
        staged = self._staged
        if staged.pending_rows == 0:
            return staged.working
        # Here, in the caller's thread: making chunks may wait for packs that the loop sends.
        sealed = {
            spec.id: Extents.concat(staged.pending[spec.id].seal(self.stage))
            for spec in staged.working.schema.tensors
        }
        grown = runtime.run(self._grown(staged.working, staged.pending_rows, sealed))
        self._staged = replace(staged, working=grown, pending_rows=0, pending={})
        return grown

    async def _grown(self, state: State, count: int, extents: Mapping[str, Extents]) -> State:
        """Add rows at the end, one table of extents a tensor."""
        pages, scratch = self._pages, self._scratch
        visible = RowSegments.range(state.physical, state.physical + count)
        born = RowIdRuns.run(count, self.txid, state.physical - self.base_state.physical)
        return State(
            schema=state.schema,
            roots={
                id_: await tree.append(root, extents[id_], pages, scratch)
                for id_, root in state.roots.items()
            },
            rows=await tree.append(state.rows, visible, pages, scratch),
            row_ids=await tree.append(state.row_ids, born, pages, scratch),
            physical=state.physical + count,
        )

    def changes(self) -> Changes:
        """What a commit would record as changed, by physical rows of the base."""
        staged, limit = self._staged, self.base_state.physical
        return Changes(
            append=self.appended_rows,
            update={
                id_: changed_rows(rows_in(below))
                for id_, ranges in staged.updated.items()
                if id_ not in staged.created and len(below := clip(ranges, limit))
            },
            delete=changed_rows(rows_in(clip(staged.deleted, limit))),
            schema=staged.schema_changes,
        )

    async def apply_to(
        self, head: State, *, schema: Schema, by_row: frozenset[str], sink: PageSink
    ) -> State:
        """Apply the net changes to the state of a branch's head; pages go to ``sink``.

        Args:
            head: The state to build on; its axis begins with the base's.
            schema: The schema of the result.
            by_row: Tensors that others updated since the base: of these only the rows assigned
                here are taken, not the whole chunks around them.
            sink: Where index pages are placed.
        """
        staged, base = self._staged, self.base_state.physical
        if head is self.base_state and self._scratch.is_empty and not self.stage.renames:
            return staged.working  # the same trees over the same base, and no scratch page in them
        appended = staged.working.physical - base
        roots: dict[str, ExtentRoot] = {}
        for spec in schema.tensors:
            mine = staged.working.roots.get(spec.id)
            if mine is None:
                new = _fill(spec, appended)
                roots[spec.id] = await tree.append(head.roots[spec.id], new, self._pages, sink)
                continue
            if spec.id in staged.created:
                root: ExtentRoot = Root.of(Extents.empty())
                old = await self._extents(mine, 0, base)
                old = Extents.concat([old, _fill(spec, head.physical - base)])
                root = await tree.append(root, old, self._pages, sink)
            else:
                ranges = (staged.updated if spec.id in by_row else staged.edited).get(spec.id)
                root = head.roots[spec.id]
                edits = [
                    (start, stop, await self._extents(mine, start, stop))
                    for start, stop in ([] if ranges is None else clip(ranges, base).tolist())
                ]
                if edits:
                    root = await tree.replace(root, edits, self._pages, sink)
            new = await self._extents(mine, base, base + appended)
            roots[spec.id] = await tree.append(root, new, self._pages, sink)
        return State(
            schema=schema,
            roots=roots,
            rows=await self._applied_rows(head, appended, sink),
            row_ids=await tree.append(
                head.row_ids,
                RowIdRuns.run(appended, self.txid),
                self._pages,
                sink,
            ),
            physical=head.physical + appended,
        )

    async def _extents(self, root: ExtentRoot, start: int, stop: int) -> Extents:
        """Copy extents out of a working tree, citing packs by their final names."""
        if start == stop:
            return Extents.empty()
        return self.stage.with_final_ids(await table_of(root, self._pages, start, stop))

    async def _applied_rows(self, head: State, appended: int, sink: PageSink) -> Root[RowSegments]:
        gone, base = rows_in(self._staged.deleted), self.base_state.physical
        positions = await rows_of(head.rows, gone[gone < base], self._pages)
        rows = await delete_rows(head.rows, distinct(positions[positions >= 0]), self._pages, sink)
        new = np.setdiff1d(np.arange(base, base + appended), gone) if len(gone) else None
        segments = (
            RowSegments.range(head.physical, head.physical + appended)
            if new is None
            else select_rows(new - base + head.physical)
        )
        return await tree.append(rows, segments, self._pages, sink)


def _op(what: str, spec: TensorSpec) -> dict[str, Any]:
    return {"op": what, "tensor": spec.id, "name": spec.name}


def _fill(spec: TensorSpec, rows: int) -> Extents:
    """Rows that have the tensor's fill, with statistics: queries prune them like any other."""
    one = statistics_of(spec.type.fill_column(spec.fill, 1))
    known = replace(one, null_count=rows if spec.fill is None else 0)
    return Extents.without_bytes(
        ChunkKind.FILL, rows, statistics=StatisticsTable.of([known]), read_as=spec.read_as
    )


def _with(by_tensor: Mapping[str, Ranges], tensor_id: str, ranges: Ranges) -> dict[str, Ranges]:
    return {**by_tensor, tensor_id: union((by_tensor.get(tensor_id, no_ranges()), ranges))}
