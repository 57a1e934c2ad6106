"""JSON lines hold what they held: text, objects, numbers; a bad line is refused alone."""

from __future__ import annotations

import gzip
import json
import sys
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, SchemaError
from tensorlake.ingest.tables import json_lines, line_files


@pytest.fixture
def ingest(tmp_path):
    urls = []

    def run(text, *, name="a.jsonl", **options):
        path = tmp_path / f"{len(urls)}-{name}"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        urls.append(f"memory://lines-{tmp_path.name}-{len(urls)}")
        return tl.ingest.jsonl(path, urls[-1], **options)

    yield run
    for url in (*urls, *(f"{one}-quarantine" for one in urls)):
        if tl.exists(url):
            tl.delete(url, confirm=url)


TIMES = [
    "2024-01-01T00:00:00+02:00",
    "2024-01-01T00:00:00.123456789Z",
    "2024-01-01",
    "2024-01-01 12:00:00",
]


def test_times_stay_the_text_that_they_are(ingest):
    text = "".join(json.dumps({"t": one}) + "\n" for one in TIMES)

    ds = ingest(text)

    assert ds.schema["t"] == tl.Text()
    assert ds["t"][:] == TIMES


def test_times_become_moments_where_the_schema_says_so(ingest):
    ds = ingest(
        '{"t": "2024-01-01T00:00:00+02:00"}\n{"t": null}\n',
        schema={"t": tl.Timestamp("us", tz="Europe/Berlin", nullable=True)},
    )

    assert ds[0]["t"].isoformat() == "2023-12-31T23:00:00+01:00"
    assert ds[1]["t"] is None


def test_objects_have_the_members_of_their_own_line(ingest):
    rows = [{"a": 1}, {"b": 2}, {}, {"a": {"x": None}, "t": TIMES[0]}, {"a": "one"}]

    ds = ingest("".join(json.dumps({"m": one}) + "\n" for one in rows))

    assert ds.schema["m"] == tl.Json()
    assert ds["m"][:] == rows


def test_a_date_within_json_is_text(ingest):
    ds = ingest('{"m": {"on": "2024-01-01"}}\n', schema={"m": tl.Json()})

    assert ds["m"][:] == [{"on": "2024-01-01"}]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, -(2**63)], tl.Scalar("int64")),
        ([0, 2**64 - 1], tl.Scalar("uint64")),
        ([2**53 + 1, 2], tl.Scalar("int64")),
        ([0.1, 2**60], tl.Scalar("float64")),
        ([-0.0, 5e-324, 1.7976931348623157e308], tl.Scalar("float64")),
        ([True, False], tl.Bool()),
        (["007", "NaN", "", "null"], tl.Text()),
        ([[1, 2], []], tl.Array("int64", (None,))),
        ([[1, 2], [0.5, 3]], tl.Array("float64", (None,))),
        ([[True], [False]], tl.Array("bool", (None,))),
        ([["a"], []], tl.Sequence(tl.Text())),
        ([[], []], tl.Json()),
        ([[{"a": 1}], []], tl.Json()),
        ([None, 1], tl.Scalar("int64", nullable=True)),
        ([None, None], tl.Json(nullable=True)),
    ],
    ids=str,
)
def test_values_have_the_type_that_holds_each(ingest, values, expected):
    ds = ingest("".join(json.dumps({"x": one}) + "\n" for one in values))

    assert ds.schema["x"] == expected
    held = [one["x"].tolist() if hasattr(one["x"], "tolist") else one["x"] for one in ds]
    assert held == values
    if values[0] == 0:
        assert np.signbit(held[0]) == np.signbit(values[0])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, "1"], "values of no one type, such as '1'"),
        ([True, 2], "values of no one type, such as 2"),
        ([[1, None]], "values of no one type"),
        ([[True, 2]], "values of no one type"),
        ([[[1], [1, 2]]], "whose parts differ in length"),
        ([2**64, 1], f"beyond int64 and uint64, such as {2**64}"),
        ([-1, 2**63], "beyond int64 and uint64"),
        ([2**53 + 1, 0.5], "float64 would round, such as 9007199254740993"),
        ([[2**53 + 1], [0.5]], "float64 would round"),
        ([10**400, 0.5], "float64 would round"),
    ],
)
def test_values_of_several_types_are_refused_and_json_keeps_them(ingest, values, told):
    text = "".join(json.dumps({"x": one}) + "\n" for one in values)

    with pytest.raises(SchemaError, match=rf"(?s)jsonl: member 'x'.*{told}.*'x': tl.Json\(\)"):
        ingest(text)

    assert ingest(text, schema={"x": tl.Json()})["x"][:] == values


BAD = [
    # since Python 3.13 the comma is what is wrong, not what follows it
    (b'{"a": 1, }', f"column {8 if sys.version_info >= (3, 13) else 10}: "),
    (b'{"a": ', "column 7: "),
    (b'{"a": NaN}', "column 7: NaN, which JSON has no number for"),
    (b'{"a": [-Infinity]}', "column 8: -Infinity, which"),
    (b'{"a": 1e400}', "column 7: 1e400, which"),
    (b'{"a": 1, "a": 2}', 'column 10: the member "a" twice'),
    (b'{"m": {"a" :1, "a":1}}', 'column 16: the member "a" twice'),
    (b'{"a" :1,"a":2}', 'column 9: the member "a" twice'),
    (b'{"a":"\\u0022:","b":1,"b":2}', 'column 22: the member "b" twice'),
    (b'{"a": "\\ud800"}', "column 8: half a surrogate pair"),
    (b'{"a": "\xff"}', "column 8: bytes that are not UTF-8"),
    (b'{"a": 01}', "column 8: "),
    (b"[1]", "column 1: a list, not an object"),
    (b'"a"', "column 1: text, not an object"),
    (b"7", "column 1: 7, not an object"),
    (b'{"a": 1} {"a": 2}', "column 10: extra data"),
    (b"[" * 100_000, "column 1: "),
]


@pytest.mark.parametrize(("line", "told"), BAD, ids=[str(one[:20]) for one, _ in BAD])
def test_a_bad_line_is_refused_alone_by_its_line_and_column(ingest, line, told):
    text = b'{"a": 1}\n\n' + line + b'\n{"a": 3}\n'
    schema = {"a": tl.Json()}

    with pytest.raises(InvalidInputError) as caught:
        ingest(text, schema=schema)
    assert str(caught.value).startswith("line 3 of 0-a.jsonl, " + told)
    ds = ingest(text, schema=schema, on_error="skip")

    assert ds["a"][:] == [1, 3]
    (skipped,) = ds.ingest_report.skipped
    assert skipped.item == "line 3 of 1-a.jsonl"
    assert skipped.reason.startswith(told)


def test_quarantine_holds_the_lines_that_were_refused(ingest):
    text = b'{"a": 1}\n{"a":\n{"a": "x"}\n{"a": "\xff"}\n{"a": 4}\n'

    ds = ingest(text, schema={"a": "int64"}, on_error="quarantine")

    assert ds["a"][:].tolist() == [1, 4]
    held = tl.open(ds.ingest_report.quarantine)
    found = {row["item"].split(" of ")[0]: (row["values"], row["content"]) for row in held}
    assert found == {
        "line 2": ({"line": '{"a":'}, None),
        "line 3": ({"a": "x"}, None),
        "line 4": ({"line": "<bytes>"}, b'{"a": "\xff"}'),
    }
    assert all(row["reason"] for row in held)


def test_lines_are_numbered_in_their_file_wherever_it_is_cut(ingest, monkeypatch):
    monkeypatch.setattr(line_files, "PIECE_NBYTES", 64)
    monkeypatch.setattr(json_lines, "_TAKEN_NBYTES", 16)
    lines = [json.dumps({"a": at, "t": "x" * (at % 9)}) for at in range(100)]
    for at in (0, 17, 50, 99):
        lines[at] = "{"
    lines[60] = '{"a": "no number", "t": ""}'
    lines[61] = ""
    text = "\r\n".join(lines) + "\n"
    wrong = [1, 18, 51, 61, 100]
    schema = {"a": "int64", "t": "str"}

    for name in ("a.jsonl", "a.jsonl.gz"):
        content = gzip.compress(text.encode()) if name.endswith("gz") else text
        ds = ingest(content, name=name, schema=schema, on_error="skip")
        numbers = [int(one.item.split()[1]) for one in ds.ingest_report.skipped]

        assert sorted(numbers) == wrong
        assert ds["a"][:].tolist() == [at for at in range(100) if at + 1 not in (*wrong, 62)]


def test_a_member_that_comes_late_is_refused_or_left_out_by_its_line(ingest, monkeypatch):
    monkeypatch.setattr(line_files, "PIECE_NBYTES", 16)
    text = "".join(f'{{"a": {at}{", 1" if at < 0 else ""}}}\n' for at in range(30))
    text = text.replace('{"a": 15}', '{"a": 15, "late": 1}')

    with pytest.raises(InvalidInputError, match=r"line 16 of .*, member 'late'.*schema=\{…\}"):
        ingest(text)

    ds = ingest(text, on_error="skip")
    assert ds["a"][:].tolist() == [at for at in range(30) if at != 15]
    assert len(ingest(text, schema={"a": "int64"})) == 30


def test_a_member_that_a_line_lacks_is_null_or_the_default(ingest):
    schema = {
        "a": "int64",
        "n": tl.Scalar("int64", nullable=True),
        "d": tl.Text(default="none"),
        "never": tl.Text(nullable=True),
    }

    ds = ingest('{"a": 1, "n": 2, "d": "x"}\n{"a": 2}\n', schema=schema)

    assert [dict(row) for row in ds] == [
        {"a": 1, "n": 2, "d": "x", "never": None},
        {"a": 2, "n": None, "d": "none", "never": None},
    ]
    with pytest.raises(InvalidInputError, match=r"\['b'\], which is not a member of any line"):
        ingest('{"a": 1}\n', schema={"b": "int64"})
    with pytest.raises(InvalidInputError, match=r"line 2 of .*'a'.*got None"):
        ingest('{"a": 1}\n{}\n', schema={"a": "int64"})


def test_the_mark_that_some_programs_write_first_is_no_part_of_a_line(ingest):
    ds = ingest(b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}')

    assert ds["a"][:].tolist() == [1, 2]


def test_an_object_over_several_lines_is_not_json_lines(ingest):
    with pytest.raises(InvalidInputError, match=r"line 1 of .*, column 2: "):
        ingest('{\n "a": 1\n}\n')


def test_names_of_members_are_names_of_tensors(ingest):
    names = ['a "quoted" name', "a.b", "a/b", "grün", "a:b", "\u0022:"]

    ds = ingest(json.dumps(dict.fromkeys(names, 1)) + "\n")

    assert list(ds.schema) == names


def test_texts_that_a_tokenizer_cannot_take_are_left_out_each(ingest):
    asked = []
    lock = threading.Lock()

    def encode(texts):
        with lock:
            asked.extend(texts)
        return [list(one.encode()) for one in texts]

    ds = ingest(
        '{"text": "ab"}\n{"text": null}\n{"text": 7}\n{}\n{"text": "c"}\n',
        tokenizer=encode,
        on_error="skip",
    )

    assert [one.tolist() for one in ds["tokens"][:]] == [[97, 98], [99]]
    assert [one.item.split(" of ")[0] for one in ds.ingest_report.skipped] == [
        "line 2",
        "line 3",
        "line 4",
    ]
    assert set(asked) == {"ab", "c"}


def test_inference_of_values_never_changes_one():
    with pytest.raises(SchemaError, match="no one type"):
        tl.infer_schema({"x": [True, 2]})
    with pytest.raises(SchemaError, match="no one type"):
        tl.infer_schema({"x": [np.bool_(1), np.int64(2)]})
    with pytest.raises(SchemaError, match="float64 would round"):
        tl.infer_schema({"x": [np.int64(2**53 + 1), np.float64(0.5)]})
    assert tl.infer_schema({"x": [2**63, 1]}) == {"x": tl.Scalar("uint64")}
    assert tl.infer_schema({"x": [1.5, 2**53]}) == {"x": tl.Scalar("float64")}
