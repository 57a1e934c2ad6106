"""COCO files: pictures with labelled boxes, masks, keypoints, captions.

https://cocodataset.org/#format-data. Boxes are stored as ``xyxy``; masks are filled exactly as the
COCO API fills them, and kept as runs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.files import FileReader
from tensorlake.dataset.ingest.options import IngestOptions
from tensorlake.dataset.ingest.run import Source, run_ingest
from tensorlake.dataset.schema_inference import PICTURE_ENDINGS
from tensorlake.errors import InvalidInputError
from tensorlake.types import (
    Array,
    BBox,
    ClassLabel,
    Image,
    InstanceMask,
    Keypoints,
    RunTable,
    Text,
    polygon_runs,
    store_masks,
)
from tensorlake.types import (
    Sequence as SequenceType,
)

__all__ = ["coco"]


@dataclass(frozen=True, slots=True)
class _Picture:
    path: Path
    nbytes: int
    image_id: int
    size: tuple[int, int]
    annotations: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the annotations of a file have."""

    names: tuple[str, ...]
    codes: Mapping[int, int]
    points: tuple[str, ...]
    skeleton: tuple[tuple[int, int], ...]
    has_captions: bool
    has_masks: bool


def coco(
    annotations: str | Path,
    images: str | Path,
    dst: str | Path,
    *,
    masks: bool = True,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a COCO file: every picture it lists, with or without annotations.

    Of instances makes ``image``, ``boxes`` (xyxy, of the image), ``label`` (one class a box),
    ``iscrowd``, ``area``, ``annotation_id`` (one a box), ``image_id``, and ``mask`` (one a box)
    where the file has segmentations; of keypoints also ``keypoints`` (one object a box); of
    captions ``image``, ``captions`` and ``image_id``. Rows are in the order of the file.

    Args:
        annotations: The JSON file.
        images: The folder of the pictures.
        dst: Path or URL of the dataset.
        masks: Whether segmentations are filled and stored.
        **options: See `IngestOptions`.

    Raises:
        InvalidInputError: The file is not COCO's, or a picture is missing or damaged.
    """
    file = Path(annotations)
    content = _read(file)
    pictures = _pictures(content, file, Path(images))
    found = _look_at(content, file, masks=masks)
    files = FileReader()

    def load(batch: Sequence[_Picture]) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "image": files.read([str(p.path) for p in batch], [p.nbytes for p in batch]),
            "image_id": [picture.image_id for picture in batch],
        }
        each = [picture.annotations for picture in batch]
        if found.has_captions:
            columns["captions"] = [[str(a["caption"]) for a in one] for one in each]
            return columns
        columns |= {
            "boxes": [_xyxy(one) for one in each],
            "label": [[found.codes[int(a["category_id"])] for a in one] for one in each],
            "iscrowd": [_column(one, "iscrowd", np.uint8) for one in each],
            "area": [_column(one, "area", np.float32) for one in each],
            "annotation_id": [_column(one, "id", np.int64) for one in each],
        }
        if found.has_masks:
            columns["mask"] = _masks(batch)
        if found.points:
            columns["keypoints"] = [_points(one, len(found.points)) for one in each]
        return columns

    source = Source(
        kind="coco",
        schema=_schema(found, pictures[0]),
        items=pictures,
        sizes=[picture.nbytes for picture in pictures],
        name=lambda picture: picture.path.name,
        load=load,
        place=file.name,
    )
    return run_ingest(source, dst, **options)


def _schema(found: _Contents, first: _Picture) -> dict[str, Any]:
    image = Image(PICTURE_ENDINGS.get(first.path.suffix.lower(), "jpeg"))
    if found.has_captions:
        return {"image": image, "captions": SequenceType(Text()), "image_id": "int64"}
    schema: dict[str, Any] = {
        "image": image,
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel(found.names, per="boxes"),
        "iscrowd": Array("uint8", (None,)),
        "area": Array("float32", (None,)),
        "annotation_id": Array("int64", (None,)),
        "image_id": "int64",
    }
    if found.has_masks:
        schema["mask"] = InstanceMask(of="image")
    if found.points:
        schema["keypoints"] = Keypoints(found.points, found.skeleton, of="image")
    return schema


def _look_at(content: Mapping[str, Any], file: Path, *, masks: bool) -> _Contents:
    annotations: list[dict[str, Any]] = content["annotations"]
    if annotations and "caption" in annotations[0]:
        return _Contents((), {}, (), (), has_captions=True, has_masks=False)
    if "categories" not in content:
        message = f"{str(file)!r} is no COCO file of instances: it lacks 'categories'"
        raise InvalidInputError(message, src=str(file))
    categories: dict[int, dict[str, Any]] = {int(c["id"]): c for c in content["categories"]}
    ordered = sorted(categories)
    posed = [one for one in categories.values() if one.get("keypoints")]
    has_points = len(posed) == 1 and any("keypoints" in one for one in annotations)
    return _Contents(
        names=tuple(str(categories[number]["name"]) for number in ordered),
        codes={number: code for code, number in enumerate(ordered)},
        points=tuple(map(str, posed[0]["keypoints"])) if has_points else (),
        # COCO counts points from 1
        skeleton=tuple((int(a) - 1, int(b) - 1) for a, b in posed[0].get("skeleton", ()))
        if has_points
        else (),
        has_captions=False,
        has_masks=masks and any(one.get("segmentation") for one in annotations),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise InvalidInputError(f"no file {str(file)!r} to ingest", src=str(file)) from error
    except ValueError as error:
        raise InvalidInputError(f"{str(file)!r} is not JSON: {error}", src=str(file)) from error
    members: set[str] = set(content) if isinstance(content, dict) else set()
    missing = {"images", "annotations"} - members
    if missing:
        raise InvalidInputError(
            f"{str(file)!r} is no COCO file: it lacks {sorted(missing)}", src=str(file)
        )
    return content


def _pictures(content: Mapping[str, Any], file: Path, folder: Path) -> list[_Picture]:
    by_image: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for one in content["annotations"]:
        by_image[int(one["image_id"])].append(one)
    pictures = [_picture(image, folder, by_image[int(image["id"])]) for image in content["images"]]
    if not pictures:
        raise InvalidInputError(f"{str(file)!r} lists no images", src=str(file))
    return pictures


def _picture(
    image: Mapping[str, Any], folder: Path, annotations: Sequence[dict[str, Any]]
) -> _Picture:
    path, number = folder / str(image["file_name"]), int(image["id"])
    try:
        size = int(image.get("height", 0)), int(image.get("width", 0))
        return _Picture(path, path.stat().st_size, number, size, tuple(annotations))
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"no picture {str(path)!r} (image {number} of the COCO file)\n"
            "give the folder that the file's names are relative to",
            src=str(path),
        ) from error


def _xyxy(annotations: Sequence[dict[str, Any]]) -> np.ndarray:
    xywh = np.array([a.get("bbox", [0, 0, 0, 0]) for a in annotations], np.float32).reshape(-1, 4)
    return np.concatenate((xywh[:, :2], xywh[:, :2] + xywh[:, 2:]), axis=1)


def _column(annotations: Sequence[dict[str, Any]], name: str, dtype: Any) -> np.ndarray:
    return np.array([a.get(name, 0) for a in annotations], dtype=dtype)


def _masks(pictures: Sequence[_Picture]) -> list[Any]:
    """Masks of the pictures' annotations; outlines of all of them are filled together."""
    is_plain = [bool(p.annotations) and not any(map(_is_runs, p.annotations)) for p in pictures]
    plain = list(compress(pictures, is_plain))
    counts = np.array([len(picture.annotations) for picture in plain], np.int64)
    stored = iter(store_masks(_filled(_outlined(plain)), counts))
    others = [picture for picture, plainly in zip(pictures, is_plain, strict=True) if not plainly]
    given = iter(_as_given(others))
    return [next(stored) if plainly else next(given) for plainly in is_plain]


def _as_given(pictures: Sequence[_Picture]) -> list[list[Mapping[str, Any]]]:
    """Masks of pictures some of which are written as runs: all as runs."""
    filled = iter(_filled(_outlined(pictures)))
    return [
        [
            one["segmentation"] if _is_runs(one) else {"size": p.size, "counts": next(filled)}
            for one in p.annotations
        ]
        for p in pictures
    ]


def _is_runs(annotation: Mapping[str, Any]) -> bool:
    return isinstance(annotation.get("segmentation"), dict)


def _outlined(pictures: Sequence[_Picture]) -> list[tuple[_Picture, dict[str, Any]]]:
    """The annotations that are outlines, or nothing, each with its picture."""
    return [(p, one) for p in pictures for one in p.annotations if not _is_runs(one)]


def _filled(each: Sequence[tuple[_Picture, dict[str, Any]]]) -> RunTable:
    outlines = [one.get("segmentation") or [] for _, one in each]
    try:
        return polygon_runs(outlines, [picture.size for picture, _ in each])
    except (ValueError, TypeError) as error:
        raise _unfillable(error, each) from error


def _unfillable(
    error: ValueError | TypeError, each: Sequence[tuple[_Picture, dict[str, Any]]]
) -> InvalidInputError:
    """Name the annotation that outlines are wrong of, which the error may know."""
    for picture, one in each:
        try:
            polygon_runs([one.get("segmentation") or []], [picture.size])
        except (ValueError, TypeError) as its:
            number = one.get("id")
            message = f"annotation {number} of {picture.path.name!r} has {its.args[0]}"
            return InvalidInputError(message, src=picture.path.name, annotation=number)
    return InvalidInputError(f"segmentations cannot be filled: {error}")


def _points(annotations: Sequence[dict[str, Any]], count: int) -> np.ndarray:
    points = [a.get("keypoints") or [0] * 3 * count for a in annotations]
    return np.array(points, dtype=np.float32).reshape(len(annotations), count, 3)
