"""256 MiB of float32 pixels written and read back, beside other formats and a plain file.

Each contender writes the array from memory into a folder, and then reads all of it into memory, in
one process: the pages are those that it has just written. Rows are 64 × 64, so a sample is 16 KiB,
which all store as it is. Before each of the two every contender, peers too, takes as much memory as
it may need and gives it back: a virtual machine gets memory that is new to its host,
which takes longer than what is measured, now here and now there. Compressed is beside it: here by
the codec that brings our file to the size of Zarr's default, and the codec alone, a chunk at a time
in two threads, is the limit.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.harness.data import Workspace, jpeg_paths
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    folder_nbytes,
    stopwatch,
    touch_memory,
    warm_up,
)
from benchmarks.peers.storage import peer_called, run_task

__all__ = ["BENCHMARKS"]

SIDE = 64
CHUNK_ROWS = 64
"""1 MiB."""

TOUCHED = 3
"""Times the array: once for the file in memory, once for what is read, once to spare."""

FULL_NBYTES, QUICK_NBYTES = 256 << 20, 16 << 20
READ = "read MB/s"
STORED = "stored MB"
OWN, OWN_UNSYNCED = "tensorlake", "tensorlake, no fsync"
PLAIN, PLAIN_CODEC = "one .npy file, no fsync", "the codec alone, 2 threads"
RAW_PEERS = {"deeplake": "Deep Lake", "zarr": "Zarr", "lance": "Lance"}
ZARR_COMPRESSED = "Zarr, zstd"
CODEC: dict[str, Any] = {
    "cname": "zstd",
    "clevel": 2,
    "shuffle": "bitshuffle",
    "typesize": 4,
    "blocksize": 640 << 10,
}
"""The fastest of docs/decisions/0029 that comes to the size."""
THREADS = 2


def pixels_file(workspace: Workspace) -> Path:
    """Return the grey pixels of the images, 0 … 1, as a file of NumPy's."""
    import simplejpeg

    file = workspace.folder / "pixels.npy"
    if not file.exists():
        wanted = (QUICK_NBYTES if workspace.is_quick else FULL_NBYTES) // 4
        grey = np.empty(wanted, np.uint8)
        filled = 0
        while filled < wanted:
            for path in jpeg_paths(workspace):
                pixels = simplejpeg.decode_jpeg(path.read_bytes(), "GRAY").ravel()
                taken = min(len(pixels), wanted - filled)
                grey[filled : filled + taken] = pixels[:taken]
                filled += taken
        np.save(file, (grey.astype(np.float32) / 255).reshape(-1, SIDE, SIDE))
    return file


def by_tensorlake(
    workspace: Workspace, *, durability: Literal["fsync", "none"], is_compressed: bool = False
) -> Measurement:
    import tensorlake as tl

    warm_up()
    values = np.load(pixels_file(workspace))
    target = workspace.scratch("pixels.tl")
    touch_memory(TOUCHED * values.nbytes)
    with stopwatch() as watch:
        _create(target, durability=durability, is_compressed=is_compressed)
        with tl.open(str(target), durability=durability) as ds:
            ds.extend({"x": values})
            ds.commit("all")
    touch_memory(TOUCHED * values.nbytes)
    with stopwatch() as reading, tl.open(str(target), read_only=True) as ds:
        found = ds["x"][:]
    assert found.shape == values.shape
    assert found.flags.owndata, "as of the others, in memory of its own, which may be written to"
    assert found.flags.writeable
    return _measured(values, target, watch, reading)


def _create(target: Path, *, durability: Literal["fsync", "none"], is_compressed: bool) -> None:
    import tensorlake as tl
    from tensorlake.format import Schema, TensorSpec
    from tensorlake.storage import open_store, runtime
    from tensorlake.versions import create_dataset

    codecs: Any = None
    if is_compressed:
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        codecs = [little, {"name": "blosc", "configuration": CODEC}]
    spec = TensorSpec.new("x", tl.Array("float32", shape=(SIDE, SIDE)), codecs=codecs)
    store = open_store(str(target), durability=durability)
    made = create_dataset(store, Schema((spec,)).to_json(), grace_s=86_400, exist_ok=False)
    runtime.run(made)


def by_file(workspace: Workspace) -> Measurement:
    values = np.load(pixels_file(workspace))
    target = workspace.scratch("pixels")
    target.mkdir()
    touch_memory(TOUCHED * values.nbytes)
    with stopwatch() as watch:
        np.save(target / "pixels.npy", values)
    touch_memory(TOUCHED * values.nbytes)
    with stopwatch() as reading:
        found = np.load(target / "pixels.npy")
    assert found.shape == values.shape
    return _measured(values, target, watch, reading)


def by_codec(workspace: Workspace) -> Measurement:
    """Compress each chunk and decompress it, in memory."""
    import numcodecs

    values = np.load(pixels_file(workspace))
    assert CODEC["shuffle"] == "bitshuffle"
    bits, blocksize = numcodecs.Blosc.BITSHUFFLE, CODEC["blocksize"]
    codec = numcodecs.Blosc(CODEC["cname"], CODEC["clevel"], bits, blocksize=blocksize)
    chunks = [values[at : at + CHUNK_ROWS] for at in range(0, len(values), CHUNK_ROWS)]
    with ThreadPoolExecutor(THREADS) as pool:
        touch_memory(TOUCHED * values.nbytes)
        with stopwatch() as watch:
            encoded = list(pool.map(codec.encode, chunks))
        touch_memory(TOUCHED * values.nbytes)
        with stopwatch() as reading:
            for _ in pool.map(codec.decode, encoded):
                pass
    megabytes = values.nbytes / 1e6
    stored = sum(map(len, encoded)) / 1e6
    facts = {READ: megabytes / reading.seconds, STORED: stored}
    return Measurement(watch.seconds, megabytes, watch.cpu_seconds, facts)


def _measured(values: np.ndarray, target: Path, watch: Any, reading: Any) -> Measurement:
    megabytes = values.nbytes / 1e6
    facts = {READ: megabytes / reading.seconds, STORED: folder_nbytes(target) / 1e6}
    return Measurement(watch.seconds, megabytes, watch.cpu_seconds, facts)


def by_peer(workspace: Workspace, *, key: str, task: str) -> Measurement:
    """Let a peer write and read, in its own environment (``peers/scripts/storage_tasks.py``)."""
    peer = peer_called(key)
    if peer.refused is not None:
        return peer.refused
    file, target = pixels_file(workspace), workspace.scratch(f"pixels.{key}")
    told = run_task(peer, "storage_tasks.py", task, str(target), str(file), "1")
    if told.note:
        return told
    megabytes = np.load(file, mmap_mode="r").nbytes / 1e6
    facts = {READ: megabytes / told.facts["read_s"], STORED: folder_nbytes(target) / 1e6}
    return Measurement(told.seconds, megabytes, told.cpu_seconds, facts)


def _prepare(workspace: Workspace) -> None:
    pixels_file(workspace)
    for key in RAW_PEERS:
        peer_called(key).environment.make()


BENCHMARKS = (
    Benchmark(
        name="array-raw",
        question="256 MiB of float32 pixels, 16 KiB per row, from memory into a folder and back",
        unit="MB/s",
        contenders=(
            Contender(PLAIN, by_file),
            Contender(OWN, partial(by_tensorlake, durability="fsync")),
            Contender(OWN_UNSYNCED, partial(by_tensorlake, durability="none")),
            *(
                Contender(name, partial(by_peer, key=key, task="array"))
                for key, name in RAW_PEERS.items()
            ),
        ),
        goals=(
            # bench.md's figures of one machine, as parts of its plain file: 2500 of 4329 MB/s
            # written, 3000 of 4038 read
            Goal(OWN_UNSYNCED, PLAIN, at_least=0.58),
            Goal(OWN_UNSYNCED, PLAIN, at_least=0.74, per=READ),
            *(Goal(OWN_UNSYNCED, name, at_least=1.0) for name in RAW_PEERS.values()),
            *(Goal(OWN_UNSYNCED, name, at_least=1.0, per=READ) for name in RAW_PEERS.values()),
        ),
        prepare=_prepare,
    ),
    Benchmark(
        name="array-compressed",
        question="the same, compressed to the size of Zarr's default",
        unit="MB/s",
        contenders=(
            Contender(PLAIN_CODEC, by_codec),
            Contender(OWN, partial(by_tensorlake, durability="fsync", is_compressed=True)),
            Contender(OWN_UNSYNCED, partial(by_tensorlake, durability="none", is_compressed=True)),
            Contender(ZARR_COMPRESSED, partial(by_peer, key="zarr", task="array-compressed")),
        ),
        goals=(
            Goal(OWN_UNSYNCED, PLAIN_CODEC, at_least=0.9),
            Goal(OWN_UNSYNCED, PLAIN_CODEC, at_least=0.9, per=READ),
            Goal(OWN_UNSYNCED, ZARR_COMPRESSED, at_least=1.0),
            Goal(OWN_UNSYNCED, ZARR_COMPRESSED, at_least=1.0, per=READ),
        ),
        limits=(
            Limit(OWN_UNSYNCED, "", at_least=700),
            Limit(OWN_UNSYNCED, READ, at_least=2000),
            Limit(OWN_UNSYNCED, STORED, at_most=77),
        ),
        prepare=_prepare,
    ),
)
