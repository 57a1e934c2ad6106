"""Staged changes on one branch: their current state, and how they become a commit.

A transaction is based on one log entry, its *base*. Staging makes chunks (in the stage's packs) and
a *working* state: the base's trees with the changes applied, over scratch pages that are never
published. That is what the handle reads. Publishing applies the *net* changes once more, to the
trees of the base, this time with pages in the last pack:

    base ──stage──► working state ──net changes──► base's trees + last pack ──put-if-absent──► entry

After a lost race the changes move to the newer entry (``rebase``), which is the base from then on:
nothing staged is ever encoded or sent twice. All that is staged is one value (``Staged``), so any
step that fails is undone by going back to the value before it.

Not thread-safe: the handle that owns it holds one lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.errors import SchemaError
from tensorlake.format import (
    Addition,
    Changes,
    ColumnGroup,
    Constraint,
    Entry,
    Extents,
    LeafTable,
    PageReader,
    PlacedChunks,
    Root,
    RowIdRuns,
    RowSegments,
    Schema,
    TensorSpec,
    check_group_name,
    delete_rows,
    find_rows,
    row_ids,
    tree,
)
from tensorlake.storage import Store, runtime
from tensorlake.types import Column
from tensorlake.versions.log.entries import fence_of
from tensorlake.versions.log.state import ExtentRoot, State, state_of
from tensorlake.versions.packs.chunk_builder import PendingChunks, place_column
from tensorlake.versions.packs.reader import PackReader, ScratchPages
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.rows.conflict_rules import Conflict
from tensorlake.versions.rows.ranges import ranges_of, union
from tensorlake.versions.transaction.adoption import StoredRows, stored_rows
from tensorlake.versions.transaction.changeset import (
    Edit,
    KeyedMove,
    KeyedRows,
    Staged,
    fill_extents,
    settled,
    with_ranges,
)
from tensorlake.versions.transaction.comparisons import with_comparisons
from tensorlake.versions.transaction.conflicts import CellsDiffer, OnConflict, Rebasing
from tensorlake.versions.transaction.delta import applied, net_of
from tensorlake.versions.transaction.derived import with_made, with_rewritten
from tensorlake.versions.transaction.groups import without_dropped
from tensorlake.versions.transaction.publish import Doubt
from tensorlake.versions.transaction.rebase import rebase

__all__ = ["Edit", "KeyedMove", "KeyedRows", "Rematch", "Savepoint", "Transaction"]

Int64Array = npt.NDArray[np.int64]
T = TypeVar("T", bound=LeafTable)

WORKING_TAIL_ENTRIES = 1024
"""Entries that a tail of the working state may have: joining them with more takes microseconds."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint of staged changes."""

    staged: Staged


class Rematch(Protocol):
    """Matches keys again after a move; provided by the layer that reads chunks."""

    def __call__(
        self,
        transaction: Transaction,
        before: State,
        moves: Sequence[KeyedMove],
        on_conflict: OnConflict,
        /,
    ) -> tuple[Conflict, ...]:
        """Stage what the upserts would stage now; return the conflicts that prevent it.

        Args:
            transaction: The changes, on the newer entry.
            before: The state of the handle before the move.
            moves: The move of each upsert, oldest first.
            on_conflict: The side that takes precedence if both gave a row to one key; none: the
                later one.
        """
        ...


class Transaction:
    """Changes staged on ``base``, read through ``packs``."""

    def __init__(
        self, store: Store, base: Entry, packs: PackReader, base_state: State | None = None
    ) -> None:
        self._store = store
        self.packs = packs
        self._began_on = base
        self.doubt = Doubt()
        """Whether an earlier commit of unknown outcome may be in the log."""
        self.reads: frozenset[str] = frozenset()
        """Ids of tensors that the changes were computed from."""
        self.rematch: Rematch | None = None
        """Matches the keys of upserts again; given with the first one."""
        state = state_of(base) if base_state is None else base_state
        self._staged = Staged(base, state, working=state)

    @cached_property
    def stage(self) -> PackStage:
        """The packs of what is staged; begun with the first chunk or page."""
        stage = PackStage(self._store)
        self.packs.attach(stage)
        return stage

    @cached_property
    def _scratch(self) -> ScratchPages:
        scratch = ScratchPages(self.txid)
        self.packs.attach(scratch)
        return scratch

    @property
    def began_at_fence(self) -> int:
        """The fence of the entry it began on: all staged data is younger."""
        return fence_of(self._began_on).t

    @property
    def base(self) -> Entry:
        """The entry that the changes are based on."""
        return self._staged.base

    @property
    def base_state(self) -> State:
        """The content of that entry."""
        return self._staged.base_state

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
        return self._staged.appended_rows

    @property
    def has_changes(self) -> bool:
        """Whether a commit would publish anything."""
        return self._staged.has_changes

    @property
    def only_adds_tensors(self) -> bool:
        """Whether all that is staged is new tensors, which nothing was written to yet."""
        return self._staged.only_adds_tensors

    def savepoint(self) -> Savepoint:
        """Remember what is staged now."""
        return Savepoint(self._staged)

    def roll_back(self, savepoint: Savepoint) -> None:
        """Return to what was staged then. Chunks made since stay in their packs, uncited."""
        self._staged = savepoint.staged

    # Staging

    def append(self, columns: Mapping[str, Column], num_rows: int) -> None:
        """Stage rows: a column for each tensor, by tensor id; one without gets its fill."""
        staged = self._staged
        # A changed spec never meets older samples here: every change seals them first.
        pending: dict[str, PendingChunks] = {}
        for spec in staged.working.schema.tensors:
            waiting, column = staged.pending.get(spec.id), columns.get(spec.id)
            if waiting is None and column is None:
                continue
            if waiting is None:
                waiting = PendingChunks(spec)
                if staged.pending_rows:
                    earlier = spec.type.fill_column(spec.fill, staged.pending_rows)
                    waiting = waiting.with_column(earlier, self.stage)
            if column is None:
                column = spec.type.fill_column(spec.fill, num_rows)
            pending[spec.id] = waiting.with_buffered(column) or waiting.with_column(
                column, self.stage
            )
        # In one step: an error above, Ctrl-C too, leaves no tensor with more rows than another.
        self._staged = replace(staged, pending=pending, pending_rows=staged.pending_rows + num_rows)

    def adopt(self, rows: StoredRows) -> None:
        """Stage rows whose chunks another transaction has stored; their ids are this one's.

        Raises:
            TransactionExpiredError: The chunks may be collected.
        """
        rows.check_age(self.began_at_fence)
        working = self.working()
        grown = self._grown(working, rows.num_rows, rows.chunks(working.schema))
        self._staged = replace(self._staged, working=grown)
        if rows.stored_at is not None:
            self.stage.adopt(rows.pack_count, rows.pack_nbytes, rows.stored_at)

    def store(self) -> StoredRows:
        """Store the rows appended, for another transaction to adopt; nothing else is staged."""
        return stored_rows(self.sealed(), self.stage, self._pages)

    def place_column(self, spec: TensorSpec, column: Column) -> PlacedChunks:
        """Make chunks of new values, for the end of an index or, as a table, for ``edit``."""
        return place_column(spec, column, self.stage)

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
        after = replace(working, roots={**working.roots, spec.id: root})
        if working.groups:
            places = (working, after, spec.id, covered, ranges_of(rows))
            after = runtime.run(with_rewritten(*places, self._pages, self._scratch))
        self._staged = replace(
            staged,
            working=after,
            edited=with_ranges(staged.edited, spec.id, covered),
            updated=with_ranges(staged.updated, spec.id, ranges_of(rows)),
        )

    def note_made(self, tensor_id: str, rows: Int64Array, read: Savepoint) -> None:
        """Stage that values of a computed tensor were made from cells of its inputs.

        Args:
            tensor_id: The tensor, whose values are staged.
            rows: Their physical rows.
            read: When the inputs were read; nothing staged then was discarded since.
        """
        then, assigned = read.staged.working.roots, self._staged.updated
        places = (self.working(), tensor_id, ranges_of(rows), then, assigned)
        self._staged = replace(
            self._staged,
            working=runtime.run(with_made(*places, self._pages, self._scratch)),
            made=with_ranges(self._staged.made, tensor_id, ranges_of(rows)),
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

    def note_keyed(self, keyed: KeyedRows) -> None:
        """Remember that staged rows were found, or found to be new, by their key."""
        self._staged = replace(self._staged, keyed=(*self._staged.keyed, keyed))

    def add_tensor(self, spec: TensorSpec) -> None:
        """Stage a new tensor; every row has its fill."""
        working = self.working()
        root: ExtentRoot = Root.of(fill_extents(spec, working.physical))
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
                groups=without_dropped(working.groups, working.schema.drop(spec.name)),
            ),
            edited={id_: ranges for id_, ranges in staged.edited.items() if id_ != spec.id},
            updated={id_: ranges for id_, ranges in staged.updated.items() if id_ != spec.id},
            schema_changes=(*staged.schema_changes, _op("drop", spec)),
            created=staged.created - {spec.id},
        )

    def change_spec(self, spec: TensorSpec, *, what: str, is_checked: bool = False) -> None:
        """Stage another spec for the tensor with its id.

        Args:
            spec: The new one.
            what: "rename", "type", "names" or "metadata".
            is_checked: Whether it is valid only because every row was checked: it then conflicts
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

    def change_constraints(self, name: str, constraint: Constraint | None) -> None:
        """Stage a constraint of this name; None drops it."""
        self._staged = self.sealed().with_constraint(name, constraint)

    def stage_group(self, name: str, group: ColumnGroup | None) -> None:
        """Stage the content of a column group; None drops it."""
        working = self.working()
        groups = {known: one for known, one in working.groups.items() if known != name}
        if group is not None:
            groups[check_group_name(name)] = group
        self._staged = replace(self._staged, working=replace(working, groups=groups))

    # What is staged

    def working(self) -> State:
        """The state with all that is staged; samples that wait become chunks."""
        staged = self._staged
        if staged.pending_rows == 0:
            return staged.working
        # Here, in the caller's thread: making chunks may wait for packs that the loop sends.
        sealed = {
            spec.id: waiting.seal(self.stage)
            if (waiting := staged.pending.get(spec.id)) is not None
            else fill_extents(spec, staged.pending_rows)
            for spec in staged.working.schema.tensors
        }
        grown = self._grown(staged.working, staged.pending_rows, sealed)
        self._staged = replace(staged, working=grown, pending_rows=0, pending={})
        return grown

    def _grown(self, state: State, count: int, chunks: Mapping[str, Addition[Extents]]) -> State:
        """Add rows at the end, those of each tensor's chunks."""
        visible = RowSegments.range(state.physical, state.physical + count)
        born = RowIdRuns.run(count, self.txid, state.physical - self.base_state.physical)
        return State(
            schema=state.schema,
            roots={id_: self._tree(root, chunks[id_]) for id_, root in state.roots.items()},
            rows=self._tree(state.rows, visible),
            row_ids=self._tree(state.row_ids, born),
            physical=state.physical + count,
            groups=state.groups,
        )

    def _tree(self, root: Root[T], added: Addition[T]) -> Root[T]:
        grown = tree.grown(root, added)
        if len(grown.newest) <= WORKING_TAIL_ENTRIES:
            return grown
        return runtime.run(tree.settled(grown, self._pages, self._scratch))

    def changes(self) -> Changes:
        """Return the changes that a commit would record, by physical rows of the base."""
        return self._staged.changes()

    def sealed(self) -> Staged:
        """Return all that is staged; samples that wait become chunks."""
        self.working()
        return self._staged

    # Publishing

    def found_in(self, entries: Sequence[Entry]) -> Entry | None:
        """Find this transaction among the entries after its base, or end a doubt."""
        return self.doubt.find(self.txid, entries)

    async def final_state(self) -> State:
        """Return the working state over published pages; new pages go to the stage."""
        staged = self._staged
        if self._scratch.is_empty and not self.stage.renames:
            # packs have the names that it cites
            state = await settled(staged, self._pages, self.stage)
        else:
            net, to = await net_of(staged, self._pages, self.stage), staged.base_state
            state = await applied(net, to, txid=self.txid, pages=self._pages, sink=self.stage)
        return await with_comparisons(staged, state, self._pages) if state.groups else state

    def rebase(
        self,
        head: Entry,
        between: Sequence[Entry],
        *,
        branch: str,
        differ: CellsDiffer,
        on_conflict: OnConflict = "error",
    ) -> tuple[Conflict, ...]:
        """Move what is staged to a newer entry of the branch; not on the storage loop.

        Args:
            head: The entry, its pages loaded; it is the base from now on.
            between: The entries after the base, up to it.
            branch: The branch.
            differ: Compares cells.
            on_conflict: The side that takes precedence in conflicts.

        Returns:
            The conflicts that prevent the move; the changes then keep their base.
        """
        self.working()
        place = Rebasing(
            txid=self.txid,
            branch=branch,
            pages=self._pages,
            scratch=self._scratch,
            stage=self.stage,
            differ=differ,
            on_conflict=on_conflict,
            reads=self.reads,
        )
        before = self._staged
        rebased = rebase(before, head, between, place)
        self._staged = rebased.staged
        if rebased.conflicts or not before.keyed or self.rematch is None:
            return rebased.conflicts
        try:
            moves = runtime.run(self._keyed_moves(before, [entry.changes for entry in between]))
            conflicts = self.rematch(self, before.working, moves, on_conflict)
            self.working()
        except BaseException:
            self._staged = before
            raise
        if conflicts:
            self._staged = before
        return conflicts

    async def _keyed_moves(self, before: Staged, theirs: Sequence[Changes]) -> list[KeyedMove]:
        is_rewritten = any(changes.rewrite for changes in theirs)
        touched = {tensor_id for changes in theirs for tensor_id in changes.update}
        moves: list[KeyedMove] = []
        for was in before.keyed:
            ids = await row_ids(before.working.row_ids, was.rows, self._pages)
            rows = await find_rows(self._staged.working.row_ids, ids, self._pages)
            keys_stand = not is_rewritten and touched.isdisjoint(was.keys)
            moves.append(KeyedMove(was, rows, before.limit, keys_stand))
        return moves


def _op(what: str, spec: TensorSpec) -> dict[str, Any]:
    return {"op": what, "tensor": spec.id, "name": spec.name}
