"""What a query may hold: charged before it is taken, given back, and told where it is too much.

The ceilings here are small, so that little is enough to pass them. That the process itself stays
below is measured in tests/integration/datasets/test_query_memory.py.
"""

import gc
import sys

import numpy as np
import pytest

from tensorlake_query import (
    ColumnType,
    QueryLimitError,
    UniformBatch,
    compile_query,
    user_function,
)
from tensorlake_query.execution import workers as workers_module
from tensorlake_query.values.memory import (
    Account,
    Held,
    TooMuchMemoryError,
    charge,
    collecting,
    working,
)
from tests.unit.query.array_source import ArraySource, samples

ROWS = 400
MIB = 1 << 20
BOXES = np.tile(np.array([0.0, 0.0, 2.0, 2.0], np.float32), (3000, 1))
COLUMNS = {
    "x": (ColumnType("number", "int64", ()), list(range(ROWS))),
    "t": (ColumnType("text", None, ()), [f"a text {row} " * 10 for row in range(ROWS)]),
    "long": (ColumnType("text", None, ()), ["a, " * 200_000] + [""] * (ROWS - 1)),
    "r": (
        ColumnType("number", "float32", (None,)),
        [np.ones(5000, np.float32)] + [np.ones(row % 5, np.float32) for row in range(1, ROWS)],
    ),
    "boxes": (ColumnType("number", "float32", (None, 4)), [BOXES] + [BOXES[:2]] * (ROWS - 1)),
    "mask": (
        ColumnType("bool", "bool", (None, None)),
        [np.zeros((800, 800), bool)] + [np.zeros((2, 2), bool)] * (ROWS - 1),
    ),
    "j": (ColumnType("json", None, ()), [{"k": list(range(9))}] * ROWS),
}


def source():
    return ArraySource(COLUMNS)


def run(text, limit=None, **options):
    there = source()
    return compile_query(text, there.schema).run(
        there, memory_nbytes=limit, advice="or allow more", **options
    )


def read_all(text, limit):
    result = run(text, limit, compute_columns=False)
    for name in result.computed:
        result.read(name, np.arange(result.num_rows))


REPLACED = "REPLACE(REPLACE(REPLACE(t, ' ', '{}'), 'b', '{}'), 'c', '{}')".format(
    "b" * 300, "c" * 300, "d" * 300
)
DOUBLED = "WITH a AS (SELECT long || long AS t), b AS (SELECT t || t AS t FROM a)"
ATTACKS = [  # and what the error names
    ("SAMPLE BY x + 1 LIMIT 1000000000", "SAMPLE BY"),
    (f"WHERE LENGTH({REPLACED}) = 0", "REPLACE("),
    (f"SELECT {REPLACED} AS z", "REPLACE("),
    ("WHERE " + " || ".join(["long"] * 30) + " = ''", "long || long"),
    ("WHERE LENGTH(SPLIT(long, ',')) = 0", "SPLIT"),
    ("WHERE MATCH(long, 'b')", "MATCH"),
    ("ORDER BY BM25_SIMILARITY(long, 'b') DESC LIMIT 1", "batch"),
    ("WHERE UPPER(long || long || long) = ''", "UPPER"),
    ("WHERE ANY(IOU(boxes, boxes) > 2)", "IOU"),
    ("WHERE ANY(INTERSECTS(boxes, boxes))", "INTERSECTS"),
    ("WHERE MAXSIM(boxes, boxes) > 0", "MAXSIM"),
    ("WHERE ANY(POLYGON_CONTAINS(boxes[:, :2], boxes[:, 2:]))", "POLYGON_CONTAINS"),
    ("WHERE ANY(boxes[:, 0:1] > boxes[0:3000, 0])", ">"),
    ("WHERE LENGTH(NONZERO(mask)) > 9", "NONZERO"),
    ("WHERE ARRAY_STD(mask) > 9", "ARRAY_STD"),
    ("WHERE IOU(mask, NOT mask) > 9", "IOU"),
    ("SELECT HISTOGRAM(x, 100000) AS h GROUP BY x", "GROUP BY"),
    ("SELECT HISTOGRAM(x, 100000) OVER (PARTITION BY x) AS h", "OVER"),
    ("SELECT a.x FROM this AS a CROSS JOIN this AS b CROSS JOIN this AS c", "JOIN"),
    ("SELECT a.x FROM this AS a JOIN this AS b ON a.x % 1 = b.x % 1 AND a.x >= 0", "JOIN"),
    ("SELECT a.x FROM this AS a FULL JOIN this AS b ON a.x + b.x >= 0", "JOIN"),
    ("EXPAND BY 1000000 1000000 OVERLAP true", "EXPAND BY"),
    ("SELECT r FROM (SELECT a.r AS r FROM this AS a, this AS b LIMIT 99000) UNGROUP BY r", ""),
    ("SELECT mask GROUP BY x * 0", ""),
    ("SELECT DISTINCT long || CAST(x AS TEXT)", ""),
    ("ORDER BY t || t || t || t || t || t || t || t || t || t || t || t || t || t || t || t", ""),
    ("SELECT t || t || t || t || t || t || t || t || t || t || t || t || t AS z", ""),
    ("SELECT SUM(x) OVER (PARTITION BY t || t || t || t || t || t || t || t || t) AS z", ""),
    ("SELECT [" + ",".join(["1"] * 3000) + "] AS z", "result"),
    ("SELECT '" + "a" * 5000 + "' || t AS z", ""),
    (f"{DOUBLED} SELECT LENGTH(t || t) AS n FROM b", "||"),
    ("SELECT t FROM this UNION SELECT t || t || t || t || t || t || t FROM this", ""),
    ("WHERE t IN (SELECT t || t || t || t || t || t || t || t)", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "named"), ATTACKS, ids=[named or text[:20] for text, named in ATTACKS]
)
def test_what_would_hold_too_much_is_refused_by_name(text, named):
    limit = {"": MIB // 2, "result": MIB // 2, "MATCH": MIB}.get(named, 4 * MIB)

    with pytest.raises(QueryLimitError, match="would hold") as caught:
        read_all(text, limit)

    assert named in str(caught.value)
    assert f"{limit:,} in all" in str(caught.value)
    assert caught.value.hint.endswith("or allow more")


def test_an_error_points_at_the_expression():
    text = "WHERE x < 9 AND ANY(IOU(boxes, boxes) > 2)"

    with pytest.raises(QueryLimitError) as caught:
        run(text, MIB)

    assert text[caught.value.span.start : caught.value.span.stop] == "IOU(boxes, boxes)"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("WHERE long LIKE '%, a%'", 4 * MIB),
        ("WHERE LENGTH(t || t || t || t || t || t || t || t || t) > 1000", MIB // 4),
        ("WHERE ANY(IOU(boxes[:60], boxes[:60]) > 0.5) AND x > 3", 2 * MIB),
        ("WHERE LENGTH(SPLIT(t, ' ')) > 3", MIB // 4),
        ("SELECT LENGTH(t || t || t || t || t || t || t || t || t || t) AS n", MIB // 4),
        ("SELECT SUM(LENGTH(t || t || t || t || t || t || t || t)) AS n", MIB // 4),
        ("ORDER BY LENGTH(t || t || t || t || t || t || t || t || t), x DESC", MIB // 2),
    ],
)
def test_a_batch_that_is_too_large_is_computed_in_parts_with_the_same_answer(text, limit):
    whole, parts = run(text), run(text, limit)

    assert (whole.rows is None) == (parts.rows is None)
    if whole.rows is not None:
        assert whole.rows.tolist() == parts.rows.tolist()
    assert {name: samples(batch) for name, batch in whole.columns.items()} == {
        name: samples(batch) for name, batch in parts.columns.items()
    }


def test_batches_in_threads_share_one_account(monkeypatch):
    monkeypatch.setattr(workers_module, "thread_count", lambda: 4)
    text = "WHERE LENGTH(t || t || t || t || t || t || t || t || t) > 1000"

    assert run(text, MIB // 4).rows.tolist() == run(text).rows.tolist()


def test_a_batch_that_others_left_no_memory_for_is_done_again_alone(monkeypatch):
    monkeypatch.setattr(workers_module, "thread_count", lambda: 2)
    account = Account(100)
    tried = []

    def work(item):
        tried.append(item)
        with collecting(Held(account, "a batch")):
            if item == 2 and tried.count(2) == 1:
                raise TooMuchMemoryError("a batch", 1, 100, 100)
        return item * 10

    dear = compile_query("WHERE x * 1 * 1 * 1 * 1 > 0", source().schema)
    predicate = dear._statement.plan.input.predicate
    found = list(workers_module.Workers().mapped(work, range(5), [predicate]))

    assert found == [(item, item * 10) for item in range(5)]
    assert sorted(tried) == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("WHERE x > 3", 9 * ROWS),
        ("ORDER BY t || t LIMIT 5", 2000),
        ("SELECT COUNT(*) AS n GROUP BY x % 3", 40 * ROWS),
        ("SELECT SUM(x) AS n", 40 * ROWS),
        ("SELECT a.x FROM this AS a JOIN this AS b ON a.x = b.x", 48 * ROWS),
        ("WHERE t IN (SELECT t WHERE x < 5)", 16 * ROWS + 2000),
    ],
)
def test_a_result_holds_its_rows_and_what_was_used_to_find_them_goes(text, most):
    result = run(text, 64 * MIB, compute_columns=False)

    assert 8 * result.num_rows <= result.nbytes <= most


class Halves:
    """Few distinct numbers in many rows, in batches of 2¹⁷."""

    num_rows = 16 << 17
    schema = {"x": ColumnType("number", "float64", ())}  # noqa: RUF012 - never changed
    shapes = None

    def read(self, column, rows):
        raise AssertionError("a scan reads runs")

    def read_run(self, column, start, stop):
        return UniformBatch(np.arange(start, stop) % 3 / 2)

    def statistics(self, column):
        return None


def test_groups_of_few_values_take_the_memory_of_a_batch_however_many_rows():
    compiled = compile_query("SELECT x, COUNT(*) AS n GROUP BY x", Halves.schema)

    found = compiled.run(Halves(), memory_nbytes=40 * MIB)

    assert found.num_rows == 3


def test_reading_a_result_later_is_limited_and_gives_back_what_it_took():
    result = run("SELECT t || t || t || t AS z, x + 1 AS y", MIB // 4, compute_columns=False)

    for _ in range(3):
        with pytest.raises(QueryLimitError, match="would hold"):
            result.read("z", np.arange(ROWS))
    for _ in range(9):
        read = result.read("z", np.arange(40))
    assert samples(read)[5] == COLUMNS["t"][1][5] * 4
    assert samples(result.read("y", np.arange(ROWS)))[-1] == ROWS


def test_elements_of_a_long_sample_are_taken_from_it_once():
    there = source()
    compiled = compile_query("SELECT r, long UNGROUP BY r", there.schema)

    result = compiled.run(there, compute_columns=False, memory_nbytes=16 * MIB)
    read = samples(result.read("long", np.arange(5000)))

    assert read == [COLUMNS["long"][1][0]] * 5000
    assert there.reads["long"] == [0]


def test_pairs_of_a_join_read_a_sample_once():
    there = source()
    text = "SELECT b.long AS z FROM this AS a JOIN this AS b ON b.x = 0 * a.x"

    result = compile_query(text, there.schema).run(
        there, compute_columns=False, memory_nbytes=16 * MIB
    )

    assert samples(result.read("z", np.arange(ROWS))) == [COLUMNS["long"][1][0]] * ROWS
    assert set(there.reads["long"]) == {0}
    assert len(there.reads["long"]) < ROWS // 8  # one for each step


@pytest.mark.parametrize("value", ["NULL", "'a'"])
def test_a_long_list_takes_no_column_for_each_of_its_values(value):
    text = f"WHERE t IN ('b', {', '.join([value] * 3000)})"

    assert run(text, MIB).num_rows == 0


def test_constants_that_grow_are_not_made_when_a_query_is_bound():
    text = "SELECT " + "REPLACE(" * 9 + "'a'" + ", 'a', 'aaaaaaaaaa')" * 9 + " AS z LIMIT 1"

    with pytest.raises(QueryLimitError, match="would hold"):
        run(text, 64 * MIB)


def test_the_time_is_up_also_while_a_batch_is_computed_in_parts():
    text = "WHERE LENGTH(t || t || t || t || t || t) > 9"
    asked = []
    run(text, timeout_s=5, clock=lambda: float(asked.append(None) or 0))
    as_a_whole = len(asked)

    def clock():
        asked.append(None)
        return 10.0 if len(asked) > 2 * as_a_whole else 0.0

    with pytest.raises(QueryLimitError, match="ran past its timeout of 5 s"):
        run(text, MIB // 10, timeout_s=5, clock=clock)


def test_a_function_of_the_user_is_called_once_for_each_row_that_fits():
    calls = []

    def long_text(x):
        calls.append(x)
        return "b" * 20

    functions = {"LONG": user_function("LONG", long_text, dtype="text", shape=(), vectorized=False)}
    there = source()

    result = compile_query("WHERE LONG(x) = 'a'", there.schema, functions=functions).run(
        there, memory_nbytes=8 * MIB
    )

    assert result.num_rows == 0
    assert sorted(calls) == list(range(ROWS))


@pytest.mark.slow
def test_an_account_gives_back_what_a_holder_had_when_it_is_gone():
    account = Account(100)
    held = Held(account, "a")
    held.add(60)

    with pytest.raises(TooMuchMemoryError) as caught:
        held.add(50)
    assert (caught.value.nbytes, caught.value.held, caught.value.limit) == (50, 60, 100)
    assert account.held == 60

    del held, caught
    gc.collect()
    assert account.held == 0


def test_what_is_charged_goes_to_the_one_that_collects():
    account = Account(100)
    outer, inner = Held(account, "outer"), Held(account, "inner")

    charge(10**9)  # nobody collects
    with collecting(outer):
        charge(5)
        with collecting(inner), working(50):
            charge(7)
            assert account.held == 62
        charge(1)

    assert (outer.nbytes, inner.nbytes, account.held, account.most) == (6, 7, 13, 62)


def test_numbers_are_read_for_as_many_rows_as_fit():
    kind = ColumnType("number", "float64", (1000,))
    there = ArraySource({"v": (kind, [np.full(1000, float(row % 3)) for row in range(300)])})
    most = []

    class Watched(ArraySource):
        def read(self, column, rows):
            most.append(len(rows) * 8000)
            return super().read(column, rows)

    there = Watched(there.columns)
    result = compile_query("SELECT COUNT(*) AS n GROUP BY v[0]", there.schema).run(
        there, memory_nbytes=500_000
    )

    assert samples(result.columns["n"]) == [100, 100, 100]
    assert max(most) <= 500_000


@pytest.mark.parametrize("is_in_cycle", [False, True])
def test_where_a_holder_goes_no_code_runs_that_ctrl_c_could_end_in(is_in_cycle):
    account = Account(100)
    held = Held(account, "a batch")
    held.add(60)
    others = [held]
    others.append(others if is_in_cycle else None)
    calls = []

    gc.collect()  # what other tests left, which may have finalizers
    sys.setprofile(lambda frame, event, _: calls.append((event, frame.f_code.co_filename)))
    try:
        del held, others
        gc.collect()
    finally:
        sys.setprofile(None)

    ours = [file for event, file in calls if event == "call" and "tensorlake_query" in file]
    assert ours == []  # collections call others' hooks, such as those of Hypothesis
    assert account.held == 0
