"""Putting the rows of a branch into another order, physically: ``optimize(order_by=…)``.

    before   physical 0 … P − 1, of which N rows are shown, in some order
    after    0 … N − 1 the same rows in the new order │ N … P − 1 a hole │ P … appended concurrently

Every tensor is rewritten, a batch of rows at a time. Row ids move along with their rows;
``physical`` does not shrink, so rows appended concurrently keep their place. The entry
records ``rewrite``: across it only row ids are compared.

It yields like any optimization. On a newer head, rows deleted concurrently are hidden, rows
appended follow, and cells updated concurrently are copied from the head. Changes that cannot be
carried over (of the schema, a restore, another order) restart the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    NO_TXID,
    Changes,
    ChunkKind,
    ColumnGroup,
    Entry,
    Extents,
    LeafTable,
    PackId,
    PageSink,
    Parts,
    Root,
    RowIdRuns,
    RowSegments,
    TensorSpec,
    row_ids,
    select_rows,
    tree,
)
from tensorlake.storage import runtime
from tensorlake.types import Column
from tensorlake.versions.log.entries import fence_of
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import ExtentRoot, State, state_of, table_of
from tensorlake.versions.maintenance.index_edits import (
    REWRITTEN_ENTRIES,
    dropped_before,
    optimized_members,
)
from tensorlake.versions.maintenance.optimize import Optimized, TensorOptimized, chunks_in
from tensorlake.versions.packs.chunk_builder import PendingChunks, column_nbytes
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.packs.writer import DryStage, PackStage
from tensorlake.versions.rows.alignment import subtract
from tensorlake.versions.rows.derived import fresh_group, fresh_rows, group_of, mask_of
from tensorlake.versions.rows.live_rows import visible_rows
from tensorlake.versions.rows.ranges import clip, known_union, ranges_of, rows_in, union
from tensorlake.versions.transaction.publish import Draft, Publication, publish

__all__ = ["Begun", "ReadColumn", "recluster"]

Int64Array = npt.NDArray[np.int64]
ReadColumn = Callable[[TensorSpec, Int64Array], Column]
"""Reads stored samples of physical rows, in the requested order."""

BATCH_NBYTES = 16 << 20
FIRST_BATCH_ROWS = 256
BATCH_ROWS_MAX = 1 << 18
IDS_AT_ONCE = 1 << 18

CARRIED_ROWS_MAX = 1 << 16
"""Cells updated meanwhile that are carried over one by one; more begin the work again."""


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """The version to sort.

    Attributes:
        head: Its entry, loaded.
        state: Content of that entry.
        order: Its physical rows, in the new order.
    """

    head: Entry
    state: State
    order: Int64Array


def recluster(
    log: BranchLog,
    packs: PackReader,
    begun: Begun,
    read: ReadColumn,
    *,
    author: str | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Optimized | None:
    """Write a version's rows in a new order and publish them; None when it must begin again.

    A dry run does all but storing and publishing.

    Never call it on the storage loop. Memory holds 8 bytes per row for the order, the extents of
    the new chunks, and a few chunks.
    """
    stage = DryStage(packs.store) if dry_run else PackStage(packs.store)
    if not dry_run:
        packs.attach(stage)
    specs = begun.state.schema.tensors
    made = {spec.id: _rewritten(spec, begun, read, stage, progress) for spec in specs}
    entry: Entry | None = None
    if not dry_run:
        entry = _published(log, packs, begun, made, stage, author)
        if entry is None:
            return None
    reports: list[TensorOptimized] = []
    for spec in specs:
        before = runtime.run(_chunks_of(begun.state.roots[spec.id], packs))
        now = chunks_in(made[spec.id])
        reports.append(
            TensorOptimized(
                spec.name,
                chunks_before=len(before),
                chunks_moved=len(before),
                chunks_made=len(now),
                nbytes_moved=sum(before.values()),
                nbytes_made=sum(now.values()),
                dead_rows=begun.state.physical - len(begun.order) - dropped_before(begun.head),
            )
        )
    return Optimized(tuple(reports), () if entry is None else (entry,))


async def _chunks_of(root: ExtentRoot, packs: PackReader) -> dict[tuple[PackId, int], int]:
    found: dict[tuple[PackId, int], int] = {}
    async for _, table in tree.scan(root, packs.pages, parts=Parts.LOCATIONS):
        found |= chunks_in(table)
    return found


def _rewritten(
    spec: TensorSpec,
    begun: Begun,
    read: ReadColumn,
    stage: PackStage,
    progress: Callable[[int], None],
) -> Extents:
    """Make chunks of a tensor's samples in the new order."""
    root, count = begun.state.roots[spec.id], len(begun.order)
    if not root.children and bool((root.tail.kind == ChunkKind.FILL).all()) and len(root.tail):
        first = root.tail.take(np.zeros(1, np.int64))
        return replace(
            Extents.without_bytes(ChunkKind.FILL, count, read_as=int(first.read_as[0])),
            statistics=first.statistics.take(
                np.zeros(len(Extents.without_bytes(ChunkKind.FILL, count)), np.int64)
            ),
        )
    pending = PendingChunks(spec)
    done, batch_rows = 0, FIRST_BATCH_ROWS
    while done < count:
        column = read(spec, begun.order[done : done + batch_rows])
        pending = pending.with_column(column, stage)
        done += len(column)
        nbytes = column_nbytes(column)
        progress(nbytes)
        mean = max(1, nbytes // len(column))
        batch_rows = min(BATCH_ROWS_MAX, max(1, BATCH_NBYTES // mean))
    return pending.seal(stage).to_table()


def _published(
    log: BranchLog,
    packs: PackReader,
    begun: Begun,
    made: dict[str, Extents],
    stage: PackStage,
    author: str | None,
) -> Entry | None:
    def prepare(head: Entry, since: Sequence[Entry]) -> Draft:
        theirs = [one.changes for one in since if one.kind == "commit"]
        state = state_of(head)

        async def build(sink: PageSink) -> State | None:
            del sink  # the stage that the chunks are in
            return await _combined(begun, state, theirs, made, packs, stage)

        members = {
            "message": "optimize: rows in another order",
            **optimized_members(head, state, author=author),
            "changes": Changes(rewrite=True),
        }
        return Draft(build, members, keeps_schema=True)

    work = Publication(log, packs, stage, began_at_fence=fence_of(begun.head).t)
    ended = publish(work, begun.head, prepare)
    return ended.published.entry if ended.is_published else None


async def _combined(
    begun: Begun,
    head: State,
    theirs: Sequence[Changes],
    made: dict[str, Extents],
    packs: PackReader,
    stage: PackStage,
) -> State | None:
    """Return the new order, including changes by others since; None if that is impossible."""
    if any(change.rewrite or change.schema for change in theirs):
        return None
    base, pages = begun.state, packs.pages
    limit, count = base.physical, len(begun.order)
    roots: dict[str, ExtentRoot] = {}
    for spec in base.schema.tensors:
        updated = _updated(theirs, spec.id, limit)
        if updated is None:
            return None
        extents = Extents.concat(
            [
                stage.with_final_ids(made[spec.id]),
                Extents.without_bytes(ChunkKind.HOLE, limit - count),
            ]
        )
        root = await _grown(Root.of(Extents.empty()), extents, packs, stage)
        edits = await _carried(begun, head.roots[spec.id], updated, packs)
        root = await tree.replace(root, edits, pages, stage) if edits else root
        roots[spec.id] = await _with_appended(root, head.roots[spec.id], limit, packs, stage)
    ids = await _grown(Root.of(RowIdRuns.empty()), await _ids(begun, packs), packs, stage)
    if limit > count:
        ids = await tree.append(ids, RowIdRuns.run(limit - count, NO_TXID), pages, stage)
    rows = await _rows(begun, head, packs)
    if rows is None:
        return None
    state = State(
        schema=head.schema,
        roots=roots,
        rows=await _grown(Root.of(RowSegments.empty()), rows, packs, stage),
        row_ids=await _with_appended(ids, head.row_ids, limit, packs, stage),
        physical=head.physical,
        groups=head.groups,
    )
    return replace(state, groups=await _with_fresh(begun, head, state, packs, stage))


async def _with_fresh(
    begun: Begun, head: State, sorted_: State, packs: PackReader, stage: PackStage
) -> Mapping[str, ColumnGroup]:
    """Return the groups; those of computed tensors have the fresh rows, at their new places."""
    groups = dict(head.groups)
    for spec in head.schema.tensors:
        group = groups.get(group_of(spec.id))
        if group is None:
            continue
        fresh = await fresh_rows(head, spec, packs.pages)
        moved, limit = clip(fresh, begun.state.physical), begun.state.physical
        is_fresh = mask_of(moved, limit)[begun.order]
        rows = union((ranges_of(np.flatnonzero(is_fresh)), subtract(fresh, moved)))
        groups[group_of(spec.id)] = await fresh_group(group, sorted_, rows, packs.pages, stage)
    return groups if groups != dict(head.groups) else head.groups


def _updated(theirs: Sequence[Changes], tensor_id: str, limit: int) -> Int64Array | None:
    """Physical rows of the base that others updated, sorted; None when there are too many."""
    updated = known_union(changes.update.get(tensor_id, ()) for changes in theirs)
    if updated is None or int((updated[:, 1] - updated[:, 0]).sum()) > CARRIED_ROWS_MAX:
        return None
    rows = rows_in(updated)
    return rows[rows < limit]


async def _carried(
    begun: Begun, root: ExtentRoot, updated: Int64Array, packs: PackReader
) -> list[tuple[int, int, Extents]]:
    """Let rows that others updated have the head's extents, at their new places."""
    by_row = np.argsort(begun.order, kind="stable")
    at = np.searchsorted(begun.order, updated, sorter=by_row)
    is_shown = at < len(by_row)
    is_shown[is_shown] = begun.order[by_row[at[is_shown]]] == updated[is_shown]
    updated, places = updated[is_shown], by_row[at[is_shown]]
    if not len(updated):
        return []
    located = await tree.locate(root, updated, packs.pages)
    order = np.argsort(places)
    edits: list[tuple[int, int, Extents]] = []
    for place, entry, offset in zip(
        places[order].tolist(),
        located.entry[order].tolist(),
        located.offset[order].tolist(),
        strict=True,
    ):
        one = located.table.take(np.array([entry])).slice_rows(offset, offset + 1)
        edits.append((place, place + 1, one))
    return edits


async def _with_appended(
    root: Root[Any], head: Root[Any], limit: int, packs: PackReader, stage: PackStage
) -> Root[Any]:
    """Add what the head has from physical row ``limit`` on."""
    if head.rows == limit:
        return root
    appended = await table_of(head, packs.pages, limit, head.rows)
    return await tree.append(root, appended, packs.pages, stage)


async def _grown(
    root: Root[Any], table: LeafTable, packs: PackReader, stage: PackStage
) -> Root[Any]:
    """Append a long table, a leaf's worth at a time."""
    for start in range(0, len(table), REWRITTEN_ENTRIES):
        part = table.take(np.arange(start, min(len(table), start + REWRITTEN_ENTRIES)))
        root = await tree.append(root, part, packs.pages, stage)
    return root


async def _ids(begun: Begun, packs: PackReader) -> RowIdRuns:
    """The row ids of the rows, in the new order."""
    parts = [
        RowIdRuns.of_ids(
            await row_ids(begun.state.row_ids, begun.order[at : at + IDS_AT_ONCE], packs.pages)
        )
        for at in range(0, len(begun.order), IDS_AT_ONCE)
    ]
    return RowIdRuns.concat(parts).united() if parts else RowIdRuns.empty()


async def _rows(begun: Begun, head: State, packs: PackReader) -> RowSegments | None:
    """The shown rows, in the new order, then those appended; None if deleted ones were restored."""
    pages, limit = packs.pages, begun.state.physical
    shown = await visible_rows(head.rows, 0, limit, pages)
    kept = np.flatnonzero(shown[begun.order])
    appended = await table_of(head.rows, pages, len(kept), head.rows.rows)
    if len(appended) and int(appended.base.min()) < limit:
        return None  # rows were restored that were not shown
    return RowSegments.concat([select_rows(kept), appended]).united()
