"""Writing: JPEG files as they are, and float32 arrays.

Taking in JPEGs is compared with the least that anybody could do: read each file, write it to the
end of one file, and make that durable once. Arrays are compared with zarr-python at the same codec
and the same chunk size, both without fsync, which zarr-python's local store does not do.
"""

from __future__ import annotations

import os

from benchmarks.data import Workspace, float_arrays, jpeg_paths
from benchmarks.harness import (
    Benchmark,
    Contender,
    Goal,
    Measurement,
    folder_nbytes,
    stopwatch,
    warm_up,
)

__all__ = ["BENCHMARKS"]

RAW_COLUMNS = 4096
"""16 KiB a sample: stored raw by both."""
SMALL_COLUMNS = 32
"""128 B a sample: below the size from which samples are stored raw, so blosc (lz4, shuffle)."""
CHUNK_NBYTES = 1 << 20


def _megabytes(nbytes: int) -> float:
    return nbytes / 1e6


def concatenate(workspace: Workspace) -> Measurement:
    paths = jpeg_paths(workspace)
    target = workspace.scratch("concatenated")
    with stopwatch() as watch, target.open("wb") as file:
        for path in paths:
            file.write(path.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    nbytes = target.stat().st_size
    target.unlink()
    return Measurement(watch.seconds, _megabytes(nbytes), watch.cpu_seconds)


def jpegs_by_tensorlake(workspace: Workspace) -> Measurement:
    return _ingest_jpegs(workspace, durability="fsync")


def jpegs_by_tensorlake_without_fsync(workspace: Workspace) -> Measurement:
    return _ingest_jpegs(workspace, durability="none")


def _ingest_jpegs(workspace: Workspace, *, durability: str) -> Measurement:
    import tensorlake as tl

    warm_up()
    paths = jpeg_paths(workspace)
    nbytes = sum(path.stat().st_size for path in paths)
    target = workspace.scratch("jpegs.tl")
    with stopwatch() as watch:
        tl.ingest.images(paths[0].parent, target, durability=durability, progress=False).close()
    stored = folder_nbytes(target)
    return Measurement(
        watch.seconds,
        _megabytes(nbytes),
        watch.cpu_seconds,
        {"stored MB": _megabytes(stored)},
    )


def _floats_by_tensorlake(workspace: Workspace, columns: int) -> Measurement:
    import tensorlake as tl

    warm_up()
    values = float_arrays(workspace, columns)
    target = workspace.scratch("floats.tl")
    with stopwatch() as watch:
        schema = {"x": tl.Array("float32", shape=(columns,))}
        with tl.create(str(target), schema, durability="none") as ds:
            ds.extend({"x": values})
            ds.commit("all")
    stored = folder_nbytes(target)
    return Measurement(
        watch.seconds,
        _megabytes(values.nbytes),
        watch.cpu_seconds,
        {"stored MB": _megabytes(stored)},
    )


def _floats_by_zarr(workspace: Workspace, columns: int, *, is_compressed: bool) -> Measurement:
    import zarr
    from zarr.codecs import BloscCodec

    values = float_arrays(workspace, columns)
    target = workspace.scratch("floats.zarr")
    codec = BloscCodec(typesize=4, cname="lz4", clevel=5, shuffle="shuffle")
    with stopwatch() as watch:
        array = zarr.create_array(
            store=str(target),
            shape=values.shape,
            chunks=(CHUNK_NBYTES // (columns * values.itemsize), columns),
            dtype=values.dtype,
            compressors=(codec,) if is_compressed else None,
        )
        array[:] = values
    stored = folder_nbytes(target)
    return Measurement(
        watch.seconds,
        _megabytes(values.nbytes),
        watch.cpu_seconds,
        {"stored MB": _megabytes(stored)},
    )


def raw_floats_by_tensorlake(workspace: Workspace) -> Measurement:
    return _floats_by_tensorlake(workspace, RAW_COLUMNS)


def raw_floats_by_zarr(workspace: Workspace) -> Measurement:
    return _floats_by_zarr(workspace, RAW_COLUMNS, is_compressed=False)


def small_floats_by_tensorlake(workspace: Workspace) -> Measurement:
    return _floats_by_tensorlake(workspace, SMALL_COLUMNS)


def small_floats_by_zarr(workspace: Workspace) -> Measurement:
    return _floats_by_zarr(workspace, SMALL_COLUMNS, is_compressed=True)


def _prepare_jpegs(workspace: Workspace) -> None:
    jpeg_paths(workspace)


BENCHMARKS = (
    Benchmark(
        name="ingest-jpeg",
        question="JPEG files into a dataset, reading them included",
        unit="MB/s",
        contenders=(
            Contender("concatenate, one fsync", concatenate),
            Contender("tensorlake", jpegs_by_tensorlake),
            Contender("tensorlake, no fsync", jpegs_by_tensorlake_without_fsync),
        ),
        goals=(Goal("tensorlake", "concatenate, one fsync", at_least=0.8),),
        prepare=_prepare_jpegs,
    ),
    Benchmark(
        name="ingest-float-raw",
        question="float32 rows of 16 KiB, not compressed, 1 MiB a chunk, no fsync",
        unit="MB/s",
        contenders=(
            Contender("zarr-python", raw_floats_by_zarr),
            Contender("tensorlake", raw_floats_by_tensorlake),
        ),
        goals=(Goal("tensorlake", "zarr-python", at_least=1.0),),
    ),
    Benchmark(
        name="ingest-float-blosc",
        question="float32 rows of 128 B, blosc (lz4, shuffle), 1 MiB a chunk, no fsync",
        unit="MB/s",
        contenders=(
            Contender("zarr-python", small_floats_by_zarr),
            Contender("tensorlake", small_floats_by_tensorlake),
        ),
        goals=(Goal("tensorlake", "zarr-python", at_least=1.0),),
    ),
)
