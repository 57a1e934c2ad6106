"""A dataset of pictures that JPEG cannot make small, for tests of what is read from a store."""

from __future__ import annotations

import numpy as np

import tensorlake as tl

ROWS = 400
SCHEMA = {
    "image": tl.Image(codec="jpeg"),
    "label": "int64",
    "tokens": tl.Array("uint16", shape=(512,)),
}


def noise(row):
    """A picture that JPEG cannot make small: about 10 kB."""
    return np.random.default_rng(row).integers(0, 255, (64, 64, 3), dtype=np.uint8)


def fill(dataset, rows=ROWS):
    for start in range(0, rows, 100):
        numbers = range(start, start + 100)
        dataset.extend(
            {
                "image": [noise(row) for row in numbers],
                "label": list(numbers),
                "tokens": np.array([[row] * 512 for row in numbers], dtype=np.uint16),
            }
        )
        dataset.commit(f"rows from {start}")
    return dataset
