"""What commits, merges and restores have in common: an entry is built, with its packs, for a head.

    state (pages) ──► entry ──► last pack stored ──► put-if-absent, by whoever asked

Each of them builds anew for a newer head when it lost a race, and waits a little longer each time.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import TransactionExpiredError
from tensorlake.format import Entry, PackTotals
from tensorlake.storage import Store
from tensorlake.versions.entries import fence_of, following, microseconds
from tensorlake.versions.packs import PackReader
from tensorlake.versions.stage import PackStage
from tensorlake.versions.state import State

__all__ = [
    "RACES_MAX",
    "Published",
    "author",
    "check_first_pack",
    "entry_of",
    "loaded",
    "pause_after_race",
]

RACES_MAX = 64
"""Lost races after which publishing gives up; with jitter, 32 writers need far fewer."""

RETRY_CEILING_S = 5.0


@dataclass(frozen=True, slots=True)
class Published:
    """A commit that stands, and what it says."""

    entry: Entry
    state: State


def author() -> str:
    """Name who commits: TENSORLAKE_AUTHOR, else the login name, else "unknown"."""
    for name in ("TENSORLAKE_AUTHOR", "LOGNAME", "USER", "USERNAME"):
        if value := os.environ.get(name):
            return value
    return "unknown"


async def loaded(entry: Entry, packs: PackReader) -> Entry:
    """Read the parts of an entry that were too large for it."""
    return await entry.load(packs, where=f"entry {entry.seq}") if entry.spilled else entry


async def entry_of(
    build: Callable[[], Awaitable[State]],
    members: Mapping[str, Any],
    *,
    head: Entry,
    branch: str,
    stage: PackStage,
    is_same_schema: bool = False,
) -> Published | None:
    """Make the entry after ``head`` and store all packs that it cites.

    Args:
        build: Makes what it says; index pages go to the stage.
        members: Its other members: message, parents, changes, …
        head: The entry it follows.
        branch: Whose log it is in.
        stage: The transaction's packs.
        is_same_schema: Whether the schema is known to be the head's, whose JSON is then taken.

    Returns:
        None when a pack was stored under another name: what cites it must be built again.
    """
    renames = stage.renames
    state = await build()
    body: dict[str, Any] = {
        "kind": "commit",
        "txid": stage.txid,
        "author": author(),
        "roots": dict(state.roots),
        "rows": state.rows,
        "row_ids": state.row_ids,
        "physical": state.physical,
    }
    if not is_same_schema:
        body["schema"] = state.schema.to_json()
    entry = following(head, branch=branch, **{**body, **members}).spill(stage)
    await stage.finish()
    if stage.renames != renames:
        return None
    totals = PackTotals(
        count=entry.packs.count + stage.pack_count, nbytes=entry.packs.nbytes + stage.pack_nbytes
    )
    return Published(entry.changed(packs=totals), state)


async def check_first_pack(store: Store, stage: PackStage, head: Entry, *, advice: str) -> None:
    """Rule 1: what was staged before the head's fence may be collected already.

    Raises:
        TransactionExpiredError: It was; the message ends with the advice.
    """
    first = stage.first_pack()
    if first is None:
        return
    meta = await store.head(first.path)
    if meta is None or microseconds(meta.modified) <= fence_of(head).t:
        raise TransactionExpiredError(
            f"transaction {stage.txid} was staged longer ago than the dataset's grace time, so its"
            f" chunks may be collected; nothing was published\n{advice}",
            txid=stage.txid,
        )


def pause_after_race(race: int, *, put_s: float) -> None:
    """Let others pass, before looking again: what is seen must still be new when it is built on.

    Not at all after the first lost race, then 1 to 20 times what a put takes: so some tens of
    writers get through.
    """
    if race:
        time.sleep(min(RETRY_CEILING_S, put_s * random.uniform(1, 20)))  # noqa: S311 - jitter
