"""The ten questions of docs/how-to/ask-a-dataset.md over 10⁶ rows in a folder, warm.

Each is a fact in milliseconds: the fastest of some runs, as a view's rows or a result's columns.
Question 9 is asked exactly, and by an index, as the page recommends for many rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, warm_up

__all__ = ["BENCHMARKS"]

REPEATS = 5
WIDTH, CLASSES = 64, 80
BATCH = 100_000
REVIEWERS = ("ann", "ben", "cho", "dan", None)
GOAL_MS = 100

QUESTIONS = {
    "1. boxes of each class": (
        "SELECT label, COUNT(*) AS n FROM UNNEST(this, label) GROUP BY label ORDER BY n DESC"
    ),
    "2. images without a box": "WHERE LENGTH(boxes) = 0",
    "3. boxes too small": (
        "SELECT _row, file, boxes FROM UNNEST(this, boxes)"
        " WHERE boxes[2] - boxes[0] < 5 OR boxes[3] - boxes[1] < 5"
    ),
    "4. sizes of the boxes of each class": (
        "SELECT label, AVG(AREA(boxes)) AS mean, STD(AREA(boxes)) AS spread,"
        " MAX(AREA(boxes)) AS largest FROM UNNEST(this, label, boxes)"
        " GROUP BY label ORDER BY label"
    ),
    "5. boxes beyond their image": (
        "WHERE ANY(boxes[:, 2] > size[1]) OR ANY(boxes[:, 3] > size[0])"
    ),
    "6. classes seen together": (
        "WHERE CONTAINS(label, 'class 8') AND CONTAINS(label, 'class 9')"
    ),
    "7. files that are there twice": (
        "SELECT file, COUNT(*) AS n GROUP BY file HAVING COUNT(*) > 1"
    ),
    "7. first of each file": "SELECT DISTINCT ON (file) *",
    "8. work of each reviewer and day": (
        "SELECT reviewer, DATE_TRUNC('day', taken) AS day, COUNT(*) AS n"
        " WHERE reviewer IS NOT NULL GROUP BY reviewer, DATE_TRUNC('day', taken)"
    ),
    "8. still to do": "WHERE reviewer IS NULL",
    "9. alike": "ORDER BY COSINE_SIMILARITY(vec, $q) DESC LIMIT 2",
    "9. alike, by an index": "ORDER BY APPROX COSINE_SIMILARITY(vec, $q) DESC LIMIT 2",
    "10. a balanced sample": (
        "WHERE LENGTH(boxes) > 0"
        " SAMPLE BY MAX_WEIGHT(CONTAINS(label, 'class 70'): 10, true: 1) SEED 1 LIMIT 100"
    ),
}  # fmt: skip


def rows(first: int, stop: int) -> dict[str, Any]:
    """Return images with up to four boxes each; one file in a hundred is there twice."""
    random = np.random.default_rng(first)
    count = stop - first
    lengths = random.integers(0, 5, count)
    total = int(lengths.sum())
    corners = random.integers(0, 400, (total, 2))
    boxes = np.concatenate([corners, corners + random.integers(1, 200, (total, 2))], axis=1)
    labels = np.minimum(random.zipf(1.3, total) - 1, CLASSES - 1)
    cuts = np.cumsum(lengths)[:-1]
    seconds = random.integers(0, 100 * 86_400, count).astype("timedelta64[s]")
    return {
        "file": [f"images/{row - (row % 100 == 1):07d}.jpg" for row in range(first, stop)],
        "size": np.full((count, 2), 640, np.int32),
        "boxes": np.split(boxes.astype(np.float32), cuts),
        "label": np.split(labels, cuts),
        "taken": np.datetime64("2026-01-01", "us") + seconds,
        "reviewer": [REVIEWERS[number] for number in random.integers(0, 5, count)],
        "vec": random.standard_normal((count, WIDTH), dtype=np.float32),
    }


def dataset(workspace: Workspace) -> Any:
    import tensorlake as tl

    count = BATCH // 10 if workspace.is_quick else 10 * BATCH
    folder = workspace.lake / f"query-curator-{count}"
    if not folder.exists():
        names = [f"class {number}" for number in range(CLASSES)]
        schema: dict[str, Any] = {
            "file": "text",
            "size": tl.Array("int32", (2,)),
            "boxes": tl.BBox(),
            "label": tl.ClassLabel(names, per="boxes"),
            "taken": tl.Timestamp(),
            "reviewer": tl.Text(nullable=True),
            "vec": tl.Embedding(WIDTH),
        }
        with tl.create(str(folder), schema) as made:
            for first in range(0, count, BATCH):
                made.extend(rows(first, min(first + BATCH, count)))
            made.commit("all")
            made.create_index("vec")
            made.commit("index")
    return tl.open(str(folder), read_only=True)


def answered(ds: Any, text: str) -> object:
    """Ask, and take what the page takes: columns that are made, or the rows selected."""
    found = ds.query(text, **({"q": ds[0]["vec"]} if "$q" in text else {}))
    if "GROUP BY" in text:
        return [found[name][:] for name in found.tensors]
    return found.rows


def fastest_ms(work: Callable[[], object]) -> float:
    work()
    taken: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken) * 1e3


def ask(workspace: Workspace) -> Measurement:
    warm_up()
    with dataset(workspace) as ds:
        started = time.process_time()
        facts = {
            f"{name}, ms": fastest_ms(lambda text=text: answered(ds, text))
            for name, text in QUESTIONS.items()
        }
        used = time.process_time() - started
    return Measurement(sum(facts.values()) / 1e3, float(len(facts)), used, facts)


BENCHMARKS = (
    Benchmark(
        "query-curator",
        "Ask the ten questions of a curator of 10⁶ rows",
        "questions",
        (Contender("tensorlake", ask),),
        limits=tuple(Limit("tensorlake", f"{name}, ms", at_most=GOAL_MS) for name in QUESTIONS),
    ),
)
