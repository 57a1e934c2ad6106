"""Reading counted trees: find rows, walk entries, list what a tree refers to.

All functions go level by level: the pages of one level are read concurrently, so a lookup costs as
many round trips as the tree's height, independent of the number of rows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.errors import RowNotFoundError
from tensorlake.format.spec.spec import PackId
from tensorlake.format.trees.inline_tail import LeafTable
from tensorlake.format.trees.nodes import Inner, PageRef, PageSource, Root
from tensorlake.format.trees.page_reader import PageReader, Parts, as_page_reader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from tensorlake.format.pages.summaries import Summaries

T = TypeVar("T", bound=LeafTable)
_Rows = npt.NDArray[np.int64]
PAGES_AT_ONCE = 32  # of a scan: whole leaves with units are 860 KB each
# The root is no page: spans of its tail, and the span that all begin from, have this reference.
_NO_REF = PageRef(PackId("0" * 32, 0), 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Located(Generic[T]):
    """Locations of rows: for row i the entry in ``table`` and the offset within that entry."""

    table: T  # the entries touched, in row order
    starts: _Rows  # the row where each of them begins
    entry: _Rows
    offset: _Rows


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """A node to be read, for the asked rows [first, last) (ordinals), beginning at row ``base``."""

    ref: PageRef
    first: int
    last: int
    base: int


async def locate(
    root: Root[T],
    rows: _Rows,
    pages: PageSource | PageReader,
    *,
    parts: Parts = Parts.LOCATIONS,
) -> Located[T]:
    """Find the entries that hold some rows.

    Args:
        root: The tree.
        rows: Rows in ascending order, repetition allowed.
        pages: Where to read pages; a PageReader keeps what it decoded.
        parts: Which columns of the entries to decode.
    """
    if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < root.rows:
        raise RowNotFoundError(
            f"rows {int(rows[0])} … {int(rows[-1])} were requested from an index of"
            f" {root.rows} rows"
            "\nrequest rows below that",
            rows=root.rows,
        )
    reader = as_page_reader(pages)
    table = root.leaf_type
    stops = np.cumsum([0, *(child.rows for child in root.children)], dtype=np.int64)[1:]
    spans = _spans(root.children, stops, rows, _Span(_NO_REF, 0, len(rows), 0))
    leaves: list[tuple[_Span, T]] = []
    while spans:
        found = [span for span in spans if span.ref.height == 0]
        tables = await reader.leaves([span.ref for span in found], table, parts)
        leaves.extend(zip(found, tables, strict=True))
        above = [span for span in spans if span.ref.height]
        inners = await reader.inners([span.ref for span in above], table)
        spans = [
            span
            for parent, inner in zip(above, inners, strict=True)
            for span in _spans(inner, inner.stops, rows, parent)
        ]
    leaves.sort(key=lambda leaf: leaf[0].first)
    in_tail = int(np.searchsorted(rows, root.body_rows))
    if in_tail < len(rows):
        leaves.append((_Span(_NO_REF, in_tail, len(rows), root.body_rows), root.tail))
    return _assemble(leaves, rows, table)


async def scan(
    root: Root[T],
    pages: PageSource | PageReader,
    start: int = 0,
    stop: int | None = None,
    *,
    parts: Parts = Parts.ALL,
    keep: Callable[[Summaries[Any]], npt.NDArray[np.bool_]] | None = None,
) -> AsyncGenerator[tuple[int, T], None]:
    """Walk the entries of rows [start, stop) in order, a leaf at a time.

    Args:
        root: The tree.
        pages: Where to read pages.
        start: First row; entries are cut there.
        stop: Row after the last; None for all.
        parts: Which columns of the entries to decode.
        keep: Returns, from the summaries of subtrees, which to visit; the others are skipped.

    Yields:
        The row where a table begins, and the table; a loop that may leave closes it: ``aclosing``.
    """
    reader = as_page_reader(pages)
    table = root.leaf_type
    end = root.rows if stop is None else min(stop, root.rows)
    queue = deque(_overlapping(root.children, 0, start, end, keep))
    while queue:
        is_leaf = queue[0][1].height == 0
        batch: list[tuple[int, PageRef]] = []
        while queue and len(batch) < PAGES_AT_ONCE and (queue[0][1].height == 0) == is_leaf:
            batch.append(queue.popleft())
        refs = [ref for _, ref in batch]
        if is_leaf:
            for (base, _), leaf in zip(batch, await reader.leaves(refs, table, parts), strict=True):
                first = max(start - base, 0)
                yield base + first, leaf.slice_rows(first, end - base)
            continue
        inners = await reader.inners(refs, table)
        below = [
            item
            for (base, _), inner in zip(batch, inners, strict=True)
            for item in _below(inner, base, start, end, keep)
        ]
        queue.extendleft(reversed(below))
    base = root.body_rows
    if len(root.newest) and start < root.rows and end > base:
        first = max(start - base, 0)
        yield base + first, root.tail.slice_rows(first, end - base)


async def iter_page_refs(
    root: Root[T], pages: PageSource | PageReader, *, seen: set[PageRef] | None = None
) -> AsyncIterator[PageRef]:
    """List every page of a tree, parents before children.

    Args:
        root: The tree.
        pages: Where to read inner pages; leaves are not read.
        seen: Pages listed before: they and all below are left out, and new ones are added.
    """
    reader = as_page_reader(pages)
    visited: set[PageRef] = set() if seen is None else seen
    level: Sequence[PageRef] = root.children
    while level:
        fresh = [ref for ref in dict.fromkeys(level) if ref not in visited]
        visited.update(fresh)
        for ref in fresh:
            yield ref
        above = [ref for ref in fresh if ref.height]
        inners = await reader.inners(above, root.leaf_type)
        level = [inner.ref(at) for inner in inners for at in range(len(inner.stops))]


async def iter_pack_ids(
    root: Root[T], pages: PageSource | PageReader, *, seen: set[PageRef] | None = None
) -> AsyncIterator[PackId]:
    """List every pack that a tree refers to: of its pages, and of what its entries point at.

    A pack may come several times. ``seen`` is as in ``iter_page_refs``.
    """
    reader = as_page_reader(pages)
    table = root.leaf_type
    leaves: list[PageRef] = []
    async for ref in iter_page_refs(root, reader, seen=seen):
        yield ref.pack
        if ref.height == 0 and table.HAS_PACKS:
            leaves.append(ref)
        if len(leaves) >= PAGES_AT_ONCE:
            for leaf in await reader.leaves(leaves, table, Parts.LOCATIONS):
                for pack in leaf.pack_ids():
                    yield pack
            leaves.clear()
    for leaf in await reader.leaves(leaves, table, Parts.LOCATIONS):
        for pack in leaf.pack_ids():
            yield pack
    for pack in root.tail.pack_ids():
        yield pack


def _spans(
    node: Sequence[PageRef] | Inner, stops: _Rows, rows: _Rows, parent: _Span
) -> list[_Span]:
    """Divide the rows asked of a node among its children."""
    asked = rows[parent.first : parent.last]
    ends = parent.first + np.searchsorted(asked, parent.base + stops)
    firsts = np.concatenate([[parent.first], ends[:-1]]) if len(ends) else ends
    bases = np.concatenate([[0], stops[:-1]]) if len(ends) else ends
    return [
        _Span(
            node.ref(child) if isinstance(node, Inner) else node[child],
            int(firsts[child]),
            int(ends[child]),
            parent.base + int(bases[child]),
        )
        for child in np.flatnonzero(ends > firsts).tolist()
    ]


def _below(
    inner: Inner,
    base: int,
    start: int,
    stop: int,
    keep: Callable[[Summaries[Any]], npt.NDArray[np.bool_]] | None,
) -> list[tuple[int, PageRef]]:
    """Find the children of an inner page to visit; a few rows' are a few of its hundreds."""
    stops = inner.stops
    first = int(np.searchsorted(stops, start - base, side="right"))
    last = min(int(np.searchsorted(stops, stop - base, side="left")) + 1, len(stops))
    refs = [*map(inner.ref, range(first, last))] if keep is None else inner.refs()[first:last]
    return _overlapping(refs, base + (int(stops[first - 1]) if first else 0), start, stop, keep)


def _overlapping(
    refs: Sequence[PageRef],
    base: int,
    start: int,
    stop: int,
    keep: Callable[[Summaries[Any]], npt.NDArray[np.bool_]] | None,
) -> list[tuple[int, PageRef]]:
    found: list[tuple[int, PageRef]] = []
    for ref in refs:
        is_wanted = base < stop and base + ref.rows > start
        if is_wanted and keep is not None and ref.summary is not None:
            is_wanted = bool(keep(ref.summary)[0])
        if is_wanted:
            found.append((base, ref))
        base += ref.rows
    return found


def _assemble(leaves: list[tuple[_Span, T]], rows: _Rows, table: type[T]) -> Located[T]:
    entry = np.empty(len(rows), np.int64)
    offset = np.empty(len(rows), np.int64)
    touched: list[T] = []
    starts: list[_Rows] = []
    count = 0
    for span, leaf in leaves:
        asked = rows[span.first : span.last] - span.base
        stops = leaf.stops
        ordinal = np.searchsorted(stops, asked, side="right")
        changes = np.empty(len(ordinal), np.bool_)
        changes[0] = True
        np.not_equal(ordinal[1:], ordinal[:-1], out=changes[1:])
        entries = ordinal[changes]
        begins = stops[entries] - leaf.rows[entries].astype(np.int64)
        local = np.cumsum(changes) - 1
        entry[span.first : span.last] = local + count
        offset[span.first : span.last] = asked - begins[local]
        touched.append(leaf if len(entries) == len(stops) else leaf.take(entries))
        starts.append(begins + span.base)
        count += len(entries)
    joined = np.concatenate(starts) if starts else np.zeros(0, np.int64)
    return Located(table.concat(touched), joined, entry, offset)
