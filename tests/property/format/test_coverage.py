"""Coverage against brute force: each row of two trees compared by itself."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError
from tensorlake.format import (
    ChunkKind,
    Comparison,
    Coverage,
    Extents,
    PackId,
    Reads,
    Root,
    TreeLimits,
    edits_between,
    restated,
    tree,
    unchanged_rows,
)
from tests.support.examples import examples
from tests.support.memory_pages import MemoryPages, wait

SMALL = TreeLimits(
    leaf_entries=4,
    leaf_nbytes=8 * 40,
    leaf_units=64,
    fan_out=3,
    root_children=3,
    tail_entries=2,
    tail_nbytes=4096,
    merge_width=2,
)
SPEC = {"type": {"kind": "int64"}, "fill": 0, "encodings": [{}]}
HOLE, FILL = (-1, int(ChunkKind.HOLE)), (-1, int(ChunkKind.FILL))
kinds = st.sampled_from(["chunk", "chunk", "chunk", "fill", "hole"])
pieces = st.lists(st.tuples(kinds, st.integers(1, 5)), min_size=1, max_size=4)
changes = st.lists(
    st.tuples(st.sampled_from(["append", "replace", "move", "spill"]), st.floats(0, 1), pieces),
    max_size=6,
)


class Versions:
    """A tree of extents and, beside it, the place of each row's cell: (chunk, row of the chunk)."""

    def __init__(self):
        self.pages = MemoryPages()
        self.root = Root.of(Extents.empty())
        self.cells = []
        self.chunks = 0

    def table(self, pieces):
        tables, cells = [Extents.empty()], []
        for kind, rows in pieces:
            if kind == "chunk":
                self.chunks += 1
                tables.append(_chunk(self.chunks, rows))
                cells += [(self.chunks, row) for row in range(rows)]
            else:
                tables.append(
                    Extents.without_bytes(
                        ChunkKind.FILL if kind == "fill" else ChunkKind.HOLE, rows
                    )
                )
                cells += [FILL if kind == "fill" else HOLE] * rows
        return Extents.concat(tables), cells

    def append(self, pieces):
        table, cells = self.table(pieces)
        self.root = wait(tree.append(self.root, table, self.pages, self.pages, limits=SMALL))
        self.cells = self.cells + cells

    def replace(self, at, pieces):
        """Give rows from ``at`` on new cells, as many as there are."""
        start = int(at * len(self.cells))
        table, cells = self.table(pieces)
        stop = min(start + len(cells), len(self.cells))
        edit = (start, stop, table.slice_rows(0, stop - start))
        self.root = wait(tree.replace(self.root, [edit], self.pages, self.pages, limits=SMALL))
        self.cells = self.cells[:start] + cells[: stop - start] + self.cells[stop:]

    def spill(self):
        """The same extents in other pages."""
        table = wait(_table(self))
        self.root = wait(
            tree.append(Root.of(Extents.empty()), table, self.pages, self.pages, limits=SMALL)
        )

    def change(self, what, at, pieces):
        if what == "append" or not self.cells:
            self.append(pieces)
        elif what == "spill":
            self.spill()
        else:
            self.replace(at, pieces)


async def _table(versions):
    return Extents.concat([one async for _, one in tree.scan(versions.root, versions.pages)])


def _chunk(number, rows):
    return Extents.chunk(
        rows=rows,
        kind=1,
        pack=PackId("b" * 32, number % 3),
        offset=64 * number,
        nbytes=rows,
        header_nbytes=64,
        checksum=number,
    )


def rows_of(ranges):
    return [row for start, stop in ranges.tolist() for row in range(start, stop)]


@given(first=pieces, changed=changes)
@examples(25)
def test_unchanged_rows_are_those_whose_cells_are_in_one_place(first, changed):
    versions = Versions()
    versions.append(first)
    state, before = versions.root, list(versions.cells)
    for change in changed:
        versions.change(*change)

    found = wait(unchanged_rows(state, versions.root, versions.pages))

    pairs = zip(before, versions.cells, strict=False)
    assert rows_of(found) == [row for row, (was, now) in enumerate(pairs) if was == now]
    assert bool((found[1:, 0] > found[:-1, 1]).all())
    assert bool((found[:, 0] < found[:, 1]).all())


@given(first=pieces, changed=changes)
@examples(12)
def test_edits_between_two_trees_make_one_the_other(first, changed):
    versions = Versions()
    versions.append(first)
    state = versions.root
    for change in changed:
        versions.change(*change)

    edits = wait(edits_between(state, versions.root, versions.pages))
    made = wait(tree.replace(state, edits, versions.pages, versions.pages, limits=SMALL))

    assert made.rows == versions.root.rows
    same = wait(unchanged_rows(made, versions.root, versions.pages))
    assert rows_of(same) == list(range(made.rows))


@given(first=pieces, changed=changes, moved=st.data())
@examples(25)
def test_a_state_is_restated_where_it_was_true_and_nowhere_else(first, changed, moved):
    versions = Versions()
    versions.append(first)
    state, before = versions.root, list(versions.cells)
    for change in changed:
        versions.change(*change)
    old, old_cells = versions.root, list(versions.cells)
    places = moved.draw(st.lists(st.integers(1, 5), min_size=1, max_size=9))
    versions.root, versions.cells = Root.of(Extents.empty()), []
    while len(versions.cells) < len(old_cells):  # the same values in other chunks, row by row
        left = len(old_cells) - len(versions.cells)
        versions.append([("chunk", min(left, places[len(versions.cells) % len(places)]))])

    covered = Coverage(state, Reads.of(SPEC))
    made = wait(restated(covered, old, versions.root, versions.pages, versions.pages))

    assert made.compared is not None
    noted = rows_of(wait(made.rows(SPEC, versions.root, None)))
    covered = rows_of(wait(unchanged_rows(made.state, versions.root, versions.pages)))
    assert noted == covered
    pairs = zip(before, old_cells, strict=False)
    assert covered == [row for row, (was, now) in enumerate(pairs) if was == now]


def test_extents_are_compared_by_chunk_row_and_encoding():
    one = Versions()
    one.append([("chunk", 10)])
    window = one.root.tail.slice_rows(2, 10)
    shifted = Root.of(Extents.concat([window, window.slice_rows(0, 2)]))
    reread = Root.of(one.root.tail.with_read_as(1))

    assert rows_of(wait(unchanged_rows(one.root, one.root, one.pages))) == list(range(10))
    assert rows_of(wait(unchanged_rows(one.root, shifted, one.pages))) == []
    assert rows_of(wait(unchanged_rows(one.root, reread, one.pages))) == []
    assert np.array_equal(
        wait(unchanged_rows(one.root, Root.of(window), one.pages)), np.empty((0, 2))
    )


def _noted(versions, apart):
    """Return what covers the first tree, and notes rows that differ in a second one."""
    state = versions.root
    versions.append([("chunk", 3)])
    compared = Comparison.of(state, versions.root, np.array(apart, np.int64).reshape(-1, 2))
    return Coverage(state, Reads.of(SPEC), compared)


def test_rows_that_a_writer_noted_are_those_of_the_trees_that_it_compared():
    versions = Versions()
    versions.append([("chunk", 10)])
    covered = Coverage.from_json(
        json.loads(json.dumps(_noted(versions, [[2, 3], [5, 7]]).to_json())), where="a group"
    )

    assert rows_of(wait(covered.rows(SPEC, versions.root, None))) == [0, 1, 3, 4, 7, 8, 9]

    versions.append([("chunk", 1)])  # another tree: what was noted says nothing of it
    assert rows_of(wait(covered.rows(SPEC, versions.root, versions.pages))) == list(range(10))


def test_more_ranges_than_an_entry_has_room_for_are_not_noted():
    versions = Versions()
    versions.append([("chunk", 10)])
    ranges = np.arange(0, 1028, 2).reshape(-1, 2)

    assert Comparison.of(versions.root, versions.root, ranges[:256]) is not None
    assert Comparison.of(versions.root, versions.root, ranges) is None


@pytest.mark.parametrize("apart", [[1], [-1, 2], [1 << 62, 1 << 62], ["1", 2], {}, [True, 1]])
def test_malformed_rows_of_a_comparison_are_damage(apart):
    versions = Versions()
    versions.append([("chunk", 10)])
    value = _noted(versions, [[2, 3]]).to_json()
    value["compared"]["apart"] = apart

    with pytest.raises(CorruptionError, match="not a coverage"):
        Coverage.from_json(value, where="a group")
