"""Publishing what ``optimize`` moved: edits of chunk indexes that change no value.

A round is a transaction whose edits yield. On each try, an edit of physical rows [start, stop) is
kept only where the head still refers to the same extents that were read there, under an unchanged
type, and shows no row that was dropped; everything else on the head stays as it is. The last round
also tidies the trees: those that became ragged are rewritten, page by page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from tensorlake.format import (
    Changes,
    Entry,
    Extents,
    LeafTable,
    PageSink,
    Root,
    RowSegments,
    TensorSpec,
    select_ranges,
    tree,
)
from tensorlake.versions.log.entries import fence_of
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import ExtentRoot, State, state_of, table_of
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.packs.writer import DryStage, PackStage
from tensorlake.versions.rows.live_rows import visible_rows
from tensorlake.versions.transaction.groups import restated_groups
from tensorlake.versions.transaction.publish import Draft, Publication, publish

__all__ = [
    "REWRITTEN_ENTRIES",
    "Edit",
    "Outcome",
    "Round",
    "dropped_before",
    "is_ragged",
    "optimized_members",
    "publish_round",
    "with_edits",
]

ROUND_NBYTES = 8 << 30
ROUND_EXTENTS = 1 << 17
"""Bounds of a round: new bytes, and extents, which are in memory until published."""

COMPARED_ROWS = 1 << 23

UNSETTLED_LEAVES = 16
"""A tree that grew by appends has at most 14 leaves that are not settled; more are ragged."""

SETTLED = 2
"""Merges of a leaf that has grown to its size (``docs/reference/format.md``, "Roots and trees")."""

INLINE_ENTRIES = 64
REWRITTEN_ENTRIES = 4096
REWRITTEN_UNITS = 65536

L = TypeVar("L", bound=LeafTable)


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """Physical rows [start, stop) of a tensor now have these extents."""

    start: int
    stop: int
    extents: Extents


@dataclass(slots=True)
class Round:
    """The edits since the last publication.

    Attributes:
        packs: Where pages are read.
        base: The entry that was newest when its stage began: its fence is the stage's age.
        read: The state whose extents were read and moved.
        stage: Where the new chunks are.
        edits: By tensor id, sorted and disjoint.
    """

    packs: PackReader
    base: Entry
    read: State
    stage: PackStage
    edits: dict[str, list[Edit]] = field(default_factory=dict[str, list[Edit]])
    extents: int = 0

    @classmethod
    def begin(cls, packs: PackReader, base: Entry, read: State, *, dry_run: bool = False) -> Round:
        """Begin with nothing moved; what a dry run moves is stored nowhere."""
        if dry_run:
            return cls(packs, base, read, DryStage(packs.store))
        stage = PackStage(packs.store)
        packs.attach(stage)
        return cls(packs, base, read, stage)

    def add(self, spec: TensorSpec, edit: Edit) -> None:
        """Note that a stretch was moved."""
        self.edits.setdefault(spec.id, []).append(edit)
        self.extents += len(edit.extents)

    @property
    def is_full(self) -> bool:
        """Whether it is time to publish."""
        return self.stage.pack_nbytes >= ROUND_NBYTES or self.extents >= ROUND_EXTENTS


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a round ended: the newest entry, whether it is the round's, and edits dropped."""

    head: Entry
    published: bool
    yielded: int


def publish_round(
    moved: Round, log: BranchLog, head: Entry, *, author: str | None, is_last: bool
) -> Outcome:
    """Publish a round on the newest entry, if there is anything to publish.

    Args:
        moved: The edits to publish.
        log: The branch's log.
        head: The newest entry as far as the caller knows, loaded.
        author: Author of the commit; None: the default.
        is_last: Whether to tidy the trees too.

    Raises:
        ConflictError: The branch moved again and again meanwhile.
        TransactionExpiredError: The round took longer than the dataset's grace time.
    """
    if not moved.edits and not is_last:
        return Outcome(head, published=False, yielded=0)
    yielded = 0

    def prepare(head: Entry, since: Sequence[Entry]) -> Draft:
        del since  # edits are compared with the head's own trees
        state = state_of(head)

        async def build(sink: PageSink) -> State | None:
            nonlocal yielded
            del sink  # the round's stage
            applied, yielded = await with_edits(moved, state)
            applied = await _tidied(applied, state, moved) if is_last else applied
            return None if applied is state else applied

        members = optimized_members(head, state, author=author)
        return Draft(build, {"message": "optimize", **members}, keeps_schema=True)

    work = Publication(log, moved.packs, moved.stage, began_at_fence=fence_of(moved.base).t)
    ended = publish(work, head, prepare)
    return Outcome(ended.published.entry, ended.is_published, yielded)


def optimized_members(head: Entry, state: State, *, author: str | None) -> dict[str, Any]:
    """Return members of an entry with the head's content in other chunks, or in another order."""
    members: dict[str, Any] = {
        "changes": Changes(),
        # summary() describes it by the difference.
        "statistics": {
            **head.statistics,
            "optimized": {"physical": state.physical, "rows": state.num_rows},
        },
    }
    return members if author is None else {**members, "author": author}


def dropped_before(head: Entry) -> int:
    """How many dead rows the last optimization of a branch had dropped; 0 where there was none."""
    done = head.statistics.get("optimized", {})
    return int(done.get("physical", 0)) - int(done.get("rows", 0))


async def with_edits(moved: Round, head: State) -> tuple[State, int]:
    """Apply the edits that still hold; the head's own state when there is none.

    Returns:
        The state, and how many edits no longer hold.
    """
    roots = dict(head.roots)
    yielded = 0
    for tensor_id, edits in moved.edits.items():
        kept = [edit for edit in edits if await _holds(moved, head, tensor_id, edit)]
        yielded += len(edits) - len(kept)
        if kept:
            final = moved.stage.with_final_ids
            changed = [(edit.start, edit.stop, final(edit.extents)) for edit in kept]
            roots[tensor_id] = await tree.replace(
                roots[tensor_id], changed, moved.packs.pages, moved.stage
            )
    if all(root is head.roots[id_] for id_, root in roots.items()):
        return head, yielded
    return await _on(replace(head, roots=roots), head, moved), yielded


async def _on(after: State, before: State, moved: Round) -> State:
    """Return a state, with the groups of one that has its values in other places."""
    groups = await restated_groups(after, before, moved.packs.pages, moved.stage)
    return replace(after, groups=groups)


async def _holds(moved: Round, head: State, tensor_id: str, edit: Edit) -> bool:
    """Whether nothing that an edit rests on has changed since it was read."""
    read, pages = moved.read, moved.packs.pages
    before, now = read.schema.by_id(tensor_id), head.schema.by_id(tensor_id)
    if before is None or now is None or edit.stop > head.physical:
        return False
    if (now.type, now.encodings, now.fill) != (before.type, before.encodings, before.fill):
        return False
    if head.roots[tensor_id] is not read.roots[tensor_id]:
        for root in (read.roots[tensor_id], head.roots[tensor_id]):
            if root.rows < edit.stop:
                return False
        was = await table_of(read.roots[tensor_id], pages, edit.start, edit.stop)
        found = await table_of(head.roots[tensor_id], pages, edit.start, edit.stop)
        if not _same_extents(was.united(), found.united()):
            return False
    return head.rows is read.rows or not await _shows_more(moved, head, edit)


def _same_extents(a: Extents, b: Extents) -> bool:
    if len(a) != len(b):
        return False
    names = ("rows", "skip", "kind", "read_as", "offset", "nbytes", "checksum")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


async def _shows_more(moved: Round, head: State, edit: Edit) -> bool:
    """Whether the head shows rows that were dead: a restore may show them again."""
    pages = moved.packs.pages
    for start in range(edit.start, edit.stop, COMPARED_ROWS):
        stop = min(edit.stop, start + COMPARED_ROWS)
        was = await visible_rows(moved.read.rows, start, stop, pages)
        if bool((await visible_rows(head.rows, start, stop, pages) & ~was).any()):
            return True
    return False


async def _tidied(state: State, before: State, moved: Round) -> State:
    """Rewrite ragged trees; the same state when none is."""
    roots: dict[str, ExtentRoot] = {}
    for tensor_id, root in state.roots.items():
        is_edited = root is not before.roots[tensor_id]
        roots[tensor_id] = await _tidy(root, moved, _as_it_is, is_edited=is_edited)
    rows = await _tidy(state.rows, moved, _reselected)
    row_ids = await _tidy(state.row_ids, moved, _as_it_is)
    if all(roots[id_] is root for id_, root in state.roots.items()) and (
        rows is state.rows and row_ids is state.row_ids
    ):
        return state
    return await _on(replace(state, roots=roots, rows=rows, row_ids=row_ids), state, moved)


def _as_it_is(table: L) -> L:
    return table


def _reselected(segments: RowSegments) -> RowSegments:
    return select_ranges(*segments.to_ranges())


async def _tidy(
    root: Root[L], moved: Round, remade: Callable[[L], L], *, is_edited: bool = False
) -> Root[L]:
    pages = moved.packs.pages
    if not await is_ragged(root, moved.packs, is_edited=is_edited):
        return root
    fresh = Root.of(root.leaf_type.empty())
    held: list[L] = []
    async for _, table in tree.scan(root, pages):
        held.append(table)
        units = sum(int(one.leaf_weights()[1].sum()) for one in held)
        if sum(map(len, held)) >= REWRITTEN_ENTRIES or units >= REWRITTEN_UNITS:
            joined = remade(root.leaf_type.concat(held))
            fresh, held = await tree.append(fresh, joined, pages, moved.stage), []
    if held:
        joined = remade(root.leaf_type.concat(held))
        fresh = await tree.append(fresh, joined, pages, moved.stage)
    return fresh


async def is_ragged(root: Root[L], packs: PackReader, *, is_edited: bool = False) -> bool:
    """Whether a tree has many leaves that are far from full, or leaves where a tail might do.

    A single small leaf is left alone unless it is new: its entries may be too long for a tail.
    """
    leaves = unsettled = entries = 0
    async for ref in tree.iter_page_refs(root, packs.pages):
        if ref.height == 0:
            leaves += 1
            entries += ref.entries
            unsettled += ref.merges < SETTLED
    is_small = leaves > 0 and entries + len(root.newest) <= INLINE_ENTRIES
    return unsettled > UNSETTLED_LEAVES or (is_small and (is_edited or leaves > 1))
