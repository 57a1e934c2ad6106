"""One task of one other loader, run by an environment of its own: no line of ours is imported.

    loader_tasks.py PEER TASK PLACE SOURCE [ENDPOINT]

    write-jpegs    the files of the folder SOURCE into the peer's own format at PLACE
    write-tokens   the rows of the .npy file SOURCE
    jpegs, tokens  an epoch of PLACE, a folder or s3://bucket/key at ENDPOINT; $ROWS are in it

Every loader yields torch batches of the same shapes: uint8 (64, 224, 224, 3), resized with
antialiasing, and uint16 (256, 512), shuffled, each row once, by $WORKERS workers. From a folder
the second epoch counts, when workers are there and caches warm, or of a slow loader what it gives
in some seconds after some seconds; over a network the first epoch, all of it: it reads every byte
once. Prints one line of JSON: seconds, processor seconds, rows, peak memory (PSS).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import chain, repeat
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peak_memory import PeakMemory
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
from torchvision_stand_in import stand_in_for_torchvision

SIDE, IMAGE_BATCH, TOKEN_BATCH, TOKENS = 224, 64, 256, 512
WORKERS = int(os.environ.get("WORKERS", "2"))
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
WARMING_S = 6.0  # of a slow loader's epoch, after which workers are there and caches warm
COUNTED_S = 8.0  # of what comes then
EPOCH_SHARE = 0.99  # of its rows are an epoch: some drop a last batch
TAR_JPEGS, TAR_TOKENS = 75, 10_000  # some 8 MB, as the others


def decode(encoded: bytes) -> torch.Tensor:
    import simplejpeg

    pixels = torch.from_numpy(simplejpeg.decode_jpeg(encoded, "RGB"))
    resized = torch.nn.functional.interpolate(
        pixels.permute(2, 0, 1)[None], (SIDE, SIDE), mode="bilinear", antialias=True
    )
    return resized[0].permute(1, 2, 0).contiguous()


def stack(rows: Any) -> torch.Tensor:
    return torch.stack([torch.as_tensor(row) for row in rows])


def workers(rows: Any, batch_size: int | None, **how: Any) -> DataLoader[Any]:
    return DataLoader(
        rows, batch_size=batch_size, num_workers=WORKERS, persistent_workers=True, **how
    )


class Files(Dataset[Any]):
    """The JPEG files themselves, as stock torch reads them."""

    def __init__(self, place: str, endpoint: str | None) -> None:
        self.place, self.endpoint, self.client = place, endpoint, None
        if endpoint is None:
            self.keys = sorted(path.name for path in Path(place).iterdir())
            return
        bucket, prefix = place.removeprefix("s3://").split("/", 1)
        pages = self.s3().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        self.keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        self.client = None  # each worker has one of its own

    def s3(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, **KEYS)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.endpoint is None:
            return decode((Path(self.place) / self.keys[index]).read_bytes())
        self.client = self.client or self.s3()
        bucket = self.place.removeprefix("s3://").split("/", 1)[0]
        body = self.client.get_object(Bucket=bucket, Key=self.keys[index])["Body"]
        return decode(body.read())


class Torch:
    """Stock torch over files."""

    def __init__(self, place: str, endpoint: str | None) -> None:
        self.place, self.endpoint = place, endpoint
        self.is_remote = endpoint is not None

    def write_jpegs(self, files: list[Path]) -> None:
        Path(self.place).mkdir(parents=True)
        for file in files:
            shutil.copy(file, self.place)

    def jpegs(self) -> Iterable[torch.Tensor]:
        return workers(Files(self.place, self.endpoint), IMAGE_BATCH, shuffle=True)


class WebDataset(Torch):
    """WebDataset: tar files, a shuffle buffer."""

    def _write(self, rows: Iterable[dict[str, Any]], each: int) -> None:
        import webdataset

        Path(self.place).mkdir(parents=True)
        with webdataset.ShardWriter(f"{self.place}/%05d.tar", maxcount=each, verbose=0) as writer:
            for number, row in enumerate(rows):
                writer.write({"__key__": f"{number:07d}", **row})

    def write_jpegs(self, files: list[Path]) -> None:
        self._write(({"jpg": file.read_bytes()} for file in files), TAR_JPEGS)

    def write_tokens(self, rows: np.ndarray) -> None:
        self._write(({"bin": row.tobytes()} for row in rows), TAR_TOKENS)

    def _shards(self, each: int) -> list[str]:
        count = -(-int(os.environ["ROWS"]) // each)
        if not self.is_remote:
            return [f"{self.place}/{number:05d}.tar" for number in range(count)]
        base = f"{self.endpoint}/{self.place.removeprefix('s3://')}"
        return [f"pipe:curl -sf {base}/{number:05d}.tar" for number in range(count)]

    def _batches(self, each: int, buffer: int, read: Any, batch_size: int) -> Any:
        import webdataset

        rows = webdataset.WebDataset(self._shards(each), shardshuffle=100, seed=1)
        batched = rows.shuffle(buffer).map(read).batched(batch_size, collation_fn=stack)
        return webdataset.WebLoader(
            batched, batch_size=None, num_workers=WORKERS, persistent_workers=True
        )

    def jpegs(self) -> Iterable[torch.Tensor]:
        return self._batches(TAR_JPEGS, 300, lambda row: decode(row["jpg"]), IMAGE_BATCH)

    def tokens(self) -> Iterable[torch.Tensor]:
        def read(row: Any) -> np.ndarray:
            return np.frombuffer(row["bin"], np.uint16).copy()

        return self._batches(TAR_TOKENS, 2000, read, TOKEN_BATCH)


class Mds(Torch):
    """MosaicML Streaming: MDS shards."""

    def _write(self, columns: dict[str, str], rows: Iterable[dict[str, Any]]) -> None:
        stand_in_for_torchvision()
        from streaming import MDSWriter

        with MDSWriter(out=self.place, columns=columns, size_limit=8 << 20) as writer:
            for row in rows:
                writer.write(row)

    def write_jpegs(self, files: list[Path]) -> None:
        self._write({"image": "bytes"}, ({"image": file.read_bytes()} for file in files))

    def write_tokens(self, rows: np.ndarray) -> None:
        self._write({"t": f"ndarray:uint16:{TOKENS}"}, ({"t": row} for row in rows))

    def _rows(self, read: Any, batch_size: int) -> Any:
        stand_in_for_torchvision()
        from streaming import StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()  # of runs that were ended

        class Rows(StreamingDataset):
            def __getitem__(self, at: Any) -> Any:
                return read(super().__getitem__(at))

        where = {"local": self.place}
        if self.is_remote:
            os.environ["S3_ENDPOINT_URL"] = str(self.endpoint)
            where = {"remote": self.place, "local": tempfile.mkdtemp(prefix="mds")}
        rows = Rows(**where, shuffle=True, batch_size=batch_size)
        for stream in rows.streams:
            # Its client has asked for the index. Workers that are forked with it share one
            # connection, and take each other's answers: wrong bytes, or none for a minute.
            stream._downloader.clean_up()  # noqa: SLF001 - each worker makes a client of its own
        return workers(rows, batch_size)

    def jpegs(self) -> Iterable[torch.Tensor]:
        return self._rows(lambda row: decode(row["image"]), IMAGE_BATCH)

    def tokens(self) -> Iterable[torch.Tensor]:
        return self._rows(lambda row: row["t"].copy(), TOKEN_BATCH)


LIT: dict[str, Any] = {}


def lit_jpeg(number: int) -> dict[str, Any]:
    return {"image": LIT["files"][number].read_bytes()}


def lit_tokens(number: int) -> Iterable[torch.Tensor]:
    for row in LIT["rows"][10_000 * number : 10_000 * (number + 1)]:
        yield torch.from_numpy(row.copy())


class LitData(Torch):
    """LitData: chunks, streamed."""

    def write_jpegs(self, files: list[Path]) -> None:
        import litdata

        LIT["files"] = files
        how = {"num_workers": WORKERS, "start_method": "fork", "verbose": False}
        litdata.optimize(lit_jpeg, list(range(len(files))), self.place, chunk_bytes="8MB", **how)

    def write_tokens(self, rows: np.ndarray) -> None:
        import litdata

        LIT["rows"] = rows
        litdata.optimize(
            lit_tokens,
            list(range(-(-len(rows) // 10_000))),
            self.place,
            chunk_size=TOKENS * 8192,
            item_loader=litdata.TokensLoader(block_size=TOKENS),
            num_workers=WORKERS,
            start_method="fork",
            verbose=False,
        )

    def _loader(self, batch_size: int, **how: Any) -> Any:
        import litdata

        if self.is_remote:
            from litdata.streaming import downloader

            options = getattr(downloader, "_OBSTORE_CLIENT_OPTIONS", {})
            options["allow_http"] = True
            how["cache_dir"] = tempfile.mkdtemp(prefix="lit")
            how["storage_options"] = {**KEYS, "endpoint_url": self.endpoint}
        rows = litdata.StreamingDataset(self.place, shuffle=True, **how)
        return litdata.StreamingDataLoader(
            rows, batch_size=batch_size, num_workers=WORKERS, persistent_workers=True
        )

    def jpegs(self) -> Iterable[torch.Tensor]:
        return self._loader(IMAGE_BATCH, transform=lambda row: decode(row["image"]))

    def tokens(self) -> Iterable[torch.Tensor]:
        import litdata

        return self._loader(TOKEN_BATCH, item_loader=litdata.TokensLoader(block_size=TOKENS))


class LanceRows(Dataset[Any]):
    """Takes of many rows at once, as Lance likes to be asked."""

    def __init__(self, place: str, options: dict[str, str] | None, read: Any, column: str) -> None:
        import lance

        self.place, self.options, self.read, self.column = place, options, read, column
        self.count = lance.dataset(place, storage_options=options).count_rows()
        self.rows: Any = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, wanted: list[int]) -> torch.Tensor:
        import lance

        self.rows = self.rows or lance.dataset(self.place, storage_options=self.options)
        return self.read(self.rows.take(wanted, columns=[self.column])[self.column])


def lance_jpegs(column: Any) -> torch.Tensor:
    return stack([decode(one) for one in column.to_pylist()])


def lance_tokens(column: Any) -> torch.Tensor:
    flat = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return torch.from_numpy(np.concatenate(flat).reshape(-1, TOKENS))


class Lance(Torch):
    """Lance: takes of random rows."""

    def write_jpegs(self, files: list[Path]) -> None:
        import lance
        import pyarrow as pa

        encoded = pa.array([file.read_bytes() for file in files], pa.large_binary())
        lance.write_dataset(pa.table({"image": encoded}), self.place)

    def write_tokens(self, rows: np.ndarray) -> None:
        import lance
        import pyarrow as pa

        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), TOKENS)
        lance.write_dataset(pa.table({"t": column}), self.place)

    def _batches(self, read: Any, column: str, batch_size: int) -> Any:
        options = None
        if self.is_remote:
            options = {
                "endpoint": str(self.endpoint),
                "allow_http": "true",
                "aws_access_key_id": "x",
                "aws_secret_access_key": "y",
                "aws_region": "us-east-1",
            }
        rows = LanceRows(self.place, options, read, column)
        sampler = BatchSampler(RandomSampler(rows), batch_size, drop_last=False)
        how = {"multiprocessing_context": "spawn"} if WORKERS else {}
        return workers(rows, None, sampler=sampler, **how)

    def jpegs(self) -> Iterable[torch.Tensor]:
        return self._batches(lance_jpegs, "image", IMAGE_BATCH)

    def tokens(self) -> Iterable[torch.Tensor]:
        return self._batches(lance_tokens, "t", TOKEN_BATCH)


class Grain(Torch):
    """Grain: threads over files."""

    def _batches(self, source: Any, read: Any, batch_size: int) -> Iterable[torch.Tensor]:
        import grain

        rows = grain.MapDataset.source(source).shuffle(seed=1).map(read).batch(batch_size)
        options = grain.ReadOptions(num_threads=WORKERS, prefetch_buffer_size=4)
        batches = rows.to_iter_dataset(options)

        class Batches:
            def __iter__(self) -> Any:
                return (torch.from_numpy(np.asarray(batch)) for batch in batches)

        return Batches()

    def jpegs(self) -> Iterable[torch.Tensor]:
        files = Files(self.place, self.endpoint)
        return self._batches(range(len(files)), lambda at: files[at].numpy(), IMAGE_BATCH)

    def write_tokens(self, rows: np.ndarray) -> None:
        Path(self.place).mkdir(parents=True)
        np.save(f"{self.place}/rows.npy", rows)

    def tokens(self) -> Iterable[torch.Tensor]:
        rows = np.load(f"{self.place}/rows.npy", mmap_mode="r")
        return self._batches(range(len(rows)), lambda at: np.array(rows[at]), TOKEN_BATCH)


PEERS = {
    "torch": Torch,
    "webdataset": WebDataset,
    "mds": Mds,
    "litdata": LitData,
    "lance": Lance,
    "grain": Grain,
}


def processor_s() -> float:
    import psutil

    own = psutil.Process()
    every = [own.cpu_times(), *(child.cpu_times() for child in own.children(recursive=True))]
    gone = own.cpu_times()
    return sum(t.user + t.system for t in every) + gone.children_user + gone.children_system


def rows_of(batch: Any) -> int:
    """Count a batch's rows, and see that they are what was asked for."""
    assert tuple(batch.shape[1:]) in {(SIDE, SIDE, 3), (TOKENS,)}, batch.shape
    return len(batch)


def warmed(loader: Iterable[Any]) -> Iterable[Any]:
    """Pass an epoch, or of a slow loader some seconds of it; return what comes then, endlessly."""
    started, first = time.perf_counter(), iter(loader)
    for batch in first:
        rows_of(batch)
        if time.perf_counter() > started + WARMING_S:
            break
    return chain(first, chain.from_iterable(repeat(loader)))


def measure(batches: Iterable[Any], *, most_rows: float, most_s: float) -> dict[str, float]:
    memory = PeakMemory()
    memory.start()
    cpu, began, first = processor_s(), time.perf_counter(), 0.0
    rows = 0
    for batch in batches:
        first = first or time.perf_counter() - began
        rows += rows_of(batch)
        if rows >= most_rows or time.perf_counter() > began + most_s:
            break
    seconds = time.perf_counter() - began
    memory.ended.set()
    return {
        "seconds": seconds,
        "cpu_seconds": processor_s() - cpu,
        "rows": rows,
        "first_batch_ms": first * 1000,
        "memory_mb": memory.most / 1e6,
    }


def main() -> None:
    import psutil

    peer, task, place, source, *rest = sys.argv[1:]
    made = PEERS[peer](place, rest[0] if rest else None)
    if task == "write-jpegs":
        made.write_jpegs(sorted(Path(source).iterdir()))
        print("{}")
    elif task == "write-tokens":
        made.write_tokens(np.load(source))
        print("{}")
    else:
        torch.manual_seed(1)
        loader = getattr(made, task)()
        if made.is_remote:
            figures = measure(loader, most_rows=inf, most_s=inf)
        else:
            epoch = EPOCH_SHARE * int(os.environ["ROWS"])
            figures = measure(warmed(loader), most_rows=epoch, most_s=COUNTED_S)
        print(json.dumps(figures), flush=True)
        for child in psutil.Process().children(recursive=True):
            child.kill()  # workers in the middle of an epoch, which would be waited for
        os._exit(0)


if __name__ == "__main__":
    main()
