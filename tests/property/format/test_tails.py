"""A tail grown as JSON is the tail that its table writes, whatever was added to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.format import (
    ChunkKind,
    Extents,
    PackId,
    PlacedChunk,
    PlacedChunks,
    RowIdRuns,
    RowSegments,
    Statistics,
    StatisticsTable,
    Tail,
    Units,
    trusted_bytes,
)
from tensorlake.format.trees.inline_tail import WRITTEN_ENTRIES_MAX

PACKS = [PackId(f"{number:032x}", number % 3) for number in range(4)]
COUNT = st.integers(0, 3)
BOUNDS = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float64": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=16),
}


@st.composite
def statistics(draw, domains=tuple(BOUNDS)):
    domain = draw(st.sampled_from([None, *domains]))
    shape = draw(st.sampled_from([None, (3,), (0, 7)]))
    known = {}
    if domain is not None:
        known = {"minimum": draw(BOUNDS[domain]), "maximum": draw(st.none() | BOUNDS[domain])}
        if domain == "int64":
            known["labels"] = draw(st.none() | st.tuples(st.integers(-5, 5), st.integers(6, 9)))
    return Statistics(
        draw(COUNT),
        draw(COUNT),
        domain,
        is_empty=domain is None and draw(st.booleans()),
        shape_min=shape,
        shape_max=shape,
        **known,
    )


@st.composite
def placed(draw, **options):
    count = draw(st.integers(0, 2))
    return PlacedChunk(
        rows=draw(st.integers(1, 9)),
        kind=int(ChunkKind.RAGGED),
        read_as=draw(st.integers(0, 1)),
        pack=draw(st.sampled_from(PACKS)),
        offset=64 * draw(st.integers(1, 3)),
        nbytes=draw(st.integers(64, 2**40)),
        header_nbytes=64,
        checksum=draw(st.integers(0, 2**64 - 1)),
        statistics=draw(statistics(**options)),
        units=None if not count else Units(*(np.arange(count, dtype=np.uint32),) * 2),
    )


def chunks(**options):
    return st.lists(placed(**options), max_size=3).map(lambda made: PlacedChunks(tuple(made)))


FILL = StatisticsTable.of([Statistics(2, domain="int64", minimum=0, maximum=0, labels=(0,))])
EXTENTS = st.one_of(
    chunks(domains=["int64"]),
    chunks(),
    chunks().map(PlacedChunks.to_table),
    chunks().map(lambda made: made.to_table().slice_rows(1, 5)),
    st.integers(0, 4).map(lambda rows: Extents.without_bytes(ChunkKind.HOLE, rows)),
    st.integers(1, 4).map(
        lambda rows: Extents.without_bytes(ChunkKind.FILL, rows, read_as=1, statistics=FILL)
    ),
)
RUNS = st.builds(
    RowIdRuns.run, st.integers(0, 3), st.sampled_from(["0" * 32, "1" * 32, "2" * 32]), COUNT
)
SEGMENTS = st.one_of(
    st.builds(lambda start, rows: RowSegments.range(start, start + rows), COUNT, COUNT),
    st.lists(COUNT, min_size=1, max_size=4).map(lambda rows: RowSegments.packed(np.array(rows))),
    st.lists(st.tuples(COUNT, COUNT), max_size=3).map(
        lambda pairs: RowSegments.ranges(
            np.array([start for start, _ in pairs], np.int64),
            np.array([start + rows for start, rows in pairs], np.int64),
        )
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "additions"), [(Extents, EXTENTS), (RowIdRuns, RUNS), (RowSegments, SEGMENTS)]
)
@given(data=st.data())
def test_a_tail_grown_as_json_is_the_one_that_its_table_writes(table, additions, data):
    tail, joined = Tail.of(table.empty()), table.empty()

    for added in data.draw(st.lists(additions, max_size=6)):
        tail = tail.grown(added)
        joined = table.concat([joined, added.to_table()]).united()

    assert trusted_bytes(tail.to_json()) == trusted_bytes(joined.to_json())
    assert trusted_bytes(tail.table.to_json()) == trusted_bytes(joined.to_json())
    assert (len(tail), tail.num_rows) == (len(joined), joined.num_rows)
    assert tail.table.stops.tolist() == joined.stops.tolist()


@pytest.mark.parametrize(
    ("domain", "bound"), [("int64", 5), ("uint64", 5), ("float64", 0.5), ("bytes", b"x")]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_bound_that_is_not_known_is_written_as_one_of_its_domain(domain, bound, is_first):
    """Beside a chunk of bounds one without: a zero of integers is 0, and one of floats 0.0."""
    bounded = Statistics(domain=domain, minimum=bound, maximum=bound)
    known = [bounded, Statistics()] if is_first else [Statistics(), bounded]
    first, second = (
        PlacedChunks((PlacedChunk(1, 1, 0, pack, 64, 99, 64, 7, one, None),))
        for pack, one in zip(PACKS, known, strict=False)
    )
    joined = Extents.concat([first.to_table(), second.to_table()])

    grown = Extents.joined_json(first.to_json(), second.to_json())

    assert grown is not None, "it declined"
    assert trusted_bytes(grown) == trusted_bytes(joined.to_json())


def test_a_part_without_bounds_takes_none_from_what_it_joins():
    """The part was cut from a table of another domain; its columns of bounds hold nothing."""
    known, nothing = Statistics(domain="int64", minimum=5), Statistics()
    other = StatisticsTable.of([nothing, Statistics(domain="uint64", minimum=0)])
    shaped = StatisticsTable.of([nothing, Statistics(shape_min=(1, 2), shape_max=(3, 4))])
    flat = Statistics(shape_min=(7,), shape_max=(7,))

    bounds = StatisticsTable.concat([StatisticsTable.of([known]), other.take(np.arange(1))])
    shapes = StatisticsTable.concat([StatisticsTable.of([flat]), shaped.take(np.arange(1))])

    assert [bounds.row(0), bounds.row(1)] == [known, nothing]
    assert [shapes.row(0), shapes.row(1)] == [flat, nothing]


@given(chunks())
def test_chunks_just_placed_are_written_as_their_table_is(made):
    table = made.to_table()

    assert trusted_bytes(made.to_json()) == trusted_bytes(table.to_json())
    assert [table.packs[at] for at in table.pack.tolist()] == [one.pack for one in made.chunks]
    counts = [0 if one.units is None else len(one.units) for one in made.chunks]
    assert table.units.counts.tolist() == counts


def test_the_usual_tail_grows_without_its_table():
    """What makes a commit cheap: one that declined every time would be right, and slow."""

    def commit(number):
        known = Statistics(0, 0, "int64", number, number, (number,))
        pack = PackId(f"{number:032x}", 0)
        return PlacedChunks((PlacedChunk(1, 1, 0, pack, 64, 99, 64, number, known, None),))

    value = commit(0).to_json()
    for number in range(1, 20):
        value = Extents.joined_json(value, commit(number).to_json())

    read = Extents.from_json(value, where="x")
    assert read.checksum.tolist() == [*range(20)]
    assert read.statistics.table.minimum.tolist() == [*range(20)]
    runs = RowIdRuns.joined_json(
        RowIdRuns.run(3, "1" * 32).to_json(), RowIdRuns.run(2, "2" * 32, 5).to_json()
    )
    assert RowIdRuns.from_json(runs, where="x").offset.tolist() == [0, 5]
    rows = RowSegments.joined_json(
        RowSegments.range(0, 3).to_json(), RowSegments.range(3, 9).to_json()
    )
    assert rows == {"base": [0], "rows": [9]}


def test_a_tail_beyond_what_an_entry_holds_keeps_growing():
    tail = Tail.of(Extents.empty())

    for number in range(WRITTEN_ENTRIES_MAX + 9):
        pack = PackId(f"{number:032x}", 0)
        chunk = PlacedChunk(2, 1, 0, pack, 64, 99, 64, number, Statistics(), None)
        tail = tail.grown(PlacedChunks((chunk,)))

    assert tail.table.checksum.tolist() == [*range(WRITTEN_ENTRIES_MAX + 9)]
    assert tail.num_rows == 2 * len(tail)
