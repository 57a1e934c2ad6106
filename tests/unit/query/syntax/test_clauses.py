"""SELECT, GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, EXPLAIN: what comes back, in which order."""

import math

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryLimitError, compile_query
from tests.unit.query.array_source import NUMBER, ArraySource, samples
from tests.unit.query.pets import pets


def run(text, source=None, **params):
    source = source or pets()
    return compile_query(text, source.schema, params=params).run(source)


def table(text, **params):
    """Return the computed columns of a query as lists."""
    return {name: samples(batch) for name, batch in run(text, **params).columns.items()}


@pytest.mark.parametrize("text", ["SELECT *", "select * from this", "LIMIT 100", None])
def test_everything_is_every_row_and_column_and_nothing_is_read(text):
    source = pets()

    result = run(text, source)

    assert result.rows.tolist() == list(range(8))
    assert result.passthrough == {name: name for name in source.schema}
    assert result.rows_read == {}
    assert source.reads == {}


def test_select_names_columns_by_alias_name_or_text():
    source = pets()

    compiled = compile_query("SELECT label AS what, tiny, tiny+1, boxes[:,2] AS w", source.schema)
    result = compiled.run(source)

    assert list(compiled.columns) == ["what", "tiny", "tiny + 1", "w"]
    assert compiled.columns["what"].names == ("cat", "dog", "bird")
    assert compiled.columns["w"] == ColumnType("number", "float32", (None,))
    assert result.passthrough == {"what": "label", "tiny": "tiny"}
    assert list(result.columns) == ["tiny + 1", "w"]


def test_a_quoted_name_may_hold_anything():
    source = ArraySource({"camera/left": (NUMBER, [1.0, 2.0]), 'a"b': (NUMBER, [3.0, 4.0])})

    assert run('WHERE "camera/left" > 1 AND "a""b" = 4', source).rows.tolist() == [1]


def test_keywords_that_are_not_reserved_are_names():
    names = ["asc", "nulls", "first", "percent", "explain", "version", "tag", "sample", "array"]
    source = ArraySource({name: (NUMBER, [2.0, 1.0]) for name in names})

    for name in names:
        result = run(f"SELECT {name} WHERE {name} > 0 ORDER BY {name} ASC NULLS LAST", source)
        assert result.rows.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("order", "rows"),
    [
        ("score", [7, 0, 3, 1, 5, 4, 6, 2]),
        ("score DESC", [6, 4, 1, 5, 3, 0, 7, 2]),
        ("count", [4, 2, 0, 3, 5, 7, 1, 6]),
        ("count DESC", [7, 3, 5, 0, 2, 4, 1, 6]),
        ("count NULLS FIRST", [1, 6, 4, 2, 0, 3, 5, 7]),
        ("count DESC NULLS FIRST", [1, 6, 7, 3, 5, 0, 2, 4]),
        ("count ASC NULLS LAST", [4, 2, 0, 3, 5, 7, 1, 6]),
        ("caption", [4, 1, 6, 0, 3, 5, 7, 2]),
        ("caption DESC", [7, 5, 3, 0, 6, 1, 4, 2]),
        ("label, score DESC", [5, 3, 0, 4, 1, 7, 6, 2]),
        ("ok DESC, tiny", [0, 5, 3, 4, 7, 1, 6, 2]),
        ("tiny % 2, tiny", [0, 6, 7, 1, 5, 2, 4, 3]),
        ("meta['iso'] + 0 DESC", [1, 0, 2, 3, 4, 5, 6, 7]),
        ("DOT(vector, [1, 2, 3])", [6, 2, 0, 1, 3, 5, 7, 4]),
    ],
)
@pytest.mark.parametrize("limit", ["", " LIMIT 3", " LIMIT 3 OFFSET 2", " OFFSET 5"])
def test_order_is_stable_with_nan_after_numbers_and_null_last(order, rows, limit):
    stop = 3 if "LIMIT 3" in limit else None
    start = int(limit.split()[-1]) if "OFFSET" in limit else 0

    result = run(f"ORDER BY {order}{limit}")

    assert result.rows.tolist() == rows[start:][:stop]


def test_an_alias_is_seen_by_order_by():
    assert run("SELECT tiny % 7 AS rest ORDER BY rest, tiny").rows.tolist() == [
        0,
        4,
        5,
        6,
        7,
        2,
        3,
        1,
    ]


def test_a_column_wins_over_an_alias_of_its_name():
    assert run("SELECT -tiny AS score ORDER BY score LIMIT 1").rows.tolist() == [7]


@pytest.mark.parametrize(
    ("limit", "rows"),
    [
        ("LIMIT 2", [0, 1]),
        ("LIMIT 0", []),
        ("OFFSET 6", [6, 7]),
        ("OFFSET 99", []),
        ("LIMIT 2 OFFSET 7", [7]),
        ("LIMIT 50 PERCENT", [0, 1, 2, 3]),
        ("LIMIT 30 PERCENT", [0, 1]),
        ("LIMIT 12.5 PERCENT OFFSET 1", [1]),
        ("LIMIT 0 PERCENT", []),
        ("LIMIT 100 PERCENT", list(range(8))),
        ("LIMIT $n OFFSET $m", [1, 2, 3]),
    ],
)
def test_limit_and_offset_cut_a_range(limit, rows):
    params = {"n": 3, "m": 1} if "$n" in limit else {}

    assert run(limit, **params).rows.tolist() == rows


def test_a_limit_stops_the_scan():
    source = ArraySource({"x": (NUMBER, [float(i) for i in range(200_000)])})

    result = run("WHERE x >= 5 LIMIT 3", source)

    assert result.rows.tolist() == [5, 6, 7]
    assert result.rows_read["x"] < 100_000


def test_aggregates_without_groups_give_one_row():
    result = run(
        "SELECT COUNT(*), COUNT(count), SUM(count), AVG(count), MIN(count), MAX(count), MIN(score),"
        " MAX(caption), SUM(ok), MIN(label)"
    )

    assert result.rows is None
    assert {name: samples(batch) for name, batch in result.columns.items()} == {
        "COUNT(*)": [8], "COUNT(count)": [6], "SUM(count)": [27], "AVG(count)": [4.5],
        "MIN(count)": [-2], "MAX(count)": [12], "MIN(score)": [0.0], "MAX(caption)": ["Ünï"],
        "SUM(ok)": [3], "MIN(label)": [0],
    }  # fmt: skip


def test_aggregates_of_nothing_are_null_and_the_count_is_0():
    answer = table("SELECT COUNT(*) AS n, SUM(count) AS s, MAX(caption) AS c WHERE false")

    assert answer == {"n": [0], "s": [None], "c": [None]}
    assert table("SELECT COUNT(*) AS n WHERE count IS NULL AND ok = 1 GROUP BY label") == {"n": []}


def test_groups_come_in_order_of_appearance_and_null_is_one():
    answer = table("SELECT ok, COUNT(*) AS n, MAX(tiny) AS top GROUP BY ok")

    assert answer == {"ok": [True, False, None], "n": [3, 3, 2], "top": [255, 250, 3]}


def test_group_keys_may_be_several_and_computed():
    answer = table(
        "SELECT label, tiny > 50 AS big, COUNT(*) AS n GROUP BY label, big ORDER BY n DESC"
    )

    assert answer == {"label": [0, 1, 2, 0, 1], "big": [False, True, False, True, False],
                      "n": [2, 2, 2, 1, 1]}  # fmt: skip


def test_a_nan_key_is_one_group():
    source = ArraySource({"x": (NUMBER, [math.nan, 1.0, math.nan, 1.0])})

    assert samples(run("SELECT COUNT(*) AS n GROUP BY x", source).columns["n"]) == [2, 2]


def test_having_keeps_groups_and_sees_aliases():
    assert table("SELECT label, COUNT(*) AS n GROUP BY label HAVING n > 2 ORDER BY label DESC") == {
        "label": [1, 0], "n": [3, 3],
    }  # fmt: skip
    assert table("SELECT COUNT(*) AS n HAVING COUNT(*) > 100") == {"n": []}
    assert table("SELECT COUNT(*) AS n HAVING false") == {"n": []}


def test_expressions_of_aggregates_are_computed():
    answer = table(
        "SELECT label, MAX(tiny) - MIN(tiny) AS span, AVG(tiny * 2.0) / 2 AS mean "
        "WHERE label != 'bird' GROUP BY label ORDER BY MAX(tiny) - MIN(tiny) LIMIT 1"
    )

    assert answer["label"] == [1]
    assert answer["span"] == [243]
    np.testing.assert_allclose(answer["mean"], (250 + 7 + 100) / 3)


def test_count_reads_nothing_that_it_does_not_need():
    source = pets()

    result = run("SELECT COUNT(*) AS n", source)

    assert samples(result.columns["n"]) == [8]
    assert source.reads == {}


def test_explain_gives_the_plan_and_reads_nothing():
    source = pets()
    compiled = compile_query("EXPLAIN WHERE label = 'cat' LIMIT 1", source.schema)

    result = compiled.run(source)

    assert not compiled.selects_rows
    assert list(compiled.columns) == ["plan"]
    assert samples(result.columns["plan"]) == compiled.explain().split("\n")
    assert source.reads == {}


def test_an_empty_source_gives_no_rows():
    empty = ArraySource({name: (kind, []) for name, (kind, _) in pets().columns.items()})

    result = run(
        "SELECT *, boxes[:, 0] AS x, LOWER(caption) AS c WHERE score > 0.5 ORDER BY x[0]", empty
    )

    assert result.rows.tolist() == []
    assert samples(result.columns["x"]) == []
    assert samples(result.columns["c"]) == []


def test_evaluate_computes_one_output_for_any_rows():
    source = pets()
    compiled = compile_query("SELECT tiny + 1 AS more, label WHERE label = 'cat'", source.schema)

    assert samples(compiled.evaluate(source, "more", np.array([7, 0, 7]))) == [101, 1, 101]
    assert samples(compiled.evaluate(source, "label", np.array([2]))) == [2]
    assert samples(compiled.evaluate(source, "more", np.array([], np.int64))) == []


def test_virtual_columns_can_be_left_for_later():
    source = pets()

    result = compile_query("SELECT tiny + 1 AS more", source.schema).run(
        source, compute_columns=False
    )

    assert result.columns == {}
    assert source.reads == {}


def test_a_timeout_ends_the_run_with_an_error():
    source = ArraySource({"x": (NUMBER, [float(i) for i in range(1000)])})

    with pytest.raises(QueryLimitError, match="ran past its timeout of 0"):
        compile_query("WHERE x > 1", source.schema).run(source, timeout_s=0)


def test_a_timeout_is_checked_between_images():
    class Slow(ArraySource):
        def read(self, column, rows):
            clock[0] += len(rows)
            return super().read(column, rows)

    clock = [0.0]
    kind = ColumnType("media", "uint8", (None, None))
    source = Slow({"image": (kind, [np.zeros((1, 1))] * 500)})
    compiled = compile_query("WHERE ANY(image > 1)", source.schema)

    with pytest.raises(QueryLimitError, match="ran past its timeout of 100"):
        compiled.run(source, timeout_s=100, clock=lambda: clock[0])

    assert len(source.reads["image"]) < 200


def test_row_number_is_the_row_of_the_source_everywhere():
    result = run("SELECT ROW_NUMBER() AS r WHERE ROW_NUMBER() >= 5 ORDER BY score DESC")

    assert result.rows.tolist() == samples(result.columns["r"]) == [6, 5, 7]


def test_texts_of_an_array_come_apart_as_rows():
    found = run("SELECT part FROM (SELECT SPLIT(caption, ' ') AS part) UNGROUP BY part")

    texts = pets().columns["caption"][1]
    wanted = [part for text in texts if text is not None for part in text.split(" ")]
    assert samples(found.columns["part"]) == wanted
