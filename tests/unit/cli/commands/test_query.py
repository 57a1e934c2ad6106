"""query: asking in TQL, and how rows are written."""

import csv
import io
import json

import pyarrow.csv
import pytest

import tensorlake as tl


def test_query_prints_the_rows_it_selects(run, pets):
    shown = run("query", pets, "SELECT label, score WHERE score > 0.3")

    assert shown.code == 0
    assert shown.lines[0].split() == ["label", "score"]
    assert [line.split() for line in shown.lines[1:]] == [["cat", "0.5"]]


def test_tables_show_no_control_characters_of_the_data(run, tmp_path):
    url, text = str(tmp_path / "hostile.tl"), "a\x1b[31mred\x9b0m\u202edna 日本"
    with tl.create(url, {"t": "str"}) as ds:
        ds.append({"t": text})
        ds.commit("one")

    shown = run("query", url, 'SELECT t, t AS "x\x1b]0;title"')

    assert not {"\x1b", "\x9b", "\u202e"} & set(shown.out)
    assert "a\ufffd[31mred\ufffd0m\ufffddna 日本" in shown.out
    assert json.loads(run("query", url, "SELECT t", "--json").out)[0]["t"] == text


def test_query_counts_without_printing_rows(run, pets):
    assert run("query", pets, "WHERE label = 'dog'", "--count").out == "2\n"
    counted = run("query", pets, "WHERE label = 'dog'", "--count", "--json")
    assert json.loads(counted.out) == {"count": 2}


def test_query_takes_parameters_as_json_or_text(run, pets):
    by_text = run("query", pets, "WHERE label = $name", "--param", "name=dog", "--count")
    by_number = run("query", pets, "WHERE score < $limit", "--param", "limit=0.3", "--count")

    assert by_text.out == "2\n"
    assert by_number.out == "1\n"


def test_query_takes_each_parameter_once(run, pets):
    shown = run("query", pets, "WHERE score < $g", "--param", "g=1", "--param", "g=2")

    assert shown.code == 2
    assert "--param gives 'g' twice" in shown.err


def test_query_saves_its_rows_as_a_view(run, pets):
    saved = run("query", pets, "WHERE label = 'dog'", "--save", "dogs", "--count")

    assert saved.out == "2\n"
    assert tl.open(pets).views["dogs"].rows.tolist() == [1, 2]
    taken = run("query", pets, "WHERE label = 'cat'", "--save", "dogs")
    assert taken.code == 1
    assert "other rows or columns" in taken.err


def test_query_reads_an_older_version(run, pets):
    assert run("query", pets, "WHERE label = 'dog'", "--at", "main@1", "--count").out == "1\n"


def test_query_shows_computed_columns_beside_stored_ones(run, pets):
    shown = run("query", pets, "SELECT label, score * 2 AS twice WHERE score = 0.25", "--json")

    assert json.loads(shown.out) == [{"label": "dog", "twice": 0.5}]


def test_query_writes_csv_to_a_file(run, pets, tmp_path):
    target = tmp_path / "rows.csv"

    shown = run("query", pets, "SELECT label, note", "--format", "csv", "-o", str(target))

    assert shown.out == ""
    rows = list(csv.reader(io.StringIO(target.read_text(encoding="utf-8"))))
    assert rows == [["label", "note"], ["cat", "first"], ["dog", ""], ["dog", "third"]]


def test_query_writes_csv_that_keeps_null_and_an_empty_string_apart(run, tmp_path):
    odd = ["", None, 'a "b", c', "two\nlines", " padded ", "plain"]
    url = str(tmp_path / "odd.tl")
    with tl.create(url, {"note": tl.Text(nullable=True), "good": "bool"}) as ds:
        ds.extend({"note": odd, "good": [True, False] * 3})
        ds.commit("odd")
    null = pyarrow.csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )

    read = {}
    for columns in ("note, good", "note"):
        target = tmp_path / f"{len(columns)}.csv"
        assert run("query", url, f"SELECT {columns}", "-o", str(target)).code == 0
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        read[columns] = pyarrow.csv.read_csv(target, parse_options=parse, convert_options=null)

    assert read["note, good"].to_pydict() == {"note": odd, "good": [True, False] * 3}
    assert read["note"].to_pydict() == {"note": odd}


def test_query_writes_one_json_document_a_line(run, pets):
    shown = run("query", pets, "SELECT label", "--format", "jsonl")

    assert [json.loads(line)["label"] for line in shown.lines] == ["cat", "dog", "dog"]


def test_query_shows_at_most_n_rows_and_says_how_many_more_there_are(run, pets):
    shown = run("query", pets, "SELECT label", "-n", "1")

    assert len(shown.lines) == 2
    assert "2 more rows" in shown.err


def test_query_reads_the_text_from_a_file(run, pets, tmp_path):
    text = tmp_path / "dogs.tql"
    text.write_text("WHERE label = 'dog'", encoding="utf-8")

    assert run("query", pets, "-f", str(text), "--count").out == "2\n"


def test_query_refuses_a_parameter_without_a_name(run, pets):
    refused = run("query", pets, "WHERE label = 'dog'", "--param", "dog")

    assert refused.code == 2
    assert "NAME=VALUE" in refused.err


def test_query_points_at_the_mistake(run, pets):
    failed = run("query", pets, "WHERE lable = 'dog'")

    assert failed.code == 1
    assert failed.err.startswith("QueryNameError [query-name]")
    assert "^^^^^" in failed.err
    assert failed.out == ""


def test_only_a_table_is_cut_to_twenty_rows(run, pets):
    with tl.open(pets) as ds:
        for _ in range(4):
            ds.extend(ds)
        ds.commit("48 rows")

    assert len(run("query", pets, "SELECT label").lines) == 21
    assert len(run("query", pets, "SELECT label", "--jsonl").lines) == 48
    assert len(run("query", pets, "SELECT label", "--jsonl", "-n", "5").lines) == 5


def test_query_writes_arrow_and_parquet_files(run, pets, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    arrow, table = tmp_path / "rows.arrow", tmp_path / "rows.parquet"
    for target, kind in ((arrow, "arrow"), (table, "parquet")):
        done = run("query", pets, "SELECT label, note", "--format", kind, "-o", str(target))
        assert (done.code, done.out) == (0, "")

    rows = pa.ipc.open_stream(arrow).read_all().to_pylist()
    assert rows == parquet.read_table(table).to_pylist()
    assert [row["note"] for row in rows] == ["first", None, "third"]
    assert [row["label"] for row in rows] == ["cat", "dog", "dog"]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("rows.parquet", b"PAR1"),
        ("rows.CSV", b"label"),
        ("rows.json", b"["),
        ("rows.jsonl", b'{"label"'),
        ("rows.arrow", b"\xff\xff\xff\xff"),
        ("rows", b"label\n"),
    ],
)
def test_an_output_file_has_the_format_of_its_ending(run, pets, tmp_path, name, start):
    target = tmp_path / name

    done = run("query", pets, "SELECT label", "-o", str(target))

    assert (done.code, done.out) == (0, "")
    assert target.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("name", "flags", "reason"),
    [
        ("rows.xyz", [], "'.xyz' is the ending of no format; use one of .csv, .json"),
        ("rows.csv", ["--format", "parquet"], "is named as csv, but parquet was asked for"),
        ("rows.json", ["--jsonl"], "is named as json, but jsonl was asked for"),
        ("missing/rows.csv", [], "there is no folder"),
        (".", [], "is a folder"),
    ],
)
def test_an_output_file_that_cannot_be_meant_is_wrong_usage(
    run, pets, tmp_path, name, flags, reason
):
    before = sorted(tmp_path.iterdir())

    refused = run("query", pets, "SELECT label", "-o", str(tmp_path / name), *flags)

    assert refused.code == 2
    assert reason in refused.err
    assert sorted(tmp_path.iterdir()) == before


def test_parquet_without_a_file_is_wrong_usage(run, pets):
    refused = run("query", pets, "SELECT label", "--format", "parquet")

    assert refused.code == 2
    assert "give -o FILE" in refused.err


def test_a_query_file_that_is_not_there_is_wrong_usage(run, pets, tmp_path):
    refused = run("query", pets, "-f", str(tmp_path / "none.tql"))

    assert refused.code == 2
    assert "none.tql" in refused.err


def test_two_formats_at_once_are_wrong_usage(run, pets):
    assert run("query", pets, "SELECT label", "--json", "--format", "csv").code == 2


def test_a_plan_is_told_as_json(run, pets):
    plain = run("query", pets, "WHERE label = 'cat'", "--explain")

    asked = run("query", pets, "WHERE label = 'cat'", "--explain", "--json")

    assert json.loads(asked.out) == {"plan": plain.out.removesuffix("\n")}


@pytest.mark.parametrize("before", ["", "\n-- how is it read?\n", " "])
def test_an_explain_statement_keeps_the_indentation_of_its_plan(run, pets, before):
    plain = run("query", pets, "WHERE label = 'cat'", "--explain")

    asked = run("query", pets, f"{before}explain WHERE label = 'cat'")

    assert asked.out == plain.out
    assert "\n  " in asked.out
    assert run("query", pets, "EXPLAIN WHERE label = 'cat'", "-n", "1").lines == plain.lines[:1]
