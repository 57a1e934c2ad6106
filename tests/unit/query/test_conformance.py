"""Deep Lake's language and ours, line by line: each runs, answers as recorded, is on the page.

    conformance/items.txt     number|what|query|Deep Lake's spelling     the 76 items
    conformance/language.txt  group|what|query|Deep Lake's spelling      every construct of ours
    conformance/answers.json  what ours answers, over the four rows of docs/reference/tql.md
    conformance/deeplake.json what Deep Lake 4.7.4 answers, written by record_deeplake.py

An empty spelling is that of ours, `-` means that there is none. Answers and page are made again by
`python -m tests.unit.query.test_conformance`; read the difference.
"""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryError, compile_query, user_function
from tests.unit.query.array_source import ArraySource, samples
from tests.unit.query.test_reference import page_source

HERE = Path(__file__).parent / "conformance"
PAGE = Path(__file__).resolve().parents[3] / "docs/reference/tql-conformance.md"
DAY = 86_400
PAPERS_ITEM = "54"
WITHOUT_NULL = [0, 1, 3]  # row 2 is the one that holds NULLs
NONE = "no spelling"
FUNCTIONS = {
    "NEXT_NUMBER": user_function(
        "NEXT_NUMBER", lambda x: x + 1, dtype="int64", shape=(), vectorized=True
    )
}
HEAD = """# Conformance of TQL

This page lists every item of Deep Lake's query language, and every construct of TQL, with its
result over the four rows of [the reference](tql.md) (with two additional tensors: `taken`,
timestamps, and `camera/left`, numbers). A test verifies our results and generates this page. The
last column is the result of Deep Lake {version} over the same rows, recorded by
`tests/unit/query/conformance/record_deeplake.py`: `same` if the results are equal, otherwise its
result, preceded by its spelling if that differs. Each query ran once, in a process that was killed
after {patience} seconds without a result. Row 2 contains NULLs; failed queries were repeated on the
other three rows, in non-nullable columns.

Of {count} queries {same} have the same result, {known} only without NULLs, {other} a different one,
{refused} are rejected, {hangs} never returned, {dies} crashed the process, and {none} cannot be
expressed. Queries that both reject count as the same; random samples differ by their nature.
"""
TABLE_HEAD = "\n| {} | item | query | result | Deep Lake |\n|---|---|---|---|---|\n"


class Versions:
    """A source that has one version."""

    def __init__(self, source):
        self.source = source

    def table(self, name, version):
        assert name == "this"
        assert version in {None, ("VERSION", "main@1")}
        return self.source


def source(rows=(0, 1, 2, 3)):
    columns = dict(page_source().columns)
    taken = ColumnType("number", "int64", (), timestamp_unit="s")
    columns["taken"] = (taken, [day * DAY for day in (19_723, 19_722, 20_089, 20_454)])
    columns["camera/left"] = (ColumnType("number", "int64", ()), [1, 2, 3, 1])
    return ArraySource(
        {name: (kind, [data[row] for row in rows]) for name, (kind, data) in columns.items()}
    )


def lines(name):
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        cells = [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
        key, what, query, theirs = cells
        yield key, what, query, theirs or query


def items():
    return list(lines("items.txt"))


def language():
    return list(lines("language.txt"))


def queries():
    return list(dict.fromkeys(query for _, _, query, _ in [*items(), *language()]))


def ask(query, here):
    """Return a query, compiled, and what it gives."""
    compiled = compile_query(query, here.schema, functions=FUNCTIONS, tables=Versions(here), seed=1)
    return compiled, compiled.run(here)


def answer(query, rows=(0, 1, 2, 3)):
    """Return what a query gives: rows of `SELECT *`, the columns that it names, or an error."""
    here = source(rows)
    try:
        compiled, result = ask(query, here)
    except QueryError as error:
        message, *_, marker = str(error).splitlines()
        return {"error": f"{message.split(': ', 1)[1]}: {marker.strip(' ^')}".strip(": ")}
    shown = {}
    takes_all = result.rows is not None and set(here.schema) <= set(result.passthrough)
    for name in compiled.columns:
        if name in result.columns:
            shown[name] = rounded(samples(result.columns[name]))
        elif not takes_all:
            shown[name] = rounded(samples(here.read(result.passthrough[name], result.rows)))
    told = {"rows": [rows[row] for row in result.rows.tolist()]} if takes_all else {}
    return {**told, "columns": shown}


def rounded(value):
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, float):
        return "NaN" if np.isnan(value) else float(np.round(value, 4))
    return value


def text_of(told):
    """Return an answer as the page shows it."""
    if "error" in told:
        return f"error: {told['error']}"
    if "hangs" in told:
        return "no result"
    if "dies" in told:
        return "the process crashed"
    rows = ""
    if "rows" in told:
        rows = f"rows {', '.join(map(str, told['rows']))}" if told["rows"] else "no rows"
    columns = json.dumps(told["columns"], ensure_ascii=False) if told["columns"] else ""
    return " ".join(filter(None, (rows, columns)))


def agrees(ours, theirs):
    """Tell whether two answers are equal in what both tell."""
    if "columns" not in ours or "columns" not in theirs:
        return "error" in ours and "error" in theirs
    if ours.get("rows", theirs.get("rows")) != theirs.get("rows", ours.get("rows")):
        return False
    return ours["columns"] == theirs["columns"]


def verdict(query, ours, theirs_query, told):
    """Return how the peer's answer compares, and how the page shows it."""
    if theirs_query == "-":
        return "none", NONE
    theirs = told[theirs_query]
    spelled = "" if theirs_query == query else f"`{theirs_query}`: "
    if agrees(ours, theirs):
        return "same", spelled + "same"
    kind = next(kind for kind in ("hangs", "dies", "error", "columns") if kind in theirs)
    shown = f"{spelled}`{text_of(theirs)}`"
    again = theirs.get("without_null")
    if again is None:
        return kind, shown
    if "columns" in again and agrees(answer(query, WITHOUT_NULL), again):
        return "known", f"{shown}; without NULLs same"
    return kind, f"{shown}; without NULLs `{text_of(again)}`"


def page(answers):
    recorded = json.loads((HERE / "deeplake.json").read_text(encoding="utf-8"))
    counts = dict.fromkeys(("same", "known", "columns", "error", "hangs", "dies", "none"), 0)

    def row(key, what, query, theirs_query):
        kind, shown = verdict(query, answers[query], theirs_query, recorded["answers"])
        counts[kind] += 1
        cells = [key, what, f"`{query}`", f"`{text_of(answers[query])}`", shown]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

    every = items()
    papers = [item for item in every if item[0] == PAPERS_ITEM]
    parts = ["\n## The query of Deep Lake's paper\n", TABLE_HEAD.format("#")]
    parts += [row(*item) for item in papers]
    parts += ["\n## The 76 items of Deep Lake's language\n", TABLE_HEAD.format("#")]
    parts += [row(*item) for item in every if item not in papers]
    parts += ["\n## Every construct of ours\n", TABLE_HEAD.format("group")]
    parts += [row(*line) for line in language()]
    head = HEAD.format(
        version=recorded["deeplake"],
        patience=recorded["patience_s"],
        count=sum(counts.values()),
        same=counts["same"],
        known=counts["known"],
        other=counts["columns"],
        refused=counts["error"],
        hangs=counts["hangs"],
        dies=counts["dies"],
        none=counts["none"],
    )
    return head + "".join(parts)


@cache
def recorded_answers():
    return json.loads((HERE / "answers.json").read_text(encoding="utf-8"))


def test_every_item_is_there():
    numbers = [int(key.split(".")[0]) for key, *_ in items()]

    assert list(dict.fromkeys(numbers)) == list(range(1, 77))


@pytest.mark.parametrize("query", queries())
def test_a_query_answers_as_recorded(query):
    assert answer(query) == recorded_answers()[query]


def test_the_page_is_that_of_the_answers():
    assert PAGE.read_text(encoding="utf-8") == page(recorded_answers())


if __name__ == "__main__":
    found = {query: answer(query) for query in queries()}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (HERE / "answers.json").write_text(text, encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")
