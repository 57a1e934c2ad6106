"""Merge bases: the versions at which two branches diverged, found from version vectors.

Every entry carries, for each branch, the largest number that it contains. A branch's entry
contains its own log up to itself, so the vector of ``main@9`` is ``merged`` with main: 9. The
candidates are the points (b, min(x[b], y[b])) that both sides contain; the bases are those not
contained in another. Usually one; several after a criss-cross merge, newest first:

    main@5, which merged fix@2:        x = {main: 5, fix: 2}
    fix@4, which merged main@3:        y = {main: 3, fix: 4}
    candidates main@3 and fix@2; both are bases unless one had merged the other

Branches of a fork's base are in vectors as `<id of the base>:<branch>`; what an entry contains of
them is in its member ``bases``.

Points whose index is gone (expired and collected) are skipped: the base only gets older. Merging a
thousand branches into one leaves a thousand candidates, of which the first two read contain nearly
all others: the reads depend on the bases, not on the vectors.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tensorlake.errors import DatasetNotFoundError, SnapshotExpiredError
from tensorlake.format import Base, Entry
from tensorlake.storage import Store, runtime
from tensorlake.versions.log.entries import is_expired
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import State, state_of
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.reachability import packs_of
from tensorlake.versions.refs.create import read_descriptor
from tensorlake.versions.refs.refs import commit_under, resolve

__all__ = [
    "Version",
    "contains",
    "merge_bases",
    "vector_of",
    "version_at",
    "version_of_base",
    "was_reordered",
]

PACKS_ASKED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Version:
    """A commit of a branch, with its content.

    Attributes:
        branch: The branch.
        entry: The commit.
        state: Its content.
        origin: The base whose branch it is; None for a commit of the dataset itself.
    """

    branch: str
    entry: Entry
    state: State
    origin: Base | None = None

    @property
    def name(self) -> str:
        """The name of the commit: ``main@12``."""
        name = f"{self.branch}@{self.entry.seq}"
        return name if self.origin is None else f"{name} of {self.origin.url}"

    @property
    def key(self) -> str:
        """The branch, as vectors name it."""
        return self.branch if self.origin is None else f"{self.origin.id}:{self.branch}"

    @property
    def vector(self) -> Mapping[str, int]:
        """The largest number of each branch that the commit contains."""
        own = vector_of(self.branch, self.entry)
        if self.origin is not None:
            own = {f"{self.origin.id}:{branch}": seq for branch, seq in own.items()}
        return {**own, **{f"{base.id}:{base.branch}": base.seq for base in self.entry.bases}}


async def version_at(
    store: Store, branch: str, entry: Entry, packs: PackReader, origin: Base | None = None
) -> Version:
    """Load the commit of an entry, or the commit that it is based on."""
    commit = await loaded(await commit_under(store, branch, entry), packs)
    return Version(branch, commit, state_of(commit), origin)


async def version_of_base(
    packs: PackReader, base: Base, version: str | dt.datetime | None
) -> Version:
    """Load a version of a fork's base: the newest of the branch that it was forked from, if None.

    Raises:
        DatasetNotFoundError: The base is gone, or another dataset is in its place.
        VersionNotFoundError: It has no such version.
    """
    store = packs.places.base_store(base)
    descriptor = await read_descriptor(store)
    if descriptor is None or descriptor.id != base.id:
        what = "gone" if descriptor is None else f"another dataset now, {descriptor.id}"
        raise DatasetNotFoundError(
            f"the base {base.url!r} of the fork is {what}\nrestore it where it was",
            dataset=base.url,
        )
    found = await resolve(store, base.branch if version is None else version)
    entry = await commit_under(store, found.branch, found.entry)
    entry.features.check_readable(f"{found.branch}@{entry.seq} of {base.url!r}")
    origin = replace(base, branch=found.branch, seq=entry.seq, digest=entry.digest)
    return await version_at(store, found.branch, entry, packs, origin)


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
    origins = {base.id: base for base in (*theirs.entry.bases, *ours.entry.bases)}
    waiting = {branch: min(x[branch], y[branch]) for branch in x.keys() & y.keys()}
    bases: list[Version] = []
    while waiting:
        key = _most_promising(waiting, (ours.key, theirs.key), origins)
        seq = waiting.pop(key)
        id_, _, branch = key.partition(":")
        origin = origins.get(id_)
        if origin is None:
            found = await _readable(store, key, seq, packs)
        else:
            found = await _readable(packs.places.base_store(origin), branch, seq, packs, origin)
        if found is None:
            continue
        vector = {**found.vector, key: seq}
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


def _most_promising(
    waiting: Mapping[str, int], first: tuple[str, str], origins: Collection[str]
) -> str:
    """Return a point of the branches being merged, which contains nearly all others, if any.

    Those of a base come last: they take requests there, and one of the dataset contains most.
    """
    known = next((branch for branch in first if branch in waiting), None)
    return known or min(waiting, key=lambda key: (key.partition(":")[0] in origins, key))


def _is_within(base: Version, vector: Mapping[str, int]) -> bool:
    return contains(vector, base.key, base.entry.seq)


async def _readable(
    store: Store, branch: str, seq: int, packs: PackReader, origin: Base | None = None
) -> Version | None:
    """Load a point; None when a part of it was collected."""
    log = BranchLog(store, branch)
    entry = await log.existing(seq)
    newest = await log.newest_from(entry)
    is_kept = not is_expired(seq, newest=newest)
    try:
        found = await version_at(store, branch, entry, packs, origin)
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

    Args:
        store: The dataset that the side is a version of.
        base: The older version.
        side: The newer one.
    """
    is_of_one = (base.origin and base.origin.id) == (side.origin and side.origin.id)
    shared = base.branch if is_of_one else None
    at: tuple[str, int] | None = (side.branch, side.entry.seq)
    while at is not None:
        branch, seq = at
        log, at = BranchLog(store, branch), None
        start = base.entry.seq + 1 if branch == shared else 1
        async for entry in log.entries(start, seq + 1):
            if entry.changes.rewrite and len(entry.parents) == 1:
                return True
            first = entry.parents[0] if len(entry.parents) == 1 else None
            if at is None and first is not None and branch not in (first.branch, shared):
                at = (first.branch, first.seq)  # the start of the branch
    return False
