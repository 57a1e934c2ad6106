"""Merge bases: the versions at which two branches diverged, found from version vectors.

Every entry carries, for each branch, the largest number that it contains. A branch's entry
contains its own log up to itself, so the vector of ``main@9`` is ``merged`` with main: 9. The
candidates are the points (b, min(x[b], y[b])) that both sides contain; the bases are those not
contained in another. Usually one; several after a criss-cross merge, newest first:

    main@5, which merged fix@2:        x = {main: 5, fix: 2}
    fix@4, which merged main@3:        y = {main: 3, fix: 4}
    candidates main@3 and fix@2; both are bases unless one had merged the other

Points whose index is gone (expired and collected) are skipped: the base only gets older. Merging a
thousand branches into one leaves a thousand candidates, of which the first two read contain nearly
all others: the reads depend on the bases, not on the vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tensorlake.errors import SnapshotExpiredError
from tensorlake.format import Entry
from tensorlake.storage import Store, runtime
from tensorlake.versions.log.entries import is_expired
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import State, state_of
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.reachability import packs_of
from tensorlake.versions.refs.refs import commit_under

__all__ = [
    "Version",
    "contains",
    "merge_bases",
    "vector_of",
    "version_at",
    "was_reordered",
]

PACKS_ASKED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Version:
    """A commit of a branch, with its content."""

    branch: str
    entry: Entry
    state: State

    @property
    def name(self) -> str:
        """The name of the commit: ``main@12``."""
        return f"{self.branch}@{self.entry.seq}"

    @property
    def vector(self) -> Mapping[str, int]:
        """The largest number of each branch that the commit contains."""
        return vector_of(self.branch, self.entry)


async def version_at(store: Store, branch: str, entry: Entry, packs: PackReader) -> Version:
    """Load the commit of an entry, or the commit that it is based on."""
    commit = await loaded(await commit_under(store, branch, entry), packs)
    return Version(branch, commit, state_of(commit))


def vector_of(branch: str, entry: Entry) -> Mapping[str, int]:
    """Return the version vector of an entry whose pages are loaded, including its own branch.

    >>> entry = Entry(kind="commit", seq=9, txid="0" * 32, time=0, merged={"main": 4})
    >>> vector_of("fix", entry)
    {'main': 4, 'fix': 9}
    """
    return {**entry.merged, branch: entry.seq}


def contains(vector: Mapping[str, int], branch: str, seq: int) -> bool:
    """Return whether a version contains commit ``seq`` of a branch."""
    return vector.get(branch, -1) >= seq


async def merge_bases(
    store: Store, packs: PackReader, ours: Version, theirs: Version
) -> list[Version]:
    """Find the versions that both sides contain and no other such version contains.

    Newest first; at least one.

    Raises:
        SnapshotExpiredError: The index of every common version was collected.
    """
    x, y = ours.vector, theirs.vector
    waiting = {branch: min(x[branch], y[branch]) for branch in x.keys() & y.keys()}
    bases: list[Version] = []
    while waiting:
        branch = _most_promising(waiting, (ours.branch, theirs.branch))
        seq = waiting.pop(branch)
        found = await _readable(store, branch, seq, packs)
        if found is None:
            continue
        vector = {**found.vector, branch: seq}
        waiting = {b: n for b, n in waiting.items() if not contains(vector, b, n)}
        bases = [base for base in bases if not _is_within(base, vector)]
        bases.append(found)
    if not bases:
        raise SnapshotExpiredError(
            f"every version that {ours.name} and {theirs.name} of {store.url!r} have in common has"
            " expired and was collected, so the changes of each are unknown\n"
            "copy the rows instead: ds.extend(ds.at(…)), or restore one of them",
            version=theirs.name,
        )
    return sorted(bases, key=lambda base: (-base.entry.time, base.name))


def _most_promising(waiting: Mapping[str, int], first: tuple[str, str]) -> str:
    """Return a point of the branches being merged, which contains nearly all others, if any."""
    return next((branch for branch in first if branch in waiting), min(waiting))


def _is_within(base: Version, vector: Mapping[str, int]) -> bool:
    return contains(vector, base.branch, base.entry.seq)


async def _readable(store: Store, branch: str, seq: int, packs: PackReader) -> Version | None:
    """Load a point; None when a part of it was collected."""
    log = BranchLog(store, branch)
    entry = await log.existing(seq)
    newest = await log.newest_from(entry)
    is_kept = not is_expired(seq, newest=newest)
    try:
        found = await version_at(store, branch, entry, packs)
        if is_kept or await _is_whole(store, found, packs):
            return found
    except SnapshotExpiredError:
        if is_kept:
            raise
    return None


async def _is_whole(store: Store, version: Version, packs: PackReader) -> bool:
    """Return whether an expired version still has all of its packs."""
    needed = await packs_of(version.entry, packs)
    heads = [partial(store.head, pack.path) for pack in needed]
    found = await runtime.gather_bounded(heads, limit=PACKS_ASKED_AT_ONCE)
    return all(meta is not None for meta in found)


async def was_reordered(store: Store, base: Version, side: Version) -> bool:
    """Return whether a commit between a base and a version reordered rows.

    Merges reorder rows on either side without a request; so only commits with one parent, as
    published by restores and ``optimize``, count.
    """
    at: tuple[str, int] | None = (side.branch, side.entry.seq)
    while at is not None:
        branch, seq = at
        log, at = BranchLog(store, branch), None
        start = base.entry.seq + 1 if branch == base.branch else 1
        async for entry in log.entries(start, seq + 1):
            if entry.changes.rewrite and len(entry.parents) == 1:
                return True
            first = entry.parents[0] if len(entry.parents) == 1 else None
            if at is None and first is not None and branch not in (first.branch, base.branch):
                at = (first.branch, first.seq)  # the start of the branch
    return False
