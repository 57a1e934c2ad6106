"""Making the entry that cites a transaction's packs, which are all stored before it is published.

    state (pages) ──► entry ──► last pack stored ──► put-if-absent
            ▲                        │
            └── again: it got another name, under which its pages are not

The pages of an entry are in the transaction's last pack. Publishers make the entry with these
two functions: only they detect that a pack was renamed since its pages were built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tensorlake.format import Entry, PackTotals, index_changes
from tensorlake.versions.log.entries import author, following, time_in
from tensorlake.versions.log.state import State
from tensorlake.versions.packs.writer import PackStage

__all__ = ["completed", "entry_of"]


def entry_of(
    head: Entry,
    state: State,
    members: Mapping[str, Any],
    *,
    stage: PackStage,
    branch: str,
    keeps_schema: bool = False,
) -> Entry:
    """Make the commit that follows ``head`` with a content; ``completed`` comes next.

    Args:
        head: The entry it follows.
        state: Its content, with pages in the stage.
        members: Its other members: message, author, parents, changes, …
        stage: The transaction's packs.
        branch: Whose log it is in.
        keeps_schema: Whether the schema is known to be the head's, whose JSON is then taken.
    """
    body: dict[str, Any] = {
        "kind": "commit",
        "txid": stage.txid,
        "roots": dict(state.roots),
        "rows": state.rows,
        "row_ids": state.row_ids,
        "physical": state.physical,
    }
    if not keeps_schema:
        body["schema"] = state.schema.to_json()
    groups = {name: group.to_json() for name, group in state.groups.items()}
    if groups != head.indexes:  # else its page, if any, stays
        body["indexes"] = groups
        if "changes" in members:
            indexes = index_changes(head.indexes, groups)
            members = {**members, "changes": replace(members["changes"], indexes=indexes)}
    if "author" not in members:
        body["author"] = author(stage.store)
    return following(head, branch=branch, **{**body, **members})


async def completed(
    entry: Entry, stage: PackStage, *, renames: int, packs_may_follow: bool = False
) -> Entry | None:
    """Store all packs that an entry cites, count them in it, and set its time.

    Args:
        entry: The entry, in the making.
        stage: The transaction's packs.
        renames: How many packs were renamed when its pages began to be built.
        packs_may_follow: Whether ``check_synced`` is called before the entry is published.

    Returns:
        None when one more was: what cites it must be built again.
    """
    spilled = entry.spill(stage)
    await stage.finish(may_follow=packs_may_follow)
    if stage.renames != renames:
        return None
    known = entry.packs
    totals = PackTotals(known.count + stage.pack_count, known.nbytes + stage.pack_nbytes)
    time = max(await time_in(stage.store), entry.time)
    return spilled.changed(packs=totals, time=time)
