"""What ingesting processes do in tests of kills; importable, for they are spawned.

A process is killed at the n-th time that it turns to a file of its source or of its dataset, which
Python tells its audit hooks: reading and writing, before, between and after all of it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow.json
import simplejpeg

import tensorlake as tl
import tensorlake.ingest

PRELOADED = (pyarrow.json, simplejpeg, tensorlake.ingest)
"""What an ingestion imports, so that a process forked with it starts at once."""

FILE_EVENTS = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.scandir", "os.listdir"}
COMMIT_EVERY = "6kB"
BEFORE = "before.tl"
"""Dataset of the source before it changed, beside it."""


def images(src: Path, dst: Path) -> tl.Dataset:
    """Ingest pictures in folders."""
    return tl.ingest.images(src / "pictures", dst, commit_every=COMMIT_EVERY, durability="none")


def sync(src: Path, dst: Path) -> tl.Dataset:
    """Bring a copy of the dataset beside the source to pictures that changed."""
    if not dst.exists():
        part = dst.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(src.parent / BEFORE, part)
        part.rename(dst)
    return tl.ingest.images(
        src / "pictures", dst, commit_every=COMMIT_EVERY, durability="none", delete=True
    )


def coco(src: Path, dst: Path) -> tl.Dataset:
    """Ingest a COCO file and its pictures."""
    return tl.ingest.coco(
        src / "instances.json",
        src / "pictures",
        dst,
        commit_every=COMMIT_EVERY,
        durability="none",
    )


def tokens(src: Path, dst: Path) -> tl.Dataset:
    """Ingest JSON lines as tokens."""
    return tl.ingest.jsonl(
        src / "texts",
        dst,
        tokenizer=lambda texts: [list(text.encode()) for text in texts],
        commit_every=COMMIT_EVERY,
        durability="none",
    )


KINDS: dict[str, Callable[[Path, Path], tl.Dataset]] = {
    "images": images,
    "sync": sync,
    "coco": coco,
    "tokens": tokens,
}


def run(kind: str, src: Path, dst: Path, told: Connection, killed_at: int | None = None) -> None:
    """Ingest; tell how often files were turned to, or die at the n-th time."""
    turns = count_turns((src, dst), killed_at)
    KINDS[kind](src, dst).close()
    told.send(turns())


def count_turns(folders: tuple[Path, ...], killed_at: int | None) -> Callable[[], int]:
    """Count from now on how often files of some folders are turned to; die at the n-th time."""
    seen = 0
    lock = threading.Lock()
    places = tuple(map(str, folders))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in FILE_EVENTS or not arguments or not isinstance(arguments[0], str | bytes):
            return
        if not os.fsdecode(arguments[0]).startswith(places):
            return
        with lock:
            seen += 1
            if seen == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return lambda: seen


def make_source(folder: Path) -> None:
    """Write pictures of three sizes in three folders, boxes and outlines of them, and texts."""
    import numpy as np

    random = np.random.default_rng(0)
    listed: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number in range(36):
        height, width = (16, 24, 32)[number % 3], 24
        name = f"{'abc'[number % 3]}/{number:03d}.jpg"
        path = folder / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        path.write_bytes(simplejpeg.encode_jpeg(pixels))
        listed.append({"id": number, "file_name": name, "height": height, "width": width})
        annotations += [
            {
                "id": len(annotations) + one,
                "image_id": number,
                "category_id": one + 1,
                "bbox": [one, 1, 5 + one, 6],
                "area": 30 + one,
                "iscrowd": 0,
                "segmentation": [[1, 1, 9, 1, 9, 8 + one]],
            }
            for one in range(number % 4)
        ]
    categories = [{"id": 1, "name": "box"}, {"id": 2, "name": "bag"}, {"id": 3, "name": "hat"}]
    document = {"images": listed, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(document))
    (folder / "texts").mkdir()
    for number in range(8):
        rows = [json.dumps({"id": at, "text": f"{number} {at} " * 20}) for at in range(30)]
        (folder / "texts" / f"{number}.jsonl").write_text("\n".join(rows))


def change_source(folder: Path) -> None:
    """Correct, rename, move, remove and add pictures."""
    import numpy as np

    random = np.random.default_rng(1)
    pictures = sorted((folder / "pictures").rglob("*.jpg"))
    for number, path in enumerate(pictures):
        match number % 6:
            case 0:
                pixels = random.integers(0, 256, (16, 24, 3), np.uint8)
                path.write_bytes(simplejpeg.encode_jpeg(pixels))
            case 1:
                path.rename(path.with_name(f"renamed-{path.name}"))
            case 2:
                path.rename(path.parent.parent / "abc"[number % 2] / f"moved-{path.name}")
            case 3:
                path.unlink()
            case 4:
                pixels = random.integers(0, 256, (24, 24, 3), np.uint8)
                path.with_name(f"new-{path.name}").write_bytes(simplejpeg.encode_jpeg(pixels))
            case _:
                pass
