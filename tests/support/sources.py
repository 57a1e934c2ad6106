"""Sources of every format that lies in files: how each is made, grows and is corrected."""

from __future__ import annotations

import io
import itertools
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tensorlake as tl
from tests.unit.ingest.vision.test_annotations import VOC, jpeg


@dataclass(frozen=True)
class Kind:
    """A format: how its source is made, grows and is corrected, and how each is reported.

    ``grown`` and ``corrected`` are counts of the report, or the text of a refusal.
    """

    make: Callable[[Path], None]
    ingest: Callable[[Path], Callable[..., tl.Dataset]]
    grow: Callable[[Path], None]
    correct: Callable[[Path], None]
    grown: Mapping[str, int] | str
    corrected: Mapping[str, int] | str
    other: Mapping[str, Any]


def write(path: Path, content: bytes | str) -> None:
    """Write a file, with a time that differs from that of all files before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    now = next(_clock)
    os.utime(path, (now, now))


_clock = itertools.count(1_700_000_000)


def make_folder(at: Path) -> None:
    """Write ten images of two classes."""
    for number in range(10):
        write(at / "photos" / f"{'cat' if number < 5 else 'dog'}" / f"{number}.jpg", jpeg(number))


def _coco(at: Path, category: int = 1, count: int = 3) -> None:
    for number in range(count):
        if not (at / "p" / f"{number}.jpg").exists():
            write(at / "p" / f"{number}.jpg", jpeg(number))
    boxes = [
        {
            "id": n,
            "image_id": n,
            "category_id": category if n == 1 else 1,
            "bbox": [0, 0, 2, 2],
            "area": 4,
        }
        for n in range(count)
    ]
    images = [{"id": n, "file_name": f"{n}.jpg"} for n in range(count)]
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    document = {"images": images, "annotations": boxes, "categories": categories}
    write(at / "a.json", json.dumps(document))


def _yolo(at: Path) -> None:
    write(at / "data.yaml", "names: [cat, dog]\ntrain: images")
    for number in range(3):
        write(at / "images" / f"{number}.jpg", jpeg(number))
        write(at / "labels" / f"{number}.txt", "0 .5 .5 .5 .5")


def _voc(at: Path) -> None:
    for number in range(3):
        write(at / "JPEGImages" / f"{number}.jpg", jpeg(number))
        write(at / "Annotations" / f"{number}.xml", VOC)


def _shard(path: Path, classes: str) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for number, one in enumerate(classes):
            info = tarfile.TarInfo(f"{number}.cls")
            info.size = 1
            tar.addfile(info, io.BytesIO(one.encode()))
    write(path, made.getvalue())


def _zip(path: Path, count: int, first: int = 0) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}.jpg", jpeg(number + first))
    write(path, made.getvalue())


def _tar(path: Path, count: int, first: int = 0) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for number in range(count):
            content = jpeg(number + first)
            info = tarfile.TarInfo(f"photos/{'ab'[number % 2]}/{number}.jpg")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    write(path, made.getvalue())


def _parquet(path: Path, values: list[int]) -> None:
    made = io.BytesIO()
    pq.write_table(pa.table({"x": values}), made)
    write(path, made.getvalue())


SOURCES = {
    "images": Kind(
        make_folder,
        lambda at: lambda dst, **more: tl.ingest.images(at / "photos", dst, **more),
        lambda at: write(at / "photos" / "cat" / "new.jpg", jpeg(99)),
        lambda at: write(at / "photos" / "cat" / "3.jpg", jpeg(73)),
        {"added": 1},
        {"updated": 1},
        {"labels": False},
    ),
    "zip": Kind(
        lambda at: _zip(at / "p.zip", 3),
        lambda at: lambda dst, **more: tl.ingest.images(at / "p.zip", dst, **more),
        lambda at: _zip(at / "p.zip", 4),
        lambda at: _zip(at / "p.zip", 3, first=1),
        {"added": 1},
        {"updated": 3},
        {"labels": False},
    ),
    "tar": Kind(
        lambda at: _tar(at / "p.tar", 3),
        lambda at: lambda dst, **more: tl.ingest.images(at / "p.tar", dst, **more),
        lambda at: _tar(at / "p.tar", 4),
        lambda at: _tar(at / "p.tar", 3, first=1),
        {"added": 1, "unchanged": 3},
        {"updated": 3},
        {"labels": False},
    ),
    "coco": Kind(
        _coco,
        lambda at: lambda dst, **more: tl.ingest.coco(at / "a.json", at / "p", dst, **more),
        lambda at: _coco(at, count=4),
        lambda at: _coco(at, category=2),
        {"added": 1},
        {"updated": 1},
        {"masks": False},
    ),
    "yolo": Kind(
        _yolo,
        lambda at: lambda dst, **more: tl.ingest.yolo(at / "data.yaml", dst, **more),
        lambda at: write(at / "images" / "new.jpg", jpeg(9)),
        lambda at: write(at / "labels" / "1.txt", "1 .5 .5 .5 .5"),
        {"added": 1},
        {"updated": 1},
        {},
    ),
    "voc": Kind(
        _voc,
        lambda at: lambda dst, **more: tl.ingest.voc(at, dst, **more),
        lambda at: write(at / "JPEGImages" / "new.jpg", jpeg(9)),
        lambda at: write(at / "Annotations" / "1.xml", VOC.replace("dog", "cat")),
        {"added": 1},
        {"updated": 1},
        {},
    ),
    "csv": Kind(
        lambda at: write(at / "x.csv", "x,name\n1,one\n2,two\n"),
        lambda at: lambda dst, **more: tl.ingest.csv(at / "x.csv", dst, **more),
        lambda at: write(at / "x.csv", "x,name\n1,one\n2,two\n3,tri\n"),
        lambda at: write(at / "x.csv", "x,name\n1,one\n7,two\n"),
        {"added": 1},
        "'x.csv' changed before its end",
        {"schema": {"x": "float64"}},
    ),
    "jsonl": Kind(
        lambda at: write(at / "d" / "x.jsonl", '{"x": 1}\n{"x": 2}\n'),
        lambda at: lambda dst, **more: tl.ingest.jsonl(at / "d", dst, **more),
        lambda at: write(at / "d" / "y.jsonl", '{"x": 1}\n'),
        lambda at: write(at / "d" / "x.jsonl", '{"x": 1}\n{"x": 3}\n'),
        {"added": 1},
        "'x.jsonl' changed before its end",
        {"schema": {"x": "float64"}},
    ),
    "parquet": Kind(
        lambda at: _parquet(at / "d" / "x.parquet", [1, 2, 3]),
        lambda at: lambda dst, **more: tl.ingest.parquet(at / "d", dst, **more),
        lambda at: _parquet(at / "d" / "y.parquet", [1, 2, 3]),
        lambda at: _parquet(at / "d" / "x.parquet", [1, 2, 4]),
        {"added": 3},
        "'x.parquet' changed before its end",
        {"columns": ["x"]},
    ),
    "webdataset": Kind(
        lambda at: _shard(at / "d" / "0.tar", "12345"),
        lambda at: lambda dst, **more: tl.ingest.webdataset(at / "d", dst, **more),
        lambda at: _shard(at / "d" / "1.tar", "678"),
        lambda at: _shard(at / "d" / "0.tar", "12344"),
        {"added": 3},
        {"updated": 1},
        {"schema": {"cls": tl.ClassLabel([str(n) for n in range(9)])}},
    ),
    "idx": Kind(
        lambda at: write(at / "x.idx", bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 8])),
        lambda at: lambda dst, **more: tl.ingest.idx(at / "x.idx", None, dst, **more),
        lambda at: write(at / "x.idx", bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])),
        lambda at: write(at / "x.idx", bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])),
        {"added": 1},
        "changed in 'x.idx'",
        {"names": ["a"] * 9},
    ),
    "numpy": Kind(
        lambda at: np.save(at / "x.npy", [1, 2, 3]),
        lambda at: lambda dst, **more: tl.ingest.numpy(at / "x.npy", dst, **more),
        lambda at: np.save(at / "x.npy", [1, 2, 3, 4]),
        lambda at: np.save(at / "x.npy", [1, 2, 4]),
        {"added": 1},
        "changed in 'the arrays'",
        {"schema": {"data": "float64"}},
    ),
}
