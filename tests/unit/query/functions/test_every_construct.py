"""What holds of every construct of the language, whatever it says.

Each line of `language.txt` is asked again of no rows, of samples that hold nothing, of NULLs, of
one row at a time, of names that are not there, and of every kind of column. What a line answers
over the page's rows is in `test_conformance.py`.
"""

import re

import numpy as np
import pytest

from tensorlake_query import (
    ColumnType,
    ObjectBatch,
    QueryError,
    QueryNameError,
    QueryTypeError,
    UniformBatch,
)
from tests.unit.query.array_source import ArraySource, samples
from tests.unit.query.test_conformance import (
    answer,
    ask,
    language,
    recorded_answers,
    source,
)

OF_EVERY_KIND = {
    "a_text": (ColumnType("text", None, ()), ["x"] * 4),
    "a_json": (ColumnType("json", None, ()), [{"a": 1}] * 4),
    "a_number": (ColumnType("number", "float64", ()), [1.0] * 4),
    "a_truth": (ColumnType("number", "bool", ()), [True] * 4),
    "an_array": (ColumnType("number", "float32", (None, None, None)), [np.zeros((1, 1, 1))] * 4),
    "a_label": (ColumnType("label", "int64", (), ("cat", "dog", "bird")), [0] * 4),
    "a_picture": (ColumnType("media", "uint8", (None, None, 3)), [np.zeros((2, 2, 3))] * 4),
    "a_time": (ColumnType("number", "int64", (), timestamp_unit="s"), [0] * 4),
}
NOTHING = {"labels": [], "caption": "", "meta": {}, "boxes": np.zeros((0, 4))}
ROW_BY_ROW = {
    "literals", "operators", "indexing", "labels", "shape and info", "within a sample", "geometry",
    "vectors", "text", "dates",
}  # fmt: skip
ACROSS_ROWS = re.compile(r"LIMIT|ORDER BY|ROW_NUMBER|\b_row\b|DATA\(|BM25|\(SELECT|RANDOM")
ONE_ROW = re.compile(
    r"SELECT (COUNT|SUM|AVG|MIN|MAX|STD|VAR|MEDIAN|HISTOGRAM|FIRST)\((?!.*(OVER|GROUP BY|axis))"
)
# These take columns of every kind.
TAKES_EVERY_KIND = {
    "IS NULL, IS NOT NULL", "CAST", "DTYPE", "DATA", "COUNT(*), COUNT(x)", "COUNT(DISTINCT x)",
    "FIRST, ANY_VALUE", "UNION of values", "UNION ALL", "ISNULL", "DISTINCT", "DISTINCT ON",
    "USING", "UNGROUP BY SPLIT",
}  # fmt: skip


def answered():
    """Return the lines that are answered, by the record that test_conformance holds us to."""
    found = {query: (group, what) for group, what, query, _ in language()}
    recorded = recorded_answers()
    return [
        pytest.param(group, what, query, id=f"{group}: {what}")
        for query, (group, what) in found.items()
        if "error" not in recorded[query]
    ]


def form_of(batch):
    if isinstance(batch, ObjectBatch):
        return None
    if isinstance(batch, UniformBatch):
        return batch.values.dtype, batch.values.shape[1:]
    return batch.values.dtype, batch.shapes.shape[1]


def columns_in(query):
    """Yield the places where the text names a column of the source, aliases and texts left out."""
    names = "|".join(map(re.escape, source().schema))
    pattern = rf"""'(?:[^']|'')*'|AS \w+|"({names})"|\b({names})\b"""
    return [match.span() for match in re.finditer(pattern, query) if any(match.groups())]


def renamed(query, place, name):
    start, stop = place
    return f"{query[:start]}{name}{query[stop:]}"


@pytest.mark.parametrize(("group", "what", "query"), answered())
def test_no_rows_give_none_or_the_one_of_an_aggregate(group, what, query):
    del group, what
    compiled, full = ask(query, source())
    _, found = ask(query, source(rows=()))

    count = 1 if ONE_ROW.match(query) else 0
    if query.startswith("EXPLAIN"):
        return
    assert [len(samples(batch)) for batch in found.columns.values()] == [count] * len(found.columns)
    assert found.rows is None or len(found.rows) == 0
    assert list(found.columns) == list(full.columns)
    assert set(found.columns) <= set(compiled.columns)
    for name, batch in found.columns.items():
        assert form_of(batch) == form_of(full.columns[name])


@pytest.mark.parametrize("held", ["nothing", "NULL"])
@pytest.mark.parametrize(("group", "what", "query"), answered())
def test_samples_that_hold_nothing_and_nulls_are_answered(group, what, query, held):
    del group, what
    whole = source()
    columns = {
        name: (kind, [_emptied(name, kind, one, held) for one in data])
        for name, (kind, data) in whole.columns.items()
    }

    _, full = ask(query, whole)
    _, found = ask(query, ArraySource(columns))

    assert list(found.columns) == list(full.columns)
    for name, batch in found.columns.items():
        assert form_of(batch) == form_of(full.columns[name])


def _emptied(name, kind, one, held):
    if held == "nothing":
        return NOTHING.get(name, one)
    return None if kind.nullable else one


@pytest.mark.parametrize(
    ("group", "what", "query"),
    [
        line
        for line in answered()
        if line.values[0] in ROW_BY_ROW and not ACROSS_ROWS.search(line.values[2])
    ],
)
def test_a_row_is_answered_as_if_it_were_alone(group, what, query):
    del group, what
    alone = [answer(query, (row,)) for row in range(4)]

    together = answer(query)

    assert together.get("rows") == (
        [row for each in alone for row in each["rows"]] if "rows" in together else None
    )
    for name, values in together["columns"].items():
        assert values == [value for each in alone for value in each["columns"][name]]


@pytest.mark.parametrize(("group", "what", "query"), answered())
def test_a_name_that_is_not_there_is_marked(group, what, query):
    del group
    for place in columns_in(query):
        wrong = renamed(query, place, "nix")
        if what == "a sub-query in FROM":
            continue
        with pytest.raises(QueryNameError) as caught:
            ask(wrong, source())

        assert "nix" in wrong[caught.value.span.start : caught.value.span.stop]


@pytest.mark.parametrize(("group", "what", "query"), answered())
def test_a_column_of_another_kind_is_answered_or_refused_at_its_place(group, what, query):
    del group
    here = ArraySource({**source().columns, **OF_EVERY_KIND})
    refusals = []
    places = columns_in(query)

    for place in places:
        for other in OF_EVERY_KIND:
            wrong = renamed(query, place, other)
            try:
                ask(wrong, here)
            except QueryError as error:
                refusals.append((wrong, error))

    for wrong, error in refusals:
        assert 0 <= error.span.start < error.span.stop <= len(wrong)
    if places and what not in TAKES_EVERY_KIND:
        assert any(isinstance(error, QueryTypeError) for _, error in refusals)
