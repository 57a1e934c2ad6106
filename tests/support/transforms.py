"""Transforms at the top level of a module, as worker processes import them."""

from __future__ import annotations

import os
import random
import signal
import sys

import numpy as np

BAD_ROW = 7


class LocalError(Exception):
    """An error whose constructor takes more than its message, so that it is not unpickled."""

    def __init__(self, message, more):
        super().__init__(message)
        self.more = more


class Scale:
    """A transform with state."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, row):
        return row | {"tokens": row["tokens"] * self.factor}


def plain(row):
    return row


def augment(row, rng):
    """Every kind of value: a large array, a number, text, NULL, a list, and draws of the row."""
    image = row["image"][: 16 + int(rng.integers(4)), :20].astype(np.float32) / 255
    row["tokens"] += 1  # in place: a row is the transform's own
    return {
        "image": image[:16],
        "tokens": row["tokens"],
        "name": row["name"].upper(),
        "score": row["score"] or 0.0,
        "boxes": row["boxes"],
        "wide": np.full(5000, row["_row"]),
        "drawn": rng.random(),
        "row": row["_row"],
    }


def torch_draws(row):
    import torch

    return {
        "noise": torch.rand(2000),
        "few": torch.rand(3),
        "half": torch.rand(2000).to(torch.bfloat16),
        "row": row["_row"],
    }


def process_draws(row):
    return {"a": random.random(), "b": np.random.random(3), "row": row["_row"]}  # noqa: NPY002 - seeded


def with_pid(row):
    return {"row": row["_row"], "pid": os.getpid(), "parent": os.getppid()}


def fails(row):
    if row["_row"] == BAD_ROW:
        raise KeyError("height")
    return row


def fails_locally(row):
    if row["_row"] == BAD_ROW:
        raise LocalError("of its own kind", 3)
    return row


def exits(row):
    if row["_row"] == BAD_ROW:
        sys.exit("enough")
    return row


def returns_none(row):
    return None if row["_row"] == BAD_ROW else row


def returns_generator(row):
    return {"row": row["_row"], "made": (one for one in "ab") if row["_row"] == BAD_ROW else 1}


def is_killed(row):
    if row["_row"] == BAD_ROW:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def ends_itself(row):
    if row["_row"] == BAD_ROW:
        os._exit(3)
    return row


def kills_its_server(row):
    if row["_row"] == BAD_ROW:
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    return row


def stops_at_row_12(row):
    while row["_row"] == 12:
        pass
    return {"pid": os.getpid()}


def never_returns(row):
    os.write(1, f"{os.getpid()} {os.getppid()}\n".encode())
    while True:
        pass
