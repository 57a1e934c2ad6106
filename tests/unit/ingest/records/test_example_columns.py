"""Examples parsed together have the values that they have one by one, or are left to that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.ingest.records.example_columns import parse_together
from tensorlake.ingest.records.examples import parse_example
from tests.support.examples import examples


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    made = b""
    while number >= 128:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + varint(len(content)) + content


def message(row: dict[str, object]) -> bytes:
    entries = b""
    for name, value in row.items():
        if isinstance(value, bytes):
            values = field(0x0A, field(0x0A, value))
        elif isinstance(value, np.ndarray):
            values = field(0x12, field(0x0A, value.astype("<f4").tobytes()))
        else:
            values = field(0x1A, field(0x0A, b"".join(map(varint, value))))
        entries += field(0x0A, field(0x0A, name.encode()) + field(0x12, values))
    return field(0x0A, entries)


VALUES = {
    "image": st.binary(max_size=300),
    "größe": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    "x": st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9).map(np.array),
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=6)


def together(records: list[bytes], gap: bytes = b"\x00gap"):
    stops = np.cumsum([len(gap) + len(one) for one in records])
    lengths = np.array([*map(len, records)])
    return parse_together(b"".join(gap + one for one in records), stops - lengths, stops)


@examples(40)
@given(ROWS)
def test_records_of_one_form_are_parsed_as_each_is(rows):
    records = [message({name: row[name] for name in VALUES}) for row in rows]

    found = together(records)

    assert found is not None
    for name, feature in found.items():
        each = [parse_example(one)[name] for one in records]
        if feature.kind == "bytes":
            assert [[one] for one in feature.parts.each()] == each
            continue
        counts = feature.counts
        assert counts.tolist() == [len(one) for one in each]
        np.testing.assert_array_equal(feature.numbers(), np.concatenate(each))


@examples(60)
@given(ROWS, st.data())
def test_damaged_records_are_never_parsed_to_other_values(rows, data):
    records = [bytearray(message({name: row[name] for name in VALUES})) for row in rows]
    row = data.draw(st.integers(0, len(records) - 1))
    at = data.draw(st.integers(0, min(len(records[row]) - 1, 80)))
    records[row][at] ^= data.draw(st.integers(1, 255))

    found = together([*map(bytes, records)])

    if found is None:
        return
    try:
        expected = parse_example(bytes(records[row]))
    except ValueError as error:  # only numbers are decoded later
        with pytest.raises(ValueError, match=str(error)):
            _ = [one.numbers() for one in found.values() if one.kind != "bytes"]
        return
    assert found.keys() == expected.keys()
    for name, feature in found.items():
        if feature.kind == "bytes":
            assert feature.parts.each()[row] == expected[name][0]


@pytest.mark.parametrize(
    "other",
    [
        {"b": b"2", "a": b"1"},
        {"a": b"1"},
        {"a": b"1", "b": b"2", "c": b"3"},
        {"a": b"1", "b": [2]},
        {"a": b"1", "c": b"2"},
    ],
    ids=["order", "fewer", "more", "kind", "name"],
)
def test_records_of_several_forms_are_left_to_the_other_parser(other):
    one = message({"a": b"1", "b": b"2"})

    assert together([one, one]) is not None
    assert together([one, message(other)]) is None
    assert together([message(other), one]) is None


def test_lists_that_are_not_packed_or_have_several_strings_are_left_to_the_other_parser():
    several = field(0x0A, field(0x0A, b"1") + field(0x0A, b"2"))
    unpacked = field(0x1A, b"\x08\x07\x08\x09")
    for values in (several, unpacked, field(0x0A, b""), b""):
        record = field(0x0A, field(0x0A, field(0x0A, b"a") + field(0x12, values)))

        assert together([record, record]) is None
