"""JPEG files into one peer's format, run by the peer's own Python: no line of ours is imported.

    ingest_tasks.py PEER FOLDER PLACE

It does what a user of the peer would write: reads the files of FOLDER, writes them to PLACE as they
are, and prints one line of JSON: seconds, processor seconds, bytes stored. None of these writers
calls fsync; what the peer imports is loaded before the clock starts.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from torchvision_stand_in import stand_in_for_torchvision

SHARD_NBYTES = 64 << 20
SHARD_ROWS = 600  # of 110 kB: the same
ROWS_AT_ONCE = 100
WORKERS = 2

Write = Callable[[list[Path], str], None]


def deeplake() -> Write:
    import deeplake as lake

    def write(files: list[Path], place: str) -> None:
        dataset = lake.create(place)
        dataset.add_column("image", lake.types.Image(sample_compression="jpeg"))
        for start in range(0, len(files), ROWS_AT_ONCE):
            batch = [file.read_bytes() for file in files[start : start + ROWS_AT_ONCE]]
            dataset.append({"image": batch})
        dataset.commit()

    return write


def lance() -> Write:
    import lance as lake
    import pyarrow as pa

    def write(files: list[Path], place: str) -> None:
        schema = pa.schema([pa.field("image", pa.large_binary())])
        batches = (
            pa.record_batch(
                [[one.read_bytes() for one in files[start : start + ROWS_AT_ONCE]]], schema=schema
            )
            for start in range(0, len(files), ROWS_AT_ONCE)
        )
        lake.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), place)

    return write


def mds() -> Write:
    stand_in_for_torchvision()
    from streaming import MDSWriter

    def write(files: list[Path], place: str) -> None:
        columns = {"image": "bytes"}
        with MDSWriter(out=place, columns=columns, size_limit=SHARD_NBYTES) as writer:
            for file in files:
                writer.write({"image": file.read_bytes()})

    return write


def webdataset() -> Write:
    import webdataset as wds

    def write(files: list[Path], place: str) -> None:
        Path(place).mkdir(parents=True)
        with wds.ShardWriter(f"{place}/%05d.tar", maxcount=SHARD_ROWS, verbose=0) as writer:
            for number, file in enumerate(files):
                writer.write({"__key__": f"{number:07d}", "jpg": file.read_bytes()})

    return write


def _read(file: str) -> dict[str, bytes]:
    return {"image": Path(file).read_bytes()}


def litdata() -> Write:
    import litdata as lit

    def write(files: list[Path], place: str) -> None:
        lit.optimize(
            _read,
            [str(file) for file in files],
            place,
            chunk_bytes="64MB",
            num_workers=WORKERS,
            start_method="fork",
            verbose=False,
        )

    return write


PEERS: dict[str, Callable[[], Write]] = {
    "deeplake": deeplake,
    "lance": lance,
    "mds": mds,
    "webdataset": webdataset,
    "litdata": litdata,
}


def _cpu_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def main() -> None:
    peer, folder, place = sys.argv[1:4]
    write = PEERS[peer]()
    files = sorted(Path(folder).iterdir())
    cpu, started = _cpu_seconds(), time.perf_counter()
    write(files, place)
    seconds, spent = time.perf_counter() - started, _cpu_seconds() - cpu
    stored = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
    assert stored > 0.9 * sum(file.stat().st_size for file in files), "it did not write them all"
    print(json.dumps({"seconds": seconds, "cpu_seconds": spent, "stored": stored}))


if __name__ == "__main__":
    main()
