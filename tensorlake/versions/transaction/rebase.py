"""Moving staged changes onto a newer entry of their branch: after a lost race, and in ``refresh``.

    changes of both ──find_conflicts──► suspects ──compare trees and cells──► conflicts ──policy──►
    what stays of mine ──rows moved to the head's axis──► applied to the head: Staged again

Physical rows mean the same along a log, so rows move only across an entry that records ``rewrite``
(restore, reordering): there they are matched by row id, and a row that is not found is gone. No
chunk is encoded or sent again, and unreferenced chunks in packs cost only their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.format import Entry, Extents
from tensorlake.storage import runtime
from tensorlake.versions.log.state import ExtentRoot, table_of
from tensorlake.versions.rows.conflict_rules import Conflict
from tensorlake.versions.rows.ranges import (
    Ranges,
    clip,
    known_union,
    no_ranges,
    ranges_of,
    rows_in,
    union,
)
from tensorlake.versions.transaction.changeset import Edit, Staged
from tensorlake.versions.transaction.conflicts import BothSides, Overlap, Rebasing, overlap_of
from tensorlake.versions.transaction.delta import NetChanges, applied, net_of
from tensorlake.versions.transaction.derived import Sides, followed_cells, moved_cells
from tensorlake.versions.transaction.groups import group_conflicts

__all__ = ["Rebased", "rebase"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rebased:
    """Changes on the newer entry, or the conflicts that prevent the move."""

    staged: Staged
    conflicts: tuple[Conflict, ...] = ()


def rebase(staged: Staged, head: Entry, between: Sequence[Entry], place: Rebasing) -> Rebased:
    """Move staged changes onto ``head``; call it in the caller's thread, for it compares cells.

    Args:
        staged: Changes whose samples are all in chunks.
        head: The new base, its pages loaded.
        between: The entries after the changes' base, up to ``head``.
        place: The context of the rebase.

    Returns:
        The changes on ``head``; where they conflict, as they were, with the conflicts.
    """
    sides = BothSides.of(staged, head, between, place)
    overlap = overlap_of(sides)
    conflicts = (
        *overlap.unresolved(place.on_conflict),
        *group_conflicts(staged.working, staged.base_state, sides.state),
    )
    if conflicts:
        return Rebased(staged, conflicts)
    plan = _plan(sides, overlap)
    return Rebased(runtime.run(_moved(sides, overlap, plan)))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Positions of the base's rows on the head's axis.

    Attributes:
        moves: By tensor id, rows updated here and their places; of tensors not named, all edits
            stay where they are.
        gone: Places of rows deleted here.
        returned: Places of rows that are shown again.
    """

    moves: Mapping[str, tuple[Int64Array, Int64Array]]
    gone: Int64Array
    returned: Int64Array


def _plan(sides: BothSides, overlap: Overlap) -> _Plan:
    staged, policy = sides.staged, sides.place.on_conflict
    back = np.setdiff1d(rows_in(staged.returned), rows_in(staged.deleted), assume_unique=True)
    if policy == "ours":
        back = np.union1d(back, overlap.vanished)
    targets = sides.targets(back)
    returned = targets[(targets >= 0) & ~sides.is_shown(targets)]
    deleted = rows_in(clip(staged.deleted, staged.limit))
    if policy == "theirs":
        deleted = np.setdiff1d(deleted, overlap.touched, assume_unique=True)
    gone = sides.targets(deleted)
    moves: dict[str, tuple[Int64Array, Int64Array]] = {}
    for spec in overlap.schema.schema.tensors:
        rows = staged.updated_rows(spec.id)
        if spec.id in overlap.same:
            rows = np.setdiff1d(rows, overlap.same[spec.id], assume_unique=True)
        rows = np.setdiff1d(rows, overlap.idle, assume_unique=True)
        is_apart = sides.is_rewritten or sides.their_updates(spec.id) or len(overlap.idle) > 0
        if policy == "theirs":
            lost = np.union1d(overlap.cells.get(spec.id, overlap.vanished), overlap.vanished)
            is_apart = is_apart or len(lost) > 0
            rows = np.setdiff1d(rows, lost, assume_unique=True)
        if is_apart:
            places = sides.targets(rows)
            order = np.argsort(places, kind="stable")
            order = order[places[order] >= 0]
            moves[spec.id] = rows[order], places[order]
    return _Plan(moves, np.sort(gone[gone >= 0]), np.sort(returned))


async def _moved(sides: BothSides, overlap: Overlap, plan: _Plan) -> Staged:
    staged, state, place = sides.staged, sides.state, sides.place
    schema = overlap.schema.schema
    net = await net_of(staged, place.pages, place.stage)
    edits: dict[str, Sequence[Edit]] = {}
    edited: dict[str, Ranges] = {}
    updated: dict[str, Ranges] = {}
    appended: dict[str, Extents] = {}
    for spec in schema.tensors:
        root = staged.working.roots.get(spec.id)
        if root is None:
            continue  # theirs, or kept by the policy: rows added here have its fill
        read_as = overlap.schema.tensors[spec.id].read_as
        if spec.id in plan.moves:
            rows, places = plan.moves[spec.id]
            found: Sequence[Edit] = await _edits_at(root, rows, places, place)
            edited[spec.id] = updated[spec.id] = ranges_of(places)
        else:
            found = net.edits[spec.id]
            edited[spec.id] = clip(staged.edited.get(spec.id, no_ranges()), staged.limit)
            updated[spec.id] = clip(staged.updated.get(spec.id, no_ranges()), staged.limit)
        edits[spec.id] = [(start, stop, read_as.of(table)) for start, stop, table in found]
        if net.appended_rows:
            appended[spec.id] = read_as.of(net.appended[spec.id])
    followed = net.made
    if followed and not sides.is_rewritten:
        followed = await followed_cells(net.made, _sides_of(sides, plan, net), place.pages)
    cells, made = moved_cells(followed, plan.moves, state.physical)
    moved = replace(
        net,
        schema=schema,
        edits=edits,
        appended=appended,
        gone=plan.gone,
        returned=plan.returned,
        updated=updated,
        made=cells,
        is_rebased=True,
    )
    working = await applied(moved, state, txid=place.txid, pages=place.pages, sink=place.scratch)
    return Staged(
        base=sides.head,
        base_state=state,
        working=working,
        edited={id_: ranges for id_, ranges in edited.items() if len(ranges)},
        updated={id_: ranges for id_, ranges in updated.items() if len(ranges)},
        deleted=union((ranges_of(plan.gone), ranges_of(net.appended_gone + state.physical))),
        returned=ranges_of(plan.returned),
        schema_changes=_schema_changes(staged, overlap),
        created=staged.created & {spec.id for spec in schema.tensors},
        is_rebased=True,
        made={id_: rows for id_, rows in made.items() if len(rows)},
    )


def _sides_of(sides: BothSides, plan: _Plan, net: NetChanges) -> Sides:
    """Describe which cells both sides changed, for those that values were made from."""
    updates = [changes.update for changes in sides.theirs]
    ids = {id_ for one in net.made.values() for id_ in one.edits}
    kept: dict[str, Ranges] = {}
    for id_ in ids:
        edits = [edit[:2] for edit in net.edits.get(id_, ())]
        rows = np.array(edits, np.int64).reshape(-1, 2)
        kept[id_] = ranges_of(plan.moves[id_][0]) if id_ in plan.moves else union([rows])
    return Sides(
        sides.staged.working,
        sides.state,
        net.updated,
        kept,
        {id_: known_union(one.get(id_, ()) for one in updates) for id_ in ids},
    )


async def _edits_at(
    root: ExtentRoot, rows: Int64Array, places: Int64Array, place: Rebasing
) -> list[Edit]:
    """Extents of some rows as edits of other places (ascending), one for each run of both."""
    if not len(rows):
        return []
    low = int(rows.min())
    table = await table_of(root, place.pages, low, int(rows.max()) + 1)
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(places) != 1)) + 1
    starts = np.concatenate(([0], breaks))
    stops = np.concatenate((breaks, [len(rows)]))
    return [
        (
            int(places[start]),
            int(places[start]) + int(stop - start),
            table.slice_rows(int(rows[start]) - low, int(rows[start]) - low + int(stop - start)),
        )
        for start, stop in zip(starts, stops, strict=True)
    ]


def _schema_changes(staged: Staged, overlap: Overlap) -> tuple[Mapping[str, Any], ...]:
    """Return the changes to the head's schema; checks made for these changes stay valid."""
    checked = {(one["op"], one["tensor"]) for one in staged.schema_changes if one.get("checked")}
    return tuple(
        {**change, "checked": True} if (change["op"], change["tensor"]) in checked else change
        for change in overlap.schema.changes
    )
