"""One task of one peer, run by the peer's own Python: ``peer_tasks.py PEER TASK FOLDER TOKENS N``.

It imports nothing of ours but runs what a user of the peer would write, on the same tokens, and
prints one line of JSON: seconds for the task, repeated N times where it is short.

    ingest   the tokens into a dataset of the peer, from an array in memory
    open     open the dataset and learn how many rows it has
    append   append one row and make it a version
    rows     read 1000 scattered rows of 1 KiB
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SCATTERED = 1000


class DeepLake:
    """Deep Lake 4."""

    def __init__(self, folder: str) -> None:
        import deeplake

        self.deeplake, self.folder = deeplake, folder

    def ingest(self, tokens: np.ndarray) -> None:
        kind = self.deeplake.types.Array("uint16", shape=[tokens.shape[1]])
        dataset = self.deeplake.create(self.folder)
        dataset.add_column("tokens", kind)
        dataset.append({"tokens": tokens})
        dataset.commit()

    def open(self) -> int:
        return len(self.deeplake.open(self.folder))

    def append(self, row: np.ndarray) -> Callable[[], None]:
        dataset = self.deeplake.open(self.folder)

        def one() -> None:
            dataset.append({"tokens": row[None]})
            dataset.commit()

        return one

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        dataset = self.deeplake.open(self.folder)
        return np.asarray(dataset["tokens"][wanted.tolist()])


class Lance:
    """Lance (pylance)."""

    def __init__(self, folder: str) -> None:
        import lance
        import pyarrow as pa

        self.lance, self.arrow, self.folder = lance, pa, folder

    def table(self, tokens: np.ndarray) -> Any:
        flat = self.arrow.array(tokens.reshape(-1))
        lists = self.arrow.FixedSizeListArray.from_arrays(flat, tokens.shape[1])
        return self.arrow.table({"tokens": lists})

    def ingest(self, tokens: np.ndarray) -> None:
        self.lance.write_dataset(self.table(tokens), self.folder)

    def open(self) -> int:
        return int(self.lance.dataset(self.folder).count_rows())

    def append(self, row: np.ndarray) -> Callable[[], None]:
        table = self.table(row[None])
        return lambda: self.lance.write_dataset(table, self.folder, mode="append")

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        found = self.lance.dataset(self.folder).take(wanted.tolist())
        flat = found["tokens"].combine_chunks().values.to_numpy()
        return flat.reshape(len(wanted), -1)


class Zarr:
    """zarr-python, chunks of 256 rows in shards of 16384."""

    def __init__(self, folder: str) -> None:
        import zarr

        self.zarr, self.folder = zarr, folder

    def ingest(self, tokens: np.ndarray) -> None:
        array = self.zarr.create_array(
            self.folder,
            shape=tokens.shape,
            dtype=tokens.dtype,
            chunks=(256, tokens.shape[1]),
            shards=(16384, tokens.shape[1]),
            compressors=None,
        )
        array[:] = tokens

    def open(self) -> int:
        return int(self.zarr.open_array(self.folder, mode="r").shape[0])

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        return self.zarr.open_array(self.folder, mode="r").oindex[np.sort(wanted)]


class Mds:
    """MosaicML streaming, read from the local folder."""

    def __init__(self, folder: str) -> None:
        import streaming

        self.streaming, self.folder = streaming, folder

    def ingest(self, tokens: np.ndarray) -> None:
        kind = f"ndarray:uint16:{tokens.shape[1]}"
        with self.streaming.MDSWriter(out=self.folder, columns={"tokens": kind}) as writer:
            for row in tokens:
                writer.write({"tokens": row})

    def open(self) -> int:
        return len(self.streaming.StreamingDataset(local=self.folder, batch_size=1))

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        dataset = self.streaming.StreamingDataset(local=self.folder, batch_size=1)
        return np.stack([dataset[int(row)]["tokens"] for row in wanted])


PEERS = {"deeplake": DeepLake, "lance": Lance, "zarr": Zarr, "mds": Mds}


def main() -> None:
    name, task, folder, tokens_file, times = sys.argv[1:6]
    tokens = np.load(tokens_file, mmap_mode="r")
    peer = PEERS[name](folder)
    wanted = np.random.default_rng(0).choice(len(tokens), SCATTERED, replace=False)
    repeats = int(times)
    if task == "ingest":
        data = np.array(tokens)
        started = time.perf_counter()
        peer.ingest(data)
    elif task == "append":
        one = peer.append(np.array(tokens[0]))
        one()  # what is loaded at the first use is in no figure
        started = time.perf_counter()
        for _ in range(repeats):
            one()
    elif task == "open":
        peer.open()
        started = time.perf_counter()
        for _ in range(repeats):
            peer.open()
    else:
        peer.open()
        started = time.perf_counter()
        found = peer.rows(wanted)
        assert found.shape == (SCATTERED, tokens.shape[1])
    seconds = time.perf_counter() - started
    assert task == "append" or peer.open() >= len(tokens) or not Path(folder).exists()
    print(json.dumps({"seconds": seconds / repeats}))


if __name__ == "__main__":
    main()
