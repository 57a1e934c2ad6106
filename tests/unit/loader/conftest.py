"""A small dataset in memory: pictures of different sizes, labels, boxes, text and numbers."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest

import tensorlake as tl

NAMES = itertools.count()
ROWS = 60
RESIZE = {"image": tl.decode.Resize(16, 16)}
PLAIN = ["tokens", "label", "_row"]


def rows_of(loader):
    return [batch["_row"].tolist() for batch in loader]


def loader_threads():
    """Threads of loaders that run now."""
    return [one for one in threading.enumerate() if one.name.startswith("tensorlake-loader")]


def threads_left():
    """Name the threads of loaders that do not end; those told to end may take their time."""
    threads = loader_threads()
    deadline = time.monotonic() + 60
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread.name for thread in threads if thread.is_alive()]


def picture(row):
    """A picture whose colour and size tell its row."""
    height, width = 24 + row % 5, 32 + row % 7
    ys, xs = np.mgrid[0:height, 0:width]
    waves = 120 + 60 * np.sin((ys + row) / 5)[:, :, None] + 40 * np.cos(xs / 7)[:, :, None]
    return (waves + np.arange(3) * 9).clip(0, 255).astype(np.uint8)


def boxes(row):
    return np.array([[2, 3, 12, 13]] * (row % 3), dtype=np.float32).reshape(-1, 4)


def fill_pets(url, rows=ROWS):
    dataset = tl.create(
        url,
        {
            "image": tl.Image(codec="jpeg"),
            "label": tl.ClassLabel(["cat", "dog"]),
            "boxes": tl.BBox(format="xyxy", of="image"),
            "tokens": tl.Array("uint16", shape=(300,)),
            "score": tl.Scalar("float32", nullable=True),
            "name": "str",
        },
    )
    for start in range(0, rows, 25):
        numbers = range(start, min(start + 25, rows))
        dataset.extend(
            {
                "image": [picture(row) for row in numbers],
                "label": [row % 2 for row in numbers],
                "boxes": [boxes(row) for row in numbers],
                "tokens": np.array([[row] * 300 for row in numbers], dtype=np.uint16),
                "score": [None if row % 10 == 3 else row / 2 for row in numbers],
                "name": [f"pet {row}" for row in numbers],
            }
        )
        dataset.commit(f"rows from {start}")
    return dataset


@pytest.fixture(scope="module")
def pets():
    """60 rows in three commits, so every tensor has several chunks."""
    with fill_pets(f"memory://loader-pets-{next(NAMES)}") as dataset:
        yield dataset
