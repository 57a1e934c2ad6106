"""UNNEST: a row for each element, as two loops make them, in whatever order they are read."""

from random import Random

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryTypeError, compile_query
from tests.unit.query.array_source import ArraySource, samples

SCHEMA = {
    "id": ColumnType("number", "int64", ()),
    "flat": ColumnType("number", "int64", (None,), nullable=True),
    "boxes": ColumnType("number", "float32", (None, 4), nullable=True),
    "ragged": ColumnType("number", "int64", (None, None), nullable=True),
    "texts": ColumnType("text", None, (None,), nullable=True),
    "pair": ColumnType("number", "int64", (2,), nullable=True),
}


def drawn(seed, num_rows=30):
    """Rows of up to four items; some rows have none, some are NULL."""
    random = Random(seed)
    rows = []
    for number in range(num_rows):
        count = random.randrange(5)
        is_null = random.random() < 0.15
        items = {
            "flat": [random.randrange(9) for _ in range(count)],
            "boxes": np.array([[random.randrange(9)] * 4 for _ in range(count)]).reshape(-1, 4),
            "ragged": np.full((count, number % 3), number),
            "texts": [random.choice("abc") for _ in range(count)],
        }
        rows.append({"id": number, **(dict.fromkeys(items) if is_null else items),
                     "pair": None if random.random() < 0.3 else [number, -number]})  # fmt: skip
    return rows


def source_of(rows):
    return ArraySource({name: (kind, [row[name] for row in rows]) for name, kind in SCHEMA.items()})


def looped(rows, names):
    """(row, item of each column …) for each item."""
    return [
        (number, *(np.asarray(row[name][at]).tolist() for name in names))
        for number, row in enumerate(rows)
        for at in range(len(row[names[0]]) if row[names[0]] is not None else 0)
    ]


def asked(text, source):
    result = compile_query(text, source.schema).run(source)
    columns = {name: samples(batch) for name, batch in result.columns.items()}
    for name, column in result.passthrough.items():
        columns[name] = samples(result.source.read(column, result.rows))
    return columns


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "names", [("flat",), ("flat", "boxes"), ("boxes", "texts"), ("ragged", "flat"), ("pair",)]
)
@pytest.mark.parametrize("tail", ["", "LIMIT 7 OFFSET 3", "ORDER BY id DESC", "WHERE id % 3 = 1"])
def test_elements_are_those_of_two_loops(seed, names, tail):
    rows = drawn(seed)
    expected = looped(rows, names)
    if tail.startswith("LIMIT"):
        expected = expected[3:10]
    elif tail.startswith("ORDER"):
        expected = sorted(expected, key=lambda row: -row[0])
    elif tail:
        expected = [row for row in expected if row[0] % 3 == 1]

    found = asked(
        f"SELECT _row, id, {', '.join(names)} FROM UNNEST(this, {', '.join(names)}) {tail}",
        source_of(rows),
    )

    assert found["_row"] == found["id"] == [row[0] for row in expected]
    for number, name in enumerate(names, 1):
        given = [np.asarray(each).tolist() for each in found[name]]
        assert given == [row[number] for row in expected]


@pytest.mark.parametrize("inner", ["this", "(SELECT * WHERE id % 4 > 0)"])
def test_elements_of_several_batches_are_those_of_two_loops(inner):
    rows = drawn(7, 6000)  # of which a scan's first batch holds 8,192 elements
    chosen = rows if inner == "this" else [row for row in rows if row["id"] % 4]
    expected = [(chosen[at]["id"], *items) for at, *items in looped(chosen, ["boxes", "texts"])]

    found = asked(f"SELECT id, boxes, texts FROM UNNEST({inner}, boxes, texts)", source_of(rows))

    assert found["id"] == [row[0] for row in expected]
    assert [np.asarray(box).tolist() for box in found["boxes"]] == [row[1] for row in expected]
    assert found["texts"] == [row[2] for row in expected]


def test_a_result_of_elements_is_rows_of_the_source():
    rows = drawn(1)
    source = source_of(rows)
    compiled = compile_query("SELECT * FROM UNNEST(this, flat) AS u WHERE u.flat > 4", SCHEMA)

    result = compiled.run(source)

    assert compiled.text == "SELECT * FROM (FROM this UNGROUP BY flat) AS u WHERE u.flat > 4"
    assert result.rows.tolist() == [row for row, item in looped(rows, ["flat"]) if item > 4]
    assert "boxes" in result.passthrough
    assert "flat" in result.columns


def test_elements_of_a_query_and_of_elements():
    rows = drawn(2)
    text = (
        "SELECT COUNT(*) AS n FROM UNNEST(UNNEST((SELECT * WHERE id > 9), flat), boxes) AS u"
        " JOIN this AS other ON other.id = u.flat"
    )

    found = asked(text, source_of(rows))

    assert found == {"n": [sum(len(row["flat"] or ()) ** 2 for row in rows[10:])]}


def test_elements_group_as_in_duckdb():
    duckdb = pytest.importorskip("duckdb")
    rows = drawn(3, 200)
    database = duckdb.connect(config={"threads": 1})
    database.execute("CREATE TABLE t (id BIGINT, flat BIGINT[], texts TEXT[])")
    database.executemany(
        "INSERT INTO t VALUES (?, ?, ?)", [(row["id"], row["flat"], row["texts"]) for row in rows]
    )
    inner = "(SELECT id, unnest(flat) AS flat, unnest(texts) AS texts FROM t)"
    query = (
        "SELECT texts, COUNT(*) AS n, SUM(flat) AS s, COUNT(DISTINCT id) AS r FROM {}"
        " GROUP BY texts ORDER BY texts"
    )

    found = asked(query.format("UNNEST(this, flat, texts)"), source_of(rows))

    assert (
        list(zip(*found.values(), strict=True)) == database.execute(query.format(inner)).fetchall()
    )
    database.close()


def test_columns_of_other_lengths_are_an_error_that_names_the_row():
    rows = drawn(4, 3)
    rows[1].update(flat=[1, 2], texts=["a"])
    rows[0].update(flat=[], texts=[])

    with pytest.raises(QueryTypeError, match="row 1: 'flat' has 2 elements and 'texts' has 1"):
        asked("SELECT * FROM UNNEST(this, flat, texts)", source_of(rows))


@pytest.mark.parametrize("text", ["FROM UNNEST(this, id)", "FROM UNNEST(this, none)"])
def test_what_has_no_elements_is_refused(text):
    with pytest.raises(ValueError, match=r"take arrays apart|no tensor"):
        compile_query(text, SCHEMA)
