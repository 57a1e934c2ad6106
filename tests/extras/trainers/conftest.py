"""Forty rows that trainers read in batches of eight, and what they should see of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl

ROWS, BATCH, EPOCHS = 40, 8, 3
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with tl.create(
        str(tmp_path_factory.mktemp("trainers") / "rows.tl"), {"x": tl.Array("float32", (4,))}
    ) as dataset:
        dataset.extend({"x": np.random.default_rng(3).random((ROWS, 4), dtype="float32")})
        dataset.commit("rows")
        return dataset.url


@pytest.fixture(scope="module")
def expected(url):
    """The global batches of the first epochs, and those of validation, in order."""
    with tl.open(url) as dataset:
        return epochs_of(dataset, shuffle=True), epochs_of(dataset, shuffle=False)[0]


def epochs_of(dataset, *, shuffle):
    loader = dataset.loader(
        batch_size=BATCH, shuffle=shuffle, seed=1, columns=["_row"], rank=0, world_size=1
    )
    return [[batch["_row"].tolist() for batch in loader] for _ in range(EPOCHS + 1)]


def loaders_of(url):
    """A loader to train from and one to validate with, as a program makes them."""
    dataset = tl.open(url)
    read = {"global_batch_size": BATCH, "columns": ["x", "_row"]}
    return dataset.torch(shuffle=True, seed=1, **read), dataset.torch(**read)


def joined(ranks):
    """Put the parts that ranks saw of each batch side by side."""
    return [[row for part in parts for row in part] for parts in zip(*ranks, strict=True)]


def run(script, *arguments, launcher=()):
    """Run a script of this folder in processes of its own; return what each rank writes."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, *launcher, str(Path(__file__).with_name(script)), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def found(folder):
    """Read what each rank has written, by its rank."""
    return [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank-*.json"))]
