"""Moments, identifiers, words and sequences: what they take, refuse and give back."""

# ruff: noqa: DTZ001 - moments without a time zone are what is tested

import datetime as dt
import uuid
import zoneinfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import (
    CorruptSampleError,
    DTypeMismatchError,
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
)
from tensorlake.types import Sequence, as_type
from tensorlake.types.base.join import join_items, split_items

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON = dt.datetime(2026, 7, 1, 12, 0, 0, 250_000)
ZONED = NOON.replace(tzinfo=BERLIN)
ID = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def read(sample_type, samples):
    """The column as a user reads it."""
    made = as_type(sample_type)
    return made.present(made.decode(made.convert(samples, tensor="x"), tensor="x"))


def one(sample_type, sample):
    return sample_type.present_one(sample_type.convert([sample], tensor="x"), 0)


# ---- moments


@pytest.mark.parametrize(
    "given_as",
    [NOON, np.datetime64(NOON), NOON.isoformat(), pd.Timestamp(NOON)],
    ids=["datetime", "datetime64", "text", "pandas"],
)
def test_moment_without_a_zone_is_what_the_clock_says(given_as):
    assert read(tl.Timestamp("us"), [given_as])[0] == np.datetime64(NOON)
    assert one(tl.Timestamp("ms"), given_as) == NOON


def test_moment_in_a_zone_is_an_instant_shown_there():
    column = tl.Timestamp("us", tz="Europe/Berlin")

    assert read(column, [ZONED])[0] == np.datetime64("2026-07-01T10:00:00.250000")
    assert one(column, "2026-07-01T10:00:00.250+00:00") == ZONED
    assert one(column, ZONED).tzinfo == BERLIN
    assert one(column, pd.Timestamp(ZONED)) == ZONED


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00.123456789", 123_456_789),
        ("1970-01-01T00:00:01,0000001", 1_000_000_100),
        ("1969-12-31T23:59:59.9999999", -100),
        ("1970-01-01T00:00:00.123456000000", 123_456_000),
    ],
)
def test_a_text_keeps_its_nanoseconds(text, nanoseconds):
    assert read(tl.Timestamp("ns"), [text]).astype(int).tolist() == [nanoseconds]
    aware = read(tl.Timestamp("ns", tz="Europe/Berlin"), [f"{text}+00:00"])
    assert aware.astype(int).tolist() == [nanoseconds]


@pytest.mark.parametrize(
    ("unit", "text"),
    [("us", "2026-03-01T12:00:00.1234567"), ("ns", "2026-03-01T12:00:00.1234567891")],
)
def test_a_text_that_is_too_fine_is_refused(unit, text):
    with pytest.raises(DTypeMismatchError, match=f"not an integer number of {unit}"):
        tl.Timestamp(unit).convert([text], tensor="x")


def test_whole_columns_of_moments_are_taken():
    days = np.arange("2026-01-01", "2026-01-04", dtype="datetime64[D]")

    assert np.array_equal(read(tl.Timestamp("s"), days), days)
    assert np.array_equal(read(tl.Timestamp("ns"), pd.Series(days.astype("datetime64[ns]"))), days)
    aware = pd.Series(days.astype("datetime64[ns]")).dt.tz_localize("Europe/Berlin")
    assert read(tl.Timestamp("ns", tz="UTC"), aware)[0] == np.datetime64("2025-12-31T23:00")


def test_nanoseconds_are_kept():
    moment = pd.Timestamp("2026-01-01T00:00:00.123456789")

    assert one(tl.Timestamp("ns"), moment) == np.datetime64("2026-01-01T00:00:00.123456789")


@pytest.mark.parametrize(
    ("sample_type", "sample", "words"),
    [
        (tl.Timestamp(), ZONED, "with a time zone"),
        (tl.Timestamp(tz="UTC"), NOON, "without a time zone"),
        (tl.Timestamp(tz="UTC"), "2026-01-01", "without a time zone"),
        (tl.Timestamp("s"), NOON, "not an integer number of s"),
        (tl.Timestamp("s"), np.datetime64(NOON), "not an integer number of s"),
        (tl.Timestamp("us"), pd.Timestamp(1), "not an integer number of us"),
        (tl.Timestamp("ns"), dt.datetime(9999, 1, 1), "beyond ns"),
        (tl.Timestamp(), np.datetime64("NaT"), "NaT"),
        (tl.Timestamp(), 1_700_000_000, "datetime64"),
        (tl.Timestamp(), "noon", "noon"),
        (tl.Timestamp(), NOON.date(), "date"),
    ],
)
def test_what_is_no_such_moment_is_refused(sample_type, sample, words):
    with pytest.raises(DTypeMismatchError, match=f"row 1 (.|\n)*{words}"):
        sample_type.convert([_fitting(sample_type), sample], tensor="at")


def _fitting(sample_type):
    moment = dt.datetime(2026, 1, 1)
    return moment.replace(tzinfo=dt.UTC) if sample_type.tz else moment


@pytest.mark.parametrize("array", [np.arange(3), np.arange(3.0)])
def test_numbers_are_no_moments(array):
    with pytest.raises(DTypeMismatchError, match="numbers have no unit"):
        tl.Timestamp().convert(array, tensor="at")


def test_table_of_moments_is_no_column():
    with pytest.raises(ShapeMismatchError):
        tl.Timestamp().convert(np.zeros((2, 2), "datetime64[s]"), tensor="at")


@pytest.mark.parametrize("arguments", [{"unit": "min"}, {"tz": "Mars/Olympus"}, {"tz": ""}])
def test_impossible_moment_is_refused(arguments):
    with pytest.raises(SchemaError):
        tl.Timestamp(**arguments)


def test_moments_in_a_dataset_are_compared_and_added_later():
    ds = tl.create("memory://moments", {"at": tl.Timestamp("s", tz="UTC", nullable=True)})
    ds.extend({"at": ["2026-01-01T00:00+00:00", None, "2026-01-03T00:00+00:00"]})
    ds.add_tensor("seen", tl.Timestamp("s"), fill=dt.datetime(2026, 2, 1))
    ds.commit()

    again = tl.open("memory://moments")

    assert again[1]["at"] is None
    assert again["at"].read([0, 2]).tolist() == [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 3)]
    assert again["seen"][:].tolist() == [dt.datetime(2026, 2, 1)] * 3


@given(
    st.lists(
        st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9998, 1, 1)).map(
            lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        ),
        max_size=5,
    ),
    st.sampled_from(["ms", "us"]),
)
def test_every_moment_comes_back(moments, unit):
    column = tl.Timestamp(unit)

    shown = column.convert(moments, tensor="at")

    assert [column.present_one(shown, at) for at in range(len(moments))] == moments
    assert read(column, moments).tolist() == moments


# ---- identifiers and words


@pytest.mark.parametrize("given_as", [ID, str(ID), str(ID).upper(), ID.urn, ID.hex, ID.bytes])
def test_identifier_is_taken_in_each_spelling(given_as):
    assert read(tl.Uuid(), [given_as]) == [ID]


@pytest.mark.parametrize("sample", ["6ba7b810", b"short", 7])
def test_what_is_no_identifier_is_refused(sample):
    with pytest.raises(DTypeMismatchError, match="row 1"):
        tl.Uuid().convert([ID, sample], tensor="id")


def test_identifiers_are_found_as_text_and_added_with_a_fill():
    ds = tl.create("memory://identifiers", {"id": tl.Uuid()})
    ds.extend({"id": [ID, uuid.UUID(int=1)]})
    ds.add_tensor("batch", tl.Uuid(), fill=ID)

    assert len(ds.query(f"WHERE id = '{ID}'")) == 1
    assert ds["batch"][:] == [ID, ID]


def test_words_keep_their_order_and_are_found():
    ds = tl.create("memory://tags-in-order", {"tags": tl.Tags(default=["new"])})
    ds.extend({"tags": [["night", "räin"], [], ("a",), {"b", "a"}, np.array(["z"])]})

    assert ds["tags"][:] == [["night", "räin"], [], ["a"], ["a", "b"], ["z"]]
    assert len(ds.query("WHERE CONTAINS(tags, 'night')")) == 1


@pytest.mark.parametrize("sample", ["night", [1], [["a"]], ["a", "a"], {"a": 1}, ["\ud800"], 5])
def test_what_are_no_words_is_refused(sample):
    with pytest.raises(DTypeMismatchError, match="row 1"):
        tl.Tags().convert([["a"], sample], tensor="tags")


# ---- sequences

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


@pytest.mark.parametrize(
    ("item", "rows"),
    [
        ("float32", [[1.5, 2.5], [], [3.5]]),
        (tl.Array("int16", (2,)), [[[1, 2]], [[3, 4], [5, 6]], []]),
        (tl.Array("int16", (None,)), [[[1], [2, 3]], [], [[]]]),
        ("str", [["a", ""], [], ["ü"]]),
        (tl.Json(), [[{"a": 1}], [[], 2], []]),
        (tl.Image("png"), [[PIXELS, PIXELS[:1]], [], [PIXELS]]),
        (tl.ClassLabel(["a", "b"]), [["a", "b", "a"], [], ["b"]]),
        (tl.Sequence("int8"), [[[1], []], [], [[2, 3]]]),
    ],
    ids=["scalar", "fixed", "ragged", "text", "json", "image", "label", "sequence"],
)
def test_sequence_gives_back_its_items(item, rows, request):
    ds = tl.create(f"memory://sequence-{request.node.callspec.id}", {"x": tl.Sequence(item)})
    ds.extend({"x": rows})
    ds.commit()

    for row, expected in zip(ds["x"][:], rows, strict=True):
        shown = row.as_names() if hasattr(row, "as_names") else row
        assert len(shown) == len(expected)
        for got, wanted in zip(shown, expected, strict=True):
            assert np.array_equal(got, wanted)


def test_items_of_one_shape_are_one_array():
    [row] = read(tl.Sequence(tl.Array("float32", (2,))), [[[1, 2], [3, 4]]])

    assert row.dtype == np.float32
    assert row.shape == (2, 2)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1], [1, "x"]], "row 1"),
        ([[1], [None]], "row 1 .*None"),
        ([[1], 7], "row 1"),
        ([["a"]], "row 0"),
        (["abc"], "row 0"),
    ],
)
def test_item_that_does_not_fit_names_the_row(rows, words):
    with pytest.raises(InvalidInputError, match=words):
        tl.Sequence("int64").convert(rows, tensor="x")


def test_row_of_an_item_is_counted_beside_nulls():
    with pytest.raises(InvalidInputError, match="row 12"):
        tl.Sequence("int64", nullable=True).convert([None, [1], ["x"]], tensor="x", row_start=10)


def test_items_are_never_left_out():
    with pytest.raises(SchemaError, match="have no NULL, default or mark"):
        tl.Sequence(tl.Scalar("int8", nullable=True))


def test_sequence_keeps_nulls_and_defaults():
    column = tl.Sequence("int8", nullable=True)
    ds = tl.create("memory://sequences", {"x": column, "y": tl.Sequence("str", default=["a"])})
    ds.extend({"x": [None, [1]]})

    assert ds[0]["x"] is None
    assert ds["y"][:] == [["a"], ["a"]]


@given(st.lists(st.lists(st.binary(max_size=4), max_size=4), max_size=4))
def test_every_sequence_of_bytes_comes_back(rows):
    assert read(Sequence("bytes"), rows) == rows


@given(st.data())
def test_cut_or_changed_samples_are_refused_or_harmless(data):
    item = data.draw(st.sampled_from([as_type("int16"), tl.Array("int8", (None,)), tl.Text()]))
    given_items = {
        "scalar": [1, 2],
        "array": [[1], [2, 3]],
        "text": ["a", "bc"],
    }[item.kind]
    sample = bytearray(join_items(item.convert(given_items, tensor="x")))
    sample[data.draw(st.integers(0, len(sample) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(sample[: data.draw(st.integers(0, len(sample)))])

    try:
        items = split_items(cut, item)
    except CorruptSampleError:
        return
    assert len(items) <= len(cut)
