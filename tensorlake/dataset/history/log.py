"""The commits that led to a version, read on demand.

A log goes from the handle's version down to entry 0 of its branch, then on in the branch that this
one was started from, and so to the first commit of ``main``. It is read in pages: a few entries at
first, for the newest commits, and more at a time after that.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import overload

from tensorlake.dataset.history.commit import Commit, tensor_names
from tensorlake.errors import CorruptionError, VersionNotFoundError
from tensorlake.format import Entry, EntryLine, entry_path
from tensorlake.storage import ForkLock, Store, runtime

__all__ = ["Log", "commits_to"]

FIRST_PAGE = 16
"""Entries read together at first; each page doubles, up to ``LARGEST_PAGE``."""

LARGEST_PAGE = 256

READS_IN_FLIGHT = 64

SHOWN_COMMITS = 50
"""How many lines ``repr`` prints."""


class Log(Sequence[Commit]):
    """Commits, newest first; prints as one line each. Thread-safe.

    Looking at the first commits, or at some by slicing, reads only these; ``len`` and negative
    positions read all.

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
            is_bounded = at.stop is not None and at.stop >= 0 and (at.start or 0) >= 0
            is_forward = at.step is None or at.step > 0
            return self._read(at.stop if is_bounded and is_forward else None)[at]
        return self._read(at + 1 if at >= 0 else None)[at]

    def __iter__(self) -> Iterator[Commit]:
        at = 0
        while at < len(self._read(at + 1)):
            yield self._commits[at]
            at += 1

    def __repr__(self) -> str:
        shown = self._read(SHOWN_COMMITS + 1)
        lines = [str(commit) for commit in shown[:SHOWN_COMMITS]]
        more = ["… and more: ds.log()[50:]"] if len(shown) > SHOWN_COMMITS else []
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
    names = tensor_names(head)  # for versions whose schema is too large for their entries
    latest: dt.datetime | None = None  # an entry was published before those after it
    while at is not None:
        name, upper = at
        oldest = upper
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
                page.append(Commit.of_entry(line, name, names=names, latest=latest))
                latest = page[-1].time
            yield page
            stop, size = start, min(2 * size, LARGEST_PAGE)
        source = next((parent for parent in oldest.parents if parent.branch != name), None)
        at = None
        if source is not None:
            at = (source.branch, await read_line(store, source.branch, source.seq))


async def read_line(store: Store, branch: str, seq: int) -> EntryLine:
    """Read an entry that must exist, without its trees."""
    path = entry_path(branch, seq)
    found = await store.read(path)
    if found is None:
        version = f"{branch}@{seq}"
        message = f"{store.url!r} has no version {version!r}, which others follow; restore {path!r}"
        raise VersionNotFoundError(message, version=version)
    line = EntryLine.from_bytes(found.data, where=path, modified=found.modified)
    if line.seq != seq:
        message = f"{path!r} contains entry {line.seq}, expected {seq}; restore it"
        raise CorruptionError(message, object=path, expected=seq, actual=line.seq)
    return line
