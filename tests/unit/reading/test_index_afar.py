"""The index of a tensor in an object store: which parts of which pages looking ahead reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tensorlake.format import LIMITS, Extents, PageRef, Root, UnitTable, encode_page, tree
from tensorlake.format import PageReader as Pages
from tensorlake.reading import ChunkIndex
from tensorlake.storage import runtime
from tests.unit.reading.index_pages import CHUNKS, ROWS_A_CHUNK, CountedPages, extents_of


class StartPages(CountedPages):
    """Pages of an object store: a start of one can be read alone; counts the bytes."""

    nbytes = 0

    async def read(self, ref: PageRef, /) -> bytes:
        return await self.read_start(ref, ref.nbytes)

    async def read_start(self, ref: PageRef, nbytes: int, /) -> bytes:
        self.reads += 1
        self.nbytes += min(nbytes, ref.nbytes)
        return self.pages[ref.offset][:nbytes]


def index_with_units(leaves: int) -> tuple[ChunkIndex, StartPages, bytes]:
    """An index of full leaves, from afar; its pages, and one of them."""
    pages = StartPages()
    units = 100
    chunks = LIMITS.leaf_units // units
    random = np.random.default_rng(0)
    counts = np.full(chunks, units, np.uint32)
    lengths, checksums = random.integers(0, 2**32, (2, chunks * units)).astype(np.uint32)
    leaf = replace(extents_of(chunks), units=UnitTable(counts, lengths, checksums))
    leaf = replace(leaf, rows=counts)
    page = encode_page(leaf.PAGE_KIND, leaf.to_columns(), entries=chunks, rows=leaf.num_rows)
    refs = [pages.add(page, rows=leaf.num_rows, entries=chunks, height=0) for _ in range(leaves)]
    root = Root.of(Extents.empty(), children=tuple(refs))
    return ChunkIndex(root, Pages(pages), is_local=False), pages, page


def test_rows_of_many_leaves_afar_are_looked_up_without_units_and_no_leaf_twice():
    index, pages, page = index_with_units(60)
    rows_of_leaf = index.num_rows // 60
    few, many = np.arange(5) * rows_of_leaf, np.arange(25) * rows_of_leaf

    index.locate(few)
    recorded = runtime.run(index.units(few))
    assert pages.nbytes == 5 * len(page)
    assert [one is not None and len(one.lengths) for one in recorded] == [100] * 5

    index.locate(many)
    assert pages.reads == 25
    assert pages.nbytes < 5 * len(page) + 20 * len(page) // 5
    again = runtime.run(index.units(many))
    index.locate(many[7:9])

    assert pages.reads == 25
    assert [one is None for one in again] == [False] * 5 + [True] * 20


def test_looking_ahead_at_every_leaf_afar_leaves_their_units_to_who_asks_next():
    index, pages, page = index_with_units(20)
    rows = np.arange(20) * (index.num_rows // 20)

    runtime.run(index.look_ahead(rows))
    located = index.locate(rows)
    units = runtime.run(index.units(located.starts))

    assert pages.reads == 20
    assert pages.nbytes < 20 * len(page) // 5
    assert units == [None] * 20

    index.locate(rows + 1)  # of a second batch
    units = runtime.run(index.units(located.starts))
    assert pages.reads == 40
    assert [one is not None and len(one.lengths) for one in units] == [100] * 20
    runtime.run(index.look_ahead(rows + 2))
    index.locate(rows + 3)
    assert pages.reads == 40


@pytest.mark.parametrize("has_tail", [False, True])
def test_rows_looked_up_ahead_are_found_again_without_the_tree(has_tail):
    pages = CountedPages()
    tree_of = runtime.run(tree.append(Root.of(Extents.empty()), extents_of(CHUNKS), pages, pages))
    root = Root.of(extents_of(3, seed=1), children=tree_of.children) if has_tail else tree_of
    random = np.random.default_rng(0)
    rows = random.choice(CHUNKS // 8 * ROWS_A_CHUNK, 20, replace=False)
    rows = np.concatenate([rows, [root.rows - 1] * has_tail]).astype(np.int64)
    # nothing is kept, so that each walk reads
    index = ChunkIndex(root, Pages(pages, max_cached_nbytes=0), is_local=False)
    pages.reads = 0

    runtime.run(index.look_ahead(rows))
    reads = pages.reads
    located = [index.locate(rows), index.locate(rows[[7, 3, 3]]), index.locate(rows[-1:])]
    units = runtime.run(index.units(index.locate(rows[:9]).starts))

    assert pages.reads == reads > 0
    assert len(units) == 9
    for one, asked in zip(located, [rows, rows[[7, 3, 3]], rows[-1:]], strict=True):
        expected = ChunkIndex(root, Pages(pages), is_local=False).locate(asked)
        assert [one.chunks[at] for at in one.chunk] == [
            expected.chunks[at] for at in expected.chunk
        ]
        assert np.array_equal(one.row_in_chunk, expected.row_in_chunk)
        assert np.array_equal(one.starts[one.chunk], expected.starts[expected.chunk])
    others = np.setdiff1d(np.arange(40), rows)
    assert np.array_equal(index.locate(others).row_in_chunk, others % ROWS_A_CHUNK)
    assert pages.reads > reads
