"""Writing: JPEG files as they are, COCO, float32 arrays; and the memory that it takes.

Taking in JPEGs is compared with the least that anybody could do: read each file, write it to the
end of one file, and make that durable once; and, without fsync, with the writers of other formats,
none of which calls it. A COCO file is compared with parsing it and reading its images. Arrays
are compared with zarr-python at the same codec and the same chunk size, both without fsync, which
zarr-python's local store does not do.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from functools import partial
from typing import Any, Literal

from benchmarks.harness.data import Workspace, coco_files, float_arrays, jpeg_paths
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    durable_file,
    folder_nbytes,
    stopwatch,
    warm_up,
)
from benchmarks.peers.ingest import jpeg_writers, prepare_writers

__all__ = ["BENCHMARKS"]

OWN, OWN_UNSYNCED = "tensorlake", "tensorlake, no fsync"
RAW_COLUMNS = 4096
"""16 KiB a sample: stored raw by both."""
SMALL_COLUMNS = 32
"""128 B a sample: below the size from which samples are stored raw, so blosc (lz4, shuffle)."""
CHUNK_NBYTES = 1 << 20
RSS_UNIT_NBYTES = 1 if sys.platform == "darwin" else 1024


def _megabytes(nbytes: int) -> float:
    return nbytes / 1e6


def concatenate(workspace: Workspace) -> Measurement:
    paths = jpeg_paths(workspace)
    target = workspace.scratch("concatenated")
    with stopwatch() as watch, durable_file(target) as file:
        for path in paths:
            file.write(path.read_bytes())
    nbytes = target.stat().st_size
    target.unlink()
    return Measurement(watch.seconds, _megabytes(nbytes), watch.cpu_seconds)


def jpegs_by_tensorlake(
    workspace: Workspace, *, durability: Literal["fsync", "none"]
) -> Measurement:
    import tensorlake as tl

    warm_up()
    paths = jpeg_paths(workspace)
    nbytes = sum(path.stat().st_size for path in paths)
    target = workspace.scratch("jpegs.tl")
    with stopwatch() as watch:
        tl.ingest.images(paths[0].parent, target, durability=durability, progress=False).close()
    facts = {"stored ÷ media": folder_nbytes(target) / nbytes}
    return Measurement(watch.seconds, _megabytes(nbytes), watch.cpu_seconds, facts)


def parse_and_read_coco(workspace: Workspace) -> Measurement:
    file, images = coco_files(workspace)
    with stopwatch() as watch:
        document = json.loads(file.read_bytes())
        for image in document["images"]:
            (images / image["file_name"]).read_bytes()
    return Measurement(watch.seconds, len(document["images"]), watch.cpu_seconds)


def coco_by_tensorlake(workspace: Workspace, *, masks: bool) -> Measurement:
    import tensorlake as tl

    warm_up()
    file, images = coco_files(workspace)
    target = workspace.scratch("coco.tl")
    with stopwatch() as watch:
        ds = tl.ingest.coco(file, images, target, masks=masks, durability="none", progress=False)
        rows = len(ds)
        ds.close()
    media = sum(path.stat().st_size for path in images.iterdir())
    facts = {"stored ÷ media": folder_nbytes(target) / media}
    return Measurement(watch.seconds, rows, watch.cpu_seconds, facts)


def coco_again(workspace: Workspace, *, edit: bool) -> Measurement:
    """Ingest a COCO file a second time: as it was, or with one category corrected."""
    import tensorlake as tl

    warm_up()
    file, images = coco_files(workspace)
    target = workspace.scratch("coco-again.tl")
    options: Any = {"durability": "none", "progress": False}
    tl.ingest.coco(file, images, target, **options).close()
    if edit:
        document = json.loads(file.read_bytes())
        one = document["annotations"][0]
        others = (each["id"] for each in document["categories"])
        one["category_id"] = next(number for number in others if number != one["category_id"])
        file = workspace.scratch("corrected.json")
        file.write_text(json.dumps(document))
    with stopwatch() as watch:
        ds = tl.ingest.coco(file, images, target, **options)
        rows = len(ds)
        ds.close()
    return Measurement(watch.seconds, rows, watch.cpu_seconds)


def items_again(workspace: Workspace, *, changed: int) -> Measurement:
    """Compare small items with the ledger; the listing is made before, and is in no figure."""
    from tensorlake.ingest.engine.run import run_ingest
    from tensorlake.ingest.engine.source import Source

    count = workspace.num_ledger_items
    names = [f"class{number % 100:03}/image_{number:08}.jpg" for number in range(count)]
    times = [f"1000:{1_700_000_000_000_000_000 + 7919 * number}" for number in range(count)]

    def source() -> Source[int]:
        return Source(
            kind="benchmark",
            schema={"x": "int64"},
            items=range(count),
            sizes=[1000] * count,
            name=names.__getitem__,
            stamp=times.__getitem__,
            load=lambda items: {"x": [len(times[item]) for item in items]},
        )

    target = workspace.scratch(f"items-{changed}.tl")
    run_ingest(source(), target, durability="none", progress=False).close()
    nbytes = folder_nbytes(target)
    for number in range(changed):
        times[count // 2 + number] += "0"
    with stopwatch() as watch:
        run_ingest(source(), target, durability="none", progress=False).close()
    facts = {"stored bytes per item": nbytes / count}
    return Measurement(watch.seconds, count, watch.cpu_seconds, facts)


def memory_of_ingestion(workspace: Workspace, *, times: int) -> Measurement:
    """Take in the images under several names; the peak is the process's own, imports included."""
    import tensorlake as tl

    paths = jpeg_paths(workspace)
    folder = workspace.scratch(f"jpegs-{times}-times")
    for one in range(times):
        (folder / f"{one:03d}").mkdir(parents=True)
        for path in paths:
            os.link(path, folder / f"{one:03d}" / path.name)
    target = workspace.scratch("memory.tl")
    with stopwatch() as watch:
        tl.ingest.images(folder, target, durability="none", progress=False).close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_NBYTES
    shutil.rmtree(target)
    nbytes = times * sum(path.stat().st_size for path in paths)
    facts = {"peak MB": _megabytes(peak)}
    return Measurement(watch.seconds, _megabytes(nbytes), watch.cpu_seconds, facts)


def floats_by_tensorlake(workspace: Workspace, *, columns: int) -> Measurement:
    import tensorlake as tl

    warm_up()
    values = float_arrays(workspace, columns)
    target = workspace.scratch("floats.tl")
    with stopwatch() as watch:
        schema = {"x": tl.Array("float32", shape=(columns,))}
        with tl.create(str(target), schema, durability="none") as ds:
            ds.extend({"x": values})
            ds.commit("all")
    facts = {"stored MB": _megabytes(folder_nbytes(target))}
    return Measurement(watch.seconds, _megabytes(values.nbytes), watch.cpu_seconds, facts)


def floats_by_zarr(workspace: Workspace, *, columns: int) -> Measurement:
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
            compressors=(codec,) if columns == SMALL_COLUMNS else None,
        )
        array[:] = values
    facts = {"stored MB": _megabytes(folder_nbytes(target))}
    return Measurement(watch.seconds, _megabytes(values.nbytes), watch.cpu_seconds, facts)


def _floats(name: str, what: str, columns: int) -> Benchmark:
    """Make the benchmark of arrays of that many columns."""
    return Benchmark(
        name=name,
        question=f"float32 rows of {what}, 1 MiB per chunk, no fsync",
        unit="MB/s",
        contenders=(
            Contender("zarr-python", partial(floats_by_zarr, columns=columns)),
            Contender(OWN, partial(floats_by_tensorlake, columns=columns)),
        ),
        goals=(Goal(OWN, "zarr-python", at_least=1.0),),
    )


PEERS = jpeg_writers()

BENCHMARKS = (
    Benchmark(
        name="ingest-jpeg",
        question="ingestion of JPEG files into a dataset, including reading them",
        unit="MB/s",
        contenders=(
            Contender("concatenate, one fsync", concatenate),
            Contender(OWN, partial(jpegs_by_tensorlake, durability="fsync")),
            Contender(OWN_UNSYNCED, partial(jpegs_by_tensorlake, durability="none")),
            *PEERS,
        ),
        goals=(
            Goal(OWN, "concatenate, one fsync", at_least=0.8),
            *(Goal(OWN_UNSYNCED, peer.name, at_least=1.4) for peer in PEERS),
        ),
        limits=(Limit(OWN_UNSYNCED, "stored ÷ media", at_most=1.01),),
        prepare=prepare_writers,
    ),
    Benchmark(
        name="ingest-coco",
        question="ingestion of a COCO file with 36,000 annotations of 5,000 images, no fsync",
        unit="img/s",
        contenders=(
            Contender("json.loads, read the files", parse_and_read_coco),
            Contender(OWN, partial(coco_by_tensorlake, masks=True)),
            Contender("tensorlake, masks=False", partial(coco_by_tensorlake, masks=False)),
        ),
        goals=(Goal(OWN, "json.loads, read the files", at_least=0.5),),
        prepare=coco_files,
    ),
    Benchmark(
        name="ingest-coco-again",
        question="ingestion of the same COCO file again, of which nothing has changed, no fsync",
        unit="img/s",
        contenders=(
            Contender("first", partial(coco_by_tensorlake, masks=True)),
            Contender("again", partial(coco_again, edit=False)),
            Contender("again, one corrected", partial(coco_again, edit=True)),
        ),
        goals=(Goal("again", "first", at_least=10, per="CPU second"),),
        prepare=coco_files,
    ),
    Benchmark(
        name="ingest-items-again",
        question="comparison of items with the ledger: 10⁶ unchanged in ≤ 5 s; one changed",
        unit="items/s",
        contenders=(
            Contender("unchanged", partial(items_again, changed=0)),
            Contender("one changed", partial(items_again, changed=1)),
        ),
        limits=(
            Limit("unchanged", "", at_least=200_000),
            Limit("unchanged", "stored bytes per item", at_most=100),
        ),
    ),
    Benchmark(
        name="ingest-jpeg-memory",
        question="memory use of JPEG ingestion, for one and for eight times the files",
        unit="MB/s",
        contenders=(
            Contender("once", partial(memory_of_ingestion, times=1)),
            Contender("eight times", partial(memory_of_ingestion, times=8)),
        ),
        limits=(
            Limit("once", "peak MB", at_most=500),
            Limit("eight times", "peak MB", at_most=500),
        ),
        prepare=jpeg_paths,
    ),
    _floats("ingest-float-raw", "16 KiB, not compressed", RAW_COLUMNS),
    _floats("ingest-float-blosc", "128 B, blosc (lz4, shuffle)", SMALL_COLUMNS),
)
