"""The query engine beside DuckDB: filters, first rows, groups, joins and texts, in memory and warm.

Both have two threads and the same values, each in a process of its own, and return arrays. DuckDB
runs in this environment, which the tests install it into.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement, warm_up
from benchmarks.query import best_of

__all__ = ["BENCHMARKS"]

THREADS = 2
NAMES = tuple(f"class {number}" for number in range(10))
NUMBERS, TEXTS, PAIRS = "numbers", "texts", "pairs"
Columns = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One query in both languages, over one of the tables."""

    key: str
    title: str
    table: str
    tql: str
    sql: str
    goal: float


TASKS = (
    Task("engine-range", "Find the quarter of 10⁷ rows in a range", NUMBERS,
         "WHERE x >= 0.25 AND x < 0.5", "SELECT id FROM t WHERE x >= 0.25 AND x < 0.5", 1.2),
    Task("engine-three", "Find the rows of 10⁷ that meet three conditions", NUMBERS,
         "WHERE x < 0.3 AND y >= 500 AND label = 'class 3'",
         "SELECT id FROM t WHERE x < 0.3 AND y >= 500 AND label = 'class 3'", 1.0),
    Task("engine-top", "Find the first 10 of 10⁷ rows", NUMBERS, "ORDER BY x DESC LIMIT 10",
         "SELECT id FROM t ORDER BY x DESC LIMIT 10", 0.5),
    Task("engine-top-sorted", "Find the first 10 of 10⁷ rows of a sorted column", NUMBERS,
         "ORDER BY id LIMIT 10", "SELECT id FROM t ORDER BY id LIMIT 10", 0.5),
    Task("engine-group-label", "Group 10⁷ rows by 10 labels", NUMBERS,
         "SELECT label, COUNT(*) AS n, AVG(x) AS m GROUP BY label",
         "SELECT label, COUNT(*), AVG(x) FROM t GROUP BY label", 1.0),
    Task("engine-group-many", "Group 10⁷ rows by 10⁵ integers", NUMBERS,
         "SELECT k, COUNT(*) AS n, AVG(x) AS m GROUP BY k",
         "SELECT k, COUNT(*), AVG(x) FROM t GROUP BY k", 1.0),
    Task("engine-join", "Join 10⁶ rows with 10⁴ and average a column", PAIRS,
         "SELECT COUNT(*) AS n, AVG(w) AS m FROM this JOIN $other AS o ON this.k = o.k",
         "SELECT COUNT(*), AVG(w) FROM t JOIN o ON t.k = o.k", 1.0),
    Task("engine-join-group", "Join 10⁶ rows with 10⁴ and group them by 10 texts of these", PAIRS,
         "SELECT name, COUNT(*) AS n FROM this JOIN $other AS o ON this.k = o.k GROUP BY name",
         "SELECT name, COUNT(*) FROM t JOIN o ON t.k = o.k GROUP BY name", 1.0),
    Task("engine-group-float", "Group 10⁶ rows by 10⁵ floats", TEXTS,
         "SELECT price, COUNT(*) AS n GROUP BY price",
         "SELECT price, COUNT(*) FROM t GROUP BY price", 1.0),
    Task("engine-distinct", "Find the 10⁵ distinct texts of 10⁶", TEXTS,
         "SELECT DISTINCT word", "SELECT DISTINCT word FROM t", 1.0),
    Task("engine-count-distinct", "Count the 10⁵ distinct floats of 10⁶", TEXTS,
         "SELECT COUNT(DISTINCT price) AS n", "SELECT COUNT(DISTINCT price) FROM t", 1.0),
    Task("engine-like", "Find 1 in 1,000 of 10⁶ texts by LIKE", TEXTS,
         "WHERE text LIKE '%abc%'", "SELECT id FROM t WHERE text LIKE '%abc%'", 1.0),
    Task("engine-like-most", "Find most of 10⁶ texts by LIKE", TEXTS,
         "WHERE text LIKE '%w1%'", "SELECT id FROM t WHERE text LIKE '%w1%'", 0.5),
    Task("engine-contains", "Find 1 in 1,000 of 10⁶ texts by CONTAINS", TEXTS,
         "WHERE CONTAINS(text, 'abc')", "SELECT id FROM t WHERE contains(text, 'abc')", 1.0),
    Task("engine-group-text", "Group 10⁶ rows by 10⁵ texts", TEXTS,
         "SELECT word, COUNT(*) AS n GROUP BY word",
         "SELECT word, COUNT(*) FROM t GROUP BY word", 1.0),
)  # fmt: skip


def columns(table: str, workspace: Workspace) -> Columns:
    """Return the values of a table; labels as codes."""
    random = np.random.default_rng(1)
    count = (100_000 if workspace.is_quick else 10_000_000) // (1 if table == NUMBERS else 10)
    if table == NUMBERS:
        return {
            "id": np.arange(count),
            "label": random.integers(0, len(NAMES), count),
            "k": random.integers(0, 100_000, count),
            "x": random.random(count, dtype=np.float32),
            "y": random.integers(0, 1000, count).astype(np.int32),
        }
    if table == PAIRS:
        return {"id": np.arange(count), "k": random.integers(0, 10_000, count)}
    words = random.integers(0, 5000, (count, 8)).tolist()
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    texts[::1000] = [f"{text} abc" for text in texts[::1000]]
    keys = [f"key {number}" for number in random.integers(0, 100_000, count).tolist()]
    prices = np.round(random.random(count) * 1000, 2)
    return {"id": np.arange(count), "text": texts, "word": keys, "price": prices}


def other() -> Columns:
    keys = np.arange(10_000)
    names = [f"name {number}" for number in (keys % 10).tolist()]
    return {"k": keys, "w": np.linspace(0, 1, len(keys), dtype=np.float32), "name": names}


def ours(workspace: Workspace, task: Task) -> Measurement:
    import tensorlake as tl

    warm_up()
    kinds = {"label": tl.ClassLabel(NAMES), "text": "text", "word": "text", "name": "text"}

    def stored(name: str, values: Columns) -> Any:
        schema = {key: kinds.get(key) or str(each.dtype) for key, each in values.items()}
        made = tl.create(f"memory://{task.key}-{name}", schema)
        made.extend(dict(values))
        made.commit("all")
        return tl.open(made.url)

    rows = stored("t", columns(task.table, workspace))
    params = {"other": stored("o", other())} if task.table == PAIRS else {}

    is_of_rows = "SELECT" not in task.tql
    names = () if is_of_rows else tuple(rows.query(task.tql, **params).to_numpy())

    def work() -> object:
        found = rows.query(task.tql, **params)
        return found.rows if is_of_rows else [found[name][:] for name in names]

    return best_of(work)


def duckdb(workspace: Workspace, task: Task) -> Measurement:
    if importlib.util.find_spec("duckdb") is None:
        return Measurement(0, 0, note="duckdb is not installed in this environment")
    import duckdb as engine
    import pyarrow as pa

    database: Any = engine.connect(config={"threads": THREADS})
    values = dict(columns(task.table, workspace))
    if "label" in values:
        values["label"] = np.array(NAMES, object)[values["label"]]
    for name, table in (("t", values), ("o", dict(other()))):
        database.register("arrow", pa.table(table))
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow")
        database.unregister("arrow")
    if "label" in values:
        database.execute(f"ALTER TABLE t ALTER label TYPE ENUM ({str(list(NAMES))[1:-1]})")
    return best_of(lambda: database.execute(task.sql).fetchnumpy())


def _contender(
    name: str, measure: Callable[[Workspace, Task], Measurement], task: Task
) -> Contender:
    return Contender(name, lambda workspace: measure(workspace, task))


BENCHMARKS = tuple(
    Benchmark(
        task.key,
        task.title,
        "queries",
        (_contender("tensorlake", ours, task), _contender("DuckDB", duckdb, task)),
        goals=(Goal("tensorlake", "DuckDB", task.goal),),
    )
    for task in TASKS
)
