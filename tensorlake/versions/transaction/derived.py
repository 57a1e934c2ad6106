"""Staged cells of computed tensors: how they are published, and how they move to a newer entry.

A refresh stages values of a computed tensor, and with them the cells that they were made from
(``versions/rows/derived.py``). Both are published row by row: what another commit computed
meanwhile for other rows stays, and of one row the later writer's value, with its own inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    ColumnGroup,
    Extents,
    PageReader,
    PageSink,
    Schema,
    cells_at,
    same_extents,
    with_cells,
)
from tensorlake.versions.log.state import ExtentRoot, State, table_of
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.rows.alignment import subtract
from tensorlake.versions.rows.derived import (
    carried_groups,
    derived_group,
    derived_tensor,
    group_of,
    is_current,
)
from tensorlake.versions.rows.ranges import Ranges, intersect, no_ranges, union

__all__ = [
    "NetCells",
    "Sides",
    "applied_cells",
    "followed_cells",
    "moved_cells",
    "net_cells",
    "with_made",
    "with_rewritten",
]

Int64Array = npt.NDArray[np.int64]
Edit = tuple[int, int, Extents]


@dataclass(frozen=True, slots=True)
class NetCells:
    """The cells that staged values of one computed tensor were made from.

    Attributes:
        code: The digest of the function.
        edits: By id of each input, and of the tensor itself, the places of rows: ascending, packs
            cited by their final names. Rows from ``limit`` on were appended.
        limit: Physical rows of the state that the edits are for.
    """

    code: str
    edits: Mapping[str, Sequence[Edit]]
    limit: int


async def with_made(
    state: State,
    tensor_id: str,
    rows: Ranges,
    read: Mapping[str, ExtentRoot],
    assigned: Mapping[str, Ranges],
    pages: PageReader,
    sink: PageSink,
) -> State:
    """Note in a state that rows of a computed tensor were made from the cells of other trees.

    Rows of these that were never assigned have their values in the state's trees, too, where an
    assignment to a neighbour may have written them again. So they are noted as they are there.

    Args:
        state: The state, with the values.
        tensor_id: The computed tensor.
        rows: Their physical rows.
        read: By id, the trees that its inputs were read from.
        assigned: By tensor id, the rows of the state that were given values.
        pages: Where to read pages.
        sink: Takes the new pages.
    """
    schema = state.schema
    group = _usable(state.groups, tensor_id, schema)
    if group is None:
        return state
    edits: dict[str, list[Edit]] = {}
    for id_ in group.covers:
        root = state.roots[id_]
        kept = rows if id_ == tensor_id else subtract(rows, assigned.get(id_, no_ranges()))
        found = [*await cells_at(root, kept, pages)]
        found += await cells_at(read.get(id_, root), subtract(rows, kept), pages)
        edits[id_] = sorted(found, key=lambda edit: edit[0])
    group = await _with_cells(group, edits, state.physical, pages, sink)
    return replace(state, groups={**state.groups, group_of(tensor_id): group})


async def with_rewritten(
    before: State,
    after: State,
    tensor_id: str,
    written: Ranges,
    assigned: Ranges,
    pages: PageReader,
    sink: PageSink,
) -> State:
    """Note in a state that, of the cells written, some were written again with their values."""
    rows = subtract(union([written]), assigned)
    if not len(rows) or not any(tensor_id in group.covers for group in before.groups.values()):
        return after
    roots, unchanged = {tensor_id: after.roots[tensor_id]}, {tensor_id: rows}
    return replace(after, groups=await carried_groups(before, roots, unchanged, pages, sink))


async def net_cells(
    working: State,
    made: Mapping[str, Ranges],
    limit: int,
    pages: PageReader,
    stage: PackStage,
) -> dict[str, NetCells]:
    """Take the cells that values were made from out of the working state, by computed tensor."""
    net: dict[str, NetCells] = {}
    for tensor_id, rows in made.items():
        group = working.groups.get(group_of(tensor_id))
        if group is None:
            continue  # the tensor, or an input, was dropped
        below = np.array([[0, limit]], np.int64)
        parts = [intersect(rows, below), subtract(rows, below)]
        edits: dict[str, list[Edit]] = {}
        for id_, one in group.covers.items():
            found = [edit for part in parts for edit in await cells_at(one.state, part, pages)]
            edits[id_] = [(a, b, stage.with_final_ids(table)) for a, b, table in found]
        net[tensor_id] = NetCells(str(group.parameters["code"]), edits, limit)
    return net


def moved_cells(
    net: Mapping[str, NetCells],
    moves: Mapping[str, tuple[Int64Array, Int64Array]],
    limit: int,
) -> tuple[dict[str, NetCells], dict[str, Ranges]]:
    """Move cells to a newer entry.

    Args:
        net: The cells, by computed tensor.
        moves: By tensor id, the rows whose values move, and their new places; of tensors not
            named, all stay where they are.
        limit: Physical rows of the newer entry, after which appended rows come.

    Returns:
        The cells, and by computed tensor the rows that they are of.
    """
    moved: dict[str, NetCells] = {}
    made: dict[str, Ranges] = {}
    for tensor_id, one in net.items():
        edits: dict[str, list[Edit]] = {}
        for id_, old in one.edits.items():
            new: list[Edit] = []
            for start, stop, table in old:
                if start >= one.limit:
                    new.append((start - one.limit + limit, stop - one.limit + limit, table))
                elif tensor_id in moves:
                    new += _moved(start, stop, table, *moves[tensor_id])
                else:
                    new.append((start, stop, table))
            edits[id_] = sorted(new, key=lambda edit: edit[0])
            rows = np.array([edit[:2] for edit in new], np.int64).reshape(-1, 2)
            made[tensor_id] = union([rows])
        moved[tensor_id] = replace(one, edits=edits, limit=limit)
    return moved, made


async def followed_cells(
    net: Mapping[str, NetCells],
    sides: Sides,
    pages: PageReader,
) -> dict[str, NetCells]:
    """Let cells follow those of a newer entry that were written again with their values.

    Args:
        net: The cells, by computed tensor, before they are moved.
        sides: Which cells both sides changed.
        pages: Where to read pages.
    """
    found: dict[str, NetCells] = {}
    for tensor_id, one in net.items():
        edits: dict[str, list[Edit]] = {}
        for id_, old in one.edits.items():
            changed = sides.changed_there.get(id_, no_ranges())
            here, there = sides.working.roots.get(id_), sides.head.roots.get(id_)
            if here is None or there is None or changed is None:
                edits[id_] = [*old]
                continue
            stays = union((changed, sides.assigned_here.get(id_, no_ranges()), sides.kept[id_]))
            edits[id_] = []
            for edit in old:
                edits[id_] += await _followed(edit, one.limit, here, there, stays, pages)
        found[tensor_id] = replace(one, edits=edits)
    return found


@dataclass(frozen=True, slots=True)
class Sides:
    """The changes of a transaction, and of the entries since its base; rows are the base's.

    Attributes:
        working: The state with the staged changes.
        head: The newest entry's.
        assigned_here: By tensor id, the rows that were given values.
        kept: By tensor id, the rows that are as staged in the result.
        changed_there: By tensor id, the rows that the entries gave values; None where unknown.
    """

    working: State
    head: State
    assigned_here: Mapping[str, Ranges]
    kept: Mapping[str, Ranges]
    changed_there: Mapping[str, Ranges | None]


async def _followed(
    edit: Edit,
    limit: int,
    here: ExtentRoot,
    there: ExtentRoot,
    stays: Ranges,
    pages: PageReader,
) -> list[Edit]:
    """Return one edit, with the places that rows of it have in a newer tree."""
    start, stop, table = edit
    if start >= limit:
        return [edit]
    is_here = start + same_extents(table, await table_of(here, pages, start, stop))
    rows = subtract(is_here, stays)
    left = subtract(np.array([[start, stop]], np.int64), rows)
    kept = [(a, b, table.slice_rows(a - start, b - start)) for a, b in left.tolist()]
    return sorted([*kept, *await cells_at(there, rows, pages)], key=lambda one: one[0])


def _moved(
    start: int, stop: int, table: Extents, rows: Int64Array, places: Int64Array
) -> list[Edit]:
    """Cut an edit into one for each run of rows that move together."""
    is_inside = (rows >= start) & (rows < stop)
    rows, places = rows[is_inside] - start, places[is_inside]
    if not len(rows):
        return []
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(places) != 1)) + 1
    bounds = pairwise([0, *breaks.tolist(), len(rows)])
    runs = [(int(rows[a]), int(places[a]), b - a) for a, b in bounds]
    return [(at, at + count, table.slice_rows(row, row + count)) for row, at, count in runs]


async def applied_cells(
    groups: Mapping[str, ColumnGroup],
    net: Mapping[str, NetCells],
    to: State,
    roots: Mapping[str, ExtentRoot],
    schema: Schema,
    *,
    edited: Mapping[str, Sequence[Edit]],
    updated: Mapping[str, Ranges],
    pages: PageReader,
    sink: PageSink,
) -> Mapping[str, ColumnGroup]:
    """Return the column groups of a result, with those of computed tensors.

    Args:
        groups: The groups, those of computed tensors as ``to`` has them.
        net: The cells that staged values were made from.
        to: The state that changes were applied to.
        roots: The trees of the result.
        schema: Its schema.
        edited: By tensor id, the edits that were applied.
        updated: By tensor id, the rows that were given values; others were written again as they
            were. All rows of tensors that are not named were.
        pages: Where to read pages.
        sink: Takes the new pages.
    """
    if not net and not any(derived_tensor(group) for group in groups.values()):
        return groups
    unchanged: dict[str, Ranges] = {}
    for id_, edits in edited.items():
        if edits and id_ in updated:
            rows = np.array([edit[:2] for edit in edits], np.int64)
            unchanged[id_] = subtract(union([rows]), updated[id_])
    to = replace(to, groups=groups)
    found = await carried_groups(to, dict(roots), unchanged, pages, sink)
    physical = max((root.rows for root in roots.values()), default=0)
    for tensor_id, one in net.items():
        group = _usable(found, tensor_id, schema)
        if group is not None and group.parameters["code"] == one.code:
            group = await _with_cells(group, one.edits, physical, pages, sink)
            found[group_of(tensor_id)] = group
    return found


def _usable(
    groups: Mapping[str, ColumnGroup], tensor_id: str, schema: Schema
) -> ColumnGroup | None:
    """Return the group that cells are added to: an empty one where all cells of it are stale."""
    spec = schema.by_id(tensor_id)
    empty = None if spec is None or not spec.has_function else derived_group(spec, schema)
    known = groups.get(group_of(tensor_id))
    if spec is None or empty is None or known is None or not is_current(known, spec, schema):
        return empty
    covers = {id_: replace(one, reads=empty.covers[id_].reads) for id_, one in known.covers.items()}
    return replace(known, covers=covers)


async def _with_cells(
    group: ColumnGroup,
    edits: Mapping[str, Sequence[Edit]],
    rows: int,
    pages: PageReader,
    sink: PageSink,
) -> ColumnGroup:
    covers = {
        id_: replace(one, state=await with_cells(one.state, edits.get(id_, ()), rows, pages, sink))
        for id_, one in group.covers.items()
    }
    return replace(group, covers=covers)
