"""The README's table is what the page of figures says, and says where others are faster."""

import pytest

from benchmarks import comparison

PAGE = """# Benchmarks

## open-local
Opening. 3 rounds.

| contender | ms | also |
| --- | --- | --- |
| tensorlake | 2 (1–3) |  |
| Lance | 0.5 (0.4–0.6) | first time ms 3 |
| Deep Lake | 30 (29–31) |  |
| MDS | | fails: IndexError |

## array-raw
Arrays. 3 rounds.

| contender | MB/s | also |
| --- | --- | --- |
| tensorlake, no fsync | 1,970 (1–2) | read MB/s 3,639 (3–4); stored MB 269 |
| Zarr | 468 (4–6) | read MB/s 1,160 (1–1) |

| ratio | measured | goal | |
| --- | --- | --- | --- |
| tensorlake, no fsync ÷ Zarr | 4.1 (2.85–4.41) | ≥ 1 | reached |
| tensorlake, no fsync ÷ Zarr, reading | 3.14 (2.9–3.32) | ≥ 1 | reached |
"""


@pytest.fixture
def table():
    lines = comparison.comparison(PAGE).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def test_the_readme_has_the_table_of_the_page():
    readme = comparison.README.read_text(encoding="utf-8")
    page = comparison.PAGE.read_text(encoding="utf-8")

    # where this fails: python -m benchmarks.comparison
    assert readme == comparison.with_comparison(readme, page)


def test_less_time_is_faster_and_where_others_are_it_is_bold(table):
    (opening,) = (row for row in table if "open-local" in row[""])

    assert opening["tensorlake"] == "2 ms"
    assert (opening["Lance"], opening["Deep Lake"]) == ("**0.25**", "15")
    assert opening["MDS"] == opening["Grain"] == ""


def test_a_ratio_of_rounds_goes_before_one_of_medians(table):
    written, read = (row for row in table if "array-raw" in row[""])

    assert (written["tensorlake"], written["others"]) == ("1,970 MB/s", "Zarr 4.1")
    assert (read["tensorlake"], read["others"]) == ("3,639 MB/s", "Zarr 3.1")


def test_a_benchmark_that_the_page_lacks_has_no_row(table):
    assert len(table) == 3


def test_every_row_names_a_benchmark_and_a_contender_that_there_are():
    from benchmarks.__main__ import ALL

    known = {one.name: {each.name for each in one.contenders} for one in ALL}

    assert {row.benchmark for row in comparison.COMPARED} <= known.keys()
    for row in comparison.COMPARED:
        named = {row.ours, *row.named.values(), *row.others.values()}
        assert named <= known[row.benchmark], row.benchmark
