"""Staged changes of column groups: how they are published, and how they move to a newer entry.

The working state has the groups as staged; a group that is not the base's own object was changed.
If it continues the base's (the same parts, more rows), its new rows are appended to what the entry
published after has; otherwise it replaces that. Another commit of the same group is a conflict,
whatever the policy: one side's rows would be missing.

A state that a group covers is the tensor's tree when the group was made, over pages that may be
scratch ones: it is published as the base's tree with edits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tensorlake.errors import InvalidInputError
from tensorlake.format import (
    ColumnGroup,
    Extents,
    PageReader,
    PageSink,
    PlacedChunks,
    Root,
    Schema,
    TensorSpec,
    edits_between,
    restated,
    tree,
)
from tensorlake.types import Column
from tensorlake.versions.log.state import ExtentRoot, State, table_of
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.rows.conflict_rules import Conflict
from tensorlake.versions.rows.derived import derived_tensor

__all__ = [
    "MergedGroups",
    "NetGroup",
    "applied_groups",
    "changed_groups",
    "extended",
    "group_conflicts",
    "merged_groups",
    "net_groups",
    "restated_groups",
    "settled_groups",
    "without_dropped",
]


StateEdits: TypeAlias = tuple[ExtentRoot, Sequence[tuple[int, int, Extents]]]


@dataclass(frozen=True, slots=True, eq=False)
class NetGroup:
    """The change of one group.

    Attributes:
        group: The group as staged; its roots may have scratch pages.
        is_append: Whether it continues the base's group.
        added: By part id, the extents of its new rows, packs cited by their final names.
        states: By tensor id, a published tree, and the edits that make it the state covered.
    """

    group: ColumnGroup
    is_append: bool
    added: Mapping[str, Extents]
    states: Mapping[str, StateEdits]


def changed_groups(working: State, base: State) -> list[str]:
    """Name the groups that were staged, created or dropped."""
    if working.groups is base.groups:
        return []
    names = dict.fromkeys((*base.groups, *working.groups))
    return [name for name in names if working.groups.get(name) is not base.groups.get(name)]


def extended(
    group: ColumnGroup,
    columns: Mapping[str, Column],
    place: Callable[[TensorSpec, Column], PlacedChunks],
) -> ColumnGroup:
    """Add rows to a group, one column for each part, by name; ``place`` makes the chunks.

    Raises:
        InvalidInputError: The columns do not match the parts, or differ in length.
    """
    parts = {spec.name: spec for spec in group.parts().tensors}
    counts = {name: len(column) for name, column in columns.items()}
    if set(counts) != set(parts) or len({*counts.values()}) != 1:
        raise InvalidInputError(
            f"columns of {counts!r} rows were given to a group with the parts {list(parts)!r}"
            "\ngive one column for each part, all of one length"
        )
    (count,) = {*counts.values()}
    if count == 0:
        return group
    roots = {
        spec.id: tree.grown(group.roots[spec.id], place(spec, columns[name]))
        for name, spec in parts.items()
    }
    return group.with_roots(roots, group.rows + count)


async def settled_groups(
    state: State, before: State, pages: PageReader, sink: PageSink
) -> Mapping[str, ColumnGroup]:
    """Reduce the tails of changed groups to the size that a log entry has room for."""
    groups = dict(state.groups)
    for name in changed_groups(state, before):
        if name in groups:
            group = groups[name]
            roots = {
                part: await tree.settled(root, pages, sink) for part, root in group.roots.items()
            }
            covers = {
                id_: replace(one, state=await tree.settled(one.state, pages, sink))
                for id_, one in group.covers.items()
            }
            groups[name] = replace(group, roots=roots, covers=covers)
    return groups


async def net_groups(
    working: State, base: State, pages: PageReader, stage: PackStage
) -> dict[str, NetGroup | None]:
    """Take the changes of groups out of the working state; None for a group that was dropped."""
    net: dict[str, NetGroup | None] = {}
    for name in changed_groups(working, base):
        group, before = working.groups.get(name), base.groups.get(name)
        if group is None:
            net[name] = None
            continue
        if derived_tensor(group) is not None:
            continue  # changed row by row (``derived.py``)
        is_append = before is not None and group.continues(before)
        start = before.rows if before is not None and is_append else 0
        added: dict[str, Extents] = {}
        if group.rows > start:
            for part, root in group.roots.items():
                table = await table_of(root, pages, start, group.rows)
                added[part] = stage.with_final_ids(table)
        states: dict[str, StateEdits] = {}
        for id_, one in group.covers.items():
            root: ExtentRoot = base.roots.get(id_) or Root.of(Extents.empty())
            edits = await edits_between(root, one.state, pages)
            final = stage.with_final_ids
            states[id_] = root, [(start, stop, final(table)) for start, stop, table in edits]
        net[name] = NetGroup(group, is_append, added, states)
    return net


async def applied_groups(
    net: Mapping[str, NetGroup | None], to: State, pages: PageReader, sink: PageSink
) -> Mapping[str, ColumnGroup]:
    """Apply changes of groups to those of a state; pages go to ``sink``."""
    if not net:
        return to.groups
    groups = dict(to.groups)
    for name, change in net.items():
        if change is None:
            groups.pop(name, None)
            continue
        roots: dict[str, Root[Extents]] = {}
        for part in change.group.roots:
            root = to.groups[name].roots[part] if change.is_append else Root.of(Extents.empty())
            new = change.added.get(part)
            roots[part] = root if new is None else await tree.append(root, new, pages, sink)
        covers = dict(change.group.covers)
        for id_, (root, edits) in change.states.items():
            state = await tree.replace(root, edits, pages, sink) if edits else root
            covers[id_] = replace(covers[id_], state=state)
        groups[name] = replace(change.group, roots=roots, covers=covers)
    return groups


async def restated_groups(
    after: State, before: State, pages: PageReader, sink: PageSink
) -> Mapping[str, ColumnGroup]:
    """Return the groups of ``before`` on trees that have its values in other places."""
    groups = dict(before.groups)
    for name, group in before.groups.items():
        covers = dict(group.covers)
        for id_, one in group.covers.items():
            was, now = before.roots.get(id_), after.roots.get(id_)
            if was is not None and now is not None and was is not now:
                covers[id_] = await restated(one, was, now, pages, sink)
                groups[name] = replace(group, covers=covers)
    return groups if groups != dict(before.groups) else before.groups


def without_dropped(groups: Mapping[str, ColumnGroup], schema: Schema) -> Mapping[str, ColumnGroup]:
    """Leave out the groups that cover a tensor which the schema does not have."""
    known = {spec.id for spec in schema.tensors}
    kept = {name: group for name, group in groups.items() if known.issuperset(group.covers)}
    return kept if len(kept) < len(groups) else groups


@dataclass(frozen=True, slots=True)
class MergedGroups:
    """The column groups of a merge's result.

    Attributes:
        groups: All of them.
        taken: Names of those that are theirs'.
        left: Names of those of theirs, changed there, in whose place ours has another.
    """

    groups: Mapping[str, ColumnGroup]
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def merged_groups(
    ours: State, theirs: State, bases: Sequence[State], schema: Schema
) -> MergedGroups:
    """Keep the groups of ours; take from theirs, where ours did not change them, those that cover.

    In a group that covers cells, ``covers`` finds what still holds in the trees of the result,
    whichever side made it. One that both had, and ours dropped, stays dropped.
    """
    known = {spec.id for spec in schema.tensors}
    groups = dict(ours.groups)
    taken: list[str] = []
    left: list[str] = []
    for name, group in theirs.groups.items():
        if _is_derived(group):
            continue  # combined row by row (``merge/derived.py``)
        own, before = ours.groups.get(name), [base.groups.get(name) for base in bases]
        if not group.covers or not known.issuperset(group.covers) or _is_same(own, group):
            continue
        if any(_is_same(group, one) for one in before):
            continue  # theirs did not change it
        if any(_is_same(own, one) for one in before):
            groups[name] = group
            taken.append(name)
        else:
            left.append(name)
    return MergedGroups(groups if taken else ours.groups, tuple(taken), tuple(left))


def group_conflicts(working: State, base: State, head: State) -> tuple[Conflict, ...]:
    """List the groups staged on ``base`` that ``head`` has otherwise, or whose tensor it lacks."""
    found: list[Conflict] = []
    dropped = _tensors(base) - _tensors(head)
    for name in changed_groups(working, base):
        group = working.groups.get(name)
        if _is_derived(group or base.groups.get(name)):
            continue
        if not _is_same(base.groups.get(name), head.groups.get(name)):
            reason = f"both changed the column group {name!r}"
        elif group is not None and not dropped.isdisjoint(group.covers):
            reason = f"the column group {name!r} covers a tensor that the other commit dropped"
        else:
            continue
        found.append(Conflict("group", description=reason))
    return tuple(found)


def _tensors(state: State) -> set[str]:
    return {spec.id for spec in state.schema.tensors}


def _is_derived(group: ColumnGroup | None) -> bool:
    return group is not None and derived_tensor(group) is not None


def _is_same(one: ColumnGroup | None, other: ColumnGroup | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or _content(one) == _content(other)


def _content(group: ColumnGroup) -> dict[str, Any]:
    """Return the JSON of a group, without what a commit of other changes notes in it."""
    covers = {id_: replace(one, compared=None) for id_, one in group.covers.items()}
    return replace(group, covers=covers).to_json()
