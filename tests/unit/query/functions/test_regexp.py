"""REGEXP where texts are NULL, half a surrogate pair, or hostile, beside Python's `re`."""

import re

import pytest

from tensorlake_query import ColumnType, compile_query
from tests.unit.query.array_source import ArraySource, samples

TEXTS = ["cat", None, "", "a cat sat", None, "dog"]
LONE = ["\ud83d", "cat\udc00", "\ud800cat", "c\udfffat", "\U0001f408", ""]
PATTERNS = ["cat", "^cat$", "", "^$", "c.?at", "[^c]at", "(?i)CAT", "d|s", "\U0001f408", "^[^a]+$"]


def run(text, texts, *, nullable=False, **params):
    source = ArraySource({"t": (ColumnType("text", None, (), nullable=nullable), texts)})
    return compile_query(text, source.schema, params=params).run(source)


def rows_where(condition, texts, *, nullable=False, **params):
    return run(f"WHERE {condition}", texts, nullable=nullable, **params).rows.tolist()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_null_neither_matches_nor_fails_to_match(pattern):
    known = [row for row, text in enumerate(TEXTS) if text is not None]
    matching = [row for row in known if re.search(pattern, TEXTS[row])]
    others = [row for row in known if row not in matching]

    assert rows_where("t REGEXP $p", TEXTS, nullable=True, p=pattern) == matching
    assert rows_where("t NOT REGEXP $p", TEXTS, nullable=True, p=pattern) == others
    assert rows_where("NOT (t REGEXP $p)", TEXTS, nullable=True, p=pattern) == others
    assert rows_where("(t REGEXP $p) IS NULL", TEXTS, nullable=True, p=pattern) == [1, 4]


def test_a_selected_match_of_null_is_null():
    result = run("SELECT t REGEXP 'cat' AS m", TEXTS, nullable=True)

    assert samples(result.columns["m"]) == [True, None, False, True, None, False]


def test_nothing_but_nulls_matches_nothing():
    assert rows_where("t REGEXP ''", [None, None], nullable=True) == []


@pytest.mark.parametrize("pattern", [*PATTERNS, "^.$", "^.cat", "cat.$", "c[^a]at", "^\\W$"])
def test_half_a_surrogate_pair_counts_as_one_character(pattern):
    expected = [row for row, text in enumerate(LONE) if re.search(pattern, text)]

    assert rows_where("t REGEXP $p", LONE, p=pattern) == expected


def test_one_text_with_half_a_surrogate_pair_does_not_change_the_others():
    texts = ["cat", "dog", "\ud83d"]

    assert rows_where("t REGEXP '^.a'", texts) == rows_where("t REGEXP '^.a'", texts[:2]) == [0]


HOSTILE = {
    "nested runs": ("(a+)+$", "a" * 200_000 + "b"),
    "equal alternatives": ("^(a|a)*$", "a" * 200_000 + "b"),
    "adjoining runs": ("(x+x+)+y", "x" * 200_000),
    "optional letters": ("a?" * 400 + "a" * 400 + "$", "a" * 399),
    "six runs": ("(.*)(.*)(.*)(.*)(.*)(.*)[^a]$", "a" * 50_000),
    "many alternatives": ("|".join(f"(a*){letter}" for letter in "bcdefghi"), "a" * 50_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pattern_takes_linear_time(name):
    """Each of them takes a backtracking engine longer than a test may run."""
    pattern, text = HOSTILE[name]

    assert rows_where("t REGEXP $p", [text], p=pattern) == []
