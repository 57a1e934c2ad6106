"""Comparisons noted in a commit: which cells of a state that a group covers differ in its version.

A commit knows the rows that it wrote, and its base's entry tells which others differed. So the next
reader reads no page to find what is stale, where comparing the trees reads the leaf of each change
in both of them.

    base: rows 3, 7 differ ──▸ updates 12, computes 3 again ──▸ noted: rows 7, 12 differ
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tensorlake.format import (
    ColumnGroup,
    Comparison,
    Coverage,
    PageReader,
    canonical_bytes,
    is_one_tree,
    same_cells,
    unchanged_rows,
)
from tensorlake.versions.log.state import ExtentRoot, State
from tensorlake.versions.rows.alignment import subtract
from tensorlake.versions.rows.derived import derived_tensor, is_current
from tensorlake.versions.rows.ranges import Ranges, clip, no_ranges, union
from tensorlake.versions.transaction.changeset import Staged

__all__ = ["with_comparisons"]

MOST_NBYTES = 12 << 10
"""JSON of groups with comparisons: above 16 KiB it moves to a page, which each commit would write
again with the comparisons."""


@dataclass(frozen=True, slots=True)
class _Change:
    """The changes of one tensor that a group covers.

    Attributes:
        then: The tensor's index in the base; None where it is new.
        updated: Rows of the base that were given values.
        made: Rows whose state was replaced by that of cells computed now.
        is_explained: Whether the state differs from the base's at most at those rows, and at rows
            that were written again with their values.
    """

    then: ExtentRoot | None
    updated: Ranges
    made: Ranges
    is_explained: bool


async def with_comparisons(staged: Staged, after: State, pages: PageReader) -> State:
    """Return the content of a commit, in which groups note the cells that differ from their states.

    Args:
        staged: The changes.
        after: The content, over published pages.
        pages: Where to read pages.
    """
    groups = dict(after.groups)
    for name, group in after.groups.items():
        covers = {
            id_: await _noted(staged, after, name, id_, pages)
            for id_ in group.covers
            if id_ in after.roots
        }
        if any(one is not group.covers[id_] for id_, one in covers.items()):
            groups[name] = replace(group, covers={**group.covers, **covers})
    has_any = any(one.compared for group in groups.values() for one in group.covers.values())
    if has_any and _nbytes(groups) > MOST_NBYTES:
        groups = {name: _without(group) for name, group in groups.items()}
    return replace(after, groups=groups)


async def _noted(
    staged: Staged, after: State, name: str, tensor_id: str, pages: PageReader
) -> Coverage:
    before, group = staged.base_state, after.groups[name]
    one, now = group.covers[tensor_id], after.roots[tensor_id]
    was, then = before.groups.get(name), before.roots.get(tensor_id)
    made = no_ranges()
    own = derived_tensor(group)
    if own is not None:
        made = staged.made.get(own, made)
        spec = after.schema.by_id(own)
        if spec is None or not is_current(group, spec, after.schema):
            return one if one.compared is None else replace(one, compared=None)
        if was is not None and not is_current(was, spec, after.schema):
            was = None  # another function: its state began empty
    old = None if was is None else was.covers.get(tensor_id)
    if old is not None and then is now and one.state is old.state:
        return one
    written = staged.edited.get(tensor_id, no_ranges())
    change = _Change(
        then=then,
        updated=clip(staged.updated.get(tensor_id, no_ranges()), staged.limit),
        made=made,
        is_explained=own is not None and bool(len(made) or len(written)),
    )
    apart = await _apart(one, old, now, change, pages)
    compared = None if apart is None else Comparison.of(one.state, now, apart)
    return replace(one, compared=compared)


async def _apart(
    one: Coverage, old: Coverage | None, now: ExtentRoot, change: _Change, pages: PageReader
) -> Ranges | None:
    """Return the rows of a state that have another place now; None where pages have to tell."""
    then, made = change.then, change.made
    known: Ranges | None = None
    known_rows = one.state.rows
    if change.is_explained or (old is not None and is_one_tree(one.state, old.state)):
        known = no_ranges()
        known_rows = 0 if old is None else old.state.rows
        if old is not None and then is not None:
            known = old.known_apart(then)
    elif then is not None and is_one_tree(one.state, then):
        known = no_ranges()
    rows = min(one.state.rows, now.rows)
    if known is None:
        if not len(made):
            return None
        same = await unchanged_rows(one.state, now, pages)  # read when these rows were found
        return subtract(np.array([[0, rows]], np.int64), same)
    grown = np.array([[known_rows, rows]], np.int64)[: int(known_rows < rows)]
    apart = subtract(union([known, change.updated, grown]), made)
    differing = subtract(made, await same_cells(one.state, now, made, pages))
    return clip(union([apart, differing]), rows)


def _nbytes(groups: Mapping[str, ColumnGroup]) -> int:
    return len(canonical_bytes({name: group.to_json() for name, group in groups.items()}))


def _without(group: ColumnGroup) -> ColumnGroup:
    if not any(one.compared for one in group.covers.values()):
        return group
    covers = {id_: replace(one, compared=None) for id_, one in group.covers.items()}
    return replace(group, covers=covers)
