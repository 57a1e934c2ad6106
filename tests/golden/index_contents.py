"""What the golden dataset of indexes holds, from the number of a row alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import tensorlake as tl

ROWS, MORE = 4200, 20  # vectors of up to 4,096 rows are compared without an index
CHANGED = (3, 77, 150)
DELETED = [10, 11, 200]
NAMES = ("cat", "dog", "owl", "fox", "elk")
WORDS = ("red", "blue", "car", "stop", "sign", "road", "größe")
DIM = 16

SCHEMA: dict[str, Any] = {
    "label": tl.ClassLabel(NAMES, nullable=True),
    "tags": tl.Tags(),
    "price": tl.Scalar("float32", nullable=True),
    "name": tl.Text(),
    "meta": tl.Json(),
    "text": tl.Text(nullable=True),
    "vector": tl.Embedding(DIM, metric="l2"),
}


def row_of(row: int, *, is_changed: bool = False) -> dict[str, Any]:
    """Return the values of a row, as it was appended or after it was assigned."""
    seed = row + 1000 if is_changed else row
    tags = [f"tag {seed % 9}", "new"] if seed % 6 == 0 else [f"tag {seed % 9}"]
    price = np.float32(seed % 83 / 8)
    words = [WORDS[mixed(seed, step) % len(WORDS)] for step in range(1, 3 + seed % 4)]
    return {
        "label": None if seed % 13 == 0 else NAMES[seed % 5],
        "tags": tags,
        "price": None if seed % 17 == 0 else np.float32("nan") if seed % 19 == 0 else price,
        "name": f"name {seed % 31:02}",
        "meta": {"source": f"site {seed % 7}"},
        "text": None if seed % 11 == 0 else " ".join(words),
        "vector": vector_of(seed),
    }


def vector_of(seed: int) -> Any:
    """Return a vector; those of four seeds in a row are near each other and far from others."""
    far = [mixed(seed // 4, axis) % 257 for axis in range(DIM)]
    near = [mixed(seed, axis) % 17 / 16 for axis in range(DIM)]
    return np.array(far, np.float32) + np.array(near, np.float32)


def mixed(seed: int, salt: int) -> int:
    """Return a number below 2²⁴ that looks drawn: Knuth's multiplicative hashing, twice."""
    return ((seed * 2654435761 + salt * 40503) % 2**32 * 2246822519 % 2**32) >> 8


def columns_of(rows: Iterable[int]) -> dict[str, Any]:
    """Return the values of rows by column."""
    made = [row_of(row) for row in rows]
    return {name: [row[name] for row in made] for name in SCHEMA}
