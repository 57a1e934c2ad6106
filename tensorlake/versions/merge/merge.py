"""Merge a branch into another: three-way, by row id, without copying a chunk.

    ours ──┬─► plan ──► pages in ours' trees, own pack ──► entry: parents ours and theirs
    theirs ┘            theirs' chunks are referenced, pinned until the entry is published

If ours has nothing new since the base, the result is theirs' content (fast-forward): physical rows
then have another meaning, so the entry records ``rewrite``, and the axis is padded with a hole if
it would become shorter. A merge that loses a race is planned again on the new head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.errors import ConstraintError
from tensorlake.format import (
    NO_TXID,
    Base,
    Changes,
    Entry,
    Extents,
    Features,
    PackTotals,
    PageReader,
    PageSink,
    Parent,
    Root,
    RowIdRuns,
    RowSegments,
    delete_rows,
    rows_of,
    select_ranges,
    tree,
)
from tensorlake.storage import Store, runtime
from tensorlake.types import take
from tensorlake.versions.log.entries import fence_of
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import ExtentRoot, Published, State
from tensorlake.versions.merge.base import (
    Version,
    contains,
    merge_bases,
    vector_of,
    version_at,
    was_reordered,
)
from tensorlake.versions.merge.conflicts import merge_conflict_error
from tensorlake.versions.merge.derived import FreshRows, fresh_after, merged_cells
from tensorlake.versions.merge.plan import MergePlan, MergeRequest
from tensorlake.versions.merge.planner import plan_merge
from tensorlake.versions.merge.restore import content_of
from tensorlake.versions.merge.side import CellReader, Side
from tensorlake.versions.packs.chunk_builder import place_column
from tensorlake.versions.packs.reader import PackReader, ScratchPages, loaded
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.refs.pins import holding
from tensorlake.versions.rows.alignment import windows
from tensorlake.versions.rows.ranges import Ranges, ranges_of, rows_in, union
from tensorlake.versions.rows.schema_rules import CombinedTensor
from tensorlake.versions.transaction.changeset import Edit, fill_extents
from tensorlake.versions.transaction.groups import MergedGroups, merged_groups
from tensorlake.versions.transaction.publish import Draft, Publication, publish

__all__ = ["MergeOutcome", "merge_branch"]

Int64Array = npt.NDArray[np.int64]
HowMerged = Literal["nothing", "fast-forward", "merge"]


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """The outcome of a merge or of its dry run.

    Attributes:
        how: Whether there was nothing to do, theirs' content was adopted, or both were combined.
        ours: The commit merged into.
        theirs: The commit merged.
        bases: The commits at which they diverged.
        plan: The plan; None unless both were combined.
        is_refused: Whether there are undecided conflicts, or rows of the result break a check; in a
            dry run only.
        broken: Why the result would be refused though all conflicts are decided; "" if it is not.
        groups: The column groups of the result; None unless both were combined.
        published: The commit made; None in a dry run, or when there was nothing to do.
    """

    how: HowMerged
    ours: Version
    theirs: Version
    bases: tuple[Version, ...] = ()
    plan: MergePlan | None = None
    is_refused: bool = False
    groups: MergedGroups | None = None
    published: Published | None = None
    broken: str = ""


def merge_branch(
    log: BranchLog,
    packs: PackReader,
    theirs: Version,
    request: MergeRequest,
    cells: CellReader,
    *,
    head: Entry,
    message: str,
    dry_run: bool = False,
    hold: Callable[[], AbstractContextManager[None]] | None = None,
) -> MergeOutcome:
    """Merge a version into a branch and publish the result.

    Args:
        log: The branch merged into.
        packs: Reader of its packs.
        theirs: The version merged.
        request: The parts to take, and the decision of conflicts.
        cells: Compares values.
        head: An entry of the branch, not older than the caller's version.
        message: Message of the commit.
        dry_run: Only report the outcome, including conflicts, and rows that break a check. Cells
            for a function to decide are checked as ours has them.
        hold: Keeps theirs, a version of a base, while it is merged; None pins it in the dataset.

    Raises:
        ConflictError: Both changed the same cells, rows or schema, without a decision; nothing was
            published.
        SnapshotExpiredError: Theirs expired meanwhile.
    """
    merging = _Merging(log, packs, theirs, request, cells, message)
    head = runtime.run(loaded(runtime.run(log.newest_from(head)), packs))
    if dry_run:
        outcome, draft = merging.prepare(head, PackStage(log.store), refuse=False)
        return outcome if draft is None or outcome.is_refused else _tried(outcome, draft, packs)
    ours = runtime.run(version_at(log.store, log.branch, head, packs))
    if contains(ours.vector, theirs.key, theirs.entry.seq):
        return MergeOutcome("nothing", ours, theirs)
    stage = PackStage(log.store)
    packs.attach(stage)
    outcomes: list[MergeOutcome] = []

    def prepare(newest: Entry, since: Sequence[Entry]) -> Draft | None:
        del since  # it is planned again on the newest entry
        outcome, draft = merging.prepare(newest, stage, refuse=True)
        outcomes.append(outcome)
        return draft

    held = (
        holding(log.store, theirs.branch, theirs.entry, txid=stage.txid) if hold is None else hold()
    )
    with held as pin:
        work = Publication(log, packs, stage, began_at_fence=fence_of(head).t, pin=pin)
        ended = publish(work, head, prepare)
    return replace(outcomes[-1], published=ended.published if ended.is_published else None)


def _tried(outcome: MergeOutcome, draft: Draft, packs: PackReader) -> MergeOutcome:
    """Build the result of a dry run in memory, and note why it would be refused."""
    if draft.verify is None:
        return outcome
    scratch = ScratchPages(PackStage(packs.store).txid)
    packs.attach(scratch)

    async def built() -> State | None:
        return await draft.build(scratch)

    state = runtime.run(built())
    assert state is not None, "a merge has a result"
    try:
        draft.verify(state)
    except ConstraintError as error:
        return replace(outcome, is_refused=True, broken=str(error).partition("\n")[0])
    return outcome


@dataclass(frozen=True, slots=True)
class _Merging:
    log: BranchLog
    packs: PackReader
    theirs: Version
    request: MergeRequest
    cells: CellReader
    message: str

    def prepare(
        self, head: Entry, stage: PackStage, *, refuse: bool
    ) -> tuple[MergeOutcome, Draft | None]:
        """Plan the merge into a head; None if there is nothing to do."""
        store, theirs = self.log.store, self.theirs
        ours = runtime.run(version_at(store, self.log.branch, head, self.packs))
        if contains(ours.vector, theirs.key, theirs.entry.seq):
            return MergeOutcome("nothing", ours, theirs), None
        if self.request.tensors is None and contains(theirs.vector, ours.key, ours.entry.seq):
            outcome = MergeOutcome("fast-forward", ours, theirs, (ours,))
            draft = self._draft(ours, self._taking_over(ours), Changes(rewrite=True))
            return outcome, draft
        found = runtime.run(merge_bases(store, self.packs, ours, theirs))
        pages = self.packs.pages
        sides = {version.name: Side(version, pages) for version in (*found, ours, theirs)}
        bases = [sides[base.name] for base in found]
        plan = plan_merge(
            bases,
            sides[ours.name],
            sides[theirs.name],
            self.request,
            cells=self.cells,
            was_reordered=lambda base, side: runtime.run(
                was_reordered(self._store_of(side), base, side)
            ),
        )
        is_refused = not self._is_decided(plan)
        if refuse and is_refused:
            raise merge_conflict_error(plan, self.log, self.request.on_conflict)
        groups = MergedGroups(ours.state.groups)
        if self.request.tensors is None:
            bases_of = [base.state for base in found]
            groups = merged_groups(ours.state, theirs.state, bases_of, plan.merged.schema)
        outcome = MergeOutcome("merge", ours, theirs, tuple(found), plan, is_refused, groups)
        own = {} if not refuse else _decided_cells(plan, self.request, stage)
        takes_all = self.request.tensors is None
        fresh = fresh_after(plan, self.cells, takes_all=takes_all) if refuse else {}
        building = _Building(plan, own, _cut(plan), groups, fresh, stage, pages)
        draft = self._draft(ours, building.build, plan.changes)
        verify = partial(
            self.cells.verify,
            changed=_changed(plan),
            touched=_touched(plan),
            before=ours.state.schema,
        )
        return outcome, replace(draft, verify=verify)

    def _store_of(self, version: Version) -> Store:
        origin = version.origin
        return self.log.store if origin is None else self.packs.places.base_store(origin)

    def _taking_over(self, ours: Version) -> Any:
        async def build(sink: PageSink) -> State:
            return await content_of(self.theirs.state, ours.state, self.packs.pages, sink)

        return build

    def _draft(self, ours: Version, build: Any, changes: Changes) -> Draft:
        mine, other = ours.entry, self.theirs.entry
        members: dict[str, Any] = {"message": self.message, "changes": changes}
        if self.request.tensors is None and self.theirs.origin is None:
            merged = dict(mine.merged)
            for branch, seq in vector_of(self.theirs.branch, other).items():
                if branch != ours.branch:
                    merged[branch] = max(seq, merged.get(branch, -1))
            members |= {
                "merged": merged,
                "parents": (
                    Parent(ours.branch, mine.seq, mine.digest),
                    Parent(self.theirs.branch, other.seq, other.digest),
                ),
            }
        return Draft(build, members | _with_theirs(mine, self.theirs))

    def _is_decided(self, plan: MergePlan) -> bool:
        """Return whether every conflict, if any, is decided."""
        if not (plan.conflicts or plan.merged.clashes):
            return True
        how = self.request.on_conflict
        if callable(how):
            decided = {"update", "delete"} if self._decides_rows(plan) else {"update"}
            left = [one for one in plan.conflicts if one.conflict.what not in decided]
            return not left and not plan.merged.clashes
        return how in ("ours", "theirs") and not plan.undecided

    def _decides_rows(self, plan: MergePlan) -> bool:
        """Return whether each row that one side deleted and the other changed is decided."""
        decided = self.request.rows
        if decided is None or self.request.tensors is not None:
            return False
        return all(id_ in decided for rows in plan.disputed_rows for id_ in rows.ids)


def _with_theirs(mine: Entry, theirs: Version) -> dict[str, Any]:
    """Return the features and sizes that the result has because it references theirs' chunks."""
    other = theirs.entry
    read = dict.fromkeys((*mine.features.read, *other.features.read))
    write = dict.fromkeys((*mine.features.write, *other.features.write))
    return {
        "features": Features(tuple(read), tuple(write)),
        "bases": _bases(mine.bases, other.bases, theirs.origin),
        "packs": PackTotals(
            max(mine.packs.count, other.packs.count), max(mine.packs.nbytes, other.packs.nbytes)
        ),
    }


def _bases(mine: Sequence[Base], others: Sequence[Base], origin: Base | None) -> tuple[Base, ...]:
    """Return the bases of both sides, with the newest version of each branch that one contains."""
    newest: dict[tuple[str, str, str], Base] = {}
    for base in (*mine, *others, *(() if origin is None else (origin,))):
        key = base.id, base.branch, base.url
        if key not in newest or base.seq > newest[key].seq:
            newest[key] = base
    return tuple(newest.values())


def _changed(plan: MergePlan) -> dict[str, Int64Array]:
    """Return rows of ours that get values, of tensors that are ``per=`` or ``of=`` another."""
    schema = plan.merged.schema
    ids = {one.id for pair in (*schema.paired, *schema.cut) for one in pair}
    rows = {id_: [cells.of_one] for id_, cells in plan.taken.items() if id_ in ids}
    for asked in plan.disputed:
        if asked.tensor.spec.id in rows:
            rows[asked.tensor.spec.id].append(ranges_of(np.sort(asked.ours[1])))
    return {id_: rows_in(union(some)) for id_, some in rows.items()}


def _touched(plan: MergePlan) -> dict[str, Ranges]:
    """Return the rows of the result that get values of theirs, or decided ones."""
    start = plan.ours.physical
    new = np.array([[start, start + plan.added_rows]], np.int64)
    touched = {"": new if plan.added_rows else new[:0], **plan.updated}
    for asked in plan.disputed:
        rows = ranges_of(np.sort(asked.ours[1]))
        id_ = asked.tensor.spec.id
        touched[id_] = union((touched.get(id_, new[:0]), rows))
    return touched


def _decided_cells(
    plan: MergePlan, request: MergeRequest, stage: PackStage
) -> dict[str, list[Edit]]:
    """Call the function for the values of cells that both changed, and make chunks of them."""
    found: dict[str, list[Edit]] = {}
    if not callable(request.on_conflict):
        return found
    for asked in plan.disputed:
        rows = asked.ours[1]
        order = np.argsort(rows, kind="stable")
        rows, column = rows[order], take(request.on_conflict(asked), order)
        stored = place_column(asked.tensor.spec, column, stage).to_table()
        done = 0
        for start, stop in ranges_of(rows).tolist():
            part = stored.slice_rows(done, done + stop - start)
            found.setdefault(asked.tensor.spec.id, []).append((start, stop, part))
            done += stop - start
    return found


@dataclass(frozen=True, slots=True)
class _Cut:
    """One tensor's changes from theirs: edits of ours' rows, and the extents of new rows."""

    edits: tuple[Edit, ...]
    new: Extents


def _cut(plan: MergePlan) -> dict[str, _Cut]:
    """Cut the extents to take out of theirs' indexes."""
    return {
        id_: _Cut(tuple(_taken(plan, tensor)), _new(plan, tensor))
        for id_, tensor in plan.merged.tensors.items()
    }


def _taken(plan: MergePlan, tensor: CombinedTensor) -> list[Edit]:
    """Return edits for cells of ours that become theirs', adjacent ranges as one edit."""
    cells = plan.taken.get(tensor.spec.id)
    if cells is None or not len(cells.one):
        return []
    starts, stops = cells.one, cells.one + cells.count
    first = np.flatnonzero(np.concatenate(([True], starts[1:] != stops[:-1])))
    borders = [*first.tolist(), len(starts)]
    table = _of_theirs(plan, tensor, cells.other, cells.other + cells.count)
    edits: list[Edit] = []
    done = 0
    for begin, end in pairwise(borders):
        start, stop = int(starts[begin]), int(stops[end - 1])
        edits.append((start, stop, table.slice_rows(done, done + stop - start)))
        done += stop - start
    return edits


def _new(plan: MergePlan, tensor: CombinedTensor) -> Extents:
    if tensor.source == "current":
        return fill_extents(tensor.spec, plan.added_rows)
    return _of_theirs(plan, tensor, *plan.added)


def _of_theirs(
    plan: MergePlan, tensor: CombinedTensor, starts: Int64Array, stops: Int64Array
) -> Extents:
    """Return theirs' extents of some rows, as read by the result."""
    wanted = union([np.stack((starts, stops), axis=1)])
    cut = windows(plan.theirs.extents(tensor.spec.id, wanted), starts, stops)
    return tensor.read_as.of(cut)


@dataclass(frozen=True, slots=True)
class _Building:
    """Applies a plan to ours' trees."""

    plan: MergePlan
    own: Mapping[str, list[Edit]]
    cut: Mapping[str, _Cut]
    groups: MergedGroups
    fresh: FreshRows
    stage: PackStage
    pages: PageReader

    async def build(self, sink: PageSink) -> State:
        """Make the merged state; pages go to the sink."""
        plan, ours = self.plan, self.plan.ours.version.state
        roots = {id_: await self._root(tensor, sink) for id_, tensor in plan.merged.tensors.items()}
        row_ids = ours.row_ids
        if len(plan.revived):
            dead = [
                (start, stop, RowIdRuns.run(stop - start, NO_TXID))
                for start, stop in plan.revived.tolist()
            ]
            row_ids = await tree.replace(row_ids, dead, self.pages, sink)
        made = State(
            schema=plan.merged.schema,
            roots=roots,
            rows=await self._rows(ours, sink),
            row_ids=await tree.append(row_ids, plan.added_ids, self.pages, sink),
            physical=ours.physical + plan.added_rows,
            groups=self.groups.groups,
        )
        cells = await merged_cells(self.fresh, made, self.pages, sink)
        return replace(made, groups={**made.groups, **cells}) if cells else made

    async def _rows(self, ours: State, sink: PageSink) -> Root[RowSegments]:
        plan = self.plan
        if plan.order is not None:
            rows: Root[RowSegments] = Root.of(RowSegments.empty())
            rows = await tree.append(rows, select_ranges(*plan.order), self.pages, sink)
        else:
            physical = rows_in(plan.deleted)
            positions = np.sort(await rows_of(ours.rows, physical, self.pages))
            rows = await delete_rows(ours.rows, positions, self.pages, sink)
        new = RowSegments.range(ours.physical, ours.physical + plan.added_rows)
        return await tree.append(rows, new, self.pages, sink)

    async def _root(self, tensor: CombinedTensor, sink: PageSink) -> ExtentRoot:
        plan, spec = self.plan, tensor.spec
        if tensor.source == "incoming":
            root: ExtentRoot = Root.of(Extents.empty())
            filled = fill_extents(spec, plan.ours.physical)
            root = await tree.append(root, filled, self.pages, sink)
        else:
            root = plan.ours.version.state.roots[spec.id]
        cut = self.cut[spec.id]
        edits = [*cut.edits, *self.own.get(spec.id, ())]
        if edits:
            final = [
                (start, stop, self.stage.with_final_ids(table))
                for start, stop, table in sorted(edits, key=lambda edit: edit[0])
            ]
            root = await tree.replace(root, final, self.pages, sink)
        return await tree.append(root, cut.new, self.pages, sink)
