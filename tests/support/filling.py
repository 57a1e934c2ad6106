"""Large arrays in small: what fills packs of its own in tests, and a process that dies doing so."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import tensorlake as tl
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.format import PackedBlob, Schema, TensorSpec, read_directory
from tensorlake.storage import Buffer, Store, runtime
from tensorlake.versions import create_dataset
from tensorlake.versions.packs import streaming as filled_packs
from tensorlake.versions.packs import writer as stage

ROW_NBYTES = 4096
ROWS_A_CHUNK = 4
SCHEMA = Schema(
    (TensorSpec.new("x", tl.Array("uint8", (ROW_NBYTES,)), chunk_nbytes=ROWS_A_CHUNK * ROW_NBYTES),)
)
ROWS = 6 * ROWS_A_CHUNK
"""Of one call: with the row before it, six chunks and a row that waits."""

SMALL = (
    (filled_packs, "FILLED_NBYTES", ROW_NBYTES),
    (filled_packs, "SHARE_NBYTES", 2 * ROWS_A_CHUNK * ROW_NBYTES),
    (stage, "PACK_NBYTES", 4 * ROWS_A_CHUNK * ROW_NBYTES),
)


def rows(start: int, stop: int) -> dict[str, np.ndarray]:
    """Rows that can be told apart, and so can the two halves of each."""
    numbers = np.arange(start, stop, dtype="<u4")[:, None]
    return {"x": np.tile(numbers, (1, ROW_NBYTES // 4)).view(np.uint8)}


def numbers_of(dataset: Dataset) -> list[int]:
    """The numbers of a dataset's rows, all bytes of which were looked at."""
    values = np.ascontiguousarray(dataset["x"][:]).view("<u4")
    assert (values == values[:, :1]).all()
    return values[:, 0].tolist()


def create(store: Store) -> Dataset:
    """Make a dataset for such rows."""
    made = create_dataset(store, SCHEMA.to_json(), grace_s=86_400, exist_ok=False)
    return Dataset(Session(store, runtime.run(made)))


def pack_files(folder: Path) -> list[Path]:
    """The packs of a dataset, in the order of their numbers."""
    return sorted((folder / "packs").rglob("*.tlp"), key=lambda one: int(one.stem.split("-")[1]))


def chunks_in(packs: Sequence[bytes]) -> list[tuple[PackedBlob, bytes]]:
    """The chunks of packs, with their bytes."""
    return [
        (blob, data[blob.offset : blob.offset + blob.nbytes])
        for data in packs
        for blob in read_directory(data, where="a pack")
        if blob.what != "page"
    ]


def fill(url: str, told: Connection, killed_at: int | None) -> None:
    """Commit a large array; tell how often files were written or named, or die at the n-th time."""
    for module, name, value in SMALL:
        setattr(module, name, value)
    writev, link, lock = os.writev, os.link, threading.Lock()
    seen = 0

    def is_last() -> bool:
        nonlocal seen
        seen += 1
        return seen == killed_at

    def dying_writev(descriptor: int, pieces: Sequence[Buffer]) -> int:
        with lock:
            if is_last():  # half of it is written
                os.write(descriptor, memoryview(pieces[-1])[: len(pieces[-1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return writev(descriptor, pieces)

    def dying_link(source: str, target: str) -> None:
        with lock:
            if is_last():
                os.kill(os.getpid(), signal.SIGKILL)
            link(source, target)

    os.writev, os.link = dying_writev, dying_link
    with tl.open(url) as dataset:
        dataset.append({"x": rows(0, 1)["x"][0]})
        dataset.extend(rows(1, 1 + ROWS))
        dataset.commit("large")
    told.send(seen)
