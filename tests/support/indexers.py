"""Building, updating and dropping indexes, step by step, also in a process that is to be killed."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import tensorlake as tl
from tests.support.ingesters import count_turns

__all__ = ["SCHEMA", "STEPS", "content", "index"]

SCHEMA = {"n": "int64", "text": "str", "vec": tl.Embedding(8)}
ROWS = 300


def content(number: int) -> dict[str, object]:
    """Return the rows of a batch: the same for the same number."""
    random = np.random.default_rng(number)
    return {
        "n": random.integers(0, 20, ROWS),
        "text": [f"w{one} w" for one in random.integers(4, 40, ROWS)],
        "vec": random.standard_normal((ROWS, 8)).astype(np.float32),
    }


def build(dataset: tl.Dataset) -> None:
    """Build an index of each kind."""
    dataset.create_index("n")
    dataset.create_index("n", "bitmap", name="values")
    dataset.create_index("text", "text")
    dataset.create_index("vec")
    dataset.commit("indexed")


def grow(dataset: tl.Dataset) -> None:
    """Add rows that no index covers."""
    dataset.extend(content(1))
    dataset.commit("more")


def update(dataset: tl.Dataset) -> None:
    """Bring the indexes up to date."""
    dataset.optimize()


def drop(dataset: tl.Dataset) -> None:
    """Drop one, and build another in its place."""
    dataset.drop_index("text")
    dataset.create_index("text", "text", positions=True)
    dataset.drop_index("values")
    dataset.commit("one less")


ALL = frozenset({"n", "values", "text", "vec"})
STEPS: list[tuple[Callable[[tl.Dataset], None], frozenset[str]]] = [
    (build, ALL),
    (grow, ALL),
    (update, ALL),
    (drop, ALL - {"values"}),
]


def index(url: Path, sender: Connection, killed_at: int | None) -> None:
    """Take all steps; end by SIGKILL at the n-th turn to a file, or send how many there were."""
    turns = count_turns((url,), killed_at)
    for act, _ in STEPS:
        with tl.open(str(url)) as dataset:
            act(dataset)
    sender.send(turns())
