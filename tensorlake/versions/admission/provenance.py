"""The origin of an entry's references: its own packs, or a version that it is based on.

    entry    ▸A ▸N ▸C tail        N is new: it is in the entry's own packs, and is read
    source   ▸A ▸B ▸C tail        A and C are at the same rows: neither is read

Other referenced data would be collected while in use (docs/reference/format.md, "Garbage"), so a
server that accepts entries from clients checks that none references foreign data. The trees are
walked downward in parallel with those of the versions they are derived from, so the cost depends on
the changes. Only if places were changed too (a merge, a restore) are those versions read
completely.

New pages are untrusted: none is read twice, none that states more entries than leaves have, and a
few at a time, so that a small entry cannot make its reader hold, or walk, a large tree.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from tensorlake.errors import CorruptionError
from tensorlake.format import (
    LIMITS,
    NO_PACK,
    ChunkKind,
    Entry,
    Extents,
    LeafTable,
    PackId,
    PageRef,
    Parts,
    Root,
    RowSegments,
    Schema,
    column_groups,
    cover_roots,
    group_roots,
)
from tensorlake.storage import runtime
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.reachability import PageKey, packs_of

__all__ = ["stray_references"]

PACKS_ASKED_AT_ONCE = 32

MAX_OWN_PAGES = 200_000
"""Maximum new pages of one entry: 10⁹ rows of ten tensors have 30,000."""

MAX_PAGE_NBYTES = 16 << 20
"""Maximum of a new page: a leaf with all its units has two."""

PAGES_AT_ONCE = 4
"""Pages read together: at worst 64 MiB each, unpacked from a few stored bytes."""

STORED = (ChunkKind.UNIFORM, ChunkKind.RAGGED, ChunkKind.ENCODED)
EMPTY = (ChunkKind.FILL, ChunkKind.HOLE)

_Node: TypeAlias = tuple[int, PageRef]
"""The first row of a node, and its page."""


async def stray_references(
    entry: Entry, sources: Sequence[Entry], packs: PackReader, *, schema: Schema
) -> list[str]:
    """List an entry's inadmissible references: to missing data, or to another transaction's.

    Args:
        entry: The entry, its pages loaded.
        sources: The versions whose packs it may reference, loaded.
        packs: Reads the dataset's packs.
        schema: Schema of the entry.

    Raises:
        CorruptionError: A referenced page is damaged, or does not match its reference.
    """
    groups = column_groups(entry.indexes, where="its indexes")
    parts = {
        f"{name}/{spec.id}": len(spec.encodings)
        for name, group in groups.items()
        for spec in group.parts().tensors
    }
    encodings = {spec.id: len(spec.encodings) for spec in schema.tensors} | parts
    walk = _Walk(entry, sources, packs, _trees(entry), list(map(_trees, sources)), encodings)
    for name, ref in entry.spilled.items():
        walk.take_page(ref, is_known=any(one.spilled.get(name) == ref for one in sources))
    for what, root in walk.trees.items():
        await walk.tree(what, root)
    for what, root in cover_roots(groups).items():
        await walk.compared_tree(root, [one[what] for one in map(_states, sources) if what in one])
    await walk.look_everywhere()
    await walk.ask_for_own_packs()
    return walk.faults


@dataclass(slots=True)
class _Walk:
    """A walk in progress, and its findings.

    Attributes:
        trees: Its trees, by their owner.
        other_trees: Those of each source.
        encodings: How many encodings the owner of each tree of extents has.
        ends: Required length of each of the entry's own packs.
        strangers: Pages and packs not found in any source so far.
    """

    entry: Entry
    sources: Sequence[Entry]
    packs: PackReader
    trees: Mapping[str, Root[Any]]
    other_trees: Sequence[Mapping[str, Root[Any]]]
    encodings: Mapping[str, int]
    faults: list[str] = field(default_factory=list[str])
    ends: dict[PackId, int] = field(default_factory=dict[PackId, int])
    strange_pages: list[tuple[PageRef, type[LeafTable]]] = field(
        default_factory=list[tuple[PageRef, type[LeafTable]]]
    )
    strange_packs: set[PackId] = field(default_factory=set[PackId])
    own_pages: set[PageKey] = field(default_factory=set[PageKey])

    def take_page(self, ref: PageRef, *, is_known: bool) -> None:
        """Record a page that stores a member of the entry."""
        if self._is_own(ref):
            self._reach(ref.pack, ref.offset + ref.nbytes)
        elif not is_known:
            self.faults.append(f"it references {ref}, which no version has that it is based on")

    async def tree(self, what: str, root: Root[Any]) -> None:
        """Walk one tree in parallel with those of the sources."""
        others = [trees[what] for trees in self.other_trees if what in trees]
        new, gone = await self._apart(root, others)
        self._check_table(what, root.tail)
        cited = self._foreign(root.tail)
        async for table in self._leaves(new, root.leaf_type):
            self._check_table(what, table)
            cited |= self._foreign(table)
        cited -= {pack for other in others for pack in other.tail.pack_ids()}
        if cited:
            async for table in self._leaves(gone, root.leaf_type):
                cited.difference_update(table.pack_ids())
        self.strange_packs |= cited

    async def compared_tree(self, root: Root[Any], others: Sequence[Root[Any]]) -> None:
        """Walk a tree of which only pages are needed: a state that a group covers."""
        new, _ = await self._apart(root, others, is_shared=True)
        async for _ in self._leaves(new, root.leaf_type):
            pass  # they can be read

    async def look_everywhere(self) -> None:
        """Look for pages and packs not found so far anywhere in the sources."""
        if not (self.strange_packs or self.strange_pages):
            return
        seen: set[PageKey] = set()
        known: set[PackId] = set()
        for source in self.sources:
            known |= await packs_of(source, self.packs, seen=seen)
        for pack in sorted(self.strange_packs - known):
            self.faults.append(
                f"it references pack {pack}, which is another transaction's and not of a version"
                " that it is based on"
            )
        for ref, table in self.strange_pages:
            if (ref.pack, ref.offset) not in seen:
                self.faults.append(f"it references {ref}, which no version has that it is based on")
            elif ref.height:
                await self.packs.pages.inners([ref], table)
            else:
                await self.packs.pages.leaves([ref], table, Parts.LOCATIONS)

    async def ask_for_own_packs(self) -> None:
        """Check that the entry's own packs exist and have the referenced length."""
        paths = [pack.path for pack in self.ends]
        heads = [partial(self.packs.store.head, path) for path in paths]
        metas = await runtime.gather_bounded(heads, limit=PACKS_ASKED_AT_ONCE)
        for path, end, meta in zip(paths, self.ends.values(), metas, strict=True):
            if meta is None:
                self.faults.append(f"{path!r}, which it references, does not exist")
            elif meta.nbytes < end:
                self.faults.append(
                    f"{path!r} has {meta.nbytes:,} bytes, but it references {end:,} of them"
                )

    async def _apart(
        self, root: Root[Any], others: Sequence[Root[Any]], *, is_shared: bool = False
    ) -> tuple[list[_Node], list[_Node]]:
        """Return the tree's own leaves, and the other trees' leaves that it lacks at their rows.

        Own pages above them are read and recorded; pages of unknown origin are recorded as foreign.
        Those of a tree that ``is_shared`` may be in another one of the entry.
        """
        note = partial(self._note_page, table=root.leaf_type, is_shared=is_shared)
        new = set(_placed(0, root.children))
        old = {node for other in others for node in _placed(0, other.children)}
        for height in range(max([root.height, *(one.height for one in others)]) - 1, 0, -1):
            apart = {node for node in new - old if node[1].height == height}
            left = {node for node in old - new if node[1].height == height}
            own = [node for node in apart if note(node[1])]
            new = {node for node in new if node[1].height < height}
            old = {node for node in old if node[1].height < height}
            new |= await self._children(own, root.leaf_type)
            if new - old:
                old |= await self._children(left, root.leaf_type)
        own = [node for node in new - old if note(node[1])]
        return sorted(own, key=_base), sorted(old - new, key=_base)

    async def _children(self, nodes: Iterable[_Node], table: type[LeafTable]) -> set[_Node]:
        placed = sorted(nodes, key=_base)
        found: set[_Node] = set()
        for start in range(0, len(placed), PAGES_AT_ONCE):
            some = placed[start : start + PAGES_AT_ONCE]
            inners = await self.packs.pages.inners([ref for _, ref in some], table)
            for (base, _), inner in zip(some, inners, strict=True):
                found.update(_placed(base, inner.refs()))
            if len(found) > MAX_OWN_PAGES:
                raise _no_page(some[0][1], f"it is above more than {MAX_OWN_PAGES:,} pages")
        return found

    async def _leaves(
        self, nodes: Sequence[_Node], table: type[LeafTable]
    ) -> AsyncIterator[LeafTable]:
        refs = [ref for _, ref in nodes]
        for start in range(0, len(refs), PAGES_AT_ONCE):
            some = refs[start : start + PAGES_AT_ONCE]
            for leaf in await self.packs.pages.leaves(some, table, Parts.STATISTICS):
                yield leaf

    def _note_page(self, ref: PageRef, table: type[LeafTable], *, is_shared: bool = False) -> bool:
        """Record a page that no source has at its rows; return whether it is the entry's own.

        Raises:
            CorruptionError: It is not a page that a writer makes.
        """
        if self._is_own(ref):
            key = (ref.pack, ref.offset)
            entries = LIMITS.fan_out if ref.height else LIMITS.leaf_entries
            if is_shared and key in self.own_pages:
                return True
            if key in self.own_pages or ref.nbytes > MAX_PAGE_NBYTES or ref.entries > entries:
                raise _no_page(ref, "it is referenced twice, or too large for a page")
            if len(self.own_pages) >= MAX_OWN_PAGES:
                raise _no_page(ref, f"it is one of more than {MAX_OWN_PAGES:,} new pages")
            self.own_pages.add(key)
            self._reach(ref.pack, ref.offset + ref.nbytes)
            return True
        self.strange_pages.append((ref, table))
        return False

    def _check_table(self, what: str, table: LeafTable) -> None:
        if isinstance(table, Extents):
            self._check_extents(what, table)
        elif isinstance(table, RowSegments) and len(table):
            last = int((table.base + table.span).max())
            if last > self.entry.physical:
                self.faults.append(
                    f"it shows physical rows up to {last:,} but has {self.entry.physical:,}"
                )

    def _check_extents(self, what: str, table: Extents) -> None:
        encodings = self.encodings.get(what, 0)
        is_stored, is_empty = np.isin(table.kind, STORED), np.isin(table.kind, EMPTY)
        offset, nbytes = table.offset.astype(np.float64), table.nbytes.astype(np.float64)
        is_whole = (
            (is_stored | is_empty)
            & (is_stored == (table.pack != NO_PACK))
            & (table.read_as < encodings)
            & (table.header_nbytes <= table.nbytes)
            & (offset + nbytes < 1 << 62)
            & (table.rows > 0)
        )
        if not is_whole.all() or len(table.packs) > len(table):
            self.faults.append(f"an extent of tensor {what} is of an unknown kind")
            return
        for number, pack in enumerate(table.packs):
            inside = table.pack == number
            if pack.txid == self.entry.txid and inside.any():
                self._reach(pack, int((table.offset[inside] + table.nbytes[inside]).max()))

    def _foreign(self, table: LeafTable) -> set[PackId]:
        """Return the packs of other transactions that a table references."""
        return {pack for pack in table.pack_ids() if pack.txid != self.entry.txid}

    def _is_own(self, ref: PageRef) -> bool:
        return ref.pack.txid == self.entry.txid

    def _reach(self, pack: PackId, end: int) -> None:
        self.ends[pack] = max(end, self.ends.get(pack, 0))


def _no_page(ref: PageRef, why: str) -> CorruptionError:
    return CorruptionError(f"{ref} is not a page that a writer makes: {why}", object=ref.pack.path)


def _trees(entry: Entry) -> dict[str, Root[Any]]:
    """Return the trees of an entry: by tensor id, by part of a group, "rows" and "row_ids"."""
    groups = column_groups(entry.indexes, where=f"the indexes of entry {entry.seq}")
    named = (("rows", entry.rows), ("row_ids", entry.row_ids))
    shown = {what: root for what, root in named if root is not None}
    return {**entry.roots, **group_roots(groups), **shown}


def _states(entry: Entry) -> dict[str, Root[Any]]:
    """Return the states that the groups of an entry cover."""
    return cover_roots(column_groups(entry.indexes, where=f"the indexes of entry {entry.seq}"))


def _placed(base: int, refs: Sequence[PageRef]) -> list[_Node]:
    starts = accumulate((ref.rows for ref in refs), initial=base)
    return list(zip(starts, refs, strict=False))


def _base(node: _Node) -> int:
    return node[0]
