"""Find where two trees of one tensor differ, without reading shared pages.

Pages never change, so two versions that have the same page at the same rows agree on all below it.
The trees are walked downward together, from the highest nodes: shared nodes are skipped, others are
replaced by their children.

    one      ▸A ▸B ▸C tail         A is in both, at the same rows: never read
    other    ▸A ▸D ▸C tail         B and D are read; where they are leaves, their rows differ

So the cost is the size of the changes times the height of the trees, independent of their size. A
tail is part of
its root and no page: rows of tails always count as differing, unless the roots are one.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.format.trees.inline_tail import LeafTable
from tensorlake.format.trees.nodes import PageRef, PageSource, Root
from tensorlake.format.trees.page_reader import PageReader, as_page_reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["differing_rows"]

T = TypeVar("T", bound=LeafTable)

_Node = tuple[int, PageRef]
"""The row where a node begins, and its page."""


async def differing_rows(
    one: Root[T], other: Root[T], pages: PageSource | PageReader
) -> npt.NDArray[np.int64]:
    """Return the rows [start, stop) whose entries are in different pages, or in a tail.

    Entries of the other rows are the same, at the same rows. Ranges are sorted, may overlap, and
    are those of leaves, so not all of their rows need to differ.
    """
    if one is other:
        return np.empty((0, 2), np.int64)
    reader = as_page_reader(pages)
    spans = [(root.body_rows, root.rows) for root in (one, other) if len(root.newest)]
    nodes = [_placed(0, root.children) for root in (one, other)]
    for height in range(max(one.height, other.height) - 1, -1, -1):
        level = [{node for node in side if node[1].height == height} for side in nodes]
        apart = [level[0] - level[1], level[1] - level[0]]
        if height == 0:
            spans += [(base, base + ref.rows) for base, ref in (*apart[0], *apart[1])]
            break
        nodes = [
            [
                *(node for node in side if node[1].height < height),
                *await _children(sorted(own, key=_base), reader, one.leaf_type),
            ]
            for side, own in zip(nodes, apart, strict=True)
        ]
    return np.array(sorted(spans), np.int64).reshape(-1, 2)


def _placed(base: int, refs: Sequence[PageRef]) -> list[_Node]:
    starts = accumulate((ref.rows for ref in refs), initial=base)
    return list(zip(starts, refs, strict=False))


def _base(node: _Node) -> int:
    return node[0]


async def _children(
    nodes: Iterable[_Node], reader: PageReader, table: type[LeafTable]
) -> list[_Node]:
    placed = list(nodes)
    inners = await reader.inners([ref for _, ref in placed], table)
    return [
        child
        for (base, _), inner in zip(placed, inners, strict=True)
        for child in _placed(base, inner.refs())
    ]
