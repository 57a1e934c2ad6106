"""One task of one peer: ``storage_tasks.py PEER TASK PLACE TOKENS N [ENDPOINT]``, by its Python.

It imports nothing of ours but runs what a user of the peer would write, on the same tokens, and
prints one line of JSON: seconds for the task, repeated N times where it is short. PLACE is a
folder, or s3://bucket/key at ENDPOINT.

    ingest   the tokens into a dataset of the peer, from an array in memory
    open     open the dataset and learn how many rows it has; the first time of the process, when
             connections are made and code is loaded, is reported beside the mean of N more
    append   append one row and make it a version
    rows     read 1000 random rows of 1 KiB of a dataset that is open
    array    write another array, of 16 KiB float32 a row, and read it back; array-compressed, as
             the peer compresses by default
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torchvision_stand_in import stand_in_for_torchvision

SCATTERED = 1000
SHARD_ROWS = 10_000
ARRAY_ROWS = 1024  # 16 MiB at once
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "aws_region": "us-east-1"}


class DeepLake:
    """Deep Lake 4."""

    keeps_order = True

    def __init__(self, place: str, endpoint: str | None) -> None:
        import deeplake

        self.deeplake, self.place = deeplake, place
        self.how = {} if endpoint is None else {"creds": {**KEYS, "endpoint_url": endpoint}}

    def opened(self) -> Any:
        return self.deeplake.open(self.place, **self.how)

    def ingest(self, tokens: np.ndarray) -> None:
        kind = self.deeplake.types.Array("uint16", shape=[tokens.shape[1]])
        dataset = self.deeplake.create(self.place, **self.how)
        dataset.add_column("tokens", kind)
        dataset.append({"tokens": tokens})
        dataset.commit()

    def open(self) -> int:
        return len(self.opened())

    def write_array(self, values: np.ndarray, *, is_compressed: bool) -> None:
        assert not is_compressed
        kind = self.deeplake.types.Array("float32", shape=list(values.shape[1:]))
        dataset = self.deeplake.create(self.place)
        dataset.add_column("x", kind)
        for start in range(0, len(values), ARRAY_ROWS):
            dataset.append({"x": values[start : start + ARRAY_ROWS]})
        dataset.commit()

    def read_array(self) -> np.ndarray:
        dataset = self.opened()
        return np.asarray(dataset["x"][:])

    def append(self, row: np.ndarray) -> Callable[[], None]:
        dataset = self.opened()

        def one() -> None:
            dataset.append({"tokens": row[None]})
            dataset.commit()

        return one

    def rows(self, dataset: Any, wanted: np.ndarray) -> np.ndarray:
        return np.asarray(dataset["tokens"][wanted.tolist()])


class Lance:
    """Lance (pylance)."""

    keeps_order = True

    def __init__(self, place: str, endpoint: str | None) -> None:
        import lance
        import pyarrow as pa

        self.lance, self.arrow, self.place = lance, pa, place
        remote = {**KEYS, "endpoint": str(endpoint), "allow_http": "true"}
        self.how: Any = {} if endpoint is None else {"storage_options": remote}

    def table(self, tokens: np.ndarray) -> Any:
        flat = self.arrow.array(tokens.reshape(-1))
        lists = self.arrow.FixedSizeListArray.from_arrays(flat, tokens.shape[1])
        return self.arrow.table({"tokens": lists})

    def ingest(self, tokens: np.ndarray) -> None:
        self.lance.write_dataset(self.table(tokens), self.place, **self.how)

    def opened(self) -> Any:
        return self.lance.dataset(self.place, **self.how)

    def open(self) -> int:
        return int(self.opened().count_rows())

    def write_array(self, values: np.ndarray, *, is_compressed: bool) -> None:
        assert not is_compressed
        self.lance.write_dataset(self.table(values.reshape(len(values), -1)), self.place)

    def read_array(self) -> np.ndarray:
        chunks = self.opened().to_table()["tokens"].chunks
        return np.concatenate([one.flatten().to_numpy(zero_copy_only=False) for one in chunks])

    def append(self, row: np.ndarray) -> Callable[[], None]:
        table = self.table(row[None])
        return lambda: self.lance.write_dataset(table, self.place, mode="append", **self.how)

    def rows(self, dataset: Any, wanted: np.ndarray) -> np.ndarray:
        found = dataset.take(wanted.tolist())
        flat = found["tokens"].combine_chunks().values.to_numpy()
        return flat.reshape(len(wanted), -1)


class Zarr:
    """zarr-python, chunks of 256 rows in shards of 16384."""

    keeps_order = True

    def __init__(self, place: str, endpoint: str | None) -> None:
        import zarr

        self.zarr = zarr
        self.place: Any = place
        if endpoint is not None:
            from obstore.store import S3Store
            from zarr.storage import ObjectStore

            bucket, _, key = place.removeprefix("s3://").partition("/")
            client = S3Store(
                bucket,
                prefix=key,
                config={**KEYS, "aws_endpoint": endpoint},
                client_options={"allow_http": True},
            )
            self.place = ObjectStore(client, read_only=True)

    def ingest(self, tokens: np.ndarray) -> None:
        array = self.zarr.create_array(
            self.place,
            shape=tokens.shape,
            dtype=tokens.dtype,
            chunks=(256, tokens.shape[1]),
            shards=(16384, tokens.shape[1]),
            compressors=None,
        )
        array[:] = tokens

    def opened(self) -> Any:
        return self.zarr.open_array(self.place, mode="r")

    def open(self) -> int:
        return int(self.opened().shape[0])

    def write_array(self, values: np.ndarray, *, is_compressed: bool) -> None:
        array = self.zarr.create_array(
            self.place,
            shape=values.shape,
            dtype=values.dtype,
            chunks=(64, *values.shape[1:]),
            compressors="auto" if is_compressed else None,
        )
        array[:] = values

    def read_array(self) -> np.ndarray:
        return self.opened()[:]

    def rows(self, dataset: Any, wanted: np.ndarray) -> np.ndarray:
        return dataset.oindex[np.sort(wanted)]


class Mds:
    """MosaicML streaming, read from the local folder, or downloaded to one."""

    keeps_order = True

    def __init__(self, place: str, endpoint: str | None) -> None:
        stand_in_for_torchvision()
        import streaming
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()  # of runs that were ended
        self.streaming, self.place, self.is_remote = streaming, place, endpoint is not None
        if endpoint is not None:
            os.environ["S3_ENDPOINT_URL"] = endpoint

    def ingest(self, tokens: np.ndarray) -> None:
        kind = f"ndarray:uint16:{tokens.shape[1]}"
        with self.streaming.MDSWriter(out=self.place, columns={"tokens": kind}) as writer:
            for row in tokens:
                writer.write({"tokens": row})

    def opened(self) -> Any:
        where = {"local": self.place}
        if self.is_remote:
            where = {"remote": self.place, "local": tempfile.mkdtemp(prefix="mds")}
        return self.streaming.StreamingDataset(**where, batch_size=1)

    def open(self) -> int:
        return len(self.opened())

    def rows(self, dataset: Any, wanted: np.ndarray) -> np.ndarray:
        return np.stack([dataset[int(row)]["tokens"] for row in wanted])


LIT: dict[str, np.ndarray] = {}


def lit_rows(number: int) -> Iterator[Any]:
    import torch

    for row in LIT["rows"][SHARD_ROWS * number : SHARD_ROWS * (number + 1)]:
        yield torch.from_numpy(row.copy())


class LitData:
    """LitData's format of tokens, read from the local folder, or downloaded to one."""

    keeps_order = False  # its writers' parts are in the order of the writers

    def __init__(self, place: str, endpoint: str | None) -> None:
        import litdata

        self.litdata, self.place = litdata, place
        self.how: dict[str, Any] = {}
        if endpoint is not None:
            from litdata.streaming import downloader

            getattr(downloader, "_OBSTORE_CLIENT_OPTIONS", {})["allow_http"] = True
            keys = {"region_name" if key == "aws_region" else key: KEYS[key] for key in KEYS}
            self.how = {"storage_options": {**keys, "endpoint_url": endpoint}}

    def ingest(self, tokens: np.ndarray) -> None:
        LIT["rows"] = tokens
        self.litdata.optimize(
            lit_rows,
            list(range(-(-len(tokens) // SHARD_ROWS))),
            self.place,
            chunk_size=tokens.shape[1] * 8192,
            item_loader=self.litdata.TokensLoader(block_size=tokens.shape[1]),
            num_workers=2,
            start_method="fork",
            verbose=False,
        )

    def opened(self) -> Any:
        if self.how:
            self.how["cache_dir"] = tempfile.mkdtemp(prefix="lit")
        loader = self.litdata.TokensLoader(block_size=512)
        return self.litdata.StreamingDataset(self.place, item_loader=loader, **self.how)

    def open(self) -> int:
        return len(self.opened())

    def rows(self, dataset: Any, wanted: np.ndarray) -> np.ndarray:
        return np.stack([np.asarray(dataset[int(row)]) for row in wanted])


class WebDataset:
    """WebDataset: tar files; it has no rows to ask for."""

    def __init__(self, place: str, endpoint: str | None) -> None:
        del endpoint
        self.place = place

    def ingest(self, tokens: np.ndarray) -> None:
        import webdataset

        Path(self.place).mkdir(parents=True)
        target = f"{self.place}/%05d.tar"
        with webdataset.ShardWriter(target, maxcount=SHARD_ROWS, verbose=0) as writer:
            for number, row in enumerate(tokens):
                writer.write({"__key__": f"{number:07d}", "bin": row.tobytes()})


PEERS: dict[str, Callable[[str, str | None], Any]] = {
    "deeplake": DeepLake,
    "lance": Lance,
    "zarr": Zarr,
    "mds": Mds,
    "litdata": LitData,
    "webdataset": WebDataset,
}


def timed(work: Callable[[], object], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - started) / repeats


def touch_memory(nbytes: int) -> None:
    """Take memory and give it back, so that later allocations are not new to the machine."""
    np.ones(nbytes, np.uint8)


def measure(peer: Any, task: str, tokens: np.ndarray, repeats: int) -> dict[str, float]:
    """Run a task; loading on first use counts only in the figure of opening a remote store."""
    if task == "ingest":
        data = np.array(tokens)
        return {"seconds": timed(lambda: peer.ingest(data), 1)}
    if task == "append":
        one = peer.append(np.array(tokens[0]))
        one()
        return {"seconds": timed(one, repeats)}
    if task == "open":
        first_s = timed(peer.open, 1)
        again_s = timed(peer.open, repeats)
        return {"seconds": again_s, "first_s": first_s}
    if task.startswith("array"):
        data = np.array(tokens)
        is_compressed = task == "array-compressed"
        touch_memory(3 * data.nbytes)  # as benchmarks/arrays.py does
        seconds = timed(lambda: peer.write_array(data, is_compressed=is_compressed), 1)
        sizes: list[int] = []
        touch_memory(3 * data.nbytes)
        read_s = timed(lambda: sizes.append(peer.read_array().size), 1)
        assert sizes == [data.size]
        return {"seconds": seconds, "read_s": read_s}
    wanted = np.random.default_rng(0).choice(len(tokens), SCATTERED, replace=False)
    dataset = peer.opened()
    found: list[np.ndarray] = []
    seconds = timed(lambda: found.append(peer.rows(dataset, wanted)), 1)
    assert found[0].shape == (SCATTERED, tokens.shape[1])
    if peer.keeps_order:  # the same rows, whatever order they are told in
        assert found[0].sum() == tokens[np.sort(wanted)].sum(), "wrong rows"
    return {"seconds": seconds}


def main() -> None:
    name, task, place, tokens_file, times, *rest = sys.argv[1:]
    tokens = np.load(tokens_file, mmap_mode="r")
    endpoint = rest[0] if rest else None
    peer = PEERS[name](place, endpoint)
    print(json.dumps(measure(peer, task, tokens, int(times))))


if __name__ == "__main__":
    main()
