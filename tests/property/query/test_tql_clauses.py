"""Joins, set operations, DISTINCT, windows, groups and draws, beside the same in plain Python.

Each test runs a clause over random rows, with NULL, NaN, empty tables and repeated values, and
compares with lists and loops that say what the clause means.
"""

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorlake_query import ColumnType, compile_query
from tests.support.examples import examples
from tests.unit.query.array_source import ArraySource, samples

KINDS = {
    "i": ColumnType("number", "int64", (), nullable=True),
    "f": ColumnType("number", "float64", ()),
    "t": ColumnType("text", None, (), nullable=True),
    "l": ColumnType("label", "int64", (), ("cat", "dog", "bird")),
    "r": ColumnType("number", "int64", (None,)),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(0, 3),
            "f": st.sampled_from([0.0, -0.0, 1.5, math.nan]),
            "t": st.none() | st.sampled_from(["a", "b", ""]),
            "l": st.integers(0, 2),
            "r": st.lists(st.integers(0, 2), max_size=3),
        }
    ),
    max_size=8,
)
BRIEF = examples(10)  # each runs its query twice
KEYS = st.sampled_from(["i", "t", "l", "f"])


def source_of(rows):
    return ArraySource({name: (kind, [row[name] for row in rows]) for name, kind in KINDS.items()})


class OneTable:
    """Finds one source, under one name."""

    def __init__(self, source):
        self.source = source

    def table(self, name, version):
        assert (name, version) == ("other", None)
        return self.source


def run(text, rows, other=None, **options):
    """Run a query, as written and optimized, and return its rows and computed columns."""
    results = []
    for optimize in (False, True):
        tables = None if other is None else OneTable(source_of(other))
        compiled = compile_query(text, KINDS, tables=tables, optimize=optimize, **options)
        result = compiled.run(source_of(rows))
        selected = None if result.rows is None else result.rows.tolist()
        columns = {name: plain(batch) for name, batch in result.columns.items()}
        results.append((selected, columns))
    assert repr(results[0]) == repr(results[1])
    return results[1]


def plain(batch):
    """Return samples with one name for every NaN, so that they compare."""
    return [value_of(each) for each in samples(batch)]


def value_of(value):
    if isinstance(value, list):
        return [value_of(each) for each in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def matches(left, right, key):
    return left[key] is not None and left[key] == right[key]  # NULL and NaN equal nothing


def joined(left, right, kind, holds):
    """Return pairs of row numbers; None where a side has none."""
    pairs = [
        (a, b) for a in range(len(left)) for b in range(len(right)) if holds(left[a], right[b])
    ]
    if kind in {"LEFT", "FULL"}:
        alone = set(range(len(left))) - {a for a, _ in pairs}
        pairs = sorted([*pairs, *((a, None) for a in alone)], key=lambda pair: pair[0])
    if kind in {"RIGHT", "FULL"}:
        found = {b for _, b in pairs}
        pairs += [(None, b) for b in range(len(right)) if b not in found]
    return pairs


@BRIEF
@given(ROWS, ROWS, st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"]), KEYS, st.integers(0, 3))
def test_a_join_pairs_what_nested_loops_pair(left, right, kind, key, bound):
    text = (
        "SELECT a.i AS x, b.i AS y, a.r AS p, b.t AS q "
        f"FROM this AS a {kind} JOIN other AS b ON a.{key} = b.{key} AND a.l + b.l < {bound + 1}"
    )

    _, columns = run(text, left, right)

    pairs = joined(left, right, kind,
                   lambda a, b: matches(a, b, key) and a["l"] + b["l"] < bound + 1)  # fmt: skip
    # what stays rows of the kept side is not computed: look at the other side's columns
    if "y" in columns:
        assert columns["y"] == [None if b is None else right[b]["i"] for _, b in pairs]
    if "q" in columns:
        assert columns["q"] == [None if b is None else right[b]["t"] for _, b in pairs]
    if "x" in columns:
        assert columns["x"] == [None if a is None else left[a]["i"] for a, _ in pairs]
    if "p" in columns:
        assert columns["p"] == [None if a is None else left[a]["r"] for a, _ in pairs]


@BRIEF
@given(ROWS, ROWS)
def test_a_join_of_the_left_side_is_rows_of_the_source(left, right):
    rows, _ = run("SELECT a.* FROM this AS a LEFT JOIN other AS b USING (t)", left, right)

    assert rows == [a for a, _ in joined(left, right, "LEFT", lambda a, b: matches(a, b, "t"))]


@BRIEF
@given(ROWS, ROWS)
def test_a_column_of_using_is_that_of_the_side_that_has_it(left, right):
    _, columns = run("SELECT t AS key FROM this AS a FULL JOIN other AS b USING (t)", left, right)

    pairs = joined(left, right, "FULL", lambda a, b: matches(a, b, "t"))
    assert columns["key"] == [right[b]["t"] if a is None else left[a]["t"] for a, b in pairs]


@BRIEF
@given(ROWS, ROWS)
def test_a_cross_join_has_every_pair(left, right):
    _, columns = run("SELECT b.i AS y FROM this AS a CROSS JOIN other AS b", left, right)

    assert columns["y"] == [b["i"] for _ in left for b in right]


def row_values(rows, names):
    return [tuple(value_of(row[name]) for name in names) for row in rows]


def combined(op, left, right, *, keeps_all):
    """Return what is left of two lists of values, in the order in which they come."""
    if op == "UNION":
        both = left + right
        return both if keeps_all else list(dict.fromkeys(map(repr, both)))
    right_counts = Counter(map(repr, right))
    kept, seen = [], Counter()
    for value in map(repr, left):
        seen[value] += 1
        if keeps_all:
            inside = seen[value] <= right_counts[value]
        else:
            if seen[value] > 1:
                continue
            inside = right_counts[value] > 0
        if inside == (op == "INTERSECT"):
            kept.append(value)
    return kept


@BRIEF
@given(ROWS, ROWS, st.sampled_from(["UNION", "INTERSECT", "EXCEPT"]), st.booleans())
def test_a_set_operation_of_values_is_that_of_lists(left, right, op, keeps_all):
    word = f"{op} ALL" if keeps_all else op

    _, columns = run(f"SELECT i, t, r {word} SELECT i, t, r FROM other", left, right)

    found = list(zip(columns["i"], columns["t"], map(tuple, columns["r"]), strict=True))
    names = ("i", "t", "r")
    lists = [
        [(row[0], row[1], tuple(row[2])) for row in row_values(rows, names)]
        for rows in (left, right)
    ]
    wanted = combined(op, *lists, keeps_all=keeps_all)
    assert list(map(repr, found)) == [
        each if isinstance(each, str) else repr(each) for each in wanted
    ]


@BRIEF
@given(ROWS, st.integers(0, 3), st.integers(0, 2))
def test_a_set_operation_of_rows_is_that_of_row_numbers(rows, low, label):
    a = [n for n, row in enumerate(rows) if row["i"] is not None and row["i"] >= low]
    b = [n for n, row in enumerate(rows) if row["l"] == label]
    one, other = f"WHERE i >= {low}", f"WHERE l = {label}"

    assert run(f"{one} UNION {other}", rows)[0] == list(dict.fromkeys(a + b))
    assert run(f"{one} INTERSECT {other}", rows)[0] == [n for n in a if n in b]
    assert run(f"{one} EXCEPT {other}", rows)[0] == [n for n in a if n not in b]
    assert run(f"{one} UNION ALL {other}", rows)[0] == a + b


@BRIEF
@given(ROWS, KEYS)
def test_distinct_keeps_the_first_of_equal_rows(rows, key):
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        seen.setdefault(repr((value_of(row[key]), row["r"])), number)

    assert run(f"SELECT DISTINCT {key}, r", rows)[0] == list(seen.values())


@BRIEF
@given(ROWS, KEYS)
def test_distinct_on_keeps_the_first_in_the_order(rows, key):
    order = sorted(range(len(rows)), key=lambda n: -rows[n]["l"])
    seen: dict[str, int] = {}
    for number in order:
        seen.setdefault(repr(value_of(rows[number][key])), number)

    assert run(f"SELECT DISTINCT ON ({key}) * ORDER BY l DESC", rows)[0] == list(seen.values())


@BRIEF
@given(ROWS, KEYS)
def test_windows_count_within_their_partition(rows, key):
    over = f"OVER (PARTITION BY {key} ORDER BY l)"
    text = (
        f"SELECT ROW_NUMBER() {over} AS n, RANK() {over} AS r, DENSE_RANK() {over} AS d, "
        f"LAG(r) {over} AS before, LEAD(i, 2) {over} AS after, "
        f"SUM(l) OVER (PARTITION BY {key}) AS s"
    )

    _, columns = run(text, rows)

    for number, row in enumerate(rows):
        mine = [n for n, other in enumerate(rows)
                if repr(value_of(other[key])) == repr(value_of(row[key]))]  # fmt: skip
        order = sorted(mine, key=lambda n: rows[n]["l"])
        place = order.index(number)
        smaller = [n for n in mine if rows[n]["l"] < row["l"]]
        assert columns["n"][number] == place
        assert columns["r"][number] == len(smaller) + 1
        assert columns["d"][number] == len({rows[n]["l"] for n in smaller}) + 1
        assert columns["before"][number] == (rows[order[place - 1]]["r"] if place else None)
        after = order[place + 2 : place + 3]
        assert columns["after"][number] == (rows[after[0]]["i"] if after else None)
        assert columns["s"][number] == sum(rows[n]["l"] for n in mine)


@BRIEF
@given(ROWS, KEYS)
def test_groups_stack_and_come_apart_again(rows, key):
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(repr(value_of(row[key])), []).append(number)
    column = "t" if key != "t" else "l"

    _, stacked = run(f"SELECT {column} GROUP BY {key}", rows)
    _, apart = run(f"SELECT * FROM (SELECT {column} GROUP BY {key}) UNGROUP BY SPLIT", rows)

    assert stacked[column] == [[rows[n][column] for n in members] for members in groups.values()]
    assert apart[column] == [rows[n][column] for members in groups.values() for n in members]


@BRIEF
@given(ROWS)
def test_ungrouping_an_array_makes_a_row_of_each_element(rows):
    numbers, columns = run("SELECT r, l UNGROUP BY r", rows)

    assert numbers == [n for n, row in enumerate(rows) for _ in row["r"]]
    assert columns == {"r": [each for row in rows for each in row["r"]]}


@BRIEF
@given(ROWS, st.integers(0, 2), st.integers(0, 2), st.booleans())
def test_expanding_adds_the_neighbours(rows, before, after, overlaps):
    hits = [n for n, row in enumerate(rows) if row["l"] == 1]
    around = [m for n in hits for m in range(n - before, n + after + 1) if 0 <= m < len(rows)]

    found, _ = run(f"WHERE l = 1 EXPAND BY {before} {after} OVERLAP {overlaps}", rows)

    assert found == (around if overlaps else sorted(set(around)))


@BRIEF
@given(ROWS, KEYS)
def test_arranging_spreads_each_group_and_keeps_its_order(rows, key):
    found, _ = run(f"ARRANGE BY {key}", rows)

    assert sorted(found) == list(range(len(rows)))
    for value in {repr(value_of(row[key])) for row in rows}:
        members = [n for n in found if repr(value_of(rows[n][key])) == value]
        assert members == sorted(members)
        for stop in range(len(found) + 1):  # every prefix has its share, to within one row
            inside = sum(repr(value_of(rows[n][key])) == value for n in found[:stop])
            assert abs(inside - len(members) * stop / max(len(found), 1)) <= len(rows) / 2 + 1


@BRIEF
@given(ROWS, st.integers(0, 2**31), st.integers(0, 12), st.booleans())
def test_a_sample_is_of_the_rows_and_the_same_for_the_same_seed(rows, seed, count, replaces):
    text = f"SAMPLE BY l + 1 REPLACE {replaces} SEED {seed} LIMIT {count}"

    found, _ = run(text, rows)

    assert found == run(text, rows)[0]
    assert set(found) <= set(range(len(rows)))
    if replaces:
        assert len(found) == (count if rows else 0)
    else:
        assert len(found) == len(set(found)) == min(count, len(rows))


@examples(2)
@given(st.integers(0, 2**31))
def test_rows_are_drawn_in_proportion_to_their_weights(seed):
    rows = [{"i": 0, "f": 0.0, "t": "", "l": n, "r": []} for n in (0, 1, 2)]

    found, _ = run(f"SAMPLE BY l + 1 SEED {seed} LIMIT 6000", rows)

    shares = np.bincount(found, minlength=3) / 6000
    np.testing.assert_allclose(shares, [1 / 6, 2 / 6, 3 / 6], atol=0.04)


@BRIEF
@given(ROWS, KEYS)
def test_distributions_are_numpys(rows, key):
    _, columns = run(
        f"SELECT {key} AS k, STD(l) AS s, VAR(l) AS v, MEDIAN(i) AS m, QUANTILE(i, 0.3) AS q, "
        "HISTOGRAM(l, 3, 0, 3) AS h, FIRST(r) AS first, ANY_VALUE(t) AS some, "
        f"COUNT(DISTINCT t) AS n GROUP BY {key}",
        rows,
    )

    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(repr(value_of(row[key])), []).append(row)
    for place, members in enumerate(groups.values()):
        labels = [row["l"] for row in members]
        known = [row["i"] for row in members if row["i"] is not None]
        texts = [row["t"] for row in members if row["t"] is not None]
        assert math.isclose(columns["s"][place], np.std(labels), abs_tol=1e-12)
        assert math.isclose(columns["v"][place], np.var(labels), abs_tol=1e-12)
        assert columns["m"][place] == (np.median(known) if known else None)
        expected = np.quantile(known, 0.3) if known else None
        assert columns["q"][place] == expected or math.isclose(columns["q"][place], expected)
        assert columns["h"][place] == np.histogram(labels, 3, (0, 3))[0].tolist()
        assert columns["first"][place] == members[0]["r"]
        assert columns["some"][place] == (texts[0] if texts else None)
        assert columns["n"][place] == len(set(texts))


@BRIEF
@given(ROWS, ROWS)
def test_a_list_and_a_value_may_come_from_a_query(left, right):
    known = {row["t"] for row in right if row["t"] is not None}
    has_null = any(row["t"] is None for row in right)
    largest = max((row["i"] for row in right if row["i"] is not None), default=None)

    inside = run("WHERE t IN (SELECT t FROM other)", left, right)[0]
    outside = run("WHERE t NOT IN (SELECT t FROM other)", left, right)[0]
    equal = run("WHERE i = (SELECT MAX(i) FROM other)", left, right)[0]
    exists = run("WHERE EXISTS (SELECT * FROM other)", left, right)[0]

    assert inside == [n for n, row in enumerate(left) if row["t"] in known]
    assert outside == ([] if has_null else [
        n for n, row in enumerate(left)
        if not right or (row["t"] is not None and row["t"] not in known)
    ])  # fmt: skip
    assert equal == [n for n, row in enumerate(left) if largest is not None and row["i"] == largest]
    assert exists == (list(range(len(left))) if right else [])
