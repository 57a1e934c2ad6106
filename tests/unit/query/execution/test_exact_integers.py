"""Integers of different types meet as integers: DuckDB is asked the same."""

from itertools import product

import duckdb
import numpy as np
import pytest

import tensorlake as tl

DTYPES = {
    "int8": "TINYINT", "uint8": "UTINYINT", "int16": "SMALLINT", "uint16": "USMALLINT",
    "int32": "INTEGER", "uint32": "UINTEGER", "int64": "BIGINT", "uint64": "UBIGINT",
    "float64": "DOUBLE",
}  # fmt: skip
BIG = 2**53
NUMBERS = (-(2**63), -BIG - 1, -1, 0, 3, 100, 255, BIG, BIG + 1, 2**63 - 1, 2**63, 2**64 - 1)


@pytest.fixture(scope="module")
def engines():
    """A dataset with a column of each type, and the same in DuckDB, where `this` is its name."""
    ds = tl.create("memory://exact-integers", {"row": "int64", **{name: name for name in DTYPES}})
    columns = {"row": np.arange(len(NUMBERS))}
    for name in DTYPES:
        if name == "float64":
            columns[name] = np.array(NUMBERS, name)
        else:
            limits = np.iinfo(name)
            fitting = [each for each in NUMBERS if limits.min <= each <= limits.max]
            columns[name] = np.array([fitting[row % len(fitting)] for row in columns["row"]], name)
    ds.extend(columns)
    ds.commit("numbers near the ends of their types")
    database = duckdb.connect(config={"threads": 1})
    types = ", ".join(f'"{name}" {kind}' for name, kind in DTYPES.items())
    database.execute(f'CREATE TABLE this ("row" BIGINT, {types})')
    rows = [[each.item() for each in row] for row in zip(*columns.values(), strict=True)]
    database.executemany(f"INSERT INTO this VALUES ({', '.join('?' * len(columns))})", rows)
    yield ds, database
    database.close()


def asked(ds, query, *names):
    view = ds.query(query)
    return sorted(zip(*(np.asarray(view[name]).tolist() for name in names), strict=True))


def test_a_join_compares_integers_of_any_types_exactly(engines):
    ds, database = engines
    for left, right in product(DTYPES, repeat=2):
        ons = [f'a."{left}" = b."{right}"']
        if "uint64" in {left, right}:  # keys that are numbered together
            ons.append(f'{ons[0]} AND a."{right}" = b."{left}"')
        for on in ons:
            query = f'SELECT a."row" AS x, b."row" AS y FROM this AS a JOIN this AS b ON {on}'
            assert asked(ds, query, "x", "y") == sorted(database.execute(query).fetchall()), query


def test_using_compares_integers_of_any_types_exactly(engines):
    ds, database = engines
    for left, right in (("int64", "uint64"), ("uint64", "int8"), ("uint64", "int64")):
        query = (
            f'SELECT a."row" AS x, b."row" AS y FROM (SELECT "row", "{left}" AS k FROM this) AS a'
            f' JOIN (SELECT "row", "{right}" AS k FROM this) AS b USING (k)'
        )
        assert asked(ds, query, "x", "y") == sorted(database.execute(query).fetchall()), query


def test_an_outer_join_merges_keys_in_a_type_that_holds_both(engines):
    ds, database = engines
    for kind, left, right in product(("RIGHT", "FULL"), ("int8", "uint8"), ("int64", "uint32")):
        query = (
            f'SELECT k FROM (SELECT "{left}" AS k FROM this) AS a'
            f' {kind} JOIN (SELECT "{right}" AS k FROM this) AS b USING (k)'
        )
        assert asked(ds, query, "k") == sorted(database.execute(query).fetchall()), query


@pytest.mark.parametrize(
    "query",
    [
        'SELECT "{a}" AS k FROM this UNION SELECT "{b}" AS k FROM this',
        'SELECT "{a}" AS k FROM this INTERSECT SELECT "{b}" AS k FROM this',
        'SELECT "{a}" AS k FROM this EXCEPT SELECT "{b}" AS k FROM this',
        'SELECT COALESCE("{a}", "{b}") AS k FROM this',
        'SELECT GREATEST("{a}", "{b}") AS k FROM this',
        'SELECT CASE WHEN "row" > 5 THEN "{a}" ELSE "{b}" END AS k FROM this',
    ],
)
def test_alternatives_are_integers_of_a_type_that_holds_both_or_refused(engines, query):
    ds, database = engines
    for a, b in (("int64", "uint32"), ("uint8", "uint64"), ("int8", "int64")):
        text = query.format(a=a, b=b)
        found = asked(ds, text, "k")
        assert found == sorted(database.execute(text).fetchall()), text
        assert {type(row[0]) for row in found} <= {int}
    for a, b in (("int64", "uint64"), ("uint64", "int8")):
        with pytest.raises(tl.QueryTypeError, match=r"(?s)uint64.*CAST one side"):
            ds.query(query.format(a=a, b=b))


def test_an_outer_join_refuses_to_merge_keys_that_no_integer_type_holds(engines):
    ds, _ = engines
    with pytest.raises(tl.QueryTypeError, match=r"(?s)uint64.*CAST one side"):
        ds.query(
            "SELECT k FROM (SELECT int64 AS k FROM this) AS a"
            " FULL JOIN (SELECT uint64 AS k FROM this) AS b USING (k)"
        )
