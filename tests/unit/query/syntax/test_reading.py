"""What is read: columns that matter, for the rows that got that far, in zones that can match."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tensorlake_query import ColumnType, UniformBatch, compile_query
from tensorlake_query.planning.rules import RULES
from tests.unit.query.array_source import NUMBER, ArraySource, IndexedSource
from tests.unit.query.pets import pets


def numbered(num_rows: Any = 1000, **options: Any):
    numbers = [float(row) for row in range(num_rows)]
    text = ColumnType("text", None, (), nullable=True)
    label = ColumnType("label", "int64", (), ("cat", "dog"))
    return ArraySource(
        {
            "x": (NUMBER, numbers),
            "y": (NUMBER, [number % 10 for number in numbers]),
            "label": (label, [row // 500 for row in range(num_rows)]),
            "pair": (ColumnType("number", "int64", (2,)), [[row, -row] for row in range(num_rows)]),
            "day": (text, [None if row < 100 else f"d{row // 100}" for row in range(num_rows)]),
            "nan": (NUMBER, [float("nan") if row % 2 else 1.0 for row in range(num_rows)]),
        },
        **options,
    )  # fmt: skip


def run(text: Any, source: Any, **params: Any) -> Any:
    return compile_query(text, source.schema, params=params).run(source)


def test_a_filter_reads_only_the_rows_that_earlier_filters_kept():
    source = pets()

    result = run("WHERE ANY(image > 249) AND label = 'cat' AND score < 0.5", source)

    assert source.reads == {"label": list(range(8)), "score": [0, 3, 5], "image": [0, 3]}
    assert result.rows_read == {"label": 8, "score": 3, "image": 2}


def test_virtual_columns_are_read_for_the_final_rows_alone():
    source = pets()

    run("SELECT image[0, 0] AS pixel ORDER BY score DESC LIMIT 2", source)

    assert source.reads["image"] == [6, 4]
    assert set(source.reads) == {"score", "image"}


def test_virtual_columns_share_what_they_read():
    source = pets()

    run("SELECT image[0, 0] AS first, image[-1, -1] AS last, ARRAY_SUM(image) AS s", source)

    assert source.reads["image"] == list(range(8))


def test_plain_columns_are_never_read():
    source = pets()

    result = run("SELECT image, label AS what WHERE tiny > 100", source)

    assert set(source.reads) == {"tiny"}
    assert result.passthrough == {"image": "image", "what": "label"}


def test_shapes_are_asked_for_without_reading():
    source = pets()

    result = run("WHERE SHAPE(image)[0] >= 4 AND SIZE(image) > 20", source)

    assert result.rows.tolist() == [1, 3, 7]
    assert source.reads == {}
    assert source.shape_reads["image"] == 8


def test_whether_an_image_is_there_is_known_without_decoding_it():
    kind = ColumnType("media", "uint8", (None, None), nullable=True)
    source = ArraySource({"image": (kind, [np.zeros((2, 3)), None, np.zeros((1, 1))])})

    assert run("WHERE image IS NULL", source).rows.tolist() == [1]
    assert run("WHERE image IS NOT NULL", source).rows.tolist() == [0, 2]
    assert run("SELECT COUNT(image) AS n", source).columns["n"].values.tolist() == [2]
    assert source.reads == {}


def test_a_column_that_cannot_be_null_is_not_read_to_know_it():
    source = pets()

    assert run("WHERE image IS NULL OR score IS NULL", source).rows.tolist() == []
    assert run("SELECT COUNT(image) AS n", source).columns["n"].values.tolist() == [8]
    assert source.reads == source.shape_reads == {}


def test_the_shape_of_a_fixed_column_is_known_without_asking():
    source = pets()

    assert run("WHERE SHAPE(matrix)[1] = 3", source).rows.tolist() == list(range(8))
    assert source.reads == source.shape_reads == {}


def test_a_condition_that_is_never_true_reads_nothing():
    source = pets()

    assert run("WHERE score > 0.5 AND 1 > 2", source).rows.tolist() == []
    assert source.reads == {}


def test_rows_repeat_no_read_within_a_batch():
    source = pets()

    run("WHERE score > 0 AND score < 0.9 AND score != 0.5 ORDER BY score", source)

    assert source.reads["score"] == list(range(8))


@pytest.mark.parametrize(
    ("condition", "zones"),
    [
        ("x < 100", [0]),
        ("x <= 100", [0, 1]),
        ("x > 899", [9]),
        ("x >= 899", [8, 9]),
        ("x = 450", [4]),
        ("450 = x", [4]),
        ("100 > x", [0]),
        ("x BETWEEN 250 AND 350", [2, 3]),
        ("x IN (5, 950)", [0, 9]),
        ("x < 100 OR x > 899", [0, 9]),
        ("x > 300 AND x < 500 AND y = 3", [3, 4]),
        ("x > 2000", []),
        ("x != 5", list(range(10))),
        ("x < 100 OR y = 1", list(range(10))),
        ("NOT x < 100", list(range(1, 10))),
        ("NOT (x >= 100 AND x != 350)", [0, 3]),
        ("NOT (x >= 100 OR x + 1 < 5)", [0]),
        ("NOT (x >= 100 AND x + 1 < 5)", list(range(10))),
        ("x + 1 < 100", list(range(10))),
        ("label = 'dog'", [5, 6, 7, 8, 9]),
        ("label != 'dog'", [0, 1, 2, 3, 4]),
        ("label IN ('cat')", [0, 1, 2, 3, 4]),
        ("ANY(pair > 850)", [8, 9]),
        ("ANY(pair < -850)", [8, 9]),
        ("day = 'd3'", [3]),
        ("day < 'd3'", [1, 2]),
        ("day IS NULL", [0]),
        ("day IS NOT NULL", [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("nan = 2", []),
        ("nan != 1", list(range(10))),
    ],
)
def test_zones_that_cannot_match_are_not_read(condition: Any, zones: Any):
    source = numbered(zone_rows=100)

    result = run(f"WHERE {condition}", source)

    read = {row // 100 for rows in source.reads.values() for row in rows}
    assert sorted(read) == zones
    assert result.rows.tolist() == run(f"WHERE {condition}", numbered()).rows.tolist()


@pytest.mark.parametrize("condition", ["x = 0.05", "x IN (0.05, 3)", "x >= 0.05", "0.05 <= x"])
def test_bounds_are_compared_in_the_dtype_of_the_column(condition: Any):
    kind = ColumnType("number", "float32", ())
    source = ArraySource({"x": (kind, [np.float32(0.05)] * 4 + [np.float32(-1)] * 4)}, zone_rows=4)

    assert run(f"WHERE {condition}", source).rows.tolist() == [0, 1, 2, 3]
    assert source.reads["x"] == [0, 1, 2, 3]


def test_a_zone_without_bounds_is_read():
    class Unknown(ArraySource):
        def statistics(self, column: Any):
            known = super().statistics(column)
            if known is not None:
                known.known[3] = False
            return known

    source = Unknown(numbered().columns, zone_rows=100)

    assert run("WHERE x < 50", source).rows.tolist() == list(range(50))
    assert {row // 100 for row in source.reads["x"]} == {0, 3}


def test_top_k_gives_what_sorting_all_gives():
    rng = np.random.default_rng(7)
    num_rows = 150_000
    values = rng.integers(0, 1000, num_rows).astype(np.float64)
    values[rng.integers(0, num_rows, 100)] = np.nan
    source = ArraySource({"x": (NUMBER, values.tolist())})

    for text in ("ORDER BY x DESC LIMIT 40 OFFSET 3", "ORDER BY x LIMIT 20000"):
        fast: Any = compile_query(text, source.schema).run(source)
        slow: Any = compile_query(text, source.schema, optimize=False).run(source)
        assert fast.rows.tolist() == slow.rows.tolist()


class Coded(IndexedSource):
    """Keeps classes as bytes."""

    def read_codes(self, column: Any, start: Any, stop: Any):
        codes: Any = self.read(column, np.arange(start, stop))
        return UniformBatch(codes.values.astype(np.uint8), codes.valid)


def work(text: Any, rules: Any, indexed: Any = ()):
    """Count the rows that go from step to step, the samples that are read and their bytes."""
    mask = ColumnType("number", "uint8", (None, None), is_parted=True)
    columns = {**numbered().columns, "mask": (mask, [np.zeros((9, 9))] * 1000)}
    source = Coded(columns, zone_rows=100, indexed=indexed)
    compiled: Any = compile_query(text, source.schema, optimize=False)
    plan = compiled._statement.plan
    for rule in rules:
        plan = rule(plan)
    statement = structs.replace(compiled._statement, plan=plan)
    told = dataclasses.replace(compiled, _statement=statement).analyze(source)
    counts = re.findall(r"([\d,]+) (?:rows?|samples|bytes)\b", told)
    return sum(int(count.replace(",", "")) for count in counts)


WORTH = {
    "fold_constants": "WHERE x > 5 AND 1 > 2",
    "split_filters": "WHERE y = 3 AND day LIKE '%5'",
    "drop_decided_filters": "WHERE 1 > 2",
    "order_filters": "WHERE day LIKE 'd%' AND y = 3",
    "filter_sides": "SELECT a.x FROM this AS a JOIN this AS b ON a.y = b.y WHERE a.x < 100",
    "prune_zones": "WHERE x < 100",
    "compare_codes": "WHERE label = 'cat'",
    "use_indexes": "WHERE y = 3",
    "read_parts": "SELECT mask[0, 0] AS corner, CONTAINS(mask, 1) AS has_class",
    "keep_top_k": "ORDER BY y LIMIT 3",
    "read_late": "SELECT x WHERE y = 3",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_without_a_rule_there_is_more_to_do(rule: Any):
    others = [each for each in RULES if each is not rule]
    text = WORTH[rule.__name__]

    indexed = ["y"] if rule.__name__ == "use_indexes" else []
    assert work(text, RULES, indexed) < work(text, others, indexed)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("label = 'cat'", range(500)),
        ("'cat' != label", range(500, 1000)),
        ("label = 1", range(500, 1000)),
        ("label < 300", range(1000)),
        ("label = 300", []),
        ("label > -1", range(1000)),
        ("-1 = label", []),
        ("label = 0.5", []),
        ("label IN ('cat')", range(500)),
        ("label NOT IN ('cat', 300)", range(500, 1000)),
        ("label != 'cat' AND label + 255 = 256", range(500, 1000)),
        ("label != 'cat' AND label != 'dog'", []),
        ("label = 'cat' OR label = 'dog'", range(1000)),
        ("NOT (label = 'cat' OR label IN ('cat'))", range(500, 1000)),
    ],
)
def test_codes_are_compared_in_whatever_width_they_come(condition: Any, rows: Any):
    source = Coded(numbered().columns)

    for text in (f"WHERE {condition}", f"SELECT label + 255 AS wide WHERE {condition}"):
        result: Any = compile_query(text, source.schema).run(source)
        assert result.rows.tolist() == list(rows)
    assert result.columns["wide"].values.tolist() == [255 + row // 500 for row in rows]


def test_classes_that_a_filter_compared_are_not_read_again():
    source = Coded(numbered().columns)

    result = run("SELECT label + 255 AS wide WHERE label != 'cat' AND label < 2", source)

    assert result.rows_read["label"] == 1000
    assert set(result.columns["wide"].values.tolist()) == {256}
