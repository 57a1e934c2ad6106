"""Reachability: every range of every pack that reading a version may touch.

    entry ── spilled pages (schema, roots, merged, indexes)
          ├─ roots ──── pages of each tensor's index ── its chunks
          ├─ indexes ── pages of each column group's parts ── their chunks
          │          └─ pages of the states that it covers, no chunks
          ├─ rows ───── pages of the row selection
          └─ row_ids ── pages of the row ids

This is the single implementation. The collector marks with it (``packs_of``), ``check`` reads all
the ranges it returns, ``copy`` copies the packs: missed ranges would be collected, unchecked and
not copied. So an entry with anything unknown to this version (a group's member, a tiled chunk) is
refused, not interpreted in part.

Invariant: a page comes before its references; pages in ``seen`` are left out with everything below.
A page that was listed for a state alone is in ``seen`` under another key: its chunks were not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np

from tensorlake.errors import CorruptionError, SnapshotExpiredError, UnsupportedFeatureError
from tensorlake.format import (
    NO_PACK,
    ChunkKind,
    Entry,
    Extents,
    LeafTable,
    PackId,
    PageRef,
    Parts,
    Root,
    column_groups,
    cover_roots,
    group_roots,
)
from tensorlake.storage import MissingObjectError
from tensorlake.versions.packs.reader import PackReader

__all__ = [
    "PageKey",
    "Reference",
    "Unreadable",
    "iter_references",
    "iter_root_references",
    "packs_of",
    "packs_of_root",
]

PageKey = tuple[PackId, int]
"""A page: its pack, and its offset there; -1 - offset where it was listed without chunks."""

PAGES_AT_ONCE = 32
"""Pages read together: enough to hide a store's latency, 4 MiB at most in flight."""

L = TypeVar("L", bound=LeafTable)


@dataclass(frozen=True, slots=True)
class Reference:
    """A range of a pack that a version needs.

    Attributes:
        pack: Its pack.
        offset: Its start in the pack.
        nbytes: Its length.
        checksum: xxh3-64 of its bytes.
        kind: Whether it is an index page or a chunk of samples.
        what: Its owner: a tensor's id, a part of a group (``group/part id``), a state that a group
            covers (``group/tensor id as covered``), "rows", "row_ids", or the entry's member that
            it stores.
        row_start: First row (of the tree's axis) that it covers.
        rows: Minimum number of rows from there on; 0 for a member of the entry.
    """

    pack: PackId
    offset: int
    nbytes: int
    checksum: int
    kind: Literal["page", "chunk"]
    what: str
    row_start: int
    rows: int

    def __str__(self) -> str:
        return f"{self.kind} {self.pack.path}[{self.offset}:{self.offset + self.nbytes}]"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A page that could not be read, so that everything below it is unknown."""

    reference: Reference
    error: CorruptionError | SnapshotExpiredError

    @property
    def is_missing(self) -> bool:
        """Whether its pack is missing, not damaged."""
        return isinstance(self.error.__cause__, MissingObjectError)


OnUnreadable = Callable[[Unreadable], None]


async def iter_references(
    entry: Entry,
    packs: PackReader,
    *,
    seen: set[PageKey] | None = None,
    on_unreadable: OnUnreadable | None = None,
) -> AsyncIterator[Reference]:
    """List every pack range that a version needs, each page and chunk of a leaf once.

    Args:
        entry: The version; members stored in pages are loaded here.
        packs: Reads index pages; leaves of row selections and chunks are not read.
        seen: Pages listed before: they and all below are left out, and new ones are added.
        on_unreadable: Called with each missing or damaged page, which is then not listed; None
            raises its error.

    Raises:
        UnsupportedFeatureError: The version has references unknown to this tensorlake.
    """
    visited = set[PageKey]() if seen is None else seen
    async for reference, loaded in _loaded(entry, packs, on_unreadable):
        entry = loaded
        if reference is not None and _Visit(visited).is_first(reference):
            yield reference
    for what, root, has_chunks in _trees(entry):
        async for reference in iter_root_references(
            root,
            packs,
            what=what,
            seen=visited,
            on_unreadable=on_unreadable,
            has_chunks=has_chunks,
        ):
            yield reference


async def iter_root_references(
    root: Root[L],
    packs: PackReader,
    *,
    what: str,
    seen: set[PageKey] | None = None,
    on_unreadable: OnUnreadable | None = None,
    has_chunks: bool = True,
) -> AsyncIterator[Reference]:
    """List every pack range that one tree needs; arguments as in ``iter_references``.

    ``has_chunks`` is False for a state that is only compared: its chunks are not needed.
    """
    visit = _Visit(set() if seen is None else seen, has_chunks=has_chunks)
    async for node in _walk(root, packs, what, visit, on_unreadable):
        if node.page is not None:
            yield node.page
        if isinstance(node.table, Extents):
            for reference in _chunks(node.table, what, node.row_start):
                yield reference


async def packs_of(
    entry: Entry,
    packs: PackReader,
    *,
    seen: set[PageKey] | None = None,
    on_unreadable: OnUnreadable | None = None,
) -> set[PackId]:
    """List the packs that a version needs; arguments as in ``iter_references``.

    With ``seen``, packs of pages seen before are left out. A tree that is not read to its end adds
    nothing to ``seen``: the next version that shares one of its pages finds the damage again.
    """
    visited = set[PageKey]() if seen is None else seen
    found: set[PackId] = set()
    async for reference, loaded in _loaded(entry, packs, on_unreadable):
        entry = loaded
        if reference is not None:
            found.add(reference.pack)
    for what, root, has_chunks in _trees(entry):
        found |= await packs_of_root(
            root,
            packs,
            what=what,
            seen=visited,
            on_unreadable=on_unreadable,
            has_chunks=has_chunks,
        )
    return found


async def packs_of_root(
    root: Root[L],
    packs: PackReader,
    *,
    what: str,
    seen: set[PageKey] | None = None,
    on_unreadable: OnUnreadable | None = None,
    has_chunks: bool = True,
) -> set[PackId]:
    """List the packs that one tree needs; arguments as in ``packs_of``."""
    visit = _Visit(set() if seen is None else seen, has_chunks=has_chunks)
    found: set[PackId] = set()
    is_whole = True

    def note(unreadable: Unreadable) -> None:
        nonlocal is_whole
        is_whole = False
        _report(unreadable, on_unreadable)

    try:
        async for node in _walk(root, packs, what, visit, note):
            if node.page is not None:
                found.add(node.page.pack)
            if node.table is not None:
                found.update(node.table.pack_ids())
    finally:
        if not is_whole:
            visit.undo()
    return found


@dataclass(frozen=True, slots=True)
class _Visit:
    """Pages seen, and those of them seen by this walk."""

    seen: set[PageKey]
    added: list[PageKey] = field(default_factory=list[PageKey])
    has_chunks: bool = True

    def is_first(self, reference: Reference) -> bool:
        key = (reference.pack, reference.offset)
        if key in self.seen:
            return False
        if not self.has_chunks:
            key = (reference.pack, -1 - reference.offset)
            if key in self.seen:
                return False
        self.seen.add(key)
        self.added.append(key)
        return True

    def undo(self) -> None:
        self.seen.difference_update(self.added)


@dataclass(frozen=True, slots=True)
class _Node:
    """A page, and its contents if they reference packs; for a root's tail only the contents."""

    page: Reference | None
    table: LeafTable | None
    row_start: int


async def _loaded(
    entry: Entry, packs: PackReader, on_unreadable: OnUnreadable | None
) -> AsyncIterator[tuple[Reference | None, Entry]]:
    """Yield each page of spilled members with the entry read so far, and finally the entry."""
    packs.use(entry)
    for name, ref in entry.spilled.items():
        reference = _page(ref, name, 0)
        where = f"{name} of entry {entry.seq}"
        try:
            part = await replace(entry, spilled={name: ref}).load(packs, where=where)
        except (CorruptionError, SnapshotExpiredError) as error:
            _report(Unreadable(reference, error), on_unreadable)
            continue
        entry = replace(entry, **{name: getattr(part, name)})
        yield reference, entry
    yield None, entry


def _trees(entry: Entry) -> list[tuple[str, Root[Any], bool]]:
    """Return each tree with its owner, and whether its chunks are needed."""
    groups = column_groups(entry.indexes, where=f"entry {entry.seq}")
    named = (("rows", entry.rows), ("row_ids", entry.row_ids))
    trees = [
        *entry.roots.items(),
        *group_roots(groups).items(),
        *((what, root) for what, root in named if root is not None),
    ]
    return [
        *((what, root, True) for what, root in trees),
        *((what, root, False) for what, root in cover_roots(groups).items()),
    ]


async def _walk(
    root: Root[L],
    packs: PackReader,
    what: str,
    visit: _Visit,
    on_unreadable: OnUnreadable | None,
) -> AsyncIterator[_Node]:
    """Visit the pages of a tree, parents first, neighbours together."""
    table = root.leaf_type
    queue = deque(_placed(root.children, 0))
    while queue:
        is_leaf = queue[0][1].height == 0
        batch: list[tuple[Reference, PageRef]] = []
        while queue and len(batch) < PAGES_AT_ONCE and (queue[0][1].height == 0) == is_leaf:
            base, ref = queue.popleft()
            reference = _page(ref, what, base)
            if visit.is_first(reference):
                batch.append((reference, ref))
        if is_leaf and not (table.HAS_PACKS and visit.has_chunks):
            for reference, _ in batch:
                yield _Node(reference, None, reference.row_start)
        elif is_leaf:
            for reference, leaf in await _leaves(batch, table, packs, on_unreadable):
                _check_known(leaf, what)
                yield _Node(reference, leaf, reference.row_start)
        else:
            below: list[tuple[int, PageRef]] = []
            for reference, children in await _inners(batch, table, packs, on_unreadable):
                yield _Node(reference, None, reference.row_start)
                below += _placed(children, reference.row_start)
            queue.extendleft(reversed(below))
    if len(root.newest) and table.HAS_PACKS and visit.has_chunks:
        _check_known(root.tail, what)
        yield _Node(None, root.tail, root.body_rows)


async def _leaves(
    batch: Sequence[tuple[Reference, PageRef]],
    table: type[L],
    packs: PackReader,
    on_unreadable: OnUnreadable | None,
) -> list[tuple[Reference, L]]:
    async def read(reference: Reference, ref: PageRef) -> list[tuple[Reference, L]]:
        try:
            (leaf,) = await packs.pages.leaves([ref], table, Parts.LOCATIONS)
        except (CorruptionError, SnapshotExpiredError) as error:
            _report(Unreadable(reference, error), on_unreadable)
            return []
        return [(reference, leaf)]

    found = await asyncio.gather(*(read(*one) for one in batch))
    return [one for some in found for one in some]


async def _inners(
    batch: Sequence[tuple[Reference, PageRef]],
    table: type[L],
    packs: PackReader,
    on_unreadable: OnUnreadable | None,
) -> list[tuple[Reference, Sequence[PageRef]]]:
    async def read(reference: Reference, ref: PageRef) -> list[tuple[Reference, Sequence[PageRef]]]:
        try:
            (inner,) = await packs.pages.inners([ref], table)
        except (CorruptionError, SnapshotExpiredError) as error:
            _report(Unreadable(reference, error), on_unreadable)
            return []
        return [(reference, [inner.ref(child) for child in range(len(inner.stops))])]

    found = await asyncio.gather(*(read(*one) for one in batch))
    return [one for some in found for one in some]


def _report(unreadable: Unreadable, on_unreadable: OnUnreadable | None) -> None:
    if on_unreadable is None:
        raise unreadable.error
    on_unreadable(unreadable)


def _placed(refs: Sequence[PageRef], base: int) -> list[tuple[int, PageRef]]:
    placed: list[tuple[int, PageRef]] = []
    for ref in refs:
        placed.append((base, ref))
        base += ref.rows
    return placed


def _page(ref: PageRef, what: str, row_start: int) -> Reference:
    return Reference(
        ref.pack, ref.offset, ref.nbytes, ref.checksum, "page", what, row_start, ref.rows
    )


def _check_known(table: LeafTable, what: str) -> None:
    """Refuse chunks with references to packs in their payload, which this version cannot read."""
    if isinstance(table, Extents) and bool(np.any(table.kind == ChunkKind.TILED)):
        raise UnsupportedFeatureError(
            f"tensor {what} has tiled chunks, whose packs are unknown to this tensorlake"
            "\ninstall a newer tensorlake",
            features=("tiled",),
        )


def _chunks(extents: Extents, what: str, base: int) -> list[Reference]:
    """List the chunks that some extents are windows of, each once."""
    starts = extents.stops - extents.rows.astype(np.int64)
    placed = np.flatnonzero(extents.pack != NO_PACK)
    place = np.stack((extents.pack[placed].astype(np.uint64), extents.offset[placed]), axis=1)
    _, first, inverse = np.unique(place, axis=0, return_index=True, return_inverse=True)
    rows = np.bincount(inverse.reshape(-1), weights=extents.rows[placed], minlength=len(first))
    return [
        Reference(
            extents.packs[int(extents.pack[at])],
            int(extents.offset[at]),
            int(extents.nbytes[at]),
            int(extents.checksum[at]),
            "chunk",
            what,
            base + int(starts[at]),
            count,
        )
        for at, count in sorted(
            zip(placed[first].tolist(), rows.astype(np.int64).tolist(), strict=True)
        )
    ]
