"""Rows beyond one batch, which a small table never reaches: beside NumPy and full sorts."""

import math
from random import Random

import numpy as np
import pytest

from tensorlake_query import (
    ColumnStatistics,
    ColumnType,
    QueryLimitError,
    QueryTypeError,
    UniformBatch,
    compile_query,
)
from tests.unit.query.array_source import ArraySource, samples

NUM_ROWS = 60_000
SCHEMA = {
    "f": ColumnType("number", "float32", (), nullable=True),
    "i": ColumnType("number", "int64", ()),
    "label": ColumnType("label", "int64", (), ("a", "b", "c")),
}

INT = ColumnType("number", "int64", ())
UINT = ColumnType("number", "uint64", ())


class NumberSource:
    """Columns of numbers; zone maps of unequal zones; counts the rows that are read."""

    def __init__(self, seed, *, has_zones=True, is_sorted=False):
        random = np.random.default_rng(seed)
        f = random.integers(0, 900, NUM_ROWS).astype(np.float32)
        f[random.random(NUM_ROWS) < 0.1] = np.nan
        i = random.integers(-50, 40_000, NUM_ROWS)
        if is_sorted:
            f, i = np.sort(f), np.sort(i)
        self.schema = SCHEMA
        self.num_rows = NUM_ROWS
        self.valid = random.random(NUM_ROWS) > 0.1
        self.values = {"f": f, "i": i, "label": random.integers(0, 3, NUM_ROWS)}
        self.starts = np.array([0, 100, 9_000, 9_001, 30_000, 52_000, NUM_ROWS])
        self.has_zones = has_zones
        self.rows_read = 0

    def read(self, column, rows):
        self.rows_read += len(rows)
        valid = self.valid[rows] if column == "f" else None
        return UniformBatch(self.values[column][rows], valid)

    def shapes(self, column, rows):
        raise AssertionError((column, rows))

    def statistics(self, column):
        if not self.has_zones:
            return None
        zones = list(zip(self.starts[:-1], self.starts[1:], strict=True))
        values = self.values[column]
        known = [~np.isnan(values[a:b]) for a, b in zones]
        if column == "f":
            known = [each & self.valid[a:b] for each, (a, b) in zip(known, zones, strict=True)]
        kept = [values[a:b][each] for each, (a, b) in zip(known, zones, strict=True)]
        nulls = [0 if column != "f" else int((~self.valid[a:b]).sum()) for a, b in zones]
        return ColumnStatistics(
            self.starts,
            np.array([each.min() if len(each) else 0 for each in kept], values.dtype),
            np.array([each.max() if len(each) else 0 for each in kept], values.dtype),
            np.array(nulls),
            np.array([bool(len(each)) for each in kept]),
        )


def rows_of(text, source, *, optimize=True):
    return compile_query(text, SCHEMA, optimize=optimize).run(source).rows.tolist()


@pytest.mark.parametrize("has_zones", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_first_rows_are_those_of_a_full_sort(seed, has_zones):
    random = Random(seed)
    source = NumberSource(seed, has_zones=has_zones, is_sorted=seed % 3 == 0)
    keys = [
        f"{name} {random.choice(['ASC', 'DESC'])} NULLS {random.choice(['FIRST', 'LAST'])}"
        for name in random.sample(["f", "i", "label"], random.randrange(1, 4))
    ]
    limit = random.choice([1, 10, 700, 9_000])
    where = random.choice(["", "WHERE i % 3 = 0 ", "WHERE f > 100 AND label != 'b' "])
    text = f"{where}ORDER BY {', '.join(keys)} LIMIT {limit} OFFSET {random.choice([0, 3])}"

    assert rows_of(text, source) == rows_of(text, source, optimize=False), text


def test_zones_beyond_the_first_rows_are_not_read():
    source = NumberSource(1, is_sorted=True)

    assert rows_of("ORDER BY i DESC LIMIT 5", source) == rows_of(
        "ORDER BY i DESC LIMIT 5", source, optimize=False
    )
    source.rows_read = 0
    rows_of("ORDER BY i LIMIT 5", source)

    assert source.rows_read <= 30_000


@pytest.mark.parametrize("seed", range(8))
def test_masks_of_several_conditions_keep_the_rows_of_each(seed):
    random = Random(seed)
    source = NumberSource(seed)
    f, i, label = (source.values[name] for name in SCHEMA)
    known = source.valid
    conditions = {
        "f < 450": known & (f < 450),
        "f != 3": known & (f != 3),
        "NOT (f >= 700)": known & ~(f >= 700),
        "f IS NULL OR i < 9": ~known | (i < 9),
        "i IN (1, 2, 3)": np.isin(i, [1, 2, 3]),
        "i + 1 > 20000": i + 1 > 20_000,
        "label = 'c'": label == 2,
        "label IN ('a', 'b')": label < 2,
        "f = 7": known & (f == 7),
    }
    chosen = random.sample(list(conditions), random.randrange(1, 5))
    expected = np.logical_and.reduce([conditions[each] for each in chosen])

    text = "WHERE " + " AND ".join(f"({each})" for each in chosen)
    assert rows_of(text, source) == np.flatnonzero(expected).tolist()
    assert "Filter" in compile_query(text, SCHEMA).analyze(source)


def answered(text, source):
    result = compile_query(text, source.schema).run(source)
    return {name: samples(batch) for name, batch in result.columns.items()}


def grouped(keys, values):
    """The rows of each group, in the order in which groups appear."""
    groups = {}
    for row, key in enumerate(zip(*keys, strict=True)):
        groups.setdefault(key, []).append(row)
    return {key: [values[row] for row in rows] for key, rows in groups.items()}


KEYS = {
    "label": lambda i, f, label: label,
    "i": lambda i, f, label: i,
    "i % 7": lambda i, f, label: [each % 7 for each in i],
    "i > 200": lambda i, f, label: [each > 200 for each in i],
    "i * 1000003": lambda i, f, label: [each * 1000003 for each in i],
    "CAST(f AS INT)": lambda i, f, label: [
        None if each is None or math.isnan(each) else int(each) for each in f
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("keys", [
    ["label"], ["i"], ["CAST(f AS INT)"], ["label", "i > 200", "CAST(f AS INT)"], ["i * 1000003"],
    ["i % 7", "i"], [],
])  # fmt: skip
@pytest.mark.parametrize("is_sorted", [True, False])
def test_groups_are_those_of_all_rows_at_once(keys, is_sorted):
    source = NumberSource(3, is_sorted=is_sorted)
    i, label = source.values["i"].tolist(), source.values["label"].tolist()
    f = [
        each if ok else None
        for each, ok in zip(source.values["f"].tolist(), source.valid, strict=True)
    ]
    names = ", ".join(f"{key} AS k{number}" for number, key in enumerate(keys))
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    found = answered(
        f"SELECT {names}{', ' if keys else ''}COUNT(*) AS n, COUNT(f) AS known, SUM(i) AS total, "
        f"AVG(i) AS mean, MIN(f) AS low, MAX(f) AS high, MAX(i) AS most{by}",
        source,
    )

    of_key = [KEYS[key](i, f, label) for key in keys] or [[0] * NUM_ROWS]
    groups = grouped(of_key, list(zip(i, f, strict=True)))
    assert found["n"] == [len(rows) for rows in groups.values()]
    for number in range(len(keys)):
        assert found[f"k{number}"] == [key[number] for key in groups]
    floats = [[f for _, f in rows if f is not None] for rows in groups.values()]
    numbers = [[f for f in each if not math.isnan(f)] for each in floats]
    assert found["known"] == list(map(len, floats))
    assert found["total"] == [sum(i for i, _ in rows) for rows in groups.values()]
    assert found["mean"] == pytest.approx([sum(i for i, _ in r) / len(r) for r in groups.values()])
    assert found["most"] == [max(i for i, _ in rows) for rows in groups.values()]
    for name, extreme in (("low", min), ("high", max)):
        for value, known, every in zip(found[name], numbers, floats, strict=True):
            if known:
                assert value == extreme(known)
            else:
                assert value is None if not every else math.isnan(value)


def test_sums_of_large_integers_are_exact():
    text = "SELECT label, SUM(i * 8589934592 + 1) AS total GROUP BY label"
    source = NumberSource(4)

    found = answered(text, source)

    wanted = {}
    for code, i in zip(source.values["label"].tolist(), source.values["i"].tolist(), strict=True):
        wanted[code] = wanted.get(code, 0) + i * 8589934592 + 1
    assert all(2**53 < total < 2**63 for total in wanted.values())
    assert dict(zip(found["label"], found["total"], strict=True)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(i * 140737488355328) AS s",
        "SELECT label, SUM(i * 140737488355328) AS s GROUP BY label",
        "SELECT SUM(i * 140737488355328) OVER (PARTITION BY label) AS s",
        "SELECT SUM(i * 140737488355328) OVER (ORDER BY i) AS s",
        "SELECT SUM(DISTINCT i * 140737488355328) AS s",
        "SELECT FIRST(i) AS f, SUM(i * 140737488355328) AS s",
    ],
)
def test_a_sum_beyond_64_bits_is_an_error(text):
    with pytest.raises(QueryTypeError, match=r"SUM\(.*is beyond int64\n.*\n.*CAST\(i \* "):
        answered(text, NumberSource(4))


def test_a_sum_is_exact_where_only_a_part_of_it_would_overflow():
    largest = 2**63 - 1
    source = ArraySource({"n": (INT, [largest, largest, -largest, -largest, 7]),
                          "u": (UINT, [2**64 - 8, 1, 2, 3, 1])})  # fmt: skip

    found = answered("SELECT SUM(n) AS n, SUM(u) AS u, SUM(CAST(n AS FLOAT)) AS f", source)
    running = answered("SELECT SUM(u) OVER (ORDER BY u DESC) AS u", source)

    assert found == {"n": [7], "u": [2**64 - 1], "f": [7.0]}
    assert running["u"] == [2**64 - 8, 2**64 - 1, 2**64 - 3, 2**64 - 5, 2**64 - 1]


def test_no_rows_make_no_groups_and_one_without_keys():
    source = NumberSource(5)

    assert answered("SELECT label, SUM(i) AS s WHERE i > 100000 GROUP BY label", source) == {
        "label": [], "s": []
    }  # fmt: skip
    assert answered("SELECT COUNT(*) AS n, SUM(i) AS s, MIN(f) AS m WHERE i > 100000", source) == {
        "n": [0], "s": [None], "m": [None]
    }  # fmt: skip


def test_a_grouping_of_many_batches_ends_when_it_is_called_off():
    calls = []

    def cancelled():
        calls.append(1)
        return len(calls) > 3

    with pytest.raises(QueryLimitError, match="cancelled"):
        compile_query("SELECT label, COUNT(*) AS n GROUP BY label", SCHEMA).run(
            NumberSource(6), cancelled=cancelled
        )
