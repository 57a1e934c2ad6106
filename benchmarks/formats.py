"""Importers beside the libraries that own the formats: ``python -m benchmarks.formats [NAME …]``.

Both read all rows of the same files, which the library wrote where it writes: it by its iterator,
and tensorlake into a dataset in memory, which it checks, encodes and commits. Rounds are taken in
turn; the ratio is the library's CPU seconds over tensorlake's, so that 1 is as fast and 2 twice as
fast, whatever else the machine does. A library that is not installed leaves its line out.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tensorlake as tl

__all__ = ["FORMATS", "Format"]

ROUNDS, GOAL = 5, 0.8
ROWS, SIDE = 20_000, 64
ARRAY_ROWS = 20_000

_numbers = count()


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how its library writes and reads it, and the importer.

    Attributes:
        write: Writes files into a folder, and returns their path.
        read: Reads all of them by the library.
        importer: The importer.
        options: Its arguments.
    """

    write: Callable[[Path], Path]
    read: Callable[[Path], Any]
    importer: str
    options: Mapping[str, Any]


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


def rows() -> Iterator[dict[str, Any]]:
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


def arrays() -> dict[str, np.ndarray]:
    """Return arrays whose rows are those of a set of small images."""
    random = np.random.default_rng(0)
    return {
        "image": random.integers(0, 255, (ARRAY_ROWS, 28, 28), dtype=np.uint8),
        "label": random.integers(0, 10, ARRAY_ROWS),
        "vector": random.random((ARRAY_ROWS, 64), np.float32),
    }


def drained(rows: Any) -> int:
    """Read all rows; return their number."""
    return sum(1 for _ in rows)


# ---- a format each


def write_mds(folder: Path) -> Path:
    kinds = {"image": "jpeg", "label": "int", "vector": "ndarray:float32:64", "text": "str"}
    from PIL import Image

    writer = import_module("streaming.base.format.mds.writer").MDSWriter
    with writer(out=str(folder / "mds"), columns=kinds) as out:
        for row in rows():
            out.write({**row, "image": Image.open(io.BytesIO(row["image"]))})
    return folder / "mds"


def read_mds(path: Path) -> int:
    return drained(import_module("streaming.base.local").LocalDataset(str(path)))


def litdata_rows(path: Path, made: Iterator[Any]) -> Path:
    writer = import_module("litdata.streaming.writer").BinaryWriter(str(path), chunk_bytes="8MB")
    for at, row in enumerate(made):
        writer.add_item(at, row)
    writer.done()
    writer.merge(1)
    return path


def write_litdata(folder: Path) -> Path:
    return litdata_rows(folder / "litdata", rows())


def write_litdata_texts(folder: Path) -> Path:
    kept = ("label", "text")
    made = ({name: row[name] for name in kept} | {"score": 0.5} for row in rows())
    return litdata_rows(folder / "litdata-texts", made)


def read_litdata(path: Path) -> int:
    return drained(import_module("litdata").StreamingDataset(str(path)))


def write_tfrecord(folder: Path) -> Path:
    path = folder / "part.tfrecord"
    writer = import_module("tfrecord").TFRecordWriter(str(path))
    for row in rows():
        fields = {"image": (row["image"], "byte"), "label": (row["label"], "int")}
        fields |= {"vector": (row["vector"], "float"), "text": (row["text"].encode(), "byte")}
        writer.write(fields)
    writer.close()
    return path


def read_tfrecord(path: Path) -> int:
    return drained(import_module("tfrecord").tfrecord_loader(str(path), None))


def write_hdf5(folder: Path) -> Path:
    with import_module("h5py").File(folder / "x.h5", "w") as file:
        for name, one in arrays().items():
            file.create_dataset(name, data=one, chunks=(1_000, *one.shape[1:]))
    return folder / "x.h5"


def read_hdf5(path: Path) -> None:
    with import_module("h5py").File(path) as file:
        for one in file.values():
            for start in range(0, ARRAY_ROWS, 1_000):
                one[start : start + 1_000]


def write_zarr(folder: Path) -> Path:
    group = import_module("zarr").create_group(str(folder / "x.zarr"))
    for name, one in arrays().items():
        group.create_array(name, data=one, chunks=(1_000, *one.shape[1:]))
    return folder / "x.zarr"


def read_zarr(path: Path) -> None:
    group = import_module("zarr").open_group(str(path), mode="r")
    for name in arrays_of():
        for start in range(0, ARRAY_ROWS, 1_000):
            group[name][start : start + 1_000]


def arrays_of() -> tuple[str, ...]:
    return ("image", "label", "vector")


def write_lance(folder: Path) -> Path:
    import pyarrow as pa

    made = [*rows()]
    flat = pa.array(np.concatenate([row["vector"] for row in made]))
    table = pa.table(
        {
            "image": [row["image"] for row in made],
            "label": [row["label"] for row in made],
            "vector": pa.FixedSizeListArray.from_arrays(flat, 64),
            "text": [row["text"] for row in made],
        }
    )
    import_module("lance").write_dataset(table, str(folder / "x.lance"))
    return folder / "x.lance"


def read_lance(path: Path) -> int:
    batches = import_module("lance").dataset(str(path)).to_batches()
    return sum(len(batch.to_pylist()) for batch in batches)


def write_nifti(folder: Path) -> Path:
    nibabel = import_module("nibabel")
    (folder / "nifti").mkdir()
    for number in range(6):
        voxels = np.random.default_rng(number).integers(0, 500, (96, 96, 64)).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), folder / "nifti" / f"{number}.nii.gz")
    return folder / "nifti"


def read_nifti(path: Path) -> None:
    for file in sorted(path.iterdir()):
        np.asarray(import_module("nibabel").load(file).dataobj)


def write_panoptic(folder: Path) -> Path:
    """Write images and their segments, as COCO lays them out."""
    from PIL import Image

    (folder / "panoptic_val").mkdir()
    (folder / "val").mkdir()
    images: list[Any] = []
    annotations: list[Any] = []
    photo = jpegs()
    for number in range(100):
        name = f"{number:06d}"
        ids = np.arange(1, 17).reshape(4, 4).repeat(80, 0).repeat(80, 1)
        pixels = np.stack([ids % 256, ids // 256, ids * 0], axis=2).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "panoptic_val" / f"{name}.png")
        image = Image.open(io.BytesIO(photo[number % 32])).resize((320, 320))
        image.save(folder / "val" / f"{name}.jpg")
        images.append({"id": number, "file_name": f"{name}.jpg", "height": 320, "width": 320})
        segments = [
            {"id": one, "category_id": one % 3, "iscrowd": 0, "area": 6400}
            | {"bbox": [(one - 1) % 4 * 80, (one - 1) // 4 * 80, 80, 80]}
            for one in range(1, 17)
        ]
        annotations.append(
            {"image_id": number, "file_name": f"{name}.png", "segments_info": segments}
        )
    categories = [{"id": at, "name": f"class {at}", "isthing": at % 2} for at in range(3)]
    path = folder / "panoptic_val.json"
    document = {"images": images, "annotations": annotations, "categories": categories}
    path.write_text(json.dumps(document))
    return path


def read_panoptic(path: Path) -> None:
    """Read masks and pixels as panopticapi and torchvision's recipes do."""
    from PIL import Image

    document = json.loads(path.read_text())
    for image, one in zip(document["images"], document["annotations"], strict=True):
        png = np.asarray(Image.open(path.with_suffix("") / one["file_name"]), np.uint32)
        ids = png[..., 0] + png[..., 1] * 256 + png[..., 2] * 65_536
        segments = np.array([segment["id"] for segment in one["segments_info"]])
        np.asarray(ids == segments[:, None, None])
        (path.parent / "val" / image["file_name"]).read_bytes()


FORMATS: Mapping[str, Format] = {
    "mds": Format(write_mds, read_mds, "mds", {}),
    "litdata": Format(write_litdata, read_litdata, "litdata", {}),
    "litdata-texts": Format(write_litdata_texts, read_litdata, "litdata", {}),
    "tfrecord": Format(write_tfrecord, read_tfrecord, "tfrecord", {}),
    "hdf5": Format(write_hdf5, read_hdf5, "hdf5", {}),
    "zarr": Format(write_zarr, read_zarr, "zarr", {}),
    "lance": Format(write_lance, read_lance, "lance", {}),
    "nifti": Format(write_nifti, read_nifti, "nifti", {}),
    "coco_panoptic": Format(write_panoptic, read_panoptic, "coco_panoptic", {}),
}


def cpu_seconds(call: Callable[[], Any]) -> float:
    """Return the seconds that a call took of all cores."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def ratios(one: Format, folder: Path) -> list[tuple[float, float]]:
    """Return the library's and tensorlake's seconds of each round."""
    path = one.write(folder)
    importer = getattr(tl.ingest, one.importer)

    def ours() -> None:
        importer(path, f"memory://formats-{next(_numbers)}", progress=False, **one.options).close()

    one.read(path)
    ours()
    return [(cpu_seconds(lambda: one.read(path)), cpu_seconds(ours)) for _ in range(ROUNDS)]


def main(names: list[str]) -> None:
    """Measure, and print."""
    for name in names or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                pairs = ratios(FORMATS[name], Path(folder))
            except ImportError as error:
                print(f"{name}: not measured: {error}")
                continue
        found = sorted(theirs / ours for theirs, ours in pairs)
        seconds = " ".join(f"{median(one):.3f}" for one in zip(*pairs, strict=True))
        mark = "reached" if median(found) >= GOAL else "missed"
        print(
            f"{name}: {found[0]:.2f} {median(found):.2f} {found[-1]:.2f} ({mark}; CPU s {seconds};"
            f" load {os.getloadavg()[0]:.0f})",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
