"""Joins of integers, which a table of the right side's keys answers: the pairs of two loops."""

from operator import eq, lt
from random import Random

import duckdb
import numpy as np
import pytest

from tensorlake_query import (
    ColumnType,
    QueryLimitError,
    QueryNameError,
    QueryTypeError,
    compile_query,
)
from tensorlake_query.execution import joins, pairing, run
from tests.unit.query.array_source import ArraySource, samples

DTYPES = ("int8", "uint8", "int32", "int64", "uint64")


def key(dtype):
    return ColumnType("number", dtype, (), nullable=True)


def drawn(random, dtype, count):
    """Keys near the ends of their type, near 0, or equal; some are NULL."""
    limits = np.iinfo(dtype)
    low = random.choice([limits.min, 0, limits.max - 6, 100])
    values = [min(low + random.randrange(7), int(limits.max)) for _ in range(count)]
    return [None if random.random() < 0.2 else value for value in values]


def looped(left, right, kind, meets=eq):
    pairs = [
        (i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if a is not None and b is not None and meets(a, b)
    ]
    met = [{pair[side] for pair in pairs} for side in (0, 1)]
    alone = [[row for row in range(len(keys)) if row not in met[side]]
             for side, keys in enumerate((left, right))]  # fmt: skip
    if kind in {"LEFT", "FULL"}:
        pairs += [(row, None) for row in alone[0]]
        pairs.sort(key=lambda pair: pair[0])
    return pairs + ([(None, row) for row in alone[1]] if kind in {"RIGHT", "FULL"} else [])


class Tables:
    def __init__(self, **sources):
        self.sources = sources

    def table(self, name, version):
        assert version is None
        return self.sources[name]


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("seed", range(25))
def test_pairs_of_integer_keys_are_those_of_two_loops(kind, seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(pairing, "PROBED_ROWS", random.choice([1, 3, 1000]))
    monkeypatch.setattr(joins, "MAX_PAIRS", random.choice([1, 2, 5, 1000]))
    dtypes = [random.choice(DTYPES) for _ in range(2)]
    keys = [drawn(random, dtype, random.choice([0, 1, 9])) for dtype in dtypes]
    if seed % 3 == 0:  # each key of the right side once
        keys[1] = list(dict.fromkeys(keys[1]))
    left, right = (
        ArraySource({"k": (key(dtype), each), "n": (key("int64"), list(range(len(each))))})
        for dtype, each in zip(dtypes, keys, strict=True)
    )
    text = f"SELECT a.n AS x, b.n AS y FROM this AS a {kind} JOIN other AS b ON a.k = b.k"

    result = compile_query(text, left.schema, tables=Tables(other=right)).run(left)

    found = []
    for name, side in (("x", left), ("y", right)):
        batch = result.columns.get(name)
        found.append(samples(side.read("n", result.rows) if batch is None else batch))
    assert list(zip(*found, strict=True)) == looped(*keys, kind)


def test_a_join_of_many_rows_reads_each_key_once():
    count = 200_000
    random = np.random.default_rng(3)
    left = ArraySource({"k": (ColumnType("number", "int64", ()), random.integers(0, 900, count))})
    right = ArraySource({"k": (ColumnType("number", "int64", ()), random.permutation(1000))})
    text = "SELECT COUNT(*) AS n FROM this AS a JOIN other AS b ON a.k = b.k"

    result = compile_query(text, left.schema, tables=Tables(other=right)).run(left)

    assert samples(result.columns["n"]) == [count]
    assert result.rows_read == {"k": count + 1000}


def test_pairs_are_counted_as_in_duckdb():
    database = duckdb.connect(config={"threads": 1})
    random = Random(5)
    keys = [[random.choice([None, *range(9), 10**12]) for _ in range(count)] for count in (700, 90)]
    left, right = (ArraySource({"k": (key("int64"), each)}) for each in keys)
    for name, each in zip(("this", "other"), keys, strict=True):
        database.execute(f"CREATE TABLE {name} (k BIGINT)")
        database.executemany(f"INSERT INTO {name} VALUES (?)", [(value,) for value in each])
    counts = "COUNT(*) AS n, COUNT(*) + 1 AS m"
    for text in (
        *(f"SELECT {counts} FROM this AS a {kind} JOIN other AS b ON a.k = b.k"
          for kind in ("INNER", "LEFT", "RIGHT", "FULL")),
        f"SELECT {counts} FROM this AS a, other AS b",
        f"SELECT {counts} FROM other AS a LEFT JOIN this AS b USING (k)",
        f"SELECT {counts} FROM this AS a JOIN other AS b ON a.k = b.k AND a.k + 1 = b.k + 1",
        f"SELECT {counts} FROM this AS a JOIN other AS b ON a.k = b.k WHERE a.k > 5 AND b.k < 8",
        f"SELECT {counts} FROM this AS a LEFT JOIN other AS b ON a.k = b.k AND a.k < b.k + 1",
        f"SELECT {counts} FROM this AS a LEFT JOIN (SELECT * FROM other LIMIT 0) AS b USING (k)",
        f"SELECT {counts}, COUNT(b.k) AS o FROM this AS a LEFT JOIN other AS b ON a.k = b.k",
        "SELECT COUNT(*) FILTER (WHERE a.k > 3) AS n FROM this AS a JOIN other AS b ON a.k = b.k",
        f"SELECT {counts} FROM this AS a, other AS b HAVING n < 5",
    ):  # fmt: skip
        result = compile_query(text, left.schema, tables=Tables(this=left, other=right)).run(left)
        found = list(zip(*map(samples, result.columns.values()), strict=True))
        assert found == database.execute(text).fetchall(), text
    database.close()


def test_pairs_that_are_only_counted_are_not_made():
    count = 200_000
    source = ArraySource({"k": (ColumnType("number", "int64", ()), np.arange(count) % 2)})
    for on, expected in ((", this AS b", count**2), ("JOIN this AS b USING (k)", count**2 // 2)):
        text = f"SELECT COUNT(*) AS n FROM this AS a {on}"
        result = compile_query(text, source.schema).run(source, max_nbytes=100_000_000)
        assert samples(result.columns["n"]) == [expected]


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("seed", range(20))
def test_groups_of_texts_of_a_join_are_those_of_its_pairs(kind, seed):
    random = Random(seed)

    def texts(count):
        return [random.choice([None, "", "a", "ä", "bb", "a"]) for _ in range(count)]

    sizes = [random.choice([0, 1, 9, 40]) for _ in range(2)]
    number, text = key("int64"), ColumnType("text", None, (), nullable=True)
    left, right = (
        ArraySource(
            {
                "k": (number, [random.randrange(6) for _ in range(size)]),
                "t": (text, texts(size)),
                side: (text, texts(size)),
            }
        )
        for side, size in zip("xy", sizes, strict=True)
    )
    on = random.choice(["ON this.k = o.k", "USING (t)", "ON this.k = o.k AND this.k != 2"])
    where = random.choice(["", " WHERE y LIKE '%a%'", " WHERE x != y OR this.k > 2"])
    keys = random.choice(["x", "y", "x, y", "y, this.k"] + ["t"] * (on == "USING (t)"))
    joined = f"FROM this {kind} JOIN o {on}{where}"

    def columns(query):
        result = compile_query(query, left.schema, tables=Tables(o=right)).run(left)
        named = [*result.columns, *result.passthrough]
        found = {name: samples(batch) for name, batch in result.columns.items()}
        for name, column in result.passthrough.items():
            found[name] = samples(result.source.read(column, result.rows))
        return [found[name] for name in sorted(named)]

    aliases = {name: f"{name} AS k{place}" for place, name in enumerate(keys.split(", "))}
    outputs = ", ".join(aliases.values())
    pairs = columns(f"SELECT {outputs}, this.k AS v {joined}")
    groups = columns(f"SELECT {outputs}, COUNT(*) AS n, SUM(this.k) AS s {joined} GROUP BY {keys}")

    expected = {}
    for *group, value in zip(*pairs, strict=True):
        members = expected.setdefault(tuple(group), [])
        members.append(value)
    assert list(zip(*groups, strict=True)) == [
        (*group, len(values), sum(v for v in values if v is not None) if set(values) - {None}
         else None)
        for group, values in expected.items()
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_groups_of_right_rows_are_those_of_the_pairs(seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(pairing, "PROBED_ROWS", random.choice([1, 3, 1000]))
    monkeypatch.setattr(joins, "MAX_PAIRS", random.choice([1, 2, 5, 1000]))
    monkeypatch.setattr(pairing, "BLOCK_ROWS", random.choice([1, 2, 1000]))
    names = ("cat", "dog", "bird")
    counts = random.choice([0, 1, 9, 40]), random.choice([0, 1, 5, 9])
    left, right = [drawn(random, random.choice(DTYPES[:4]), count) for count in counts]
    if seed % 2:  # each key of the right side once
        right = list(dict.fromkeys(right))
    floats = [None, 0.1, -0.0, 0.0, 1e300, float("inf"), float("nan")]
    values = {
        "k": (key("int64"), left),
        "v": (key("int64"), random.choices([None, 2**61, -(2**61), 3, 0], k=counts[0])),
        "f": (
            ColumnType("number", "float64", (), nullable=True),
            random.choices(floats, k=counts[0]),
        ),
    }
    groups = {
        "key": (key("int64"), right),
        "t": (
            ColumnType("text", None, (), nullable=True),
            random.choices([None, "", "a", "b"], k=len(right)),
        ),
        "l": (ColumnType("label", "int64", (), names), random.choices(range(3), k=len(right))),
        "b": (
            ColumnType("bool", "bool", (), nullable=True),
            random.choices([None, 0, 1], k=len(right)),
        ),
        "i": (key("uint8"), random.choices([None, 0, 255], k=len(right))),
    }
    this, other = ArraySource(values), ArraySource(groups)
    keys = ", ".join(random.sample(["t", "l", "b", "i", "key"], random.choice([1, 1, 2, 3])))
    calls = "COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(v) AS a, MIN(f) AS m, MAX(v) AS x"
    query = f"SELECT {keys}, {calls}, SUM(f) AS z FROM this JOIN o ON this.k = o.key"

    def answer(query):
        result = compile_query(query, this.schema, tables=Tables(o=other)).run(this)
        return {name: samples(batch) for name, batch in result.columns.items()}

    found = answer(f"{query} GROUP BY {keys}")
    of_pairs = answer(f"{query} WHERE this.k - o.key = 0 GROUP BY {keys}")  # of each pair

    assert str(found) == str(of_pairs)  # as texts, NaN is NaN
    assert sum(found["n"]) == len(looped(left, right, "INNER"))


def test_a_sum_of_groups_of_right_rows_overflows_as_that_of_pairs():
    left = ArraySource({"k": (key("int64"), [1, 1, 2]), "v": (key("int64"), [2**62, 2**62, 1])})
    right = ArraySource({"k": (key("int64"), [2, 1]), "g": (key("int64"), [7, 8])})
    query = "SELECT g, SUM(v) AS s FROM this JOIN o ON this.k = o.k{} GROUP BY g"

    def answer(where):
        result = compile_query(query.format(where), left.schema, tables=Tables(o=right)).run(left)
        return samples(result.columns["s"])

    for where in ("", " WHERE o.k < 2"):
        with pytest.raises(QueryTypeError, match="beyond int64"):
            answer(where)
    assert answer(" WHERE o.k > 1") == [1]


def test_texts_of_a_join_are_not_read_for_each_pair():
    text = ColumnType("text", None, ())
    left = ArraySource({"k": (key("int64"), [row % 5 for row in range(500)])})
    right = ArraySource({"k": (key("int64"), list(range(5))), "name": (text, list("abcab"))})
    query = "SELECT name, COUNT(*) AS n FROM this JOIN o ON this.k = o.k GROUP BY name"

    result = compile_query(query, left.schema, tables=Tables(o=right)).run(left)

    assert samples(result.columns["name"]) == ["a", "b", "c"]
    assert samples(result.columns["n"]) == [200, 200, 100]
    assert result.rows_read == {"k": 505, "name": 5}


NAMES = ("cat", "dog", "bird")
JOINED_WHERE = """
    a.l = 'cat' AND b.t LIKE 'a%' AND a.n < b.n
    b.l IN (SELECT l WHERE n > 5) AND a.r IS NOT NULL
    ANY(a.r = 2) AND LENGTH(b.r) = 1 AND ARRAY_SUM(b.r) < 9
    b.t IS NULL AND a.l != b.l
    b.l = 'dog' OR b.l IS NULL
    _row > 3 AND a.n < 15 AND b.n < 15
    RANDOM() < 0.5 AND a.n < 15
    ROW_NUMBER() % 3 = 1 AND b.l = 'dog' AND a.l = 'dog'
    a.n < 9 AND b.n < 9 EXPAND BY 1 1
    BM25_SIMILARITY(b.t, 'a') > 0.2 AND b.n < 9
    EXISTS (SELECT n WHERE n > 30) AND a.n > 3
    a.n < 0
""".strip().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("where", [line.strip() for line in JOINED_WHERE])
def test_conditions_before_a_join_leave_the_pairs_that_they_leave_after_it(where):
    random = Random(where)
    kinds = {
        "k": key("int64"),
        "n": ColumnType("number", "int64", ()),
        "l": ColumnType("label", "int64", (), NAMES, nullable=True),
        "t": ColumnType("text", None, (), nullable=True),
        "r": ColumnType("number", "int64", (None,), nullable=True),
    }
    rows = [
        (random.choice([None, 1, 2, 3]), number, random.choice([None, 0, 1, 2]),
         random.choice([None, "", "a", "ab a", "b"]),
         random.choice([None, [], [2], [1, 2], [5]]))
        for number in range(20)
    ]  # fmt: skip
    columns = {name: (kinds[name], each) for name, *each in zip(kinds, *rows, strict=True)}
    source = ArraySource(columns, zone_rows=4)

    def asked(text, *, optimize):
        compiled = compile_query(
            text, source.schema, tables=Tables(other=source), optimize=optimize
        )
        try:
            result = compiled.run(source)
        except QueryTypeError as error:  # `_row` of rows that are rows of nothing
            return str(error)
        found = {name: samples(batch) for name, batch in result.columns.items()}
        rows = None if result.rows is None else result.rows.tolist()
        return rows, result.passthrough, found

    for kind in ("INNER", "LEFT", "RIGHT", "FULL"):
        for on in ("ON a.k = b.k AND b.n != 2 AND a.l = 'dog'", "USING (k)"):
            text = (
                f"SELECT a.n AS x, b.n AS y, b.t AS t, a.r AS r FROM this AS a {kind} JOIN other"
                f" AS b {on} LEFT JOIN (SELECT n AS m WHERE n > 4) AS c ON a.n = c.m WHERE {where}"
            )
            assert asked(text, optimize=True) == asked(text, optimize=False)


def test_a_side_is_filtered_before_its_pairs_are_made():
    count = 50_000
    kinds = {"i": key("int64"), "l": ColumnType("label", "int64", (), NAMES)}
    values = {"i": list(range(count)), "l": [row % 2 for row in range(count)]}
    source = ArraySource({name: (kinds[name], values[name]) for name in kinds}, zone_rows=1000)
    text = """SELECT COUNT(*) AS n FROM this AS a JOIN this AS b ON a.l = b.l
              WHERE a.i = 5 AND b.i < 100"""

    result = compile_query(text, source.schema).run(source)

    assert samples(result.columns["n"]) == [50]
    assert result.rows_read == {"i": 2000, "l": 102}


def test_an_aggregation_of_pairs_does_not_hold_them():
    count = 2000
    number = ColumnType("number", "int64", ())
    source = ArraySource({"k": (number, [7] * count), "n": (number, list(range(count)))})
    limit = 64 << 20  # of 4·10⁶ pairs, of which each takes 16 bytes

    def asked(what):
        text = f"SELECT {what} FROM this AS a JOIN this AS b ON a.k = b.k"
        return compile_query(text, source.schema).run(source, memory_nbytes=limit)

    sums = asked("COUNT(*) AS n, SUM(b.n) AS s, MAX(a.n - b.n) AS m")
    with pytest.raises(QueryLimitError, match="would hold"):
        asked("MEDIAN(a.n) AS m")

    found = [samples(sums.columns[name]) for name in "nsm"]
    assert found == [[count**2], [count * count * (count - 1) // 2], [count - 1]]


def test_the_place_of_a_pair_is_among_all(monkeypatch):
    monkeypatch.setattr(pairing, "PROBED_ROWS", 2)
    number = ColumnType("number", "int64", ())
    source = ArraySource({"k": (number, [1, 2, 3, 4, 5, 6])})
    text = "SELECT SUM(ROW_NUMBER()) AS n FROM this AS a JOIN this AS b ON a.k = b.k"

    assert samples(compile_query(text, source.schema).run(source).columns["n"]) == [15]


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("seed", range(12))
def test_pairs_of_any_condition_are_those_of_two_loops(kind, seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(pairing, "MAX_PAIRS", random.choice([1, 2, 5, 1000]))
    keys = [drawn(random, "int64", random.choice([0, 1, 9])) for _ in range(2)]
    left, right = (
        ArraySource({"k": (key("int64"), each), "n": (key("int64"), list(range(len(each))))})
        for each in keys
    )
    text = f"SELECT a.n AS x, b.n AS y FROM this AS a {kind} JOIN other AS b ON a.k < b.k"

    result = compile_query(text, left.schema, tables=Tables(other=right)).run(left)

    found = []
    for name, side in (("x", left), ("y", right)):
        batch = result.columns.get(name)
        found.append(samples(side.read("n", result.rows) if batch is None else batch))
    assert list(zip(*found, strict=True)) == looped(*keys, kind, lt)


@pytest.mark.parametrize("condition", ["a.k < b.k", "a.g = b.g AND a.k < b.k"])
def test_a_join_of_too_many_pairs_is_refused_before_they_take_time(condition, monkeypatch):
    monkeypatch.setattr(run, "MAX_PAIRS_MADE", 1 << 16)
    source = ArraySource(
        {"k": (key("int64"), np.arange(1000)), "g": (key("int64"), np.zeros(1000, np.int64))}
    )
    text = f"SELECT COUNT(*) AS n FROM this AS a JOIN this AS b ON {condition}"

    with pytest.raises(QueryLimitError, match=r"a join makes [\d,]+ pairs of rows, more than"):
        compile_query(text, source.schema).run(source)


LISTS = ColumnType("number", "int64", (None,))


def test_the_row_of_each_table_of_a_join_leads_back_to_its_version():
    source = ArraySource({"v": (LISTS, [[5, 6], [], [7]]), "w": (LISTS, [[1, 2], [], [3]])})
    asked = (
        "SELECT x._row, y._row AS r, x.v AS v, y.w AS w FROM UNNEST(this, v) AS x"
        " JOIN UNNEST(this, w) AS y ON x._row = y._row WHERE y._row < 9 ORDER BY y._row, y.w"
    )

    found = compile_query(asked, source.schema).run(source).columns

    rows = zip(*(samples(found[name]) for name in ("x._row", "r", "v", "w")), strict=True)
    expected = [(0, 0, 5, 1), (0, 0, 6, 1), (0, 0, 5, 2), (0, 0, 6, 2), (2, 2, 7, 3)]
    assert list(rows) == expected


JOINED = "one AS a {kind} JOIN two AS b ON a.k = b.k"
ROW_QUERIES = [
    f"SELECT a.@ AS x, b.@ AS y FROM {JOINED}",
    "SELECT a.@ AS x, b.@ AS y FROM one AS a {kind} JOIN two AS b USING (k)",
    "SELECT a.@ AS x, b.@ AS y FROM one AS a {kind} JOIN two AS b ON a.@ = b.k",
    "SELECT a.@ AS x, b.@ AS y FROM one AS a {kind} JOIN two AS b ON a.@ = b.@ + 1 AND a.k < b.@",
    f"SELECT a.@ AS x, b.@ AS y FROM {JOINED} WHERE b.@ > 2 AND a.@ != 1 OR a.@ IS NULL",
    f"SELECT a.@ AS x, c.@ AS y FROM {JOINED} {{kind}} JOIN one AS c ON c.@ = b.@ WHERE c.k > 1",
    f"SELECT b.@ AS x, COUNT(*) AS y, MAX(a.@) AS z FROM {JOINED} GROUP BY b.@",
    f"SELECT DISTINCT b.@ AS x FROM {JOINED}",
    f"SELECT j.y AS x, c.@ AS y FROM (SELECT b.@ AS y FROM {JOINED}) AS j JOIN one AS c ON y = c.@",
    f"SELECT a.@ AS x FROM {JOINED} WHERE b.@ IN (SELECT c.@ FROM two AS c WHERE c.k < 3)",
]


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_rows_of_the_tables_of_a_join_are_those_of_duckdb(kind):
    random = Random(kind)
    tables = {name: drawn(random, "int8", 9) for name in ("one", "two")}
    tables = {name: [k if k is None else k % 5 for k in keys] for name, keys in tables.items()}
    sources = {name: ArraySource({"k": (key("int8"), keys)}) for name, keys in tables.items()}
    database = duckdb.connect(":memory:")
    for name, keys in tables.items():
        database.execute(f"CREATE TABLE {name} AS SELECT UNNEST(?::TINYINT[]) AS k", [keys])

    for asked in ROW_QUERIES:
        text = asked.format(kind=kind)
        theirs = database.execute(text.replace("@", "rowid")).fetchall()
        for optimize in (True, False):
            query = compile_query(
                text.replace("@", "_row"),
                sources["one"].schema,
                tables=Tables(**sources),
                optimize=optimize,
            )
            ours = query.run(sources["one"]).columns
            found = zip(*(samples(ours[name]) for name in ours), strict=True)
            assert sorted(map(str, found)) == sorted(map(str, theirs)), text


def test_row_columns_of_a_table_are_known_by_its_name_alone():
    source = ArraySource({"k": (key("int64"), [1, 2, 2])})
    joined = "FROM this AS a LEFT JOIN this AS b ON a.k = b._row"

    def found(text):
        return compile_query(text, source.schema).run(source)

    assert list(found(f"SELECT * {joined}").columns) == ["b.k"]
    assert samples(found(f"SELECT b._row {joined}").columns["b._row"]) == [1, 2, 2]
    assert samples(found("SELECT x._row FROM this AS x WHERE x._row > 0").columns["_row"]) == [1, 2]
    grouped = found(f"SELECT b._row, a._row, COUNT(*) AS n {joined} GROUP BY a._row, b._row")
    assert [*grouped.columns] == ["b._row", "a._row", "n"]
    named = f'SELECT j."b._row" AS r FROM (SELECT b._row {joined}) AS j'
    assert samples(found(named).columns["r"]) == [1, 2, 2]
    for text, expected in [
        (f"SELECT b._row AS _row {joined}", "'_row' is the row's number in its version in every"),
        (f"SELECT DATA(b._row, 0) AS x {joined}", "DATA takes a column, not b._row"),
        (f"SELECT b._row_id {joined}", "'b._row_id', row 0: rows of this source have no identity"),
        (f"SELECT b._rows {joined}", "'b' has no column '_rows'"),
        (
            "SELECT b._row FROM this AS a JOIN (SELECT k GROUP BY k) AS b ON a.k = b.k",
            "'b' has no column '_row': its rows are made by a query, and are rows of no version",
        ),
    ]:
        with pytest.raises((QueryNameError, QueryTypeError), match=expected):
            found(text)


def test_an_explained_condition_on_the_row_of_a_table_is_below_the_join():
    source = ArraySource({"k": (key("int64"), [1, 2, 2])})
    asked = "FROM this AS a JOIN this AS b ON a._row = b.k WHERE b._row > 1"

    plan = compile_query(f"SELECT a._row {asked}", source.schema).explain()

    assert plan.splitlines()[-2:] == ["      Filter b._row > 1", "        Scan"]
