"""COCO files: images with labelled boxes, masks, keypoints, captions.

https://cocodataset.org/#format-data. Boxes are stored as ``xyxy``; masks are filled exactly as by
the COCO API, and stored as RLE.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from tensorlake.dataset import Dataset, SkippedItem, codec_of_files, leads_outside
from tensorlake.errors import InvalidInputError, TensorNotFoundError
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source
from tensorlake.ingest.engine.source_files import SourceFiles, is_url, unreadable_file
from tensorlake.ingest.vision.coco_json import CocoFile, Table, read_coco
from tensorlake.ingest.vision.coco_masks import CocoMasks
from tensorlake.ingest.vision.coco_records import CocoImage
from tensorlake.quantities import plural
from tensorlake.storage import public_url
from tensorlake.types import (
    Array,
    BBox,
    Buffer,
    ClassLabel,
    Image,
    InstanceMask,
    Json,
    Keypoints,
    StoredJson,
    Text,
)
from tensorlake.types import (
    Sequence as SequenceType,
)

__all__ = ["coco"]

_TEXTS = ("file_name", "coco")

Columns = Mapping[str, Callable[[range], Any]]
"""Functions that return the values of some images, by tensor."""


@shows_options
def coco(
    annotations: str | PathLike[str],
    images: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    masks: bool = True,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a COCO file: every image it lists, with or without annotations.

    Instances make ``image``, ``boxes`` (xyxy, of the image), ``label`` (one class per box),
    ``iscrowd``, ``area`` (NaN where the file has none), ``annotation_id`` (per box), and ``mask``
    (per box) where the file has segmentations; keypoints also ``keypoints`` (per box); captions
    ``captions``. Each row also has ``image_id``, ``file_name``, and ``coco``, all members of
    the image and its annotations as JSON, such as polygons and licences. With it and the file's
    categories and ``info``, which the dataset keeps, ``ds.to_coco`` restores the file. Rows are in
    the order of the file.

    Args:
        annotations: The JSON file, or its URL in a store.
        images: The folder of the images, or its URL.
        dst: Path or URL of the dataset.
        masks: Whether segmentations are filled and stored.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: The file is not in COCO format, an image is missing or damaged, or an
            object has an unlisted category, no ``bbox``, one of negative width or height or outside
            of its image, or a number that float32 cannot hold; an image has another size than the
            file gives it, or a name outside of ``images``. Such images can be left out: see
            ``on_error``.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> import PIL.Image
        >>> import tensorlake as tl
        >>> PIL.Image.new("RGB", (8, 6)).save("a.jpg")
        >>> _ = Path("coco.json").write_text(json.dumps({
        ...     "images": [{"id": 1, "file_name": "a.jpg", "width": 8, "height": 6}],
        ...     "categories": [{"id": 3, "name": "cat"}],
        ...     "annotations": [{"id": 9, "image_id": 1, "category_id": 3, "bbox": [1, 2, 4, 3]}],
        ... }))
        >>> ds = tl.ingest.coco("coco.json", ".", "memory://doc-coco")
        >>> ds[0]["boxes"].tolist(), ds[0]["label"].as_names()
        ([[1.0, 2.0, 5.0, 5.0]], ['cat'])
    """
    files = SourceFiles(options.get("storage_options"))
    folder = source_path(images)
    is_strict = options.get("on_error", "raise") == "raise"
    file = read_coco(source_path(annotations), files, is_strict=is_strict)
    left_out = _left_out(file)
    listed = files.list(folder) if is_url(folder) else None
    if not is_strict:
        bad = _bad_images(file, folder, listed, masks=masks)
        left_out += [SkippedItem(file.images[row].file_name, *bad[row]) for row in sorted(bad)]
        file = file.without(bad)
        if not file.images:
            message = f"no image of {file.path!r} can be ingested: {left_out[0].reason}"
            raise InvalidInputError(message, src=file.path)
    paths = [os.path.join(folder, image.file_name) for image in file.images]  # noqa: PTH118 - making a Path costs as much as reading the file
    sizes = [_size_of(path, image, listed) for path, image in zip(paths, file.images, strict=True)]
    stamps = [files.stamp(path) for path in paths]
    schema, columns, absent = (
        _captions(file) if _has_captions(file) else _objects(file, masks=masks)
    )
    read_files = files.reader(folder)
    image_type = Image(codec_of_files(image.file_name for image in file.images))

    def load(batch: Sequence[int]) -> dict[str, Any]:
        rows = range(batch[0], batch[-1] + 1)
        read = read_files(paths[rows.start : rows.stop], sizes[rows.start : rows.stop])
        for at, sample in zip(rows, read, strict=True):
            _check_size(image_type, sample, file.images[at])
        listed_images = file.images[rows.start : rows.stop]
        return {
            "image": read,
            "image_id": [image.id for image in listed_images],
            "file_name": [image.file_name for image in listed_images],
            "coco": [StoredJson(file.record_of(row)) for row in rows],
        } | {name: values(rows) for name, values in columns.items()}

    @cache
    def stamp(row: int) -> tuple[str, str]:
        return stamps[row], file.digest_of(row)

    source = Source(
        kind="coco",
        schema={"image": image_type, **schema, "file_name": Text(), "coco": Json()},
        items=range(len(paths)),
        sizes=sizes,
        name=lambda row: file.images[row].file_name.rpartition("/")[2],
        load=load,
        place=Path(annotations).name,
        where=full_place(annotations),
        left_out=left_out,
        stamp=stamp,
        file=lambda row: file.images[row].file_name,
        unit="image",
        settings={"masks": masks},
        names_classes=True,
        header=file.header,
        optional=(*_TEXTS, *absent),
        absent=absent,
    )
    try:
        return run_ingest(source, dst, **options)
    except TensorNotFoundError as error:
        lacking = error.facts.get("name") or error.facts.get("tensor")
        if lacking not in {"mask", "keypoints"}:
            raise
        place = public_url(str(dst))
        raise InvalidInputError(
            f"{file.path!r} has values of {lacking!r}, and {place!r} has no such tensor: its file"
            f" had none when it was ingested\nto ingest it anew: another URL, or"
            f" tl.delete({place!r}, confirm={place!r}) and ingest again",
            src=file.path,
            tensor=lacking,
        ) from error


def _has_captions(file: CocoFile) -> bool:
    return bool(file.annotations) and file.annotations[0].caption is not None


def _captions(file: CocoFile) -> tuple[dict[str, Any], Columns, Sequence[str]]:
    texts = [annotation.caption for annotation in file.annotations]
    bounds = file.offsets.tolist()
    return (
        {"captions": SequenceType(Text()), "image_id": "int64"},
        {"captions": lambda rows: [texts[bounds[row] : bounds[row + 1]] for row in rows]},
        (),
    )


def _objects(file: CocoFile, *, masks: bool) -> tuple[dict[str, Any], Columns, Sequence[str]]:
    """Return the types, the values, and the tensors that the file has no values of."""
    if not file.categories:
        message = f"{file.path!r} is not a COCO file of instances: it lacks 'categories'"
        raise InvalidInputError(message, src=file.path)
    schema: dict[str, Any] = {
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel([str(one.name) for one in file.categories], per="boxes"),
        "iscrowd": Array("uint8", (None,), per="boxes"),
        "area": Array("float32", (None,), per="boxes"),
        "annotation_id": Array("int64", (None,), per="boxes"),
        "image_id": "int64",
    }
    file.check_numbers()
    file.check_categories()
    columns: dict[str, Callable[[range], Any]] = {
        "boxes": _when_read(file.boxes),
        "label": lambda rows: [file.class_names(row) for row in rows],
        "iscrowd": _when_read(lambda: file.column("iscrowd", "uint8")),
        "area": _when_read(file.areas),
        "annotation_id": _when_read(lambda: file.column("id", "int64")),
    }
    absent: list[str] = []
    if masks:
        schema["mask"] = InstanceMask(of="image", per="boxes")
        columns["mask"] = CocoMasks(file).of
        absent += [] if file.has_segmentations() else ["mask"]
    has_points = any(one.keypoints for one in file.annotations)
    if has_points or len({tuple(one.keypoints) for one in file.categories if one.keypoints}) == 1:
        schema["keypoints"], count = _keypoints(file)
        columns["keypoints"] = file.points(count).of
        absent += [] if has_points else ["keypoints"]
    return schema, columns, absent


def _when_read(make: Callable[[], Table]) -> Callable[[range], Any]:
    """Return the values of images from a table that is made for the first of them, if any."""
    made = cache(make)
    return lambda rows: made().of(rows)


def _keypoints(file: CocoFile) -> tuple[Keypoints, int]:
    """Return the type of the objects' points, and how many each has."""
    posed = [one for one in file.categories if one.keypoints]
    names = {tuple(one.keypoints or ()) for one in posed}
    if len(names) != 1:  # of several classes: their points have no names in common
        count = next(len(one.keypoints) // 3 for one in file.annotations if one.keypoints)
        return Keypoints(of="image", per="boxes"), count
    pairs = posed[0].skeleton or []
    first = 0 if any(0 in pair for pair in pairs) else 1  # COCO counts points from 1
    skeleton = [(a - first, b - first) for a, b in pairs]
    objects = Keypoints(posed[0].keypoints or (), skeleton, of="image", per="boxes")
    return objects, len(names.pop())


def _left_out(file: CocoFile) -> list[SkippedItem]:
    """List the items that cannot be parsed, and the annotations without an image."""
    left_out = [SkippedItem(name, reason) for name, reason in file.wrong_images]
    if not file.strays:
        return left_out
    first = file.strays[0]
    reason = (
        f"{plural(len(file.strays), 'annotation')} of images that the file does not list"
        f" (the first: annotation {first.id} of image {first.image_id})"
    )
    return [*left_out, SkippedItem(Path(file.path).name, reason)]


def _bad_images(
    file: CocoFile, folder: str, listed: Mapping[str, int] | None, *, masks: bool
) -> dict[int, tuple[str, str | None]]:
    """Return why an image cannot become a row, and for which tensor, by row."""
    bad: dict[int, tuple[str, str | None]] = {}
    if not _has_captions(file) and file.categories:
        has_points = any(one.keypoints for one in file.annotations)
        points = _keypoints(file)[1] if has_points else None
        bad |= file.problems(points=points, masks=masks)
    for row, image in enumerate(file.images):
        if image.id in file.wrong_annotations:
            bad[row] = file.wrong_annotations[image.id], None
        try:
            _size_of(os.path.join(folder, image.file_name), image, listed)  # noqa: PTH118 - as above
        except InvalidInputError as error:
            bad[row] = error.message.splitlines()[0], "image"
    return bad


def _check_size(image_type: Image, sample: Buffer, image: CocoImage) -> None:
    """Refuse an image of another size than the file gives it: outlines would be filled wrongly."""
    if not image.height and not image.width:
        return
    try:
        height, width, _ = image_type.parse_shape(sample)
    except ValueError:  # damaged: the error of the tensor names the item and the reason
        return
    if (height, width) != (image.height, image.width):
        raise InvalidInputError(
            f"{image.file_name!r} is {width} × {height}, but image {image.id} of the COCO file is"
            f" {image.width} × {image.height} (width × height)"
            "\ncorrect the file, whose annotations may be of another size, too, or leave the image"
            " out: on_error='skip'",
            item=image.file_name,
            expected=(image.width, image.height),
            actual=(width, height),
        )


def _size_of(path: str, image: CocoImage, listed: Mapping[str, int] | None) -> int:
    if leads_outside(image.file_name):
        raise InvalidInputError(
            f"image {image.id} of the COCO file is named {image.file_name!r}, which is outside of"
            " the folder of images\npass the folder of all images, and names relative to it",
            src=image.file_name,
            item=image.file_name,
        )
    try:
        return os.stat(path).st_size if listed is None else listed[path]  # noqa: PTH116 - as above
    except (FileNotFoundError, KeyError) as error:
        shown = public_url(path)
        raise InvalidInputError(
            f"no image {shown!r} (image {image.id} of the COCO file)\n"
            "pass the folder to which the names in the file are relative",
            src=shown,
        ) from error
    except OSError as error:
        raise unreadable_file(path, error) from error
    except ValueError as error:  # a zero byte
        message = f"image {image.id} of the COCO file has a name that no file has: {path!r}"
        raise InvalidInputError(message, src=path) from error
