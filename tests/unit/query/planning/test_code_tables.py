"""Conditions of one label column, looked up by code: as asking each row, in every width of codes.

The oracle asks each row in plain Python, with NULL as None.
"""

import numpy as np
import pytest

from tensorlake_query import ColumnType, UniformBatch, compile_query
from tests.unit.query.array_source import ArraySource

NUM_ROWS = 1500
NUM_NAMES = 40
NAMES = tuple(f"class {number}" for number in range(NUM_NAMES))


class Coded(ArraySource):
    """Keeps classes in a narrow dtype, and counts how often it is asked for them."""

    dtype = np.dtype("uint8")

    def read_codes(self, column, start, stop):
        codes = self.read(column, np.arange(start, stop))
        return UniformBatch(codes.values.astype(self.dtype), codes.valid)


def source_of(dtype, *, nullable, num_rows=NUM_ROWS):
    rng = np.random.default_rng(5)
    codes = rng.integers(0, NUM_NAMES + 3, num_rows).tolist()  # some of no class
    if nullable:
        codes = [None if rng.random() < 0.1 else code for code in codes]
    kind = ColumnType("label", "int64", (), NAMES, nullable=nullable)
    made = Coded({"label": (kind, codes), "x": (ColumnType("number", "int64", ()), codes)})
    made.dtype = np.dtype(dtype)
    return made, codes


def like(code, prefix):
    return None if code >= NUM_NAMES else NAMES[code].startswith(prefix)


def negated(answer):
    return None if answer is None else not answer


CASES = {
    "label = 'class 7'": lambda c: c == 7,
    "label != 'class 7'": lambda c: c != 7,
    "7 != label": lambda c: c != 7,
    "label != 'class 7' AND label != 'class 9'": lambda c: c not in {7, 9},
    "label = 'class 7' OR label = 'class 9'": lambda c: c in {7, 9},
    "label > 5 AND label <= 20": lambda c: 5 < c <= 20,
    "label < 5 OR label >= 38": lambda c: c < 5 or c >= 38,
    "label IN ('class 1', 'class 2', 'class 30')": lambda c: c in {1, 2, 30},
    "label NOT IN ('class 1', 'class 2', 'class 30')": lambda c: c not in {1, 2, 30},
    "label IN (0, 3, 6, 9, 12, 15, 18, 21, 24, 27)": lambda c: c % 3 == 0 and c < 28,
    "NOT label IN (0, 3, 6, 9, 12, 15, 18, 21, 24, 27)": lambda c: c % 3 != 0 or c > 27,
    "label NOT IN (1, NULL)": lambda c: None if c != 1 else False,
    "label > -1": lambda _: True,
    "label = 999": lambda _: False,
    "label = 2.5 OR label < 2.5": lambda c: c < 3,
    "label LIKE 'class 1%'": lambda c: like(c, "class 1"),
    "label NOT LIKE 'class 1%'": lambda c: negated(like(c, "class 1")),
    "label IN (SELECT label WHERE label < 4)": lambda c: None if c >= NUM_NAMES else c < 4,
    "label IN (SELECT x WHERE x < 4)": lambda c: c < 4,
    "label NOT IN (SELECT label WHERE label < 4) AND label < 30": lambda c: 4 <= c < 30,
}


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64"])
@pytest.mark.parametrize("nullable", [False, True], ids=["whole", "nullable"])
def test_a_condition_is_looked_up_as_it_is_asked(dtype, nullable):
    source, codes = source_of(dtype, nullable=nullable)

    for condition, expected in CASES.items():
        found = compile_query(f"WHERE {condition}", source.schema).run(source).rows
        told = [None if code is None else expected(code) for code in codes]
        assert found.tolist() == [row for row, answer in enumerate(told) if answer], condition


@pytest.mark.parametrize("nullable", [False, True], ids=["whole", "nullable"])
def test_what_is_not_known_stays_so_inside_another_condition(nullable):
    source, codes = source_of("uint8", nullable=nullable)

    for condition, expected in CASES.items():
        text = f"WHERE NOT ({condition}) OR x = 1"
        found = compile_query(text, source.schema).run(source).rows
        told = [None if code is None else expected(code) for code in codes]
        kept = [row for row, code in enumerate(codes) if told[row] is False or code == 1]
        assert found.tolist() == kept, text


def test_null_is_one_of_the_answers():
    source, codes = source_of("uint8", nullable=True)

    for condition, keeps in {
        "label IS NULL OR label = 3": lambda c: c is None or c == 3,
        "label IS NOT NULL AND label != 3": lambda c: c is not None and c != 3,
        "NOT (label IS NULL) OR label = 3": lambda c: c is not None,
    }.items():
        found = compile_query(f"WHERE {condition}", source.schema).run(source).rows
        assert found.tolist() == [row for row, code in enumerate(codes) if keeps(code)], condition


def test_codes_of_two_bytes_are_looked_up_where_there_are_many_rows():
    source, codes = source_of("uint16", nullable=False, num_rows=150_000)
    every_third = ", ".join(map(str, range(0, NUM_NAMES, 3)))

    found = compile_query(f"WHERE label IN ({every_third})", source.schema).run(source).rows

    kept = [row for row, code in enumerate(codes) if code < NUM_NAMES and code % 3 == 0]
    assert found.tolist() == kept


def test_a_query_run_again_asks_what_its_inner_query_gives_now():
    source, _ = source_of("uint8", nullable=False)
    compiled = compile_query("SELECT x WHERE label IN (SELECT x WHERE x < 2)", source.schema)
    other = Coded({name: (kind, [2, 1] * 500) for name, (kind, _) in source.columns.items()})

    assert compiled.run(source).num_rows == sum(code < 2 for code in source.columns["x"][1])
    assert compiled.run(other).num_rows == 500


def test_two_conditions_of_one_column_are_one_filter_that_reads_codes_once():
    source, _ = source_of("uint8", nullable=False)
    text = "WHERE label != 'class 7' AND label != 'class 8'"

    compiled = compile_query(text, source.schema)

    assert compiled.explain().count("Filter") == 1
    assert "reads codes of label" in compiled.explain()
    assert compiled.run(source).rows_read["label"] == NUM_ROWS
