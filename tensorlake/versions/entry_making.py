"""Making the entry that cites a transaction's packs, which are all stored before it is published.

    state (pages) ──► entry ──► last pack stored ──► put-if-absent, by whoever asked
            ▲                        │
            └── again: it got another name, under which its pages are not

The pages of an entry lie in the transaction's last pack. Whoever publishes makes the entry by one
of these two: only they know that a pack was renamed since its pages were built.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tensorlake.format import Entry, PackTotals
from tensorlake.versions.entries import author, following, time_in
from tensorlake.versions.stage import PackStage
from tensorlake.versions.state import Published, State

__all__ = ["completed", "entry_after"]


async def entry_after(
    head: Entry,
    build: Callable[[], Awaitable[State]],
    members: Mapping[str, Any],
    *,
    stage: PackStage,
    branch: str,
    is_same_schema: bool = False,
    packs_may_follow: bool = False,
) -> Published | None:
    """Make the entry that follows ``head``, and store all packs that it cites.

    Args:
        head: The entry it follows.
        build: Makes what it says; index pages go to the stage.
        members: Its other members: message, parents, changes, …
        stage: The transaction's packs.
        branch: Whose log it is in.
        is_same_schema: Whether the schema is known to be the head's, whose JSON is then taken.
        packs_may_follow: Whether ``check_synced`` is called before the entry is published.

    Returns:
        None when a pack was stored under another name: what cites it must be built again.
    """
    renames = stage.renames
    state = await build()
    body: dict[str, Any] = {
        "kind": "commit",
        "txid": stage.txid,
        "roots": dict(state.roots),
        "rows": state.rows,
        "row_ids": state.row_ids,
        "physical": state.physical,
    }
    if not is_same_schema:
        body["schema"] = state.schema.to_json()
    if "author" not in members:
        body["author"] = author(stage.store)
    entry = following(head, branch=branch, **{**body, **members})
    entry = await completed(entry, stage, renames=renames, packs_may_follow=packs_may_follow)
    return None if entry is None else Published(entry, state)


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
