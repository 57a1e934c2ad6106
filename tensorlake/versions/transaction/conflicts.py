"""Conflicts between staged changes and the commits since their base, confirmed by comparison.

``find_conflicts`` decides by what log entries record; here the candidates are confirmed by
comparing trees and cells: rows recorded as "many", equal values, rows that moved. Row numbers
are those of the base; those of the head are called targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    Changes,
    ChunkKind,
    Entry,
    PageReader,
    PageSink,
    Schema,
    find_rows,
    row_ids,
    rows_of,
    tree,
)
from tensorlake.storage import runtime
from tensorlake.versions.log.state import ExtentRoot, State, state_of
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.rows.conflict_rules import Conflict, find_conflicts
from tensorlake.versions.rows.derived import derived_ids
from tensorlake.versions.rows.ranges import (
    clip,
    distinct,
    known_ranges,
    known_union,
    rows_in,
    union,
)
from tensorlake.versions.rows.schema_rules import (
    CombinedSchema,
    CombineRule,
    Misfit,
    combine_schemas,
    is_narrower,
)
from tensorlake.versions.transaction.changeset import Staged

__all__ = ["BothSides", "CellsDiffer", "OnConflict", "Overlap", "Rebasing", "overlap_of"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

OnConflict = Literal["error", "ours", "theirs"]
"""The side that takes precedence in conflicts: none, the staged or the published changes."""

ASKED_AT_ONCE = 4096
"""Cells compared together where one that differs is an answer."""


class CellsDiffer(Protocol):
    """Compares cells of two states as stored, and reads what their schemas declare.

    Provided by the layer that reads chunks and parses conditions.
    """

    def __call__(
        self, tensor_id: str, a: State, a_rows: Int64Array, b: State, b_rows: Int64Array
    ) -> BoolArray:
        """Return for each pair of physical rows whether its two values differ."""
        ...

    def misfits(self, schema: Schema, /) -> Sequence[Misfit]:
        """Return the checks and computed columns that do not fit a schema's tensors."""
        ...


@dataclass(frozen=True, slots=True)
class Rebasing:
    """The context of a rebase.

    Attributes:
        txid: The transaction whose changes are moved.
        branch: Its branch.
        pages: Reads index pages.
        scratch: Takes pages of the working trees.
        stage: Knows under which names packs were stored.
        differ: Compares cells.
        on_conflict: The side that takes precedence in conflicts.
        reads: Ids of tensors the changes were computed from.
    """

    txid: str
    branch: str
    pages: PageReader
    scratch: PageSink
    stage: PackStage
    differ: CellsDiffer
    on_conflict: OnConflict = "error"
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BothSides:
    """Staged changes, and the entry to move them onto.

    Attributes:
        mine: The changes that the staged ones would record.
        theirs: The changes that the entries in between recorded.
        is_rewritten: Whether rows of the base have other places in the head.
        derived: Ids of computed tensors, whose values are in no conflict: of one cell, the later
            writer's stays, and whether it is stale follows from what it was made from.
    """

    staged: Staged
    head: Entry
    state: State
    place: Rebasing
    mine: Changes
    theirs: tuple[Changes, ...]
    is_rewritten: bool
    derived: frozenset[str]

    @classmethod
    def of(
        cls, staged: Staged, head: Entry, between: Sequence[Entry], place: Rebasing
    ) -> BothSides:
        """Combine the changes of both sides."""
        state = state_of(head)
        theirs = tuple(entry.changes for entry in between if entry.kind == "commit")
        is_rewritten = any(changes.rewrite for changes in theirs)
        if is_rewritten:
            theirs = (_anything(staged.base_state.schema, state, theirs),)
        mine = staged.changes()
        derived = derived_ids(staged.working.schema, state.schema)
        return cls(staged, head, state, place, mine, theirs, is_rewritten, derived)

    def without_derived(self) -> tuple[Changes, tuple[Changes, ...]]:
        """Return the changes of both sides, without computed tensors that are not read."""
        mine = _without(self.mine, self.derived)
        unread = self.derived - self.place.reads
        return mine, tuple(_without(one, unread) for one in self.theirs)

    @property
    def base(self) -> State:
        """The base of the staged changes."""
        return self.staged.base_state

    @property
    def they_append(self) -> bool:
        """Whether they appended rows."""
        return any(changes.append for changes in self.theirs)

    def their_updates(self, tensor_id: str) -> bool:
        """Whether they may have updated cells of a tensor."""
        return any(tensor_id in changes.update for changes in self.theirs)

    def targets(self, rows: Int64Array) -> Int64Array:
        """Rows of the base as rows of the head; -1 where the head never had them."""
        if not self.is_rewritten or not len(rows):
            return rows
        return runtime.run(self._by_row_id(rows))

    async def _by_row_id(self, rows: Int64Array) -> Int64Array:
        pages = self.place.pages
        ids = await row_ids(self.base.row_ids, rows, pages)
        return await find_rows(self.state.row_ids, ids, pages)

    def is_shown(self, targets: Int64Array) -> BoolArray:
        """Return whether the head shows these of its rows; -1 is not a row."""
        shown = np.zeros(len(targets), dtype=np.bool_)
        known = np.flatnonzero(targets >= 0)
        if len(known):
            rows = runtime.run(rows_of(self.state.rows, targets[known], self.place.pages))
            shown[known] = rows >= 0
        return shown

    def differ(self, tensor_id: str, state: State, rows: Int64Array) -> BoolArray:
        """Which rows of the base have another value in the head than in ``state``."""
        return self.place.differ(tensor_id, state, rows, self.state, self.targets(rows))

    def changed_here(self, tensor_id: str, rows: Int64Array) -> BoolArray:
        """Return rows of the base with a new staged value; rewriting the old one does not count."""
        return self.place.differ(tensor_id, self.base, rows, self.staged.working, rows)

    def is_changed_here(self, tensor_id: str) -> bool:
        """Whether the staged changes gave any row of the base another value."""
        if tensor_id in self.staged.created:
            return False
        rows = self.staged.updated_rows(tensor_id)
        return any(self.changed_here(tensor_id, some).any() for some in _batches(rows))

    def is_changed_there(self, tensor_id: str) -> bool:
        """Whether they gave any row another value, or may have: "many" is taken as all rows."""
        updated = known_union(changes.update.get(tensor_id, ()) for changes in self.theirs)
        if updated is None:
            return True
        rows = rows_in(updated)
        return any(self.differ(tensor_id, self.base, some).any() for some in _batches(rows))


def _anything(base: Schema, state: State, theirs: Iterable[Changes]) -> Changes:
    """Return possible changes where rows were moved, to be confirmed by comparison."""
    dropped = [spec for spec in base.tensors if state.schema.by_id(spec.id) is None]
    return Changes(
        append=sum(changes.append for changes in theirs),
        update={spec.id: "many" for spec in base.tensors if spec not in dropped},
        delete="many",
        schema=tuple({"op": "drop", "tensor": one.id, "name": one.name} for one in dropped),
        rewrite=True,
    )


def _without(changes: Changes, tensors: frozenset[str]) -> Changes:
    if tensors.isdisjoint(changes.update):
        return changes
    kept = {id_: rows for id_, rows in changes.update.items() if id_ not in tensors}
    return replace(changes, update=kept)


def _batches(rows: Int64Array) -> Iterator[Int64Array]:
    """Yield few rows at a time: whether any differs is seldom known only at the last."""
    for start in range(0, len(rows), ASKED_AT_ONCE):
        yield rows[start : start + ASKED_AT_ONCE]


# What each side changed


@dataclass(frozen=True, slots=True)
class Overlap:
    """Confirmed changes by both sides; rows are the base's.

    Attributes:
        cells: By tensor id, rows that both updated, to different values.
        same: By tensor id, rows that both updated, to the same value: it is theirs already.
        vanished: Rows updated here that the head does not show.
        idle: Rows it does not show either, which were only written as they were.
        lost: Of those, rows that cannot be restored: their data is gone.
        touched: Rows deleted here that they updated.
        dropped: Tensors dropped here that they wrote.
        undone: Tensors dropped there that were written here.
        schema: The schema of both, by the policy.
        others: Conflicts that no policy decides.
        reads: Columns read here that they changed.
    """

    cells: Mapping[str, Int64Array]
    same: Mapping[str, Int64Array]
    vanished: Int64Array
    idle: Int64Array
    lost: Int64Array
    touched: Int64Array
    dropped: frozenset[str]
    undone: frozenset[str]
    schema: CombinedSchema
    others: tuple[Conflict, ...] = ()
    reads: tuple[Conflict, ...] = ()

    def unresolved(self, on_conflict: OnConflict) -> tuple[Conflict, ...]:
        """The conflicts that stay under a policy."""
        found = [
            Conflict(clash.kind, clash.tensor_id, description=clash.description)
            for clash in self.schema.clashes
            if on_conflict == "error" or not clash.can_be_preferred
        ]
        found += self.others
        if on_conflict == "ours":
            found += _delete_conflict(self.lost)
            found += [Conflict("drop", tensor_id) for tensor_id in sorted(self.undone)]
        elif on_conflict == "error":
            found += [
                Conflict("update", tensor_id, tuple(rows.tolist()))
                for tensor_id, rows in self.cells.items()
            ]
            found += _delete_conflict(np.concatenate((self.vanished, self.touched)))
            dropped = sorted(self.dropped | self.undone)
            found += [Conflict("drop", tensor_id) for tensor_id in dropped]
            found += self.reads
        return tuple(dict.fromkeys(found))


def _delete_conflict(rows: Int64Array) -> list[Conflict]:
    return [Conflict("delete", None, tuple(distinct(rows).tolist()))] if len(rows) else []


def overlap_of(sides: BothSides) -> Overlap:
    """Find what both sides changed; this reads pages and chunks where records are not enough."""
    staged, place = sides.staged, sides.place
    suspects = find_conflicts(*sides.without_derived(), reads=place.reads)
    is_about = {kind: [one for one in suspects if one.what == kind] for kind in _KINDS}
    deleted = rows_in(clip(staged.deleted, staged.limit))
    vanished, idle, touched = _nothing(), _nothing(), _nothing()
    if is_about["delete"]:
        # What was written to a tensor that they have not is no change of their row.
        others = staged.created | sides.derived
        written = (staged.updated[id_] for id_ in staged.updated.keys() - others)
        updated = union(clip(rows, staged.limit) for rows in written)
        rows = np.setdiff1d(rows_in(updated), deleted, assume_unique=True)
        hidden = rows[~sides.is_shown(sides.targets(rows))]
        hidden = np.setdiff1d(hidden, _brought_back(sides), assume_unique=True)
        vanished = _changed(sides, hidden)
        idle = np.setdiff1d(hidden, vanished, assume_unique=True)
        touched = _touched(sides, deleted)
    # A row that their policy keeps has their values, not those it had here before its deletion.
    going = np.setdiff1d(deleted, touched) if place.on_conflict == "theirs" else deleted
    mine, theirs = staged.working.schema, sides.state.schema
    # Computed columns lose nothing: their values can be made again, or are not stored at all.
    computed = {spec.id for spec in sides.base.schema.tensors if spec.compute is not None}
    drops = {one.tensor_id or "" for one in is_about["drop"]} - computed
    dropped = frozenset(
        one
        for one in drops
        if theirs.by_id(one) and not mine.by_id(one)
        if sides.they_append or sides.is_changed_there(one)
    )
    cells, same = _cells(sides, is_about["update"], going)
    return Overlap(
        cells=cells,
        same=same,
        vanished=vanished,
        idle=idle,
        lost=_lost(sides, vanished) if place.on_conflict == "ours" else _nothing(),
        touched=touched,
        dropped=dropped,
        undone=frozenset(
            one
            for one in drops
            if mine.by_id(one) and not theirs.by_id(one)
            if sides.mine.append or sides.is_changed_here(one)
        ),
        schema=_schema(sides, dropped),
        others=tuple(_misfits(sides, dropped)),
        reads=tuple(
            one
            for one in is_about["read"]
            if not one.physical or sides.is_changed_there(one.tensor_id or "")
        ),
    )


def _schema(sides: BothSides, dropped: frozenset[str]) -> CombinedSchema:
    """Put the staged changes of the schema on the head's, by the policy."""
    place, prefers_theirs = sides.place, sides.place.on_conflict == "theirs"
    rule = CombineRule(
        prefer="current" if prefers_theirs else "incoming",
        branches=(place.branch, place.branch),
        misfits=place.differ.misfits,
        drops_are_final=True,
        wanted=dict.fromkeys(dropped, "current") if prefers_theirs else {},
    )
    base, mine = sides.base.schema, sides.staged.working.schema
    return combine_schemas([base], sides.state.schema, mine, rule)


_KINDS = ("update", "delete", "drop", "read", "schema", "name", "rewrite")


def _nothing() -> Int64Array:
    return np.empty(0, dtype=np.int64)


def _cells(
    sides: BothSides, suspects: Sequence[Conflict], going: Int64Array
) -> tuple[dict[str, Int64Array], dict[str, Int64Array]]:
    """Cells that both gave a value, another one and the same one, but those of rows that go."""
    found: dict[str, Int64Array] = {}
    same: dict[str, Int64Array] = {}
    staged = sides.staged
    for tensor_id in dict.fromkeys(one.tensor_id or "" for one in suspects):
        if sides.state.schema.by_id(tensor_id) is None:
            continue  # dropped since: another conflict
        listed = [one.physical for one in suspects if one.tensor_id == tensor_id]
        rows = staged.updated_rows(tensor_id)
        rows = np.setdiff1d(rows, going, assume_unique=True)
        rows = rows[sides.is_shown(sides.targets(rows))]
        is_theirs = np.isin(rows, np.array([row for one in listed for row in one], dtype=np.int64))
        if not all(listed):  # "many": what has another value than in the base was changed
            unknown = np.flatnonzero(~is_theirs)
            is_theirs[unknown] = sides.differ(tensor_id, sides.base, rows[unknown])
        rows = rows[is_theirs]
        # Writing the value that was there before is not a change.
        is_mine = sides.changed_here(tensor_id, rows)
        is_mine[is_mine] = sides.differ(tensor_id, staged.working, rows[is_mine])
        is_contested = is_mine.copy()
        is_contested[is_mine] = sides.differ(tensor_id, sides.base, rows[is_mine])
        for cells, chosen in ((found, rows[is_contested]), (same, rows[~is_mine])):
            if len(chosen):
                cells[tensor_id] = chosen
    return found, same


def _changed(sides: BothSides, rows: Int64Array) -> Int64Array:
    """Return the rows written here that have a cell with a new value."""
    is_changed = np.zeros(len(rows), dtype=np.bool_)
    for tensor_id in sides.without_derived()[0].update:
        written = np.flatnonzero(~is_changed & np.isin(rows, sides.staged.updated_rows(tensor_id)))
        is_changed[written] = sides.changed_here(tensor_id, rows[written])
    return rows[is_changed]


def _brought_back(sides: BothSides) -> Int64Array:
    """Rows that the base hides and the staged changes show, unless the others hid them again."""
    rows = rows_in(sides.staged.returned)
    for changes in sides.theirs:
        hidden = known_ranges(changes.delete)
        if hidden is not None:
            rows = np.setdiff1d(rows, rows_in(hidden), assume_unique=True)
    return rows


def _touched(sides: BothSides, deleted: Int64Array) -> Int64Array:
    """Rows deleted here that they updated, and still show."""
    rows = deleted[sides.is_shown(sides.targets(deleted))]
    is_touched = np.zeros(len(rows), dtype=np.bool_)
    for changes in sides.without_derived()[1]:
        for tensor_id, updated in changes.update.items():
            schemas = (sides.base.schema, sides.state.schema)
            if any(schema.by_id(tensor_id) is None for schema in schemas):
                continue  # dropped since, or new: values of a new tensor are no change of its rows
            is_asked = ~is_touched
            known = known_ranges(updated)
            if known is not None:
                is_asked &= np.isin(rows, rows_in(known))
            asked = np.flatnonzero(is_asked)
            is_touched[asked] = sides.differ(tensor_id, sides.base, rows[asked])
    return rows[is_touched]


def _lost(sides: BothSides, vanished: Int64Array) -> Int64Array:
    """Return the rows that are not shown and whose samples are gone too."""
    targets = sides.targets(vanished)
    is_lost = targets < 0
    for root in sides.state.roots.values():
        known = np.flatnonzero(~is_lost)
        order = known[np.argsort(targets[known], kind="stable")]
        is_lost[order] = runtime.run(_is_hole(root, targets[order], sides.place.pages))
    return vanished[is_lost]


async def _is_hole(root: ExtentRoot, rows: Int64Array, pages: PageReader) -> BoolArray:
    located = await tree.locate(root, rows, pages)
    return located.table.kind[located.entry] == ChunkKind.HOLE


def _misfits(sides: BothSides, dropped: frozenset[str]) -> Iterable[Conflict]:
    """Values that one side wrote while the other took away what they need."""
    staged, theirs = sides.staged, sides.state.schema
    for spec in sides.base.schema.tensors:
        mine, other = staged.working.schema.by_id(spec.id), theirs.by_id(spec.id)
        if other is not None and spec.id in dropped and sides.place.on_conflict == "theirs":
            if sides.mine.append and other.fill is None and not other.type.nullable:
                yield Conflict("drop", spec.id)  # it stays, and appended rows have no value for it
        elif mine is not None and other is not None:
            i_need_more = is_narrower(other, spec) and (
                sides.mine.append or sides.is_changed_here(spec.id)
            )
            they_need_more = is_narrower(mine, spec) and (
                sides.they_append or sides.is_changed_there(spec.id)
            )
            if i_need_more or they_need_more:
                yield Conflict("schema", spec.id)
