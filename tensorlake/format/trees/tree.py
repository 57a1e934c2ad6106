"""Growing counted trees: append, replace, concat. Roots are values; pages are only ever added.

How a tree grows by appends, so that an entry is written at most three times on its way into a
full leaf (once when its tail spills, then in two merges):

    tail       ≤64 entries and ≤2 KiB, inline in the root; one entry more and it becomes …
    small leaf (merges 0); eight of them at the end of a root become …
    leaf       (merges 1); eight of them become …
    leaf       (merges 2, settled): about full
    inner page when a root would have more than 16 children, all but its small leaves go below
               inner pages, which take new children until they have 512

``append`` is two steps, which a transaction takes apart: ``grown`` adds to the tail whatever its
length, without a page; ``settled`` spills a tail that is too long to be published.

``replace`` cuts the tree at the edits' borders, puts the new entries between the pieces, and joins
the pieces: pages that no edit touches are referenced unchanged. A writer that stages pages and
then loses a race leaves them unreferenced in its packs; nothing else needs undoing.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.format.trees.diff import differing_rows
from tensorlake.format.trees.inline_tail import Addition, LeafTable, Tail
from tensorlake.format.trees.lookup import Located, iter_pack_ids, iter_page_refs, locate, scan
from tensorlake.format.trees.nodes import (
    LIMITS,
    SETTLED,
    Inner,
    PageRef,
    PageSink,
    PageSource,
    Root,
    TreeLimits,
    write_inner,
    write_leaf,
)
from tensorlake.format.trees.page_reader import PageReader, as_page_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Located",
    "append",
    "concat",
    "differing_rows",
    "grown",
    "iter_pack_ids",
    "iter_page_refs",
    "locate",
    "replace",
    "scan",
    "settled",
]

T = TypeVar("T", bound=LeafTable)

# A leaf this full counts as merged once, or as settled, however it came to be.
_ONCE_MERGED = 1 / 32
_SETTLED = 1 / 4
# A rebase may fill a tail to twice its size (format.md); the next append spills it.
_REBASE_FACTOR = 2


async def append(
    root: Root[T],
    added: Addition[T],
    pages: PageSource | PageReader,
    sink: PageSink,
    *,
    limits: TreeLimits = LIMITS,
) -> Root[T]:
    """Add entries at the end."""
    return await settled(grown(root, added), pages, sink, limits=limits)


def grown(root: Root[T], added: Addition[T]) -> Root[T]:
    """Add entries to the tail, however long it becomes: no page is read or written.

    The tree reads like any other; before it is published, it must be settled.
    """
    return Root(root.children, root.newest.grown(added))


async def settled(
    root: Root[T],
    pages: PageSource | PageReader,
    sink: PageSink,
    *,
    is_rebased: bool = False,
    limits: TreeLimits = LIMITS,
) -> Root[T]:
    """Turn a tail that is too long for a log entry into leaves; a rebased one may be twice so."""
    if _fits_tail(root.newest, limits, factor=_REBASE_FACTOR if is_rebased else 1):
        return root
    return await _spill(root.children, root.tail, as_page_reader(pages), sink, limits)


async def concat(
    root: Root[T],
    other: Root[T],
    pages: PageSource | PageReader,
    sink: PageSink,
    *,
    limits: TreeLimits = LIMITS,
) -> Root[T]:
    """Add a whole tree at the end. No page of either is rewritten; at most the tail spills."""
    reader = as_page_reader(pages)
    if not other.children:
        grew = grown(root, other.tail)
        return await settled(grew, reader, sink, is_rebased=True, limits=limits)
    children = list(root.children)
    if len(root.newest):
        children += [_write_cut(leaf, sink, limits) for leaf in _cut(root.tail, limits)]
    children += other.children
    folded = await _fold(children, root.leaf_type, reader, sink, limits)
    return Root(folded, other.newest)


async def replace(
    root: Root[T],
    edits: Sequence[tuple[int, int, T]],
    pages: PageSource | PageReader,
    sink: PageSink,
    *,
    limits: TreeLimits = LIMITS,
) -> Root[T]:
    """Replace the entries of some rows.

    Args:
        root: The tree.
        edits: (start, stop, table): rows [start, stop) become those of the table, which may hold
            another number of rows. In ascending order, not overlapping; rows are those before any
            edit.
        pages: Where to read pages.
        sink: Takes the new pages.
        limits: How large pages may become.
    """
    _check_edits(edits, root.rows)
    reader = as_page_reader(pages)
    body = root.body_rows
    borders = np.unique([border for start, stop, _ in edits for border in (start, stop)])
    nodes = await _load_cut_nodes(root, borders.astype(np.int64), reader)
    items: list[PageRef | T] = []
    tail: list[T] = []
    at = 0
    for start, stop, table in [*edits, (root.rows, root.rows, root.leaf_type.empty())]:
        if at < body:
            items += _pieces(root.children, 0, at, min(start, body), nodes)
        if start > body or at > body:
            tail.append(root.tail.slice_rows(max(at - body, 0), max(start - body, 0)))
        (items if start < body else tail).append(table)
        at = stop
    children = _write_items(items, sink, limits)
    newest = Tail.of(_joined(tail) if tail else root.leaf_type.empty())
    if not _fits_tail(newest, limits):
        return await _spill(children, newest.table, reader, sink, limits)
    return Root(await _fold(children, root.leaf_type, reader, sink, limits), newest)


def _check_edits(edits: Sequence[tuple[int, int, LeafTable]], rows: int) -> None:
    borders = [0, *(border for start, stop, _ in edits for border in (start, stop)), rows]
    if any(before > after for before, after in pairwise(borders)):
        raise InvalidInputError(
            f"edits of rows {[edit[:2] for edit in edits[:4]]} are out of order or beyond the"
            f" {rows} rows\nsort them, and unite those that overlap",
            rows=rows,
        )


def _joined(tables: Sequence[T]) -> T:
    return type(tables[0]).concat(tables).united()


def _fits_tail(tail: Tail[T], limits: TreeLimits, *, factor: int = 1) -> bool:
    return len(tail) <= limits.tail_entries * factor and tail.nbytes <= limits.tail_nbytes * factor


async def _spill(
    children: Sequence[PageRef],
    tail: T,
    reader: PageReader,
    sink: PageSink,
    limits: TreeLimits,
) -> Root[T]:
    """Turn a tail into leaves, merging small leaves that this completes to eight."""
    settled = list(children)
    leaves = _cut(tail, limits)
    merges = _merges(leaves[0], limits)
    while len(leaves) == 1 and merges < SETTLED:
        small = settled[-(limits.merge_width - 1) :]
        if len(small) < limits.merge_width - 1 or any(_merges_of(ref) != merges for ref in small):
            break
        del settled[-len(small) :]
        leaves = _cut(_joined([*await reader.leaves(small, type(tail)), *leaves]), limits)
        merges = max(merges + 1, _merges(leaves[0], limits))
    settled += [
        write_leaf(leaf, sink, merges=max(merges, _merges(leaf, limits))) for leaf in leaves
    ]
    folded = await _fold(settled, type(tail), reader, sink, limits)
    return Root.of(tail.empty(), children=folded)


def _merges(leaf: LeafTable, limits: TreeLimits) -> int:
    fullness = _fullness(leaf, limits)
    return SETTLED if fullness >= _SETTLED else int(fullness >= _ONCE_MERGED)


def _merges_of(ref: PageRef) -> int:
    return ref.merges if ref.height == 0 else SETTLED


def _fullness(leaf: LeafTable, limits: TreeLimits) -> float:
    nbytes, units = leaf.leaf_weights()
    return max(
        len(leaf) / limits.leaf_entries,
        int(nbytes.sum()) / limits.leaf_nbytes,
        int(units.sum()) / limits.leaf_units,
    )


def _cut(table: T, limits: TreeLimits) -> list[T]:
    """Divide entries evenly among as few leaves as the limits allow."""
    entries = len(table)
    if not entries:
        return []
    weights = [np.concatenate([[0], np.cumsum(weight)]) for weight in table.leaf_weights()]
    bounds = (limits.leaf_nbytes, limits.leaf_units)
    most = [
        -(-entries // limits.leaf_entries),
        *(-(-int(w[-1]) // bound) for w, bound in zip(weights, bounds, strict=True)),
    ]
    even = -(-entries // max(most))
    leaves: list[T] = []
    start = 0
    while start < entries:
        stop = min(start + even, entries)
        for weight, bound in zip(weights, bounds, strict=True):
            fits = int(np.searchsorted(weight, weight[start] + bound, side="right")) - 1
            stop = min(stop, max(fits, start + 1))
        leaves.append(table.take(np.arange(start, stop)))
        start = stop
    return leaves


def _write_cut(leaf: LeafTable, sink: PageSink, limits: TreeLimits) -> PageRef:
    return write_leaf(leaf, sink, merges=_merges(leaf, limits))


def _write_items(items: Sequence[PageRef | T], sink: PageSink, limits: TreeLimits) -> list[PageRef]:
    """Write the tables among some pieces as leaves, those side by side together."""
    children: list[PageRef] = []
    for is_ref, group in groupby(items, key=lambda item: isinstance(item, PageRef)):
        if is_ref:
            children += [item for item in group if isinstance(item, PageRef)]
            continue
        tables = [item for item in group if not isinstance(item, PageRef)]
        leaves = _cut(_joined(tables), limits)
        children += [_write_cut(leaf, sink, limits) for leaf in leaves]
    return children


async def _fold(
    children: Sequence[PageRef],
    table: type[LeafTable],
    reader: PageReader,
    sink: PageSink,
    limits: TreeLimits,
) -> tuple[PageRef, ...]:
    """Bring the children of a root below their limit by putting them under inner pages.

    Small leaves at the end stay, for they will be merged; the others go under the inner page
    before them while it has room, else under new ones, level by level.
    """
    small = 0
    while small < min(len(children), limits.root_children - 2) and (
        _merges_of(children[-1 - small]) < SETTLED
    ):
        small += 1
    lead, rest = list(children[: len(children) - small]), list(children[len(children) - small :])
    height = 0
    while len(lead) + len(rest) > limits.root_children:
        lead = await _wrap(lead, height, table, reader, sink, limits)
        height += 1
    return (*lead, *rest)


async def _wrap(
    refs: list[PageRef],
    height: int,
    table: type[LeafTable],
    reader: PageReader,
    sink: PageSink,
    limits: TreeLimits,
) -> list[PageRef]:
    """Put each run of nodes of this height or less under inner pages of the next."""
    wrapped: list[PageRef] = []
    for is_below, group in groupby(refs, key=lambda ref: ref.height <= height):
        run = list(group)
        if not is_below:
            wrapped += run
            continue
        before = wrapped[-1] if wrapped else None
        if (
            before is not None
            and before.height == height + 1
            and before.entries + len(run) <= limits.fan_out
        ):
            (inner,) = await reader.inners([wrapped.pop()], table)
            wrapped.append(write_inner([*inner.refs(), *run], sink))
        elif len(run) == 1:
            wrapped += run
        else:
            wrapped += [write_inner(part, sink) for part in _even_parts(run, limits.fan_out)]
    return wrapped


def _even_parts(refs: list[PageRef], most: int) -> list[list[PageRef]]:
    count = -(-len(refs) // most)
    borders = [len(refs) * part // count for part in range(count + 1)]
    return [refs[start:stop] for start, stop in pairwise(borders)]


async def _load_cut_nodes(
    root: Root[T], borders: np.ndarray[tuple[int], np.dtype[np.int64]], reader: PageReader
) -> dict[PageRef, Inner | T]:
    """Read the nodes that a border falls within, level by level."""
    loaded: dict[PageRef, Inner | T] = {}
    level = _cut_by(root.children, 0, borders)
    while level:
        leaves = [ref for _, ref in level if ref.height == 0]
        loaded.update(zip(leaves, await reader.leaves(leaves, root.leaf_type), strict=True))
        above = [(base, ref) for base, ref in level if ref.height]
        inners = await reader.inners([ref for _, ref in above], root.leaf_type)
        level = []
        for (base, ref), inner in zip(above, inners, strict=True):
            loaded[ref] = inner
            level += _cut_by(inner.refs(), base, borders)
    return loaded


def _cut_by(
    refs: Sequence[PageRef], base: int, borders: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[tuple[int, PageRef]]:
    cut: list[tuple[int, PageRef]] = []
    for ref in refs:
        first = int(np.searchsorted(borders, base, side="right"))
        if first < len(borders) and int(borders[first]) < base + ref.rows:
            cut.append((base, ref))
        base += ref.rows
    return cut


def _pieces(
    refs: Sequence[PageRef], base: int, start: int, stop: int, nodes: dict[PageRef, Inner | T]
) -> list[PageRef | T]:
    """Return the nodes of rows [start, stop): whole pages, and parts of pages at borders."""
    pieces: list[PageRef | T] = []
    for ref in refs:
        first, last = max(start - base, 0), min(stop - base, ref.rows)
        if first < last:
            node = nodes.get(ref)
            if first == 0 and last == ref.rows:
                pieces.append(ref)
            elif isinstance(node, Inner):
                pieces += _pieces(node.refs(), base, start, stop, nodes)
            elif node is not None:
                pieces.append(node.slice_rows(first, last))
        base += ref.rows
    return pieces
