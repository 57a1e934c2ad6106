"""Tables without a key: rows are added at the end, and nothing else may have changed."""

import gzip
import itertools
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tensorlake.dataset.sync import ledger
from tensorlake.errors import InvalidInputError

_clock = itertools.count(1_700_000_000)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    now = next(_clock)
    os.utime(path, (now, now))
    return path


def counts(ds):
    report = ds.ingest_report
    return report.added, report.updated, report.unchanged


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_lines_added_to_a_file_are_appended_each_time(tmp_path, kind, end):
    head = "x,name\n" if kind == "csv" else ""
    line = "{},n{}" if kind == "csv" else '{{"x": {}, "name": "n{}"}}'
    path, dst = tmp_path / f"x.{kind}", tmp_path / "d.tl"
    ingest = getattr(tl.ingest, kind)
    between = end or "\n"

    for count in (2, 3, 3, 7):
        lines = [line.format(at, at) for at in range(count)]
        write(path, head + between.join(lines) + end)
        ds = ingest(path, dst)

        assert ds["x"][:].tolist() == [*range(count)]
        assert ds["name"][:] == [f"n{at}" for at in range(count)]
    assert counts(ds) == (4, 0, 3)
    assert not ingest(path, dst).ingest_report.commits


def test_a_file_that_was_only_touched_is_unchanged_and_read_once(tmp_path):
    path, dst = tmp_path / "x.csv", tmp_path / "d.tl"
    tl.ingest.csv(write(path, "x\n1\n2\n"), dst)

    touched = tl.ingest.csv(write(path, "x\n1\n2\n"), dst)

    assert counts(touched) == (0, 0, 2)
    assert not tl.ingest.csv(path, dst).ingest_report.commits


def test_a_line_break_added_at_the_end_is_no_row(tmp_path):
    path, dst = tmp_path / "x.csv", tmp_path / "d.tl"
    tl.ingest.csv(write(path, "x,y\n1,1"), dst)

    assert counts(tl.ingest.csv(write(path, "x,y\n1,1\n"), dst)) == (0, 0, 1)
    assert counts(tl.ingest.csv(write(path, "x,y\n1,1\n2,2\n"), dst)) == (1, 0, 1)


@pytest.mark.parametrize("content", ["x\n1\n3\n", "x\n2\n1\n2\n", "x\n1\n", "x\n1\n22\n"])
def test_any_other_change_is_refused_and_changes_nothing(tmp_path, content):
    path, dst = tmp_path / "x.csv", tmp_path / "d.tl"
    tl.ingest.csv(write(path, "x\n1\n2\n"), dst)
    write(path, content)

    with pytest.raises(InvalidInputError, match=r"known by position.*\n.*key='id'"):
        tl.ingest.csv(path, dst)

    assert tl.open(dst)["x"][:].tolist() == [1, 2]


def test_files_of_one_name_in_several_folders_are_told_apart(tmp_path):
    dst = tmp_path / "d.tl"
    for day in range(3):
        out = pa.BufferOutputStream()
        pq.write_table(pa.table({"x": [day, day + 1]}), out)
        write(tmp_path / f"d/day={day}/part-0.parquet", out.getvalue().to_pybytes())
        ds = tl.ingest.parquet(tmp_path / "d", dst, commit_every=1)

    assert ds["x"][:].tolist() == [0, 1, 1, 2, 2, 3]
    assert counts(ds) == (2, 0, 4)
    assert not tl.ingest.parquet(tmp_path / "d", dst).ingest_report.commits


def test_row_groups_added_to_a_file_are_appended(tmp_path):
    path, dst = tmp_path / "x.parquet", tmp_path / "d.tl"
    for count in (4, 6):
        pq.write_table(pa.table({"x": [*range(count)]}), path, row_group_size=2)
        now = next(_clock)
        os.utime(path, (now, now))
        ds = tl.ingest.parquet(path, dst)

    assert ds["x"][:].tolist() == [*range(6)]
    assert counts(ds) == (2, 0, 4)


@pytest.mark.parametrize("kind", ["arrow", "huggingface"])
def test_a_table_that_grew_is_appended_and_one_that_changed_is_refused(tmp_path, kind):
    dst = tmp_path / "d.tl"

    def ingest(values):
        table = pa.table({"x": values, "name": [f"n{one}" for one in values]})
        if kind == "arrow":
            return tl.ingest.arrow(table, dst)
        return tl.ingest.huggingface(pytest.importorskip("datasets").Dataset(table), dst)

    ingest([1, 2, 3])
    same, grown = counts(ingest([1, 2, 3])), ingest([1, 2, 3, 4, 5])

    assert same == (0, 0, 3)
    assert counts(grown) == (2, 0, 3)
    assert grown["x"][:].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(InvalidInputError, match="known by position"):
        ingest([1, 7, 3, 4, 5])


def test_a_corrected_row_stays_corrected_when_rows_are_added(tmp_path):
    path, dst = tmp_path / "x.csv", tmp_path / "d.tl"
    with tl.ingest.csv(write(path, "x\n1\n2\n"), dst) as ds:
        ds["x"][0] = 9
        ds.delete(1)
        ds.commit()

    ds = tl.ingest.csv(write(path, "x\n1\n2\n3\n"), dst)

    assert ds["x"][:].tolist() == [9, 3]


def test_growth_goes_on_after_a_run_that_left_rows_out(tmp_path):
    path, dst = tmp_path / "x.csv", tmp_path / "d.tl"
    tl.ingest.csv(write(path, "x,y\n1,1\nbad\n"), dst, on_error="skip")

    ds = tl.ingest.csv(path, dst, on_error="skip")

    assert (len(ds), ds.ingest_report.rejected) == (1, 1)
    with pytest.raises(InvalidInputError, match="known by position"):
        tl.ingest.csv(write(path, "x,y\n1,1\nbad\n2,2\n"), dst, on_error="skip")


def gz_csv(path, values):
    text = "x,name\n" + "".join(f"{one},n{one}\n" for one in values)
    write(path, gzip.compress(text.encode(), mtime=0))


def row_group(path, values):
    table = pa.table({"x": values, "name": [f"n{one}" for one in values]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    write(path, sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("kind", "name", "make"),
    [("csv", "x.csv.gz", gz_csv), ("parquet", "x.parquet", row_group)],
)
def test_rows_added_within_a_piece_are_appended_each_time(tmp_path, kind, name, make):
    """A compressed file and a row group are read whole, however many rows they get."""
    path, dst = tmp_path / "in" / name, tmp_path / "d.tl"
    ingest = getattr(tl.ingest, kind)

    for count, added in [(2, 2), (3, 1), (3, 0), (7, 4), (8, 1)]:
        make(path, [*range(count)])
        ds = ingest(tmp_path / "in", dst)
        assert ds["x"][:].tolist() == [*range(count)]
        assert ds["name"][:] == [f"n{at}" for at in range(count)]
        assert counts(ds) == (added, 0, count - added)
    again = ingest(tmp_path / "in", dst)
    assert (again.ingest_report.commits, counts(again)) == ([], (0, 0, 8))
    assert counts(ingest(tmp_path / "in", dst, verify=True)) == (0, 0, 8)
    with pytest.raises(InvalidInputError, match="already in"):
        ingest(tmp_path / "in", dst, mode="append")
    make(path.with_name(f"y{name[1:]}"), [20, 21])
    make(path, [*range(8)])
    assert ingest(tmp_path / "in", dst)["x"][:].tolist() == [*range(8), 20, 21]
    make(path.with_name(f"y{name[1:]}"), [20, 21, 22])
    ds = ingest(tmp_path / "in", dst)
    assert (ds["x"][:].tolist(), counts(ds)) == ([*range(8), 20, 21, 22], (1, 0, 10))

    make(path, [*range(9)])  # not at the end of the source: another file follows
    with pytest.raises(InvalidInputError, match="changed in"):
        ingest(tmp_path / "in", dst)
    make(path, [*range(7), 9])
    with pytest.raises(InvalidInputError, match="changed in"):
        ingest(tmp_path / "in", dst)


def test_compressed_json_lines_grow(tmp_path):
    path, dst = tmp_path / "x.jsonl.gz", tmp_path / "d.tl"

    for count in (2, 3, 7):
        lines = "".join(f'{{"x": {at}}}\n' for at in range(count))
        write(path, gzip.compress(lines.encode()))
        ds = tl.ingest.jsonl(path, dst)

        assert ds["x"][:].tolist() == [*range(count)]
    path.write_bytes(gzip.compress(b'{"x": 0}\n'))
    with pytest.raises(InvalidInputError, match="changed before its end"):
        tl.ingest.jsonl(path, dst)


def test_a_piece_that_grew_is_brought_in_after_a_kill(tmp_path):
    path, dst = tmp_path / "x.csv.gz", tmp_path / "d.tl"
    gz_csv(path, [0, 1])
    tl.ingest.csv(path, dst)
    text = "x,name\n0,n0\n1,n1\n2,n2\nthree,n3\n"
    write(path, gzip.compress(text.encode()))
    with pytest.raises(InvalidInputError, match="line 5 of x"):
        tl.ingest.csv(path, dst)
    gz_csv(path, [0, 1, 2, 3])

    assert tl.ingest.csv(path, dst)["x"][:].tolist() == [0, 1, 2, 3]


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "d.tl")


@pytest.fixture
def three_files(tmp_path):
    files = [tmp_path / f"{name}.csv" for name in "abc"]
    for number, file in enumerate(files):
        file.write_text(f"x\n{number}\n")
    return files


def test_files_that_are_there_are_not_appended_in_any_company(three_files, url):
    a, b, c = three_files
    tl.ingest.csv([a, b], url)

    for some in ([b], [b, c], [c, a], [b, a]):
        with pytest.raises(InvalidInputError, match="already in"):
            tl.ingest.csv(some, url, mode="append")
    ds = tl.ingest.csv([c], url, mode="append")

    assert ds["x"][:].tolist() == [0, 1, 2]


def test_a_file_that_another_source_has_is_not_added_to_the_first(three_files, url, tmp_path):
    a, b, c = three_files
    tl.ingest.csv([a, b], url)
    tl.ingest.csv([c], url, mode="append")
    d = tmp_path / "d.csv"
    d.write_text("x\n3\n")

    with pytest.raises(InvalidInputError, match=r"'c\.csv' .* from another source\n.*without it"):
        tl.ingest.csv([a, b, c, d], url)

    assert tl.ingest.csv([a, b, d], url)["x"][:].tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_files_are_known_after_they_grew_and_after_the_ledger_was_rewritten(
    three_files, url, monkeypatch
):
    monkeypatch.setattr(ledger, "MAX_CHUNKS", 2)
    a, b, _ = three_files
    tl.ingest.csv([a, b], url)
    for number in range(5):
        with b.open("a") as file:
            file.write(f"{number}\n")
        tl.ingest.csv([a, b], url)

    with pytest.raises(InvalidInputError, match="already in"):
        tl.ingest.csv([b], url, mode="append")
    assert tl.open(url)["x"][:].tolist() == [0, 1, *range(5)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "arrow"])
def test_an_appended_source_that_grew_is_brought_up_to_date(tmp_path, url, kind):
    def ingest(name, rows, **options):
        path = tmp_path / f"{name}.{kind}"
        if kind == "arrow":
            return tl.ingest.arrow(pa.table({"x": rows}), url, **options)
        if kind == "parquet":
            pq.write_table(pa.table({"x": rows}), path)
        elif kind == "csv.gz":
            write(path, gzip.compress("\n".join(["x", *map(str, rows), ""]).encode()))
        elif kind == "csv":
            write(path, "\n".join(["x", *map(str, rows), ""]))
        else:
            write(path, "".join(f'{{"x": {row}}}\n' for row in rows))
        method = getattr(tl.ingest, kind.removesuffix(".gz"))
        return method(path, url, **options)

    ingest("first", [1, 2])
    with pytest.raises(InvalidInputError, match="already in"):
        ingest("first", [1, 2, 3], mode="append")
    ingest("second", [7, 8], mode="append")
    for last, added in ((9, 1), (9, 0), (11, 2)):
        ds = ingest("second", range(7, last + 1), mode="append")
        assert ds["x"][:].tolist() == [1, 2, *range(7, last + 1)]
        assert counts(ds) == (added, 0, last - 6 - added)
    daily = ingest("second", [4, 5, 6], mode="append")  # another file of the same name

    assert daily["x"][:].tolist() == [1, 2, *range(7, 12), 4, 5, 6]


def test_other_row_groups_of_the_same_rows_are_named(tmp_path, url):
    path, rows = tmp_path / "x.parquet", pa.table({"x": range(5)})
    pq.write_table(rows, path, row_group_size=3)
    tl.ingest.parquet(path, url)
    pq.write_table(rows, path)

    with pytest.raises(InvalidInputError, match="or has other files or row groups: rows without"):
        tl.ingest.parquet(path, url)
