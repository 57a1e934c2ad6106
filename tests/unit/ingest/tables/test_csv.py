"""CSV as other programs write it: quotes, marks, delimiters, NULL words, numbers and codes."""

from __future__ import annotations

import csv
import gzip
import io
import lzma

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables import csv_records
from tensorlake.ingest.tables.csv_columns import may_change_numbers
from tensorlake.ingest.tables.csv_records import cut_records
from tensorlake.types import as_type


@pytest.fixture
def ingest(tmp_path):
    urls = []

    def run(text, **options):
        path = tmp_path / options.pop("name", "a.csv")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        urls.append(f"memory://csv-{tmp_path.name}-{len(urls)}")
        return tl.ingest.csv(path, urls[-1], **options)

    yield run
    for url in urls:
        if tl.exists(url):
            tl.delete(url, confirm=url)


def written(rows, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


def test_values_in_quotes_hold_line_breaks_delimiters_and_quotes(ingest):
    texts = ["a\nb", 'say "x"', "1,2", "\r\n", '"', "plain", ""]

    ds = ingest(written([["n", "t"], *enumerate(texts)]), schema={"t": tl.Text()})

    assert ds["t"][:] == texts
    assert ds["n"][:].tolist() == list(range(len(texts)))


def test_files_are_cut_between_records_and_not_within_values(ingest, monkeypatch):
    monkeypatch.setattr(csv_records, "PIECE_NBYTES", 64)
    rows = [[at, "x" * (at % 7) + '\n"y"\n' * (at % 3) + "z"] for at in range(200)]

    ds = ingest(written([["n", "t"], *rows]))

    assert ds["n"][:].tolist() == [at for at, _ in rows]
    assert ds["t"][:] == [text for _, text in rows]
    assert ds.ingest_report.rows == 200


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.text('ab,"\n\r', max_size=6), min_size=2, max_size=2), max_size=12),
    st.integers(1, 40),
)
def test_runs_are_whole_records_whatever_the_values(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    text = written(rows).encode()
    path.write_bytes(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "PIECE_NBYTES", size)
        pieces = list(cut_records(str(path), 0, ",", SourceFiles(None)))

    assert b"".join(text[one.start : one.stop] for one in pieces) == text
    read = [
        row
        for one in pieces
        for row in csv.reader(io.StringIO(text[one.start : one.stop].decode(), newline=""))
    ]
    assert read == rows


def test_a_quote_within_a_value_without_quotes_is_a_letter(ingest, monkeypatch):
    monkeypatch.setattr(csv_records, "PIECE_NBYTES", 16)

    ds = ingest('n,t\n1,5" wide\n2,"two\nlines"\n3,x""y\n4,end\n')

    assert ds["t"][:] == ['5" wide', "two\nlines", 'x""y', "end"]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_quote_that_nothing_closes_is_told_by_its_place(ingest, name):
    text = b'n,t\n1,x\n2,"open\n3,y\n'

    told = r"line 3 of a\.csv.*: the quote at byte 10 opens a value that nothing"
    with pytest.raises(InvalidInputError, match=told):
        ingest(gzip.compress(text) if name.endswith("gz") else text, name=name)


def test_the_mark_that_some_programs_write_first_is_no_part_of_a_name(ingest):
    mark = b"\xef\xbb\xbf"

    assert list(ingest(mark + b"a,b\n1,2\n").schema) == ["a", "b"]
    assert list(ingest(mark + b'"a,1",b\n1,2\n').schema) == ["a,1", "b"]
    assert ingest(mark + b"1,2\n", names=["a", "b"])["a"][:].tolist() == [1]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_found_out_and_named(ingest, delimiter):
    text = f"a{delimiter}b\n1{delimiter}2\n"

    with pytest.raises(InvalidInputError) as caught:
        ingest(text)

    assert f"delimiter={delimiter!r}" in str(caught.value)
    assert ingest(text, delimiter=delimiter)["b"][:].tolist() == [2]


def test_null_words_are_null_among_numbers_and_text_in_text(ingest):
    ds = ingest("n,t\n1,NA\nNULL,\nn/a,NULL\n,x\n")

    assert [row["n"] for row in ds] == [1, None, None, None]
    assert [row["t"] for row in ds] == ["NA", None, "NULL", "x"]


def test_null_words_of_a_call_are_null_everywhere_but_in_quotes(ingest):
    ds = ingest('n,t\n1,-\n-,"-"\n2,NA\n', nulls=["-"])

    assert [row["n"] for row in ds] == [1, None, 2]
    assert [row["t"] for row in ds] == [None, "-", "NA"]


def test_nan_is_a_number_and_not_null(ingest):
    ds = ingest("x\n1.5\nNaN\nnan\n\n")

    values = [row["x"] for row in ds]
    assert values[3] is None
    assert np.isnan(values[1:3]).all()


def test_decimal_commas_are_refused_until_they_are_named(ingest):
    text = "n;x\n1;1,5\n2;-2,25\n3;4\n"

    with pytest.raises(InvalidInputError, match=r"(?s)'x' has numbers with commas, .* decimal=','"):
        ingest(text, delimiter=";")
    with pytest.raises(InvalidInputError, match="decimal=','"):
        ingest(text, delimiter=";", schema={"x": "float32"})

    assert ingest(text, delimiter=";", decimal=",")["x"][:].tolist() == [1.5, -2.25, 4]
    assert ingest(text, delimiter=";", schema={"x": tl.Text()})["x"][:] == ["1,5", "-2,25", "4"]


@pytest.mark.parametrize("decimal", ["", ",,", ","])
def test_a_decimal_that_cannot_be_is_refused(ingest, decimal):
    with pytest.raises(InvalidInputError, match="decimal="):
        ingest("a,b\n1,2\n", decimal=decimal)


def test_codes_with_a_zero_before_them_stay_text(ingest):
    ds = ingest("zip,n,t\n01234,0,0.5\n99999,10,00.25\n")

    assert ds["zip"][:] == ["01234", "99999"]
    assert ds["n"][:].tolist() == [0, 10]
    assert ds["t"][:].tolist() == [0.5, 0.25]
    assert ingest("zip\n01234\n", schema={"zip": "int32"})["zip"][:].tolist() == [1234]


def test_whole_numbers_that_would_be_rounded_are_refused(ingest):
    text = "id\n18446744073709551615\n1\n"

    with pytest.raises(InvalidInputError, match="would round, such as 18446744073709551615"):
        ingest(text)

    assert ingest(text, schema={"id": "uint64"})["id"][:].tolist() == [2**64 - 1, 1]
    assert ingest("id\n100000000000000000000\n0.5\n")["id"][:].tolist() == [1e20, 0.5]


@pytest.mark.parametrize(
    ("ends", "middle", "message"),
    [
        ("7", "007", r"(?s)'x' has '007' after .* schema=\{'x': tl.Text\(\)\}"),
        ("7", "-07", "'x' has '-07' after"),
        ("7", '"007"', "'x' has '007' after"),
        ("0.5", "9007199254740993", "would round, such as 9007199254740993"),
    ],
)
def test_what_a_number_would_change_is_refused_in_the_middle_of_a_file_too(
    ingest, monkeypatch, ends, middle, message
):
    monkeypatch.setattr(csv_records, "PIECE_NBYTES", 64)
    lines = [f"2024-01-05 00:30,{ends}"] * 100
    lines[50] = f"2024-01-05 00:30,{middle}"
    text = "\n".join(["t,x", *lines])

    with pytest.raises(InvalidInputError, match=message):
        ingest(text)

    assert ingest(text, schema={"x": tl.Text()})["x"][:][50].strip() == middle.strip('" ')


@pytest.mark.parametrize("value", ["0", "0.5", "-0.25", "10", "1.0000000000000001", "1e05", ""])
def test_numbers_as_programs_write_them_are_parsed_once(value):
    assert not may_change_numbers(f"1,{value},2\n{value}\n".encode(), ",")


@pytest.mark.parametrize("value", ["00", "-07", " 07", '"07"', "1234567890123456"])
def test_values_that_a_number_might_change_are_seen_wherever_they_stand(value):
    for text in (f"1,{value},2\n", value, f"1\r\n{value}\r\n", f"1\n{value}"):
        assert may_change_numbers(text.encode(), ",")


def test_text_of_two_bytes_a_letter_is_told(ingest):
    with pytest.raises(InvalidInputError, match="is UTF-16"):
        ingest("a,b\n1,2\n".encode("utf-16"))


@pytest.mark.parametrize("text", ["a,b\n", "a,b"])
def test_a_file_of_names_alone_has_no_rows(ingest, text):
    with pytest.raises(InvalidInputError, match="no rows"):
        ingest(text)


# ---- A6: text stays text, numbers are exact, types come from the schema


def test_times_stay_the_text_that_they_are(ingest):
    times = ["2024-01-01T00:00:00+02:00", "2024-01-01 12:00:00", "2024-01-01"]

    for time in (*times, "12:30:00"):
        ds = ingest(f"t,n\n{time},1\n")

        assert ds.schema["t"] == tl.Text()
        assert ds["t"][:] == [time]


@pytest.mark.parametrize("code", ["0x1A", "+4930123456", "-0X1f", "007"])
def test_codes_that_a_parser_takes_for_numbers_stay_text(ingest, code):
    assert ingest(f"x\n{code}\n12\n")["x"][:] == [code, "12"]
    assert ingest(f"x\n{code}\n", schema={"x": "str"})["x"][:] == [code]


@pytest.mark.parametrize("middle", ["0x1A", "+4930123456", "007"])
def test_codes_are_refused_in_the_middle_of_a_file_and_left_out_each(ingest, monkeypatch, middle):
    monkeypatch.setattr(csv_records, "PIECE_NBYTES", 64)
    lines = [str(at) for at in range(100)]
    lines[50] = middle
    text = "\n".join(["x", *lines])

    with pytest.raises(InvalidInputError, match=r"(?s)line 52 of .*, column 'x'.*tl.Text\(\)"):
        ingest(text)

    ds = ingest(text, on_error="skip")
    assert ds["x"][:].tolist() == [at for at in range(100) if at != 50]


def test_a_number_beyond_float64_is_refused_and_infinity_is_a_number(ingest):
    with pytest.raises(
        InvalidInputError, match=r"line 3 of .*column 'x' has '1e400', which is bey"
    ):
        ingest("x\n1.5\n1e400\n")

    ds = ingest("x\n1.5\n1e400\n-inf\nInfinity\n", on_error="skip")
    assert ds["x"][:].tolist() == [1.5, -np.inf, np.inf]
    with pytest.raises(InvalidInputError, match=r"line 2 of .*become infinite"):
        ingest("x\n1e39\n", schema={"x": "float32"})


def test_truth_values_are_words_and_1_and_0_only_where_the_schema_says_bool(ingest):
    assert ingest("x\ntrue\nFALSE\n")["x"][:].tolist() == [True, False]
    assert ingest("x\ntrue\n0\n")["x"][:] == ["true", "0"]
    assert ingest("x\ntrue\n0\n", schema={"x": "bool"})["x"][:].tolist() == [True, False]


def test_cells_are_values_of_the_types_that_the_schema_says(ingest):
    schema = {
        "label": tl.ClassLabel(["cat", "dog"]),
        "digit": tl.ClassLabel(["1", "0"]),
        "at": tl.Timestamp("ms", tz="Europe/Berlin", nullable=True),
        "day": tl.Timestamp("s"),
        "meta": tl.Json(nullable=True),
        "id": tl.Uuid(),
        "half": "float16",
        "note": tl.Text(nullable=True),
    }
    uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    cells = ["dog", "1", "2024-01-01T00:00:00.5+02:00", "2024-02-29", '{"a": [1, null]}', uuid]

    ds = ingest(
        written([list(schema), [*cells, "0.5", "x"]])
        + f'0,0,,2024-02-29,,{uuid},-1,\n1,1,,2024-02-29,"""text""",{uuid},2,""\n',
        schema=schema,
    )

    assert dict(ds.schema) == {name: as_type(one) for name, one in schema.items()}
    assert [ds["label"].names[code] for code in ds["label"][:]] == ["dog", "cat", "dog"]
    assert [ds["digit"].names[code] for code in ds["digit"][:]] == ["1", "0", "1"]
    assert [row["at"] and row["at"].isoformat() for row in ds] == [
        "2023-12-31T23:00:00.500000+01:00",
        None,
        None,
    ]
    assert [row["meta"] for row in ds] == [{"a": [1, None]}, None, "text"]
    assert ds["half"][:].tolist() == [0.5, -1, 2]
    assert [row["note"] for row in ds] == ["x", None, ""]


def test_a_column_without_values_is_null_whatever_comes_in_the_middle(ingest, monkeypatch):
    monkeypatch.setattr(csv_records, "PIECE_NBYTES", 32)
    lines = [f"{at}," for at in range(60)]
    lines[30] = "30,007"

    ds = ingest("\n".join(["n,late", *lines]))

    assert ds.schema["late"] == tl.Text(nullable=True)
    assert [row["late"] for row in ds if row["late"] is not None] == ["007"]


# ---- A7: a bad record is refused alone


def test_bad_cells_are_left_out_each_by_line_and_column(ingest):
    text = 'n,t\n1,"a\nb"\nabc,x\n3,y,z\n\n4,"w"\n300,v\n"",u\n'

    ds = ingest(text, schema={"n": "uint8", "t": "str"}, on_error="quarantine")

    assert ds["n"][:].tolist() == [1, 4]
    assert ds["t"][:] == ["a\nb", "w"]
    found = [(one.item.split(" of ")[0], one.reason) for one in ds.ingest_report.skipped]
    assert found[:3] == [
        ("line 4", "column 'n': 'abc' is not a value of Scalar(uint8)"),
        ("line 5", "3 values for 2 columns: '3,y,z'"),
        ("line 8", "column 'n': '300' is not a value of Scalar(uint8)"),
    ]
    assert found[3][0] == "line 9"
    assert [one.tensor for one in ds.ingest_report.skipped][:3] == ["n", None, "n"]
    held = tl.open(ds.ingest_report.quarantine)
    assert [row["values"]["line"] for row in held] == ["abc,x", "3,y,z", "300,v", '"",u']
    with pytest.raises(InvalidInputError, match=r"line 4 of .*, column 'n': 'abc'"):
        ingest(text, schema={"n": "uint8", "t": "str"})


def test_cells_that_a_type_refuses_are_left_out_each(ingest, monkeypatch):
    monkeypatch.setattr(csv_records, "PIECE_NBYTES", 40)
    rows = [["cat", '{"a":1}', "2024-01-01"] for _ in range(40)]
    rows[7][0] = "bird"
    rows[20][1] = "{"
    rows[33][2] = "yesterday"
    schema = {"l": tl.ClassLabel(["cat"]), "j": tl.Json(), "t": tl.Timestamp()}

    ds = ingest(written([["l", "j", "t"], *rows]), schema=schema, on_error="skip")

    assert len(ds) == 37
    lines = sorted(int(one.item.split()[1]) for one in ds.ingest_report.skipped)
    assert lines == [9, 22, 35]
    reasons = " ".join(one.reason for one in ds.ingest_report.skipped)
    assert "'l' has no class 'bird'" in reasons
    assert "column 'j': '{' is not JSON" in reasons
    assert "'t' expects" in reasons


def test_bytes_of_another_encoding_are_left_out_by_their_line(ingest):
    ds = ingest(b"n,t\n1,a\n2,\xfc\n3,b\n", on_error="quarantine")

    assert ds["n"][:].tolist() == [1, 3]
    (skipped,) = ds.ingest_report.skipped
    assert skipped.item.startswith("line 3 of ")
    assert tl.open(ds.ingest_report.quarantine)[0]["content"] == b"2,\xfc\n"


@pytest.mark.parametrize("size", [4, 64])
def test_a_value_that_nothing_closes_is_left_out_with_its_line_alone(ingest, monkeypatch, size):
    monkeypatch.setattr(csv_records, "PIECE_NBYTES", size)
    text = 'n,t\n1,"a\nb"\n2,x\n3,"o\np","open ""w""\n4,""\n5,z\n'

    with pytest.raises(InvalidInputError, match=r"line 6 of a\.csv: the quote at byte 24 opens"):
        ingest(text)

    ds = ingest(text, on_error="quarantine")
    assert [(row["n"], row["t"]) for row in ds] == [(1, "a\nb"), (2, "x"), (4, ""), (5, "z")]
    (skipped,) = ds.ingest_report.skipped
    assert skipped.item == "line 6 of a.csv"
    assert skipped.reason.startswith("the quote at byte 24 opens a value that nothing closes: '3,")
    assert tl.open(ds.ingest_report.quarantine)["item"][:] == ["line 6 of a.csv"]


# ---- NULL and empty text: one rule, with DuckDB as the judge


def test_a_blank_line_is_an_empty_value_of_the_only_column(ingest):
    schema = {"x": tl.Scalar("int64", nullable=True)}

    for options in ({}, {"schema": schema}):
        assert [row["x"] for row in ingest("x\n1\n\n3\n\n", **options)] == [1, None, 3, None]
    assert [row["x"] for row in ingest("x\r\na\r\n\r\nb\r\n")] == ["a", None, "b"]
    assert ingest("x\na\n\n", schema={"x": tl.Text()})["x"][:] == ["a", ""]
    assert len(ingest("x\n1\n\n3\n\n", names=["x"], schema={"x": "str"})) == 5
    with pytest.raises(InvalidInputError, match=r"line 3 of a\.csv.*'x'"):
        ingest("x\n1\n\n3\n", schema={"x": "int64"})


def test_blank_lines_are_skipped_where_there_are_several_columns(ingest):
    ds = ingest("n,t\n\n1,a\n\n2,b\n\n")

    assert [(row["n"], row["t"]) for row in ds] == [(1, "a"), (2, "b")]


CELLS = st.sampled_from(["", '""', "a", '"a"', "1", '"x\ny"', "-2.5", "NA", '" "'])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 2).flatmap(
        lambda width: st.lists(
            st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=6
        )
    ),
    st.sampled_from([8, 1 << 20]),
)
def test_without_a_schema_null_and_empty_text_are_duckdbs(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    names = ["a", "b"][: len(rows[0])]
    lines = [",".join(row) for row in [names, ["text"] * len(names), *rows, names]]
    path.write_text("\n".join(lines) + "\n")
    url = f"memory://{path.parent.name}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "PIECE_NBYTES", size)
        ds = tl.ingest.csv(path, url)
    read = [tuple(row[name] for name in names) for row in ds]
    tl.delete(url, confirm=url)

    types = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    how = f"header=true, delim=',', quote='\"', columns={{{types}}}, allow_quoted_nulls=false"
    assert read == duckdb.sql(f"FROM read_csv('{path}', {how}, auto_detect=false)").fetchall()


@pytest.mark.parametrize("values", [["a", None, "", "b", None], [None, None], [""]])
def test_text_written_by_to_csv_comes_back_without_a_schema(ingest, tmp_path, values):
    for columns in ({"s": tl.Text(nullable=True)}, {"s": tl.Text(nullable=True), "id": "int64"}):
        with tl.create(f"memory://csv-out-{tmp_path.name}", columns) as ds:
            rows = {"s": values, "id": range(len(values))}
            ds.extend({name: rows[name] for name in columns})
            ds.commit("rows")
            ds.to_csv(tmp_path / "out.csv", overwrite=True)
        tl.delete(ds.url, confirm=ds.url)

        assert [row["s"] for row in ingest((tmp_path / "out.csv").read_bytes())] == values


def test_numbers_written_by_to_csv_come_back_without_a_schema(ingest, tmp_path):
    url = f"memory://csv-out-{tmp_path.name}"
    for name, kind, values in [
        ("i", "int64", [None, 1, None, 2, None]),
        ("f", "float64", [0.5, None]),
        ("b", "bool", [None, True, False]),
    ]:
        made = tl.Bool(nullable=True) if kind == "bool" else tl.Scalar(kind, nullable=True)
        with tl.create(url, {name: made}) as ds:
            ds.extend({name: values})
            ds.commit("rows")
            ds.to_csv(tmp_path / "out.csv", overwrite=True)
        tl.delete(url, confirm=url)

        again = ingest((tmp_path / "out.csv").read_bytes())

        assert [row[name] for row in again] == values
        assert again.schema[name] == made


def test_compression_that_is_not_known_is_named(tmp_path):
    path = tmp_path / "x.csv.xz"
    path.write_bytes(lzma.compress(b"x\n1\n"))

    with pytest.raises(InvalidInputError, match=r"is compressed with xz\ndecompress it"):
        tl.ingest.csv(path, tmp_path / "d.tl")
