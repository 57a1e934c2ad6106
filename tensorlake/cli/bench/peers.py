"""The opponents that have a format of their own: webdataset, mds, litdata and lance.

    rows ─► records of bytes ─► the library's writer ─► a temporary folder ─► its reader ─► batches

The same bytes are stored: media as they are encoded in the dataset, and the other values of a row
together as one pickle. Workers of the library's loader decode them, by our functions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from torch.utils.data import DataLoader

from tensorlake.cli.bench.run import BenchRun, Measured, digest_of
from tensorlake.cli.bench.torch import Batches, Rows, Stack, decoded
from tensorlake.loader import ColumnPlan, decode, measure_epochs
from tensorlake.storage import usable_cores

__all__ = ["PEERS", "measure_peer"]

REST = "rest"
SHARD_NBYTES = 64 << 20
SHARDS_PER_WORKER = 4
WRITTEN_ROWS = 1024
SHUFFLED_ROWS = 1000

Record = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Layout:
    """Fields of a record: the media columns by number, and the rest."""

    media: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields."""
        return (REST, *(f"m{number}" for number in range(len(self.media))))

    def record(self, cells: Mapping[str, Any]) -> Record:
        """Return the record of a row."""
        shapes = {name: getattr(cells[name], "shape", None) for name in self.media}
        rest = {name: value for name, value in cells.items() if name not in shapes}
        fields = {REST: pickle.dumps((shapes, rest), protocol=pickle.HIGHEST_PROTOCOL)}
        for field, name in zip(self.fields[1:], self.media, strict=True):
            fields[field] = b"" if cells[name] is None else bytes(cells[name].data)
        return fields

    def cells(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of a record."""
        shapes, cells = pickle.loads(bytes(record[REST]))  # noqa: S301 - written above
        for field, name in zip(self.fields[1:], self.media, strict=True):
            shape = shapes[name]
            media = None if shape is None else decode.Sample(bytes(record[field]), shape, 0, 0)
            cells[name] = media
        return cells


@dataclass(frozen=True)
class Collate:
    """Decode the records of a batch, and stack them; a spawned worker plans the columns again."""

    run: BenchRun
    layout: Layout
    columns: tuple[ColumnPlan, ...]

    @classmethod
    def of(cls, run: BenchRun) -> Collate:
        """Plan the columns as our loader does."""
        with run.open() as (rows, arguments), rows.loader(**arguments) as loader:
            columns = loader.columns
        media = tuple(column.name for column in columns if column.decoder is not None)
        return cls(run, Layout(media), columns)

    def __call__(self, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the batch."""
        rows = [self.layout.cells(record) for record in records]
        return Stack(self.columns)([decoded(self.columns, row) for row in rows])

    def __reduce__(self) -> tuple[Callable[[BenchRun], Collate], tuple[BenchRun]]:
        return Collate.of, (self.run,)


@dataclass(frozen=True, slots=True)
class Reading:
    """How batches are read: the arguments of a loader of a library."""

    batch_size: int
    collate: Collate
    shuffle: bool = False
    workers: int = 1

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the arguments of a DataLoader."""
        own = {"batch_size": self.batch_size, "num_workers": self.workers}
        return own | {"collate_fn": self.collate, "persistent_workers": True} | more


def _write_webdataset(folder: Path, records: Iterator[Record], layout: Layout, shard: int) -> None:
    wds: Any = import_module("webdataset")

    del layout
    limits = {"maxcount": shard, "maxsize": SHARD_NBYTES}
    with wds.ShardWriter(f"{folder}/%06d.tar", verbose=0, encoder=False, **limits) as writer:
        for number, record in enumerate(records):
            writer.write({"__key__": f"{number:09d}", **record})


def _read_webdataset(folder: Path, reading: Reading) -> Any:
    wds: Any = import_module("webdataset")

    shards = sorted(str(path) for path in folder.glob("*.tar"))
    shuffled = len(shards) if reading.shuffle else False
    dataset: Any = wds.WebDataset(shards, shardshuffle=shuffled, empty_check=False)
    if reading.shuffle:
        dataset = dataset.shuffle(SHUFFLED_ROWS)
    return DataLoader(dataset, **reading.options(num_workers=min(reading.workers, len(shards))))


def _write_mds(folder: Path, records: Iterator[Record], layout: Layout, shard: int) -> None:
    streaming: Any = import_module("streaming")

    del shard
    columns = dict.fromkeys(layout.fields, "bytes")
    where = {"out": str(folder), "size_limit": SHARD_NBYTES}
    with streaming.MDSWriter(columns=columns, **where) as writer:
        for record in records:
            writer.write(dict(record))


def _read_mds(folder: Path, reading: Reading) -> Any:
    streaming: Any = import_module("streaming")

    own = {"shuffle": reading.shuffle, "batch_size": reading.batch_size}
    dataset = streaming.StreamingDataset(local=str(folder), **own)
    return DataLoader(dataset, **reading.options())


def _write_litdata(folder: Path, records: Iterator[Record], layout: Layout, shard: int) -> None:
    writers: Any = import_module("litdata.streaming.writer")

    del layout, shard
    writer = writers.BinaryWriter(str(folder), chunk_bytes=SHARD_NBYTES)
    for number, record in enumerate(records):
        writer[number] = dict(record)
    writer.done()
    writer.merge()


def _read_litdata(folder: Path, reading: Reading) -> Any:
    litdata: Any = import_module("litdata")

    dataset = litdata.StreamingDataset(str(folder), shuffle=reading.shuffle)
    return litdata.StreamingDataLoader(dataset, **reading.options())


def _write_lance(folder: Path, records: Iterator[Record], layout: Layout, shard: int) -> None:
    lance: Any = import_module("lance")
    import pyarrow as pa

    del shard
    schema = pa.schema([(field, pa.large_binary()) for field in layout.fields])
    chunks = (
        pa.RecordBatch.from_pylist([dict(record) for record in some], schema=schema)
        for some in iter(lambda: list(islice(records, WRITTEN_ROWS)), [])
    )
    reader = pa.RecordBatchReader.from_batches(schema, chunks)
    lance.write_dataset(reader, str(folder / "rows.lance"))


def _read_lance(folder: Path, reading: Reading) -> Any:
    data: Any = import_module("lance.torch.data")

    dataset = data.SafeLanceDataset(str(folder / "rows.lance"))
    return data.get_safe_loader(dataset, **reading.options(shuffle=reading.shuffle))


@dataclass(frozen=True, slots=True)
class Peer:
    """A library: the name of its package, and how it writes and reads."""

    package: str
    write: Callable[[Path, Iterator[Record], Layout, int], None]
    read: Callable[[Path, Reading], Any]


PEERS = {
    "webdataset": Peer("webdataset", _write_webdataset, _read_webdataset),
    "mds": Peer("mosaicml-streaming", _write_mds, _read_mds),
    "litdata": Peer("litdata", _write_litdata, _read_litdata),
    "lance": Peer("pylance", _write_lance, _read_lance),
}


def measure_peer(name: str, run: BenchRun) -> Measured:
    """Write the rows in the format of a library, and stream them with its loader."""
    peer, workers, collate = PEERS[name], run.workers or usable_cores(), Collate.of(run)
    with TemporaryDirectory(prefix="tensorlake-bench-") as kept:
        began = perf_counter()
        with run.open() as (rows, _):
            stored = Rows(rows, collate.columns)
            if not len(stored):
                return Measured("", measure_epochs(Batches([]), run.epochs), {}, "no rows")
            places = range(len(stored))
            records = (collate.layout.record(stored.cells(place)) for place in places)
            shard = max(1, len(stored) // (SHARDS_PER_WORKER * workers))
            peer.write(Path(kept), records, collate.layout, shard)
        written, read = perf_counter() - began, partial(peer.read, Path(kept))
        batches = Batches(read(Reading(run.batch_size, collate, run.shuffle, workers)))
        epochs = measure_epochs(batches, run.epochs, max_batches=run.batches)
        first = digest_of(next(iter(read(Reading(run.batch_size, collate)))))
    facts = f"worker processes {workers}, {peer.package} {version(peer.package)}"
    return Measured("", epochs, first, f"{facts}, written in {written:.1f} s before")
