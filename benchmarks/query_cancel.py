"""How late a query ends that is out of time, or interrupted by Ctrl-C, in each of its operators.

Over 10⁷ numbers, 10⁶ texts and 10⁶ rows of boxes. Each query is ended at several moments of its
run; the facts are the milliseconds between the moment and the error, at most. They should be ≤100,
whatever the operator is doing.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, warm_up

__all__ = ["BENCHMARKS"]

LATE_MS = 100
MOMENTS = (0.15, 0.4, 0.65, 0.9)  # of a whole run
NUMBERS, TEXTS, BOXES = "numbers", "texts", "boxes"
OPERATORS: Mapping[str, tuple[str, str]] = {
    "WHERE": (NUMBERS, "WHERE SQRT(ABS(x)) * k > 100 OR x = 0.5"),
    "ORDER BY": (NUMBERS, "ORDER BY x"),
    "window": (NUMBERS, "SELECT x, RANK() OVER (PARTITION BY k ORDER BY x) AS r"),
    "MEDIAN": (NUMBERS, "SELECT k, MEDIAN(x) AS m GROUP BY k"),
    "MEDIAN of all": (NUMBERS, "SELECT MEDIAN(x) AS m"),
    "HISTOGRAM": (NUMBERS, "SELECT k, HISTOGRAM(x, 10) AS h GROUP BY k"),
    "ARRAY_AGG": (NUMBERS, "SELECT k, ARRAY_AGG(x) AS xs GROUP BY k"),
    "COUNT DISTINCT": (NUMBERS, "SELECT k, COUNT(DISTINCT x) AS n GROUP BY k"),
    "running SUM": (NUMBERS, "SELECT SUM(x) OVER (PARTITION BY k ORDER BY y) AS s"),
    "LAG": (NUMBERS, "SELECT LAG(x) OVER (PARTITION BY k ORDER BY y) AS p"),
    "ARRANGE BY": (NUMBERS, "ARRANGE BY k"),
    "DISTINCT": (NUMBERS, "SELECT DISTINCT x"),
    "GROUP BY": (NUMBERS, "SELECT x, COUNT(*) AS n GROUP BY x"),
    "SAMPLE BY": (NUMBERS, "SAMPLE BY x + 1 SEED 1"),
    "EXPAND BY": (NUMBERS, "WHERE k % 3 = 0 EXPAND BY 1 1"),
    "JOIN": (NUMBERS, "SELECT COUNT(*) AS n FROM this AS a JOIN this AS b ON a.id = b.id"),
    "UNION": (NUMBERS, "SELECT x UNION SELECT y FROM this"),
    "GROUP BY texts": (TEXTS, "SELECT text, COUNT(*) AS n GROUP BY text"),
    "ORDER BY texts": (TEXTS, "ORDER BY text"),
    "DISTINCT texts": (TEXTS, "SELECT DISTINCT text"),
    "ARRAY_AGG of texts": (TEXTS, "SELECT ARRAY_AGG(text) AS a"),
    "REPLACE": (TEXTS, "WHERE LENGTH(REPLACE(text, 'w', 'wwwwwwwwwwwwwwww')) > 9"),
    "JOIN of texts": (
        TEXTS,
        "SELECT COUNT(*) AS n FROM this AS a JOIN this AS b ON a.text = b.text",
    ),
    "REGEXP": (TEXTS, "WHERE text REGEXP '(a|b)+w[0-9]*$'"),
    "UNNEST": (BOXES, "SELECT boxes FROM UNNEST(this, boxes) ORDER BY AREA(boxes)"),
}


def table(name: str, workspace: Workspace) -> Any:
    import tensorlake as tl

    count = (200_000 if workspace.is_quick else 10_000_000) // (1 if name == NUMBERS else 10)
    random = np.random.default_rng(1)
    schema: dict[str, Any]
    columns: dict[str, Any]
    if name == NUMBERS:
        schema = {"id": "int64", "k": "int64", "x": "float64", "y": "float64"}
        columns = {
            "id": np.arange(count),
            "k": random.integers(0, 100_000, count),
            "x": random.random(count),
            "y": random.random(count),
        }
    elif name == TEXTS:
        words = random.integers(0, 50_000, (count, 3)).tolist()
        schema, columns = {"text": "text"}, {"text": [f"w{a} w{b} w{c}" for a, b, c in words]}
    else:
        lengths = random.integers(0, 5, count)
        boxes = random.random((int(lengths.sum()), 4), dtype=np.float32)
        schema = {"boxes": tl.BBox()}
        columns = {"boxes": np.split(boxes, np.cumsum(lengths)[:-1])}
    made = tl.create(f"memory://cancel-{name}", schema)
    made.extend(columns)
    made.commit("all")
    return tl.open(made.url)


def late_ms(ds: Any, text: str, after: float, *, by_timeout: bool) -> float:
    """Return how long after its time a query ended; 0 where it was done before."""
    import tensorlake as tl

    started = time.perf_counter()
    if not by_timeout:
        signal.setitimer(signal.ITIMER_REAL, after)
    try:
        try:
            ds.query(text, timeout=after if by_timeout else None).rows  # noqa: B018 - it runs here
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (tl.QueryLimitError, KeyboardInterrupt):  # also one that comes while it is put off
        return (time.perf_counter() - started - after) * 1e3
    return 0.0


def interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def cancel(workspace: Workspace) -> Measurement:
    warm_up()
    signal.signal(signal.SIGALRM, interrupt)
    facts: dict[str, float] = {}
    tables: dict[str, Any] = {}
    for operator, (name, text) in OPERATORS.items():
        if name not in tables:
            tables[name] = table(name, workspace)
        ds = tables[name]
        started = time.perf_counter()
        len(ds.query(text))
        whole = time.perf_counter() - started
        for way in ("timeout", "Ctrl-C"):
            found = [
                late_ms(ds, text, whole * share, by_timeout=way == "timeout") for share in MOMENTS
            ]
            facts[f"{operator}, {way}, ms late"] = max(found)
    return Measurement(sum(facts.values()) / 1e3, float(len(facts)), facts=facts)


BENCHMARKS = (
    Benchmark(
        "query-cancel",
        "End queries over 10⁷ rows at any moment",
        "queries ended",
        (Contender("tensorlake", cancel),),
        limits=tuple(
            Limit("tensorlake", f"{operator}, {way}, ms late", at_most=LATE_MS)
            for operator in OPERATORS
            for way in ("timeout", "Ctrl-C")
        ),
    ),
)
