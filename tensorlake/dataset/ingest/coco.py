"""COCO detection files: pictures with any number of labelled boxes.

https://cocodataset.org/#format-data. Boxes are stored as ``xyxy``; masks are not read yet.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.files import read_files
from tensorlake.dataset.ingest.images import CODECS
from tensorlake.dataset.ingest.run import Mode, OnError, Source, run_ingest
from tensorlake.errors import InvalidInputError
from tensorlake.types import Array, BBox, ClassLabel, Image

__all__ = ["coco"]


@dataclass(frozen=True, slots=True)
class _Picture:
    path: Path
    nbytes: int
    image_id: int
    annotations: tuple[dict[str, Any], ...]


def coco(
    annotations: str | Path,
    images: str | Path,
    dst: str | Path,
    *,
    mode: Mode = "create",
    on_error: OnError = "raise",
    commit_every: str = "8GiB",
    progress: bool | None = None,
    **open_arguments: Any,
) -> Dataset:
    """Ingest COCO instances: every picture of the file, with or without annotations.

    Makes ``image``, ``boxes`` (xyxy, of the image), ``label`` (one class a box), ``iscrowd``,
    ``area``, ``annotation_id`` (one a box) and ``image_id``. Rows are in the order of the file.

    Args:
        annotations: The JSON file.
        images: The folder of the pictures.
        dst: Path or URL of the dataset.
        mode: "append" adds to a dataset that exists.
        on_error: "skip" leaves out pictures that cannot be read.
        commit_every: Source bytes a commit.
        progress: Whether to show progress; None: on a terminal.
        **open_arguments: ``storage_options`` and ``durability``, as in ``tl.open``.

    Raises:
        InvalidInputError: The file is not COCO's, or a picture is missing or damaged.
    """
    return run_ingest(
        _source(Path(annotations), Path(images)),
        dst,
        mode=mode,
        on_error=on_error,
        commit_every=commit_every,
        progress=progress,
        **open_arguments,
    )


def _source(file: Path, folder: Path) -> Source[_Picture]:
    content = _read(file)
    categories: dict[int, str] = {int(c["id"]): str(c["name"]) for c in content["categories"]}
    names = [categories[number] for number in sorted(categories)]
    codes = {number: code for code, number in enumerate(sorted(categories))}
    by_image: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for one in content["annotations"]:
        by_image[int(one["image_id"])].append(one)
    pictures = [
        _picture(folder / str(image["file_name"]), int(image["id"]), by_image[int(image["id"])])
        for image in content["images"]
    ]
    if not pictures:
        raise InvalidInputError(f"{str(file)!r} lists no images", src=str(file))

    def load(batch: Sequence[_Picture]) -> dict[str, Any]:
        boxes = [_xyxy(picture.annotations) for picture in batch]
        return {
            "image": read_files([str(p.path) for p in batch], [p.nbytes for p in batch]),
            "boxes": boxes,
            "label": [[codes[int(a["category_id"])] for a in p.annotations] for p in batch],
            "iscrowd": [_column(p.annotations, "iscrowd", np.uint8) for p in batch],
            "area": [_column(p.annotations, "area", np.float32) for p in batch],
            "annotation_id": [_column(p.annotations, "id", np.int64) for p in batch],
            "image_id": [picture.image_id for picture in batch],
        }

    return Source(
        kind="coco",
        schema={
            "image": Image(CODECS.get(pictures[0].path.suffix.lower(), "jpeg")),
            "boxes": BBox(format="xyxy", of="image"),
            "label": ClassLabel(names, per="boxes"),
            "iscrowd": Array("uint8", (None,)),
            "area": Array("float32", (None,)),
            "annotation_id": Array("int64", (None,)),
            "image_id": "int64",
        },
        items=pictures,
        sizes=[picture.nbytes for picture in pictures],
        name=lambda picture: picture.path.name,
        load=load,
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise InvalidInputError(f"no file {str(file)!r} to ingest", src=str(file)) from error
    except ValueError as error:
        raise InvalidInputError(f"{str(file)!r} is not JSON: {error}", src=str(file)) from error
    missing = {"images", "annotations", "categories"} - set(content)
    if missing:
        raise InvalidInputError(
            f"{str(file)!r} is no COCO instances file: it lacks {sorted(missing)}", src=str(file)
        )
    return content


def _picture(path: Path, image_id: int, annotations: list[dict[str, Any]]) -> _Picture:
    try:
        return _Picture(path, path.stat().st_size, image_id, tuple(annotations))
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"no picture {str(path)!r} (image {image_id} of the COCO file)\n"
            "give the folder that the file's names are relative to",
            src=str(path),
        ) from error


def _xyxy(annotations: Sequence[dict[str, Any]]) -> np.ndarray:
    xywh = np.array([a["bbox"] for a in annotations], dtype=np.float32).reshape(-1, 4)
    return np.concatenate((xywh[:, :2], xywh[:, :2] + xywh[:, 2:]), axis=1)


def _column(annotations: Sequence[dict[str, Any]], name: str, dtype: Any) -> np.ndarray:
    return np.array([a.get(name, 0) for a in annotations], dtype=dtype)
