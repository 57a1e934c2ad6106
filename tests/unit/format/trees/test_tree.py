from dataclasses import replace

import numpy as np
import pytest

from tensorlake.errors import CorruptionError, InvalidInputError, RowNotFoundError
from tensorlake.format import (
    LIMITS,
    ChunkKind,
    Extents,
    PackId,
    PageReader,
    PageRef,
    Parts,
    Root,
    RowIdRuns,
    RowSegments,
    Statistics,
    StatisticsTable,
    TreeLimits,
    UnitTable,
    canonical_bytes,
    tree,
)
from tests.support.memory_pages import MemoryPages, wait

SMALL = TreeLimits(
    leaf_entries=64, fan_out=8, root_children=6, tail_entries=4, tail_nbytes=4096, merge_width=2
)


PACK = f"{'b' * 32}-0"
CHILD = [0, 64, 9, "ff", 5, 1, 0, 2]


def extents(count, *, first=0, rows=2, units=0):
    tables = [
        Extents.chunk(
            rows=rows,
            kind=ChunkKind.ENCODED,
            pack=PackId(f"{at // 8:032x}", 0),
            offset=64 + at % 8 * 8_000_000,
            nbytes=8_000_000 - at,
            header_nbytes=64,
            checksum=hash(("chunk", at)) & (2**64 - 1),
            statistics=StatisticsTable.of([Statistics(domain="int64", minimum=at, maximum=at)]),
            units=UnitTable.of([(np.ones(units, np.uint32),) * 2]) if units else None,
        )
        for at in range(first, first + count)
    ]
    return Extents.concat([Extents.empty(), *tables])


def grown(pages, count, *, limits=LIMITS, at_once=1):
    root = Root.of(Extents.empty())
    reader = PageReader(pages)
    for first in range(0, count, at_once):
        table = extents(min(at_once, count - first), first=first)
        root = wait(tree.append(root, table, reader, pages, limits=limits))
    return root


def offsets_of(root, pages):
    async def found():
        return [table.checksum async for _, table in tree.scan(root, pages)]

    return np.concatenate(wait(found()))


def test_a_small_append_writes_no_page():
    pages = MemoryPages()

    root = grown(pages, 10)

    assert pages.written == []
    assert (root.rows, root.height, len(root.tail)) == (20, 0, 10)


def test_a_tail_stays_within_its_limits():
    pages = MemoryPages()
    root, reader = Root.of(Extents.empty()), PageReader(pages)

    for at in range(200):
        root = wait(tree.append(root, extents(1, first=at), reader, pages))
        assert len(root.tail) <= 64
        assert len(canonical_bytes(root.tail.to_json())) <= 2048


@pytest.fixture(scope="module")
def grown_by_fives():
    pages = MemoryPages()
    return pages, grown(pages, 6000, at_once=5)


@pytest.mark.slow
def test_an_extent_is_written_at_most_three_times_on_its_way_to_a_full_leaf(grown_by_fives):
    pages, _ = grown_by_fives

    written = sum(ref.entries for ref in pages.written if ref.height == 0)
    assert written <= 3 * 6000


@pytest.mark.slow
def test_small_appends_end_in_large_leaves(grown_by_fives):
    _, root = grown_by_fives

    settled = [child.entries for child in root.children if child.merges == 2]
    assert len(root.children) <= 16
    assert sum(settled) > 3000
    assert min(settled) >= 1024


@pytest.mark.slow
def test_a_bulk_append_writes_each_extent_once():
    pages = MemoryPages()

    root = wait(tree.append(Root.of(Extents.empty()), extents(9000), pages, pages))

    assert sum(ref.entries for ref in pages.written) == 9000
    assert [child.entries for child in root.children] == [3000, 3000, 3000]


def test_leaves_hold_no_more_units_than_allowed():
    pages = MemoryPages()
    table = extents(40, units=5000)

    root = wait(tree.append(Root.of(Extents.empty()), Extents.concat([table, table]), pages, pages))

    assert all(child.entries * 5000 <= 131_072 for child in root.children)
    assert all(child.merges == 2 for child in root.children)


def test_roots_with_many_children_grow_inner_pages():
    pages = MemoryPages()

    root = grown(pages, 600, limits=SMALL)

    assert len(root.children) <= 6
    assert root.height >= 2
    assert (offsets_of(root, pages) == extents(600).checksum).all()


def test_a_root_survives_its_json():
    pages = MemoryPages()
    root = grown(pages, 600, limits=SMALL)

    read = Root.from_json(root.to_json(), Extents, where="x")

    assert read.to_json() == root.to_json()
    assert (read.children, read.rows, read.height) == (root.children, root.rows, root.height)


def test_concatenating_rewrites_no_page():
    """format.md's test 12, for the trees: at most the tail spills."""
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(500), pages, pages))
    root = wait(tree.append(root, extents(3, first=500), pages, pages))
    mine = wait(tree.append(Root.of(Extents.empty()), extents(700, first=503), pages, pages))
    pages.written.clear()

    joined = wait(tree.concat(root, mine, pages, pages))

    assert [ref.entries for ref in pages.written] == [3]
    assert set(root.children) | set(mine.children) < set(joined.children)
    assert (offsets_of(joined, pages) == extents(1203).checksum).all()


def test_rebases_fill_a_tail_to_twice_its_size_and_the_next_append_spills_it():
    """format.md's test 48, for one tensor: 64 rebases in a row."""
    pages = MemoryPages()
    root = Root.of(Extents.empty())

    for at in range(64):
        root = wait(tree.concat(root, Root.of(extents(1, first=at)), pages, pages))
        assert len(root.tail) <= 128
        assert len(canonical_bytes(root.tail.to_json())) <= 4096
    root = wait(tree.append(root, extents(1, first=64), pages, pages))

    assert len(root.tail) <= 1 or len(canonical_bytes(root.tail.to_json())) <= 2048
    assert (offsets_of(root, pages) == extents(65).checksum).all()


@pytest.mark.slow
def test_an_update_rewrites_one_leaf_and_the_pages_above_it():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(5000), pages, pages, limits=SMALL))
    pages.written.clear()

    changed = wait(tree.replace(root, [(4000, 4001, extents(1, first=9999, rows=1))], pages, pages))

    assert sum(ref.height == 0 for ref in pages.written) == 1
    assert changed.rows == root.rows
    located = wait(tree.locate(changed, np.array([3999, 4000, 4001]), pages))
    assert (located.table.skip[located.entry] + located.offset).tolist() == [1, 0, 1]
    assert located.table.nbytes[located.entry[1]] == 8_000_000 - 9999


def test_an_update_in_the_tail_writes_no_page():
    pages = MemoryPages()
    root = grown(pages, 10)

    changed = wait(tree.replace(root, [(7, 8, extents(1, first=99, rows=1))], pages, pages))

    assert pages.written == []
    assert changed.tail.rows.tolist() == [2, 2, 2, 1, 1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("edits", [[(5, 3)], [(0, 4), (2, 6)], [(0, 100)], [(-1, 2)]])
def test_edits_out_of_order_or_range_are_refused(edits):
    root = Root.of(extents(5))

    with pytest.raises(InvalidInputError, match="out of order or beyond"):
        wait(
            tree.replace(
                root,
                [(start, stop, extents(1)) for start, stop in edits],
                MemoryPages(),
                MemoryPages(),
            )
        )


def test_locating_beyond_the_end_is_refused():
    with pytest.raises(RowNotFoundError, match="index of 10 rows"):
        wait(tree.locate(Root.of(extents(5)), np.array([3, 10]), MemoryPages()))


def test_locating_reads_the_pages_of_a_level_together():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(2000), pages, pages, limits=SMALL))

    wait(tree.locate(root, np.arange(0, root.rows, 50), pages))

    assert pages.most_at_once >= 16
    assert len(pages.reads) == len(set(pages.reads))


def test_locating_one_row_reads_one_page_a_level():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(2000), pages, pages, limits=SMALL))

    wait(tree.locate(root, np.array([1234]), pages))

    assert len(pages.reads) == root.height


def test_a_reader_reads_a_page_once():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(500), pages, pages))
    reader = PageReader(pages)

    for _ in range(3):
        wait(tree.locate(root, np.arange(100), reader))

    assert len(pages.reads) == 1


def test_a_reader_without_room_keeps_nothing():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(500), pages, pages))
    reader = PageReader(pages, max_cached_nbytes=100)

    for _ in range(3):
        wait(tree.locate(root, np.arange(100), reader))

    assert len(pages.reads) == 3


def test_locating_decodes_units_only_when_asked():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(100, units=2), pages, pages))

    plain = wait(tree.locate(root, np.array([4]), pages)).table
    whole = wait(tree.locate(root, np.array([4]), pages, parts=Parts.ALL)).table

    assert plain.units.entry(0) is None
    assert len(whole.units.entry(0)[0]) == 2
    assert whole.statistics.known.all()


def test_summaries_reach_the_root():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(3000), pages, pages, limits=SMALL))

    read = Root.from_json(root.to_json(), Extents, where="x")

    assert read.children[0].summary.table.minimum.tolist() == [0]
    assert read.children[-1].summary.table.maximum.tolist() == [2999]


def test_pruned_subtrees_are_not_read():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(3000), pages, pages, limits=SMALL))

    async def visited():
        def keep(summaries):
            return (summaries.table.minimum <= 700) & (summaries.table.maximum >= 700)

        return [start async for start, _ in tree.scan(root, pages, keep=keep)]

    (start,) = wait(visited())
    assert start <= 1400 < start + 128
    assert len(pages.reads) == root.height


def test_every_page_and_pack_of_a_tree_is_listed():
    """format.md's test 18, for one tree."""
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(300), pages, pages, limits=SMALL))
    root = wait(tree.append(root, extents(1, first=900), pages, pages, limits=SMALL))

    async def listed():
        refs = {ref async for ref in tree.iter_page_refs(root, pages)}
        packs = {pack async for pack in tree.iter_pack_ids(root, pages)}
        return refs, packs

    refs, packs = wait(listed())
    assert refs == set(pages.written)
    assert packs == {pages.pack} | {PackId(f"{at // 8:032x}", 0) for at in [*range(300), 900]}


def test_pages_seen_before_are_not_listed_again():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(300), pages, pages, limits=SMALL))
    later = wait(
        tree.replace(root, [(100, 101, extents(1, first=999, rows=1))], pages, pages, limits=SMALL)
    )
    seen: set[PageRef] = set()

    async def listed(root):
        return [ref async for ref in tree.iter_page_refs(root, pages, seen=seen)]

    first, second = wait(listed(root)), wait(listed(later))
    assert len(second) <= later.height + 1
    assert not set(first) & set(second)


def damaged_reads(pages, root, damage):
    ref = pages.written[0]
    pages.pages[ref.pack, ref.offset] = damage(pages.pages[ref.pack, ref.offset])
    with pytest.raises(CorruptionError) as caught:
        wait(tree.locate(root, np.arange(root.rows), pages))
    return caught.value, ref


@pytest.mark.parametrize(
    "damage", [lambda page: page[:-1], lambda page: b"", lambda page: page * 2]
)
def test_a_page_of_another_length_is_reported_with_pack_and_offset(damage):
    """format.md's test 20, for pages."""
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(300), pages, pages))

    error, ref = damaged_reads(pages, root, damage)

    assert (error.object, error.offset) == (ref.pack.path, ref.offset)


def test_a_page_in_the_place_of_another_is_reported():
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), extents(300), pages, pages))
    other = wait(tree.append(Root.of(Extents.empty()), extents(300, first=5), pages, pages))

    error, _ = damaged_reads(pages, root, lambda _: pages.pages[
        other.children[0].pack, other.children[0].offset
    ])  # fmt: skip

    assert "does not match" in str(error) or "do not match" in str(error)


@pytest.mark.parametrize("height", [0, 1])
def test_a_reference_that_misstates_what_chunks_weigh_is_reported(height):
    pages = MemoryPages()
    root = grown(pages, 800, limits=SMALL, at_once=100)
    (at, *_) = [at for at, child in enumerate(root.children) if bool(child.height) == bool(height)]
    stated = root.children[at].stored_nbytes
    assert stated
    children = list(root.children)
    children[at] = replace(children[at], stored_nbytes=stated + 1)
    wrong = Root(tuple(children), root.newest)

    wait(tree.locate(root, np.arange(root.rows), pages))
    with pytest.raises(CorruptionError, match=f"weigh {stated} bytes") as caught:
        wait(tree.locate(wrong, np.arange(root.rows), pages))

    assert caught.value.object == children[at].pack.path


@pytest.mark.parametrize("table", [Extents, RowSegments, RowIdRuns])
@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"rows": 1, "height": 0},
        {"rows": 0, "height": 3},
        {"rows": 5, "height": 1, "packs": ["x"], "children": []},
        {"rows": 0, "height": 0, "summary": {"flags": ["|u1", False]}},
        {"rows": 5, "height": 1, "packs": [PACK], "children": [CHILD], "stored": [-1]},
        {"rows": 5, "height": 1, "packs": [PACK], "children": [CHILD], "stored": [False]},
        {"rows": 5, "height": 1, "packs": [PACK], "children": [CHILD], "stored": []},
        {"rows": 5, "height": 1, "packs": [], "children": [[0, 0, 0, "ff", 5, 1, 0, 2]]},
        {"rows": 0, "height": 0, "tail": {"rows": [1]}},
        {"rows": 0, "height": 0, "tail": 7},
    ],
)
def test_a_root_that_is_none_is_reported(table, value):
    with pytest.raises(CorruptionError):
        Root.from_json(value, table, where="main@3")


def test_a_tree_of_row_ids_is_not_read_as_one_of_rows():
    pages = MemoryPages()
    runs = RowIdRuns.concat([RowIdRuns.run(1, f"{at:032x}") for at in range(200)])
    root = wait(tree.append(Root.of(RowIdRuns.empty()), runs, pages, pages))
    confused = Root.of(RowSegments.empty(), children=root.children)

    with pytest.raises(CorruptionError, match="is of kind 3, not ROWS"):
        wait(tree.locate(confused, np.array([0]), pages))


def covered(ranges, rows):
    found = np.zeros(rows, np.bool_)
    for start, stop in ranges.tolist():
        found[start:stop] = True
    return found


def by_row(root, pages):
    """Of each row the checksum of its chunk, and the row in the chunk."""

    async def read():
        return [table async for _, table in tree.scan(root, pages)]

    table = Extents.concat(wait(read()))
    counts = table.rows.astype(np.int64)
    ahead = np.arange(root.rows) - np.repeat(table.stops - counts, counts)
    return np.repeat(table.checksum, counts), np.repeat(table.skip, counts) + ahead


def with_changed_rows(root, rows, pages):
    for row in rows:
        edit = [(row, row + 1, extents(1, first=50_000 + row, rows=1))]
        root = wait(tree.replace(root, edit, pages, pages, limits=SMALL))
    return root


@pytest.mark.slow
def test_what_two_trees_share_is_not_read_to_find_where_they_differ():
    """Ten rows changed on each side of 10,000 extents: pages by changes and height, not size."""
    pages = MemoryPages()
    base = grown(pages, 10_000, limits=SMALL, at_once=500)
    mine = with_changed_rows(base, range(100, 110), pages)
    theirs = with_changed_rows(base, range(15_000, 15_010), pages)
    pages.reads.clear()

    apart = covered(wait(tree.differing_rows(mine, theirs, pages)), base.rows)

    assert base.height >= 3
    assert len(pages.reads) <= 4 * base.height  # of some 190 pages
    assert np.count_nonzero(apart) < 600  # of 20,000 rows: four leaves, and the tails
    for found, other in zip(by_row(mine, pages), by_row(theirs, pages), strict=True):
        assert (found == other)[~apart].all()
    assert len(wait(tree.differing_rows(base, base, pages))) == 0


@pytest.mark.parametrize("more", [1, 60, 900])
def test_trees_of_other_heights_differ_only_where_their_entries_may(more):
    pages = MemoryPages()
    base = grown(pages, 700, limits=SMALL, at_once=100)
    longer = wait(tree.append(base, extents(more, first=700), pages, pages, limits=SMALL))
    changed = with_changed_rows(longer, [3], pages)

    apart = covered(wait(tree.differing_rows(base, changed, pages)), changed.rows)

    assert apart[3]
    assert apart[base.rows :].all()
    assert not apart[200:600].any()
    for found, other in zip(by_row(base, pages), by_row(changed, pages), strict=True):
        assert (found == other[: base.rows])[~apart[: base.rows]].all()
