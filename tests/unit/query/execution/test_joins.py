"""Joins of integers, which a table of the right side's keys answers: the pairs of two loops."""

from random import Random

import numpy as np
import pytest

from tensorlake_query import ColumnType, compile_query
from tensorlake_query.execution import pairing
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


def looped(left, right, kind):
    pairs = [
        (i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b and a is not None
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


def test_texts_of_a_join_are_not_read_for_each_pair():
    text = ColumnType("text", None, ())
    left = ArraySource({"k": (key("int64"), [row % 5 for row in range(500)])})
    right = ArraySource({"k": (key("int64"), list(range(5))), "name": (text, list("abcab"))})
    query = "SELECT name, COUNT(*) AS n FROM this JOIN o ON this.k = o.k GROUP BY name"

    result = compile_query(query, left.schema, tables=Tables(o=right)).run(left)

    assert samples(result.columns["name"]) == ["a", "b", "c"]
    assert samples(result.columns["n"]) == [200, 200, 100]
    assert result.rows_read["name"] < 20
