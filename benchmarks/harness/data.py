"""The input of every contender: the same bytes, made once in the workspace.

Images are the JPEG files of a folder (``--images`` or ``TENSORLAKE_BENCH_IMAGES``; by default
``../shared/data/imagenet300`` where it exists), each under several names until there are enough.
Without such a folder they are generated: smooth colours with noise of several scales, which
libjpeg finds about as hard as photographs. Labels are the file's number modulo ten.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "NUM_LABELS",
    "SCRIPTS",
    "TOKENS_PER_ROW",
    "Workspace",
    "coco_files",
    "find_images",
    "float_arrays",
    "jpeg_paths",
    "tokens",
]

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = REPOSITORY / "benchmarks" / "peers" / "scripts"
"""The scripts that peers' Pythons run. A script's folder comes first where modules are looked for,
so none here has the name of another's, as ``requests`` beside it has."""
IMAGES_ENVIRONMENT = "TENSORLAKE_BENCH_IMAGES"
DEFAULT_IMAGES = REPOSITORY.parent / "shared" / "data" / "imagenet300"
COCO_FOLDERS = (  # of pictures, beside a JSON file of their annotations
    REPOSITORY.parent / "shared" / "data" / "coco_tiny",
    REPOSITORY / "examples" / "data" / "coco",
)
LAKE = "lake"
TOKENS_PER_ROW = 512
NUM_LABELS = 10
GENERATED_SHAPES = ((375, 500), (500, 375), (333, 500), (480, 640))


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where a benchmark keeps its data, and how much of it there is."""

    folder: Path
    images: Path | None
    is_quick: bool

    @property
    def num_images(self) -> int:
        return 200 if self.is_quick else 1000

    @property
    def num_ledger_items(self) -> int:
        """Items of a source that is ingested again."""
        return 100_000 if self.is_quick else 1_000_000

    @property
    def num_coco_images(self) -> int:
        return 500 if self.is_quick else 5000

    @property
    def num_coco_annotations(self) -> int:
        return 3600 if self.is_quick else 36_000

    @property
    def num_token_rows(self) -> int:
        return 20_000 if self.is_quick else 200_000

    @property
    def num_float_rows(self) -> int:
        return 2048 if self.is_quick else 16_384

    @property
    def lake(self) -> Path:
        """Datasets that are written once and read by several contenders."""
        return self.folder / LAKE

    def scratch(self, name: str) -> Path:
        """Name a folder for a run's output, empty."""
        folder = self.folder / "scratch" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.sync()  # what the last run left to be written is not this run's to wait for
        return folder


def find_images(given: str | None) -> Path | None:
    """Choose the folder of images: given, from the environment, beside the checkout, none."""
    named = given or os.environ.get(IMAGES_ENVIRONMENT)
    if named:
        return Path(named).resolve()
    return DEFAULT_IMAGES if DEFAULT_IMAGES.is_dir() else None


def jpeg_paths(workspace: Workspace) -> list[Path]:
    """Return the images' files, laying them out on the first call."""
    folder = workspace.folder / "jpegs"
    wanted = [folder / f"{number:05d}.jpg" for number in range(workspace.num_images)]
    if not wanted[-1].exists():
        folder.mkdir(parents=True, exist_ok=True)
        sources = _source_images(workspace)
        for number, path in enumerate(wanted):
            path.write_bytes(sources[number % len(sources)])
    for path in wanted:
        path.read_bytes()  # every contender finds them in the page cache
    return wanted


def _source_images(workspace: Workspace) -> list[bytes]:
    if workspace.images is None:
        return [_generated_jpeg(seed) for seed in range(min(100, workspace.num_images))]
    files = sorted(
        path
        for path in workspace.images.rglob("*")
        if path.suffix.lower() in {".jpg", ".jpeg"} and path.is_file()
    )
    if not files:
        raise SystemExit(f"benchmarks: there is no JPEG file under {str(workspace.images)!r}")
    return [path.read_bytes() for path in files[: workspace.num_images]]


def _generated_jpeg(seed: int) -> bytes:
    import simplejpeg

    random = np.random.default_rng(seed)
    height, width = GENERATED_SHAPES[seed % len(GENERATED_SHAPES)]
    picture = np.zeros((height, width, 3), np.float32)
    for scale in (2, 5, 16, 64):
        coarse = random.normal(0, 14, (height // scale + 2, width // scale + 2, 3))
        fine = np.repeat(np.repeat(coarse, scale, axis=0), scale, axis=1)
        picture += fine[:height, :width].astype(np.float32)
    pixels = np.clip(picture + 128, 0, 255).astype(np.uint8)
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=90))


def coco_files(workspace: Workspace) -> tuple[Path, Path]:
    """Return a COCO file and its folder of images: real ones, repeated under other names."""
    folder = workspace.folder / "coco"
    file = folder / "instances.json"
    if not file.exists():
        images = folder / "images"
        images.mkdir(parents=True, exist_ok=True)
        source = next(one for one in COCO_FOLDERS if one.is_dir())
        found = next(source.rglob("instances*.json"))
        document = json.loads(found.read_text(encoding="utf-8"))
        paths = {path.name: path for path in source.rglob("*.jpg")}
        listed = [one for one in document["images"] if one["file_name"] in paths]
        made: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
        for number in range(workspace.num_coco_images):
            one = listed[number % len(listed)]
            name = f"{number:06d}.jpg"
            shutil.copyfile(paths[one["file_name"]], images / name)
            made["images"].append({**one, "id": number, "file_name": name})
        of_image: dict[int, list[int]] = {}
        for number, one in enumerate(listed):
            of_image.setdefault(one["id"], []).extend(
                range(number, workspace.num_coco_images, len(listed))
            )
        rounds = max(map(len, of_image.values()))
        for turn in range(rounds):
            for one in document["annotations"]:
                places = of_image.get(one["image_id"], [])
                if turn < len(places) and len(made["annotations"]) < workspace.num_coco_annotations:
                    number = len(made["annotations"]) + 1
                    made["annotations"].append({**one, "id": number, "image_id": places[turn]})
        file.write_text(json.dumps({**made, "categories": document["categories"]}))
    for path in sorted((folder / "images").iterdir()):
        path.read_bytes()  # every contender finds them in the page cache
    return file, folder / "images"


def tokens(workspace: Workspace) -> npt.NDArray[np.uint16]:
    """Return rows of 512 tokens with the frequencies of words (Zipf)."""
    random = np.random.default_rng(0)
    drawn = random.zipf(1.3, size=(workspace.num_token_rows, TOKENS_PER_ROW))
    return np.minimum(drawn, 50_000).astype(np.uint16)


def float_arrays(workspace: Workspace, columns: int) -> npt.NDArray[np.float32]:
    """Return rows of float32 that compress as measurements do: a random walk, rounded."""
    random = np.random.default_rng(0)
    count = workspace.num_float_rows * 4096 // columns
    steps = random.normal(0, 1, size=(count, columns)).cumsum(axis=1)
    return np.round(steps, 2).astype(np.float32)
