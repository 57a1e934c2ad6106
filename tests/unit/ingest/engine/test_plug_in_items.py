"""Items of an importer as a plug-in writes it: those that cannot be read, and names that repeat."""

from __future__ import annotations

import pytest

import tensorlake as tl
from tensorlake.ingest.engine import Source, run_ingest, shows_options


@shows_options
def lines(src, dst, **options):
    """Ingest lines such as "7 seven", as docs/how-to/add-a-format.md does."""
    rows = [line.split(" ", 1) for line in src]

    def load(items):
        return {"number": [int(number) for number, _ in items], "name": [name for _, name in items]}

    source = Source(
        kind="lines",
        schema={"number": "int64", "name": "str"},
        items=rows,
        sizes=[len(name) + 8 for _, name in rows],
        name=lambda row: f"number={row[0]}",
        stamp=lambda row: row[1],
        load=load,
        unit="row",
        content=(),
        where="lines.txt",
    )
    return run_ingest(source, dst, **options)


def test_an_item_that_cannot_be_parsed_is_named_or_left_out():
    rows = ["7 seven", "x nine", "8 eight"]

    with pytest.raises(tl.InvalidInputError, match=r"number=x: invalid literal for int\(\)"):
        lines(rows, "memory://plug-in-items-raise")
    ds = lines(rows, "memory://plug-in-items-skip", on_error="skip")

    assert ds["name"][:] == ["seven", "eight"]
    assert [one.item for one in ds.ingest_report.skipped] == ["number=x"]


def test_a_name_that_repeats_is_numbered_in_its_source():
    ds = lines(["9 a", "9 b", "8 c"], "memory://plug-in-items-twice")

    sources = ds.query("SELECT _source")["_source"][:]

    assert sources == ["number=9", "number=9#2", "number=8"]
    assert lines(["9 a", "9 B"], "memory://plug-in-items-twice").ingest_report.updated == 1
