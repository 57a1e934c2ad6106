"""The net effect of staged changes, independent of their base version, and its application.

    Staged ──net_of──► NetChanges ──(rebase: rows moved, losers left out)──► applied ──► State

Applying writes index pages only where edits or deleted rows cut one, or a tail has grown too large;
chunks are cited where they are. The pages go to a sink: scratch ones while changes are staged, the
transaction's last pack when they are published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    Extents,
    LeafTable,
    PageReader,
    PageSink,
    Root,
    RowIdRuns,
    RowSegments,
    Schema,
    delete_rows,
    rows_of,
    select_rows,
    tree,
)
from tensorlake.versions.log.state import ExtentRoot, State, table_of
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.rows.ranges import Ranges, clip, distinct, no_ranges, rows_in
from tensorlake.versions.transaction.changeset import Edit, Staged, fill_extents
from tensorlake.versions.transaction.derived import NetCells, applied_cells, net_cells
from tensorlake.versions.transaction.groups import NetGroup, applied_groups, net_groups

__all__ = ["NetChanges", "applied", "net_of"]

Int64Array = npt.NDArray[np.int64]
T = TypeVar("T", bound=LeafTable)


@dataclass(frozen=True, slots=True)
class NetChanges:
    """Changes of the state they are to be applied to, by its physical rows.

    Attributes:
        schema: The schema of the result.
        edits: By tensor id, new extents of rows: ascending, disjoint.
        appended: By tensor id, extents of the rows added; a tensor without has its fill there.
        appended_rows: How many rows are added.
        appended_gone: Which of them are not shown, counted from the first.
        gone: Rows that are no longer shown.
        returned: Rows that are shown again, after all others.
        groups: By name, the column groups that were changed; None where dropped.
        updated: By tensor id, the rows of the edits whose values were assigned; of tensors that
            are not named, all of them.
        made: By id of a computed tensor, the cells that its values were made from.
        is_rebased: Whether the tails may grow to twice their size (format.md, "The log entry").
    """

    schema: Schema
    edits: Mapping[str, Sequence[Edit]]
    appended: Mapping[str, Extents]
    appended_rows: int
    appended_gone: Int64Array
    gone: Int64Array
    returned: Int64Array
    groups: Mapping[str, NetGroup | None] = field(default_factory=dict[str, NetGroup | None])
    updated: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])
    made: Mapping[str, NetCells] = field(default_factory=dict[str, NetCells])
    is_rebased: bool = False


async def net_of(staged: Staged, pages: PageReader, stage: PackStage) -> NetChanges:
    """Take staged changes out of their working trees, packs cited by their final names."""
    limit, working = staged.limit, staged.working
    edits: dict[str, Sequence[Edit]] = {}
    appended: dict[str, Extents] = {}
    for spec in working.schema.tensors:
        root = working.roots[spec.id]
        ranges = clip(staged.edited.get(spec.id, no_ranges()), limit)
        edits[spec.id] = [
            (start, stop, stage.with_final_ids(await table_of(root, pages, start, stop)))
            for start, stop in ranges.tolist()
        ]
        if working.physical > limit:
            table = await table_of(root, pages, limit, working.physical)
            appended[spec.id] = stage.with_final_ids(table)
    gone = rows_in(staged.deleted)
    return NetChanges(
        schema=working.schema,
        edits=edits,
        appended=appended,
        appended_rows=working.physical - limit,
        appended_gone=gone[gone >= limit] - limit,
        gone=gone[gone < limit],
        returned=np.setdiff1d(rows_in(staged.returned), gone, assume_unique=True),
        groups=await net_groups(working, staged.base_state, pages, stage),
        updated={
            spec.id: clip(staged.updated.get(spec.id, no_ranges()), limit)
            for spec in working.schema.tensors
        },
        made=await net_cells(working, staged.made, limit, pages, stage),
        is_rebased=staged.is_rebased,
    )


async def applied(
    net: NetChanges, to: State, *, txid: str, pages: PageReader, sink: PageSink
) -> State:
    """Apply net changes to a state; pages go to ``sink``."""
    roots: dict[str, ExtentRoot] = {}
    for spec in net.schema.tensors:
        root = to.roots.get(spec.id)
        if root is None:
            fill = fill_extents(spec, to.physical)
            root = await tree.append(Root.of(Extents.empty()), fill, pages, sink)
        edits = net.edits.get(spec.id)
        if edits:
            root = await tree.replace(root, edits, pages, sink)
        if net.appended_rows:
            new = net.appended.get(spec.id)
            new = fill_extents(spec, net.appended_rows) if new is None else new
            root = await _grown(net, root, new, pages, sink)
        roots[spec.id] = root
    born = RowIdRuns.run(net.appended_rows, txid)
    groups = await applied_cells(
        await applied_groups(net.groups, to, pages, sink),
        net.made,
        to,
        roots,
        net.schema,
        edited=net.edits,
        updated=net.updated,
        pages=pages,
        sink=sink,
    )
    return State(
        schema=net.schema,
        roots=roots,
        rows=await _applied_rows(net, to, pages, sink),
        row_ids=await _grown(net, to.row_ids, born, pages, sink),
        physical=to.physical + net.appended_rows,
        groups=groups,
    )


async def _applied_rows(
    net: NetChanges, to: State, pages: PageReader, sink: PageSink
) -> Root[RowSegments]:
    rows = to.rows
    if len(net.gone):
        positions = await rows_of(rows, net.gone, pages)
        rows = await delete_rows(rows, distinct(positions[positions >= 0]), pages, sink)
    if len(net.returned):
        rows = await tree.append(rows, select_rows(net.returned), pages, sink)
    start, stop = to.physical, to.physical + net.appended_rows
    if len(net.appended_gone):
        kept = np.setdiff1d(np.arange(net.appended_rows), net.appended_gone)
        return await _grown(net, rows, select_rows(kept + start), pages, sink)
    return await _grown(net, rows, RowSegments.range(start, stop), pages, sink)


async def _grown(
    net: NetChanges, root: Root[T], table: T, pages: PageReader, sink: PageSink
) -> Root[T]:
    if not int(table.rows.sum()):
        return root
    if net.is_rebased:
        return await tree.concat(root, Root.of(table), pages, sink)
    return await tree.append(root, table, pages, sink)
