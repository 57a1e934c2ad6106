"""What writing processes do in tests of crashes and races; importable, for they are spawned."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

import numcodecs
import numpy as np

import tensorlake as tl

LOADED = (tl.Dataset, tl.open, numcodecs.Blosc, np.ma)
"""Names whose modules load when they are first used: here, once for all that is forked."""

ROWS_A_BATCH = 16
SCHEMA = {"writer": "int64", "n": "int64", "text": "str", "pixels": tl.Array("uint8", (16, 16))}


def fork_server() -> ForkServerContext:
    """A way to start processes in milliseconds: they are forked from one that has all imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.support.writers", "tests.support.ingesters", "tests.support.commands"]
    )
    return context


def batch(writer: int, number: int) -> dict[str, object]:
    """Rows of one batch; what they hold follows from where they belong."""
    n = np.arange(ROWS_A_BATCH) + number * ROWS_A_BATCH
    return {
        "writer": np.full(ROWS_A_BATCH, writer),
        "n": n,
        "text": [f"row {one}" for one in n],
        "pixels": np.broadcast_to((n % 256).astype(np.uint8)[:, None, None], (len(n), 16, 16)),
    }


def ingest(
    url: str,
    writer: int,
    batches: int,
    acknowledged: Connection,
    options: dict[str, str] | None = None,
    *,
    first: int = 0,
) -> None:
    """Commit batches under keys, telling of each commit that returned; repeatable."""
    dataset = tl.open(url, storage_options=options)
    acknowledged.send(-1)
    for number in range(first, batches):
        dataset.extend(batch(writer, number))
        dataset.commit(f"batch {number}", key=f"{writer}/{number}")
        acknowledged.send(number)


def append_rows(
    url: str, options: dict[str, str], writer: int, commits: int, branch: str = "main"
) -> None:
    """Commit one row after another, whoever else does."""
    dataset = tl.open(url, branch, storage_options=options)
    for number in range(commits):
        dataset.append({"writer": writer, "n": number})
        dataset.commit(f"{writer}: {number}")


def merge_branches(
    url: str, into: str, other: str, merges: int, options: dict[str, str] | None = None
) -> None:
    """Merge a branch into another again and again, whoever commits to either."""
    dataset = tl.open(url, into, storage_options=options)
    for _ in range(merges):
        dataset.merge(other)


def append_and_update(
    url: str, options: dict[str, str], writer: int, commits: int, told: Connection
) -> None:
    """Commit rows and changes of cells, whoever else does; tell how often a cell was contested.

    Every commit appends a row, marks the writer's own row, and adds a word to a journal that all
    writers share, which must be read and written again when another was faster.
    """
    dataset = tl.open(url, storage_options=options)
    contested = 0
    for number in range(commits):
        while True:
            dataset.append({"writer": writer, "n": number, "journal": ""})
            dataset["n"][1 + writer] = number + 1
            dataset["journal"][0] = f"{dataset['journal'][0]} {writer}:{number}"
            try:
                dataset.commit(f"{writer}: {number}")
                break
            except tl.ConflictError as error:
                if (error.tensor, error.rows) != ("journal", (0,)):
                    raise
                contested += 1
                dataset.discard()
                dataset.refresh()
    told.send(contested)


def upsert_keys(url: str, writer: int, rounds: int, token: str | None = None) -> None:
    """Upsert the same new keys in each round that all writers do, and one of its own."""
    dataset = tl.open(url, token=token)
    for number in range(rounds):
        keys = [number * 10, number * 10 + 1, 1000 * (writer + 1) + number]
        while True:
            dataset.upsert({"id": keys, "by": [writer] * len(keys)}, on="id")
            try:
                dataset.commit(f"{writer}: {number}")
                break
            except tl.ConflictError as error:
                if error.tensor != "by":  # a row that both knew: as any update of a cell
                    raise
                dataset.discard()
                dataset.refresh()
