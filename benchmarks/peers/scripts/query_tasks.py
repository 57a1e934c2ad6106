"""One query of one peer, run by the peer's own Python: ``query_tasks.py PEER TASK FOLDER N``.

FOLDER/values.npy holds the values; the peer's own copy of them is made beside it, in its own way.
It prints one line of JSON: wall and processor seconds of the fastest of N runs after a first.

    query-label     numbers of classes: the rows of class 7, as an array
    query-range     float32: the rows from 0.25 up to 0.5
    query-nearest   float32 (n, width): the ten nearest to the first by cosine, exactly
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NUM_CLASSES = 80
THREADS = 2
CONDITION = "value >= 0.25 AND value < 0.5"
WANTED = "class 7"

Query = Callable[[], object]


def class_names() -> list[str]:
    return [f"class {number}" for number in range(NUM_CLASSES)]


def duckdb_query(task: str, values: np.ndarray, folder: Path) -> Query:
    """Query a table in memory; labels are an ENUM, which is a dictionary column."""
    import duckdb

    database: Any = duckdb.connect(config={"threads": THREADS})
    if task == "query-label":
        kinds = str(class_names())[1:-1]
        database.execute(f"CREATE TYPE class AS ENUM ({kinds})")
        database.execute("CREATE TABLE codes AS SELECT unnest($1) AS code", [values])
        label = f"{class_names()}[code + 1]::class AS label"
        database.execute(f"CREATE TABLE t AS SELECT {label} FROM codes")
        text = f"SELECT rowid FROM t WHERE label = '{WANTED}'"
    elif task == "query-range":
        database.execute("CREATE TABLE t AS SELECT unnest($1)::FLOAT AS value", [values])
        text = f"SELECT rowid FROM t WHERE {CONDITION}"
    else:
        kind = f"FLOAT[{values.shape[1]}]"
        database.execute(f"CREATE TABLE t (vector {kind})")
        for start in range(0, len(values), 10_000):
            some = values[start : start + 10_000]
            database.execute(f"INSERT INTO t SELECT unnest($1)::{kind}", [some.tolist()])
        nearest = f"array_cosine_similarity(vector, {values[0].tolist()}::{kind})"
        text = f"SELECT rowid FROM t ORDER BY {nearest} DESC LIMIT 10"
    del folder
    return lambda: database.execute(text).fetchnumpy()


def lance_query(task: str, values: np.ndarray, folder: Path) -> Query:
    """Query a dataset in a folder; labels are a dictionary column."""
    import lance
    import pyarrow as pa

    if task == "query-label":
        codes = pa.array(values.astype(np.int8))
        column: Any = pa.DictionaryArray.from_arrays(codes, pa.array(class_names()))
    elif task == "query-range":
        column = pa.array(values)
    else:
        column = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    made: Any = lance.write_dataset(pa.table({"value": column}), str(folder / "values.lance"))
    if task == "query-nearest":
        nearest = {"column": "value", "q": values[0], "k": 10, "metric": "cosine"}
        return lambda: made.to_table(columns=[], nearest=nearest, with_row_id=True)
    condition = f"value = '{WANTED}'" if task == "query-label" else CONDITION
    return lambda: made.to_table(columns=[], filter=condition, with_row_id=True)


def deeplake_query(task: str, values: np.ndarray, folder: Path) -> Query:
    """Query a dataset in a folder."""
    import deeplake

    made: Any = deeplake.create(str(folder / "values.deeplake"))
    kinds = deeplake.types
    if task == "query-label":
        made.add_column("value", kinds.ClassLabel("int32"))
        made["value"].metadata["class_names"] = class_names()
        made.append({"value": values.astype(np.int32)})
        made.commit()
        return lambda: len(made.query(f"SELECT * WHERE value = '{WANTED}'"))
    is_vector = task == "query-nearest"
    kind = kinds.Array("float32", shape=[values.shape[-1]]) if is_vector else kinds.Float32()
    made.add_column("value", kind)
    made.append({"value": values})
    made.commit()
    text = f"SELECT * WHERE {CONDITION}"
    if is_vector:
        wanted = ", ".join(f"{each:.9g}" for each in values[0].tolist())
        text = f"SELECT * ORDER BY COSINE_SIMILARITY(value, ARRAY[{wanted}]) DESC LIMIT 10"
    return lambda: len(made.query(text))


QUERIES = {"duckdb": duckdb_query, "lance": lance_query, "deeplake": deeplake_query}


def main() -> None:
    peer, task, folder, repeats = sys.argv[1:]
    values = np.load(Path(folder) / "values.npy")
    query = QUERIES[peer](task, values, Path(folder))
    query()
    found: list[tuple[float, float]] = []
    for _ in range(int(repeats)):
        started, spent = time.perf_counter(), time.process_time()
        query()
        found.append((time.perf_counter() - started, time.process_time() - spent))
    seconds, cpu_seconds = min(found)
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds}))


if __name__ == "__main__":
    main()
