"""Pascal VOC folders: ``JPEGImages``, ``Annotations`` and ``ImageSets``.

One XML file per image (http://host.robots.ox.ac.uk/pascal/VOC/voc2012/), with a box per object;
boxes count pixels from 1 and include their last pixel, so 1 is subtracted from the first corner.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Unpack, cast

import msgspec
import numpy as np

from tensorlake.dataset import IMAGE_ENDINGS, Dataset, SkippedItem, codec_of_files
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, no_rows
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.vision.boxes import box_problem
from tensorlake.storage import public_url
from tensorlake.types import (
    Array,
    BBox,
    Buffer,
    ClassLabel,
    Image,
    Json,
    SegmentMask,
    StoredJson,
    Text,
)

__all__ = ["voc"]

_FOLDER = "JPEGImages"
_BORDER = 255  # of segmentations: no class
_LISTED = ("object", "part")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True)
class _ImageFile:
    path: str
    nbytes: int
    annotation: _Annotation
    mask: str | None
    sets: tuple[str, ...]
    name: str
    stamp: object


@dataclass(frozen=True, slots=True)
class _Annotation:
    """The content of an XML file.

    Attributes:
        objects: Its objects.
        size: Width and height of the image; zeros if unknown.
        record: All of its elements, as JSON.
    """

    objects: tuple[_Object, ...] = ()
    size: tuple[int, int] = (0, 0)
    record: bytes = b"null"


@dataclass(frozen=True, slots=True)
class _Object:
    name: str
    box: tuple[float, float, float, float]
    flags: tuple[int, int]  # difficult, truncated


@shows_options
def voc(
    src: str | PathLike[str], dst: str | PathLike[str], **options: Unpack[IngestOptions]
) -> Dataset:
    """Ingest a Pascal VOC folder: images with labelled boxes, and segmentations if complete.

    Makes ``image``, ``boxes`` (xyxy), ``label`` (one class per box), ``difficult`` and
    ``truncated`` (per box), ``sets`` (the files of ``ImageSets/Main`` that name the image),
    ``file_name``, ``voc`` (all elements of the XML file as JSON, such as ``pose`` and ``part``),
    and ``mask`` if ``SegmentationClass`` has one for every image. Without these folders, images
    may be beside their XML files; ``sets`` are then their folders. Rows are sorted by name.

    Args:
        src: The folder of ``JPEGImages`` and ``Annotations``, or of images beside their XML
            files; or its URL in a store.
        dst: Path or URL of the dataset.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: A folder is missing, an annotation is not VOC's, a box has a negative
            width or height or is outside of its image, or an image has another size than its
            annotation gives it.

    Example:
        >>> from pathlib import Path
        >>> import PIL.Image
        >>> import tensorlake as tl
        >>> for folder in ("JPEGImages", "Annotations"):
        ...     Path("voc", folder).mkdir(parents=True)
        >>> PIL.Image.new("RGB", (8, 6)).save("voc/JPEGImages/a.jpg")
        >>> _ = Path("voc/Annotations/a.xml").write_text(
        ...     "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin>"
        ...     "<xmax>5</xmax><ymax>5</ymax></bndbox></object></annotation>"
        ... )
        >>> tl.ingest.voc("voc", "memory://doc-voc")[0]["label"].as_names()
        ['cat']
    """
    root = source_path(src)
    files = SourceFiles(options.get("storage_options"))
    left_out: list[SkippedItem] = []
    is_strict = options.get("on_error", "raise") == "raise"
    images = _image_files(root, files, None if is_strict else left_out)
    names = sorted({one.name for image in images for one in image.annotation.objects})
    has_masks = all(image.mask is not None for image in images)
    sets = sorted({name for image in images for name in image.sets})
    schema: dict[str, Any] = {
        "image": Image(codec_of_files(image.path for image in images)),
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel(names, per="boxes"),
        "difficult": Array("uint8", (None,)),
        "truncated": Array("uint8", (None,)),
        "sets": ClassLabel(sets, multi=True),
        "file_name": Text(),
        "voc": Json(nullable=True),
    }
    schema["mask"] = SegmentMask(of="image", ignore=_BORDER)
    absent = () if has_masks else ("mask",)
    read = files.reader(root)

    def load(batch: Sequence[_ImageFile]) -> dict[str, Any]:
        contents = read([one.path for one in batch], [one.nbytes for one in batch])
        for image, content in zip(batch, contents, strict=True):
            _check_size(schema["image"], image, content)
        objects = [image.annotation.objects for image in batch]
        flags = [np.array([one.flags for one in of], np.uint8).reshape(-1, 2) for of in objects]
        columns: dict[str, Any] = {
            "image": contents,
            "boxes": [
                np.array([one.box for one in of], np.float32).reshape(-1, 4) for of in objects
            ],
            "label": [[one.name for one in of] for of in objects],
            "difficult": [each[:, 0] for each in flags],
            "truncated": [each[:, 1] for each in flags],
            "sets": [list(image.sets) for image in batch],
            "file_name": [image.name for image in batch],
            "voc": [_stored(image.annotation.record) for image in batch],
        }
        columns["mask"] = _masks(files, batch)
        return columns

    source = Source(
        kind="voc",
        schema=schema,
        items=images,
        sizes=[image.nbytes for image in images],
        name=lambda image: _path(image).name,
        load=load,
        place=Path(public_url(root)).name,
        where=full_place(root),
        names_classes=True,
        left_out=left_out,
        stamp=lambda image: image.stamp,
        file=lambda image: image.name,
        optional=("file_name", "voc", *absent),
        absent=absent,
        unit="image",
    )
    return run_ingest(source, dst, **options)


def _masks(files: SourceFiles, batch: Sequence[_ImageFile]) -> list[bytes | None]:
    """Read the segmentations; None for an image without one."""
    read = iter(files.contents([image.mask for image in batch if image.mask]))
    return [next(read) if image.mask else None for image in batch]


def _stored(record: bytes) -> StoredJson | None:
    return None if record == b"null" else StoredJson(record)


def _check_size(image_type: Image, image: _ImageFile, content: Buffer) -> None:
    """Refuse an image of another size than its annotation gives it, whose boxes may be, too."""
    if not all(image.annotation.size):
        return
    try:
        height, width, _ = image_type.parse_shape(content)
    except ValueError:  # damaged: the error of the tensor names the item and the reason
        return
    if (width, height) != image.annotation.size:
        expected = image.annotation.size
        raise InvalidInputError(
            f"{image.name!r} is {width} × {height}, but its annotation gives"
            f" {expected[0]} × {expected[1]} (width × height)"
            "\ncorrect the annotation, whose boxes may be of another size, too, or leave the image"
            " out: on_error='skip'",
            item=image.name,
            expected=expected,
            actual=(width, height),
        )


def _path(image: _ImageFile) -> PurePath:
    return PurePath(image.path)


def _image_files(
    root: str, files: SourceFiles, left_out: list[SkippedItem] | None
) -> list[_ImageFile]:
    """Return images with their objects; invalid annotations are errors, or ``left_out``."""
    shown = public_url(root)
    sizes = {
        PurePath(path[len(root) :].lstrip("/\\")).as_posix(): (path, nbytes)
        for path, nbytes in files.below(root).items()
    }
    found = _found(sizes)
    if not found:
        has_folder = any(name.startswith(f"{_FOLDER}/") for name in sizes)
        message = (
            f"no images in {_FOLDER!r} of {shown!r}"
            if has_folder
            else f"no images in a folder {_FOLDER!r} of {shown!r}, nor beside XML files"
            "\npass the folder that contains them"
        )
        raise InvalidInputError(message, src=shown)
    sets = _read_sets(sizes, files)
    nothing = ("", 0)
    annotations = [sizes.get(annotation, nothing)[0] for _, annotation in found]
    contents = iter(files.contents([path for path in annotations if path]))
    images: list[_ImageFile] = []
    for (name, _), annotation in zip(found, annotations, strict=True):
        (path, nbytes), stem = sizes[name], PurePath(name).stem
        content = next(contents) if annotation else None
        try:
            read = _Annotation() if content is None else _read(content, public_url(annotation))
        except InvalidInputError as error:
            if left_out is None:
                raise
            left_out.append(SkippedItem(PurePath(path).name, error.message.splitlines()[0]))
            continue
        mask = sizes.get(f"SegmentationClass/{stem}.png", nothing)[0] or None
        of_sets = sorted(one for one, stems in sets.items() if stem in stems)
        folder = name.partition("/")[0]
        if folder not in (_FOLDER, name):  # beside their annotations
            of_sets = [folder]
        stamp = (files.stamp(path), mask and files.stamp(mask), read.record, of_sets)
        images.append(_ImageFile(path, nbytes, read, mask, tuple(of_sets), name, stamp))
    if not images:
        raise no_rows("voc", left_out or ())
    return images


def _found(sizes: Mapping[str, tuple[str, int]]) -> list[tuple[str, str]]:
    """Return names of images, each with that of its annotation, which may be beside it."""
    names = [name for name in sizes if PurePath(name).suffix.lower() in IMAGE_ENDINGS]
    listed = [name for name in names if PurePath(name).parent.as_posix() == _FOLDER]
    if listed or any(name.startswith(f"{_FOLDER}/") for name in sizes):
        return [(name, f"Annotations/{PurePath(name).stem}.xml") for name in listed]
    annotated = {PurePath(name).parent for name in sizes if name.endswith(".xml")}
    return [
        (name, PurePath(name).with_suffix(".xml").as_posix())
        for name in names
        if PurePath(name).parent in annotated
    ]


def _read_sets(sizes: Mapping[str, tuple[str, int]], files: SourceFiles) -> dict[str, set[str]]:
    """Return sets of images; files of a class (``cat_train.txt``), with 1 and -1, are not sets."""
    names = [
        name
        for name in sizes
        if PurePath(name).parent.as_posix() == "ImageSets/Main" and name.endswith(".txt")
    ]
    sets: dict[str, set[str]] = {}
    contents = files.contents([sizes[name][0] for name in names])
    for name, content in zip(names, contents, strict=True):
        try:
            text = bytes(content or b"").decode()
        except UnicodeDecodeError as error:
            shown = public_url(sizes[name][0])
            raise InvalidInputError(f"{shown!r} is not text: {error}", src=shown) from error
        lines = [line.split() for line in text.splitlines() if line.strip()]
        if all(len(line) == 1 for line in lines):
            sets[PurePath(name).stem] = {line[0] for line in lines}
    return sets


def _read(content: bytes, shown: str) -> _Annotation:
    content = bytes(content)
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:  # an entity can stand for gigabytes
        raise InvalidInputError(f"{shown!r} declares entities, as no VOC file does", src=shown)
    try:
        root = ET.fromstring(content)  # noqa: S314 - without entities, see above
        width, height = (int(root.findtext(f"size/{side}") or 0) for side in ("width", "height"))
        objects = tuple(_read_object(one, (width, height)) for one in root.iter("object"))
        record = msgspec.json.encode(_as_json(root), order="sorted")
        return _Annotation(objects, (width, height), record)
    except (ET.ParseError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{shown!r} is not a VOC annotation: {error}", src=shown) from error


def _as_json(element: ET.Element) -> Any:
    """Return an element's text, or its children by tag; objects and their parts are lists."""
    if not len(element):
        return element.text or ""
    members: dict[str, Any] = {}
    for child in element:
        value = _as_json(child)
        if child.tag in _LISTED or child.tag in members:
            known = members.setdefault(child.tag, [])
            if not isinstance(known, list):
                known = members[child.tag] = [known]
            cast("list[Any]", known).append(value)
        else:
            members[child.tag] = value
    return members


def _read_object(element: ET.Element, size: tuple[int, int]) -> _Object:
    name, box = element.findtext("name"), element.find("bndbox")
    if not name or box is None:
        raise ValueError("an object lacks its name or bndbox")
    corners = [float(box.findtext(corner) or "nan") for corner in _CORNERS]
    if not np.isfinite(corners).all():
        raise ValueError(f"the bndbox of {name!r} lacks a corner")
    left, top, right, bottom = corners
    problem = box_problem((left - 1, top - 1, right, bottom), size)
    if problem is not None:
        raise ValueError(f"the bndbox of {name!r} is {corners}, {problem}")
    flags = [int(element.findtext(flag) or 0) for flag in ("difficult", "truncated")]
    return _Object(name, (left - 1, top - 1, right, bottom), (flags[0], flags[1]))
