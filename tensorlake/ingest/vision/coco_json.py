"""A COCO file as arrays: its annotations in the order of the images, one array per member.

    annotation   0 1 2 | 3 | 4 5 …          offsets   0 3 4 …     of each image's annotations
    boxes, ids, codes, …  one row each, so that a batch of images is a slice of every array

The file is parsed into typed values; errors name the position in the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.ingest.engine.source_files import SourceFiles, is_url
from tensorlake.ingest.vision.boxes import FLOAT32_MAX, are_boxes, box_problem
from tensorlake.ingest.vision.coco_records import (
    Annotation,
    Category,
    CocoImage,
    Records,
    canonical_record,
    digest_record,
    read_records,
)
from tensorlake.storage import public_url
from tensorlake.types import Ragged, RaggedColumn, offsets_of

__all__ = ["CocoFile", "Table", "read_coco"]

_EMPTY = (b"", b"null")
T = TypeVar("T")


class _Document(msgspec.Struct, frozen=True):
    images: list[CocoImage] | None = None
    annotations: list[Annotation] | None = None
    categories: list[Category] | None = None


class _Parts(msgspec.Struct, frozen=True):
    """A file whose images and annotations are parsed one by one."""

    images: list[msgspec.Raw] | None = None
    annotations: list[msgspec.Raw] | None = None
    categories: list[Category] | None = None


class _Named(msgspec.Struct, frozen=True):
    """Members that name an invalid image or annotation."""

    file_name: Any = None
    id: Any = None
    image_id: Any = None


@dataclass(slots=True)
class _Wrong:
    """Errors of annotations, by the id of their image; and of images.

    Attributes:
        places: Positions in the file of the images and of the annotations that are left, if any
            were left out.
    """

    annotations: dict[int, str] = field(default_factory=dict[int, str])
    images: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    places: tuple[list[int], list[int]] | None = None

    @property
    def first(self) -> str | None:
        """The first of them, in words."""
        images = (f"image {name!r} is {reason}" for name, reason in self.images)
        return next(images, None) or next(iter(self.annotations.values()), None)


@dataclass(frozen=True, slots=True)
class Table:
    """One value of each annotation."""

    values: np.ndarray
    offsets: np.ndarray

    def of(self, images: range) -> Ragged:
        """Return the values of some images' annotations."""
        bounds = self.offsets[images.start : images.stop + 1]
        part = self.values[bounds[0] : bounds[-1]]
        shapes = np.empty((len(images), part.ndim), np.int64)
        shapes[:, 0] = np.diff(bounds)
        shapes[:, 1:] = part.shape[1:]
        return Ragged(RaggedColumn(part.reshape(-1), shapes), inner=part.shape[1:])


@dataclass(frozen=True)
class CocoFile:
    """The contents of a file.

    Attributes:
        images: Images, in the order of the file.
        annotations: Annotations, in the order of the images.
        offsets: Offsets of each image's annotations.
        categories: Categories, sorted by id.
        strays: Annotations of images that are not listed.
        header: All members of the file but its images and annotations.
        image_records: The text of each image in the file.
        records: The text of each annotation.
        wrong_annotations: Errors of annotations that were left out, by the id of their image.
        wrong_images: Names and errors of images that were left out.
    """

    path: str
    images: Sequence[CocoImage]
    annotations: Sequence[Annotation]
    offsets: np.ndarray
    categories: Sequence[Category]
    strays: Sequence[Annotation]
    header: Mapping[str, Any]
    image_records: Sequence[msgspec.Raw]
    records: Sequence[msgspec.Raw]
    wrong_annotations: Mapping[int, str] = field(default_factory=dict[int, str])
    wrong_images: Sequence[tuple[str, str]] = ()

    def table(self, values: np.ndarray) -> Table:
        """Return one value per annotation, as a table indexed by image."""
        return Table(values, self.offsets)

    def column(self, member: str, dtype: str) -> Table:
        """Return a member that is a number."""
        numbers = map(attrgetter(member), self.annotations)
        return self.table(np.fromiter(numbers, dtype, len(self.annotations)))

    def areas(self) -> Table:
        """Return the areas; NaN where they are missing or null."""
        each = [math.nan if one.area is None else one.area for one in self.annotations]
        return self.table(np.array(each, np.float32))

    def check_numbers(self) -> None:
        """Refuse annotations without a box or with an impossible one, and numbers too large.

        Raises:
            InvalidInputError: It names the first such annotation.
        """
        if self._are_numbers_fine():
            return
        owners = np.repeat(np.arange(len(self.images)), np.diff(self.offsets)).tolist()
        for one, row in zip(self.annotations, owners, strict=True):
            problem = _number_problem(one, self.images[row])
            if problem is not None:
                raise self.wrong(one, problem[0])

    def _are_numbers_fine(self) -> bool:
        """Check all numbers at once; points need a closer look."""
        boxes = [one.bbox for one in self.annotations]
        if msgspec.UNSET in boxes or any(one.keypoints for one in self.annotations):
            return False
        xywh = np.array(boxes, np.float64).reshape(-1, 4)
        areas = np.array([one.area or 0 for one in self.annotations], np.float64)
        corners = np.concatenate((xywh[:, :2], xywh[:, :2] + xywh[:, 2:]), axis=1)
        sizes = np.array([(one.width, one.height) for one in self.images], np.int64)
        is_large = np.abs(areas) > FLOAT32_MAX
        of_each = np.repeat(sizes, np.diff(self.offsets), axis=0)
        return are_boxes(corners, of_each) and not bool(is_large.any())

    def class_names(self, row: int) -> list[str]:
        """Return the names of the classes of an image's objects; captions have none."""
        names = self.names
        start, stop = self.offsets[row : row + 2].tolist()
        return [names.get(one.category_id, "") for one in self.annotations[start:stop]]

    @cached_property
    def names(self) -> Mapping[int | None, str]:
        """The names of the categories, by id."""
        return {one.id: str(one.name) for one in self.categories}

    def boxes(self) -> Table:
        """Return the boxes, as corners; their numbers were checked before."""
        each = list(map(attrgetter("bbox"), self.annotations))
        xywh = np.array(each, np.float32).reshape(-1, 4)
        return self.table(np.concatenate((xywh[:, :2], xywh[:, :2] + xywh[:, 2:]), axis=1))

    def check_categories(self) -> None:
        """Refuse annotations of a category that the file does not list.

        Raises:
            InvalidInputError: It names the first such annotation.
        """
        numbers = [annotation.category_id for annotation in self.annotations]
        unlisted = set(numbers) - self.names.keys()
        if unlisted:
            at = next(at for at, number in enumerate(numbers) if number in unlisted)
            what = f"category {numbers[at]!r}, which it does not list"
            raise self.wrong(self.annotations[at], what)

    def has_segmentations(self) -> bool:
        """Whether any annotation has outlines or runs."""
        return any(
            bytes(one.segmentation).strip(b" []{}\r\n\t") not in _EMPTY for one in self.annotations
        )

    def segmentations(self, start: int, stop: int) -> list[Any]:
        """Parse what is written of some annotations."""
        raw = [annotation.segmentation for annotation in self.annotations[start:stop]]
        content = b"[%b]" % b",".join(raw)
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError:  # Python's NaN and Infinity
            return json.loads(content)

    def points(self, count: int) -> Table:
        """Return ``count`` points per object; zeros for an object without points.

        Raises:
            InvalidInputError: An object has more, or fewer.
        """
        nothing = [0.0] * 3 * count
        each = [annotation.keypoints or nothing for annotation in self.annotations]
        for annotation, points in zip(self.annotations, each, strict=True):
            if len(points) != len(nothing):
                what = f"{len(points)} numbers as keypoints, where others have {count} × 3"
                raise self.wrong(annotation, what)
        return self.table(np.array(each, np.float32).reshape(-1, count, 3))

    def without(self, rows: Collection[int]) -> CocoFile:
        """Return the file without some images."""
        counts = np.diff(self.offsets)
        is_kept = np.ones(len(counts), np.bool_)
        is_kept[list(rows)] = False
        images, objects = np.flatnonzero(is_kept), np.flatnonzero(np.repeat(is_kept, counts))
        return replace(
            self,
            images=_taken(self.images, images),
            image_records=_taken(self.image_records, images),
            annotations=_taken(self.annotations, objects),
            records=_taken(self.records, objects),
            offsets=offsets_of(counts[is_kept]),
        )

    def problems(self, *, points: int | None, masks: bool) -> dict[int, tuple[str, str]]:
        """Return by row the first thing that is wrong with an object, and the tensor it is for.

        Args:
            points: Number of points per object; None: do not check points.
            masks: Whether polygons are to be filled, which requires the size of the image.
        """
        known = {category.id for category in self.categories}
        found: dict[int, tuple[str, str]] = {}
        bounds = self.offsets.tolist()
        for row, image in enumerate(self.images):
            if image.id in self.wrong_annotations:
                continue
            has_size = image.height > 0 and image.width > 0
            for one in self.annotations[bounds[row] : bounds[row + 1]]:
                what = None
                numbers = _number_problem(one, image)
                if numbers is not None:
                    what = numbers
                elif one.category_id not in known:
                    what = f"category {one.category_id!r}, which the file does not list", "label"
                elif points is not None and len(one.keypoints or ()) not in (0, 3 * points):
                    count = len(one.keypoints or ())
                    what = f"{count} numbers as keypoints, not {points} × 3", "keypoints"
                elif masks and not has_size and _is_outline(one.segmentation):
                    what = "outlines, but the image has no height and width", "mask"
                if what is not None:
                    found[row] = f"annotation {one.id} has {what[0]}", what[1]
                    break
        return found

    def record_of(self, row: int) -> bytes:
        """Return all members of an image and its annotations, as canonical JSON.

        Raises:
            InvalidInputError: It has text that is not Unicode.
        """
        start, stop = self.offsets[row : row + 2].tolist()
        try:
            return canonical_record(self.image_records[row], self.records[start:stop])
        except ValueError as error:  # a half of a surrogate pair
            name = self.images[row].file_name
            message = f"the record of {name!r} is not text: {error}"
            raise InvalidInputError(message, src=self.path, item=name) from error

    def digest_of(self, row: int) -> str:
        """Return a digest of an image, its annotations, and the names of their categories.

        A category may get another name, which changes its objects, but not their records.
        """
        start, stop = self.offsets[row : row + 2].tolist()
        names = "\0".join(self.class_names(row))
        return digest_record(self.image_records[row], self.records[start:stop], names)

    def wrong(self, annotation: Annotation, what: str) -> InvalidInputError:
        """Return the error of an annotation that has something wrong."""
        name = next(one.file_name for one in self.images if one.id == annotation.image_id)
        message = f"annotation {annotation.id} of {name!r} has {what}"
        return InvalidInputError(message, src=self.path, annotation=annotation.id)


def read_coco(path: str, files: SourceFiles, *, is_strict: bool = True) -> CocoFile:
    """Read a COCO file.

    Args:
        path: Path or URL of it.
        files: Opens it.
        is_strict: Whether a single invalid image or annotation is an error.

    Raises:
        InvalidInputError: The file is not a COCO file; the message names the position.
    """
    described = public_url(path)
    content = _content(path, files, described)
    document, wrong = _parsed(content, described, is_strict=is_strict)
    images, annotations = document.images, document.annotations
    if images is None or annotations is None:
        lacks = "'images'" if images is None else "'annotations'"
        raise InvalidInputError(
            f"{described!r} is not a COCO file: it lacks {lacks}", src=described
        )
    if not images:
        raise InvalidInputError(f"{described!r} lists no images", src=described)
    if any(one.segments_info is not None for one in annotations):
        raise InvalidInputError(
            f"{described!r} contains panoptic segments, whose masks are separate images"
            "\npass a file of instances, keypoints or captions",
            src=described,
        )
    ids = np.fromiter((image.id for image in images), np.int64, len(images))
    order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(twice):
        pair = [images[at].file_name for at in order[twice[0] : twice[0] + 2]]
        message = (
            f"{described!r} lists two images {ids[order[twice[0]]]}:"
            f" {shown(pair[0])}, {shown(pair[1])}"
        )
        raise InvalidInputError(message, src=described)
    wanted = np.fromiter(map(attrgetter("image_id"), annotations), np.int64, len(annotations))
    rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    is_stray = ids[rows] != wanted
    by_image = np.argsort(np.where(is_stray, len(ids), rows), kind="stable")
    stop = len(annotations) - int(np.count_nonzero(is_stray))
    said = _records(content, described, wrong)
    return CocoFile(
        described,
        images,
        _taken(annotations, by_image[:stop]),
        offsets_of(np.bincount(rows[~is_stray], minlength=len(ids))),
        sorted(document.categories or (), key=attrgetter("id")),
        _taken(annotations, by_image[stop:]),
        said.header,
        said.images,
        _taken(said.annotations, by_image[:stop]),
        wrong.annotations,
        wrong.images,
    )


def _number_problem(one: Annotation, image: CocoImage) -> tuple[str, str] | None:
    """Return why the numbers of an annotation cannot be stored, and the tensor they are for."""
    if one.bbox is msgspec.UNSET:
        return "no 'bbox'", "boxes"
    x, y, width, height = one.bbox
    problem = box_problem((x, y, x + width, y + height), (image.width, image.height))
    if problem is not None:
        return f"the bbox {[*one.bbox]}, {problem}", "boxes"
    if one.area is not None and abs(one.area) > FLOAT32_MAX:
        return f"the area {one.area}, which float32 cannot hold", "area"
    if not all(abs(number) <= FLOAT32_MAX for number in one.keypoints or ()):
        return "keypoints that float32 cannot hold", "keypoints"
    return None


def _is_outline(segmentation: msgspec.Raw) -> bool:
    said = bytes(segmentation).strip()
    return said.startswith(b"[") and said.strip(b" []\r\n\t") != b""


def _taken(items: Sequence[T], positions: np.ndarray) -> list[T]:
    return list(map(items.__getitem__, positions.tolist()))


def _content(path: str, files: SourceFiles, described: str) -> bytes:
    if not is_url(path) and Path(path).is_dir():
        message = f"{described!r} is a folder\npass the JSON file first, then the folder of images"
        raise InvalidInputError(message, src=described)
    return files.content(path)


def _records(content: bytes, described: str, wrong: _Wrong) -> Records:
    """Return the records of the images and annotations that are left."""
    try:
        records = read_records(content)
    except ValueError as error:
        raise InvalidInputError(f"{described!r} is not text: {error}", src=described) from error
    if wrong.places is None:
        return records
    images, annotations = wrong.places
    return Records(
        records.header,
        [records.images[at] for at in images],
        [records.annotations[at] for at in annotations],
    )


def _parsed(content: bytes, described: str, *, is_strict: bool) -> tuple[_Document, _Wrong]:
    try:
        return _decoded(content), _Wrong()
    except msgspec.ValidationError as error:
        parts = _parts(content)
        found = None if parts is None else _decoded_singly(parts)
        if found is not None and not is_strict:
            return found
        if found is not None and (reason := found[1].first):
            raise InvalidInputError(
                f"{described!r}: {reason}\ncorrect it, or leave its image out: on_error='skip'",
                src=described,
            ) from error
        raise InvalidInputError(
            f"{described!r} is not a COCO file: {error}", src=described
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{described!r} is not JSON: {error}", src=described) from error


def _decoded(content: bytes) -> _Document:
    try:
        return msgspec.json.decode(content, type=_Document, strict=False)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # Python writes NaN, and other programs UTF-16
        loaded: Any = json.loads(content)
    if isinstance(loaded, dict):
        for one in loaded.get("annotations") or ():
            if isinstance(one, dict) and "segmentation" in one:
                one["segmentation"] = msgspec.Raw(json.dumps(one["segmentation"]).encode())
    return msgspec.convert(loaded, _Document, strict=False)


def _parts(content: bytes) -> _Parts | None:
    """Split a file into images and annotations; None if it is invalid as a whole."""
    try:
        return msgspec.json.decode(content, type=_Parts, strict=False)
    except msgspec.DecodeError:
        return None


def _decoded_singly(parts: _Parts) -> tuple[_Document, _Wrong]:
    """Parse images and annotations one by one, and collect the invalid ones."""
    wrong = _Wrong(places=([], []))
    assert wrong.places is not None, "it was just given"
    of_images, of_annotations = wrong.places
    images: list[CocoImage] = []
    annotations: list[Annotation] = []
    for at, raw in enumerate(parts.images or ()):
        try:
            images.append(msgspec.json.decode(raw, type=CocoImage, strict=False))
            of_images.append(at)
        except msgspec.ValidationError as error:
            name = _named(raw).file_name
            name = name if isinstance(name, str) else f"images[{at}]"
            wrong.images.append((name, f"not an image of COCO: {error}"))
    for at, raw in enumerate(parts.annotations or ()):
        try:
            annotations.append(msgspec.json.decode(raw, type=Annotation, strict=False))
            of_annotations.append(at)
        except msgspec.ValidationError as error:
            named = _named(raw)
            told = f"annotation {at if named.id is None else named.id} is wrong: {error}"
            if isinstance(named.image_id, int):
                told = told.replace(" is wrong", f" of image {named.image_id} is wrong")
                wrong.annotations.setdefault(named.image_id, told)
            else:
                wrong.images.append((f"annotations[{at}]", told))
    document = _Document(
        None if parts.images is None else images,
        None if parts.annotations is None else annotations,
        parts.categories,
    )
    return document, wrong


def _named(raw: msgspec.Raw) -> _Named:
    try:
        return msgspec.json.decode(raw, type=_Named)
    except msgspec.DecodeError:  # not even an object
        return _Named()
