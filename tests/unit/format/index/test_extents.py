import numpy as np
import pytest

from tensorlake.errors import CorruptionError
from tensorlake.format import (
    NO_PACK,
    ChunkKind,
    ChunkLayout,
    Extents,
    PackId,
    PageKind,
    PlacedChunk,
    PlacedChunks,
    Statistics,
    StatisticsTable,
    UnitTable,
    decode_page,
    encode_chunk,
    encode_page,
)
from tensorlake.types import UniformColumn, as_type

ONE, TWO = PackId("1" * 32, 0), PackId("2" * 32, 7)


def chunk(rows, *, at=0, pack=ONE, statistics=None, units=None):
    return Extents.chunk(
        rows=rows,
        kind=ChunkKind.ENCODED,
        pack=pack,
        offset=64 * at,
        nbytes=1000 + at,
        header_nbytes=64,
        checksum=2**64 - 1 - at,
        statistics=statistics,
        units=units,
    )


def bounds(low, high):
    return StatisticsTable.of([Statistics(domain="int64", minimum=low, maximum=high)])


def units_of(rows):
    lengths = np.arange(rows, dtype=np.uint32) + 100
    return UnitTable.of([(lengths, lengths + 1)])


def from_page(extents):
    page = encode_page(
        PageKind.EXTENTS, extents.to_columns(), entries=len(extents), rows=extents.num_rows
    )
    return Extents.from_page(decode_page(page, where="x"), where="x")


def described(extents):
    names = ("rows", "skip", "kind", "read_as", "offset", "nbytes", "header_nbytes", "checksum")
    packs = [None if at == NO_PACK else extents.packs[at] for at in extents.pack.tolist()]
    return [packs, *(getattr(extents, name).tolist() for name in names)]


def test_extents_survive_a_page():
    extents = Extents.concat(
        [
            chunk(5, statistics=bounds(1, 9), units=units_of(5)),
            chunk(3, at=1, pack=TWO),
            Extents.without_bytes(ChunkKind.FILL, 10, read_as=2, statistics=bounds(0, 0)),
        ]
    )

    read = from_page(extents)

    assert described(read) == described(extents)
    assert read.statistics.known.tolist() == [True, False, True]
    assert read.statistics.table.minimum.tolist() == [1, 0]
    assert [len(read.units.entry(0)[0]), read.units.entry(1)] == [5, None]


def test_extents_survive_json_but_for_units():
    extents = Extents.concat(
        [
            chunk(5, statistics=bounds(1, 9), units=units_of(5)),
            Extents.without_bytes(ChunkKind.HOLE, 4),
            chunk(3, at=1, pack=TWO, statistics=bounds(-4, 2)),
        ]
    )

    read = Extents.from_json(extents.to_json(), where="x")

    assert described(read) == described(extents)
    assert read.statistics.table.maximum.tolist() == [9, 2]
    assert read.units.counts.tolist() == [0, 0, 0]


def test_json_leaves_out_what_is_zero():
    assert set(chunk(5).to_json()) == {
        "rows", "packs", "offset", "nbytes", "checksum", "kind", "header_nbytes"
    }  # fmt: skip


def test_a_float_bound_that_json_lacks_survives():
    bound = StatisticsTable.of([Statistics(domain="float64", minimum=-np.inf, maximum=0.1)])

    read = Extents.from_json(chunk(1, statistics=bound).to_json(), where="x")

    assert read.statistics.table.minimum.tolist() == [-np.inf]
    assert read.statistics.table.maximum.tolist() == [0.1]


def test_a_slice_is_a_window_of_its_chunk():
    extents = Extents.concat([chunk(5, units=units_of(5)), chunk(5, at=1, units=units_of(5))])

    part = extents.slice_rows(2, 10)

    assert (part.rows.tolist(), part.skip.tolist()) == ([3, 5], [2, 0])
    assert part.units.counts.tolist() == [0, 5]


def test_a_slice_within_one_extent_cuts_both_ends():
    part = chunk(10).slice_rows(2, 5).slice_rows(1, 2)

    assert (part.rows.tolist(), part.skip.tolist()) == ([1], [3])


def test_windows_that_adjoin_become_one_again():
    extents = chunk(10, statistics=bounds(1, 2))
    parts = [extents.slice_rows(at, at + 2) for at in range(0, 10, 2)]

    united = Extents.concat(parts).united()

    assert described(united) == described(extents)
    assert united.statistics.known.all()


def test_windows_of_different_chunks_stay_apart():
    assert len(Extents.concat([chunk(3), chunk(3, at=1)]).united()) == 2


def test_neighbouring_fills_become_one():
    fill = Extents.without_bytes(ChunkKind.FILL, 10)

    assert Extents.concat([fill, fill]).united().rows.tolist() == [20]


def test_fills_beyond_32_bits_are_several_extents():
    fill = Extents.without_bytes(ChunkKind.FILL, 10**10)

    assert fill.num_rows == 10**10
    assert len(fill.united()) == 3


def test_a_hole_neither_bounds_nor_hides_bounds():
    extents = Extents.concat(
        [
            chunk(5, statistics=bounds(1, 9)),
            Extents.without_bytes(ChunkKind.HOLE, 4),
            chunk(3, at=1, statistics=bounds(-4, 2)),
        ]
    )

    summary = extents.summary()

    assert (summary.table.minimum.tolist(), summary.table.maximum.tolist()) == ([-4], [9])


def test_one_extent_without_statistics_leaves_the_summary_unknown():
    """format.md's test 24, for subtrees: what is not known prunes nothing."""
    extents = Extents.concat([chunk(5, statistics=bounds(1, 9)), chunk(3, at=1)])

    assert extents.summary().known.tolist() == [False]


@pytest.mark.parametrize(
    ("low", "high", "domain"),
    [(-0.0, 0.0, "float64"), (0, 2**64 - 1, "uint64"), (b"a" * 16, b"b" * 16, "bytes")],
)
def test_summaries_keep_bounds_of_every_domain(low, high, domain):
    """format.md's test 24, for subtrees."""
    statistics = StatisticsTable.of([Statistics(domain=domain, minimum=low, maximum=high)])
    extents = Extents.concat([chunk(5, statistics=statistics)] * 2)

    row = extents.summary().table.row(0)

    assert row.domain == domain
    assert row.minimum <= low
    assert row.maximum >= high


def test_packs_that_nothing_lies_in_are_not_named():
    extents = Extents.concat([chunk(5), chunk(5, at=1, pack=TWO)])

    part = extents.slice_rows(5, 10)

    assert part.pack_ids() == [TWO]
    assert part.to_json()["packs"] == [str(TWO)]
    assert from_page(part).packs == (TWO,)


def test_a_chunk_just_encoded_becomes_an_extent():
    layout = ChunkLayout.of(as_type("float32"))
    blob = encode_chunk(UniformColumn(np.arange(10, dtype=np.float32)), layout)

    extents = PlacedChunks((PlacedChunk.of(blob, ONE, 128, read_as=1),)).to_table()

    assert described(extents) == [
        [ONE], [10], [0], [1], [1], [128], [blob.nbytes], [blob.header_nbytes], [blob.checksum]
    ]  # fmt: skip
    assert extents.statistics.table.maximum.tolist() == [9.0]


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"rows": "abc"},
        {"rows": [1], "pack": [3]},
        {"rows": [1], "offset": [1, 2]},
        {"rows": [-1]},
        {"rows": [1], "packs": ["x"]},
        {"rows": [1], "checksum": "zz"},
        {"rows": [1], "statistics": {"null_count": ["<O", [1]]}},
        {"rows": [1], "statistics": {"null_count": ["<i8", [1, 2]]}},
    ],
)
def test_a_tail_that_is_none_is_reported(value):
    with pytest.raises(CorruptionError):
        Extents.from_json(value, where="main@3")


def test_a_page_that_names_a_pack_it_has_not_is_reported():
    columns = chunk(5).to_columns()
    columns["pack"] = columns["pack"] + np.uint32(4)
    page = encode_page(PageKind.EXTENTS, columns, entries=1, rows=5)

    with pytest.raises(CorruptionError, match="not in its table"):
        Extents.from_page(decode_page(page, where="x"), where="x")


def test_units_that_do_not_add_up_are_reported():
    columns = chunk(5, units=units_of(5)).to_columns()
    columns["units.lengths"] = columns["units.lengths"][:-1]
    page = encode_page(PageKind.EXTENTS, columns, entries=1, rows=5)

    with pytest.raises(CorruptionError, match="units"):
        Extents.from_page(decode_page(page, where="x"), where="x")


@pytest.mark.parametrize("entries", [[0, 2, 3], [3, 0, 2], [2, 2], []], ids=str)
def test_units_taken_are_those_of_the_extents_in_their_order(entries):
    units = [(np.arange(start, stop, dtype=np.uint32),) * 2 for start, stop in [(0, 3), (3, 9)]]
    none = (np.zeros(0, np.uint32),) * 2
    table = UnitTable.of([units[0], none, units[1], units[0]])

    taken = table.take(np.array(entries, np.int64))

    lengths = [range(3), range(0), range(3, 9), range(3)]
    assert taken.counts.tolist() == [len(lengths[entry]) for entry in entries]
    assert taken.lengths.tolist() == [unit for entry in entries for unit in lengths[entry]]
    assert taken.checksums.tolist() == taken.lengths.tolist()
