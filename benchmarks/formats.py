"""Importers beside the libraries that own the formats: ``python -m benchmarks formats``.

Two questions, of the same files, which the library wrote. How long it takes to read all rows: the
library by its iterator, tensorlake into a dataset in memory, which it checks, hashes, encodes and
commits; and how long until all rows are written durably: the library by reading them and writing
them again in its own format, with one fsync of each file, tensorlake into a dataset in a folder.
Ratios are of processor seconds. All is done once before it is timed, so that no file is read from
the disk and no module is imported.

A library that is not installed leaves its lines without a figure. Those that tensorlake does
without, and TensorFlow-free ``tfrecord``, are in no environment of this repository: make that of
``make test-extras GROUP=formats``, add ``psutil tfrecord nibabel``, and run it there.
"""

from __future__ import annotations

import gc
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Measurement,
    stopwatch,
    warm_up,
)

__all__ = ["BENCHMARKS"]

ROWS, SIDE = 20_000, 64
ARRAY_ROWS, ARRAYS_READ = 100_000, 1_000
VOLUMES, VOLUME = 6, (160, 160, 96)
PANOPTIC_IMAGES, PANOPTIC_SIDE = 100, 320
OWN, DURABLE = "tensorlake, in memory", "tensorlake, a folder"
GOAL = 0.8


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its library.

    Attributes:
        importer: Name of the importer, ``tl.ingest.…``.
        library: The module that reads it.
        rows: Rows of the source; volumes or images where a row is such.
        make: Makes the data, in the form that ``read`` yields.
        write: Writes such data to a folder; returns the path of the source.
        read: Reads all data of a source.
    """

    importer: str
    library: str
    rows: int
    make: Callable[[], Any]
    write: Callable[[Path, Any], Path]
    read: Callable[[Path], Any]


# ---- the data


def jpegs() -> list[bytes]:
    """Return images that compress as photographs do."""
    from PIL import Image

    made: list[bytes] = []
    for number in range(32):
        coarse = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        out = io.BytesIO()
        Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(out, "JPEG")
        made.append(out.getvalue())
    return made


def samples() -> Iterator[dict[str, Any]]:
    """Yield rows of a small training set."""
    images = jpegs()
    vectors = np.random.default_rng(0).random((ROWS, 64), np.float32)
    for at in range(ROWS):
        yield {
            "image": images[at % len(images)],
            "label": at % 10,
            "vector": vectors[at],
            "text": f"photograph {at} of a street, seen from a car " * 4,
        }


def texts() -> Iterator[dict[str, Any]]:
    """Yield rows of numbers and texts, which LitData keeps in Arrow's format."""
    for row in samples():
        yield {"label": row["label"], "text": row["text"], "score": 0.5}


def arrays() -> dict[str, np.ndarray]:
    """Return arrays whose rows are those of a set of small images."""
    random = np.random.default_rng(0)
    return {
        "image": random.integers(0, 255, (ARRAY_ROWS, 28, 28), dtype=np.uint8),
        "label": random.integers(0, 10, ARRAY_ROWS),
        "vector": random.random((ARRAY_ROWS, 64), np.float32),
    }


# ---- libraries


def write_mds(folder: Path, rows: Iterable[Any]) -> Path:
    from PIL import Image

    kinds = {"image": "jpeg", "label": "int", "vector": "ndarray:float32:64", "text": "str"}
    writer = import_module("streaming.base.format.mds.writer").MDSWriter
    with writer(out=str(folder / "mds"), columns=kinds) as out:
        for row in rows:
            image = row["image"]
            is_file = isinstance(image, bytes)
            out.write({**row, "image": Image.open(io.BytesIO(image)) if is_file else image})
    return folder / "mds"


def read_mds(path: Path) -> Iterator[Any]:
    return iter(import_module("streaming.base.local").LocalDataset(str(path)))


def write_litdata(folder: Path, rows: Iterable[Any]) -> Path:
    path = folder / "litdata"
    writer = import_module("litdata.streaming.writer").BinaryWriter(str(path), chunk_bytes="8MB")
    for at, row in enumerate(rows):
        views = {name: bytes(one) for name, one in row.items() if isinstance(one, memoryview)}
        writer.add_item(at, row | views)
    writer.done()
    writer.merge(1)
    return path


def read_litdata(path: Path) -> Iterator[Any]:
    return iter(import_module("litdata").StreamingDataset(str(path)))


def write_tfrecord(folder: Path, rows: Iterable[Any]) -> Path:
    path = folder / "part.tfrecord"
    writer = import_module("tfrecord").TFRecordWriter(str(path))
    for row in rows:
        text = row["text"]
        fields = {"image": (bytes(row["image"]), "byte"), "label": (row["label"], "int")}
        fields["text"] = (text.encode() if isinstance(text, str) else bytes(text), "byte")
        writer.write(fields | {"vector": (row["vector"], "float")})
    writer.close()
    return path


def read_tfrecord(path: Path) -> Iterator[Any]:
    return iter(import_module("tfrecord").tfrecord_loader(str(path), None))


def write_hdf5(folder: Path, named: Iterable[tuple[str, Any]] | dict[str, Any]) -> Path:
    given = named.items() if isinstance(named, dict) else named
    with import_module("h5py").File(folder / "x.h5", "w") as file:
        for name, parts in given:
            write_parts(partial(file.create_dataset, name), parts)
    return folder / "x.h5"


def write_zarr(folder: Path, named: Iterable[tuple[str, Any]] | dict[str, Any]) -> Path:
    given = named.items() if isinstance(named, dict) else named
    group = import_module("zarr").create_group(str(folder / "x.zarr"))
    for name, parts in given:
        write_parts(partial(group.create_array, name), parts)
    return folder / "x.zarr"


def write_parts(create: Callable[..., Any], given: Any) -> None:
    """Write an array, or parts of one, each a chunk."""
    parts = (
        given if isinstance(given, Iterator) else iter(np.split(given, ARRAY_ROWS // ARRAYS_READ))
    )
    start = 0
    made: Any = None
    for part in parts:
        if made is None:
            shape = (ARRAY_ROWS, *part.shape[1:])
            made = create(shape=shape, dtype=part.dtype, chunks=part.shape)
        made[start : start + len(part)] = part
        start += len(part)


def read_parts(array: Any) -> Iterator[np.ndarray]:
    for start in range(0, ARRAY_ROWS, ARRAYS_READ):
        yield array[start : start + ARRAYS_READ]


def read_hdf5(path: Path) -> Iterator[tuple[str, Any]]:
    with import_module("h5py").File(path) as file:
        for name in file:
            yield name, read_parts(file[name])


def read_zarr(path: Path) -> Iterator[tuple[str, Any]]:
    group = import_module("zarr").open_group(str(path), mode="r")
    for name in ("image", "label", "vector"):
        yield name, read_parts(group[name])


def write_lance(folder: Path, batches: Iterable[Any]) -> Path:
    import pyarrow as pa

    flat = pa.list_(pa.float32(), 64)
    fields = {"image": pa.binary(), "label": pa.int64(), "vector": flat, "text": pa.string()}
    reader = pa.RecordBatchReader.from_batches(pa.schema(fields), batches)
    import_module("lance").write_dataset(reader, str(folder / "x.lance"))
    return folder / "x.lance"


def make_batches() -> Iterator[Any]:
    import pyarrow as pa

    made = [*samples()]
    for start in range(0, ROWS, ARRAYS_READ):
        part = made[start : start + ARRAYS_READ]
        columns = {name: pa.array([row[name] for row in part]) for name in part[0]}
        flat = pa.array(np.concatenate([row["vector"] for row in part]))
        columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, 64)
        yield pa.record_batch(columns)


def read_lance(path: Path) -> Iterator[Any]:
    return iter(import_module("lance").dataset(str(path)).to_batches())


def make_volumes() -> Iterator[Any]:
    nibabel = import_module("nibabel")
    x, y, z = np.ogrid[: VOLUME[0], : VOLUME[1], : VOLUME[2]]
    smooth = 400 * np.sin(x / 17) * np.cos(y / 23) + 300 * np.sin(z / 11)
    for number in range(VOLUMES):
        noise = np.random.default_rng(number).normal(0, 12, VOLUME)
        yield nibabel.Nifti1Image((smooth + noise).astype(np.int16), np.eye(4))


def write_nifti(folder: Path, volumes: Iterable[Any]) -> Path:
    (folder / "nifti").mkdir()
    for number, volume in enumerate(volumes):
        import_module("nibabel").save(volume, folder / "nifti" / f"{number}.nii.gz")
    return folder / "nifti"


def read_nifti(path: Path) -> Iterator[Any]:
    nibabel = import_module("nibabel")
    for file in sorted(path.iterdir()):
        volume = nibabel.load(file)
        yield nibabel.Nifti1Image(np.asarray(volume.dataobj), volume.affine)


def make_panoptic() -> Iterator[Any]:
    """Yield a document of annotations, and then images and their segments by name."""
    from PIL import Image

    images: list[Any] = []
    annotations: list[Any] = []
    side = PANOPTIC_SIDE // 4
    for number in range(PANOPTIC_IMAGES):
        name = f"{number:06d}"
        images.append({"id": number, "file_name": f"{name}.jpg"})
        images[-1] |= {"height": PANOPTIC_SIDE, "width": PANOPTIC_SIDE}
        segments = [
            {"id": one, "category_id": one % 3, "iscrowd": 0, "area": side * side}
            | {"bbox": [(one - 1) % 4 * side, (one - 1) // 4 * side, side, side]}
            for one in range(1, 17)
        ]
        annotations.append({"image_id": number, "file_name": f"{name}.png"})
        annotations[-1]["segments_info"] = segments
    categories = [{"id": at, "name": f"class {at}", "isthing": at % 2} for at in range(3)]
    yield {"images": images, "annotations": annotations, "categories": categories}
    ids = np.arange(1, 17).reshape(4, 4).repeat(side, 0).repeat(side, 1)
    pixels = np.stack([ids % 256, ids // 256, ids * 0], axis=2).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    for number, photo in zip(range(PANOPTIC_IMAGES), jpegs() * PANOPTIC_IMAGES, strict=False):
        image = io.BytesIO()
        large = Image.open(io.BytesIO(photo)).resize((PANOPTIC_SIDE, PANOPTIC_SIDE))
        large.save(image, "JPEG")
        yield f"{number:06d}", image.getvalue(), out.getvalue()


def write_panoptic(folder: Path, given: Iterable[Any]) -> Path:
    (folder / "panoptic_val").mkdir()
    (folder / "val").mkdir()
    document, *files = given
    (folder / "panoptic_val.json").write_text(json.dumps(document))
    for name, image, segments in files:
        (folder / "val" / f"{name}.jpg").write_bytes(image)
        (folder / "panoptic_val" / f"{name}.png").write_bytes(segments)
    return folder / "panoptic_val.json"


def read_panoptic(path: Path) -> Iterator[Any]:
    """Read masks and files as panopticapi's and torchvision's recipes do."""
    from PIL import Image

    document = json.loads(path.read_text())
    yield document
    for image, one in zip(document["images"], document["annotations"], strict=True):
        content = (path.with_suffix("") / one["file_name"]).read_bytes()
        png = np.asarray(Image.open(io.BytesIO(content)), np.uint32)
        ids = png[..., 0] + png[..., 1] * 256 + png[..., 2] * 65_536
        segments = np.array([segment["id"] for segment in one["segments_info"]])
        np.asarray(ids == segments[:, None, None])
        name = image["file_name"]
        yield Path(name).stem, (path.parent / "val" / name).read_bytes(), content


FORMATS: dict[str, Format] = {
    "mds": Format("mds", "streaming", ROWS, samples, write_mds, read_mds),
    "litdata": Format("litdata", "litdata", ROWS, samples, write_litdata, read_litdata),
    "litdata-texts": Format("litdata", "litdata", ROWS, texts, write_litdata, read_litdata),
    "tfrecord": Format("tfrecord", "tfrecord", ROWS, samples, write_tfrecord, read_tfrecord),
    "hdf5": Format("hdf5", "h5py", ARRAY_ROWS, arrays, write_hdf5, read_hdf5),
    "zarr": Format("zarr", "zarr", ARRAY_ROWS, arrays, write_zarr, read_zarr),
    "lance": Format("lance", "lance", ROWS, make_batches, write_lance, read_lance),
    "nifti": Format("nifti", "nibabel", VOLUMES, make_volumes, write_nifti, read_nifti),
    "panoptic": Format(
        "coco_panoptic", "PIL", PANOPTIC_IMAGES, make_panoptic, write_panoptic, read_panoptic
    ),
}


# ---- contenders


def source_of(workspace: Workspace, name: str) -> Path:
    """Return the path of a format's files, which its library writes once."""
    one, folder = FORMATS[name], workspace.folder / "formats" / name
    import_module(one.library)
    noted = folder / "path.txt"
    if not noted.exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "files").mkdir(parents=True)
        noted.write_text(str(one.write(folder / "files", one.make()).relative_to(folder)))
    return folder / noted.read_text()


def prepare(workspace: Workspace, *, name: str) -> None:
    try:
        source_of(workspace, name)
    except ImportError:
        return  # its contenders say so


def drain(given: Iterator[Any]) -> None:
    """Read all that is yielded, and what that yields."""
    for one in given:
        parts: Any = one[-1] if isinstance(one, tuple) else None
        if isinstance(parts, Iterator):
            drain(parts)
        to_rows = getattr(one, "to_pylist", None)
        if to_rows is not None:  # rows, as other libraries yield them
            to_rows()


def read_all(one: Format, path: Path, _: Path) -> None:
    drain(one.read(path))


def write_again(one: Format, path: Path, scratch: Path) -> None:
    scratch.mkdir()
    one.write(scratch, one.read(path))
    for file in [file for file in scratch.rglob("*") if file.is_file()]:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


def ingest(one: Format, path: Path, place: Path | str) -> None:
    import tensorlake as tl

    getattr(tl.ingest, one.importer)(path, place, progress=False).close()


def measured(
    workspace: Workspace,
    *,
    name: str,
    call: Callable[[Format, Path, Any], None],
    in_memory: bool = False,
) -> Measurement:
    one = FORMATS[name]
    try:
        path = source_of(workspace, name)
    except ImportError as error:
        return Measurement(0, 0, note=f"{error.name} is not installed")
    warm_up()
    scratch = workspace.folder / "formats" / name / "scratch"
    places = ["memory://formats-once", "memory://formats"] if in_memory else [scratch, scratch]
    shutil.rmtree(scratch, ignore_errors=True)
    call(one, path, places[0])
    shutil.rmtree(scratch, ignore_errors=True)
    gc.collect()
    gc.freeze()  # what the libraries loaded is not looked through again while one is timed
    with stopwatch() as watch:
        call(one, path, places[1])
    shutil.rmtree(scratch, ignore_errors=True)
    return Measurement(watch.seconds, one.rows, watch.cpu_seconds)


def benchmark(name: str, one: Format) -> Benchmark:
    reading, writing = f"{one.library}, reads", f"{one.library}, reads and writes"
    run = partial(partial, measured, name=name)
    return Benchmark(
        name=f"formats-{name}",
        question=f"Ingestion by tl.ingest.{one.importer}, and reading by the format's own library",
        unit="rows/s",
        contenders=(
            Contender(OWN, run(call=ingest, in_memory=True)),
            Contender(DURABLE, run(call=ingest)),
            Contender(reading, run(call=read_all)),
            Contender(writing, run(call=write_again)),
        ),
        goals=(
            Goal(OWN, reading, GOAL, "CPU second"),
            Goal(DURABLE, writing, GOAL, "CPU second"),
        ),
        prepare=partial(prepare, name=name),
    )


BENCHMARKS = tuple(benchmark(name, one) for name, one in FORMATS.items())
