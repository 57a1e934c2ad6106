"""Completion offers what the grammar takes at the cursor, by the names that exist."""

from dataclasses import replace

import pytest

from tensorlake_query import ColumnType, complete
from tests.unit.query.pets import pets

SCHEMA = pets().schema


def offers(text):
    """Return the offers at the bar in a text."""
    at = text.index("|")
    return [each.text for each in complete(text.replace("|", ""), at, SCHEMA)]


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("|", ["SELECT", "WHERE", "ORDER BY", "LIMIT", "EXPLAIN"]),
        ("SEL|", ["SELECT"]),
        ("WHERE la|", ["label", "labels"]),
        ("WHERE label|s = 1", ["label", "labels"]),
        ("WHERE label = |", ["'cat'", "'dog'", "'bird'", "score"]),
        ("WHERE label = 'd|", ["'dog'"]),
        ("WHERE label IN ('cat', |", ["'dog'"]),
        ("WHERE CONTAINS(labels, |", ["'cat'", "'dog'"]),
        ("WHERE name = 'it''s' AND CONTAINS(labels, 'd|", ["'dog'"]),
        ("WHERE score > 1 |", ["AND", "OR", "GROUP BY", "ORDER BY", "LIMIT"]),
        ("WHERE score |", ["IS", "IN", "LIKE", "BETWEEN", "NOT"]),
        ("WHERE ARRAY_S|", ["ARRAY_SUM("]),
        ("SELECT CO|", ["COUNT(", "COALESCE(", "CONTAINS(", "COSINE_SIMILARITY("]),
        ("SELECT CASE WHEN ok THEN 1 |", ["ELSE", "END"]),
        ("ORDER BY score |", ["ASC", "DESC", "NULLS"]),
        ("WHERE score > 1 SAM|", ["SAMPLE BY"]),
        ("WHERE CONTAINS(labels, |", ["'cat'", "'dog'", "score"]),
        ("SELECT * FROM |", ["this"]),
        ("WITH good AS (WHERE score > 1) SELECT * FROM this JOIN |", ["this", "good"]),
        ("SELECT CAST(score AS |", ["INT", "TEXT", "FLOAT32"]),
        ("WHERE EXTRACT(|", ["YEAR", "DOW", "EPOCH"]),
    ],
)
def test_what_could_come_next_is_offered(text, among):
    assert set(offers(text)) >= set(among)


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("WHERE score |", "score"),
        ("WHERE |", "FROM"),
        ("WHERE (score |", "LIMIT"),
        ("|", "score"),
        ("SELECT * FROM |", "score"),
        ("WHERE label = '|", "score"),
        ("WHERE caption LIKE '|", "score"),
    ],
)
def test_what_cannot_come_next_is_not_offered(text, absent):
    assert absent not in offers(text)


def test_nothing_is_offered_after_an_error():
    assert offers("WHERE WHERE |") == []
    assert offers("WHERE 'open |") == []


def test_a_class_of_two_words_is_offered_after_its_first():
    names = ("traffic light", "train", "truck")
    schema = {"label": replace(SCHEMA["label"], names=names)}
    text = "WHERE label = 'traffic l"

    assert [each.text for each in complete(text, len(text), schema)] == ["'traffic light'"]


def test_every_offered_word_is_taken_by_the_grammar():
    symbols = {"NUMBER", "TEXT", "NAME", "COMPARE", "PLUS", "COMMA", "LPAR", "DOT", "$END"}

    for text in ("|", "WHERE |", "WHERE score |", "SELECT score |", "WHERE label IN (1 |"):
        assert not symbols & set(offers(text)), text


def test_clauses_are_offered_in_the_order_in_which_they_stand():
    words = offers("WHERE score > 1 |")

    found = [words.index(word) for word in ("AND", "GROUP BY", "ORDER BY", "LIMIT", "UNION")]
    assert found == sorted(found)
    assert offers("WHERE label = '|") == ["'cat'", "'dog'", "'bird'"]


def test_classes_of_a_mask_are_offered():
    mask = ColumnType("number", "uint8", (None, None), class_names=("sky", "road"))

    text = "WHERE mask = 'r"
    assert [each.text for each in complete(text, len(text), {"mask": mask})] == ["'road'"]
