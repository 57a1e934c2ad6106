"""Texts searched as UTF-8 bytes: the answers are those of Python's strings."""

import re
from random import Random

import numpy as np
import pytest

from tensorlake_query import ColumnType, TextBatch, compile_query
from tensorlake_query.functions.text import matching
from tensorlake_query.functions.text.matching import (
    BLOCK_NBYTES,
    ascii_lowered,
    containing,
    ending,
    equal_to,
    starting,
)
from tensorlake_query.functions.text.patterns import like_matcher
from tensorlake_query.values import hash_table
from tensorlake_query.values.group_keys import numbered_texts
from tensorlake_query.values.texts import Texts, joined_texts, ranked_texts
from tests.unit.query.array_source import samples

TEXT = ColumnType("text", None, (), nullable=True)
ALPHABET = "aab%_c\\ é🐕\n"


def texts_of(values):
    encoded = [value.encode() for value in values]
    content = np.frombuffer(b"".join(encoded), np.uint8)
    return Texts(content, np.cumsum([0, *map(len, encoded)]))


def words(random, count, longest=12):
    return [
        "".join(random.choice(ALPHABET) for _ in range(random.randrange(longest)))
        for _ in range(count)
    ]


class PackedSource:
    """One column of texts, as a dataset stores them."""

    def __init__(self, values):
        self.values = values
        self.schema = {"c": TEXT}
        self.num_rows = len(values)

    def read(self, column, rows):
        assert column == "c"
        chosen = [self.values[row] for row in rows.tolist()]
        packed = texts_of([each or "" for each in chosen])
        valid = np.array([each is not None for each in chosen], np.bool_)
        return TextBatch(packed.content, packed.offsets, valid)

    def shapes(self, column, rows):
        raise AssertionError((column, rows))

    def statistics(self, column):
        del column


class ChunkedSource(PackedSource):
    """Keeps texts in chunks of 9000, and records the runs that are read."""

    def __init__(self, values):
        super().__init__(values)
        self.runs = []

    def read_run(self, column, start, stop):
        self.runs.append((start, stop))
        return self.read(column, np.arange(start, stop))

    def chunk_ends(self, column, start, stop):
        assert column == "c"
        return np.append(np.arange(start - start % 9000 + 9000, stop, 9000), stop)


def test_texts_are_read_chunk_by_chunk():
    values = [f"text {row % 100}" for row in range(50_000)]
    source = ChunkedSource(values)

    rows = compile_query("WHERE c LIKE '%t 7%'", source.schema).run(source).rows

    assert rows.tolist() == [row for row in range(50_000) if "t 7" in values[row]]
    assert {(18_000, 27_000), (27_000, 36_000)} <= {*source.runs}  # others begin where scopes do


def answered(query, values):
    source = PackedSource(values)
    result = compile_query(query, source.schema).run(source)
    return {name: samples(batch) for name, batch in result.columns.items()}, result.rows


@pytest.mark.parametrize("seed", range(20))
def test_literals_are_found_as_in_strings(seed):
    random = Random(seed)
    values = words(random, 200)
    texts = texts_of(values)[3:190]
    values = values[3:190]

    for literal in ["", "a", "ab", "aab", "é", "🐕", "zz", values[7], values[8] + values[9]]:
        wanted = literal.encode()
        assert containing(texts, wanted).tolist() == [literal in each for each in values]
        assert starting(texts, wanted).tolist() == [each.startswith(literal) for each in values]
        assert ending(texts, wanted).tolist() == [each.endswith(literal) for each in values]
        assert equal_to(texts, wanted).tolist() == [each == literal for each in values]


def test_literals_are_found_across_blocks_and_not_across_rows():
    before = BLOCK_NBYTES - 3 - 6
    values = ["x" * before + "needle" + "y" * 40_000, "need", "le", "n" * BLOCK_NBYTES, "needle"]

    found = containing(texts_of(["needle", *values])[1:], b"needle")

    assert found.tolist() == [True, False, False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [1, 3, 40, 5000])
@pytest.mark.parametrize("way", ["as measured", "listed", "masks", "pyarrow"])
def test_literals_are_found_however_many_texts_have_them(one_in, way, monkeypatch):
    if way != "as measured":
        monkeypatch.setattr(matching, "RARE", 2 if way == "listed" else 0)
        monkeypatch.setattr(matching, "MOST_LISTED", 1 << 20 if one_in < 40 else 20)
        monkeypatch.setattr(matching, "MANY", 1 << 20 if way == "pyarrow" else 0)
        monkeypatch.setattr(matching, "BLOCK_NBYTES", 1000)
    random = Random(one_in)
    values = [
        "".join(random.choices("bcd", k=random.randrange(20)))
        + ("abc" * random.randrange(1, 4) if random.randrange(one_in) == 0 else "")
        for _ in range(40_000 if way == "as measured" else 5000)
    ]

    for literal in ["abc", "a", "ca", "bc", "ddd"]:
        found = containing(texts_of(values)[5:-5], literal.encode())
        assert found.tolist() == [literal in each for each in values[5:-5]]


@pytest.mark.parametrize("seed", range(40))
def test_patterns_match_as_in_strings(seed):
    random = Random(seed)
    values = [None if random.random() < 0.1 else each for each in words(random, 150)]
    pattern = "".join(random.choice("ab%%__c\\é") for _ in range(random.randrange(7)))
    rows = {
        form: answered(f"WHERE c {form} $p".replace("$p", quoted(wanted)), values)[1].tolist()
        for form, wanted in (("LIKE", pattern), ("ILIKE", pattern.upper()), ("NOT LIKE", pattern))
    }

    matches, folded = like_matcher(pattern), like_matcher(pattern.upper().lower())
    known = [row for row, each in enumerate(values) if each is not None]
    assert rows["LIKE"] == [row for row in known if matches(values[row])]
    assert rows["NOT LIKE"] == [row for row in known if not matches(values[row])]
    assert rows["ILIKE"] == [row for row in known if folded(values[row].lower())]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_texts_compare_by_code_points(op):
    values = [None, "", "a", "é", "🐕", "ﬁ", "a"]
    compare = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__",
               ">=": "__ge__"}[op]  # fmt: skip

    for literal in ["", "a", "é", "🐕"]:
        _, rows = answered(f"WHERE c {op} {quoted(literal)}", values)
        known = [row for row, each in enumerate(values) if each is not None]
        assert rows.tolist() == [row for row in known if getattr(values[row], compare)(literal)]


def test_columns_of_texts_compare_with_each_other():
    _, rows = answered("WHERE c < c || 'x' AND c = c", ["b", None, "", "é"])

    assert rows.tolist() == [0, 2, 3]


def test_texts_are_grouped_ordered_and_reduced_in_any_number():
    random = Random(1)
    values = [None if random.random() < 0.1 else each for each in words(random, 6000, longest=3)]
    known = [each for each in values if each is not None]

    groups, _ = answered("SELECT c, COUNT(*) AS n GROUP BY c", values)
    ordered, rows = answered("ORDER BY c DESC NULLS FIRST", values)
    ends, _ = answered("SELECT MIN(c) AS a, MAX(c) AS b, COUNT(DISTINCT c) AS n", values)

    assert groups["c"] == list(dict.fromkeys(values))
    assert groups["n"] == [values.count(each) for each in groups["c"]]
    assert ordered == {}
    wanted = [each for each in values if each is None] + sorted(known, reverse=True)
    assert [values[row] for row in rows.tolist()] == wanted
    assert ends == {"a": [min(known)], "b": [max(known)], "n": [len(set(known))]}


def test_texts_index_as_an_array_does():
    values = ["one", "", "drei", "🐕é", "five"]
    texts = texts_of(values)

    assert (texts[0], texts[-1], texts[3], len(texts)) == ("one", "five", "🐕é", 5)
    assert list(texts[1:4]) == values[1:4]
    assert list(texts[::2]) == values[::2]
    assert list(texts[np.array([4, 0, 0])]) == ["five", "one", "one"]
    assert list(texts[np.array([True, False, True, True, False])]) == ["one", "drei", "🐕é"]
    assert list(joined_texts([texts[3:], texts[:2]])) == ["🐕é", "five", "one", ""]
    assert np.asarray(texts).tolist() == values


def test_a_long_text_that_repeats_is_kept_once():
    texts = texts_of(["x" * 1_000_000, "y"])

    taken = texts[np.zeros(10_000, np.int64)]

    assert isinstance(taken, np.ndarray)
    assert all(each is taken[0] for each in taken)


def test_numbers_and_ranks_are_those_of_distinct_texts():
    values = ["b", "a", "b", "é", ""]

    numbers, count, _ = numbered_texts(texts_of(values))
    ranks, distinct = ranked_texts(texts_of(values))

    assert (len({*numbers.tolist()}), count) == (4, 4)
    assert numbers[0] == numbers[2]
    assert (ranks.tolist(), distinct) == ([2, 1, 2, 3, 0], ["", "a", "b", "é"])


@pytest.mark.parametrize("multiplier", [hash_table.MULTIPLIER, 0])  # 0: all collide
@pytest.mark.parametrize("levels", [1, 2, hash_table.LEVELS])
@pytest.mark.parametrize("seed", range(8))
def test_equal_texts_alone_have_one_number_in_tables_of_any_size(
    seed, levels, multiplier, monkeypatch
):
    monkeypatch.setattr(hash_table, "MULTIPLIER", multiplier)
    monkeypatch.setattr(hash_table, "STEP", 1 if multiplier else 0)
    monkeypatch.setattr(hash_table, "LEVELS", levels)
    monkeypatch.setattr(hash_table, "BLOCK_ROWS", 7)
    monkeypatch.setattr(hash_table, "FIRST_BITS", 2)
    monkeypatch.setattr(hash_table, "LEAST_BITS", 1)
    random = Random(seed)
    some = words(random, 40, longest=random.choice([3, 9, 21, 90]))
    values = [random.choice(some) * random.choice([0, 1, 1, 1, 2]) for _ in range(100)]
    given = values[3:-2]

    numbers, count, first = numbered_texts(texts_of(values)[3:-2])

    assert len(set(zip(given, numbers.tolist(), strict=True))) == len(set(given)) == count
    assert sorted(numbers[first].tolist()) == list(range(count))
    assert [given.index(value) for value in given] == first[numbers].tolist()


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 24, 63, 64, 65])
def test_texts_that_differ_in_one_byte_or_in_length_are_distinct(length):
    values = [
        *("a" * (length + more) for more in (0, 1, 2)),
        *("a" * place + "\0" + "a" * (length - place) for place in range(length + 1)),
        "\0" * length,
        "\0" * (length + 1),
        "é" * length,
    ]
    values = [*values, *values[::-1]]

    numbers, count, _ = numbered_texts(texts_of(values))

    assert count == len(set(values))
    assert len(set(zip(values, numbers.tolist(), strict=True))) == count


def test_only_ascii_letters_are_lowered():
    text = "".join(map(chr, range(128)))

    assert ascii_lowered(texts_of(["Z", text])[1:]).tolist() == [text.lower()]


def test_regular_expressions_match_as_in_strings():
    values = ["caption", "no", None, "", "ca\np", "éa"]

    for pattern in ["^ca", "a$", "é.", "(?s)a.p", "x*"]:
        _, rows = answered(f"WHERE c REGEXP {quoted(pattern)}", values)
        known = [row for row, each in enumerate(values) if each is not None]
        assert rows.tolist() == [row for row in known if re.search(pattern, values[row])]
