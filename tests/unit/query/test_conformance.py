"""Deep Lake's language, item by item: each runs, answers as recorded, and stands on the page.

`conformance/items.txt` has one item a line: number, what it is, our spelling of the example, what
Deep Lake 4.7.4 does with its own (as its behaviour was recorded; no part of the test). Beside it,
`answers.json` has what ours answers over the four rows of docs/reference/tql.md. Made again by
`python -m tests.unit.query.test_conformance`, which also writes the page; read the difference.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryError, compile_query, user_function
from tests.unit.query.array_source import ArraySource, samples
from tests.unit.query.test_reference import page_source

HERE = Path(__file__).parent / "conformance"
PAGE = Path(__file__).resolve().parents[3] / "docs/reference/tql-conformance.md"
DAY = 86_400
FUNCTIONS = {
    "NEXT_NUMBER": user_function(
        "NEXT_NUMBER", lambda x: x + 1, dtype="int64", shape=(), vectorized=True
    )
}
HEAD = """# Conformance of TQL

Every item of Deep Lake's query language, in our spelling, over the four rows of
[the reference](tql.md) (with two tensors more: `taken`, times, and `camera/left`, numbers). What
ours answers is checked by a test; this page is written by it. The last column is what Deep Lake
4.7.4 does with its own spelling of the same, as it was recorded beside its source.

| # | item | query | answer | Deep Lake 4.7.4 |
|---|---|---|---|---|
"""


class Versions:
    """A source that has one version."""

    def __init__(self, source):
        self.source = source

    def table(self, name, version):
        assert name == "this"
        assert version in {None, ("VERSION", "main@1")}
        return self.source


def source():
    columns = dict(page_source().columns)
    taken = ColumnType("number", "int64", (), timestamp_unit="s")
    columns["taken"] = (taken, [day * DAY for day in (19_723, 19_722, 20_089, 20_454)])
    columns["camera/left"] = (ColumnType("number", "int64", ()), [1, 2, 3, 1])
    return ArraySource(columns)


def items():
    for line in (HERE / "items.txt").read_text(encoding="utf-8").splitlines():
        number, what, query, theirs = re.split(r"(?<!\\)\|", line)
        yield int(number), *(each.replace("\\|", "|") for each in (what, query, theirs))


def answer(query):
    """Return what a query gives, as a short text."""
    here = source()
    try:
        compiled = compile_query(
            query, here.schema, functions=FUNCTIONS, tables=Versions(here), seed=1
        )
        result = compiled.run(here)
    except QueryError as error:
        message, *_, marker = str(error).splitlines()
        return f"{message.split(': ', 1)[1]}: {marker.strip(' ^')}".strip(": ")
    shown = {name: rounded(samples(batch)) for name, batch in result.columns.items()}
    rows = "" if result.rows is None else f"rows {', '.join(map(str, result.rows.tolist()))}"
    columns = json.dumps(shown, ensure_ascii=False) if shown else ""
    return " ".join(part for part in (rows, columns) if part).strip()


def rounded(value):
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(np.round(value, 4)) if isinstance(value, float) else value


def page(answers):
    def cell(text):
        return text.replace("|", "\\|")

    lines = [
        f"| {number} | {cell(what)} | `{cell(query)}` | `{cell(answers[str(number)])}` "
        f"| {cell(theirs)} |"
        for number, what, query, theirs in items()
    ]
    return HEAD + "\n".join(lines) + "\n"


def recorded():
    return json.loads((HERE / "answers.json").read_text(encoding="utf-8"))


def test_every_item_is_there():
    assert [number for number, *_ in items()] == list(range(1, 77))


@pytest.mark.parametrize(("number", "query"), [(n, query) for n, _, query, _ in items()])
def test_an_item_answers_as_recorded(number, query):
    assert answer(query) == recorded()[str(number)]


def test_the_page_is_that_of_the_items():
    assert PAGE.read_text(encoding="utf-8") == page(recorded())


if __name__ == "__main__":
    found = {str(number): answer(query) for number, _, query, _ in items()}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (HERE / "answers.json").write_text(text, encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")
