"""A class label is no condition: its code would be true of every class but the first."""

import pytest

from tensorlake_query import ColumnType, QueryTypeError, compile_query
from tests.unit.query.array_source import ArraySource, samples
from tests.unit.query.pets import PETS, rows_where

ONE = "write label = 'cat', or label != 0 for its code"
EACH = "write labels = 'cat', or labels != 0 for its code"


class Tables:
    """The pets, by any name."""

    def table(self, name, version):
        return ArraySource(PETS)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("WHERE label", ONE),
        ("WHERE NOT label", ONE),
        ("WHERE ok AND label", ONE),
        ("WHERE label OR ok", ONE),
        ("WHERE NOT (ok AND (label OR ok))", ONE),
        ("SELECT COUNT(*) FILTER (WHERE label) AS n", ONE),
        ("SELECT label, COUNT(*) AS n GROUP BY label HAVING label", ONE),
        ("SELECT CASE WHEN label THEN 1 ELSE 0 END AS x", ONE),
        ("SELECT * SAMPLE BY MAX_WEIGHT(label: 1)", ONE),
        ("SELECT * SAMPLE BY SUM_WEIGHT(ok: 2, label: 1)", ONE),
        ("SELECT COUNT(*) AS n FROM this AS a JOIN this AS b ON a.label", "write a.label = 'cat'"),
        ("SELECT MIN(label) AS m HAVING MIN(label)", r"write MIN\(label\) = 'cat'"),
        ("WHERE (SELECT label LIMIT 1)", r"LIMIT 1\) = 'cat'"),
        ("WHERE labels[0]", r"write labels\[0\] = 'cat'"),
        ("WHERE ARRAY_MAX(labels)", r"write ARRAY_MAX\(labels\) = 'cat'"),
        ("WHERE labels", r"write CONTAINS\(labels, 'cat'\)"),
        ("WHERE NOT labels", r"write CONTAINS\(labels, 'cat'\)"),
        ("WHERE ANY(LOGICAL_OR(labels, labels))", r"write CONTAINS\(labels, 'cat'\)"),
        ("WHERE ANY(labels)", EACH),
        ("WHERE ALL(labels)", EACH),
        ("WHERE ALL_STRICT(labels)", EACH),
    ],
)
def test_a_class_label_is_no_condition(text, hint):
    with pytest.raises(QueryTypeError, match=hint):
        compile_query(text, ArraySource(PETS).schema, tables=Tables(), seed=1)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("label = 'cat'", [0, 3, 5]),
        ("NOT label = 'cat'", [1, 2, 4, 6, 7]),
        ("label != 0", [1, 2, 4, 6, 7]),
        ("label % 2", [1, 4, 7]),
        ("NOT label % 2", [0, 2, 3, 5, 6]),
        ("CONTAINS(labels, 'cat')", [0, 3, 6]),
        ("ANY(labels = 'cat')", [0, 3, 6]),
        ("ANY(labels != 0)", [1, 3, 4, 5, 6]),
        ("CASE label WHEN 'cat' THEN ok END", [0, 3, 5]),
    ],
)
def test_what_the_hints_say_is_a_condition(condition, rows):
    assert rows_where(condition) == rows


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (None, "write label != 0 for a condition of its code"),
        ((), "write label != 0 for a condition of its code"),
        (("", "it's"), "write label = 'it''s', or label != 0"),  # the first class was dropped
    ],
)
def test_the_hint_names_a_class_that_exists(names, hint):
    schema = {"label": ColumnType("label", "int64", (), names)}

    with pytest.raises(QueryTypeError, match=hint):
        compile_query("WHERE NOT label", schema)


def test_numbers_json_and_masks_are_conditions_as_before():
    mask = ColumnType("number", "uint8", (2,), class_names=("none", "liver"))
    source = ArraySource({"mask": (mask, [[0, 1], [0, 0]])})
    found = compile_query("SELECT ANY(mask) AS any_of WHERE NOT ALL(mask)", source.schema)

    assert samples(found.run(source).columns["any_of"]) == [True, False]
    assert rows_where("tiny AND NOT count") == [2]
    assert rows_where("meta['day']") == [3]
