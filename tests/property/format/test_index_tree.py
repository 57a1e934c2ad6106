"""format.md's test 23: the index tree is a NumPy array with limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.format import (
    Extents,
    PackId,
    PageReader,
    PhysicalBounds,
    Root,
    RowIdRuns,
    RowSegments,
    Statistics,
    StatisticsTable,
    TreeLimits,
    tree,
)
from tests.support.examples import examples
from tests.support.memory_pages import MemoryPages, wait

SMALL = TreeLimits(
    leaf_entries=8,
    leaf_nbytes=8 * 40,
    leaf_units=64,
    fan_out=4,
    root_children=5,
    tail_entries=3,
    tail_nbytes=4096,
    merge_width=2,
)


class Model:
    """A tree of extents beside the array that it should be: row -> (chunk, row of the chunk)."""

    def __init__(self):
        self.pages = MemoryPages()
        self.root = Root.of(Extents.empty())
        self.rows: list[tuple[int, int]] = []
        self.chunks = 0

    def table(self, lengths):
        tables, rows = [Extents.empty()], []
        for length in lengths:
            self.chunks += 1
            tables.append(
                Extents.chunk(
                    rows=length,
                    kind=1,
                    pack=PackId("b" * 32, self.chunks % 5),
                    offset=64 * self.chunks,
                    nbytes=length,
                    header_nbytes=64,
                    checksum=self.chunks,
                    statistics=StatisticsTable.of(
                        [Statistics(domain="int64", minimum=self.chunks, maximum=self.chunks)]
                    ),
                )
            )
            rows += [(self.chunks, row) for row in range(length)]
        return Extents.concat(tables), rows

    def append(self, lengths):
        table, rows = self.table(lengths)
        self.root = wait(tree.append(self.root, table, self.pages, self.pages, limits=SMALL))
        self.rows += rows

    def replace(self, edits):
        written, at, model = [], 0, []
        for start, stop, lengths in edits:
            table, rows = self.table(lengths)
            written.append((start, stop, table))
            model += self.rows[at:start] + rows
            at = stop
        self.rows = model + self.rows[at:]
        self.root = wait(tree.replace(self.root, written, self.pages, self.pages, limits=SMALL))

    def concat(self, lengths):
        table, rows = self.table(lengths)
        other = wait(
            tree.append(Root.of(Extents.empty()), table, self.pages, self.pages, limits=SMALL)
        )
        before = len(self.pages.written)
        self.root = wait(tree.concat(self.root, other, self.pages, self.pages, limits=SMALL))
        self.rows += rows
        return self.pages.written[before:]

    def check(self):
        wait(self._check())

    async def _check(self):
        reader = PageReader(self.pages)
        root = Root.from_json(self.root.to_json(), Extents, where="test")
        assert root.rows == len(self.rows)
        found, at = [], 0
        async for start, table in tree.scan(root, reader):
            assert start == at
            found += _cells(table, np.arange(len(table)).repeat(table.rows), _offsets(table))
            at += table.num_rows
        assert found == self.rows
        stored = [table.stored_nbytes async for _, table in tree.scan(root, reader)]
        assert root.stored_nbytes == sum(stored)
        for first, last in ((len(self.rows) // 3, len(self.rows) // 2), (1, 10**9)):
            found = []
            async for _, table in tree.scan(root, reader, first, last):
                found += _cells(table, np.arange(len(table)).repeat(table.rows), _offsets(table))
            assert found == self.rows[first:last]
        asked = np.arange(0, len(self.rows), 3)
        located = await tree.locate(root, asked, reader)
        assert _cells(located.table, located.entry, located.offset) == self.rows[::3]
        assert (located.starts[located.entry] + located.offset == asked).all()
        await self._check_limits(root, reader)

    async def _check_limits(self, root, reader):
        assert len(root.children) <= SMALL.root_children
        assert len(root.tail) <= 2 * SMALL.tail_entries
        refs = [ref async for ref in tree.iter_page_refs(root, reader)]
        for ref in refs:
            limit = SMALL.fan_out if ref.height else SMALL.leaf_entries
            assert 1 <= ref.entries <= limit
        leaves = sum(ref.height == 0 for ref in refs)
        assert root.height <= 2 + np.log2(max(leaves, 1))


def _offsets(table):
    return np.concatenate([np.arange(0), *(np.arange(rows) for rows in table.rows)])


def _cells(table, entry, offset):
    chunk = table.checksum[entry].tolist()
    return list(zip(chunk, (table.skip[entry] + offset).tolist(), strict=True))


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=4)
bulks = st.lists(st.integers(1, 6), min_size=1, max_size=60)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), lengths),
        st.tuples(st.just("append"), bulks),
        st.tuples(st.just("concat"), bulks),
        st.tuples(st.just("replace"), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), lengths),
                                               min_size=1, max_size=4)),
        st.tuples(st.just("update"), st.lists(st.floats(0, 1), min_size=1, max_size=4)),
    ),
    min_size=4,
    max_size=25,
)  # fmt: skip


@pytest.mark.slow
@given(steps)
@examples(25)
def test_tree_of_extents_is_the_array_it_stands_for(steps):
    model = Model()

    for step, value in steps:
        rows = len(model.rows)
        if step == "append":
            model.append(value)
        elif step == "concat":
            model.concat(value)
        elif step == "update":
            starts = sorted({min(int(at * rows), rows - 1) for at in value} - {-1})
            model.replace([(at, at + 1, [1]) for at in starts])
        else:
            edits, at = [], 0
            for first, second, new in sorted(value, key=lambda edit: edit[:2]):
                start, stop = sorted((int(first * rows), int(second * rows)))
                if start >= at:
                    edits.append((start, stop, new))
                    at = stop
            model.replace(edits)
        model.check()


@given(st.lists(st.integers(1, 25), min_size=1, max_size=20))
@examples(10)
def test_predicates_see_every_row_that_pruning_may_not_drop(bulks):
    model = Model()
    for count in bulks:
        model.append([1] * count)
    wanted = model.chunks // 2

    def keep(summaries):
        table = summaries.table
        if table is None:
            return np.ones(len(summaries), np.bool_)
        return (table.minimum <= wanted) & (table.maximum >= wanted)

    async def found():
        scanned = tree.scan(model.root, model.pages, keep=keep)
        return [(start, table) async for start, table in scanned]

    hits = [
        (start + int(at), int(table.checksum[at]))
        for start, table in wait(found())
        for at in np.flatnonzero(table.checksum == wanted)
    ]
    assert hits == ([(wanted - 1, wanted)] if wanted else [])


@pytest.mark.parametrize("table", [Extents, RowSegments, RowIdRuns])
def test_an_empty_root_survives_its_json(table):
    root = Root.from_json(Root.of(table.empty()).to_json(), table, where="test")

    assert (root.rows, root.height, len(root.tail)) == (0, 0, 0)


def test_bounds_are_those_of_all_children():
    bounds = PhysicalBounds(np.array([5, 2], np.uint64), np.array([9, 4], np.uint64))

    merged = bounds.merge_upward()

    assert (merged.low.tolist(), merged.high.tolist()) == ([2], [9])
