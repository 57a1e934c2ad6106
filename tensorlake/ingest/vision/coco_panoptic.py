"""COCO's panoptic files: images whose every pixel belongs to one segment, or to none.

    panoptic_val2017.json       images, categories, and for each image its PNG and its segments
    panoptic_val2017/*.png      the segment of each pixel: R + 256 G + 65536 B; 0: of no segment

https://cocodataset.org/#format-data, "Panoptic Segmentation". A segment is a mask with a class;
boxes are stored as ``xyxy``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import PurePath
from typing import Any, Unpack

import msgspec
import numpy as np
from xxhash import xxh3_64_hexdigest

from tensorlake.dataset import Dataset, SkippedItem, codec_of_files, leads_outside
from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source
from tensorlake.ingest.engine.source_files import SourceFiles, is_url
from tensorlake.ingest.vision.boxes import box_problem
from tensorlake.storage import public_url
from tensorlake.types import Array, BBox, Buffer, ClassLabel, Image, InstanceMask, Text

__all__ = ["coco_panoptic", "segment_masks", "segment_runs"]

START = "panoptic_"
"""Before the name of the images' folder, in the name of COCO's own files."""

_CHANNELS = 3
_THREE_BYTES = np.uint32(0xFFFFFF)
_PNG = Image("png")


class _Category(msgspec.Struct, frozen=True):
    id: int
    name: str
    isthing: int = 1


class _Image(msgspec.Struct, frozen=True):
    id: int
    file_name: str
    width: int
    height: int


class _Segment(msgspec.Struct, frozen=True):
    id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    area: float = float("nan")
    iscrowd: int = 0


class _Annotation(msgspec.Struct, frozen=True):
    image_id: int
    file_name: str
    segments_info: list[_Segment]


class _Document(msgspec.Struct, frozen=True):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]


@dataclass(frozen=True, slots=True)
class _Item:
    """An image, and the PNG file of its segments."""

    image: _Image
    annotation: _Annotation
    path: str
    nbytes: int
    segments: str


@shows_options
def coco_panoptic(
    annotations: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    images: str | PathLike[str] | None = None,
    segments: str | PathLike[str] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a panoptic file of COCO: every image that it annotates, with a mask per segment.

    Makes ``image``, ``boxes`` (xyxy, of the image), ``label`` (the class of each segment),
    ``isthing`` (1 of objects, 0 of surfaces such as sky), ``iscrowd``, ``area``, ``segment_id`` and
    ``mask`` (each per box), ``image_id`` and ``file_name``. Pixels of no segment are in no mask.

    Args:
        annotations: The JSON file, or its URL in a store.
        dst: Path or URL of the dataset.
        images: The folder of the images; None: of COCO's name, ``val2017`` for
            ``panoptic_val2017.json``, beside the file or beside its folder.
        segments: The folder of the PNG files; None: of the file's name without ``.json``.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: The file is not in this format, or an image or a PNG file is missing,
            damaged, of another size, or has other segments than the file.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> import PIL.Image
        >>> import tensorlake as tl
        >>> for folder, colour in (("val", (90, 90, 90)), ("panoptic_val", (7, 0, 0))):
        ...     Path(folder).mkdir()
        ...     PIL.Image.new("RGB", (8, 6), colour).save(f"{folder}/a.png")
        >>> segment = {"id": 7, "category_id": 3, "bbox": [0, 0, 8, 6], "area": 48}
        >>> _ = Path("panoptic_val.json").write_text(json.dumps({
        ...     "images": [{"id": 1, "file_name": "a.png", "width": 8, "height": 6}],
        ...     "categories": [{"id": 3, "name": "sky", "isthing": 0}],
        ...     "annotations": [{"image_id": 1, "file_name": "a.png", "segments_info": [segment]}],
        ... }))
        >>> ds = tl.ingest.coco_panoptic("panoptic_val.json", "memory://doc-panoptic")
        >>> ds[0]["label"].as_names(), ds[0]["isthing"].tolist(), ds[0]["mask"].shape
        (['sky'], [0], (1, 6, 8))
    """
    files = SourceFiles(options.get("storage_options"))
    path = source_path(annotations)
    document = _document(path, files)
    places = _Places(path, images, segments, files)
    categories = _categories(document, path)
    is_strict = options.get("on_error", "raise") == "raise"
    left_out: list[SkippedItem] = []
    listed = files.below(places.images)
    items = _items(document, places, listed, None if is_strict else left_out, path)
    if not items:
        raise InvalidInputError(f"{public_url(path)!r} annotates no image", src=public_url(path))
    read_files = files.reader(places.images)

    def load(batch: Sequence[_Item]) -> dict[str, Any]:
        read = read_files([one.path for one in batch], [one.nbytes for one in batch])
        columns: dict[str, list[Any]] = {"image": [*read]}
        contents = files.contents([one.segments for one in batch])
        for item, content in zip(batch, contents, strict=True):
            for name, value in _row(item, content, categories).items():
                columns.setdefault(name, []).append(value)
        return columns

    names = [one.name for one in document.categories]
    schema = {
        "image": Image(codec_of_files(item.image.file_name for item in items)),
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel(names, per="boxes"),
        "isthing": Array("uint8", (None,), per="boxes"),
        "iscrowd": Array("uint8", (None,), per="boxes"),
        "area": Array("float32", (None,), per="boxes"),
        "segment_id": Array("int64", (None,), per="boxes"),
        "mask": InstanceMask(of="image", per="boxes"),
        "image_id": "int64",
        "file_name": Text(),
    }
    stamps = {
        item.image.id: (
            files.stamp(item.path),
            files.stamp(item.segments),
            xxh3_64_hexdigest(
                msgspec.json.encode((item.annotation, [_named(categories, item.annotation)]))
            ),
        )
        for item in items
    }
    source = Source(
        kind="coco_panoptic",
        schema=schema,
        items=items,
        sizes=[item.nbytes for item in items],
        name=lambda item: item.image.file_name.rpartition("/")[2],
        load=load,
        place=PurePath(path).name,
        where=full_place(annotations),
        left_out=left_out,
        stamp=lambda item: stamps[item.image.id],
        file=lambda item: item.image.file_name,
        unit="image",
        names_classes=True,
    )
    return run_ingest(source, dst, **options)


class _Places:
    """The folders of the images and of the PNG files."""

    def __init__(self, path: str, images: Any, segments: Any, files: SourceFiles) -> None:
        stem = path.removesuffix(".json")
        self.segments = stem if segments is None else source_path(segments).rstrip("/")
        if images is not None:
            self.images = source_path(images).rstrip("/")
            return
        folder, _, name = stem.rpartition("/" if is_url(path) else os.sep)
        name = name.removeprefix(START)
        candidates = [f"{folder}/{name}" if folder else name, f"{folder or '.'}/../{name}"]
        if is_url(path):
            candidates[1] = f"{folder.rpartition('/')[0]}/{name}"
        found = next((one for one in candidates if files.below(one)), None)
        if found is None:
            where = " or ".join(repr(public_url(one)) for one in candidates)
            raise InvalidInputError(
                f"no folder of images {where}\nname it: images=…", argument="images"
            )
        self.images = found


def _document(path: str, files: SourceFiles) -> _Document:
    place = public_url(path)
    try:
        return msgspec.json.decode(files.content(path), type=_Document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInputError(
            f"{place!r} is not a panoptic file of COCO: {error}"
            "\nfiles of instances, keypoints and captions are tl.ingest.coco(json, images, dst)",
            src=place,
        ) from error


def _categories(document: _Document, path: str) -> dict[int, _Category]:
    """Return the categories by id."""
    made = {one.id: one for one in document.categories}
    names = {one.name for one in document.categories}
    if not len(made) == len(names) == len(document.categories) or "" in names:
        place = public_url(path)
        message = f"{place!r} has two categories of one id or name, or one without a name"
        raise InvalidInputError(message, src=place)
    return made


def _named(categories: Mapping[int, _Category], annotation: _Annotation) -> list[Any]:
    """Return the names of an image's categories: renamed ones change its rows."""
    return [categories.get(one.category_id) for one in annotation.segments_info]


def _items(
    document: _Document,
    places: _Places,
    listed: Mapping[str, int],
    left_out: list[SkippedItem] | None,
    path: str,
) -> list[_Item]:
    """Return the images that are there and annotated; the others are left out, or an error."""
    by_image = {one.image_id: one for one in document.annotations}
    place = public_url(path)
    if len(by_image) < len(document.annotations) or len({one.id for one in document.images}) < len(
        document.images
    ):
        raise InvalidInputError(f"{place!r} has two images, or annotations, of one id", src=place)
    made: list[_Item] = []
    for image in document.images:
        annotation = by_image.pop(image.id, None)
        reason = "it has no annotation" if annotation is None else ""
        if leads_outside(image.file_name) or (annotation and leads_outside(annotation.file_name)):
            reason = "its name, or that of its PNG file, is outside of the folders"
        elif f"{places.images}/{image.file_name}" not in listed:
            reason = f"there is no file {image.file_name!r} in {public_url(places.images)!r}"
        if reason:
            if left_out is None:
                raise InvalidInputError(
                    f"image {image.id} of {place!r}: {reason}\nto leave it out: on_error='skip'",
                    item=image.file_name,
                )
            left_out.append(SkippedItem(image.file_name, reason))
            continue
        assert annotation is not None
        made.append(
            _Item(
                image,
                annotation,
                f"{places.images}/{image.file_name}",
                listed[f"{places.images}/{image.file_name}"],
                f"{places.segments}/{annotation.file_name}",
            )
        )
    if by_image:
        first = next(iter(by_image))
        reason = f"{len(by_image):,} annotations of images that are not listed, such as {first}"
        if left_out is None:
            raise InvalidInputError(f"{place!r} has {reason}\nto leave them out: on_error='skip'")
        left_out.append(SkippedItem(PurePath(path).name, reason))
    return made


def _row(item: _Item, content: bytes | None, categories: Mapping[int, _Category]) -> dict[str, Any]:
    """Return the values of an image's segments.

    Raises:
        InvalidInputError: The PNG file and the segments contradict each other.
    """
    refuse = partial(_refused, item)
    if content is None:
        raise refuse(f"its PNG file {public_url(item.segments)!r} is missing")
    segments = item.annotation.segments_info
    unknown = [one.category_id for one in segments if one.category_id not in categories]
    if unknown:
        raise refuse(f"it has the category {unknown[0]}, which is not listed")
    ids = [one.id for one in segments]
    pixels = _pixels(content, refuse)
    if pixels.shape != (item.image.height, item.image.width):
        height, width = pixels.shape
        size = f"{item.image.width} × {item.image.height}"
        raise refuse(f"its PNG file is {width} × {height}, and it is {size} (width × height)")
    starts, owners = segment_runs(pixels)
    present = {*owners.tolist()} - {0}
    if len(set(ids)) < len(ids) or present != set(ids):
        other = sorted(present ^ set(ids))[:3] or ids
        raise refuse(f"its PNG file and its segments_info differ in the segments {other}")
    boxes = [
        (x, y, x + width, y + height) for x, y, width, height in (one.bbox for one in segments)
    ]
    for box, one in zip(boxes, segments, strict=True):
        problem = box_problem(box, (item.image.width, item.image.height))
        if problem:
            raise refuse(f"segment {one.id} has a bbox {problem}")
    return {
        "boxes": np.array(boxes, np.float64).reshape(-1, 4),
        "label": [categories[one.category_id].name for one in segments],
        "isthing": [categories[one.category_id].isthing for one in segments],
        "iscrowd": [one.iscrowd for one in segments],
        "area": [one.area for one in segments],
        "segment_id": ids,
        "mask": segment_masks(pixels.shape, starts, owners, ids),
        "image_id": item.image.id,
        "file_name": item.image.file_name,
    }


def segment_runs(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each run of one segment begins, columns first, and the segment of each."""
    flat = pixels.T.reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    starts = np.concatenate([np.zeros(min(1, len(flat)), np.int64), changes])
    return starts, flat[starts]


def segment_masks(
    sides: Sequence[int], starts: np.ndarray, owners: np.ndarray, ids: Sequence[int]
) -> dict[str, Any]:
    """Return the masks of segments as COCO's RLE.

    Args:
        sides: Height and width.
        starts: Where each run begins, as `segment_runs` returns it.
        owners: The segment of each run.
        ids: The segments, all of which have runs.
    """
    count = sides[0] * sides[1]
    stops = np.append(starts[1:], count)
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], [*ids], side="left")
    ends = np.searchsorted(owners[order], [*ids], side="right")
    counts: list[list[int]] = []
    for low, high in zip(bounds.tolist(), ends.tolist(), strict=True):
        own = order[low:high]
        edges = np.stack([starts[own], stops[own]], axis=1).reshape(-1)
        runs = np.diff(edges, prepend=0).tolist()
        counts.append([*runs, count - int(edges[-1])] if edges[-1] < count else runs)
    return {"size": [*sides], "counts": counts}


def _pixels(content: Buffer, refuse: Any) -> np.ndarray:
    """Return the segment of each pixel, uint32 (height, width), columns first in memory."""
    try:
        column = _PNG.convert([content], tensor="segments")
        pixels = np.asarray(_PNG.present_one(_PNG.decode(column, tensor="segments"), 0))
    except TensorlakeError as error:
        raise refuse(f"its PNG file cannot be read: {error.message}") from error
    if pixels.ndim != _CHANNELS or pixels.shape[2] != _CHANNELS or pixels.dtype != np.uint8:
        raise refuse("its PNG file has not three channels of 8 bits")
    # Four bytes at each pixel, of which the last is of the next one
    height, width, _ = pixels.shape
    padded = np.append(pixels.reshape(-1), np.uint8(0))
    strides = (_CHANNELS * width, _CHANNELS)
    four = np.ndarray((height, width), "<u4", padded, strides=strides)
    return np.bitwise_and(four, _THREE_BYTES, order="F")


def _refused(item: _Item, reason: str) -> InvalidInputError:
    name = item.image.file_name
    message = f"{name!r} (image {item.image.id}): {reason}\nto leave it out: on_error='skip'"
    return InvalidInputError(message, item=name)
