"""Statistics are conservative: what is there is never outside of what they say."""

import numpy as np
import pytest

from tensorlake.errors import CorruptionError
from tensorlake.format import Statistics, StatisticsTable, statistics_of
from tensorlake.types import (
    Array,
    BBox,
    Bool,
    Bytes,
    EncodedColumn,
    Image,
    Scalar,
    Text,
)


def of(sample_type, samples):
    return statistics_of(sample_type.convert(samples, tensor="x"))


@pytest.mark.parametrize(
    ("sample_type", "samples", "domain", "minimum", "maximum"),
    [
        (Scalar("int8"), [3, -1], "int64", -1, 3),
        (Scalar("uint32"), [2**32 - 1, 0], "int64", 0, 2**32 - 1),
        (Scalar("uint64"), [2**64 - 1, 2**63], "uint64", 2**63, 2**64 - 1),
        (Scalar("float16"), [0.5, -2], "float64", -2.0, 0.5),
        (Scalar("float64"), [np.inf, np.nan, -np.inf], "float64", -np.inf, np.inf),
        (Scalar("float32"), [-0.0, 0.0], "float64", 0.0, 0.0),
        (Bool(), [True, True], "int64", 1, 1),
        (Array("int16", (None,)), [[5], [], [-7, 9]], "int64", -7, 9),
        (Array("int16", (2,)), [[5, 6]], "int64", 5, 6),
        (Text(), ["b", "a", "é"], "bytes", b"a", "é".encode()),
    ],
    ids=repr,
)
def test_bounds_are_of_all_elements(sample_type, samples, domain, minimum, maximum):
    known = of(sample_type, samples)

    assert (known.domain, known.minimum, known.maximum) == (domain, minimum, maximum)
    assert not known.is_empty


def test_nulls_and_nans_are_counted_and_not_in_the_bounds():
    known = of(Scalar("float32", nullable=True), [None, np.nan, 2.0, None])

    assert (known.null_count, known.nan_count) == (2, 1)
    assert (known.minimum, known.maximum) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("sample_type", "samples"),
    [
        (Scalar("float32", nullable=True), [None, np.nan]),
        (Scalar("int8", nullable=True), [None]),
        (Text(nullable=True), [None, None]),
        (Array("int8", (None,)), [[], []]),
        (Scalar("int8"), []),
        (Image(nullable=True), [None]),
    ],
    ids=repr,
)
def test_where_nothing_can_match_the_chunk_is_empty(sample_type, samples):
    known = of(sample_type, samples)

    assert known.is_empty
    assert known.minimum is None


@pytest.mark.parametrize(
    ("texts", "minimum", "maximum"),
    [
        (["a" * 40], b"a" * 16, b"a" * 15 + b"b"),
        (["a" * 16], b"a" * 16, b"a" * 15 + b"b"),
        (["a" * 15], b"a" * 15, b"a" * 15),
    ],
)
def test_long_strings_are_rounded_outward(texts, minimum, maximum):
    known = of(Text(), texts)

    assert (known.minimum, known.maximum) == (minimum, maximum)


def test_rounding_up_carries_over_and_gives_up_at_the_end():
    carried = of(Bytes(), [b"a" + b"\xff" * 20])
    endless = of(Bytes(), [b"\xff" * 20])

    assert carried.maximum == b"b"
    assert endless.maximum is None
    assert endless.minimum == b"\xff" * 16


def test_bytes_with_zeros_stay_inside_the_bounds_of_a_table():
    samples = [b"a\0", b"a", b"a\0\0b", b"\0"]

    row = StatisticsTable.of([of(Bytes(), samples)]).row(0)

    assert all(row.minimum <= sample <= row.maximum for sample in samples)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([3, 1, 3], (1, 3)),
        ([10**12, -5], (-5, 10**12)),
        (range(64), tuple(range(64))),
        (range(65), None),
        ([1 << 40, *range(1000)], None),
    ],
)
def test_few_distinct_integers_are_all_known(values, labels):
    assert of(Scalar("int64"), list(values)).labels == labels


def test_integers_above_int64_have_no_label_set():
    assert of(Scalar("uint64"), [2**63, 1]).labels is None


def test_large_fixed_samples_are_not_bounded():
    assert of(Array("float32", (64,)), np.zeros((3, 64))) == Statistics()


def test_complex_numbers_have_no_order():
    known = of(Scalar("complex64"), [1j, 2])

    assert known.domain is None
    assert not known.is_empty


def test_shapes_are_bounded_over_what_is_not_null():
    boxes = of(BBox(nullable=True), [[[0] * 4] * 3, None, [[0] * 4]])
    pictures = statistics_of(EncodedColumn([b"x", b"y"], np.array([[4, 6, 3], [5, 2, 3]])))

    assert (boxes.shape_min, boxes.shape_max) == ((1, 4), (3, 4))
    assert (pictures.shape_min, pictures.shape_max) == ((4, 2, 3), (5, 6, 3))


def tables():
    ints = [of(Scalar("int8"), [n, n + 5]) for n in range(4)]
    floats = [of(Scalar("float32", nullable=True), [n, None, np.nan]) for n in range(3)]
    texts = [of(Text(), ["a" * n, "é" * n]) for n in range(1, 12)]
    boxes = [of(BBox(), [[[n] * 4] * n]) for n in range(3)]
    pictures = [Statistics(shape_min=(1, 2, 3), shape_max=(4, 5, 3))]
    unknown = [Statistics(null_count=9), Statistics(is_empty=True)]
    return [ints, floats, texts, boxes, pictures, unknown, [*ints, *unknown], []]


def like_stored(row):
    """What a table may give back for these statistics: byte bounds are padded."""
    if not isinstance(row.minimum, bytes):
        return row
    return Statistics(
        row.null_count,
        row.nan_count,
        row.domain,
        row.minimum,
        None if row.maximum is None else row.maximum.ljust(16, b"\0"),
    )


@pytest.mark.parametrize("rows", tables(), ids=repr)
def test_a_table_gives_back_its_rows_also_through_sections(rows):
    table = StatisticsTable.of(rows)

    back = StatisticsTable.from_sections(table.to_sections())

    assert len(table) == len(rows)
    expected = [like_stored(row) for row in rows]
    assert [table.row(at) for at in range(len(rows))] == expected
    assert [back.row(at) for at in range(len(rows))] == expected


@pytest.mark.parametrize("rows", [rows for rows in tables() if rows], ids=repr)
def test_take_and_concat_are_those_of_lists(rows):
    table = StatisticsTable.of(rows)
    chosen = np.array([len(rows) - 1, 0, 0])

    taken = table.take(chosen)
    joined = StatisticsTable.concat([table, taken])

    expected = [table.row(at) for at in [*range(len(rows)), *chosen.tolist()]]
    assert [joined.row(at) for at in range(len(joined))] == expected


def test_bounds_of_another_domain_are_dropped_when_joined():
    old, new = of(Scalar("int8"), [1, 2]), of(Scalar("float64"), [0.5])

    for table in (
        StatisticsTable.of([old, new]),
        StatisticsTable.concat([StatisticsTable.of([old]), StatisticsTable.of([new])]),
    ):
        assert table.domain == "float64"
        assert table.row(0).minimum is None
        assert not table.row(0).is_empty
        assert table.row(1).maximum == 0.5


def test_shapes_of_another_ndim_are_dropped_when_joined():
    flat, deep = (
        Statistics(shape_min=(1,), shape_max=(2,)),
        Statistics(shape_min=(1, 1), shape_max=(2, 2)),
    )

    table = StatisticsTable.concat([StatisticsTable.of([flat]), StatisticsTable.of([deep])])

    assert table.row(0).shape_min is None
    assert table.row(1).shape_max == (2, 2)


def merged(rows):
    table = StatisticsTable.of(rows).merge_upward()
    assert len(table) == 1
    return table.row(0)


def test_merging_covers_everything_below():
    known = merged([of(Scalar("int8"), [n, n + 5]) for n in range(4)])

    assert (known.minimum, known.maximum) == (0, 8)
    assert known.labels == (0, 1, 2, 3, 5, 6, 7, 8)


def test_merging_adds_nulls_and_nans():
    known = merged([of(Scalar("float32", nullable=True), [n, None, np.nan]) for n in range(3)])

    assert (known.null_count, known.nan_count, known.minimum, known.maximum) == (3, 3, 0.0, 2.0)


def test_what_is_unknown_below_is_unknown_above():
    known = merged([of(Scalar("int8"), [1]), Statistics()])

    assert known == Statistics()


def test_empty_extents_do_not_hide_the_bounds_of_others():
    known = merged([of(Scalar("int8"), [1, 4]), Statistics(null_count=2, is_empty=True)])

    assert (known.minimum, known.maximum, known.labels, known.null_count) == (1, 4, (1, 4), 2)
    assert not known.is_empty


def test_empty_extents_merge_to_an_empty_one():
    assert merged([Statistics(is_empty=True), Statistics(is_empty=True)]).is_empty


def test_too_many_labels_are_given_up_when_merged():
    rows = [of(Scalar("int8"), list(range(n, n + 40))) for n in (0, 40)]

    assert merged(rows).labels is None
    assert merged(rows).maximum == 79


def test_an_endless_maximum_stays_unknown():
    rows = [of(Bytes(), [b"\xff" * 20]), of(Bytes(), [b"a"])]

    assert merged(rows).maximum is None
    assert merged(rows).minimum == b"a"


def test_shape_bounds_merge_also_over_chunks_of_nulls():
    rows = [of(BBox(nullable=True), [[[0] * 4] * 3]), of(BBox(nullable=True), [None])]

    known = merged(rows)

    assert (known.shape_min, known.shape_max) == ((3, 4), (3, 4))


@pytest.mark.parametrize("rows", [rows for rows in tables() if rows], ids=repr)
def test_sections_that_do_not_fit_are_corruption(rows):
    sections = StatisticsTable.of(rows).to_sections()

    for name in sections:
        shortened = sections | {name: sections[name][:-1]}
        if len(sections) == 1 or not len(sections[name]):
            continue
        with pytest.raises(CorruptionError):
            StatisticsTable.from_sections(shortened)
    with pytest.raises(CorruptionError):
        StatisticsTable.from_sections({})
