"""A key of USING in an outer join holds values of both sides as they are, or is refused."""

from itertools import permutations

import duckdb
import pytest

import tensorlake as tl

COLUMNS = {
    "label": (tl.ClassLabel(["cat", "dog"]), ["cat", "dog"]),
    "other": (tl.ClassLabel(["dog", "owl"]), ["dog", "owl"]),
    "words": ("str", ["dog", "elk"]),
    "json": ("json", ["dog", {"a": 1}]),
    "whole": ("int16", [1, 5]),
    "float": ("float32", [1, 2.5]),
    "flag": ("bool", [True, False]),
}
NUMBERS = {"whole", "float", "flag"}
TEXTS = {"label", "other", "words"}
JOIN = (
    "SELECT k FROM (SELECT {} AS k FROM this) AS a"
    " {} JOIN (SELECT {} AS k FROM this) AS b USING (k)"
)


@pytest.fixture(scope="module")
def rows():
    ds = tl.create("memory://outer-keys", {name: kind for name, (kind, _) in COLUMNS.items()})
    ds.extend({name: values for name, (_, values) in COLUMNS.items()})
    ds.commit("two rows of each type")
    return ds


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_keys_that_no_type_holds_are_refused(rows, kind):
    for left, right in permutations(COLUMNS, 2):
        question = JOIN.format(left, kind, right)
        if {left, right} <= NUMBERS:
            found = {float(value) for value in rows.query(question)["k"]}
            values = COLUMNS[right][1] + (COLUMNS[left][1] if kind == "FULL" else [])
            assert found == {float(value) for value in values}, question
        else:
            with pytest.raises(tl.QueryTypeError, match=r"(?s)CAST (one|them)"):
                rows.query(question)


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_classes_cast_to_texts_have_the_answers_of_duckdb(rows, kind):
    for left, right in permutations(sorted(TEXTS), 2):
        question = JOIN.format(f"CAST({left} AS TEXT)", kind, f"CAST({right} AS TEXT)")
        database = duckdb.connect(config={"threads": 1})
        database.execute("CREATE TABLE this (label TEXT, other TEXT, words TEXT)")
        of_each = zip(*(COLUMNS[name][1] for name in ("label", "other", "words")), strict=True)
        database.executemany("INSERT INTO this VALUES (?, ?, ?)", list(of_each))

        answers = sorted(value for (value,) in database.execute(question).fetchall())
        assert sorted(rows.query(question)["k"]) == answers, question
