"""The commits that led to a version, read on demand.

A log lists the commits from the handle's version down to entry 0 of its branch, continues in the
branch that this one was started from, and ends at the first commit of ``main``. It is read in
pages: a few entries at first, for the newest commits, then more at a time.

A graph also goes through the other parents, merged branches included: newest first, by the times in
the log; a writer whose clock was ahead never puts a commit before the one that led here through it.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import overload

from tensorlake.dataset.core.indexing import slice_bounds
from tensorlake.dataset.history.commit import Commit, tensor_names
from tensorlake.errors import CorruptionError, VersionNotFoundError, shown, shown_as
from tensorlake.format import Entry, EntryLine, entry_path
from tensorlake.quantities import checked_integer, plural
from tensorlake.storage import ForkLock, Store, runtime
from tensorlake.versions import BranchLog, fence_of

__all__ = ["Log", "commit_graph", "commits_to"]

FIRST_PAGE = 16
"""Entries read together at first; each page doubles, up to ``LARGEST_PAGE``."""

LARGEST_PAGE = 256

READS_IN_FLIGHT = 64

SHOWN_COMMITS = 50
"""Maximum number of lines that ``repr`` prints."""


@shown_as(VersionNotFoundError)
class _NoCommitError(VersionNotFoundError, IndexError):
    """No commit at this position: also what a sequence raises beyond its end."""


class Log(Sequence[Commit]):
    """Commits, newest first; prints as one line each. Thread-safe.

    Indexing or slicing the first commits reads only these; ``len`` and negative positions read
    all.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-log", {"x": "float32"})
        >>> for number in range(3):
        ...     ds.append({"x": number})
        ...     commit = ds.commit(f"row {number}")
        >>> log = ds.log()
        >>> log[0].message, [commit.version for commit in log]
        ('row 2', ['main@3', 'main@2', 'main@1', 'main@0'])
    """

    def __init__(self, pages: AsyncIterator[list[Commit]], limit: int | None = None) -> None:
        self._pages = pages
        self._limit = limit
        self._commits: list[Commit] = []
        self._is_whole = limit == 0
        self._lock = ForkLock()

    def __len__(self) -> int:
        return len(self._read(None))

    def __bool__(self) -> bool:
        return bool(self._read(1))

    @overload
    def __getitem__(self, at: int) -> Commit: ...

    @overload
    def __getitem__(self, at: slice) -> list[Commit]: ...

    def __getitem__(self, at: int | slice) -> Commit | list[Commit]:
        if isinstance(at, slice):
            slice_bounds(at, 0, what="a log")
            is_bounded = at.stop is not None and at.stop >= 0 and (at.start or 0) >= 0
            is_forward = at.step is None or at.step > 0
            return self._read(at.stop if is_bounded and is_forward else None)[at]
        at = checked_integer(
            at, name="the position in a log", least=None, advice="0 is the newest commit"
        )
        commits = self._read(at + 1 if at >= 0 else None)
        if not -len(commits) <= at < len(commits):
            raise _NoCommitError(
                f"the log has {plural(len(commits), 'commit')}, no commit {shown(at)}"
                "\nlog[0] is the newest commit, log[-1] the oldest"
            )
        return commits[at]

    def __iter__(self) -> Iterator[Commit]:
        at = 0
        while at < len(self._read(at + 1)):
            yield self._commits[at]
            at += 1

    def __repr__(self) -> str:
        described = self._read(SHOWN_COMMITS + 1)
        lines = [str(commit) for commit in described[:SHOWN_COMMITS]]
        more = ["… and more: ds.log()[50:]"] if len(described) > SHOWN_COMMITS else []
        return "\n".join([*lines, *more]) or "no commits"

    async def _next_page(self) -> list[Commit] | None:
        return await anext(self._pages, None)

    def _read(self, count: int | None) -> list[Commit]:
        """Read until there are ``count`` commits; None: read all."""
        if self._is_whole or (count is not None and len(self._commits) >= count):
            return self._commits
        with self._lock:
            while not self._is_whole and (count is None or len(self._commits) < count):
                page = runtime.run(self._next_page())
                self._commits += page or ()
                self._is_whole = page is None
                if self._limit is not None and len(self._commits) >= self._limit:
                    del self._commits[self._limit :]
                    self._is_whole = True
        return self._commits


async def commits_to(
    store: Store, branch: str, head: Entry, *, limit: int | None
) -> AsyncIterator[list[Commit]]:
    """Yield the commits up to a version, newest first, in pages; about ``limit`` of them."""
    size = FIRST_PAGE if limit is None else max(1, min(limit, LARGEST_PAGE))
    at: tuple[str, Entry | EntryLine] | None = (branch, head)
    newest: Entry | None = head
    names = tensor_names(head)  # reads schemas that are too large for their entries
    latest: dt.datetime | None = None  # an entry is older than those that follow it
    while at is not None:
        name, upper = at
        oldest = upper
        kept = 0 if newest is None else fence_of(newest).expired_before
        stop = upper.seq + 1
        while stop > 0:
            start = max(stop - size, 0)
            numbers = [seq for seq in range(stop - 1, start - 1, -1) if seq != upper.seq]
            read: list[Entry | EntryLine] = [upper] if stop == upper.seq + 1 else []
            factories = [partial(read_line, store, name, seq) for seq in numbers]
            read += await runtime.gather_bounded(factories, limit=READS_IN_FLIGHT)
            lines = [line for line in read if line.kind == "commit"]
            oldest = lines[-1] if lines else oldest
            page: list[Commit] = []
            for line in lines:
                is_expired = line.seq < kept
                page.append(
                    Commit.of_entry(line, name, names=names, latest=latest, is_expired=is_expired)
                )
                latest = page[-1].time
            yield page
            stop, size = start, min(2 * size, LARGEST_PAGE)
        source = next((parent for parent in oldest.parents if parent.branch != name), None)
        at = None
        if source is not None:
            at = (source.branch, await read_line(store, source.branch, source.seq))
            newest = await BranchLog(store, source.branch).head()


async def read_line(store: Store, branch: str, seq: int) -> EntryLine:
    """Read an entry that must exist, without its trees."""
    path = entry_path(branch, seq)
    found = await store.read(path)
    if found is None:
        version = f"{branch}@{seq}"
        message = (
            f"{store.url!r} has no version {shown(version)}, which others follow; restore {path!r}"
        )
        raise VersionNotFoundError(message, version=version)
    line = EntryLine.from_bytes(found.data, where=path, modified=found.modified)
    if line.seq != seq:
        message = f"{path!r} contains entry {line.seq}, expected {seq}; restore it"
        raise CorruptionError(message, object=path, expected=seq, actual=line.seq)
    return line


def commit_graph(store: Store, branch: str, head: Entry | EntryLine) -> Iterator[Commit]:
    """Yield the commits that a version contains."""
    start = runtime.run(_commit_under(store, branch, head))
    known = {f"{branch}@{start.seq}": (branch, start)}
    frontier = [(-start.published, f"{branch}@{start.seq}")]
    while frontier:
        _, version = heapq.heappop(frontier)
        of_branch, line = known[version]
        parents: list[str] = []
        for parent in line.parents:
            entry = runtime.run(read_line(store, parent.branch, parent.seq))
            under = runtime.run(_commit_under(store, parent.branch, entry))
            name = f"{parent.branch}@{under.seq}"
            parents.append(name)
            if name not in known:
                known[name] = (parent.branch, under)
                # A parent's clock may have been ahead; it still comes after its child.
                heapq.heappush(frontier, (max(-under.published, -line.published + 1), name))
        yield replace(Commit.of_entry(line, of_branch), parents=tuple(parents))


async def _commit_under(store: Store, branch: str, line: Entry | EntryLine) -> Entry | EntryLine:
    """Return the commit before a fence or an end."""
    while line.kind != "commit" and line.seq > 0:
        line = await read_line(store, branch, line.seq - 1)
    return line
